//! Documents of no label that the model knows, told by their neighbors.

use serde::{Deserialize, Serialize};

use super::logistic::{self, Observation, dot};
use super::{QUANTILES, quantile, quantiles};
use crate::decide::vote::{HighestMargins, TrainingLabels, Voters};
use crate::rows::matrix::Array;
use crate::rows::powers::whole_power;
use crate::search::RowSet;

/// When a document is refused as foreign: of no label that the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignLimit {
    /// The target: the share of documents with known labels that may be refused.
    pub target: f64,
    /// The strangeness above which a document is refused; `None`: too few documents to tell, and none
    /// is.
    pub strangeness: Option<f64>,
    /// The share of left-out documents that were refused although their labels are known, where others set the
    /// limit.
    pub known_refused: f64,
    /// The share of documents that were refused after their labels had been left out of training.
    pub foreign_refused: f64,
    /// The number of documents whose labels were left out.
    pub foreign_documents: u64,
}

impl ForeignLimit {
    /// The limit that refuses at most `target` of documents like the `known` ones, and what it does
    /// to `foreign` ones; each value is a document's strangeness.
    ///
    /// The limit is the ⌈(n + 1)(1 − target)⌉-th lowest of the n known values: the next document of the
    /// same kind exceeds it with a probability of at most the target (split conformal prediction;
    /// Vovk, Gammerman and Shafer 2005).
    ///
    /// ```
    /// use classify::decide::calibrate::ForeignLimit;
    ///
    /// let known: Vec<f64> = (0..99).map(f64::from).collect();
    /// let limit = ForeignLimit::learn(0.1, known, &[50.0, 95.0]);
    /// assert_eq!((limit.strangeness, limit.foreign_refused), (Some(89.0), 0.5));
    /// // Nine documents cannot tell what happens to fewer than a tenth.
    /// assert_eq!(ForeignLimit::learn(0.09, vec![0.0; 9], &[]).strangeness, None);
    /// ```
    pub fn learn(target: f64, mut known: Vec<f64>, foreign: &[f64]) -> Self {
        known.sort_by(f64::total_cmp);
        // Not refused by a rounding error: 0.9 × 100 is 90, not 91.
        let place = ((known.len() + 1) as f64 * (1.0 - target) - 1e-9).ceil().max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
        let limit = known.get(place as usize - 1).copied().filter(|limit| limit.is_finite());
        let refused = |values: &[f64]| {
            let above = values.iter().filter(|&&value| limit.is_some_and(|limit| value > limit));
            above.count() as f64 / values.len().max(1) as f64
        };
        Self {
            target,
            strangeness: limit,
            known_refused: refused(&known),
            foreign_refused: refused(foreign),
            foreign_documents: foreign.len() as u64,
        }
    }

    /// What is wrong, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let shares = [self.target, self.known_refused, self.foreign_refused];
        let valid = shares.iter().all(|share| (0.0..=1.0).contains(share));
        if valid && self.strangeness.is_none_or(f64::is_finite) {
            Ok(())
        } else {
            Err("limits of foreign documents that are no numbers, or no shares")
        }
    }
}

/// How strange a document is to a model: the logarithm of the odds that it has none of the model's
/// labels, among documents of either kind as they were learned from.
///
/// If the model has prototypes, it is a logistic regression on what they tell: the highest margin of a label, its distance
/// from the next one, and the logarithm of the odds of the score that it becomes. (What neighbors tell beside them is
/// truer of labels that were left out than of foreign ones: with it, fewer foreign documents were recognized.)
/// Otherwise it is one on what the neighbors tell, whatever the vote:
///
/// * the similarity of the best neighbor: its logarithm, the share of the left-out documents whose best
///   neighbor is less similar, and the share of the neighbors whose own best neighbor is,
/// * the mean similarity of the neighbors: as such a share, and relative to the best one,
/// * the logarithm of the ratio of a neighbor's similarity to the one that it has with its own best
///   neighbor (Tax and Duin 2000): of the first, and the mean of the first five,
/// * the largest share of the neighbors' similarities that a single label has, its distance from the next
///   one, its product with the similarity, and the same share of the similarities' fourth powers and of the
///   first five neighbors,
/// * the share of the document's terms that the model does not know.
#[derive(Debug, Clone)]
pub struct Strangeness {
    /// The constant and the weights of the other values.
    pub(crate) weights: Array<f64>,
    /// The best similarity of left-out documents at evenly spaced quantiles, not falling.
    pub(crate) best: Array<f32>,
    /// The same of the mean similarity of the neighbors.
    pub(crate) mean: Array<f32>,
    /// The similarity of each training document's best neighbor.
    pub(crate) nearest: Array<f32>,
}

