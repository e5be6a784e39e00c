//! When a model abstains.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

/// When a model abstains: a limit on the confidence, with a bound of the share of wrong labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceLimit {
    /// The target share of wrong labels among those predicted.
    pub target_error: f64,
    /// The least confidence; `None`: the target is out of reach, and nothing is answered.
    pub confidence: Option<f64>,
    /// The share of left-out documents that got labels; if the target is out of reach, of the most confident
    /// ones that were tested.
    pub coverage: f64,
    /// The share of wrong labels among those.
    pub error: f64,
    /// The upper end of a one-sided interval of that share: the model's own error is below it in 98 of
    /// 100 draws of training documents, if new documents are like these.
    pub error_bound: f64,
}

/// An answer to a left-out document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The confidence in it.
    pub confidence: f64,
    /// The number of labels that it got.
    pub given: u32,
    /// How many of them are right.
    pub right: u32,
    /// The number of its cluster: near-duplicates, say, which are right or wrong together more often than other documents.
    pub cluster: u64,
}

/// The probability that a bound does not hold.
const RISK: f64 = 0.02;
/// The number of limits that are tested, one after the other.
const TESTS: usize = 50;

impl ConfidenceLimit {
    /// The lowest limit whose share of wrong labels is shown to be at most the target.
    ///
    /// Limits are tested from high to low, each by the upper end of the interval of Clopper and Pearson
    /// (1934), until one fails: with such a fixed sequence, all tests together fail no more often than
    /// one (Angelopoulos et al. 2021, fixed sequence testing). The labels of a document or a cluster are right or wrong
    /// together more often than others, so they count for less: the counts are divided by
    /// the design effect (Korn and Graubard 1998). If no limit passes, nothing is answered: coverage and error are then those of the highest
    /// limit.
    ///
    /// ```
    /// use classify::decide::calibrate::{Answer, ConfidenceLimit};
    ///
    /// // Every answer with a confidence below a half is wrong.
    /// let answers: Vec<Answer> = (0..2_000u32)
    ///     .map(|at| {
    ///         let confidence = f64::from(at) / 2_000.0;
    ///         Answer { confidence, given: 1, right: u32::from(confidence >= 0.5), cluster: at.into() }
    ///     })
    ///     .collect();
    /// let limit = ConfidenceLimit::learn(0.05, &answers);
    /// let least = limit.confidence.unwrap();
    /// assert!(least > 0.45 && least < 0.52);
    /// assert!(limit.error <= limit.error_bound && limit.error_bound <= 0.05);
    /// ```
    pub fn learn(target_error: f64, answers: &[Answer]) -> Self {
        Self::at_risk(target_error, answers, RISK)
    }

    /// One of two limits that together fail no more often than one of [`learn`](Self::learn).
    pub(crate) fn one_of_two(target_error: f64, answers: &[Answer]) -> Self {
        Self::at_risk(target_error, answers, RISK / 2.0)
    }

    fn at_risk(target_error: f64, answers: &[Answer], risk: f64) -> Self {
        let mut answered: Vec<&Answer> = answers.iter().filter(|answer| answer.given > 0).collect();
        answered.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        // So few right answers that even without an error they show nothing.
        let fewest = libm::log(risk) / libm::log1p(-target_error.clamp(1e-9, 0.999));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let first = (2.0 * fewest) as usize;
        let first = first.max(answered.len() / 20).clamp(1, answered.len().max(1));
        let ends = (0..=TESTS)
            .map(|test| first + (answered.len() - first.min(answered.len())) * test / TESTS);
        let none =
            Self { target_error, confidence: None, coverage: 0.0, error: 0.0, error_bound: 1.0 };
        let mut best = none;
        let mut all = Sums::default();
        for answer in &answered {
            all.add(answer);
        }
        let of_all = all.known_design_effect();
        let (mut taken, mut sums) = (0, Sums::default());
        for end in ends {
            let Some(&last) = answered.get(end.wrapping_sub(1)) else { break };
            // Answers of equal confidence go together.
            while let Some(answer) = answered.get(taken)
                && (taken < end || answer.confidence >= last.confidence)
            {
                sums.add(answer);
                taken += 1;
            }
            let found = Self {
                target_error,
                confidence: Some(last.confidence),
                coverage: taken as f64 / answers.len() as f64,
                error: sums.wrong / sums.given,
                error_bound: sums.upper_bound(of_all, risk),
            };
            if found.error_bound > target_error {
                let first = best.confidence.is_none();
                return if first { Self { confidence: None, ..found } } else { best };
            }
            best = found;
        }
        best
    }

