//! Converts the counts of a row to weights.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::scheme::{IdfVariant, Scheme, Tf};
use crate::rows::powers::power;

/// The code of BM25: Okapi term frequency and idf for documents, plain counts for queries.
const BM25: &str = "kkn.nnn";

/// A term weighting: one SMART scheme for documents, one for queries, and their parameters.
///
/// ```
/// use classify::text::tfidf::Weighting;
///
/// let weighting: Weighting = "ltc".parse().unwrap();
/// assert_eq!(weighting.to_string(), "ltc");
/// assert_eq!("bm25".parse::<Weighting>().unwrap().to_string(), "kkn.nnn");
/// assert!("xyz".parse::<Weighting>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredWeighting", into = "StoredWeighting")]
pub struct Weighting {
    pub(super) document: Scheme,
    query: Scheme,
    idf_power: f64,
    chi2_power: f64,
    pub(super) k1: f64,
    pub(super) b: f64,
}

impl Default for Weighting {
    fn default() -> Self {
        let ltc = Scheme { tf: Tf::Logarithm, df: IdfVariant::Idf, has_unit_length: true };
        Self { document: ltc, query: ltc, idf_power: 1.0, chi2_power: 0.0, k1: 1.2, b: 0.75 }
    }
}

impl FromStr for Weighting {
    type Err = String;

    fn from_str(code: &str) -> Result<Self, String> {
        let code = match code {
            "sklearn" => "nsc",
            "bm25" => BM25,
            code => code,
        };
        let (document, query) = code.split_once('.').unwrap_or((code, code));
        let unknown = |()| {
            format!(
                "`{code}` is not a weighting; use a SMART code such as ltc or ltc.lnc \
                 (tf n l a b L k, idf n t p s k, norm n c), `sklearn` (nsc) or `bm25` ({BM25})"
            )
        };
        let document: Scheme = document.parse().map_err(unknown)?;
        let query: Scheme = query.parse().map_err(unknown)?;
        if query.df != IdfVariant::None && query.df != document.df {
            return Err(format!(
                "`{code}`: the idf letter of queries must be n or the same as for documents; \
                 use for example ltc.lnc"
            ));
        }
        Ok(Self { document, query, ..Self::default() })
    }
}

impl fmt::Display for Weighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.document == self.query {
            write!(f, "{}", self.document)
        } else {
            write!(f, "{}.{}", self.document, self.query)
        }
    }
}

impl Weighting {
    /// Sets the exponent of the idf. Returns `None` unless it is between 0 and 10.
    #[must_use]
    pub fn with_idf_power(self, idf_power: f64) -> Option<Self> {
        (0.0..=10.0).contains(&idf_power).then_some(Self { idf_power, ..self })
    }

    /// Sets the exponent of χ² / N. Returns `None` unless it is between 0 and 10.
    #[must_use]
    pub fn with_chi2_power(self, chi2_power: f64) -> Option<Self> {
        (0.0..=10.0).contains(&chi2_power).then_some(Self { chi2_power, ..self })
    }

    /// The exponent of χ² / N; 0 if labels do not affect the weights.
    pub fn chi2_power(&self) -> f64 {
        self.chi2_power
    }

    /// Sets the BM25 parameters. Returns `None` unless `k1` is finite, `k1 >= 0` and `0 <= b <= 1`.
    #[must_use]
    pub fn with_bm25(self, k1: f64, b: f64) -> Option<Self> {
        let is_valid = k1.is_finite() && k1 >= 0.0 && (0.0..=1.0).contains(&b);
        is_valid.then_some(Self { k1, b, ..self })
    }

    /// Returns the weighting for features that are already weights. It omits tf and idf, but keeps
    /// the length normalization and the power of χ².
    #[must_use]
    pub fn of_weights(self) -> Self {
        let keep = |scheme: Scheme| Scheme { tf: Tf::Natural, df: IdfVariant::None, ..scheme };
        Self { document: keep(self.document), query: keep(self.query), ..self }
    }

    /// Returns whether documents and queries are unit vectors. Similarities are then cosines.
    pub fn is_cosine(&self) -> bool {
        self.document.has_unit_length && self.query.has_unit_length
    }

    /// Returns the code and its common name, if any.
    ///
    /// ```
    /// let weighting: classify::text::tfidf::Weighting = "bm25".parse().unwrap();
    /// assert_eq!(weighting.name(), "kkn.nnn (bm25)");
    /// ```
    pub fn name(&self) -> String {
        let code = self.to_string();
        if code == BM25 { format!("{code} (bm25)") } else { code }
    }

