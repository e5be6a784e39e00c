//! The probability that a label is correct, computed from its votes.

use super::logistic::{Observation, dot, fit_weights_and_offsets, logistic};
use super::quantiles::{QUANTILES, quantile, quantiles};
use crate::decide::vote::{LabelScore, TrainingLabels, Voters, with_tally};
use crate::rows::matrix::Array;

/// A model of the probability that a label is correct. It is a logistic regression on these values
/// of the votes on a document:
///
/// 1. the log odds of the score,
/// 2. the score,
/// 3. the score minus the best score of the other labels,
/// 4. the share of the neighbors that have the label,
/// 5. the similarity of the best neighbor, expressed as the share of held-out documents whose best
///    neighbor is less similar (comparable between weightings),
/// 6. the product of 2 and 5,
/// 7. the share of the document's terms that the model does not know,
/// 8. whether the label has the highest score (0 or 1), and the products of this value with 5 and
///    7,
///
/// and on an offset per label with a normal prior, which keeps the offset of a label with few
/// documents near 0.
///
/// There are two regressions. The first is for the label with the highest score, which is usually
/// the answer. The second is for all other labels; their probabilities cannot exceed the
/// probability of the first label.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The constant and the weights of the ten values, first for the label with the highest score,
    /// then for the other labels.
    pub(crate) weights: Array<f64>,
    /// The offset of each label, in the same order.
    pub(crate) offsets: Array<f64>,
    /// The best similarity of held-out documents at the quantiles `i / (count - 1)`, in
    /// non-decreasing order.
    pub(crate) similarities: Array<f32>,
    /// Number of held-out documents from which the calibration was learned. The model file stores
    /// this number with the results of tuning.
    pub(crate) documents: u64,
}

/// A held-out document from which a calibration is learned.
#[derive(Debug, Clone)]
pub struct CalibrationDocument<'a> {
    /// The labels with a vote, by decreasing score.
    pub scores: Vec<LabelScore>,
    /// The neighbors that voted.
    pub voters: Voters<'a>,
    /// The share of the document's terms that the model does not know.
    pub unknown: f64,
    /// The correct labels, in increasing order.
    pub gold: &'a [u32],
}

/// The votes on a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Votes<'a> {
    /// The labels with a vote, by decreasing score.
    pub(crate) scores: &'a [LabelScore],
    /// Number of neighbors with each label; may be empty.
    pub(crate) supporters: &'a [u32],
    /// The neighbors that voted.
    pub(crate) voters: Voters<'a>,
    /// The share of the document's terms that the model does not know.
    pub(crate) unknown: f64,
}

/// Number of values that describe a label, including the constant.
pub(crate) const VALUES: usize = 11;
/// Maximum number of labels per document to learn from. The labels with the highest scores are
/// used.
const MAX_LABELS: usize = 10;