    /// Whether the bound of the error is at most the target.
    pub fn reaches_target(&self) -> bool {
        self.confidence.is_some()
    }

    /// What is wrong, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let valid = is_share(self.target_error)
            && self.confidence.is_none_or(is_share)
            && is_share(self.error_bound);
        if valid { Ok(()) } else { Err("limits of abstaining that are no numbers, or no shares") }
    }
}

/// Sums over clusters of answers: of the labels given, of the wrong ones, and of squares and products of both.
#[derive(Debug, Clone, Default)]
struct Sums {
    /// The labels given to each cluster, and the wrong ones.
    clusters: HashMap<u64, (f64, f64), FixedState>,
    given: f64,
    wrong: f64,
    given_squared: f64,
    wrong_squared: f64,
    given_wrong: f64,
}

impl Sums {
    fn add(&mut self, answer: &Answer) {
        let (given, wrong) = (f64::from(answer.given), f64::from(answer.given - answer.right));
        self.given += given;
        self.wrong += wrong;
        let cluster = self.clusters.entry(answer.cluster).or_default();
        let before = *cluster;
        *cluster = (before.0 + given, before.1 + wrong);
        self.given_squared += cluster.0 * cluster.0 - before.0 * before.0;
        self.wrong_squared += cluster.1 * cluster.1 - before.1 * before.1;
        self.given_wrong += cluster.0 * cluster.1 - before.0 * before.1;
    }

    /// The variance of the share of wrong labels relative to that of independent labels, at least 1. Without a wrong
    /// label nothing is known of it: `None`.
    fn known_design_effect(&self) -> Option<f64> {
        let share = self.wrong / self.given;
        // One label per cluster.
        if self.given <= self.clusters.len() as f64 {
            return Some(1.0);
        }
        if self.wrong <= 0.0 || share >= 1.0 {
            return None;
        }
        let squares = self.wrong_squared - 2.0 * share * self.given_wrong
            + share * share * self.given_squared;
        Some((squares / (self.given * share * (1.0 - share))).max(1.0))
    }

