//! Scores → probabilities: isotonic regression on leave-one-out scores, one curve per label.
//!
//! A score is a share of the vote; a probability says how often a label with such a score is right.
//! A curve is the non-decreasing step function closest to the observations (pool adjacent
//! violators, Ayer et al. 1955; for classifiers Zadrozny and Elkan 2002), with straight lines
//! between its steps. Labels of fewer than 20 documents share one curve: their own would be chance.

use serde::{Deserialize, Serialize};

use crate::matrix::Array;

/// A label that fewer documents have shares the curve of rare labels.
const RARE: u64 = 20;

/// Observations of a score: how many, and how many where the label was right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The score.
    pub score: f64,
    /// How many observations there are.
    pub count: f64,
    /// In how many of them the label was right.
    pub right: f64,
}

/// A rising curve from scores to probabilities.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Isotonic {
    /// Scores, rising.
    scores: Vec<f64>,
    /// Their probabilities, not falling.
    probabilities: Vec<f64>,
}

impl Isotonic {
    /// The non-decreasing curve of least squares through the observations.
    ///
    /// ```
    /// use classify::calibrate::{Isotonic, Seen};
    /// let seen = |score, right| Seen { score, count: 1.0, right };
    /// // The middle two fall: they are pooled.
    /// let curve = Isotonic::fit(vec![seen(0.1, 0.0), seen(0.4, 1.0), seen(0.6, 0.0), seen(0.9, 1.0)]);
    /// assert_eq!((curve.at(0.0), curve.at(0.5), curve.at(1.0)), (0.0, 0.5, 1.0));
    /// assert!((curve.at(0.25) - 0.25).abs() < 1e-12);
    /// ```
    pub fn fit(mut seen: Vec<Seen>) -> Self {
        seen.retain(|seen| seen.count > 0.0);
        seen.sort_by(|a, b| a.score.total_cmp(&b.score));
        let mut distinct: Vec<Seen> = Vec::with_capacity(seen.len());
        for next in seen {
            match distinct.last_mut().filter(|last| last.score >= next.score) {
                Some(last) => {
                    last.count += next.count;
                    last.right += next.right;
                }
                None => distinct.push(next),
            }
        }
        // The first score of each block, and its last score with the sums of the block.
        let mut blocks: Vec<(f64, Seen)> = Vec::new();
        for next in distinct {
            let mut block = (next.score, next);
            while let Some(&(first, last)) = blocks.last()
                && last.right * block.1.count >= block.1.right * last.count
            {
                block.0 = first;
                block.1.count += last.count;
                block.1.right += last.right;
                blocks.pop();
            }
            blocks.push(block);
        }
        let mut curve = Self::default();
        for (first, block) in blocks {
            let probability = (block.right / block.count).clamp(0.0, 1.0);
            curve.push(first, probability);
            if block.score > first {
                curve.push(block.score, probability);
            }
        }
        curve
    }

    fn push(&mut self, score: f64, probability: f64) {
        self.scores.push(score);
        self.probabilities.push(probability);
    }

    /// The probability of a score.
    pub fn at(&self, score: f64) -> f64 {
        interpolate(&self.scores, &self.probabilities, score)
    }
}

/// The straight line between the points around `at`; before and after all points their values.
fn interpolate(scores: &[f64], probabilities: &[f64], at: f64) -> f64 {
    let after = scores.partition_point(|&score| score < at);
    match (after.checked_sub(1), scores.get(after)) {
        (None, None) => 0.0,
        (None, Some(_)) => probabilities[0],
        (Some(before), None) => probabilities[before],
        (Some(before), Some(&next)) => {
            let share = (at - scores[before]) / (next - scores[before]);
            let (low, high) = (probabilities[before], probabilities[after]);
            (low + share * (high - low)).clamp(low, high)
        }
    }
}

/// The curves of all labels.
#[derive(Debug)]
pub struct Calibration {
    /// The curve of each label.
    pub(crate) curves: Array<u32>,
    /// The points of curve `i` are `starts[i]..starts[i + 1]`.
    pub(crate) starts: Array<u64>,
    pub(crate) scores: Array<f64>,
    pub(crate) probabilities: Array<f64>,
}

