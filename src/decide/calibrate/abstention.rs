//! The confidence below which a model abstains, learned so that the error of its answers is
//! bounded.
//!
//! Limits are tested in a fixed sequence (Angelopoulos et al. 2021) with the interval of Clopper
//! and Pearson (1934). The design effect accounts for clusters of answers (Korn and Graubard 1998).

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

/// The minimum confidence of an answer, with a bound on the share of wrong labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceLimit {
    /// The target share of wrong labels among the predicted labels.
    pub target_error: f64,
    /// The minimum confidence; `None` if the target cannot be reached. The model then always
    /// abstains.
    pub confidence: Option<f64>,
    /// The share of held-out documents that received labels. If the target cannot be reached, the
    /// share of documents at or above the highest limit tested.
    pub coverage: f64,
    /// The share of wrong labels among the labels of these documents.
    pub error: f64,
    /// The upper end of a one-sided 98 % confidence interval for this share. If new documents
    /// resemble these, the model's true error is below the bound for 98 % of samples of training
    /// documents.
    pub error_bound: f64,
}

/// An answer for a held-out document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The confidence in the answer.
    pub confidence: f64,
    /// Number of labels given.
    pub given: u32,
    /// Number of correct labels among them.
    pub right: u32,
    /// The cluster of the document, for example of its near-duplicates. The answers of a cluster
    /// tend to be right or wrong together.
    pub cluster: u64,
}

/// The probability that a bound does not hold.
const RISK: f64 = 0.02;
/// Maximum number of limits tested in sequence.
const MAX_TESTS: usize = 50;

impl ConfidenceLimit {
    /// Learns the lowest limit whose share of wrong labels is shown to be at most the target.
    ///
    /// Limits are tested from high to low, each by the upper end of its Clopper–Pearson interval,
    /// until one fails. In such a fixed sequence, all tests together err no more often than a
    /// single test. Labels of a document or a cluster tend to be right or wrong together, so they
    /// carry less information than independent labels. To account for this, counts are divided by
    /// the design effect. If no limit passes, the model always abstains, and coverage and error
    /// refer to the highest limit.
    ///
    /// ```
    /// use classify::decide::calibrate::{Answer, ConfidenceLimit};
    ///
    /// // Every answer with a confidence below a half is wrong.
    /// let answers: Vec<Answer> = (0..2_000u32)
    ///     .map(|index| {
    ///         let confidence = f64::from(index) / 2_000.0;
    ///         let right = u32::from(confidence >= 0.5);
    ///         Answer { confidence, given: 1, right, cluster: index.into() }
    ///     })
    ///     .collect();
    /// let limit = ConfidenceLimit::learn(0.05, &answers);
    /// let confidence = limit.confidence.unwrap();
    /// assert!(confidence > 0.45 && confidence < 0.52);
    /// assert!(limit.error <= limit.error_bound && limit.error_bound <= 0.05);
    /// ```
    pub fn learn(target_error: f64, answers: &[Answer]) -> Self {
        Self::learn_at_risk(target_error, answers, RISK)
    }

    /// Learns one of two limits, which together fail no more often than a single limit from
    /// [`learn`](Self::learn).
    pub(crate) fn one_of_two(target_error: f64, answers: &[Answer]) -> Self {
        Self::learn_at_risk(target_error, answers, RISK / 2.0)
    }

    fn learn_at_risk(target_error: f64, answers: &[Answer], risk: f64) -> Self {
        let mut answered: Vec<&Answer> = answers.iter().filter(|answer| answer.given > 0).collect();
        answered.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        // Fewer correct answers are not enough evidence, even if there are no errors.
        let min_right = libm::log(risk) / libm::log1p(-target_error.clamp(1e-9, 0.999));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let first = (2.0 * min_right) as usize;
        let first = first.max(answered.len() / 20).clamp(1, answered.len().max(1));
        let ends = (0..=MAX_TESTS)
            .map(|test| first + (answered.len() - first.min(answered.len())) * test / MAX_TESTS);
        let none =
            Self { target_error, confidence: None, coverage: 0.0, error: 0.0, error_bound: 1.0 };
        let mut best = none;
        let mut all = Sums::default();
        for answer in &answered {
            all.add(answer);
        }
        let overall_effect = all.known_design_effect();
        let mut taken = 0;
        let mut sums = Sums::default();
        for end in ends {
            let Some(&last) = answered.get(end.wrapping_sub(1)) else { break };
            // Answers with equal confidence are always added together.
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
                error_bound: sums.upper_bound(overall_effect, risk),
            };
            if found.error_bound > target_error {
                let is_first = best.confidence.is_none();
                return if is_first { Self { confidence: None, ..found } } else { best };
            }
            best = found;
        }
        best
    }

    /// Whether the target error can be reached by abstaining.
    pub fn reaches_target(&self) -> bool {
        self.confidence.is_some()
    }

    /// Checks the values. The error names the first problem.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let is_valid = is_share(self.target_error)
            && self.confidence.is_none_or(is_share)
            && is_share(self.error_bound);
        if is_valid {
            Ok(())
        } else {
            Err("a value of the abstention limit is not between 0 and 1")
        }
    }
}

/// The label counts of a cluster of answers: all labels, and wrong labels.
#[derive(Debug, Clone, Copy, Default)]
struct ClusterLabels {
    given: f64,
    wrong: f64,
}

