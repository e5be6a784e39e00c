//! Counting the votes for each label of a document.

use std::cell::RefCell;

use super::{TrainingLabels, Voters};
use crate::search::Neighbor;

thread_local! {
    /// The tally of the thread, reused for each document.
    static TALLY: RefCell<VoteTally> = const { RefCell::new(VoteTally::new()) };
}

/// A tally of the votes for all labels. Most labels have no votes.
///
/// Most neighbors have few labels, but the number varies, so processors mispredict the end of a
/// loop over the labels. Votes are therefore first [listed](Self::list) without such a loop and
/// then counted in order.
#[derive(Debug)]
pub(crate) struct VoteTally {
    /// The label of each listed vote, in the order of the neighbors. The vector is longer than
    /// `listed`.
    labels: Vec<u32>,
    weights: Vec<f64>,
    /// Number of listed votes.
    listed: usize,
    by_label: Vec<LabelVotes>,
    /// The first `count` entries are the labels that have votes, in the order of their first votes.
    /// There is one more entry than labels, because a label is written before it is known to be
    /// new.
    voted: Vec<u32>,
    /// Number of labels with votes.
    count: usize,
    /// Scores and positions in `voted`, as sort keys.
    ranking: Vec<u128>,
    /// Whether votes are being counted, or were being counted when a panic occurred.
    is_in_use: bool,
}

/// The votes for one label.
#[derive(Debug, Clone, Copy, Default)]
struct LabelVotes {
    /// The sum of the votes from each list, added in the order of the neighbors.
    sums: [f64; 2],
    /// Number of neighbors that voted.
    voters: u32,
}

/// Number of labels copied at once. The last labels may belong to the next document.
const COPIED_LABELS: usize = 8;

impl VoteTally {
    const fn new() -> Self {
        Self {
            labels: Vec::new(),
            weights: Vec::new(),
            listed: 0,
            by_label: Vec::new(),
            voted: Vec::new(),
            count: 0,
            ranking: Vec::new(),
            is_in_use: false,
        }
    }

    /// Counts the votes of all neighbors for their labels. `weight` takes the number of the list,
    /// the rank and the neighbor, and returns the weight of the neighbor's votes.
    pub(crate) fn count(
        &mut self,
        voters: Voters<'_>,
        training: &TrainingLabels<'_>,
        mut weight: impl FnMut(usize, usize, &Neighbor) -> f64,
    ) {
        let labels = training.sizes.len();
        if self.by_label.len() < labels {
            self.by_label.resize(labels, LabelVotes::default());
            self.voted.resize(labels + 1, 0);
        }
        match voters.lists() {
            [(list, _), (&[], _)] => {
                for (rank, neighbor) in list.iter().enumerate() {
                    self.list(training, neighbor.row, weight(0, rank, neighbor));
                }
                self.count_listed(0);
            }
            // Neighbors are counted by rank, which determines the order of first votes.
            _ => voters.for_each_ranked(|list, rank, neighbor| {
                self.list(training, neighbor.row, weight(list, rank, neighbor));
                self.count_listed(list);
            }),
        }
    }

