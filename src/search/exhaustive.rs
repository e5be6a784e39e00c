//! Every query against every training row by merging the two sorted rows: `BaseCSR`, the
//! sequential baseline of Bresler et al. 2011, and the oracle of every other engine.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use rayon::prelude::*;

use super::{Neighbor, Queries, Search, SearchError, check_training, rounded};
use crate::matrix::{Csr, CsrView, row};
use crate::threads::Threads;

/// The engine without an index: time proportional to all non-zeros for each query.
#[derive(Debug)]
pub struct Exhaustive<'a> {
    training: CsrView<'a>,
    threads: Threads,
}

impl<'a> Exhaustive<'a> {
    /// An engine over training rows.
    ///
    /// # Errors
    /// If a weight is not finite.
    pub fn new(training: &'a Csr, threads: Threads) -> Result<Self, SearchError> {
        let training = training.view();
        check_training(&training, &threads)?;
        Ok(Self { training, threads })
    }
}

impl Search for Exhaustive<'_> {
    fn top_k(
        &self,
        queries: Queries<'_>,
        k: NonZeroUsize,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        queries.check(self.training.cols(), &self.threads)?;
        Ok(self.threads.run(|| {
            (0..queries.rows.rows())
                .into_par_iter()
                .map(|query| {
                    let excluded = queries.excluded(query);
                    top_k(&self.training, row(queries.rows, query), k, excluded)
                })
                .collect()
        }))
    }
}

type Row<'a> = (&'a [u32], &'a [f32]);

/// The neighbors of one query.
pub(super) fn top_k(
    training: &CsrView<'_>,
    query: Row<'_>,
    k: NonZeroUsize,
    excluded: Option<u32>,
) -> Vec<Neighbor> {
    let mut neighbors: Vec<Neighbor> = (0..)
        .zip(0..training.rows())
        .filter(|&(number, _)| Some(number) != excluded)
        .map(|(number, index)| Neighbor {
            row: number,
            similarity: similarity(query, row(training, index)),
        })
        .filter(|neighbor| neighbor.similarity > 0.0)
        .collect();
    neighbors.sort_unstable();
    neighbors.truncate(k.get());
    neighbors
}

/// The similarity of two rows, by the formula of [`super`].
fn similarity(a: Row<'_>, b: Row<'_>) -> f32 {
    let (mut i, mut j) = (0, 0);
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
    rounded(sum)
}
