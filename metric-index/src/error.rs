//! What an index refuses.

/// Why points or a query are refused.
///
/// ```
/// use metric_index::error::Error;
/// use metric_index::points::Vectors;
///
/// let refused = Vectors::new(vec![1.0f32, 2.0, 3.0], 2).unwrap_err();
/// assert_eq!(refused, Error::Shape { values: 3, dimension: 2 });
/// assert_eq!(refused.to_string(), "3 values are no vectors of 2 dimensions");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A distance that is negative, infinite or not a number: the points or the metric are wrong.
    #[error("the distance to point {point} is {distance}, expected a finite number from 0")]
    NoDistance {
        /// The point.
        point: u32,
        /// What the metric gave.
        distance: f32,
    },
    /// A radius that is negative or not a number.
    #[error("radius {radius}, expected a number from 0")]
    Radius {
        /// What was given.
        radius: f32,
    },
    /// A share that is none.
    #[error("share {share}, expected 0 to 1")]
    Share {
        /// What was given.
        share: f32,
    },
    /// A point without a distance of 0 from itself, as a vector with a NaN.
    #[error("point {point} has the distance {distance} from itself, expected 0: is it finite?")]
    NotItself {
        /// The point.
        point: u32,
        /// What the metric gave.
        distance: f32,
    },
    /// A query without a distance of 0 from itself.
    #[error("the query has the distance {distance} from itself, expected 0: is it finite?")]
    Query {
        /// What the metric gave.
        distance: f32,
    },
    /// More points than 32-bit numbers.
    #[error("{count} points, expected fewer than 2^32 - 1")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A number that is out of the range of an option.
    #[error("{option} {value}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// What was given.
        value: u32,
        /// Its range.
        expected: &'static str,
    },
    /// Too few points for an estimate.
    #[error("{count} points are too few to estimate from, expected {expected} or more")]
    TooFew {
        /// How many there are.
        count: usize,
        /// How many it takes.
        expected: usize,
    },
    /// A trace of the arrivals of other queries.
    #[error("{times} arrivals of {queries} queries")]
    Trace {
        /// Arrivals of the trace.
        times: usize,
        /// Queries of the run.
        queries: usize,
    },
    /// A trace whose times go back.
    #[error("query {query} arrives before the one before it")]
    TraceOrder {
        /// The query.
        query: usize,
    },
    /// Values that make no whole number of rows.
    #[error("{values} values are no vectors of {dimension} dimensions")]
    Shape {
        /// How many values there are.
        values: usize,
        /// Values of a vector.
        dimension: usize,
    },
    /// A set whose numbers do not rise.
    #[error("set {point} is not rising")]
    NotRising {
        /// The set.
        point: usize,
    },
}
