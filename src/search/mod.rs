//! Search: query rows → their most similar training rows.
//!
//! **In**: the rows of [`crate::rows`], for training and for queries. **Out**: [`NeighborLists`], a
//! sorted list of neighbors for each query. Read `request.rs` first, then `exhaustive.rs`, the
//! simplest engine, then `inverted.rs`, the default on the CPU.
//!
//! An engine implements [`Search`]: it takes a [`Request`] (queries, k, which rows are
//! [allowed](Allow), a [`Stop`]), fills [`NeighborLists`] and returns a [`Report`]. Engines own
//! their rows, so they can be kept in a struct and shared between threads.
//!
//! | engine | rows | what it is | file |
//! |---|---|---|---|
//! | [`Exhaustive`] | sparse | computes all similarities; the reference | `exhaustive.rs` |
//! | [`Inverted`] | sparse | an inverted index with 16-bit sums, on the CPU | `inverted.rs` |
//! | [`Cuda`], [`SeveralGpus`] | sparse | NVIDIA GPUs; also Bresler et al. 2011 | `cuda.rs` |
//! | [`Dense`] | dense | an index of `metric-index`, on the CPU or on GPUs | `dense.rs` |
//! | [`Composite`] | any | engines over parts of the rows, used as one | `composite.rs` |
//!
//! [`Engines`] makes engines for a device that the user chose ([`DeviceChoice`]).
//!
//! # The similarity
//!
//! The similarity of two sparse rows is one `f32`. The products of the weights of their common
//! terms, each exact in `f64`, are added in `f64` in the order of the term ids, and the sum is
//! rounded once to `f32` (at most `f32::MAX`). For rows of length 1 it is the cosine, formula (2)
//! of Bresler et al. 2011. For dense rows it is a function of their distance
//! ([`Kernel`](crate::rows::dense::Kernel)). Every engine returns this number, bit for bit.
//!
//! Only rows with a similarity above 0 are neighbors. Neighbors are sorted by similarity,
//! descending, then by row, ascending.

use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;

use crate::rows::dense::ShapeError;
use crate::rows::matrix::CsrView;
use crate::threads::Threads;

mod allow;
mod composite;
mod cuda;
mod dense;
mod device;
mod engines;
mod exhaustive;
mod inverted;
mod lists;
mod merge;
mod request;
mod scratch;
mod stop;

pub use crate::rows::dense::VectorsView;
pub use allow::{Allow, RowLists, RowRange, RowSet};
pub use composite::{Composite, Part, RowMap, Segment};
pub use cuda::{Cuda, CudaEngine, CudaOptions, GridMemory, SeveralGpus};
pub use dense::{Dense, DenseIndex, learn_scale};
pub use device::{DeviceChoice, DeviceError};
pub use engines::{EngineKind, Engines};
pub use exhaustive::Exhaustive;
pub use inverted::Inverted;
pub use lists::NeighborLists;
pub use request::{QueryRows, Request};
pub(crate) use stop::NEVER;
pub use stop::Stop;

use request::{Queries, all_finite};

/// A training row and its similarity to a query.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Neighbor {
    /// The training row, counted from 0.
    pub row: u32,
    /// The similarity, above 0.
    pub similarity: f32,
}

impl Ord for Neighbor {
    /// The better neighbor compares as less, so sorting puts the best first.
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

/// A search engine: finds the `k` most similar allowed training rows of each query of a request.
///
/// ```
/// use std::sync::Arc;
///
/// use classify::rows::matrix::CsrBuilder;
/// use classify::search::{Exhaustive, NeighborLists, Request, Search};
/// use classify::threads::Threads;
///
/// let mut rows = CsrBuilder::default();
/// rows.push_row([(0, 1.0)]);
/// rows.push_row([(0, 0.6), (1, 0.8)]);
/// rows.push_row([(2, 1.0)]);
/// let training = Arc::new(rows.build(3));
/// let engine = Exhaustive::new(Arc::clone(&training), Threads::available()?)?;
/// let mut found = NeighborLists::default();
/// engine.search(&Request::new(&*training, 2.try_into()?), &mut found)?;
/// assert_eq!(found.get(0).iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [0, 1]);
/// assert_eq!(found.get(2).len(), 1); // the other rows share no term with it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Search: Send + Sync + fmt::Debug {
    /// The number of training rows.
    fn rows(&self) -> u32;