    /// Returns the formula as text. It ignores the special case of counts below 1 in `l`.
    ///
    /// ```
    /// let ntc: classify::text::tfidf::Weighting = "ntc".parse().unwrap();
    /// let formula = "weight = c · ln(N / df)^p, divided by the row's Euclidean length; p = 1";
    /// assert_eq!(ntc.formula(), formula);
    /// ```
    pub fn formula(&self) -> String {
        let mut text = if self.document == self.query {
            format!("weight = {}", self.document.formula())
        } else {
            let document = self.document.formula();
            let query = self.query.formula();
            format!("document weight = {document}; query weight = {query}")
        };
        if self.document.df != IdfVariant::None {
            let _ = write!(text, "; p = {}", self.idf_power);
        }
        if self.chi2_power > 0.0 {
            let _ = write!(text, "; times (max chi2 / N)^{} before the norm", self.chi2_power);
        }
        if self.document.tf == Tf::Okapi || self.query.tf == Tf::Okapi {
            let _ = write!(text, "; k1 = {}, b = {}", self.k1, self.b);
        }
        text
    }

    /// Returns the idf, raised to its exponent, of a term that occurs in `df` of `documents`
    /// documents.
    pub(crate) fn idf(&self, df: u32, documents: u64) -> f64 {
        let n = documents as f64;
        let df = f64::from(df);
        let idf = match self.document.df {
            IdfVariant::None => return 1.0,
            IdfVariant::Idf => libm::log(n / df),
            IdfVariant::Probabilistic => libm::log((n - df) / df).max(0.0),
            IdfVariant::Smooth => libm::log((1.0 + n) / (1.0 + df)) + 1.0,
            IdfVariant::Okapi => libm::log(1.0 + (n - df + 0.5) / (df + 0.5)),
        };
        if self.idf_power.to_bits() == 1f64.to_bits() { idf } else { power(idf, self.idf_power) }
    }

    /// Returns whether queries are weighted like documents.
    pub fn is_symmetric(&self) -> bool {
        self.document == self.query
    }

    /// Returns whether a scheme multiplies each weight by the factor of its term.
    pub(super) fn has_idf(&self, scheme: Scheme) -> bool {
        // Without any idf, the factor of a term is its χ² factor times its learned factor.
        let without_idf = self.document.df == IdfVariant::None && self.query.df == IdfVariant::None;
        let has_chi2_factor = self.document.df == IdfVariant::None && self.chi2_power > 0.0;
        scheme.df != IdfVariant::None || without_idf || has_chi2_factor
    }

    /// Replaces the counts of a row with weights in place, moves the nonzero weights to the front,
    /// and returns their number. `weights` is a scratch buffer.
    pub(crate) fn weigh(
        &self,
        side: Side,
        ids: &mut [u32],
        values: &mut [f32],
        terms: TermWeights<'_>,
        weights: &mut Vec<f64>,
    ) -> usize {
        let scheme = match side {
            Side::Document => self.document,
            Side::Query => self.query,
        };
        let counts = || values.iter().copied().map(f64::from);
        let total = || counts().sum::<f64>();
        let logarithms = &**LOGARITHMS;
        weights.clear();
        match scheme.tf {
            Tf::Natural => weights.extend(counts()),
            Tf::Logarithm => weights.extend(values.iter().map(|&count| log_tf(count, logarithms))),
            Tf::Boolean => weights.resize(values.len(), 1.0),
            Tf::Augmented => {
                let max = counts().fold(0.0, f64::max);
                weights.extend(counts().map(|count| 0.5 + 0.5 * count / max));
            }
            Tf::LogAverage => {
                let mean = log_tf_of_any(total() / values.len() as f64);
                weights.extend(values.iter().map(|&count| log_tf(count, logarithms) / mean));
            }
            Tf::Okapi => {
                let relative =
                    if terms.mean_length > 0.0 { total() / terms.mean_length } else { 1.0 };
                let k = self.k1 * (1.0 - self.b + self.b * relative);
                weights.extend(counts().map(|count| count * (self.k1 + 1.0) / (count + k)));
            }
        }
        if self.has_idf(scheme) {
            for (weight, &term) in weights.iter_mut().zip(&*ids) {
                *weight *= terms.idf[term as usize];
            }
        }
        let norm = if scheme.has_unit_length {
            weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt()
        } else {
            1.0
        };
        for (value, weight) in values.iter_mut().zip(&*weights) {
            *value = narrow(weight / norm);
        }
        // Move the kept weights in runs, because few weights are omitted.
        let is_kept = |value: &f32| *value != 0.0 && !value.is_nan();
        let Some(mut kept) = values.iter().position(|value| !is_kept(value)) else {
            return values.len();
        };
        let mut start = kept + 1;
        while start < values.len() {
            let run = values[start..].iter().position(|value| !is_kept(value));
            let end = run.map_or(values.len(), |length| start + length);
            ids.copy_within(start..end, kept);
            values.copy_within(start..end, kept);
            kept += end - start;
            start = end + 1;
        }
        kept
    }
}

