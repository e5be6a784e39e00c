//! The angular metric.

use super::{Formula, Metric};

/// The angle between two vectors in radians, from 0 to π. Vectors that differ only in length are
/// equal. The zero vector has no angle and is rejected.
///
/// The angle between unit vectors u and v is computed in `f64` with Kahan's formula
/// `2 atan2(|u − v|, |u + v|)`. Unlike the arc cosine, it is also accurate for small angles.
///
/// ```
/// use metric_index::metric::{Angular, Metric};
///
/// assert_eq!(Angular.distance(&[0.0f32, 2.0][..], &[3.0, 0.0][..]), std::f32::consts::FRAC_PI_2);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Angular;

impl Metric<[f32]> for Angular {
    fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
        angle(a, b)
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn name(&self) -> Option<String> {
        Some("angular".to_owned())
    }

    fn formula(&self) -> Option<Formula> {
        Some(Formula::Angular)
    }

    fn absolute_error(&self) -> f32 {
        ABSOLUTE_ERROR
    }
}

impl Metric<[u8]> for Angular {
    fn distance(&self, a: &[u8], b: &[u8]) -> f32 {
        angle(a, b)
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn name(&self) -> Option<String> {
        Some("angular".to_owned())
    }

    fn absolute_error(&self) -> f32 {
        ABSOLUTE_ERROR
    }
}

/// Upper bound on the rounding error of unit vectors in `f64`, for up to 2²⁰ dimensions.
const ABSOLUTE_ERROR: f32 = 1e-9;

#[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
fn angle<T: Copy + Into<f64>>(a: &[T], b: &[T]) -> f32 {
    if a.len() != b.len() {
        return f32::NAN;
    }
    let length = |v: &[T]| v.iter().map(|&x| x.into() * x.into()).sum::<f64>().sqrt();
    let length_a = length(a);
    let length_b = length(b);
    let mut squared_difference = 0.0;
    let mut squared_sum = 0.0;
    for (&a, &b) in a.iter().zip(b) {
        let u = a.into() / length_a;
        let v = b.into() / length_b;
        squared_difference += (u - v) * (u - v);
        squared_sum += (u + v) * (u + v);
    }
    let angle = 2.0 * libm::atan2(squared_difference.sqrt(), squared_sum.sqrt());
    // Vectors of dimension 0 or length 0 have no angle.
    if length_a > 0.0 && length_b > 0.0 { angle as f32 } else { f32::NAN }
}
