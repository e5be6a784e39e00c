//! The errors of runs.

/// An error that makes a run impossible.
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
    /// The time window of the measurements is empty.
    #[error("the window is 0, expected more than 0")]
    Window,
    /// A run with distributed data has no index.
    #[error("there are no indexes, expected 1 or more")]
    NoIndexes,
    /// There are more queries or points than 32-bit numbers can represent.
    #[error("there are {count} queries or points, expected fewer than 2^32")]
    TooMany {
        /// Number of queries or points.
        count: usize,
    },
    /// The length of the trace differs from the number of queries.
    #[error("the trace has {times} arrivals for {queries} queries")]
    Trace {
        /// Number of arrivals in the trace.
        times: usize,
        /// Number of queries in the run.
        queries: usize,
    },
    /// The arrival times of the trace are not in nondecreasing order.
    #[error("query {query} of the trace arrives before its predecessor")]
    TraceOrder {
        /// Number of the query.
        query: usize,
    },
    /// The system could not start all threads.
    #[error("the system started only {started} of {requested} threads; use fewer")]
    Threads {
        /// Number of threads that were started.
        started: usize,
        /// Number of threads that were requested.
        requested: usize,
    },
}