/// The two sides of a similarity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Training documents.
    Document,
    /// Queries.
    Query,
}

/// Statistics of the training corpus that weights depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TermWeights<'a> {
    /// The factor of each term: its idf, times its χ² factor and its learned factor.
    pub(crate) idf: &'a [f64],
    /// The mean length of a training document: the sum of its counts.
    pub(crate) mean_length: f64,
}

/// Precomputed [`log_tf`] of each value from 1 to 128 whose lower 16 bits are 0, indexed by the
/// upper 16 bits. This includes all integers up to 128, and most counts are such integers.
static LOGARITHMS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let value = |upper: u32| f64::from(f32::from_bits(upper << 16));
    (ONE..=ONE + 7 * 128).map(|upper| 1.0 + libm::log(value(upper))).collect()
});

/// The upper 16 bits of `1f32`. Doubling a value adds 128 to its upper 16 bits.
const ONE: u32 = 1f32.to_bits() >> 16;

/// Returns `1 + ln c`, or `c` if it is below 1, which occurs in given features and in fields with a
/// fractional boost. `table` is [`LOGARITHMS`].
fn log_tf(count: f32, table: &[f64]) -> f64 {
    let bits = count.to_bits();
    let entry = table.get((bits >> 16).wrapping_sub(ONE) as usize);
    match entry.filter(|_| bits.trailing_zeros() >= 16) {
        Some(&logarithm) => logarithm,
        None => log_tf_of_any(count.into()),
    }
}

/// Computes [`log_tf`] without the table.
fn log_tf_of_any(count: f64) -> f64 {
    // The mean of an empty row is NaN, which is returned unchanged.
    if count >= 1.0 { 1.0 + libm::log(count) } else { count }
}

/// Rounds a weight to `f32` and clamps it to the finite range.
#[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
pub(super) fn narrow(weight: f64) -> f32 {
    (weight as f32).clamp(-f32::MAX, f32::MAX)
}

/// A [`Weighting`] in the form stored in the model file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWeighting {
    code: String,
    idf_power: f64,
    chi2_power: f64,
    k1: f64,
    b: f64,
}

impl From<Weighting> for StoredWeighting {
    fn from(weighting: Weighting) -> Self {
        let Weighting { idf_power, chi2_power, k1, b, .. } = weighting;
        Self { code: weighting.to_string(), idf_power, chi2_power, k1, b }
    }
}

impl TryFrom<StoredWeighting> for Weighting {
    type Error = String;

