//! Computes the exact similarities between a query and its candidate rows.

use crate::rows::matrix::{CommonEntries, CsrView, Row, ScatteredRow, prefetch_row, row};
use crate::search::neighbor::{Neighbor, round_sum};

/// Number of rows to prefetch ahead of the row being scored.
pub(super) const PREFETCH_DISTANCE: usize = 4;

/// A query as a dense vector of weights, for computing its similarities to rows.
#[derive(Debug, Default)]
pub(super) struct Rescorer {
    query: ScatteredRow,
    /// The entries that a row has in common with the query.
    common: CommonEntries,
}

impl Rescorer {
    /// Sets the query. Call [`clear`](Self::clear) before setting another query.
    pub(super) fn set(&mut self, query: Row<'_>, columns: usize) {
        self.query.set(query, columns);
    }

    /// Returns the weight of a term in the query.
    pub(super) fn weight(&self, term: u32) -> f32 {
        self.query.value(term)
    }

    /// Removes the query. `query` must be the query that was set.
    pub(super) fn clear(&mut self, query: Row<'_>) {
        self.query.clear(query);
    }

    /// Returns a row with its similarity to the query.
    pub(super) fn score(&mut self, training: &CsrView<'_>, number: u32) -> Neighbor {
        let Self { query, common } = self;
        let count = query.common(row(training, number as usize), common, 0);
        let mut sum = 0.0;
        let (terms, weights) = common.of(0..count);
        for (&term, &weight) in terms.iter().zip(weights) {
            sum += f64::from(query.value(term)) * f64::from(weight);
        }
        Neighbor { row: number, similarity: round_sum(sum) }
    }
}

/// Prefetches a row.
pub(super) fn prefetch(training: &CsrView<'_>, number: u32) {
    prefetch_row(row(training, number as usize));
}
