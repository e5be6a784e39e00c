//! Why a run cannot be made.

/// Why a run is refused.
///
/// ```
/// use metric_papers::strategy::RunError;
///
/// let error = RunError::Trace { times: 1, queries: 2 };
/// assert_eq!(error.to_string(), "the trace has 1 arrivals for 2 queries");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The window of the measurements has no length.
    #[error("window 0, expected more than 0")]
    Window,
    /// A run of distributed data without an index.
    #[error("indexes 0, expected 1 or more")]
    NoIndexes,
    /// More queries or points than 32-bit numbers can count.
    #[error("{count} points, expected fewer than 2^32 - 1")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A trace whose length is not the number of queries.
    #[error("the trace has {times} arrivals for {queries} queries")]
    Trace {
        /// Arrivals of the trace.
        times: usize,
        /// Queries of the run.
        queries: usize,
    },
    /// A trace whose times decrease.
    #[error("query {query} of the trace arrives before its predecessor")]
    TraceOrder {
        /// The query.
        query: usize,
    },
    /// Fewer threads than were requested could be started.
    #[error("the system started {started} of {wanted} threads; take fewer")]
    Threads {
        /// How many were started.
        started: usize,
        /// How many were asked for.
        wanted: usize,
    },
}
