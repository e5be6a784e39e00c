//! Errors of searches.

use std::error::Error;
use std::sync::Arc;

use crate::rows::dense::ShapeError;

/// The reason a search failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The queries have a different number of columns than the training rows.
    #[error("the queries have {found} columns, but the training rows have {expected}")]
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
    /// The filter does not match the number of queries or training rows.
    #[error("the filter has {found} {what}, expected {expected}")]
    Filter {
        /// The mismatched part of the filter.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The expected size.
        expected: usize,
    },
    /// A weight is infinite or NaN.
    #[error("a {what} row contains a weight that is not finite")]
    NotFinite {
        /// `training` or `query`.
        what: &'static str,
    },
    /// There are more training rows than 32-bit row numbers allow.
    #[error("{rows} training rows exceed the limit of {limit}")]
    TooManyRows {
        /// The number of rows.
        rows: usize,
        /// The maximum number of rows.
        limit: u32,
    },
    /// The parts do not contain each row exactly once, or list their rows out of order.
    #[error("the parts do not contain each of {rows} rows exactly once, in increasing order")]
    Parts {
        /// The total number of rows of the parts.
        rows: usize,
    },
    /// A [`Stop`](super::Stop) ended the search.
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
    /// The engine failed, and no other engine could take over.
    #[error("{0}")]
    Engine(#[source] Arc<dyn Error + Send + Sync>),
}

impl From<ShapeError> for SearchError {
    fn from(ShapeError { values, dimension }: ShapeError) -> Self {
        Self::Shape { values, dimension }
    }
}
