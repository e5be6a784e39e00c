//! The errors of this crate.

/// The reason why points, a query or a parameter were rejected.
///
/// ```
/// use metric_index::error::Error;
/// use metric_index::points::Vectors;
///
/// let rejected = Vectors::new(vec![1.0f32, 2.0, 3.0], 2).unwrap_err();
/// assert_eq!(rejected, Error::Shape { values: 3, dimension: 2 });
/// assert_eq!(rejected.to_string(), "3 values do not form vectors of 2 dimensions");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A distance that is negative, infinite or NaN: the points or the metric are invalid.
    #[error("the distance to point {point} is {distance}, expected a finite number of at least 0")]
    NoDistance {
        /// The point.
        point: u32,
        /// The distance that the metric returned.
        distance: f32,
    },
    /// A radius that is negative or not a number.
    #[error("radius {radius}, expected a number of at least 0")]
    Radius {
        /// The radius given.
        radius: f32,
    },
    /// A fraction outside the range from 0 to 1.
    #[error("share {share}, expected a number from 0 to 1")]
    Share {
        /// The fraction given.
        share: f32,
    },
    /// A point whose distance from itself is not 0, such as a vector that contains NaN.
    #[error(
        "the distance from point {point} to itself is {distance}, expected 0: \
         a vector must be finite, a set strictly increasing"
    )]
    NotItself {
        /// The point.
        point: u32,
        /// The distance that the metric returned.
        distance: f32,
    },
    /// A query whose distance from itself is not 0.
    #[error(
        "the distance from the query to itself is {distance}, expected 0: \
         a vector must be finite, a set strictly increasing"
    )]
    Query {
        /// The distance that the metric returned.
        distance: f32,
    },
    /// More points than 32-bit numbers can count.
    #[error("{count} points, expected fewer than 2^32 - 1")]
    TooMany {
        /// The number of points.
        count: usize,
    },
    /// An option that is out of range.
    #[error("{option} {value}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value given.
        value: u32,
        /// The valid range.
        expected: &'static str,
    },
    /// Too few points for an estimate.
    #[error("{count} points are too few to estimate from, expected {expected} or more")]
    TooFew {
        /// The number of points.
        count: usize,
        /// The minimum number of points.
        expected: usize,
    },
    /// Values that do not form a whole number of vectors.
    #[error("{values} values do not form vectors of {dimension} dimensions")]
    Shape {
        /// The number of values.
        values: usize,
        /// The number of values per vector.
        dimension: usize,
    },
    /// Two points whose distance is not symmetric (see [`check`](crate::metric::check)).
    #[error(
        "the distance is not a metric: for points {a} and {b} it is {there} one way and {back} \
         the other; a metric is symmetric"
    )]
    Asymmetric {
        /// The first point.
        a: u32,
        /// The second point.
        b: u32,
        /// The distance from the first to the second point.
        there: f32,
        /// The distance from the second to the first point.
        back: f32,
    },
    /// Three points that violate the triangle inequality (see [`check`](crate::metric::check)).
    #[error(
        "the distance is not a metric, or its rounding error is understated: \
         it is {direct} from point {a} to {c}, but only {first} + {second} via point {b}; \
         answers would be wrong"
    )]
    Triangle {
        /// The first point.
        a: u32,
        /// The intermediate point.
        b: u32,
        /// The last point.
        c: u32,
        /// The distance from the first to the last point.
        direct: f32,
        /// The distance from the first to the intermediate point.
        first: f32,
        /// The distance from the intermediate to the last point.
        second: f32,
    },
    /// Two points for which the methods of a metric disagree (see [`check`](crate::metric::check)).
    #[error(
        "the metric contradicts itself: the distance between points {a} and {b} is {distance}, \
         but distance_within or distances_from disagrees"
    )]
    Contradiction {
        /// The first point.
        a: u32,
        /// The second point.
        b: u32,
        /// The distance that [`distance`](crate::metric::Metric::distance) returned.
        distance: f32,
    },
    /// A KD-tree with a metric that has no [coordinates](crate::metric::Metric::coordinates).
    #[error(
        "a kd-tree needs a metric that grows with each coordinate \
         (euclidean, manhattan, chebyshev, minkowski); use another index, such as a vp-tree"
    )]
    NoCoordinates,
    /// A set that is not strictly increasing.
    #[error("set {point} is not strictly increasing")]
    NotIncreasing {
        /// The set.
        point: usize,
    },
}