impl Calibration {
    /// Fits the curves of labels to the observations of each, which include documents without a
    /// vote (score 0).
    ///
    /// # Panics
    /// If there are 2³² labels or more.
    pub fn fit(labels: Vec<Vec<Seen>>) -> Self {
        let right = |seen: &[Seen]| seen.iter().map(|seen| seen.right).sum::<f64>();
        let rare = |seen: &[Seen]| right(seen) < RARE as f64;
        let mut pooled: Vec<Seen> = Vec::new();
        for seen in labels.iter().filter(|seen| rare(seen)) {
            pooled.extend(seen);
        }
        let mut calibration = Curves::default();
        calibration.push(&Isotonic::fit(pooled));
        let mut of_label = Vec::with_capacity(labels.len());
        for seen in labels {
            if rare(&seen) {
                of_label.push(0);
            } else {
                of_label.push(
                    u32::try_from(calibration.starts.len() - 1).expect("fewer than 2^32 labels"),
                );
                calibration.push(&Isotonic::fit(seen));
            }
        }
        let Curves { starts, scores, probabilities } = calibration;
        Self {
            curves: of_label.into(),
            starts: starts.into(),
            scores: scores.into(),
            probabilities: probabilities.into(),
        }
    }

    /// The probability that a label with this score is right.
    ///
    /// # Panics
    /// If there is no such label.
    #[expect(clippy::cast_possible_truncation, reason = "bounds of slices in memory")]
    pub fn probability(&self, label: u32, score: f64) -> f64 {
        let curve = self.curves[label as usize] as usize;
        let points = self.starts[curve] as usize..self.starts[curve + 1] as usize;
        interpolate(&self.scores[points.clone()], &self.probabilities[points], score)
    }

    /// What is wrong, if anything, for a model with this number of labels.
    pub(crate) fn check(&self, labels: usize) -> Result<(), &'static str> {
        let points = self.scores.len();
        let spans = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(points as u64))
            && self.starts.is_sorted();
        if !spans || self.probabilities.len() != points {
            return Err("bounds that do not span the points of the curves");
        }
        let count = self.starts.len() - 1;
        if self.curves.len() != labels || self.curves.iter().any(|&curve| curve as usize >= count) {
            return Err("not one curve a label, or one that is not there");
        }
        if self.probabilities.iter().any(|probability| !(0.0..=1.0).contains(probability)) {
            return Err("a probability that is not from 0 to 1");
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
        let rising = self.starts.windows(2).all(|bounds| {
            let curve = bounds[0] as usize..bounds[1] as usize;
            self.scores[curve.clone()].is_sorted_by(|a, b| a < b)
                && self.probabilities[curve].is_sorted()
        });
        if rising { Ok(()) } else { Err("a curve that falls") }
    }
}

#[derive(Debug)]
struct Curves {
    starts: Vec<u64>,
    scores: Vec<f64>,
    probabilities: Vec<f64>,
}

impl Default for Curves {
    fn default() -> Self {
        Self { starts: vec![0], scores: Vec::new(), probabilities: Vec::new() }
    }
}

impl Curves {
    fn push(&mut self, curve: &Isotonic) {
        self.scores.extend(&curve.scores);
        self.probabilities.extend(&curve.probabilities);
        self.starts.push(self.scores.len() as u64);
    }
}

/// Signals of how reliable a prediction is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signals {
    /// The similarity of the best neighbor.
    pub similarity: f32,
    /// The distance of the best label's score from the next one, or from its threshold.
    pub margin: f64,
    /// The share of the document's terms that the model does not know.
    pub unknown: f64,
}

/// When a model abstains: limits chosen for a target share of wrong labels.
///
/// A document gets labels if all three signals are within their limits. The limits are those with
/// the most such documents in leave-one-out, among limits that keep the share of wrong labels at or
/// below the target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abstention {
    /// The target share of wrong labels among those predicted.
    pub target_error: f64,
    /// The least similarity of the best neighbor.
    pub similarity: f32,
    /// The least margin.
    pub margin: f64,
    /// The largest share of unknown terms.
    pub unknown: f64,
    /// The share of left-out documents that got labels.
    pub coverage: f64,
    /// The share of wrong labels among those.
    pub error: f64,
}

