//! BM25 weights → the counts that they were made of.

use super::{RawRows, Side, TermWeights, Tf, Weighting};
use crate::rows::matrix::{Csr, row};
use crate::threads::Threads;

impl Weighting {
    /// The counts of training documents, for weightings like BM25, whose rows tell them: with
    /// `r = w / (k₁ + 1 − w)`, where w is the weight of a term without its idf, a count is `κ r`, and the length
    /// of the document `κ Σ r`, with `κ = k₁ (1 − b + b · len / mean len)`.
    ///
    /// `None` for other weightings, and unless all rows are those of integer counts, to the bit.
    pub(crate) fn counts_of(
        &self,
        rows: &Csr,
        terms: TermWeights<'_>,
        threads: &Threads,
    ) -> Option<RawRows> {
        let mut data = Vec::with_capacity(rows.nnz());
        for index in 0..rows.rows() {
            data.extend(self.counts(row(&rows.view(), index), terms)?);
        }
        let indptr = rows.indptr().raw_storage().to_vec();
        let counts = RawRows { indptr, indices: rows.indices().to_vec(), data };
        let mut again = counts.clone();
        self.weigh_rows(Side::Document, &mut again, terms, threads);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        let same = again.indices == counts.indices && bits(&again.data) == bits(rows.data());
        same.then_some(counts)
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
    use crate::rows::matrix::{CsrBuilder, csr};

    fn rows_of(weighting: &Weighting, counts: &[Vec<u16>], terms: TermWeights<'_>) -> Csr {
        let mut rows = CsrBuilder::default();
        for counts in counts {
            let found = (0u32..).zip(counts).filter(|&(_, &count)| count > 0);
            let (mut ids, mut values): (Vec<u32>, Vec<f32>) =
                found.map(|(term, &count)| (term, f32::from(count))).unzip();
            let row = (&mut ids[..], &mut values[..]);
            let kept = weighting.weigh(Side::Document, row, terms, &mut Vec::new());
            rows.push_row(ids.into_iter().zip(values).take(kept));
        }
        rows.build(terms.idf.len())
    }

    proptest! {
        #[test]
        fn counts_come_back(
            counts in prop::collection::vec(prop::collection::vec(0u16..200, 6), 0..12),
            dfs in prop::collection::vec(1u32..1000, 6),
            (k1, b) in (0.1f64..5.0, 0.0f64..0.99),
        ) {
            let weighting: Weighting = "bm25".parse().unwrap();
            let weighting = weighting.with_bm25(k1, b).unwrap();
            let idf: Vec<f64> = dfs.iter().map(|&df| weighting.idf(df, 1000)).collect();
            let total: f64 = counts.iter().flatten().copied().map(f64::from).sum();
            let terms = TermWeights { idf: &idf, mean_length: total / counts.len().max(1) as f64 };
            let rows = rows_of(&weighting, &counts, terms);
            let threads = Threads::available().unwrap();
            let found = weighting.counts_of(&rows, terms, &threads).map(|found| found.data);
            let counts = counts.iter().flatten().filter(|&&count| count > 0);
            prop_assert_eq!(found, Some(counts.map(|&count| f32::from(count)).collect()));
        }
    }

    /// Where rows do not tell counts, nothing is guessed.
    #[test]
    fn others_are_refused() {
        let threads = Threads::available().unwrap();
        let bm25: Weighting = "bm25".parse().unwrap();
        let terms = TermWeights { idf: &[1.0, 2.0], mean_length: 3.0 };
        let others = [bm25.with_bm25(0.0, 0.75), bm25.with_bm25(1.2, 1.0), "ltc.lnc".parse().ok()];
        for weighting in others.map(Option::unwrap) {
            let rows = rows_of(&weighting, &[vec![2, 1]], terms);
            assert!(weighting.counts_of(&rows, terms, &threads).is_none(), "{weighting}");
        }
        // A weight that no integer has, two beyond the limit, and a term without idf.
        for (weight, idf) in [(1.234_567, 1.0), (9.0, 1.0), (f32::INFINITY, 1.0), (1.0, 0.0)] {
            let rows = csr(1, vec![0, 1], vec![0], vec![weight]).unwrap();
            let terms = TermWeights { idf: &[idf], mean_length: 3.0 };
            assert!(bm25.counts_of(&rows, terms, &threads).is_none(), "{weight}");
        }
    }
}