/// Sums over clusters of answers: the numbers of labels and of wrong labels, and their squares and
/// products.
#[derive(Debug, Clone, Default)]
struct Sums {
    /// The labels of each cluster.
    clusters: HashMap<u64, ClusterLabels, FixedState>,
    given: f64,
    wrong: f64,
    given_squared: f64,
    wrong_squared: f64,
    given_wrong: f64,
}

impl Sums {
    fn add(&mut self, answer: &Answer) {
        let given = f64::from(answer.given);
        let wrong = f64::from(answer.given - answer.right);
        self.given += given;
        self.wrong += wrong;
        let cluster = self.clusters.entry(answer.cluster).or_default();
        let before = *cluster;
        cluster.given += given;
        cluster.wrong += wrong;
        self.given_squared += cluster.given * cluster.given - before.given * before.given;
        self.wrong_squared += cluster.wrong * cluster.wrong - before.wrong * before.wrong;
        self.given_wrong += cluster.given * cluster.wrong - before.given * before.wrong;
    }

    /// Returns the variance of the share of wrong labels, relative to its variance for independent
    /// labels; at least 1. Returns `None` if no label is wrong, because the variance cannot be
    /// estimated then.
    fn known_design_effect(&self) -> Option<f64> {
        let share = self.wrong / self.given;
        // If every cluster has at most one label, labels are independent.
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

    /// Returns the design effect. If no label is wrong, it is `overall`, but at most the design
    /// effect of clusters whose labels are all right or all wrong.
    fn design_effect(&self, overall: Option<f64>) -> f64 {
        let max_effect = self.given_squared / self.given;
        let unknown = || overall.map_or(max_effect, |effect| effect.min(max_effect));
        self.known_design_effect().unwrap_or_else(unknown)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    fn upper_bound(&self, overall: Option<f64>, risk: f64) -> f64 {
        let effect = self.design_effect(overall);
        upper_bound((self.wrong / effect).ceil() as u64, (self.given / effect).floor() as u64, risk)
    }
}

/// Returns the upper end of the one-sided Clopper–Pearson interval of a share, after `count`
/// successes in `trials` trials. For this share, the probability of at most `count` successes is
/// `risk`.
fn upper_bound(count: u64, trials: u64, risk: f64) -> f64 {
    if count >= trials {
        return 1.0;
    }
    let mut low = count as f64 / trials as f64;
    let mut high = 1.0;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if binomial_tail(count, trials, middle) > risk { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability of at most `count` successes in `trials` trials with success probability
/// `probability`. `probability` must be above `count / trials`, so that the terms decrease from the
/// last to the first.
fn binomial_tail(count: u64, trials: u64, probability: f64) -> f64 {
    let n = trials as f64;
    let k = count as f64;
    let ln_ways = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let ln_probability = k * libm::log(probability) + (n - k) * libm::log1p(-probability);
    let mut term = libm::exp(ln_ways + ln_probability);
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

    /// The expected values are `scipy.stats.beta.ppf(0.98, count + 1, trials - count)`.
    #[test]
    fn upper_bounds_match_scipy() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        close(upper_bound(0, 10, RISK), 1.0 - libm::pow(RISK, 0.1));
        close(upper_bound(10, 10, RISK), 1.0);
        close(upper_bound(0, 1_000_000, RISK), -libm::expm1(libm::log(RISK) / 1e6));
        // One success in two trials: 1 - p² = 0.02.
        close(upper_bound(1, 2, RISK), libm::sqrt(1.0 - RISK));
    }

    /// Returns answers with one label each. Every answer is a cluster of its own.
    fn answers(count: u64, confidence: f64, right: u32) -> Vec<Answer> {
        (0..count).map(|cluster| Answer { confidence, given: 1, right, cluster }).collect()
    }

    #[test]
    fn unreachable_targets_always_abstain() {
        let wrong = answers(100, 0.9, 0);
        let limit = ConfidenceLimit::learn(0.05, &wrong);
        assert!(!limit.reaches_target() && limit.error > 0.99, "{limit:?}");
        assert_eq!(limit.confidence, None);
        let none = ConfidenceLimit::learn(0.05, &[]);
        assert!(!none.reaches_target() && none.coverage <= 0.0);
        let unanswered = [Answer { confidence: 0.0, given: 0, right: 0, cluster: 0 }];
        assert!(ConfidenceLimit::learn(0.05, &unanswered).coverage <= 0.0);
        // A few correct answers are not enough evidence.
        let few = answers(20, 0.9, 1);
        assert!(!ConfidenceLimit::learn(0.05, &few).reaches_target());
        let many = answers(200, 0.9, 1);
        let limit = ConfidenceLimit::learn(0.05, &many);
        assert!(limit.reaches_target() && limit.coverage >= 1.0, "{limit:?}");
    }

    /// If the true error exceeds the target, a limit is rarely accepted.
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
        // The expected number is 6, with a standard error of 2.4.
        let reached = reached.count();
        assert!(reached <= 13, "{reached} of 300");
    }

    /// The eight labels of a document are right or wrong together and count as one.
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

    /// Without a wrong label, the overall design effect is used, but at most the size of the
    /// clusters.
    #[test]
    fn clusters_without_errors_use_the_overall_design_effect() {
        let mut sums = Sums::default();
        for index in 0..80 {
            sums.add(&Answer { confidence: 1.0, given: 1, right: 1, cluster: index / 4 });
        }
        let effects = [None, Some(1.5), Some(9.0)].map(|overall| sums.design_effect(overall));
        for (effect, expected) in effects.into_iter().zip([4.0, 1.5, 4.0]) {
            assert!((effect - expected).abs() < 1e-12, "{effect}");
        }
    }
}