/// The number of values that neighbors tell of a document, with the constant.
const VALUES: usize = 14;
/// The number of those that prototypes tell.
const BY_MARGINS: usize = 4;
/// The number of neighbors that are looked at more closely.
const FEW: usize = 5;

/// A document as its neighbors show it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// The neighbors that vote.
    pub(crate) voters: Voters<'a>,
    /// The share of unknown terms.
    pub(crate) unknown: f64,
    /// What prototypes tell, if there are some.
    pub(crate) margins: Option<HighestMargins>,
    /// Its number, if it is a training document.
    pub(crate) row: Option<u32>,
    /// The training documents that it may know, if not all others.
    pub(crate) among: Option<&'a RowSet>,
}

impl HighestMargins {
    /// The highest margin, how far the next one is, and the logarithm of the odds of the highest score.
    fn values(self) -> [f64; 3] {
        let score = f64::from(self.score).clamp(1e-6, 1.0 - 1e-6);
        let [highest, next] = self.margins.map(f64::from);
        [highest, highest - next, libm::log(score / (1.0 - score))]
    }
}

impl Shown<'_> {
    /// Whether it may know a training document.
    pub(crate) fn may_know(&self, row: u32) -> bool {
        Some(row) != self.row && self.among.is_none_or(|among| among.contains(row))
    }
}