/// How many values of each limit are tried.
const LIMITS: usize = 24;

impl Abstention {
    /// Finds the limits. `documents` holds for each left-out document its signals, how many labels
    /// it got, and how many of them were right. If no limits reach the target, those with the
    /// smallest error are taken.
    pub fn learn(target_error: f64, documents: &[(Signals, u32, u32)]) -> Self {
        let limits = |of: fn(&Signals) -> f64, rising: bool| {
            let mut values: Vec<f64> = documents.iter().map(|(signals, ..)| of(signals)).collect();
            values.sort_by(f64::total_cmp);
            if !rising {
                values.reverse();
            }
            let last = values.len().saturating_sub(1);
            // The first limit admits every document.
            let mut limits: Vec<f64> =
                (0..LIMITS).filter_map(|at| values.get(last * at / LIMITS).copied()).collect();
            limits.dedup();
            limits
        };
        let similarities = limits(|signals| f64::from(signals.similarity), true);
        let margins = limits(|signals| signals.margin, true);
        let unknowns = limits(|signals| signals.unknown, false);
        // A document's cell is the number of limits of each signal that it is within.
        let (wide, deep) = (margins.len() + 1, unknowns.len() + 1);
        let mut cells = vec![(0u64, 0u64, 0u64); (similarities.len() + 1) * wide * deep];
        for &(signals, given, right) in documents {
            let x = similarities.partition_point(|&limit| limit <= f64::from(signals.similarity));
            let y = margins.partition_point(|&limit| limit <= signals.margin);
            let z = unknowns.partition_point(|&limit| limit >= signals.unknown);
            let cell = &mut cells[(x * wide + y) * deep + z];
            let answered = u64::from(given > 0);
            *cell = (cell.0 + answered, cell.1 + u64::from(given), cell.2 + u64::from(right));
        }
        // Each cell becomes the sum of all cells at least as far inside, one direction at a time.
        for (stride, length) in [(1, deep), (deep, wide), (wide * deep, similarities.len() + 1)] {
            for at in (0..cells.len()).rev() {
                if at / stride % length + 1 < length {
                    let inner = cells[at + stride];
                    let cell = &mut cells[at];
                    *cell = (cell.0 + inner.0, cell.1 + inner.1, cell.2 + inner.2);
                }
            }
        }
        let mut best: Option<Self> = None;
        for (x, &similarity) in similarities.iter().enumerate() {
            for (y, &margin) in margins.iter().enumerate() {
                for (z, &unknown) in unknowns.iter().enumerate() {
                    let (answers, given, right) = cells[((x + 1) * wide + y + 1) * deep + z + 1];
                    if given == 0 {
                        continue;
                    }
                    #[expect(clippy::cast_possible_truncation, reason = "it was an f32 before")]
                    let similarity = similarity as f32;
                    let found = Self {
                        target_error,
                        similarity,
                        margin,
                        unknown,
                        coverage: answers as f64 / documents.len() as f64,
                        error: 1.0 - right as f64 / given as f64,
                    };
                    if best.is_none_or(|best| found.is_better(&best)) {
                        best = Some(found);
                    }
                }
            }
        }
        best.unwrap_or(Self {
            target_error,
            similarity: 0.0,
            margin: 0.0,
            unknown: 1.0,
            coverage: 0.0,
            error: 0.0,
        })
    }

    fn is_better(&self, other: &Self) -> bool {
        match (self.error <= self.target_error, other.error <= other.target_error) {
            (true, true) => self.coverage > other.coverage,
            (reached, other_reached) if reached != other_reached => reached,
            _ => self.error < other.error,
        }
    }

    /// Whether all signals are within their limits.
    pub fn allows(&self, signals: Signals) -> bool {
        signals.similarity >= self.similarity
            && signals.margin >= self.margin
            && signals.unknown <= self.unknown
    }

