//! The labels of training documents, and label scores.

use std::cmp::Reverse;
use std::ops::Range;

use super::Vote;

/// A label and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelScore {
    /// The label's number in the model; labels are numbered in byte order of their names.
    pub label: u32,
    /// The share of the vote, from 0 to 1.
    pub score: f64,
}

/// The labels and weights of the training documents, for voting.
#[derive(Debug, Clone, Copy)]
pub struct TrainingLabels<'a> {
    /// The labels of row `i`, in increasing order, are `indices[indptr[i]..indptr[i + 1]]`.
    pub indptr: &'a [u64],
    /// The label numbers of all rows.
    pub indices: &'a [u32],
    /// The weight of each row's vote.
    pub weights: &'a [f32],
    /// Number of rows with each label.
    pub sizes: &'a [u32],
}

impl<'a> TrainingLabels<'a> {
    /// Returns the labels of a row, in increasing order.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub fn labels(&self, row: u32) -> &'a [u32] {
        &self.indices[self.label_range(row)]
    }

    /// Returns the range of a row's labels in `indices`.
    #[expect(clippy::cast_possible_truncation, reason = "bounds of a slice in memory")]
    pub(super) fn label_range(&self, row: u32) -> Range<usize> {
        let row = row as usize;
        self.indptr[row] as usize..self.indptr[row + 1] as usize
    }

    /// Returns the label with the most rows; in a tie, the first. `None` if no row has a label.
    pub(crate) fn most_frequent_label(&self) -> Option<u32> {
        most_frequent_label(self.sizes)
    }

    /// Returns the factor of each label's score under `vote`, or an empty vector if all factors are
    /// 1.
    pub(crate) fn factors(&self, vote: Vote) -> Vec<f64> {
        if vote.compensation <= 0.0 {
            return Vec::new();
        }
        let rarest =
            f64::from(self.sizes.iter().copied().filter(|&size| size > 0).min().unwrap_or(1));
        let factor = |&size: &u32| libm::pow(rarest / f64::from(size.max(1)), vote.compensation);
        self.sizes.iter().map(factor).collect()
    }
}

/// Returns the label with the most rows, given the number of rows with each label; in a tie, the
/// first. `None` if no row has a label.
pub(crate) fn most_frequent_label(sizes: &[u32]) -> Option<u32> {
    let used = (0u32..).zip(sizes).filter(|(_, size)| **size > 0);
    used.max_by_key(|&(label, size)| (size, Reverse(label))).map(|(label, _)| label)
}
