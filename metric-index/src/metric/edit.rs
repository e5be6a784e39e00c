//! Edit distance.

use super::Metric;

/// Levenshtein distance: the least number of insertions, deletions and substitutions of Unicode
/// scalar values that turn one string into the other.
///
/// ```
/// use metric_index::metric::{Edit, Metric};
///
/// assert_eq!(Edit.distance("árbol", "arbole"), 2.0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Edit;

impl Metric<str> for Edit {
    fn distance(&self, a: &str, b: &str) -> f32 {
        let b: Vec<char> = b.chars().collect();
        // Row i of the table of Wagner and Fischer (1974): distances of a's first i characters
        // to each beginning of b.
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, a) in a.chars().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, &b) in b.iter().enumerate() {
                let substituted = diagonal + usize::from(a != b);
                diagonal = row[j + 1];
                row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
            }
        }
        row[b.len()] as f32
    }

    fn relative_error(&self) -> f32 {
        0.0
    }
}