    /// What is wrong, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let finite = self.similarity.is_finite() && self.margin.is_finite();
        let share = |share: f64| (0.0..=1.0).contains(&share);
        if finite && share(self.target_error) && share(self.unknown) {
            Ok(())
        } else {
            Err("limits of abstaining that are no numbers, or no shares")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scikit-learn's `IsotonicRegression`.
    #[test]
    fn curves_agree_with_scikit_learn() {
        let golden = include_str!("../tests/golden/evaluation.json");
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        for case in golden["isotonic"].as_array().unwrap() {
            let list = |key: &str| -> Vec<f64> {
                let values = case[key].as_array().unwrap();
                values.iter().map(|value| value.as_f64().unwrap()).collect()
            };
            let seen = list("x").into_iter().zip(list("y")).zip(list("weights"));
            let seen =
                seen.map(|((score, y), count)| Seen { score, count, right: y * count }).collect();
            let curve = Isotonic::fit(seen);
            for (at, expected) in list("at").into_iter().zip(list("expected")) {
                assert!(
                    (curve.at(at) - expected).abs() < 1e-9,
                    "{at}: {}, {expected}",
                    curve.at(at)
                );
            }
        }
    }

    #[test]
    fn rare_labels_share_a_curve() {
        let seen = |score, count: u32, right: u32| Seen {
            score,
            count: count.into(),
            right: right.into(),
        };
        let frequent = vec![seen(0.0, 100, 0), seen(0.5, 40, 30)];
        let rare = vec![seen(0.0, 100, 1), seen(0.2, 4, 1)];
        let calibration = Calibration::fit(vec![frequent, rare.clone(), rare, Vec::new()]);
        assert_eq!(calibration.check(4), Ok(()));
        assert!(calibration.check(3).is_err());
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(calibration.probability(0, 0.5), 0.75);
        close(calibration.probability(1, 0.2), 0.25);
        close(calibration.probability(3, 0.0), 0.01);
        let nothing = Calibration::fit(vec![Vec::new()]);
        close(nothing.probability(0, 0.7), 0.0);
    }

    #[test]
    fn limits_leave_the_target_error() {
        // Wrong where the margin is below a half, whatever the similarity.
        let documents: Vec<(Signals, u32, u32)> = (0..240u16)
            .map(|at| {
                let margin = f64::from(at) / 240.0;
                let similarity = f32::from(at * 7 % 240) / 240.0;
                (Signals { similarity, margin, unknown: 0.1 }, 1, u32::from(margin >= 0.5))
            })
            .collect();
        let learnt = Abstention::learn(0.0, &documents);
        assert!(learnt.error <= 0.0 && learnt.coverage > 0.45 && learnt.coverage <= 0.5);
        let answered = documents.iter().filter(|(signals, ..)| learnt.allows(*signals)).count();
        assert!((answered as f64 / 240.0 - learnt.coverage).abs() < 1e-12);
        // Every document gets labels where the error does not matter.
        let all = Abstention::learn(1.0, &documents);
        assert!((all.coverage - 1.0).abs() < 1e-12 && (all.error - 0.5).abs() < 1e-12);
        // A target out of reach.
        let wrong: Vec<_> =
            documents.iter().map(|&(signals, given, _)| (signals, given, 0)).collect();
        assert!(Abstention::learn(0.05, &wrong).error > 0.99);
        assert!(Abstention::learn(0.05, &[]).coverage <= 0.0);
    }

    /// A label of 20 documents has a curve of its own.
    #[test]
    fn labels_of_twenty_documents() {
        let seen = |right| vec![Seen { score: 0.5, count: 40.0, right }];
        let calibration = Calibration::fit(vec![seen(20.0), seen(19.0), seen(1.0)]);
        assert_eq!(*calibration.curves, [1, 0, 0]);
        assert!((calibration.probability(0, 0.5) - 0.5).abs() < 1e-12);
        assert!((calibration.probability(1, 0.5) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn broken_calibrations_are_refused() {
        let with = |curves: &[u32], starts: &[u64], scores: &[f64], probabilities: &[f64]| {
            let calibration = Calibration {
                curves: curves.to_vec().into(),
                starts: starts.to_vec().into(),
                scores: scores.to_vec().into(),
                probabilities: probabilities.to_vec().into(),
            };
            calibration.check(2)
        };
        let (curves, starts) = ([0, 1], [0, 2, 3]);
        assert_eq!(with(&curves, &starts, &[0.1, 0.2, 0.1], &[0.1, 0.1, 1.0]), Ok(()));
        for (curves, starts, scores, probabilities) in [
            (&[0, 1][..], &[1, 2, 3][..], &[0.1, 0.2, 0.1][..], &[0.1, 0.2, 1.0][..]),
            (&[0, 1], &[0, 2, 2], &[0.1, 0.2, 0.1], &[0.1, 0.2, 1.0]),
            (&[0, 1], &[0, 3, 2, 3], &[0.1, 0.2, 0.3], &[0.1, 0.2, 1.0]),
            (&[0, 1], &[0, 2, 3], &[0.1, 0.2, 0.1], &[0.1, 0.2]),
            (&[0], &[0, 2, 3], &[0.1, 0.2, 0.1], &[0.1, 0.2, 1.0]),
            (&[0, 2], &[0, 2, 3], &[0.1, 0.2, 0.1], &[0.1, 0.2, 1.0]),
            (&[0, 1], &[0, 2, 3], &[0.1, 0.2, 0.1], &[0.1, 0.2, 1.1]),
            (&[0, 1], &[0, 2, 3], &[0.1, 0.2, 0.1], &[0.1, 0.2, f64::NAN]),
            (&[0, 1], &[0, 2, 3], &[0.2, 0.2, 0.1], &[0.1, 0.2, 1.0]),
            (&[0, 1], &[0, 2, 3], &[0.1, 0.2, 0.1], &[0.2, 0.1, 1.0]),
        ] {
            let checked = with(curves, starts, scores, probabilities);
            assert!(checked.is_err(), "{curves:?} {starts:?} {scores:?} {probabilities:?}");
        }
    }

    const LIMITS_OF_ALL: Abstention = Abstention {
        target_error: 0.05,
        similarity: 0.5,
        margin: 0.25,
        unknown: 0.5,
        coverage: 0.5,
        error: 0.0,
    };

    /// Each signal may be at its limit, none beyond it.
    #[test]
    fn every_signal_has_its_limit() {
        let at = Signals { similarity: 0.5, margin: 0.25, unknown: 0.5 };
        assert!(LIMITS_OF_ALL.allows(at));
        for beyond in [
            Signals { similarity: at.similarity.next_down(), ..at },
            Signals { margin: at.margin.next_down(), ..at },
            Signals { unknown: at.unknown.next_up(), ..at },
        ] {
            assert!(!LIMITS_OF_ALL.allows(beyond), "{beyond:?}");
        }
        assert!(LIMITS_OF_ALL.check().is_ok());
        for broken in [
            Abstention { similarity: f32::NAN, ..LIMITS_OF_ALL },
            Abstention { margin: f64::INFINITY, ..LIMITS_OF_ALL },
            Abstention { unknown: 1.5, ..LIMITS_OF_ALL },
            Abstention { target_error: -0.1, ..LIMITS_OF_ALL },
        ] {
            assert!(broken.check().is_err(), "{broken:?}");
        }
    }

    #[test]
    fn better_limits() {
        let limits = |error, coverage| Abstention { coverage, error, ..LIMITS_OF_ALL };
        assert!(limits(0.05, 0.9).is_better(&limits(0.0, 0.5)), "both reach the target");
        assert!(!limits(0.0, 0.5).is_better(&limits(0.05, 0.9)));
        assert!(limits(0.05, 0.1).is_better(&limits(0.051, 0.9)), "one does");
        assert!(limits(0.1, 0.1).is_better(&limits(0.2, 0.9)), "none does");
        assert!(!limits(0.1, 0.9).is_better(&limits(0.1, 0.1)));
    }

    /// Documents without labels are not answered, and do not make the error.
    #[test]
    fn documents_without_labels() {
        let signals = |similarity| Signals { similarity, margin: 0.5, unknown: 0.0 };
        let learnt = Abstention::learn(1.0, &[(signals(0.9), 1, 1), (signals(0.1), 0, 0)]);
        assert!((learnt.coverage - 0.5).abs() < 1e-12 && learnt.error <= 0.0, "{learnt:?}");
        let learnt = Abstention::learn(0.05, &[(signals(0.9), 0, 0)]);
        assert!(learnt.coverage <= 0.0 && learnt.error <= 0.0, "{learnt:?}");
    }
}
