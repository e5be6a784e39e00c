//! Metrics: distances that satisfy the triangle inequality, and their rounding errors.

use std::fmt;
use std::sync::{Arc, OnceLock};

mod angular;
mod blocks;
mod by_name;
mod check;
mod counted;
mod edit;
mod hamming;
mod jaccard;
mod minkowski;

pub use angular::Angular;
pub use blocks::{Blocks, Scan};
pub use by_name::VectorMetric;
pub use check::check;
pub use counted::CountingMetric;
pub use edit::Edit;
pub use hamming::Hamming;
pub use jaccard::Jaccard;
pub use minkowski::{Chebyshev, Euclidean, Manhattan, Minkowski};

/// A distance between points. Apart from rounding, it satisfies
///
/// * `d(a, b) >= 0`, and `d(a, b) = 0` if and only if `a` and `b` are equal,
/// * `d(a, b) = d(b, a)`,
/// * `d(a, c) <= d(a, b) + d(b, c)`.
///
/// Cosine "distance" and squared Euclidean distance violate the triangle inequality. Use
/// [`Angular`] and [`Euclidean`] instead. [`check()`] tests the axioms on a sample.
///
/// If the distance between two points is undefined, such as for vectors of different lengths, it is
/// NaN, which every index rejects. Distances beyond the range of `f32` are infinite. An index
/// rejects infinite distances that it evaluates; which distances it evaluates depends on the index.
///
/// ```
/// use metric_index::metric::{Euclidean, Metric};
///
/// assert_eq!(Euclidean.distance(&[0.0f32, 0.0][..], &[3.0, 4.0][..]), 5.0);
/// ```
///
/// The trait is dyn-compatible: a metric chosen at run time is a `&dyn Metric<P>`,
/// `Box<dyn Metric<P>>` or `Arc<dyn Metric<P>>`. Each of them is a metric itself.
///
/// ```
/// use metric_index::index::{Index, Kind};
/// use metric_index::metric::{Chebyshev, Euclidean, Metric};
/// use metric_index::points::Vectors;
///
/// let plane = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
/// for metric in [&Euclidean as &dyn Metric<[f32]>, &Chebyshev] {
///     let index = Kind::KdTree.build(&plane, metric)?;
///     assert_eq!(index.nearest(&[2.0, 4.0], 1)?[0].distance, 1.0);
/// }
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub trait Metric<P: ?Sized>: Sync {
    /// Returns the distance between two points. The error `|distance - true distance|` is at most
    /// [`relative_error`] times the true distance plus [`absolute_error`].
    ///
    /// [`relative_error`]: Metric::relative_error
    /// [`absolute_error`]: Metric::absolute_error
    fn distance(&self, a: &P, b: &P) -> f32;

    /// Returns the maximum relative error of [`Metric::distance`], at most 0.1; 0 if distances are
    /// exact.
    fn relative_error(&self) -> f32;

    /// Returns the maximum absolute error of [`Metric::distance`].
    fn absolute_error(&self) -> f32 {
        0.0
    }

    /// Returns the distance, or `None` if it exceeds `radius`. This can be faster than computing
    /// the distance.
    fn distance_within(&self, a: &P, b: &P, radius: f32) -> Option<f32> {
        let distance = self.distance(a, b);
        if distance > radius { None } else { Some(distance) }
    }

    /// Prepares a point for evaluating its distances to many other points. Returns `None`, the
    /// default, if preparation is not faster. The distances equal the results of
    /// [`distance`](Metric::distance), bit for bit.
    ///
    /// ```
    /// use metric_index::metric::{Edit, Metric};
    ///
    /// let from_casa = Edit.distances_from("casa").expect("a short word");
    /// assert_eq!(from_casa.to("cosa"), Edit.distance("casa", "cosa"));
    /// ```
    fn distances_from<'a>(&'a self, point: &'a P) -> Option<Box<dyn Distances<P> + 'a>> {
        let _ = point;
        None
    }

    /// Copies points into blocks, which allow many distances to be computed at once. Returns
    /// `None`, the default, if blocks are not faster. Each index passes the points in its own
    /// order.
    ///
    /// ```
    /// use metric_index::metric::{Angular, Euclidean, Metric};
    ///
    /// let plane: [&[f32]; 2] = [&[0.0, 0.0], &[3.0, 4.0]];
    /// assert!(Euclidean.blocks(&plane).is_some());
    /// assert!(Angular.blocks(&plane).is_none());
    /// ```
    fn blocks(&self, points: &[&P]) -> Option<Box<dyn Blocks<P>>> {
        let _ = points;
        None
    }

    /// Returns the size of a point, such as the length of a string. Brute force groups points of
    /// similar size, because blocks of such points are faster. The size does not affect distances.
    ///
    /// ```
    /// use metric_index::metric::{Edit, Metric};
    ///
    /// assert_eq!(Edit.size("ñandú"), 5);
    /// ```
    fn size(&self, point: &P) -> usize {
        let _ = point;
        0
    }

    /// Returns the bounds that a [`KdTree`](crate::index::KdTree) needs. Returns `None`, the
    /// default, if KD-trees do not support this metric.
    ///
    /// ```
    /// use metric_index::metric::{Angular, Euclidean, Metric};
    ///
    /// assert!(Metric::<[f32]>::coordinates(&Euclidean).is_some());
    /// assert!(Metric::<[f32]>::coordinates(&Angular).is_none());
    /// ```
    fn coordinates(&self) -> Option<&dyn Coordinates<P>> {
        None
    }

    /// Returns the formula of the distance, if GPUs can evaluate it; `None` by default.
    ///
    /// ```
    /// use metric_index::metric::{Euclidean, Formula, Metric, Minkowski};
    ///
    /// assert_eq!(Metric::<[f32]>::formula(&Euclidean), Some(Formula::Euclidean));
    /// assert_eq!(Minkowski::new(3.0).and_then(|cubic| Metric::<[f32]>::formula(&cubic)), None);
    /// ```
    fn formula(&self) -> Option<Formula> {
        None
    }

    /// Returns the name that identifies the metric in index files, such as `euclidean` or
    /// `minkowski:3`. If it returns `None`, the default, the file contains no name. Opening the
    /// file then checks the metric only by comparing some distances.
    ///
    /// ```
    /// use metric_index::metric::{Edit, Metric};
    ///
    /// assert_eq!(Edit.name().as_deref(), Some("edit"));
    /// ```
    fn name(&self) -> Option<String> {
        None
    }
}

