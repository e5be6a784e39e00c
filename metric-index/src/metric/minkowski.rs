//! The Minkowski distances: Manhattan, Euclidean, Chebyshev, and the distances of any other power.
//!
//! Differences are computed in `f64`. They are added in eight sums, one per coordinate modulo 8,
//! which are then added pairwise. The result has the same bits on every machine, with or without
//! vector instructions.

use multiversion::multiversion;

use super::{Blocks, Coordinates, Formula, Metric};

mod blocks;
mod lanes;

use blocks::{Combination, VectorBlocks};
use lanes::{LANES, join_lanes, max_or_nan, round_to_f32};

/// Defines a function that combines the differences of two vectors in eight lanes, then the lanes
/// pairwise.
macro_rules! kernel {
    ($name:ident, $point:ty, |$a:ident, $b:ident| $term:expr, $combine:expr) => {
        #[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
        fn $name(a: &[$point], b: &[$point]) -> f64 {
            let combine: fn(f64, f64) -> f64 = $combine;
            let mut lanes = [0.0f64; LANES];
            let (a, a_rest) = a.as_chunks::<LANES>();
            let (b, b_rest) = b.as_chunks::<LANES>();
            for (a, b) in a.iter().zip(b) {
                for ((lane, &$a), &$b) in lanes.iter_mut().zip(a).zip(b) {
                    let $a = f64::from($a);
                    let $b = f64::from($b);
                    *lane = combine(*lane, $term);
                }
            }
            for ((lane, &$a), &$b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
                let $a = f64::from($a);
                let $b = f64::from($b);
                *lane = combine(*lane, $term);
            }
            join_lanes(lanes, combine)
        }
    };
}

kernel!(sum_of_squares, f32, |a, b| (a - b) * (a - b), |x, y| x + y);
kernel!(sum_of_squares_u8, u8, |a, b| (a - b) * (a - b), |x, y| x + y);
kernel!(sum_of_absolutes, f32, |a, b| (a - b).abs(), |x, y| x + y);
kernel!(sum_of_absolutes_u8, u8, |a, b| (a - b).abs(), |x, y| x + y);
kernel!(max_absolute, f32, |a, b| (a - b).abs(), max_or_nan);
kernel!(max_absolute_u8, u8, |a, b| (a - b).abs(), max_or_nan);

/// Defines a function that combines the differences between a point and the nearest point of a box
/// in eight lanes of `f32`.
macro_rules! box_kernel {
    ($name:ident, |$difference:ident| $term:expr, $combine:expr) => {
        #[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
        fn $name(point: &[f32], low: &[f32], high: &[f32]) -> f32 {
            let combine: fn(f32, f32) -> f32 = $combine;
            let mut lanes = [0.0f32; LANES];
            let (point, point_rest) = point.as_chunks::<LANES>();
            let (low, low_rest) = low.as_chunks::<LANES>();
            let (high, high_rest) = high.as_chunks::<LANES>();
            for ((point, low), high) in point.iter().zip(low).zip(high) {
                for (((lane, &x), &low), &high) in lanes.iter_mut().zip(point).zip(low).zip(high) {
                    let $difference = distance_to_interval(x, low, high);
                    *lane = combine(*lane, $term);
                }
            }
            let rest = point_rest.iter().zip(low_rest).zip(high_rest);
            for (lane, ((&x, &low), &high)) in lanes.iter_mut().zip(rest) {
                let $difference = distance_to_interval(x, low, high);
                *lane = combine(*lane, $term);
            }
            join_lanes(lanes, combine)
        }
    };
}

/// Returns the distance from a coordinate to an interval; 0 inside it.
#[inline]
fn distance_to_interval(x: f32, low: f32, high: f32) -> f32 {
    let below = low - x;
    let above = x - high;
    let distance = if below > above { below } else { above };
    if distance > 0.0 { distance } else { 0.0 }
}

box_kernel!(box_sum_of_squares, |d| d * d, |x, y| x + y);
box_kernel!(box_sum_of_absolutes, |d| d, |x, y| x + y);
box_kernel!(box_max, |d| d, |x, y| if x > y { x } else { y });

