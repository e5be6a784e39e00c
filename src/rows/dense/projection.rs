//! Projections of weighted terms to dense vectors.

use rayon::prelude::*;

use super::metric::MAX_ABS_VALUE;
use super::rows::Vectors;
use crate::rows::matrix::{CsrView, row};
use crate::threads::Threads;

/// A projection of rows of term weights to dense vectors. The projection of a row is the sum of the
/// vectors of its terms, each multiplied by the term's weight.
#[derive(Debug, Clone)]
pub struct Projection {
    /// The vector of each term.
    pub(crate) terms: Vectors,
    /// Whether the sum is divided by the total weight of the terms that have a vector, which gives
    /// a mean.
    pub(crate) is_mean: bool,
}

impl Projection {
    /// The number of values per vector.
    pub fn dimension(&self) -> usize {
        self.terms.dimension()
    }

    /// The vectors of the terms, by term id.
    pub fn terms(&self) -> &Vectors {
        &self.terms
    }

    /// Appends the projection of a row of term weights to `values`. Terms are added in order, in
    /// `f64`.
    #[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
    pub(crate) fn project(&self, terms: &[u32], weights: &[f32], values: &mut Vec<f32>) {
        let mut sums = vec![0.0; self.dimension()];
        let mut total = 0.0;
        for (&term, &weight) in terms.iter().zip(weights) {
            let weight = f64::from(weight);
            let vector = self.terms.row(term as usize);
            if self.is_mean && vector.iter().any(|&value| value != 0.0) {
                total += weight;
            }
            for (sum, &value) in sums.iter_mut().zip(vector) {
                *sum += weight * f64::from(value);
            }
        }
        let divisor = if self.is_mean && total != 0.0 { total } else { 1.0 };
        // Weights may be as large as `f32::MAX`, but vectors are limited to `MAX_ABS_VALUE`.
        let limit = f64::from(MAX_ABS_VALUE);
        values.extend(sums.iter().map(|sum| (sum / divisor).clamp(-limit, limit) as f32));
    }

    /// Returns the projections of all rows, in row-major order.
    pub(crate) fn project_all(&self, rows: &CsrView<'_>, threads: &Threads) -> Vec<f32> {
        let chunks: Vec<Vec<f32>> = threads.run(|| {
            let starts: Vec<usize> = (0..rows.rows()).step_by(256).collect();
            let project_chunk = |&start: &usize| {
                let mut values = Vec::new();
                for number in start..rows.rows().min(start + 256) {
                    let (terms, weights) = row(rows, number);
                    self.project(terms, weights, &mut values);
                }
                values
            };
            starts.par_iter().map(project_chunk).collect()
        });
        chunks.concat()
    }
}
