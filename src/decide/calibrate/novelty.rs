//! Detection of out-of-distribution documents, which have none of the model's labels.
//!
//! The novelty score comes from a logistic regression. Its limit is set by split conformal
//! prediction (Vovk, Gammerman and Shafer 2005).

use serde::{Deserialize, Serialize};

use super::logistic::{self, Observation, dot};
use crate::decide::vote::{TrainingLabels, Voters};
use crate::rows::matrix::Array;
use crate::rows::powers::integer_power;
use crate::search::{Neighbor, RowSet};

/// The maximum novelty score, above which a document is refused as out-of-distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoveltyLimit {
    /// The maximum share of documents with known labels that may be refused.
    pub target: f64,
    /// The novelty score above which a document is refused; `None` if there were too few documents
    /// to learn the limit. No document is then refused.
    #[serde(rename = "strangeness")]
    pub max_score: Option<f64>,
    /// The share of held-out documents with known labels that were refused. It is estimated on
    /// documents that did not determine the limit.
    pub known_refused: f64,
    /// The share of documents that were refused after their labels had been removed from training.
    #[serde(rename = "foreign_refused")]
    pub novel_refused: f64,
    /// The number of documents whose labels were removed.
    #[serde(rename = "foreign_documents")]
    pub novel_documents: u64,
}

impl NoveltyLimit {
    /// Learns the limit that refuses at most a share `target` of documents that resemble the
    /// `known` documents. Both `known` and `novel` are novelty scores; the `novel` scores only
    /// determine the share of novel documents refused.
    ///
    /// The limit is the ⌈(n + 1)(1 − target)⌉-th lowest of the n known scores. A new document from
    /// the same distribution exceeds the limit with a probability of at most the target.
    ///
    /// ```
    /// use classify::decide::calibrate::NoveltyLimit;
    ///
    /// let known: Vec<f64> = (0..99).map(f64::from).collect();
    /// let limit = NoveltyLimit::learn(0.1, known, &[50.0, 95.0]);
    /// assert_eq!((limit.max_score, limit.novel_refused), (Some(89.0), 0.5));
    /// // Nine documents are too few for a target below 1/10.
    /// assert_eq!(NoveltyLimit::learn(0.09, vec![0.0; 9], &[]).max_score, None);
    /// ```
    pub fn learn(target: f64, mut known: Vec<f64>, novel: &[f64]) -> Self {
        known.sort_by(f64::total_cmp);
        // Subtract a small number so that rounding errors do not raise the rank: 0.9 × 100 must
        // give 90, not 91.
        let rank = ((known.len() + 1) as f64 * (1.0 - target) - 1e-9).ceil().max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
        let limit = known.get(rank as usize - 1).copied().filter(|limit| limit.is_finite());
        let refused = |values: &[f64]| {
            let above = values.iter().filter(|&&value| limit.is_some_and(|limit| value > limit));
            above.count() as f64 / values.len().max(1) as f64
        };
        Self {
            target,
            max_score: limit,
            known_refused: refused(&known),
            novel_refused: refused(novel),
            novel_documents: novel.len() as u64,
        }
    }

    /// Describes the effect of the limit in a sentence.
    pub fn text(&self) -> String {
        let shares = [self.target, self.known_refused, self.novel_refused];
        let [target, known, novel] = shares.map(|share| share * 100.0);
        if self.max_score.is_none() {
            return format!(
                "too few documents to refuse {target:.1} % of those with known labels: no document \
                 is refused as out-of-distribution"
            );
        }
        format!(
            "{novel:.1} % of the out-of-distribution documents are refused ({} held-out documents \
             whose labels were held out, too), and {known:.1} % of the documents with known labels \
             (target {target:.1} %)",
            self.novel_documents
        )
    }

    /// Checks the values. The error names the first problem.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let shares = [self.target, self.known_refused, self.novel_refused];
        let is_valid = shares.iter().all(|share| (0.0..=1.0).contains(share));
        if is_valid && self.max_score.is_none_or(f64::is_finite) {
            Ok(())
        } else {
            Err("a share of the novelty limit is not between 0 and 1, or its score is not finite")
        }
    }
}

