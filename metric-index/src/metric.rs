//! Distances.

mod angular;
mod counted;
mod edit;
mod hamming;
mod jaccard;
mod minkowski;

pub use angular::Angular;
pub use counted::Counted;
pub use edit::Edit;
pub use hamming::Hamming;
pub use jaccard::Jaccard;
pub use minkowski::{Chebyshev, Euclidean, Manhattan, Minkowski};

/// A distance between points, for which, without rounding,
///
/// * `d(a, b) >= 0`, and `d(a, b) = 0` exactly if `a` and `b` are the same point,
/// * `d(a, b) = d(b, a)`,
/// * `d(a, c) <= d(a, b) + d(b, c)`.
///
/// Cosine "distance" and squared Euclidean distance break the third: use [`Angular`] and [`Euclidean`].
/// Points that have no distance, as vectors of different lengths, get NaN, which every index refuses.
/// Distances beyond the range of `f32` are infinite: an index refuses them where it measures them, which
/// depends on the index.
///
/// ```
/// use metric_index::metric::{Euclidean, Metric};
///
/// assert_eq!(Euclidean.distance(&[0.0f32, 0.0][..], &[3.0, 4.0][..]), 5.0);
/// ```
pub trait Metric<P: ?Sized>: Sync {
    /// The distance of two points: `|distance - true distance|` is at most [`relative_error`] times the
    /// true distance, and [`absolute_error`] more.
    ///
    /// [`relative_error`]: Metric::relative_error
    /// [`absolute_error`]: Metric::absolute_error
    fn distance(&self, a: &P, b: &P) -> f32;

    /// See [`Metric::distance`]; 0 if distances are exact, at most 0.1.
    fn relative_error(&self) -> f32;

    /// See [`Metric::distance`].
    fn absolute_error(&self) -> f32 {
        0.0
    }

    /// The distance, or `None` if it is above `radius`: that can be found out with less work.
    fn distance_within(&self, a: &P, b: &P, radius: f32) -> Option<f32> {
        let distance = self.distance(a, b);
        if distance > radius { None } else { Some(distance) }
    }
}

impl<P: ?Sized, M: Metric<P>> Metric<P> for &M {
    fn distance(&self, a: &P, b: &P) -> f32 {
        (*self).distance(a, b)
    }

    fn relative_error(&self) -> f32 {
        (*self).relative_error()
    }

    fn absolute_error(&self) -> f32 {
        (*self).absolute_error()
    }

    fn distance_within(&self, a: &P, b: &P, radius: f32) -> Option<f32> {
        (*self).distance_within(a, b, radius)
    }
}

/// A metric of vectors that grows with the difference of each coordinate: what a tree that cuts the space
/// along the axes needs.
pub trait Coordinates: Metric<[f32]> {
    /// The distance of a point from the nearest point of the box `low[i] <= x[i] <= high[i]`, with the
    /// error of [`Metric::distance`].
    fn distance_from_box(&self, point: &[f32], low: &[f32], high: &[f32]) -> f32;
}

impl<M: Coordinates> Coordinates for &M {
    fn distance_from_box(&self, point: &[f32], low: &[f32], high: &[f32]) -> f32 {
        (*self).distance_from_box(point, low, high)
    }
}