/// Returns the similarity of a training document's best neighbor among those that a document may know.
pub(crate) type Nearest<'a> = &'a dyn Fn(u32, Option<&Shown<'_>>) -> f32;

impl Strangeness {
    /// Learns from left-out documents, and from documents whose labels were left out. `nearest` is the
    /// similarity of each training document's best neighbor.
    pub(crate) fn fit(
        known: &[Shown<'_>],
        foreign: &[Shown<'_>],
        nearest: Nearest<'_>,
        among: &TrainingLabels<'_>,
    ) -> Self {
        let with_neighbors = |shown: &&Shown<'_>| !shown.voters.is_empty();
        let (known, foreign): (Vec<_>, Vec<_>) = (
            known.iter().filter(with_neighbors).collect(),
            foreign.iter().filter(with_neighbors).collect(),
        );
        let has_margins = known.iter().any(|shown| shown.margins.is_some());
        let best = known.iter().map(|shown| shown.voters.best_similarity()).collect();
        let mean = known.iter().map(|shown| mean_similarity(shown.voters)).collect();
        let mut learned = Self {
            weights: vec![0.0; if has_margins { BY_MARGINS } else { VALUES }].into(),
            best: quantiles(best, QUANTILES).into(),
            mean: quantiles(mean, QUANTILES).into(),
            nearest: (0u32..)
                .take(among.weights.len())
                .map(|row| nearest(row, None))
                .collect::<Vec<_>>()
                .into(),
        };
        let known = known.into_iter().map(|shown| (shown, false));
        let observations: Vec<Observation<VALUES>> = known
            .chain(foreign.into_iter().map(|shown| (shown, true)))
            .map(|(shown, right)| Observation {
                values: learned.values(*shown, &|row| nearest(row, Some(shown)), among),
                group: 0,
                right,
            })
            .collect();
        let mut weights = logistic::weights(&observations).to_vec();
        weights.truncate(learned.weights.len());
        learned.weights = weights.into();
        learned
    }

    /// How strange a document is that is not a training document; infinitely, if it has no neighbors.
    pub(crate) fn of(&self, shown: Shown<'_>, among: &TrainingLabels<'_>) -> f64 {
        self.told(shown, &|row| self.nearest.get(row as usize).copied().unwrap_or(0.0), among)
    }

    /// How strange a left-out document is.
    pub(crate) fn of_left_out(
        &self,
        shown: Shown<'_>,
        nearest: Nearest<'_>,
        among: &TrainingLabels<'_>,
    ) -> f64 {
        self.told(shown, &|row| nearest(row, Some(&shown)), among)
    }

    fn told(
        &self,
        shown: Shown<'_>,
        nearest: &dyn Fn(u32) -> f32,
        among: &TrainingLabels<'_>,
    ) -> f64 {
        if shown.voters.is_empty() {
            return f64::INFINITY;
        }
        let weight = |at| self.weights.get(at).copied().unwrap_or(0.0);
        let weights: [f64; VALUES] = std::array::from_fn(weight);
        dot(&weights, &self.values(shown, nearest, among))
    }

    fn values(
        &self,
        Shown { voters, unknown, margins, .. }: Shown<'_>,
        nearest: &dyn Fn(u32) -> f32,
        among: &TrainingLabels<'_>,
    ) -> [f64; VALUES] {
        if self.needs_margins() {
            let [highest, apart, odds] = margins.map_or([0.0; 3], HighestMargins::values);
            let mut values = [0.0; VALUES];
            values[..BY_MARGINS].copy_from_slice(&[1.0, highest, apart, odds]);
            return values;
        }
        let (best, mean) = (voters.best_similarity(), mean_similarity(voters));
        let logarithm = |similarity: f32| libm::log(f64::from(similarity).max(1e-6));
        let ratio = |row: u32, similarity: f32| match nearest(row) {
            own if own > 0.0 => logarithm(similarity) - logarithm(own),
            _ => 0.0,
        };
        let mut first = voters.ranked().map(|(_, _, neighbor)| neighbor);
        let of_best = first.next().map_or(0.0, |neighbor| ratio(neighbor.row, best));
        let few = voters.first(FEW);
        let (mut ratios, mut count) = (0.0, 0u32);
        for (_, _, neighbor) in few.ranked() {
            ratios += ratio(neighbor.row, neighbor.similarity);
            count += 1;
        }
        let share = quantile(&self.best, best);
        let [all, emphatic, first_few] = [(voters, 1), (voters, 4), (few, 1)]
            .map(|(voters, power)| agreement(voters, power, among));
        let (mut farther, mut voted) = (0u32, 0u32);
        for (_, _, neighbor) in voters.ranked() {
            farther += u32::from(nearest(neighbor.row) < best);
            voted += 1;
        }
        let typical = f64::from(farther) / f64::from(voted.max(1));
        [
            1.0,
            share,
            logarithm(best),
            quantile(&self.mean, mean),
            f64::from(mean / best.max(1e-6)),
            of_best,
            ratios / f64::from(count.max(1)),
            all.share,
            all.share - all.second,
            emphatic.share,
            first_few.share,
            all.share * share,
            typical,
            unknown,
        ]
    }

    /// Whether it asks what prototypes tell.
    pub(crate) fn needs_margins(&self) -> bool {
        self.weights.len() == BY_MARGINS
    }

    /// What is wrong, if anything, for a model of this number of documents.
    pub(crate) fn check(&self, documents: usize) -> Result<(), &'static str> {
        let weights = [BY_MARGINS, VALUES].contains(&self.weights.len());
        if !weights || self.nearest.len() != documents {
            return Err("not one weight per value and one similarity per document");
        }
        let rising = |values: &[f32]| values.is_sorted() && values.iter().all(|v| v.is_finite());
        let finite = self.weights.iter().all(|weight| weight.is_finite())
            && self.nearest.iter().all(|similarity| similarity.is_finite());
        if finite && rising(&self.best) && rising(&self.mean) {
            Ok(())
        } else {
            Err("a value that is not finite or out of order")
        }
    }
}

/// The mean similarity of the neighbors.
#[expect(clippy::cast_possible_truncation, reason = "between two f32")]
fn mean_similarity(voters: Voters<'_>) -> f32 {
    let (mut sum, mut count) = (0.0, 0u32);
    for (_, _, neighbor) in voters.ranked() {
        sum += f64::from(neighbor.similarity);
        count += 1;
    }
    (sum / f64::from(count.max(1))) as f32
}

/// The labels of the neighbors: the one with the largest share of their similarities.
#[derive(Default)]
struct Agreement {
    share: f64,
    second: f64,
}

fn agreement(voters: Voters<'_>, power: u32, among: &TrainingLabels<'_>) -> Agreement {
    let mut of_labels: Vec<(u32, f64)> = Vec::new();
    let mut all = 0.0;
    for (_, _, neighbor) in voters.ranked() {
        let similarity = whole_power(neighbor.similarity.into(), power);
        all += similarity;
        of_labels.extend(among.labels(neighbor.row).iter().map(|&label| (label, similarity)));
    }
    of_labels.sort_by_key(|&(label, _)| label);
    let mut agreement = Agreement::default();
    for of in of_labels.chunk_by(|a, b| a.0 == b.0) {
        let share = of.iter().map(|of| of.1).sum::<f64>() / all;
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
    fn limits_of_few_documents() {
        let limit = ForeignLimit::learn(0.5, vec![1.0], &[2.0]);
        assert_eq!((limit.strangeness, limit.foreign_refused), (Some(1.0), 1.0));
        let none = ForeignLimit::learn(0.05, vec![], &[]);
        assert_eq!((none.strangeness, none.foreign_documents, none.check()), (None, 0, Ok(())));
        // So many documents without neighbors that the limit would be infinite.
        let empty = ForeignLimit::learn(0.1, vec![f64::INFINITY; 30], &[1.0]);
        assert_eq!(empty.strangeness, None);
    }

    /// New documents exceed the limit as rarely as asked.
    #[test]
    fn limits_hold_on_average() {
        let mut random = crate::random::Random::new(5);
        let mut refused = 0;
        for _ in 0..400 {
            let known: Vec<f64> = (0..60).map(|_| random.unit()).collect();
            let limit = ForeignLimit::learn(0.1, known, &[]).strangeness.unwrap();
            refused += (0..50).filter(|_| random.unit() > limit).count();
        }
        let share = refused as f64 / 20_000.0;
        assert!(share < 0.105 && share > 0.08, "{share}");
    }

    fn shown(list: &[Neighbor]) -> Shown<'_> {
        Shown { voters: Voters::one(list), unknown: 0.0, margins: None, row: None, among: None }
    }

    /// Documents with distant neighbors of many labels are strange.
    #[test]
    fn strange_documents() {
        let (indptr, indices) = ([0u64, 1, 2, 3], [0u32, 1, 2]);
        let among = TrainingLabels {
            indptr: &indptr,
            indices: &indices,
            weights: &[1.0; 3],
            sizes: &[1, 1, 1],
        };
        let mut random = crate::random::Random::new(7);
        let mut lists = |most: f32| -> Vec<[Neighbor; 2]> {
            #[expect(clippy::cast_possible_truncation, reason = "a similarity")]
            let similarity = |random: &mut crate::random::Random| random.unit() as f32 * most;
            (0..300)
                .map(|_| {
                    let best = similarity(&mut random) + 0.01;
                    [0, 1].map(|row| Neighbor { row, similarity: best / (row + 1) as f32 })
                })
                .collect()
        };
        let (near, far) = (lists(1.0), lists(0.3));
        let (known, foreign): (Vec<_>, Vec<_>) = (
            near.iter().map(|list| shown(list)).collect(),
            far.iter().map(|list| shown(list)).collect(),
        );
        let learned = Strangeness::fit(&known, &foreign, &|_, _| 0.5, &among);
        assert_eq!(learned.check(3), Ok(()));
        assert!(learned.check(2).is_err());
        let of = |similarity| {
            let list = [Neighbor { row: 0, similarity }];
            learned.of(shown(&list), &among)
        };
        assert!(of(0.9) < of(0.4) && of(0.4) < of(0.1), "{} {} {}", of(0.9), of(0.4), of(0.1));
        assert!(learned.of(shown(&[]), &among) > 1e300);
        assert!(!learned.needs_margins());
        // Nothing to learn from.
        let empty = Strangeness::fit(&[], &[], &|_, _| 0.5, &among);
        assert!(empty.of(shown(&near[0]), &among).is_finite());
    }

    /// Where the neighbors of all documents are alike, prototypes alone tell which are foreign.
    #[test]
    fn strange_to_prototypes() {
        let among = TrainingLabels { indptr: &[0, 1], indices: &[0], weights: &[1.0], sizes: &[1] };
        let list = [Neighbor { row: 0, similarity: 0.5 }];
        let shown = |margin: f32| {
            let margins = HighestMargins { margins: [margin, -1.0], score: 0.5 + margin / 4.0 };
            Shown { margins: Some(margins), ..shown(&list) }
        };
        let mut random = crate::random::Random::new(11);
        #[expect(clippy::cast_possible_truncation, reason = "a margin")]
        let mut of = |from: f32| -> Vec<Shown<'_>> {
            (0..200).map(|_| shown(from + random.unit() as f32)).collect()
        };
        let (known, foreign) = (of(0.5), of(-0.4));
        let learned = Strangeness::fit(&known, &foreign, &|_, _| 0.5, &among);
        assert!(learned.needs_margins() && learned.check(1) == Ok(()));
        let told = [1.4, 0.5, -0.3].map(|margin| learned.of(shown(margin), &among));
        assert!(told.is_sorted() && told[0] < -1.0 && told[2] > 1.0, "{told:?}");
    }

    /// A foreign document does not know the documents of its label, nor a left-out one itself.
    #[test]
    fn who_is_known() {
        let among = RowSet::from_fn(5, |row| row > 2);
        let list = [Neighbor { row: 0, similarity: 0.5 }];
        let foreign = Shown { row: Some(1), among: Some(&among), ..shown(&list) };
        assert_eq!([0, 1, 3].map(|row| foreign.may_know(row)), [false, false, true]);
        let left_out = Shown { row: Some(1), ..shown(&list) };
        assert_eq!([0, 1, 3].map(|row| left_out.may_know(row)), [true, false, true]);
    }
}