    fn try_from(stored: StoredWeighting) -> Result<Self, String> {
        let weighting: Self = stored.code.parse()?;
        weighting
            .with_idf_power(stored.idf_power)
            .and_then(|weighting| weighting.with_chi2_power(stored.chi2_power))
            .and_then(|weighting| weighting.with_bm25(stored.k1, stored.b))
            .ok_or_else(|| "idf_power, chi2_power, k1 or b is out of range".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::LN_2;

    use super::*;

    /// Returns the weights of three terms with counts 2, 1 and 4. They occur in 1, 2 and 4 of 4
    /// documents, whose mean length is 5.
    fn weights(code: &str, power: f64) -> Vec<(u32, f32)> {
        let weighting: Weighting = code.parse().unwrap();
        let weighting = weighting.with_idf_power(power).unwrap();
        let idf: Vec<f64> = [1, 2, 4].iter().map(|&df| weighting.idf(df, 4)).collect();
        let mut ids = [0, 1, 2];
        let mut values = [2.0, 1.0, 4.0];
        let terms = TermWeights { idf: &idf, mean_length: 5.0 };
        let kept = weighting.weigh(Side::Document, &mut ids, &mut values, terms, &mut Vec::new());
        ids.into_iter().zip(values).take(kept).collect()
    }

    fn assert_close(found: &[(u32, f32)], expected: &[(u32, f64)]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (&(term, weight), &(expected_term, expected)) in found.iter().zip(expected) {
            assert_eq!(term, expected_term);
            assert!((f64::from(weight) - expected).abs() < 1e-6, "{found:?}");
        }
    }

    /// Computed by hand: ln 2 = 0.693147, ln 4 = 1.386294, ln 3 = 1.098612, ln 5 = 1.609438.
    #[test]
    fn every_letter_by_hand() {
        assert_close(&weights("nnn", 1.0), &[(0, 2.0), (1, 1.0), (2, 4.0)]);
        assert_close(&weights("lnn", 1.0), &[(0, 1.693_147), (1, 1.0), (2, 2.386_294)]);
        assert_close(&weights("ann", 1.0), &[(0, 0.75), (1, 0.625), (2, 1.0)]);
        assert_close(&weights("bnn", 1.0), &[(0, 1.0), (1, 1.0), (2, 1.0)]);
        // mean count 7/3: 1 + ln(7/3) = 1.847298
        assert_close(&weights("Lnn", 1.0), &[(0, 0.916_553), (1, 0.541_331), (2, 1.291_776)]);
        // The third term is in every document: ln 1 = 0, omitted.
        assert_close(&weights("ntn", 1.0), &[(0, 2.772_589), (1, LN_2)]);
        assert_close(&weights("ntn", 0.5), &[(0, 2.354_820), (1, 0.832_555)]);
        // p: ln 3, ln 1 = 0, max(0, ln 0) = 0
        assert_close(&weights("npn", 1.0), &[(0, 2.197_225)]);
        // s: ln(5/2)+1, ln(5/3)+1, ln(5/5)+1
        assert_close(&weights("nsn", 1.0), &[(0, 3.832_581), (1, 1.510_826), (2, 4.0)]);
        // c: sqrt(2.772589² + 0.693147²) = 2.857917
        assert_close(&weights("ntc", 1.0), &[(0, 0.970_143), (1, 0.242_536)]);
        // BM25 with length 7 and mean length 5: k = 1.2 (0.25 + 0.75·1.4) = 1.56;
        // idf ln(1+3.5/1.5)=1.203973, ln(1+2.5/2.5)=0.693147, ln(1+0.5/4.5)=0.105361
        assert_close(&weights("bm25", 1.0), &[(0, 1.488_056), (1, 0.595_673), (2, 0.166_758)]);
    }

    #[test]
    fn empty_rows_remain_empty() {
        for code in ["nnn", "ltc", "apc", "btc", "Ltc", "bm25"] {
            let terms = TermWeights { idf: &[], mean_length: 0.0 };
            let weighting: Weighting = code.parse().unwrap();
            let kept = weighting.weigh(Side::Document, &mut [], &mut [], terms, &mut Vec::new());
            assert_eq!(kept, 0);
        }
    }

    #[test]
    fn table_matches_computed_logarithms() {
        let table = &**LOGARITHMS;
        let counts = (0..70_000).map(|count| count as f32);
        let others = [0.5, 0.999, 1.5, 2.3, 127.5, 128.0, 128.5, 1e9, f32::MAX, -1.0, f32::NAN];
        for count in counts.chain(others) {
            let found = log_tf(count, table);
            let expected = log_tf_of_any(count.into());
            assert_eq!(found.to_bits(), expected.to_bits(), "{count}");
        }
        assert!(log_tf_of_any(f64::from(128f32)).to_bits() == table[7 * 128].to_bits());
    }

    #[test]
    fn codes() {
        for code in ["ltc", "ntc", "Lpn", "ann.bnc", "kkn.nnn", "ltc.lnc"] {
            assert_eq!(code.parse::<Weighting>().unwrap().to_string(), code);
        }
        for code in ["", "lt", "ltcc", "xtc", "lxc", "ltx", "ltc.", "ltc.lpc", "nnn.ltc"] {
            assert!(code.parse::<Weighting>().is_err(), "{code}");
        }
        assert!(Weighting::default().with_idf_power(f64::NAN).is_none());
        assert!(Weighting::default().with_bm25(1.0, 1.5).is_none());
    }
}