/// Returns a lower bound on the distances to the points of a box of `dimension` coordinates, as
/// computed in `f64`. `sum` is the combined difference from the box, computed in `f32`. With
/// `n = dimension + 8`, its relative error is at most `n 2⁻²³` and its absolute error is at most
/// `n 2⁻¹⁴⁸`; see [`blocks`].
fn lower_bound(sum: f32, dimension: usize, root: impl Fn(f32) -> f32) -> f32 {
    /// Minimum sum for which underflow is negligible compared with the relative error.
    const MIN_SUM: f32 = 1e-30;
    let error = (dimension + 8) as f32 * f32::EPSILON;
    if sum > MIN_SUM && sum < f32::INFINITY { (root(sum) * (1.0 - error)).max(0.0) } else { 0.0 }
}

/// Implements a metric for vectors of one number type.
macro_rules! metric {
    (
        $metric:ty, $point:ty, |$self:ident, $a:ident, $b:ident| $distance:expr,
        $name:expr $(, { $($more:tt)* })?
    ) => {
        impl Metric<[$point]> for $metric {
            fn distance(&$self, $a: &[$point], $b: &[$point]) -> f32 {
                if $a.len() == $b.len() { round_to_f32($distance) } else { f32::NAN }
            }

            fn relative_error(&self) -> f32 {
                f32::EPSILON
            }

            // Below the smallest normal number, the rounding error is absolute.
            fn absolute_error(&self) -> f32 {
                f32::MIN_POSITIVE
            }

            fn name(&self) -> Option<String> {
                let name: fn(&Self) -> String = $name;
                Some(name(self))
            }

            $($($more)*)?
        }
    };
}

/// The Euclidean distance `√Σ (aᵢ − bᵢ)²` of vectors of the same length, summed in `f64` and
/// rounded once to `f32`.
///
/// ```
/// use metric_index::metric::{Euclidean, Metric};
///
/// assert_eq!(Euclidean.distance(&[0u8, 0][..], &[3, 4][..]), 5.0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Euclidean;

metric!(Euclidean, f32, |self, a, b| sum_of_squares(a, b).sqrt(), |_| "euclidean".to_owned(), {
    fn blocks(&self, points: &[&[f32]]) -> Option<Box<dyn Blocks<[f32]>>> {
        VectorBlocks::of(Combination::SumOfSquares, points)
    }
    fn formula(&self) -> Option<Formula> {
        Some(Formula::Euclidean)
    }
    fn coordinates(&self) -> Option<&dyn Coordinates> {
        Some(self)
    }
});
metric!(Euclidean, u8, |self, a, b| sum_of_squares_u8(a, b).sqrt(), |_| "euclidean".to_owned());

impl Coordinates for Euclidean {
    fn of<'a>(&self, point: &'a [f32]) -> &'a [f32] {
        point
    }

    fn is_euclidean(&self) -> bool {
        true
    }

    fn bound_from_box(&self, point: &[f32], low: &[f32], high: &[f32]) -> f32 {
        lower_bound(box_sum_of_squares(point, low, high), point.len(), f32::sqrt)
    }
}

/// The Manhattan distance `Σ |aᵢ − bᵢ|` of vectors of the same length, summed in `f64` and rounded
/// once to `f32`.
///
/// ```
/// use metric_index::metric::{Manhattan, Metric};
///
/// assert_eq!(Manhattan.distance(&[0.0f32, 0.0][..], &[3.0, -4.0][..]), 7.0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Manhattan;

metric!(Manhattan, f32, |self, a, b| sum_of_absolutes(a, b), |_| "manhattan".to_owned(), {
    fn blocks(&self, points: &[&[f32]]) -> Option<Box<dyn Blocks<[f32]>>> {
        VectorBlocks::of(Combination::SumOfAbsolutes, points)
    }
    fn formula(&self) -> Option<Formula> {
        Some(Formula::Manhattan)
    }
    fn coordinates(&self) -> Option<&dyn Coordinates> {
        Some(self)
    }
});
metric!(Manhattan, u8, |self, a, b| sum_of_absolutes_u8(a, b), |_| "manhattan".to_owned());

