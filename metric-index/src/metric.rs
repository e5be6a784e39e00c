//! Distances.

mod edit;
mod euclidean;

pub use edit::Edit;
pub use euclidean::Euclidean;

/// A distance between points, for which, without rounding,
///
/// * `d(a, b) >= 0`, and `d(a, b) = 0` exactly if `a` and `b` are the same point,
/// * `d(a, b) = d(b, a)`,
/// * `d(a, c) <= d(a, b) + d(b, c)`.
///
/// Cosine "distance" and squared Euclidean distance break the third: they are no metrics.
/// Distances are finite and never NaN.
///
/// ```
/// use metric_index::metric::{Euclidean, Metric};
///
/// assert_eq!(Euclidean.distance(&[0.0, 0.0][..], &[3.0, 4.0][..]), 5.0);
/// ```
pub trait Metric<P: ?Sized>: Sync {
    /// The distance of two points.
    fn distance(&self, a: &P, b: &P) -> f32;

    /// How far `distance` can be from the true distance, relative to it.
    fn relative_error(&self) -> f32;
}