/// The novelty score, which is high if a document probably has none of the model's labels.
///
/// The score is a logistic regression of known against novel documents. Its values are
///
/// * the log odds of the label with the highest score,
/// * the share of the document's terms that the model does not know,
/// * the highest margin, if the model has label prototypes.
///
/// Without prototypes, these values of the neighbors replace the margin:
///
/// * The largest share of one label in the neighbors' total similarity, and its distance from the
///   next label's share. Two more values are the share for the fourth powers of the similarities,
///   and the share for the first five neighbors.
/// * The log ratio of a neighbor's similarity to the similarity of the neighbor's own best neighbor
///   (Tax and Duin 2000). The values are the ratio of the first neighbor and the mean over the
///   first five.
///
/// Documents of removed labels are only similar to truly novel documents: they come from the same
/// source as the known documents. The regression is therefore strongly regularized, and has few
/// values.
#[derive(Debug, Clone)]
pub struct NoveltyScore {
    /// The constant and the weights of the other values.
    pub(crate) weights: Array<f64>,
    /// The similarity of each training document's best neighbor.
    pub(crate) nearest: Array<f32>,
}

/// Number of values without prototypes, including the constant.
const VALUES: usize = 9;
/// Number of values with prototypes, including the constant.
const MARGIN_VALUES: usize = 4;
/// Number of nearest neighbors from which additional values are computed.
const CLOSEST_NEIGHBORS: usize = 5;
/// The signs of the weights after the constant, with and without prototypes. A weight of the wrong
/// sign is set to 0: no document is novel because its label is certain or its terms are known.
const SIGNS: [f64; VALUES - 1] = [-1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
/// The ridge penalty on the weights, per document.
const RIDGE_PER_DOCUMENT: f64 = 0.2;

/// The input of a document's novelty score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoveltyEvidence<'a> {
    /// The neighbors that vote.
    pub(crate) voters: Voters<'a>,
    /// The share of the document's terms that the model does not know.
    pub(crate) unknown_share: f64,
    /// The probability of the label with the highest score.
    pub(crate) probability: f64,
    /// The highest margin, if the model has label prototypes.
    pub(crate) margin: Option<f32>,
    /// The row of the document, if it is a training document.
    pub(crate) row: Option<u32>,
    /// The training documents that can be its neighbors; `None` if all other documents can.
    pub(crate) candidates: Option<&'a RowSet>,
}

impl NoveltyEvidence<'_> {
    /// Whether a training document can be a neighbor of this document.
    pub(crate) fn is_candidate(&self, row: u32) -> bool {
        Some(row) != self.row && self.candidates.is_none_or(|rows| rows.contains(row))
    }
}