    /// Fills `found` with a list for each query: at most `k` neighbors, best first. After an error
    /// `found` is empty.
    ///
    /// # Errors
    /// If the request does not match the training rows, is stopped, or the engine fails.
    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError>;
}

/// How queries were answered. It affects only the time, never the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Report {
    /// Queries that took the engine's fast path. If several engines answered a query together, it
    /// took the fast path of each.
    pub fast: u64,
    /// Queries that the fast path could not answer, so all their similarities were computed.
    pub fell_back: u64,
}

impl Report {
    /// Reports on queries that several engines answered together, one list each. An engine that was
    /// not asked has no lists.
    pub(crate) fn of_lists(engines: &[&NeighborLists]) -> Self {
        let queries = engines.iter().map(|lists| lists.len()).max().unwrap_or(0);
        let fell_back = |&query: &usize| {
            engines.iter().any(|lists| !lists.is_empty() && lists.fell_back(query))
        };
        let fell_back = (0..queries).filter(fell_back).count() as u64;
        Self { fast: queries as u64 - fell_back, fell_back }
    }
}

/// Adds the report on other queries.
impl AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.fast += other.fast;
        self.fell_back += other.fell_back;
    }
}

/// Why a search failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The queries have a different vocabulary.
    #[error("the queries have {found} columns, the training rows {expected}")]
    Columns {
        /// Columns of the queries.
        found: usize,
        /// Columns of the training rows.
        expected: usize,
    },
    /// The values cannot be divided into whole rows.
    #[error("{values} values cannot be divided into rows of {dimension}")]
    Shape {
        /// The number of values.
        values: usize,
        /// The number of values per row.
        dimension: usize,
    },
    /// The filter is for different queries or training rows.
    #[error("the filter has {found} {what}, expected {expected}")]
    Filter {
        /// Which part of the filter.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The expected size.
        expected: usize,
    },
    /// A weight is infinite or NaN.
    #[error("a {what} row holds a weight that is not finite")]
    NotFinite {
        /// `training` or `query`.
        what: &'static str,
    },
    /// There are more rows than row numbers.
    #[error("{rows} training rows exceed the limit of {limit}")]
    TooManyRows {
        /// The number of rows.
        rows: usize,
        /// The largest number of rows.
        limit: u32,
    },
    /// The parts do not hold each row once, in increasing order.
    #[error("the parts do not hold {rows} rows, numbered from 0, once each in increasing order")]
    Parts {
        /// The total number of rows of the parts.
        rows: usize,
    },
    /// The search was ended by its [`Stop`].
    #[error("the search was stopped before it finished")]
    Stopped,
    /// The lists of neighbors do not fit in memory.
    #[error("not enough memory for {k} neighbors of {queries} queries: search fewer at a time")]
    OutOfMemory {
        /// The number of queries of the request.
        queries: usize,
        /// The number of neighbors per query.
        k: usize,
    },
    /// An index of dense vectors could not be built or searched.
    #[error("dense vectors: {0}")]
    Index(String),
    /// The engine failed, and no other could take over.
    #[error("{0}")]
    Engine(#[source] Arc<dyn Error + Send + Sync>),
}

impl From<ShapeError> for SearchError {
    fn from(ShapeError { values, dimension }: ShapeError) -> Self {
        Self::Shape { values, dimension }
    }
}

/// Checks training rows and returns their number.
fn check_training(training: &CsrView<'_>, threads: &Threads) -> Result<u32, SearchError> {
    let rows = training.rows();
    let limit = u32::MAX - 1;
    let count = u32::try_from(rows).ok().filter(|&count| count <= limit);
    let count = count.ok_or(SearchError::TooManyRows { rows, limit })?;
    if !all_finite(training.data(), threads) {
        return Err(SearchError::NotFinite { what: "training" });
    }
    Ok(count)
}

/// Rounds a sum of products to the similarity.
#[expect(clippy::cast_possible_truncation, reason = "the one rounding of a similarity to f32")]
fn rounded(sum: f64) -> f32 {
    (sum as f32).min(f32::MAX)
}

/// Empties the lists after a failure, so that no partial results remain.
fn whole_or_none<T>(
    outcome: Result<T, SearchError>,
    found: &mut NeighborLists,
) -> Result<T, SearchError> {
    if outcome.is_err() {
        found.clear();
    }
    outcome
}