impl Calibration {
    /// Learns from held-out documents.
    pub fn fit<'a>(
        documents: impl Iterator<Item = CalibrationDocument<'a>> + Clone,
        training: &TrainingLabels<'_>,
    ) -> Self {
        let best: Vec<f32> =
            documents.clone().map(|document| document.voters.best_similarity()).collect();
        let count = best.len() as u64;
        let similarities = quantiles(best, QUANTILES);
        let mut observations = [Vec::new(), Vec::new()];
        for CalibrationDocument { scores, voters, unknown, gold } in documents {
            let share = quantile(&similarities, voters.best_similarity());
            let supporters = count_supporters(&scores, MAX_LABELS, voters, training);
            for (rank, score) in scores.iter().take(MAX_LABELS).enumerate() {
                observations[usize::from(rank > 0)].push(Observation {
                    values: values(
                        &scores,
                        rank,
                        agreement(supporters[rank], voters.count()),
                        share,
                        unknown,
                    ),
                    group: score.label,
                    is_right: gold.binary_search(&score.label).is_ok(),
                });
            }
        }
        let mut weights = Vec::new();
        let mut offsets = Vec::new();
        for observations in observations {
            let learned = fit_weights_and_offsets::<VALUES>(&observations, training.sizes.len());
            weights.extend(learned.0);
            offsets.extend(learned.1);
        }
        Self {
            weights: weights.into(),
            offsets: offsets.into(),
            similarities: similarities.into(),
            documents: count,
        }
    }

    /// Returns the probability of the label with the highest score; 0 if no label has a vote.
    pub(crate) fn top_label_probability(
        &self,
        votes: Votes<'_>,
        training: &TrainingLabels<'_>,
    ) -> f64 {
        let mut all = Vec::new();
        self.probabilities(votes, 1, training, &mut all);
        all.first().copied().unwrap_or(0.0)
    }

    /// Sets the number of documents from which the calibration was learned.
    #[must_use]
    pub(crate) fn learned_from(self, documents: u64) -> Self {
        Self { documents, ..self }
    }

    /// Appends the probabilities of the first `first` labels to `all`, in the order of
    /// `votes.scores`.
    pub(crate) fn probabilities(
        &self,
        votes: Votes<'_>,
        first: usize,
        training: &TrainingLabels<'_>,
        all: &mut Vec<f64>,
    ) {
        let Votes { scores, supporters, voters, unknown } = votes;
        let (weights, _) = self.weights.as_chunks::<VALUES>();
        let labels = self.labels();
        let share = quantile(&self.similarities, voters.best_similarity());
        let counted;
        let supporters = if supporters.len() == scores.len() {
            supporters
        } else {
            counted = count_supporters(scores, first, voters, training);
            &counted
        };
        // Even with clear evidence, n documents cannot exclude one exception in n + 2 (rule of
        // succession).
        let min = 1.0 / (self.documents as f64 + 2.0);
        let count = voters.count();
        let probability = |(rank, (score, &supporters)): (usize, (&LabelScore, &u32))| {
            let values = values(scores, rank, agreement(supporters, count), share, unknown);
            let by_rank = rank.min(1);
            let offset = self.offsets[by_rank * labels + score.label as usize];
            logistic(dot(&weights[by_rank], &values) + offset).clamp(min, 1.0 - min)
        };
        let start = all.len();
        all.extend(scores.iter().zip(supporters).take(first).enumerate().map(probability));
        if let [first, others @ ..] = &mut all[start..] {
            // The regressions may disagree, but the label with the highest score must remain the
            // most probable label.
            let max = *first * (1.0 - 1e-9);
            for other in others {
                *other = other.min(max);
            }
        }
    }

    /// Returns the number of labels.
    fn labels(&self) -> usize {
        self.offsets.len() / 2
    }

    /// Returns the offsets of the two regressions: for the label with the highest score, then for
    /// the others.
    pub(crate) fn offsets_by_rank(&self) -> [&[f64]; 2] {
        let (first, others) = self.offsets.split_at(self.labels());
        [first, others]
    }

    /// Checks the values for a model with `labels` labels. The error names the first problem.
    pub(crate) fn check(&self, labels: usize) -> Result<(), &'static str> {
        if self.weights.len() != 2 * VALUES || self.offsets.len() != 2 * labels {
            return Err("there are not exactly two weights per value and two offsets per label");
        }
        let is_finite = self.weights.iter().chain(&*self.offsets).all(|value| value.is_finite());
        let is_sorted = self.similarities.is_sorted()
            && self.similarities.iter().all(|similarity| similarity.is_finite());
        if is_finite && is_sorted { Ok(()) } else { Err("a value is not finite or out of order") }
    }
}

/// Returns the values of the label at `rank`.
fn values(
    scores: &[LabelScore],
    rank: usize,
    agreement: f64,
    similarity: f64,
    unknown: f64,
) -> [f64; VALUES] {
    let score = scores[rank].score;
    let other = scores.get(usize::from(rank == 0)).map_or(0.0, |other| other.score);
    let odds = score.clamp(1e-4, 1.0 - 1e-4);
    let odds = libm::log(odds / (1.0 - odds));
    let first = if rank == 0 { 1.0 } else { 0.0 };
    [
        1.0,
        odds,
        score,
        score - other,
        agreement,
        similarity,
        score * similarity,
        unknown,
        first,
        first * similarity,
        first * unknown,
    ]
}