/// A function that returns the similarity between a training document and its best neighbor, among
/// the candidates of a document if one is given.
pub(crate) type BestSimilarity<'a> = &'a dyn Fn(u32, Option<&NoveltyEvidence<'_>>) -> f32;

impl NoveltyScore {
    /// Learns from held-out documents with known labels and from documents whose labels were
    /// removed.
    pub(crate) fn fit(
        known: &[NoveltyEvidence<'_>],
        novel: &[NoveltyEvidence<'_>],
        nearest: BestSimilarity<'_>,
        training: &TrainingLabels<'_>,
    ) -> Self {
        let with_neighbors = |evidence: &&NoveltyEvidence<'_>| !evidence.voters.is_empty();
        let known: Vec<_> = known.iter().filter(with_neighbors).collect();
        let novel: Vec<_> = novel.iter().filter(with_neighbors).collect();
        let has_margins = known.iter().any(|evidence| evidence.margin.is_some());
        let mut learned = Self {
            weights: vec![0.0; if has_margins { MARGIN_VALUES } else { VALUES }].into(),
            nearest: (0u32..)
                .take(training.weights.len())
                .map(|row| nearest(row, None))
                .collect::<Vec<_>>()
                .into(),
        };
        let known = known.into_iter().map(|evidence| (evidence, false));
        let observations: Vec<Observation<VALUES>> = known
            .chain(novel.into_iter().map(|evidence| (evidence, true)))
            .map(|(evidence, is_right)| Observation {
                values: learned.values(*evidence, &|row| nearest(row, Some(evidence)), training),
                group: 0,
                is_right,
            })
            .collect();
        let ridge = RIDGE_PER_DOCUMENT * observations.len() as f64;
        let mut weights = logistic::fit_weights(&observations, ridge.max(1.0)).to_vec();
        weights.truncate(learned.weights.len());
        for (weight, sign) in weights.iter_mut().skip(1).zip(SIGNS) {
            *weight = if *weight * sign > 0.0 { *weight } else { 0.0 };
        }
        learned.weights = weights.into();
        learned
    }

    /// Returns the score of a document that is not a training document; infinite if it has no
    /// neighbors.
    pub(crate) fn of(&self, evidence: NoveltyEvidence<'_>, training: &TrainingLabels<'_>) -> f64 {
        self.score(
            evidence,
            &|row| self.nearest.get(row as usize).copied().unwrap_or(0.0),
            training,
        )
    }

    /// Returns the score of a held-out training document.
    pub(crate) fn of_held_out(
        &self,
        evidence: NoveltyEvidence<'_>,
        nearest: BestSimilarity<'_>,
        training: &TrainingLabels<'_>,
    ) -> f64 {
        self.score(evidence, &|row| nearest(row, Some(&evidence)), training)
    }

    /// Returns the score from the regression.
    fn score(
        &self,
        evidence: NoveltyEvidence<'_>,
        nearest: &dyn Fn(u32) -> f32,
        training: &TrainingLabels<'_>,
    ) -> f64 {
        if evidence.voters.is_empty() {
            return f64::INFINITY;
        }
        let weight = |index| self.weights.get(index).copied().unwrap_or(0.0);
        let weights: [f64; VALUES] = std::array::from_fn(weight);
        dot(&weights, &self.values(evidence, nearest, training))
    }

    /// Returns the values of the regression, constant first.
    fn values(
        &self,
        NoveltyEvidence { voters, unknown_share, probability, margin, .. }: NoveltyEvidence<'_>,
        nearest: &dyn Fn(u32) -> f32,
        training: &TrainingLabels<'_>,
    ) -> [f64; VALUES] {
        let probability = probability.clamp(1e-6, 1.0 - 1e-6);
        let mut values = [0.0; VALUES];
        values[..3].copy_from_slice(&[
            1.0,
            libm::log(probability / (1.0 - probability)),
            unknown_share,
        ]);
        if self.needs_margins() {
            values[3] = margin.unwrap_or(0.0).into();
            return values;
        }
        let logarithm = |similarity: f32| libm::log(f64::from(similarity).max(1e-6));
        let ratio = |neighbor: &Neighbor| match nearest(neighbor.row) {
            own_best if own_best > 0.0 => logarithm(neighbor.similarity) - logarithm(own_best),
            _ => 0.0,
        };
        let closest = voters.first(CLOSEST_NEIGHBORS);
        let ratios: Vec<f64> = closest.ranked().map(|(_, _, neighbor)| ratio(neighbor)).collect();
        let [all, fourth_powers, first_few] = [(voters, 1), (voters, 4), (closest, 1)]
            .map(|(voters, power)| agreement(voters, power, training));
        values[3..].copy_from_slice(&[
            all.share,
            all.share - all.second,
            fourth_powers.share,
            first_few.share,
            ratios.first().copied().unwrap_or(0.0),
            ratios.iter().sum::<f64>() / ratios.len().max(1) as f64,
        ]);
        values
    }

    /// Whether the score is based on the margins of label prototypes.
    pub(crate) fn needs_margins(&self) -> bool {
        self.weights.len() == MARGIN_VALUES
    }

    /// Checks the values for a model with `documents` documents. The error names the first problem.
    pub(crate) fn check(&self, documents: usize) -> Result<(), &'static str> {
        let has_valid_count = [MARGIN_VALUES, VALUES].contains(&self.weights.len());
        if !has_valid_count || self.nearest.len() != documents {
            return Err("the number of weights or of similarities is wrong");
        }
        let is_finite = self.weights.iter().all(|weight| weight.is_finite())
            && self.nearest.iter().all(|similarity| similarity.is_finite());
        if is_finite { Ok(()) } else { Err("a value is not finite") }
    }
}

/// The two largest shares of a label in the neighbors' total similarity.
#[derive(Default)]
struct Agreement {
    share: f64,
    second: f64,
}

/// Computes the two largest shares, with similarities raised to `power`.
fn agreement(voters: Voters<'_>, power: u32, training: &TrainingLabels<'_>) -> Agreement {
    let mut by_label: Vec<(u32, f64)> = Vec::new();
    let mut all = 0.0;
    for (_, _, neighbor) in voters.ranked() {
        let similarity = integer_power(neighbor.similarity.into(), power);
        all += similarity;
        by_label.extend(training.labels(neighbor.row).iter().map(|&label| (label, similarity)));
    }
    by_label.sort_by_key(|&(label, _)| label);
    let mut agreement = Agreement::default();
    for same_label in by_label.chunk_by(|a, b| a.0 == b.0) {
        let share = same_label.iter().map(|&(_, similarity)| similarity).sum::<f64>() / all;
        if share > agreement.share {
            agreement.second = agreement.share;
            agreement.share = share;
        } else if share > agreement.second {
            agreement.second = share;
        }
    }
    agreement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_need_enough_documents() {
        let limit = NoveltyLimit::learn(0.5, vec![1.0], &[2.0]);
        assert_eq!((limit.max_score, limit.novel_refused), (Some(1.0), 1.0));
        let none = NoveltyLimit::learn(0.05, vec![], &[]);
        assert_eq!((none.max_score, none.novel_documents, none.check()), (None, 0, Ok(())));
        // If too many documents had no neighbors, the limit would be infinite.
        let empty = NoveltyLimit::learn(0.1, vec![f64::INFINITY; 30], &[1.0]);
        assert_eq!(empty.max_score, None);
    }

    /// New documents exceed the limit at most as often as the target allows.
    #[test]
    fn limits_hold_on_average() {
        let mut random = crate::random::Random::new(5);
        let mut refused = 0;
        for _ in 0..400 {
            let known: Vec<f64> = (0..60).map(|_| random.unit()).collect();
            let limit = NoveltyLimit::learn(0.1, known, &[]).max_score.unwrap();
            refused += (0..50).filter(|_| random.unit() > limit).count();
        }
        let share = refused as f64 / 20_000.0;
        assert!(share < 0.105 && share > 0.08, "{share}");
    }

    fn evidence(list: &[Neighbor]) -> NoveltyEvidence<'_> {
        NoveltyEvidence {
            voters: Voters::one(list),
            unknown_share: 0.0,
            probability: 0.5,
            margin: None,
            row: None,
            candidates: None,
        }
    }

    /// Documents whose neighbors are distant and have many labels are novel.
    #[test]
    fn novel_documents_score_higher() {
        let training = TrainingLabels {
            indptr: &[0, 1, 2, 3],
            indices: &[0, 1, 2],
            weights: &[1.0; 3],
            sizes: &[1, 1, 1],
        };
        let mut random = crate::random::Random::new(7);
        let mut lists = |max_similarity: f32| -> Vec<[Neighbor; 2]> {
            #[expect(clippy::cast_possible_truncation, reason = "a similarity")]
            let similarity =
                |random: &mut crate::random::Random| random.unit() as f32 * max_similarity;
            (0..300)
                .map(|_| {
                    let best = similarity(&mut random) + 0.01;
                    [0, 1].map(|row| Neighbor { row, similarity: best / (row + 1) as f32 })
                })
                .collect()
        };
        let near = lists(1.0);
        let far = lists(0.3);
        let known: Vec<_> = near.iter().map(|list| evidence(list)).collect();
        let novel: Vec<_> = far.iter().map(|list| evidence(list)).collect();
        let learned = NoveltyScore::fit(&known, &novel, &|_, _| 0.5, &training);
        assert_eq!(learned.check(3), Ok(()));
        assert!(learned.check(2).is_err());
        let score_of = |similarity| {
            let list = [Neighbor { row: 0, similarity }];
            learned.of(evidence(&list), &training)
        };
        assert!(
            score_of(0.9) < score_of(0.4) && score_of(0.4) < score_of(0.1),
            "{} {} {}",
            score_of(0.9),
            score_of(0.4),
            score_of(0.1)
        );
        assert!(learned.of(evidence(&[]), &training) > 1e300);
        assert!(!learned.needs_margins());
        // There is nothing to learn from.
        let empty = NoveltyScore::fit(&[], &[], &|_, _| 0.5, &training);
        assert!(empty.of(evidence(&near[0]), &training).is_finite());
    }

    /// If all documents have similar neighbors, margins alone separate novel documents from known
    /// documents.
    #[test]
    fn margins_separate_novel_documents() {
        let training =
            TrainingLabels { indptr: &[0, 1], indices: &[0], weights: &[1.0], sizes: &[1] };
        let list = [Neighbor { row: 0, similarity: 0.5 }];
        let evidence = |margin: f32| NoveltyEvidence { margin: Some(margin), ..evidence(&list) };
        let mut random = crate::random::Random::new(11);
        #[expect(clippy::cast_possible_truncation, reason = "a margin")]
        let mut evidence_from = |from: f32| -> Vec<NoveltyEvidence<'_>> {
            (0..200).map(|_| evidence(from + random.unit() as f32)).collect()
        };
        let known = evidence_from(0.5);
        let novel = evidence_from(-0.4);
        let learned = NoveltyScore::fit(&known, &novel, &|_, _| 0.5, &training);
        assert!(learned.needs_margins() && learned.check(1) == Ok(()));
        let scores = [1.4, 0.5, -0.3].map(|margin| learned.of(evidence(margin), &training));
        assert!(scores.is_sorted() && scores[0] < -1.0 && scores[2] > 1.0, "{scores:?}");
    }

    /// A document is not novel because its label is certain, even if it seemed so in training.
    #[test]
    fn certain_labels_are_not_novel() {
        let training =
            TrainingLabels { indptr: &[0, 1], indices: &[0], weights: &[1.0], sizes: &[1] };
        let list = [Neighbor { row: 0, similarity: 0.5 }];
        let evidence = |probability: f64, margin: f32| NoveltyEvidence {
            probability,
            margin: Some(margin),
            ..evidence(&list)
        };
        let known: Vec<_> = (0..200u8).map(|n| evidence(0.8, f32::from(n % 7))).collect();
        let novel: Vec<_> = (0..200u8).map(|n| evidence(0.9, f32::from(n % 5))).collect();
        let learned = NoveltyScore::fit(&known, &novel, &|_, _| 0.5, &training);
        let [uncertain, certain] = [0.1, 0.99].map(|p| learned.of(evidence(p, 1.0), &training));
        assert_eq!(uncertain.to_bits(), certain.to_bits());
        assert!(learned.of(evidence(0.9, -1.0), &training) > certain);
    }

    /// A novel document's candidates exclude the documents of its label, and a held-out document is
    /// not its own candidate.
    #[test]
    fn held_out_documents_exclude_themselves() {
        let candidates = RowSet::from_fn(5, |row| row > 2);
        let list = [Neighbor { row: 0, similarity: 0.5 }];
        let novel =
            NoveltyEvidence { row: Some(1), candidates: Some(&candidates), ..evidence(&list) };
        assert_eq!([0, 1, 3].map(|row| novel.is_candidate(row)), [false, false, true]);
        let held_out = NoveltyEvidence { row: Some(1), ..evidence(&list) };
        assert_eq!([0, 1, 3].map(|row| held_out.is_candidate(row)), [true, false, true]);
    }
}
