//! The Hamming distance.

use super::Metric;

/// The number of positions at which two sequences of the same length differ.
///
/// ```
/// use metric_index::metric::{Hamming, Metric};
///
/// assert_eq!(Hamming.distance(b"ACGT", b"AGGA"), 2.0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Hamming;

impl<T: PartialEq> Metric<[T]> for Hamming {
    fn distance(&self, a: &[T], b: &[T]) -> f32 {
        if a.len() != b.len() {
            return f32::NAN;
        }
        a.iter().zip(b).filter(|(a, b)| a != b).count() as f32
    }

    // Counts above 2^24 are rounded.
    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn name(&self) -> Option<String> {
        Some("hamming".to_owned())
    }
}
