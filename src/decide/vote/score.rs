//! Label scores computed from votes.

use super::tally::{RankedLabel, with_tally};
use super::{LabelScore, TrainingLabels, Vote, VoteWeight, Voters};

/// Returns the labels of the voters by decreasing score.
///
/// ```
/// use classify::search::Neighbor;
/// use classify::decide::vote::{TrainingLabels, Vote, vote};
///
/// let neighbors = [Neighbor { row: 0, similarity: 0.5 }, Neighbor { row: 1, similarity: 0.25 }];
/// // Row 0 has label 1, row 1 the labels 0 and 1.
/// let training = TrainingLabels {
///     indptr: &[0, 1, 3],
///     indices: &[1, 0, 1],
///     weights: &[1.0; 2],
///     sizes: &[1, 2],
/// };
/// let scores = vote(&neighbors, Vote::default(), &training);
/// assert_eq!((scores[0].label, scores[0].score), (1, 1.0));
/// assert_eq!((scores[1].label, scores[1].score), (0, 0.25 / 0.75));
/// ```
///
/// # Panics
/// Panics if a neighbor is not a training document, or a label has no size.
pub fn vote<'a>(
    voters: impl Into<Voters<'a>>,
    rule: Vote,
    training: &TrainingLabels<'_>,
) -> Vec<LabelScore> {
    let mut outcome = Outcome::default();
    vote_with(voters.into(), rule.weight, &training.factors(rule), training, &mut outcome);
    outcome.scores
}

/// The outcome of a vote on a document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// The labels by decreasing score.
    pub(crate) scores: Vec<LabelScore>,
    /// Number of voters with each of these labels; empty if not counted.
    pub(crate) supporters: Vec<u32>,
}

/// Counts the votes on a document, using precomputed label factors. Reuses the memory of `outcome`.
pub(crate) fn vote_with(
    voters: Voters<'_>,
    weight: VoteWeight,
    factors: &[f64],
    training: &TrainingLabels<'_>,
    outcome: &mut Outcome,
) {
    let lists = voters.lists();
    let best = lists.map(|(list, _)| list.first().map_or(0.0, |neighbor| neighbor.similarity));
    outcome.scores.clear();
    outcome.supporters.clear();
    with_tally(|tally| {
        let mut totals = [0.0; 2];
        tally.count(voters, training, |list, rank, neighbor| {
            let value = weight.value(neighbor.similarity, rank, best[list])
                * f64::from(training.weights[neighbor.row as usize]);
            totals[list] += value;
            value
        });
        let shares = lists.map(|(_, share)| share);
        let score = |label: u32, sums| {
            label_score(sums, totals, shares) * factors.get(label as usize).unwrap_or(&1.0)
        };
        for RankedLabel { label, score, voters } in tally.ranked(score) {
            outcome.scores.push(LabelScore { label, score });
            outcome.supporters.push(voters);
        }
    });
}

/// Returns a label's score, given the sum of its votes, the sum of all votes and the share of each
/// list.
pub(crate) fn label_score(sums: [f64; 2], totals: [f64; 2], shares: [f64; 2]) -> f64 {
    let list_score = |list: usize| shares[list] * share(sums[list], totals[list]);
    (list_score(0) + list_score(1)).min(1.0)
}

