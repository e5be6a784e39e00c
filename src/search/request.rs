//! Search requests: queries, k, filter and stop.

use std::num::NonZeroUsize;

use rayon::prelude::*;

use super::allow::Allow;
use super::error::SearchError;
use super::stop::{NEVER, Stop};
use crate::rows::dense::{Vectors, VectorsView};
use crate::rows::matrix::{Csr, CsrBuilder, CsrView, row};
use crate::threads::Threads;

/// Query rows.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum QueryRows<'a> {
    /// Sparse rows of term weights.
    Sparse(CsrView<'a>),
    /// Dense rows of numbers.
    Dense(VectorsView<'a>),
}

impl QueryRows<'_> {
    /// The number of queries.
    pub fn rows(&self) -> usize {
        match self {
            Self::Sparse(rows) => rows.rows(),
            Self::Dense(rows) => rows.rows(),
        }
    }

    /// Copies the rows with the given numbers, in the given order.
    ///
    /// # Panics
    /// If a row does not exist.
    pub(crate) fn select(&self, numbers: &[u32]) -> SelectedRows {
        match self {
            Self::Sparse(rows) => {
                let row = |&number: &u32| row(rows, number as usize);
                let nonzeros = numbers.iter().map(|number| row(number).0.len()).sum();
                let mut selected = CsrBuilder::with_capacity(numbers.len(), nonzeros);
                for (terms, weights) in numbers.iter().map(row) {
                    selected.push_slices(terms, weights);
                }
                SelectedRows::Sparse(selected.build(rows.cols()))
            }
            Self::Dense(rows) => {
                let size = rows.dimension();
                let row = |&number: &u32| &rows.values()[number as usize * size..][..size];
                let values: Vec<f32> = numbers.iter().flat_map(row).copied().collect();
                SelectedRows::Dense(Vectors::new(size, values).expect("whole rows"))
            }
        }
    }
}

/// Query rows that own their values.
#[derive(Debug)]
pub(crate) enum SelectedRows {
    Sparse(Csr),
    Dense(Vectors),
}

impl SelectedRows {
    pub(crate) fn view(&self) -> QueryRows<'_> {
        match self {
            Self::Sparse(rows) => rows.into(),
            Self::Dense(rows) => rows.view().into(),
        }
    }
}

impl<'a> From<CsrView<'a>> for QueryRows<'a> {
    fn from(rows: CsrView<'a>) -> Self {
        Self::Sparse(rows)
    }
}

impl<'a> From<&'a Csr> for QueryRows<'a> {
    fn from(rows: &'a Csr) -> Self {
        Self::Sparse(rows.view())
    }
}

impl<'a> From<VectorsView<'a>> for QueryRows<'a> {
    fn from(rows: VectorsView<'a>) -> Self {
        Self::Dense(rows)
    }
}

/// A batch of queries and the parameters of their search.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The queries, one per row.
    pub rows: QueryRows<'a>,
    /// The maximum number of neighbors per query.
    pub k: NonZeroUsize,
    /// The filter, which determines the training rows that may be neighbors.
    pub allow: Allow<'a>,
    /// The signal that can end the search early.
    pub stop: &'a Stop,
}

impl<'a> Request<'a> {
    /// Creates a request for the `k` nearest training rows, without a filter or a stop.
    pub fn new(rows: impl Into<QueryRows<'a>>, k: NonZeroUsize) -> Self {
        Self { rows: rows.into(), k, allow: Allow::all(), stop: &NEVER }
    }

    /// Restricts the neighbors to the rows that `allow` allows.
    #[must_use]
    pub fn among(self, allow: Allow<'a>) -> Self {
        Self { allow, ..self }
    }

    /// Sets the signal that can end the search early.
    #[must_use]
    pub fn until(self, stop: &'a Stop) -> Self {
        Self { stop, ..self }
    }

    /// Checks that the request matches an engine with `rows` training rows of `columns` columns.
    /// Returns the queries as sparse rows; dense queries are converted into `sparse`.
    pub(super) fn queries<'q>(
        &'q self,
        rows: u32,
        columns: usize,
        sparse: &'q mut Option<Csr>,
    ) -> Result<Queries<'q>, SearchError> {
        let view = match &self.rows {
            QueryRows::Sparse(rows) => *rows,
            QueryRows::Dense(rows) => sparse.insert(rows.sparse()).view(),
        };
        if view.cols() != columns {
            return Err(SearchError::Columns { found: view.cols(), expected: columns });
        }
        self.allow.check(view.rows(), rows)?;
        self.stop.check()?;
        Ok(Queries { rows: view, k: self.k.get(), allow: self.allow, stop: self.stop })
    }
}

/// A checked request whose queries are sparse rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queries<'a> {
    pub(super) rows: CsrView<'a>,
    pub(super) k: usize,
    pub(super) allow: Allow<'a>,
    pub(super) stop: &'a Stop,
}

impl Queries<'_> {
    pub(super) fn check_finite(&self, threads: &Threads) -> Result<(), SearchError> {
        check_finite("query", self.rows.data(), threads)
    }
}

/// Checks that all weights are finite. `what` names the rows in the error: `training` or `query`.
pub(super) fn check_finite(
    what: &'static str,
    weights: &[f32],
    threads: &Threads,
) -> Result<(), SearchError> {
    // The loop has no early exit, so that the compiler can vectorize it.
    let is_invalid =
        |chunk: &[f32]| !chunk.iter().fold(true, |all, weight| all & weight.is_finite());
    if any_chunk(weights, threads, is_invalid) {
        Err(SearchError::NotFinite { what })
    } else {
        Ok(())
    }
}

/// Whether `test` returns true for any chunk of the weights. Large inputs are divided into chunks
/// and tested in parallel.
pub(super) fn any_chunk(
    weights: &[f32],
    threads: &Threads,
    test: impl Fn(&[f32]) -> bool + Send + Sync,
) -> bool {
    /// Number of weights per task.
    const WEIGHTS_PER_TASK: usize = 1 << 16;
    match weights.len() {
        // Run on the calling thread: switching to another thread and back takes longer.
        ..=WEIGHTS_PER_TASK => test(weights),
        _ => threads.run(|| weights.par_chunks(WEIGHTS_PER_TASK).any(test)),
    }
}
