//! Similarities by the formula, of a query and some rows.

use crate::matrix::{CsrView, row};
use crate::search::inverted::{Row, kernels};
use crate::search::{Neighbor, rounded};

/// Rows that are on their way into the cache while another is read.
pub(super) const AHEAD: usize = 4;

/// Buffers for a query and rows.
#[derive(Debug, Default)]
pub(super) struct Exact {
    /// The query as a dense row.
    query: Vec<f32>,
    /// A bit for each term that the query has.
    present: Vec<u64>,
    /// The terms and weights of a row that the query has, too.
    common: Vec<(u32, f32)>,
}

impl Exact {
    /// Sets the query; [`clear`](Self::clear) it before the next.
    pub(super) fn set(&mut self, (terms, weights): Row<'_>, columns: usize) {
        self.query.resize(columns, 0.0);
        self.present.resize(columns / 64 + 1, 0);
        for (&term, &weight) in terms.iter().zip(weights) {
            self.query[term as usize] = weight;
            self.present[term as usize / 64] |= 1 << (term % 64);
        }
    }

    /// The query's weight of a term.
    pub(super) fn weight(&self, term: u32) -> f32 {
        self.query[term as usize]
    }

    /// Forgets the query.
    pub(super) fn clear(&mut self, (terms, _): Row<'_>) {
        for &term in terms {
            self.query[term as usize] = 0.0;
            self.present[term as usize / 64] = 0;
        }
    }

    /// A row with its similarity to the query.
    pub(super) fn score(&mut self, training: &CsrView<'_>, number: u32) -> Neighbor {
        let Self { query, present, common } = self;
        let (terms, weights) = row(training, number as usize);
        common.resize(common.len().max(terms.len() + 1), (0, 0.0));
        // The terms that the query has, too; without a branch, which could not be foreseen.
        let (common, present) = (&mut common[..=terms.len()], &**present);
        let mut count = 0;
        for (&term, &weight) in terms.iter().zip(weights) {
            common[count] = (term, weight);
            count += (present[term as usize / 64] >> (term % 64) & 1) as usize;
        }
        let mut sum = 0.0;
        for &(term, weight) in &common[..count] {
            sum += f64::from(query[term as usize]) * f64::from(weight);
        }
        Neighbor { row: number, similarity: rounded(sum) }
    }
}

/// Asks for a row to be brought into the cache.
pub(super) fn prefetch(training: &CsrView<'_>, number: u32) {
    let (terms, weights) = row(training, number as usize);
    for line in (0..terms.len()).step_by(16) {
        kernels::prefetch(terms, line);
        kernels::prefetch(weights, line);
    }
}
