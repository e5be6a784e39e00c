//! Jaccard distance.

use super::Metric;

/// `1 − |A ∩ B| / |A ∪ B|` of sets of numbers, each a rising sequence; 0 for two empty sets.
///
/// ```
/// use metric_index::metric::{Jaccard, Metric};
///
/// assert_eq!(Jaccard.distance(&[1, 2, 3], &[2, 3, 4]), 0.5);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Jaccard;

impl Metric<[u32]> for Jaccard {
    #[expect(clippy::cast_possible_truncation, reason = "the one rounding to f32")]
    fn distance(&self, a: &[u32], b: &[u32]) -> f32 {
        // A set from itself: every index asks this of its points and of each query, and refuses what is not 0.
        if std::ptr::eq(a, b) && !a.is_sorted_by(|x, y| x < y) {
            return f32::NAN;
        }
        let (mut left, mut right, mut common) = (0, 0, 0usize);
        while left < a.len() && right < b.len() {
            common += usize::from(a[left] == b[right]);
            let (left_steps, right_steps) = (a[left] <= b[right], b[right] <= a[left]);
            left += usize::from(left_steps);
            right += usize::from(right_steps);
        }
        let all = a.len() + b.len() - common;
        if all == 0 { 0.0 } else { ((all - common) as f64 / all as f64) as f32 }
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }

    fn name(&self) -> Option<String> {
        Some("jaccard".to_owned())
    }
}