    /// The same; without a wrong label that of all answers, but at most as if all labels of a cluster were right or wrong
    /// together.
    fn design_effect(&self, of_all: Option<f64>) -> f64 {
        let together = self.given_squared / self.given;
        let unknown = || of_all.map_or(together, |effect| effect.min(together));
        self.known_design_effect().unwrap_or_else(unknown)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    fn upper_bound(&self, of_all: Option<f64>, risk: f64) -> f64 {
        let effect = self.design_effect(of_all);
        upper_bound((self.wrong / effect).ceil() as u64, (self.given / effect).floor() as u64, risk)
    }
}

/// The upper end of the one-sided interval of Clopper and Pearson (1934) of a share, of which `count` of
/// `of` were seen: the share at which so few would be seen with the probability `risk`.
fn upper_bound(count: u64, of: u64, risk: f64) -> f64 {
    if count >= of {
        return 1.0;
    }
    let (mut low, mut high) = (count as f64 / of as f64, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(count, of, middle) > risk { low = middle } else { high = middle }
    }
    high
}

/// The probability of at most `count` of `of` successes, each with this probability, which is above
/// `count / of`: the terms fall from the last one on.
fn at_most(count: u64, of: u64, probability: f64) -> f64 {
    let (n, k) = (of as f64, count as f64);
    let ways = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let ln = k * libm::log(probability) + (n - k) * libm::log1p(-probability);
    let mut term = libm::exp(ways + ln);
    let mut sum = term;
    for successes in (1..=count).rev() {
        let k = successes as f64;
        term *= k / (n - k + 1.0) * (1.0 - probability) / probability;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.beta.ppf(0.98, count + 1, of - count)`.
    #[test]
    fn bounds_of_clopper_and_pearson() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        close(upper_bound(0, 10, RISK), 1.0 - libm::pow(RISK, 0.1));
        close(upper_bound(10, 10, RISK), 1.0);
        close(upper_bound(0, 1_000_000, RISK), -libm::expm1(libm::log(RISK) / 1e6));
        // One of two: 1 - p² = .98.
        close(upper_bound(1, 2, RISK), libm::sqrt(1.0 - RISK));
    }

    /// Answers of one label, each a cluster of its own.
    fn answers(count: u64, confidence: f64, right: u32) -> Vec<Answer> {
        (0..count).map(|cluster| Answer { confidence, given: 1, right, cluster }).collect()
    }

    #[test]
    fn targets_out_of_reach() {
        let wrong = answers(100, 0.9, 0);
        let limit = ConfidenceLimit::learn(0.05, &wrong);
        assert!(!limit.reaches_target() && limit.error > 0.99, "{limit:?}");
        assert_eq!(limit.confidence, None);
        let none = ConfidenceLimit::learn(0.05, &[]);
        assert!(!none.reaches_target() && none.coverage <= 0.0);
        let unanswered = [Answer { confidence: 0.0, given: 0, right: 0, cluster: 0 }];
        assert!(ConfidenceLimit::learn(0.05, &unanswered).coverage <= 0.0);
        // A few right answers show nothing.
        let few = answers(20, 0.9, 1);
        assert!(!ConfidenceLimit::learn(0.05, &few).reaches_target());
        let many = answers(200, 0.9, 1);
        let limit = ConfidenceLimit::learn(0.05, &many);
        assert!(limit.reaches_target() && limit.coverage >= 1.0, "{limit:?}");
    }

    /// An error of the target's size everywhere is hardly ever taken for a smaller one.
    #[test]
    fn bounds_hold_for_new_answers() {
        let mut random = crate::random::Random::new(1);
        let mut draw = |count: u32| -> Vec<Answer> {
            (0..count)
                .map(|cluster| {
                    let right = u32::from(random.unit() < 0.8999);
                    Answer { confidence: random.unit(), given: 1, right, cluster: cluster.into() }
                })
                .collect()
        };
        let reached =
            (0..300).filter(|_| ConfidenceLimit::learn(0.1, &draw(2_000)).reaches_target());
        // 6 are to be expected, with a standard error of 2.4.
        let reached = reached.count();
        assert!(reached <= 13, "{reached} of 300");
    }

    /// The same if the eight labels of a document are right or wrong together: they count as one.
    #[test]
    fn labels_of_a_document_count_together() {
        let mut random = crate::random::Random::new(2);
        let mut draw = |count: u32| -> Vec<Answer> {
            (0..count)
                .map(|cluster| {
                    let right = if random.unit() < 0.8999 { 8 } else { 0 };
                    Answer { confidence: random.unit(), given: 8, right, cluster: cluster.into() }
                })
                .collect()
        };
        let reached =
            (0..300).filter(|_| ConfidenceLimit::learn(0.1, &draw(2_000)).reaches_target());
        let reached = reached.count();
        assert!(reached <= 13, "{reached} of 300");
        let mut sums = Sums::default();
        for answer in &draw(2_000) {
            sums.add(answer);
        }
        assert!((sums.design_effect(None) - 8.0).abs() < 1e-9);
        let one = Answer { confidence: 1.0, given: 1, right: 1, cluster: 1 };
        let mut sums = Sums::default();
        for answer in [one, Answer { right: 0, cluster: 2, ..one }] {
            sums.add(&answer);
        }
        assert!((sums.design_effect(None) - 1.0).abs() < 1e-12);
    }

    /// Eight near-duplicates that are right or wrong together count as one document.
    #[test]
    fn near_duplicates_count_together() {
        let mut random = crate::random::Random::new(3);
        let mut draw = |clusters: u64| -> Vec<Answer> {
            (0..clusters)
                .flat_map(|cluster| {
                    let right = u32::from(random.unit() < 0.8999);
                    let confidence = random.unit();
                    [Answer { confidence, given: 1, right, cluster }; 8]
                })
                .collect()
        };
        let reached = (0..300).filter(|_| ConfidenceLimit::learn(0.1, &draw(250)).reaches_target());
        let reached = reached.count();
        assert!(reached <= 13, "{reached} of 300");
        let mut sums = Sums::default();
        for answer in &draw(250) {
            sums.add(answer);
        }
        assert!((sums.design_effect(None) - 8.0).abs() < 1e-9);
    }

    /// Where nothing is wrong yet, the design effect of all answers counts, but never more than the clusters' sizes.
    #[test]
    fn nothing_wrong_in_clusters() {
        let mut sums = Sums::default();
        for at in 0..80 {
            sums.add(&Answer { confidence: 1.0, given: 1, right: 1, cluster: at / 4 });
        }
        let effects = [None, Some(1.5), Some(9.0)].map(|of_all| sums.design_effect(of_all));
        for (effect, expected) in effects.into_iter().zip([4.0, 1.5, 4.0]) {
            assert!((effect - expected).abs() < 1e-12, "{effect}");
        }
    }
}