    /// Lists the votes of a neighbor.
    #[inline]
    fn list(&mut self, training: &TrainingLabels<'_>, row: u32, weight: f64) {
        let range = training.label_range(row);
        let start = self.listed;
        self.listed += range.len();
        if self.listed + COPIED_LABELS > self.labels.len() {
            self.grow();
        }
        if let (Some(first), true) = (
            training.indices[range.start..].first_chunk::<COPIED_LABELS>(),
            range.len() <= COPIED_LABELS,
        ) {
            // The next neighbor overwrites the entries beyond this neighbor's labels.
            self.labels[start..start + COPIED_LABELS].copy_from_slice(first);
            self.weights[start..start + COPIED_LABELS].fill(weight);
        } else {
            self.labels[start..self.listed].copy_from_slice(&training.indices[range]);
            self.weights[start..self.listed].fill(weight);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let length = (self.listed + COPIED_LABELS).next_power_of_two();
        self.labels.resize(length, 0);
        self.weights.resize(length, 0.0);
    }

    /// Counts the listed votes.
    fn count_listed(&mut self, list: usize) {
        let by_label = &mut self.by_label[..];
        let voted = &mut self.voted[..];
        let mut count = self.count;
        for (&label, weight) in self.labels[..self.listed].iter().zip(&self.weights) {
            let entry = &mut by_label[label as usize];
            voted[count] = label;
            count += usize::from(entry.voters == 0);
            entry.voters += 1;
            entry.sums[list] += weight;
        }
        self.count = count;
        self.listed = 0;
    }

    /// Returns the number of neighbors that voted for a label.
    pub(crate) fn voters(&self, label: u32) -> u32 {
        self.by_label.get(label as usize).map_or(0, |votes| votes.voters)
    }

    /// Returns the labels that have votes, by decreasing score, then in the order of their first
    /// votes. `score` is called with a label and its votes in each list.
    pub(crate) fn ranked(
        &mut self,
        score: impl Fn(u32, [f64; 2]) -> f64,
    ) -> impl ExactSizeIterator<Item = RankedLabel> {
        let Self { by_label, voted, count, ranking, .. } = self;
        let voted = &voted[..*count];
        ranking.extend((0u128..).zip(voted).map(|(position, &label)| {
            let score = score(label, by_label[label as usize].sums);
            u128::from(descending_key(score)) << 64 | position
        }));
        // All keys are distinct.
        ranking.sort_unstable();
        ranking.iter().map(|&key| {
            let score = (key >> 64) as u64;
            let label = voted[key as usize];
            RankedLabel {
                label,
                score: from_descending_key(score),
                voters: by_label[label as usize].voters,
            }
        })
    }

    fn clear(&mut self) {
        for &label in &self.voted[..self.count] {
            self.by_label[label as usize] = LabelVotes::default();
        }
        self.count = 0;
        self.ranking.clear();
        self.is_in_use = false;
    }
}

/// A label with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RankedLabel {
    pub(crate) label: u32,
    pub(crate) score: f64,
    /// Number of neighbors with the label.
    pub(crate) voters: u32,
}

/// Returns a sort key that decreases as the number increases in the order of [`f64::total_cmp`].
fn descending_key(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 0 { !bits ^ (1 << 63) } else { bits }
}

/// Returns the number of a sort key.
fn from_descending_key(key: u64) -> f64 {
    let bits = if key >> 63 == 0 { !key ^ (1 << 63) } else { key };
    f64::from_bits(bits)
}

/// Calls `work` with an empty tally. `work` must not call this function.
pub(crate) fn with_tally<R>(work: impl FnOnce(&mut VoteTally) -> R) -> R {
    TALLY.with_borrow_mut(|tally| {
        if tally.is_in_use {
            *tally = VoteTally::new();
        }
        tally.is_in_use = true;
        let result = work(tally);
        tally.clear();
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_begins_with_an_empty_tally() {
        // The last label list ends at the end of `indices`. The others end earlier.
        let training = TrainingLabels {
            indptr: &[0, 2, 2, 7, 9],
            indices: &[2, 7, 0, 1, 3, 4, 7, 0, 7],
            weights: &[1.0; 4],
            sizes: &[1; 8],
        };
        let lists = [[3, 0], [1, 2]].map(|rows| rows.map(|row| Neighbor { row, similarity: 0.5 }));
        let voters = Voters::both(&lists[0], &lists[1], 0.5);
        let weight = |list: usize, rank: usize, _: &Neighbor| [1.0, 4.0][list] * (rank + 1) as f64;
        for _ in 0..2 {
            // No votes remain after a panic.
            let panics = || {
                with_tally(|tally| {
                    tally.count(voters, &training, weight);
                    panic!("on purpose")
                })
            };
            assert!(std::panic::catch_unwind(panics).is_err());
            with_tally(|tally| {
                tally.count(voters, &training, weight);
                assert_eq!([7, 2, 5, 99].map(|label| tally.voters(label)), [3, 1, 0, 0]);
                let found = tally.ranked(|label, [a, b]| if label == 2 { 9.0 } else { a + b });
                let found: Vec<_> = found
                    .map(|RankedLabel { label, score, voters }| (label, score, voters))
                    .collect();
                // Ties: the label with the earlier vote comes first.
                let expected =
                    [(7, 11.0, 3), (0, 9.0, 2), (2, 9.0, 1), (1, 8.0, 1), (3, 8.0, 1), (4, 8.0, 1)];
                assert_eq!(found, expected);
            });
        }
    }

    #[test]
    fn keys_sort_like_numbers_in_reverse() {
        let numbers =
            [f64::INFINITY, 1.5, 1.0, f64::MIN_POSITIVE, 5e-324, 0.0, -0.0, -5e-324, -1.0, -1e300];
        let keys = numbers.map(descending_key);
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(keys.map(|key| from_descending_key(key).to_bits()), numbers.map(f64::to_bits));
        assert!(descending_key(f64::NAN) < descending_key(f64::INFINITY));
    }
}