/// Counts the neighbors that have each of the first `labels` labels.
fn count_supporters(
    scores: &[LabelScore],
    labels: usize,
    voters: Voters<'_>,
    training: &TrainingLabels<'_>,
) -> Vec<u32> {
    with_tally(|tally| {
        tally.count(voters, training, |_, _, _| 0.0);
        scores.iter().take(labels).map(|score| tally.voters(score.label)).collect()
    })
}

/// Returns the share of the neighbors that support a label.
fn agreement(supporters: u32, neighbors: usize) -> f64 {
    f64::from(supporters) / neighbors.max(1) as f64
}

/// Returns the confidence in an answer: the mean probability of its labels, or 0 if it has none.
pub(crate) fn confidence(given: &[u32], scores: &[LabelScore], probabilities: &[f64]) -> f64 {
    let rank_of = |label: &u32| scores.iter().position(|score| score.label == *label);
    let probability =
        |label: &u32| rank_of(label).and_then(|rank| probabilities.get(rank)).unwrap_or(&0.0);
    let sum = given.iter().map(probability).fold(0.0, |sum, probability| sum + probability);
    sum / given.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Neighbor;

    /// Label 0 is correct as often as its score predicts, and label 1 never is. Documents with
    /// distant neighbors get wrong labels.
    #[test]
    fn probabilities_follow_the_votes() {
        let training = TrainingLabels {
            indptr: &[0, 1, 2],
            indices: &[0, 1],
            weights: &[1.0; 2],
            sizes: &[1, 1],
        };
        let lists: Vec<[Neighbor; 2]> = (0..2_000u16)
            .map(|index| {
                let similarity = if index % 2 == 0 { 0.9 } else { 0.1 };
                [0, 1].map(|row| Neighbor { row, similarity })
            })
            .collect();
        let mut random = crate::random::Random::new(9);
        let examples: Vec<_> = lists
            .iter()
            .enumerate()
            .map(|(index, list)| {
                let score = 0.5 + random.unit() / 2.0;
                let other = LabelScore { label: 1, score: 1.0 - score };
                let scores = vec![LabelScore { label: 0, score }, other];
                (scores, index % 2 == 0 && random.unit() < score, *list)
            })
            .collect();
        let documents = examples.iter().map(|(scores, right, list)| CalibrationDocument {
            scores: scores.clone(),
            voters: Voters::one(list),
            unknown: 0.0,
            gold: if *right { &[0] } else { &[] },
        });
        let calibration = Calibration::fit(documents, &training);
        assert_eq!(calibration.offsets_by_rank().map(<[f64]>::len), [2, 2]);
        assert_eq!(calibration.check(2), Ok(()));
        assert!(calibration.check(1).is_err() && calibration.check(3).is_err());
        let probabilities = |scores: &[LabelScore], list: &[Neighbor; 2]| {
            let votes = Votes { scores, supporters: &[], voters: Voters::one(list), unknown: 0.0 };
            let mut all = Vec::new();
            calibration.probabilities(votes, scores.len(), &training, &mut all);
            // Passing the supporters or requesting only the first label does not change the result.
            let mut first = Vec::new();
            let counted = Votes { supporters: &[1, 1], ..votes };
            calibration.probabilities(counted, 1, &training, &mut first);
            assert_eq!(first[0].to_bits(), all[0].to_bits());
            assert_eq!(first.len(), 1);
            all
        };
        let probabilities_at = |score: f64, list: &[Neighbor; 2]| {
            let scores =
                [LabelScore { label: 0, score }, LabelScore { label: 1, score: 1.0 - score }];
            probabilities(&scores, list)
        };
        let near = probabilities_at(0.9, &lists[0]);
        let far = probabilities_at(0.9, &lists[1]);
        assert!((near[0] - 0.9).abs() < 0.1 && far[0] < 0.05, "{near:?} {far:?}");
        assert!(near[1] < 0.05, "{near:?}");
        assert!(near[0] > near[1] && far[0] > far[1], "the first label is the most probable one");
        assert!((confidence(&[1, 0], &examples[0].0, &[0.5, 0.1]) - 0.3).abs() < 1e-12);
        assert!(confidence(&[], &examples[0].0, &[0.5, 0.1]) <= 0.0);
    }
}
