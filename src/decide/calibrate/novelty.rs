//! Detection of out-of-distribution documents, which have none of the model's labels.
//!
//! The novelty score comes from a logistic regression. Its limit is set by split conformal
//! prediction (Vovk, Gammerman and Shafer 2005).

use serde::{Deserialize, Serialize};

use super::logistic::{self, Observation, dot};
use super::quantiles::{QUANTILES, quantile, quantiles};
use crate::decide::vote::{TopMargins, TrainingLabels, Voters};
use crate::rows::matrix::Array;
use crate::rows::powers::integer_power;
use crate::search::RowSet;

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

/// The novelty score: the log odds that a document has none of the model's labels. The odds apply
/// to the mix of known and novel documents from which the score was learned.
///
/// If the model has label prototypes, the score is a logistic regression on their margins. The
/// values are the highest margin, its distance from the next one, and the log odds of its score.
/// Values from neighbors are then excluded, because they fit documents of removed labels better
/// than truly novel documents. In experiments, fewer novel documents were recognized with them.
///
/// Otherwise the score is a logistic regression on these values of the neighbors, independent of
/// the vote:
///
/// * The similarity of the best neighbor. The values are its logarithm, and the shares of held-out
///   documents and of neighbors whose own best neighbor is less similar.
/// * The mean similarity of the neighbors: as the share of held-out documents with a lower mean,
///   and relative to the best similarity.
/// * The log ratio of a neighbor's similarity to the similarity of the neighbor's own best neighbor
///   (Tax and Duin 2000). The values are the ratio of the first neighbor and the mean over the
///   first five.
/// * The largest share of one label in the neighbors' total similarity. The values are this share,
///   its distance from the next label's share, and its product with the similarity. Two more values
///   are the share for the fourth powers of the similarities, and the share for the first five
///   neighbors.
/// * The share of the document's terms that the model does not know.
#[derive(Debug, Clone)]
pub struct NoveltyScore {
    /// The constant and the weights of the other values.
    pub(crate) weights: Array<f64>,
    /// The best similarity of held-out documents at evenly spaced quantiles, in non-decreasing
    /// order.
    pub(crate) best: Array<f32>,
    /// The mean similarity of the neighbors of held-out documents at the same quantiles.
    pub(crate) mean: Array<f32>,
    /// The similarity of each training document's best neighbor.
    pub(crate) nearest: Array<f32>,
}

/// Number of values computed from neighbors, including the constant.
const VALUES: usize = 14;
/// Number of values computed from margins, including the constant.
const MARGIN_VALUES: usize = 4;
/// Number of nearest neighbors from which additional values are computed.
const CLOSEST_NEIGHBORS: usize = 5;

/// The input of a document's novelty score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoveltyEvidence<'a> {
    /// The neighbors that vote.
    pub(crate) voters: Voters<'a>,
    /// The share of the document's terms that the model does not know.
    pub(crate) unknown_share: f64,
    /// The highest margins, if the model has label prototypes.
    pub(crate) margins: Option<TopMargins>,
    /// The row of the document, if it is a training document.
    pub(crate) row: Option<u32>,
    /// The training documents that can be its neighbors; `None` if all other documents can.
    pub(crate) candidates: Option<&'a RowSet>,
}

impl TopMargins {
    /// Returns the highest margin, its distance from the next one, and the log odds of its score.
    fn values(self) -> [f64; 3] {
        let score = f64::from(self.score).clamp(1e-6, 1.0 - 1e-6);
        let [highest, next] = self.margins.map(f64::from);
        [highest, highest - next, libm::log(score / (1.0 - score))]
    }
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
        let has_margins = known.iter().any(|evidence| evidence.margins.is_some());
        let best = known.iter().map(|evidence| evidence.voters.best_similarity()).collect();
        let mean = known.iter().map(|evidence| mean_similarity(evidence.voters)).collect();
        let mut learned = Self {
            weights: vec![0.0; if has_margins { MARGIN_VALUES } else { VALUES }].into(),
            best: quantiles(best, QUANTILES).into(),
            mean: quantiles(mean, QUANTILES).into(),
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
        let mut weights = logistic::fit_weights(&observations).to_vec();
        weights.truncate(learned.weights.len());
        learned.weights = weights.into();
        learned
    }

