//! The Jaccard distance.

use super::Metric;

/// The Jaccard distance `1 − |A ∩ B| / |A ∪ B|` between sets of numbers, given as strictly
/// increasing sequences. The distance between two empty sets is 0.
///
/// ```
/// use metric_index::metric::{Jaccard, Metric};
///
/// assert_eq!(Jaccard.distance(&[1, 2, 3], &[2, 3, 4]), 0.5);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Jaccard;

impl Metric<[u32]> for Jaccard {
    #[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
    fn distance(&self, a: &[u32], b: &[u32]) -> f32 {
        // Every index evaluates the distance from each point and each query to itself, and rejects
        // the point or query if this distance is not 0. The set is therefore validated here.
        if std::ptr::eq(a, b) && !a.is_sorted_by(|x, y| x < y) {
            return f32::NAN;
        }
        let mut left = 0;
        let mut right = 0;
        let mut common = 0usize;
        while left < a.len() && right < b.len() {
            common += usize::from(a[left] == b[right]);
            let left_step = a[left] <= b[right];
            let right_step = b[right] <= a[left];
            left += usize::from(left_step);
            right += usize::from(right_step);
        }
        let union = a.len() + b.len() - common;
        if union == 0 { 0.0 } else { ((union - common) as f64 / union as f64) as f32 }
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn name(&self) -> Option<String> {
        Some("jaccard".to_owned())
    }
}
