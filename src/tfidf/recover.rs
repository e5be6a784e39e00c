//! BM25 weights → the counts that they were made of.

use super::{Side, TermWeights, Tf, Weighting};
use crate::matrix::{Csr, CsrBuilder, row};

impl Weighting {
    /// The rows of training documents as queries, for weightings like BM25, whose rows tell the counts: with
    /// `r = w / (k₁ + 1 − w)`, where w is the weight of a term without its idf, a count is `κ r`, and the length
    /// of the document `κ Σ r`, with `κ = k₁ (1 − b + b · len / mean len)`.
    ///
    /// `None` for other weightings, and unless all rows are those of integer counts, to the bit.
    pub(crate) fn queries_of(&self, rows: &Csr, terms: TermWeights<'_>) -> Option<Csr> {
        let mut room = Vec::new();
        let mut queries = CsrBuilder::with_capacity(rows.rows(), rows.nnz());
        for index in 0..rows.rows() {
            let (ids, weights) = row(&rows.view(), index);
            let counts = self.counts((ids, weights), terms)?;
            let mut weigh = |side| {
                let (mut ids, mut values) = (ids.to_vec(), counts.clone());
                let kept = self.weigh(side, (&mut ids, &mut values), terms, &mut room);
                ids.into_iter().zip(values).take(kept)
            };
            let again = weigh(Side::Document).map(|(_, weight)| weight.to_bits());
            if !again.eq(weights.iter().map(|weight| weight.to_bits())) {
                return None;
            }
            queries.push_row(weigh(Side::Query));
        }
        Some(queries.build(rows.cols()))
    }

    /// The counts of a row, rounded to integers.
    fn counts(&self, (ids, weights): (&[u32], &[f32]), terms: TermWeights<'_>) -> Option<Vec<f32>> {
        if self.document.tf != Tf::Okapi || self.document.unit_length || self.k1 <= 0.0 {
            return None;
        }
        let has_idf = self.has_idf(self.document);
        let ratio = |(&term, &weight): (&u32, &f32)| {
            let idf = if has_idf { terms.idf[term as usize] } else { 1.0 };
            let tf = f64::from(weight) / idf;
            tf / (self.k1 + 1.0 - tf)
        };
        let ratios: Vec<f64> = ids.iter().zip(weights).map(ratio).collect();
        // κ = fixed + slope · len
        let (fixed, slope) = if terms.mean_length > 0.0 {
            (self.k1 * (1.0 - self.b), self.k1 * self.b / terms.mean_length)
        } else {
            (self.k1, 0.0)
        };
        let kappa = fixed / (1.0 - slope * ratios.iter().sum::<f64>());
        let rounded = |kappa: f64| ratios.iter().map(move |ratio| (kappa * ratio).round());
        // Rounded counts give the exact length, and that the exact κ.
        let length: f64 = rounded(kappa).sum();
        Some(rounded(fixed + slope * length).map(super::narrow).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::csr;

    fn rows_of(
        weighting: &Weighting,
        side: Side,
        counts: &[Vec<u16>],
        terms: TermWeights<'_>,
    ) -> Csr {
        let mut rows = CsrBuilder::default();
        for counts in counts {
            let found = (0u32..).zip(counts).filter(|&(_, &count)| count > 0);
            let (mut ids, mut values): (Vec<u32>, Vec<f32>) =
                found.map(|(term, &count)| (term, f32::from(count))).unzip();
            let row = (&mut ids[..], &mut values[..]);
            let kept = weighting.weigh(side, row, terms, &mut Vec::new());
            rows.push_row(ids.into_iter().zip(values).take(kept));
        }
        rows.build(terms.idf.len())
    }

    fn bits(rows: &Csr) -> (Vec<u64>, Vec<u32>, Vec<u32>) {
        let bounds = rows.indptr().raw_storage().to_vec();
        (bounds, rows.indices().to_vec(), rows.data().iter().map(|value| value.to_bits()).collect())
    }

    proptest! {
        #[test]
        fn queries_come_back(
            counts in prop::collection::vec(prop::collection::vec(0u16..200, 6), 0..12),
            dfs in prop::collection::vec(1u32..1000, 6),
            (k1, b) in (0.1f64..5.0, 0.0f64..0.99),
        ) {
            let weighting: Weighting = "bm25".parse().unwrap();
            let weighting = weighting.with_bm25(k1, b).unwrap();
            let idf: Vec<f64> = dfs.iter().map(|&df| weighting.idf(df, 1000)).collect();
            let total: f64 = counts.iter().flatten().copied().map(f64::from).sum();
            let terms = TermWeights { idf: &idf, mean_length: total / counts.len().max(1) as f64 };
            let documents = rows_of(&weighting, Side::Document, &counts, terms);
            let queries = rows_of(&weighting, Side::Query, &counts, terms);
            let found = weighting.queries_of(&documents, terms);
            prop_assert_eq!(found.as_ref().map(bits), Some(bits(&queries)));
        }
    }

    /// Where rows do not tell counts, nothing is guessed.
    #[test]
    fn others_are_refused() {
        let bm25: Weighting = "bm25".parse().unwrap();
        let terms = TermWeights { idf: &[1.0, 2.0], mean_length: 3.0 };
        let others = [bm25.with_bm25(0.0, 0.75), bm25.with_bm25(1.2, 1.0), "ltc.lnc".parse().ok()];
        for weighting in others.map(Option::unwrap) {
            let rows = rows_of(&weighting, Side::Document, &[vec![2, 1]], terms);
            assert!(weighting.queries_of(&rows, terms).is_none(), "{weighting}");
        }
        // A weight that no integer has, two beyond the limit, and a term without idf.
        for (weight, idf) in [(1.234_567, 1.0), (9.0, 1.0), (f32::INFINITY, 1.0), (1.0, 0.0)] {
            let rows = csr(1, vec![0, 1], vec![0], vec![weight]).unwrap();
            let terms = TermWeights { idf: &[idf], mean_length: 3.0 };
            assert!(bm25.queries_of(&rows, terms).is_none(), "{weight}");
        }
    }
}