    /// Returns the score of a document that is not a training document; infinite if it has no
    /// neighbors.
    pub(crate) fn of(&self, evidence: NoveltyEvidence<'_>, training: &TrainingLabels<'_>) -> f64 {
        self.log_odds(
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
        self.log_odds(evidence, &|row| nearest(row, Some(&evidence)), training)
    }

    /// Returns the log odds from the regression.
    fn log_odds(
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
        NoveltyEvidence { voters, unknown_share, margins, .. }: NoveltyEvidence<'_>,
        nearest: &dyn Fn(u32) -> f32,
        training: &TrainingLabels<'_>,
    ) -> [f64; VALUES] {
        if self.needs_margins() {
            let [highest, gap, odds] = margins.map_or([0.0; 3], TopMargins::values);
            let mut values = [0.0; VALUES];
            values[..MARGIN_VALUES].copy_from_slice(&[1.0, highest, gap, odds]);
            return values;
        }
        let best = voters.best_similarity();
        let mean = mean_similarity(voters);
        let logarithm = |similarity: f32| libm::log(f64::from(similarity).max(1e-6));
        let ratio = |row: u32, similarity: f32| match nearest(row) {
            own_best if own_best > 0.0 => logarithm(similarity) - logarithm(own_best),
            _ => 0.0,
        };
        let mut first = voters.ranked().map(|(_, _, neighbor)| neighbor);
        let first_ratio = first.next().map_or(0.0, |neighbor| ratio(neighbor.row, best));
        let closest = voters.first(CLOSEST_NEIGHBORS);
        let mut ratios = 0.0;
        let mut count = 0u32;
        for (_, _, neighbor) in closest.ranked() {
            ratios += ratio(neighbor.row, neighbor.similarity);
            count += 1;
        }
        let share = quantile(&self.best, best);
        let [all, fourth_powers, first_few] = [(voters, 1), (voters, 4), (closest, 1)]
            .map(|(voters, power)| agreement(voters, power, training));
        let mut farther = 0u32;
        let mut voted = 0u32;
        for (_, _, neighbor) in voters.ranked() {
            farther += u32::from(nearest(neighbor.row) < best);
            voted += 1;
        }
        let farther_share = f64::from(farther) / f64::from(voted.max(1));
        [
            1.0,
            share,
            logarithm(best),
            quantile(&self.mean, mean),
            f64::from(mean / best.max(1e-6)),
            first_ratio,
            ratios / f64::from(count.max(1)),
            all.share,
            all.share - all.second,
            fourth_powers.share,
            first_few.share,
            all.share * share,
            farther_share,
            unknown_share,
        ]
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
        let is_sorted = |values: &[f32]| values.is_sorted() && values.iter().all(|v| v.is_finite());
        let is_finite = self.weights.iter().all(|weight| weight.is_finite())
            && self.nearest.iter().all(|similarity| similarity.is_finite());
        if is_finite && is_sorted(&self.best) && is_sorted(&self.mean) {
            Ok(())
        } else {
            Err("a value is not finite or out of order")
        }
    }
}

/// Returns the mean similarity of the neighbors.
#[expect(clippy::cast_possible_truncation, reason = "between two f32")]
fn mean_similarity(voters: Voters<'_>) -> f32 {
    let mut sum = 0.0;
    let mut count = 0u32;
    for (_, _, neighbor) in voters.ranked() {
        sum += f64::from(neighbor.similarity);
        count += 1;
    }
    (sum / f64::from(count.max(1))) as f32
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
    use crate::search::Neighbor;

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
            margins: None,
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
        let evidence = |margin: f32| {
            let margins = TopMargins { margins: [margin, -1.0], score: 0.5 + margin / 4.0 };
            NoveltyEvidence { margins: Some(margins), ..evidence(&list) }
        };
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
