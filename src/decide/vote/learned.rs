//! Learned vote weights, which determine how much a training document's vote counts for each label.

use crate::decide::vote::{LabelScore, TrainingLabels, VoteWeight, Voters};
use crate::rows::matrix::Array;

/// The learned vote weights of a model. Before learning, a document's vote has weight 1 for each of
/// its own labels and 0 for all others. Documents that predict a label well get more weight for it;
/// misleading documents get less.
///
/// A label is scored if a neighbor has it. Let vⱼ be neighbor j's share of all votes, and w(j, c)
/// the weight of its vote for label c. The sum of label c is s(c) = Σⱼ vⱼ w(j, c). The score of
/// label c is
///
/// * in single-label mode, the softmax of the sums: exp(T s(c)) / Σ exp(T s(d)) over the scored
///   labels d;
/// * in multi-label mode, the logistic function of b(c) + a(c) s(c).
///
/// Weights, b and a minimize the logarithmic loss on held-out documents, with a quadratic penalty
/// on their distance from their initial values. The method is a local form of kernel logistic
/// regression. It is related to the learned instance weights of Paredes and Vidal (2006).
#[derive(Debug, Clone)]
pub struct LearnedVotes {
    /// The vote weights of training document `i` are `starts[i]..starts[i + 1]`.
    pub(crate) starts: Array<u64>,
    /// The label of each vote weight, in increasing order within a document.
    pub(crate) labels: Array<u32>,
    /// The vote weights.
    pub(crate) vote_weights: Array<f32>,
    /// In multi-label mode, b of each label; otherwise empty.
    pub(crate) offsets: Array<f32>,
    /// In multi-label mode, a of each label; otherwise only T.
    pub(crate) scales: Array<f32>,
}

/// A label and the weight of a document's vote for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelWeight {
    /// The label's number.
    pub label: u32,
    /// The weight of the vote.
    pub weight: f32,
}

/// Replaces the sum of each label with its score.
pub(crate) fn sums_to_scores(sums: &mut [(u32, f64)], offsets: &[f32], scales: &[f32]) {
    if offsets.is_empty() {
        let scale = scales.first().map_or(1.0, |&scale| f64::from(scale));
        let highest = sums.iter().map(|&(_, sum)| sum).fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (_, sum) in &mut *sums {
            *sum = libm::exp(scale * (*sum - highest));
            total += *sum;
        }
        for (_, score) in sums {
            *score = (*score / total).max(f64::MIN_POSITIVE);
        }
    } else {
        for (label, sum) in sums {
            let offset = f64::from(offsets[*label as usize]);
            let scale = f64::from(scales[*label as usize]);
            let z = offset + scale * *sum;
            *sum = (1.0 / (1.0 + libm::exp(-z))).max(f64::MIN_POSITIVE);
        }
    }
}

impl LearnedVotes {
    /// Iterates over the vote weights of a training document, by increasing label. The weights for
    /// all other labels are 0.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn of(&self, row: u32) -> impl Iterator<Item = LabelWeight> {
        let entries = self.entries(row);
        let labels = self.labels[entries.clone()].iter().copied();
        labels
            .zip(&self.vote_weights[entries])
            .map(|(label, &weight)| LabelWeight { label, weight })
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds of slices in memory")]
    fn entries(&self, row: u32) -> std::ops::Range<usize> {
        self.starts[row as usize] as usize..self.starts[row as usize + 1] as usize
    }

    /// Returns the labels of the voters by decreasing score. Ties go to the label with the better
    /// neighbor.
    pub(crate) fn vote(
        &self,
        voters: Voters<'_>,
        weight: VoteWeight,
        training: &TrainingLabels<'_>,
    ) -> Vec<LabelScore> {
        let shares = vote_shares(voters, weight, training);
        // The labels of the neighbors with their positions; the labels of the best neighbor come
        // first.
        let mut order: Vec<(u32, usize)> = Vec::new();
        for &(row, _) in &shares {
            let next = order.len();
            order.extend(
                training.labels(row).iter().zip(next..).map(|(&label, position)| (label, position)),
            );
        }
        order.sort_unstable();
        order.dedup_by_key(|&mut (label, _)| label);
        let mut sums: Vec<(u32, f64)> = order.iter().map(|&(label, _)| (label, 0.0)).collect();
        for &(row, share) in &shares {
            for LabelWeight { label, weight } in self.of(row) {
                if let Ok(index) = sums.binary_search_by_key(&label, |&(label, _)| label) {
                    sums[index].1 += share * f64::from(weight);
                }
            }
        }
        sums_to_scores(&mut sums, &self.offsets, &self.scales);
        let mut scores: Vec<(LabelScore, usize)> = sums
            .into_iter()
            .zip(order)
            .map(|((label, score), (_, position))| (LabelScore { label, score }, position))
            .collect();
        scores.sort_by(|(a, a_position), (b, b_position)| {
            b.score.total_cmp(&a.score).then(a_position.cmp(b_position))
        });
        scores.into_iter().map(|(score, _)| score).collect()
    }

    /// Checks the values for a model with these numbers of documents and labels. The error names
    /// the first problem.
    pub(crate) fn check(&self, documents: usize, labels: usize) -> Result<(), &'static str> {
        let entries = self.labels.len();
        let has_valid_bounds = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(entries as u64))
            && self.starts.is_sorted()
            && self.starts.len() == documents + 1;
        if !has_valid_bounds || self.vote_weights.len() != entries {
            return Err("the bounds do not span the vote weights");
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
        let is_sorted = self.starts.windows(2).all(|bounds| {
            self.labels[bounds[0] as usize..bounds[1] as usize].is_sorted_by(|a, b| a < b)
        });
        if !is_sorted || self.labels.iter().any(|&label| label as usize >= labels) {
            return Err("a label is out of order or does not exist");
        }
        let is_multi_label = self.offsets.len() == labels && self.scales.len() == labels;
        let is_single_label = self.offsets.is_empty() && self.scales.len() == 1;
        if !is_multi_label && !is_single_label {
            return Err("there is not exactly one offset and one scale per label");
        }
        let is_finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        if is_finite(&self.vote_weights) && is_finite(&self.offsets) && is_finite(&self.scales) {
            Ok(())
        } else {
            Err("a value is not finite")
        }
    }
}

/// Returns the voters, best first, with their shares of all votes.
pub(crate) fn vote_shares(
    voters: Voters<'_>,
    weight: VoteWeight,
    training: &TrainingLabels<'_>,
) -> Vec<(u32, f64)> {
    let lists = voters.lists();
    let best = lists.map(|(list, _)| list.first().map_or(0.0, |neighbor| neighbor.similarity));
    let mut totals = [0.0; 2];
    let mut values: Vec<(u32, usize, f64)> = Vec::new();
    for (list, rank, neighbor) in voters.ranked() {
        let value = weight.value(neighbor.similarity, rank, best[list])
            * f64::from(training.weights[neighbor.row as usize]);
        totals[list] += value;
        values.push((neighbor.row, list, value));
    }
    let share = |list: usize, value: f64| {
        if totals[list] > 0.0 { value / totals[list] * lists[list].1 } else { 0.0 }
    };
    values.into_iter().map(|(row, list, value)| (row, share(list, value))).collect()
}
