//! Euclidean distance.

use super::Metric;

/// `√Σ (aᵢ − bᵢ)²` of vectors of the same length. Summed in `f64`, rounded once to `f32`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Euclidean;

impl Metric<[f32]> for Euclidean {
    /// # Panics
    /// If the vectors have different lengths.
    #[expect(clippy::cast_possible_truncation, reason = "the one rounding to f32")]
    fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "vectors of different lengths have no distance");
        let squares = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
        squares.sum::<f64>().sqrt() as f32
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }
}