/// A distance of this crate that GPUs can evaluate with the same results, bit for bit; see
/// [`Metric::formula`].
///
/// ```
/// use metric_index::metric::{Edit, Formula, Metric};
///
/// assert_eq!(Edit.formula(), Some(Formula::Edit));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formula {
    /// The [`Euclidean`] distance.
    Euclidean,
    /// The [`Manhattan`] distance.
    Manhattan,
    /// The [`Chebyshev`] distance.
    Chebyshev,
    /// The [`Angular`] distance.
    Angular,
    /// The [`Edit`] distance.
    Edit,
}

/// The distances from one point to others; see [`Metric::distances_from`].
///
/// ```
/// use metric_index::metric::{Distances, Edit, Metric};
///
/// let from_casa = Edit.distances_from("casa").expect("a short word");
/// let is_near = |word: &&str| from_casa.to_within(word, 1.0).is_some();
/// let near: Vec<&str> = ["cosa", "pez"].into_iter().filter(is_near).collect();
/// assert_eq!(near, ["cosa"]);
/// ```
pub trait Distances<P: ?Sized>: Send + Sync {
    /// Returns the distance to another point, like [`Metric::distance`].
    fn to(&self, other: &P) -> f32;

    /// Returns the distance to another point within a radius, like [`Metric::distance_within`].
    fn to_within(&self, other: &P, radius: f32) -> Option<f32>;
}

