//! Exhaustive search: compares every query with every training row by merging the two sorted rows.
//! This is `BaseCSR`, the sequential baseline of Bresler et al. 2011, and the reference for testing
//! every other engine.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;

use super::engine::{Search, check_training, clear_on_failure};
use super::neighbor::{Neighbor, round_sum};
use super::request::{Queries, Request};
use super::{Allow, NeighborLists, Report, SearchError};
use crate::rows::matrix::{Csr, CsrView, Row, row};
use crate::threads::Threads;

/// The engine without an index. Its time per query is proportional to the number of nonzeros in the
/// training rows. It has no fast path, so its [`Report`] counts every query as fallen back.
#[derive(Debug)]
pub struct Exhaustive {
    training: Arc<Csr>,
    rows: u32,
    threads: Threads,
}

impl Exhaustive {
    /// Creates an engine over training rows.
    ///
    /// # Errors
    /// If a weight is not finite.
    pub fn new(training: Arc<Csr>, threads: Threads) -> Result<Self, SearchError> {
        let rows = check_training(&training.view(), &threads)?;
        Ok(Self { training, rows, threads })
    }

    fn find(
        &self,
        queries: &Queries<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        queries.check_finite(&self.threads)?;
        let training = self.training.view();
        found.reset(queries.rows.rows(), queries.k.min(training.rows()))?;
        self.threads.run(|| {
            let slots = found.slots().par_chunks(1);
            slots.enumerate().try_for_each(|(query, mut slot)| {
                queries.stop.check()?;
                let query_row = row(&queries.rows, query);
                let allowed = QueryFilter { allow: &queries.allow, query };
                slot.set(0, &nearest(&training, query_row, queries.k, allowed));
                Ok::<(), SearchError>(())
            })
        })?;
        found.mark_all_fell_back();
        Ok(found.report())
    }
}

impl Search for Exhaustive {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let mut sparse = None;
        let outcome = request
            .queries(self.rows, self.training.cols(), &mut sparse)
            .and_then(|queries| self.find(&queries, found));
        clear_on_failure(outcome, found)
    }
}

/// The rows that may be neighbors of one query.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryFilter<'a> {
    pub(super) allow: &'a Allow<'a>,
    pub(super) query: usize,
}

/// Finds the neighbors of one query.
pub(super) fn nearest(
    training: &CsrView<'_>,
    query: Row<'_>,
    k: usize,
    allowed: QueryFilter<'_>,
) -> Vec<Neighbor> {
    let mut neighbors: Vec<Neighbor> = (0..)
        .zip(0..training.rows())
        .filter(|&(number, _)| allowed.allow.allows(allowed.query, number))
        .map(|(number, index)| Neighbor {
            row: number,
            similarity: similarity(query, row(training, index)),
        })
        .filter(|neighbor| neighbor.similarity > 0.0)
        .collect();
    neighbors.sort_unstable();
    neighbors.truncate(k);
    neighbors
}

/// Computes the similarity of two rows as defined in [`super`].
fn similarity(a: Row<'_>, b: Row<'_>) -> f32 {
    let mut i = 0;
    let mut j = 0;
    let mut sum = 0.0;
    while i < a.0.len() && j < b.0.len() {
        match a.0[i].cmp(&b.0[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                sum += f64::from(a.1[i]) * f64::from(b.1[j]);
                i += 1;
                j += 1;
            }
        }
    }
    round_sum(sum)
}
