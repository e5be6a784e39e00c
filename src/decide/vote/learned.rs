//! Learned votes: what a training document's vote is worth for each label.

use crate::decide::vote::{LabelScore, TrainingLabels, VoteWeight, Voters};
use crate::rows::matrix::Array;

/// What the votes of the training documents are worth for labels: 1 for each of its own labels
/// and 0 for others before learning; more if the document is a better witness of the label than
/// others, less if it misleads.
///
/// A label is scored if a neighbor has it. With vⱼ the share of neighbor j in all votes and
/// w(j, c) the worth of its vote for label c, the sum of label c is s(c) = Σⱼ vⱼ w(j, c). Its score is
///
/// * with one label per document: the softmax of the sums, exp(T s(c)) / Σ exp(T s(d)) over the scored
///   labels d;
/// * with several: the logistic function of b(c) + a(c) s(c).
///
/// Worths, b and a minimize the logarithmic loss on left-out documents, held back by a quadratic
/// penalty on their distance from their initial values. Related are the learned weights of
/// instances of Paredes and Vidal (2006) and kernel logistic regression, of which this is a local form.
#[derive(Debug, Clone)]
pub struct LearnedVotes {
    /// The worths of the votes of training document `i` are `starts[i]..starts[i + 1]`.
    pub(crate) starts: Array<u64>,
    /// The label of each worth, increasing within a document.
    pub(crate) labels: Array<u32>,
    /// What the vote is worth.
    pub(crate) worths: Array<f32>,
    /// Several labels: b of each label. One label: empty.
    pub(crate) offsets: Array<f32>,
    /// Several labels: a of each label. One label: T alone.
    pub(crate) scales: Array<f32>,
}

/// A label, and what a document's vote is worth for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorthOf {
    /// The label's number.
    pub label: u32,
    /// What the vote is worth.
    pub worth: f32,
}

/// The scores of labels by their sums; `sums` are the labels with their sums, replaced by scores.
pub(crate) fn link(sums: &mut [(u32, f64)], offsets: &[f32], scales: &[f32]) {
    if offsets.is_empty() {
        let scale = scales.first().map_or(1.0, |&scale| f64::from(scale));
        let top = sums.iter().map(|&(_, sum)| sum).fold(f64::NEG_INFINITY, f64::max);
        let mut total = 0.0;
        for (_, sum) in &mut *sums {
            *sum = libm::exp(scale * (*sum - top));
            total += *sum;
        }
        for (_, score) in sums {
            *score = (*score / total).max(f64::MIN_POSITIVE);
        }
    } else {
        for (label, sum) in sums {
            let (offset, scale) = (offsets[*label as usize], scales[*label as usize]);
            let z = f64::from(offset) + f64::from(scale) * *sum;
            *sum = (1.0 / (1.0 + libm::exp(-z))).max(f64::MIN_POSITIVE);
        }
    }
}

impl LearnedVotes {
    /// What a training document's vote is worth, by increasing label; 0 for all other labels.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn of(&self, row: u32) -> impl Iterator<Item = WorthOf> {
        let entries = self.entries(row);
        let labels = self.labels[entries.clone()].iter().copied();
        labels.zip(&self.worths[entries]).map(|(label, &worth)| WorthOf { label, worth })
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds of slices in memory")]
    fn entries(&self, row: u32) -> std::ops::Range<usize> {
        self.starts[row as usize] as usize..self.starts[row as usize + 1] as usize
    }

    /// The labels of the voters by decreasing score. Ties go to the label with the better neighbor.
    pub(crate) fn vote(
        &self,
        voters: Voters<'_>,
        weight: VoteWeight,
        among: &TrainingLabels<'_>,
    ) -> Vec<LabelScore> {
        let shares = shares(voters, weight, among);
        // The labels of the neighbors, those of the best neighbor first.
        let mut order: Vec<(u32, usize)> = Vec::new();
        for &(row, _) in &shares {
            let next = order.len();
            order.extend(among.labels(row).iter().zip(next..).map(|(&label, at)| (label, at)));
        }
        order.sort_unstable();
        order.dedup_by_key(|&mut (label, _)| label);
        let mut sums: Vec<(u32, f64)> = order.iter().map(|&(label, _)| (label, 0.0)).collect();
        for &(row, share) in &shares {
            for WorthOf { label, worth } in self.of(row) {
                if let Ok(at) = sums.binary_search_by_key(&label, |&(label, _)| label) {
                    sums[at].1 += share * f64::from(worth);
                }
            }
        }
        link(&mut sums, &self.offsets, &self.scales);
        let mut scores: Vec<(LabelScore, usize)> = sums
            .into_iter()
            .zip(order)
            .map(|((label, score), (_, at))| (LabelScore { label, score }, at))
            .collect();
        scores.sort_by(|(a, a_at), (b, b_at)| b.score.total_cmp(&a.score).then(a_at.cmp(b_at)));
        scores.into_iter().map(|(score, _)| score).collect()
    }

    /// What is wrong, if anything, for a model with these numbers of documents and labels.
    pub(crate) fn check(&self, documents: usize, labels: usize) -> Result<(), &'static str> {
        let entries = self.labels.len();
        let spans = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(entries as u64))
            && self.starts.is_sorted()
            && self.starts.len() == documents + 1;
        if !spans || self.worths.len() != entries {
            return Err("bounds that do not span the worths of votes");
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
        let rising = self.starts.windows(2).all(|bounds| {
            self.labels[bounds[0] as usize..bounds[1] as usize].is_sorted_by(|a, b| a < b)
        });
        if !rising || self.labels.iter().any(|&label| label as usize >= labels) {
            return Err("a label that is out of order or does not exist");
        }
        let several = self.offsets.len() == labels && self.scales.len() == labels;
        let one = self.offsets.is_empty() && self.scales.len() == 1;
        if !several && !one {
            return Err("not one offset and one scale per label");
        }
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        if finite(&self.worths) && finite(&self.offsets) && finite(&self.scales) {
            Ok(())
        } else {
            Err("a value that is not finite")
        }
    }
}

/// The voters, best first, each with its share of all votes.
pub(crate) fn shares(
    voters: Voters<'_>,
    weight: VoteWeight,
    among: &TrainingLabels<'_>,
) -> Vec<(u32, f64)> {
    let lists = voters.lists();
    let best = lists.map(|(list, _)| list.first().map_or(0.0, |neighbor| neighbor.similarity));
    let mut totals = [0.0; 2];
    let mut cast: Vec<(u32, usize, f64)> = Vec::new();
    for (list, rank, neighbor) in voters.ranked() {
        let counts = weight.counts(neighbor.similarity, rank, best[list])
            * f64::from(among.weights[neighbor.row as usize]);
        totals[list] += counts;
        cast.push((neighbor.row, list, counts));
    }
    let share = |list: usize, counts: f64| {
        if totals[list] > 0.0 { counts / totals[list] * lists[list].1 } else { 0.0 }
    };
    cast.into_iter().map(|(row, list, counts)| (row, share(list, counts))).collect()
}