/// A point from which distances are evaluated. If the metric supports it, the point is prepared
/// when the first distance is evaluated.
pub(crate) struct Origin<'a, P: ?Sized, M> {
    metric: &'a M,
    point: &'a P,
    prepared: OnceLock<Option<Box<dyn Distances<P> + 'a>>>,
}

impl<'a, P: ?Sized, M: Metric<P>> Origin<'a, P, M> {
    pub(crate) fn new(metric: &'a M, point: &'a P) -> Self {
        Self { metric, point, prepared: OnceLock::new() }
    }

    pub(crate) fn point(&self) -> &'a P {
        self.point
    }

    fn prepared(&self) -> Option<&(dyn Distances<P> + 'a)> {
        self.prepared.get_or_init(|| self.metric.distances_from(self.point)).as_deref()
    }

    pub(crate) fn to(&self, other: &P) -> f32 {
        match self.prepared() {
            Some(prepared) => prepared.to(other),
            None => self.metric.distance(self.point, other),
        }
    }

    pub(crate) fn to_within(&self, other: &P, radius: f32) -> Option<f32> {
        match self.prepared() {
            Some(prepared) => prepared.to_within(other, radius),
            None => self.metric.distance_within(self.point, other, radius),
        }
    }
}

impl<P: ?Sized, M> fmt::Debug for Origin<'_, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").finish_non_exhaustive()
    }
}

/// Implements [`Metric`] for pointers to metrics.
macro_rules! forward_through {
    ($($pointer:ty $(: $send:ident)?),*) => {$(
        impl<P: ?Sized, M: Metric<P> + ?Sized $(+ $send)?> Metric<P> for $pointer {
            fn distance(&self, a: &P, b: &P) -> f32 {
                (**self).distance(a, b)
            }

            fn relative_error(&self) -> f32 {
                (**self).relative_error()
            }

            fn absolute_error(&self) -> f32 {
                (**self).absolute_error()
            }

            fn distance_within(&self, a: &P, b: &P, radius: f32) -> Option<f32> {
                (**self).distance_within(a, b, radius)
            }

            fn distances_from<'a>(&'a self, point: &'a P) -> Option<Box<dyn Distances<P> + 'a>> {
                (**self).distances_from(point)
            }

            fn blocks(&self, points: &[&P]) -> Option<Box<dyn Blocks<P>>> {
                (**self).blocks(points)
            }

            fn size(&self, point: &P) -> usize {
                (**self).size(point)
            }

            fn coordinates(&self) -> Option<&dyn Coordinates<P>> {
                (**self).coordinates()
            }

            fn formula(&self) -> Option<Formula> {
                (**self).formula()
            }

            fn name(&self) -> Option<String> {
                (**self).name()
            }
        }
    )*};
}

forward_through!(&M, Box<M>, Arc<M>: Send);

/// The operations that a [`KdTree`](crate::index::KdTree) needs from a metric: the coordinates of a
/// point, and a lower bound on the distances from a box.
///
/// ```
/// use metric_index::metric::{Coordinates, Manhattan};
///
/// let bound = Manhattan.bound_from_box(&[3.0, 0.5], &[0.0, 0.0], &[1.0, 1.0]);
/// assert!(bound > 1.99 && bound <= 2.0);
/// ```
pub trait Coordinates<P: ?Sized = [f32]>: Sync {
    /// Returns the coordinates of a point.
    fn of<'a>(&self, point: &'a P) -> &'a [f32];

    /// Returns whether the metric is the [`Euclidean`] distance of the coordinates; `false` by
    /// default. If it is, brute force can answer many queries together by matrix products.
    fn is_euclidean(&self) -> bool {
        false
    }

    /// Returns a lower bound on [`Metric::distance`] to the points of the box
    /// `low[i] <= x[i] <= high[i]`. The bound is the distance to the nearest point of the box,
    /// rounded down by more than its rounding error.
    fn bound_from_box(&self, coordinates: &[f32], low: &[f32], high: &[f32]) -> f32;
}
