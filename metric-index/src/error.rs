//! What an index refuses.

/// Why a point or a query is refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A distance that is negative, infinite or not a number: the points or the metric are wrong.
    #[error("the distance to point {point} is {distance}, which is no distance")]
    NoDistance {
        /// The point.
        point: usize,
        /// What the metric gave.
        distance: f32,
    },
    /// A radius that is negative or not a number.
    #[error("radius {radius}, expected a number from 0")]
    Radius {
        /// What was given.
        radius: f32,
    },
    /// A point that the metric cannot measure.
    #[error("point {point} holds a coordinate that is not finite")]
    NotFinite {
        /// The point.
        point: usize,
    },
}