impl Coordinates for Manhattan {
    fn of<'a>(&self, point: &'a [f32]) -> &'a [f32] {
        point
    }

    fn bound_from_box(&self, point: &[f32], low: &[f32], high: &[f32]) -> f32 {
        lower_bound(box_sum_of_absolutes(point, low, high), point.len(), |sum| sum)
    }
}

/// The Chebyshev distance `max |aᵢ − bᵢ|` of vectors of the same length, rounded once to `f32`.
///
/// ```
/// use metric_index::metric::{Chebyshev, Metric};
///
/// assert_eq!(Chebyshev.distance(&[0.0f32, 0.0][..], &[3.0, -4.0][..]), 4.0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Chebyshev;

metric!(Chebyshev, f32, |self, a, b| max_absolute(a, b), |_| "chebyshev".to_owned(), {
    fn blocks(&self, points: &[&[f32]]) -> Option<Box<dyn Blocks<[f32]>>> {
        VectorBlocks::of(Combination::Maximum, points)
    }
    fn formula(&self) -> Option<Formula> {
        Some(Formula::Chebyshev)
    }
    fn coordinates(&self) -> Option<&dyn Coordinates> {
        Some(self)
    }
});
metric!(Chebyshev, u8, |self, a, b| max_absolute_u8(a, b), |_| "chebyshev".to_owned());

impl Coordinates for Chebyshev {
    fn of<'a>(&self, point: &'a [f32]) -> &'a [f32] {
        point
    }

    fn bound_from_box(&self, point: &[f32], low: &[f32], high: &[f32]) -> f32 {
        lower_bound(box_max(point, low, high), point.len(), |sum| sum)
    }
}

/// The Minkowski distance `(Σ |aᵢ − bᵢ|ᵖ)^(1/p)` of vectors of the same length, with `p >= 1`.
///
/// Differences are divided by the greatest difference, so no power overflows. The sum is computed
/// in `f64`, and the distance is rounded once to `f32`.
///
/// ```
/// use metric_index::metric::{Metric, Minkowski};
///
/// let cubic = Minkowski::new(3.0).ok_or("p is below 1")?;
/// assert_eq!(cubic.distance(&[0.0f32, 0.0][..], &[2.0, 2.0][..]), 16f32.powf(1.0 / 3.0));
/// assert!(Minkowski::new(0.5).is_none(), "not a metric");
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Minkowski {
    p: f64,
}

impl Minkowski {
    /// Creates the distance of power `p`. Returns `None` if `p` is not finite, or is below 1, where
    /// the triangle inequality does not hold.
    pub fn new(p: f32) -> Option<Self> {
        (p.is_finite() && p >= 1.0).then(|| Self { p: p.into() })
    }

    fn text(self) -> String {
        format!("minkowski:{}", round_to_f32(self.p))
    }

    fn norm(self, differences: impl Iterator<Item = f64>, greatest: f64) -> f64 {
        if greatest == 0.0 || !greatest.is_finite() {
            return greatest;
        }
        let sum: f64 = differences.map(|difference| libm::pow(difference / greatest, self.p)).sum();
        greatest * libm::pow(sum, 1.0 / self.p)
    }
}

metric!(
    Minkowski,
    f32,
    |self, a, b| {
        let differences = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs());
        self.norm(differences, max_absolute(a, b))
    },
    |metric| metric.text(),
    {
        fn coordinates(&self) -> Option<&dyn Coordinates> {
            Some(self)
        }
    }
);
metric!(
    Minkowski,
    u8,
    |self, a, b| {
        let differences = a.iter().zip(b).map(|(&a, &b)| f64::from(a.abs_diff(b)));
        self.norm(differences, max_absolute_u8(a, b))
    },
    |metric| metric.text()
);

impl Coordinates for Minkowski {
    fn of<'a>(&self, point: &'a [f32]) -> &'a [f32] {
        point
    }

    /// Bounds the distance by the greatest difference, which is a lower bound for every power.
    fn bound_from_box(&self, point: &[f32], low: &[f32], high: &[f32]) -> f32 {
        Chebyshev.bound_from_box(point, low, high)
    }
}