/// Returns a label's share of all votes; 0 if the votes underflow.
fn share(sum: f64, total: f64) -> f64 {
    if total > 0.0 { (sum / total).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Neighbor;

    const NEIGHBORS: [Neighbor; 3] = [
        Neighbor { row: 0, similarity: 0.5 },
        Neighbor { row: 1, similarity: 0.25 },
        Neighbor { row: 2, similarity: 0.25 },
    ];

    fn scores(rule: impl Into<Vote>, weights: [f32; 3]) -> Vec<(u32, f64)> {
        let training = TrainingLabels {
            indptr: &[0, 1, 2, 4],
            indices: &[2, 1, 0, 1],
            weights: &weights,
            sizes: &[1, 4, 1],
        };
        vote(&NEIGHBORS, rule.into(), &training)
            .into_iter()
            .map(|score| (score.label, score.score))
            .collect()
    }

    /// Labels 2 and 1 tie under `similarity`, but label 2 has the better neighbor.
    #[test]
    fn scores_match_hand_computation() {
        let ones = [1.0; 3];
        assert_eq!(scores(VoteWeight::default(), ones), [(2, 0.5), (1, 0.5), (0, 0.25)]);
        assert_eq!(
            scores(VoteWeight::Uniform, ones),
            [(1, 2.0 / 3.0), (2, 1.0 / 3.0), (0, 1.0 / 3.0)]
        );
        let total = 1.0 + 0.5 + 1.0 / 3.0;
        let rank = scores(VoteWeight::Rank, ones);
        assert_eq!(rank[0], (2, 1.0 / total));
        assert_eq!(rank[1], (1, (0.5 + 1.0 / 3.0) / total));
        let exp = scores(VoteWeight::Exp { beta: 4.0 }, ones);
        let near = libm::exp(-2.0);
        let far = libm::exp(-3.0);
        assert!((exp[0].1 - near / (near + 2.0 * far)).abs() < 1e-12);
        assert!((exp[1].1 - 2.0 * far / (near + 2.0 * far)).abs() < 1e-12);
        assert_eq!(scores(VoteWeight::default(), [1.0, 3.0, 1.0])[0], (1, 1.0 / 1.5));
        // Squares of similarities relative to the best: 1, 1/4, 1/4.
        let squares = scores(VoteWeight::Similarity { power: 2.0 }, ones);
        assert_eq!(squares, [(2, 1.0 / 1.5), (1, 0.5 / 1.5), (0, 0.25 / 1.5)]);
        // Label 1 has four times as many documents as the others, so its share is halved.
        let compensated = scores("uniform/size^0.5".parse::<Vote>().unwrap(), ones);
        assert_eq!(compensated, [(2, 1.0 / 3.0), (1, 1.0 / 3.0), (0, 1.0 / 3.0)]);
    }

    /// Scores agree with the definition in the module documentation, for rows without labels and
    /// rows with few or many labels.
    #[test]
    fn scores_agree_with_the_definition() {
        let mut random = crate::random::Random::new(5);
        let labels = 30u32;
        let mut indptr = vec![0];
        let mut indices = Vec::new();
        for row in 0..200 {
            let share = [0, 2, 10, 25][row % 4];
            indices.extend((0..labels).filter(|_| random.below(30) < share));
            indptr.push(indices.len() as u64);
        }
        let weights: Vec<f32> = (0..200).map(|_| [0.0, 0.5, 1.0][random.below(3)]).collect();
        let sizes: Vec<u32> = (1..=labels).collect();
        let training =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        for round in 0..300 {
            let mut list = |length: usize| -> Vec<Neighbor> {
                let neighbor = |rank: u32| Neighbor {
                    row: u32::try_from(random.below(200)).expect("few"),
                    similarity: 1.0 / (rank / 3 + 1) as f32,
                };
                (0..u32::try_from(length).expect("few")).map(neighbor).collect()
            };
            let terms = list(round % 20);
            let vectors = list(if round % 3 == 0 { 9 } else { 0 });
            let voters = Voters::both(&terms, &vectors, 0.25);
            let rule: Vote =
                ["similarity^2", "rank", "uniform/size^0.5"][round % 3].parse().unwrap();
            let value = |list: &[Neighbor], rank: usize| {
                let Neighbor { row, similarity } = list[rank];
                let best = list[0].similarity;
                rule.weight.value(similarity, rank, best) * f64::from(weights[row as usize])
            };
            let share = |list: &[Neighbor], label: u32| {
                let mut sum = 0.0;
                let mut total = 0.0;
                for (rank, neighbor) in list.iter().enumerate() {
                    total += value(list, rank);
                    if training.labels(neighbor.row).contains(&label) {
                        sum += value(list, rank);
                    }
                }
                if total > 0.0 { (sum / total).min(1.0) } else { 0.0 }
            };
            let supporters = |label: u32| {
                let has = |neighbor: &&Neighbor| training.labels(neighbor.row).contains(&label);
                u32::try_from(terms.iter().chain(&vectors).filter(has).count()).expect("few")
            };
            // The position of the best neighbor that has the label, by rank, then by list.
            let first = |label: u32| {
                voters.ranked().position(|(.., near)| training.labels(near.row).contains(&label))
            };
            let factors = training.factors(rule);
            let mut expected: Vec<(LabelScore, u32)> = (0..labels)
                .filter(|&label| supporters(label) > 0)
                .map(|label| {
                    let [terms, vectors] =
                        voters.lists().map(|(list, weight)| weight * share(list, label));
                    let factor = factors.get(label as usize).unwrap_or(&1.0);
                    let score = (terms + vectors).min(1.0) * factor;
                    (LabelScore { label, score }, supporters(label))
                })
                .collect();
            expected.sort_by(|(a, _), (b, _)| {
                b.score.total_cmp(&a.score).then(first(a.label).cmp(&first(b.label)))
            });
            let mut outcome = Outcome::default();
            vote_with(voters, rule.weight, &factors, &training, &mut outcome);
            let found: Vec<_> = outcome.scores.into_iter().zip(outcome.supporters).collect();
            assert_eq!(found, expected, "{rule}");
        }
    }

    /// BM25 similarities are far above 1.
    #[test]
    fn exp_does_not_overflow_for_large_similarities() {
        let neighbors =
            [Neighbor { row: 0, similarity: 900.0 }, Neighbor { row: 1, similarity: 899.9 }];
        let training = TrainingLabels {
            indptr: &[0, 1, 2],
            indices: &[0, 1],
            weights: &[1.0; 2],
            sizes: &[1, 1],
        };
        let scores = vote(&neighbors, VoteWeight::Exp { beta: 10.0 }.into(), &training);
        assert!((scores[0].score + scores[1].score - 1.0).abs() < 1e-9);
        assert!(scores[0].score > 0.7 && scores[0].score < 0.74, "{scores:?}");
    }

    /// Powers are relative to the best similarity, so powers of tiny similarities do not vanish.
    #[test]
    fn tiny_similarities_keep_their_votes() {
        let neighbors =
            [Neighbor { row: 0, similarity: 1e-30 }, Neighbor { row: 1, similarity: 5e-31 }];
        let training = |weights| TrainingLabels {
            indptr: &[0, 1, 2],
            indices: &[0, 1],
            weights,
            sizes: &[1, 1],
        };
        let power = VoteWeight::Similarity { power: 8.0 };
        let found = vote(&neighbors, power.into(), &training(&[1.0; 2]));
        assert!((found[0].score - 1.0 / (1.0 + 1.0 / 256.0)).abs() < 1e-6, "{found:?}");
        // If all votes are 0, so are the scores.
        let found = vote(&neighbors, power.into(), &training(&[0.0; 2]));
        assert!(found.iter().all(|score| score.score <= 0.0), "{found:?}");
    }

    /// Factors are relative to the rarest label that documents have.
    #[test]
    fn compensation_is_relative_to_the_rarest_label() {
        let training = TrainingLabels {
            indptr: &[0, 1, 2, 2],
            indices: &[0, 1],
            weights: &[1.0; 3],
            sizes: &[2, 8, 0],
        };
        let rule = "uniform/size^0.5".parse().unwrap();
        let found = vote(&NEIGHBORS[..2], rule, &training);
        assert_eq!(found.iter().map(|score| score.score).collect::<Vec<_>>(), [0.5, 0.25]);
    }
}
