//! Search: query rows → their most similar training rows. The one place where engines meet.
//!
//! # The similarity
//!
//! The similarity of two rows is one `f32`: the products of the weights of their common terms,
//! each exact in `f64`, are added in `f64` in order of term ids; the sum is rounded once to `f32`
//! (and is at most `f32::MAX`). For unit rows it is the cosine, formula (2) of Bresler et al.
//! 2011. Every engine returns this number, bit for bit.
//!
//! A row is a neighbor only if its similarity is above 0. Neighbors come by falling similarity,
//! equal ones by rising row.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroUsize;

use metric_index::gpu::GpuError;
use rayon::prelude::*;

use crate::matrix::CsrView;
use crate::threads::Threads;

mod cuda;
mod engines;
mod exhaustive;
mod inverted;
mod lists;

pub use cuda::{Cuda, CudaEngine, CudaOptions, GridMemory, Warn};
pub use engines::{EngineKind, Engines};
pub use exhaustive::Exhaustive;
pub use inverted::Inverted;
pub use lists::NeighborLists;

/// A training row and its similarity to a query.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Neighbor {
    /// The training row, from 0.
    pub row: u32,
    /// The similarity, above 0.
    pub similarity: f32,
}

impl Ord for Neighbor {
    /// The better neighbor is the lesser: sorting puts the best first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.similarity.total_cmp(&self.similarity).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Neighbor {}

/// A batch of queries.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    /// One row of term weights a query.
    pub rows: &'a CsrView<'a>,
    /// For each query a training row that is no neighbor of it (leave-one-out); empty: none.
    pub excluded: &'a [Option<u32>],
}

impl<'a> Queries<'a> {
    /// Queries that exclude nothing.
    pub fn new(rows: &'a CsrView<'a>) -> Self {
        Self { rows, excluded: &[] }
    }

    fn excluded(&self, query: usize) -> Option<u32> {
        self.excluded.get(query).copied().flatten()
    }

    fn check(&self, columns: usize, threads: &Threads) -> Result<(), SearchError> {
        self.check_shape(columns)?;
        if !all_finite(self.rows.data(), threads) {
            return Err(SearchError::NotFinite { what: "query" });
        }
        Ok(())
    }

    fn check_shape(&self, columns: usize) -> Result<(), SearchError> {
        if self.rows.cols() != columns {
            return Err(SearchError::Columns { found: self.rows.cols(), expected: columns });
        }
        if !self.excluded.is_empty() && self.excluded.len() != self.rows.rows() {
            let (found, expected) = (self.excluded.len(), self.rows.rows());
            return Err(SearchError::Excluded { found, expected });
        }
        Ok(())
    }
}

/// Whether no weight is infinite or not a number.
fn all_finite(weights: &[f32], threads: &Threads) -> bool {
    // Without a way out inside, the pieces are read many weights at a time.
    let finite = |piece: &[f32]| piece.iter().fold(true, |all, weight| all & weight.is_finite());
    threads.run(|| weights.par_chunks(1 << 16).all(finite))
}

/// The `k` most similar training rows of each query of a batch.
///
/// ```
/// use classify::matrix::CsrBuilder;
/// use classify::search::{Exhaustive, Queries, Search};
/// use classify::threads::Threads;
///
/// let mut rows = CsrBuilder::default();
/// rows.push_row([(0, 1.0)]);
/// rows.push_row([(0, 0.6), (1, 0.8)]);
/// rows.push_row([(2, 1.0)]);
/// let training = rows.build(3);
/// let engine = Exhaustive::new(&training, Threads::available()?)?;
/// let found = engine.top_k(Queries::new(&training.view()), 2.try_into()?)?;
/// assert_eq!(found[0].iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [0, 1]);
/// assert_eq!(found[2].len(), 1); // the other rows share no term with it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Search: Send + Sync + fmt::Debug {
    /// For each query its at most `k` neighbors, best first.
    ///
    /// # Errors
    /// If the queries do not fit the training rows.
    fn top_k(
        &self,
        queries: Queries<'_>,
        k: NonZeroUsize,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError>;
}

/// Why a search is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchError {
    /// Queries of another vocabulary.
    #[error("the queries have {found} columns, the training rows {expected}")]
    Columns {
        /// Of the queries.
        found: usize,
        /// Of the training rows.
        expected: usize,
    },
    /// Excluded rows that do not go with the queries.
    #[error("{found} excluded rows for {expected} queries")]
    Excluded {
        /// How many excluded rows were given.
        found: usize,
        /// How many queries.
        expected: usize,
    },
    /// A weight that is infinite or not a number.
    #[error("a {what} row holds a weight that is not finite")]
    NotFinite {
        /// `training` or `query`.
        what: &'static str,
    },
    /// More rows than row numbers.
    #[error("{rows} training rows, at most {limit} are possible")]
    TooManyRows {
        /// How many there are.
        rows: usize,
        /// How many there may be.
        limit: u32,
    },
    /// A GPU that was asked for failed, and nothing else was to take its place.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

fn check_training(training: &CsrView<'_>, threads: &Threads) -> Result<(), SearchError> {
    let limit = u32::MAX - 1;
    if training.rows() > limit as usize {
        return Err(SearchError::TooManyRows { rows: training.rows(), limit });
    }
    if !all_finite(training.data(), threads) {
        return Err(SearchError::NotFinite { what: "training" });
    }
    Ok(())
}

/// The similarity that a sum of products stands for.
#[expect(clippy::cast_possible_truncation, reason = "the one rounding of a similarity to f32")]
fn rounded(sum: f64) -> f32 {
    (sum as f32).min(f32::MAX)
}
