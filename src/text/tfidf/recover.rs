//! Computes term counts from BM25 weights.

use super::rows::RawRows;
use super::scheme::Tf;
use super::weighting::{Side, TermWeights, Weighting, narrow};
use crate::rows::matrix::{Csr, row};
use crate::threads::Threads;

/// Computes the term counts of training documents for weightings like BM25, whose weights determine
/// them. Let w be the weight of a term without its idf, `r = w / (k₁ + 1 − w)`, and
/// `κ = k₁ (1 − b + b · len / mean len)`. Then the count is `κ r`, and the length of the document
/// is `κ Σ r`.
///
/// Returns `None` for other weightings, or if the rows differ from the exact weights of integer
/// counts in any bit.
pub(crate) fn counts_of(
    weighting: &Weighting,
    rows: &Csr,
    terms: TermWeights<'_>,
    threads: &Threads,
) -> Option<RawRows> {
    let mut data = Vec::with_capacity(rows.nnz());
    for index in 0..rows.rows() {
        let (ids, weights) = row(&rows.view(), index);
        data.extend(counts_of_row(weighting, ids, weights, terms)?);
    }
    let indptr = rows.indptr().to_vec();
    let counts = RawRows { indptr, indices: rows.indices().to_vec(), data };
    let mut reweighted = counts.clone();
    reweighted.weigh(weighting, Side::Document, terms, threads);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let is_identical =
        reweighted.indices == counts.indices && bits(&reweighted.data) == bits(rows.data());
    is_identical.then_some(counts)
}

/// Computes the counts of a row, rounded to integers.
fn counts_of_row(
    weighting: &Weighting,
    ids: &[u32],
    weights: &[f32],
    terms: TermWeights<'_>,
) -> Option<Vec<f32>> {
    let &Weighting { document, k1, b, .. } = weighting;
    if document.tf != Tf::Okapi || document.has_unit_length || k1 <= 0.0 {
        return None;
    }
    let has_idf = weighting.has_idf(document);
    let ratio = |(&term, &weight): (&u32, &f32)| {
        let idf = if has_idf { terms.idf[term as usize] } else { 1.0 };
        let tf = f64::from(weight) / idf;
        tf / (k1 + 1.0 - tf)
    };
    let ratios: Vec<f64> = ids.iter().zip(weights).map(ratio).collect();
    // κ = fixed + slope · len
    let (fixed, slope) = if terms.mean_length > 0.0 {
        (k1 * (1.0 - b), k1 * b / terms.mean_length)
    } else {
        (k1, 0.0)
    };
    let kappa = fixed / (1.0 - slope * ratios.iter().sum::<f64>());
    let round_counts = |kappa: f64| ratios.iter().map(move |ratio| (kappa * ratio).round());
    // The rounded counts determine the exact length, and thus the exact κ.
    let length: f64 = round_counts(kappa).sum();
    Some(round_counts(fixed + slope * length).map(narrow).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rows::matrix::{CsrBuilder, csr};

    fn rows_of(weighting: &Weighting, counts: &[Vec<u16>], terms: TermWeights<'_>) -> Csr {
        let mut rows = CsrBuilder::default();
        for counts in counts {
            let nonzero_counts = (0u32..).zip(counts).filter(|&(_, &count)| count > 0);
            let (mut ids, mut values): (Vec<u32>, Vec<f32>) =
                nonzero_counts.map(|(term, &count)| (term, f32::from(count))).unzip();
            let kept =
                weighting.weigh(Side::Document, &mut ids, &mut values, terms, &mut Vec::new());
            rows.push_row(ids.into_iter().zip(values).take(kept));
        }
        rows.build(terms.idf.len())
    }

    proptest! {
        #[test]
        fn counts_are_recovered(
            counts in prop::collection::vec(prop::collection::vec(0u16..200, 6), 0..12),
            dfs in prop::collection::vec(1u32..1000, 6),
            k1 in 0.1f64..5.0,
            b in 0.0f64..0.99,
        ) {
            let weighting: Weighting = "bm25".parse().unwrap();
            let weighting = weighting.with_bm25(k1, b).unwrap();
            let idf: Vec<f64> = dfs.iter().map(|&df| weighting.idf(df, 1000)).collect();
            let total: f64 = counts.iter().flatten().copied().map(f64::from).sum();
            let terms = TermWeights { idf: &idf, mean_length: total / counts.len().max(1) as f64 };
            let rows = rows_of(&weighting, &counts, terms);
            let threads = Threads::available().unwrap();
            let found = counts_of(&weighting, &rows, terms, &threads).map(|found| found.data);
            let counts = counts.iter().flatten().filter(|&&count| count > 0);
            prop_assert_eq!(found, Some(counts.map(|&count| f32::from(count)).collect()));
        }
    }

    /// There is no result if the weights do not determine the counts.
    #[test]
    fn other_weights_are_rejected() {
        let threads = Threads::available().unwrap();
        let bm25: Weighting = "bm25".parse().unwrap();
        let terms = TermWeights { idf: &[1.0, 2.0], mean_length: 3.0 };
        let others = [bm25.with_bm25(0.0, 0.75), bm25.with_bm25(1.2, 1.0), "ltc.lnc".parse().ok()];
        for weighting in others.map(Option::unwrap) {
            let rows = rows_of(&weighting, &[vec![2, 1]], terms);
            assert!(counts_of(&weighting, &rows, terms, &threads).is_none(), "{weighting}");
        }
        // A weight of a non-integer count, two weights above the limit, and a term whose idf is 0.
        for (weight, idf) in [(1.234_567, 1.0), (9.0, 1.0), (f32::INFINITY, 1.0), (1.0, 0.0)] {
            let rows = csr(1, vec![0, 1], vec![0], vec![weight]).unwrap();
            let terms = TermWeights { idf: &[idf], mean_length: 3.0 };
            assert!(counts_of(&bm25, &rows, terms, &threads).is_none(), "{weight}");
        }
    }
}
