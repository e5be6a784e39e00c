//! The decisions on all documents, their metrics, and bootstrap confidence intervals.
//!
//! A bootstrap replicate draws as many documents as there are, with replacement. Micro F1 and
//! accuracy have percentile intervals (Efron and Tibshirani 1993, chapter 13).
//!
//! Macro F1 is the mean over a fixed set of labels, in the estimate and in every replicate. A label
//! whose documents are not drawn contributes 0. A label with a single document is missing from a
//! share e⁻¹ of the replicates, so the mean of the replicates lies below the estimate. This bias
//! (the mean of the replicates minus the estimate) is subtracted from the percentiles (chapter 10
//! of the same book). Without the correction, intervals for corpora with many rare labels would not
//! even contain the estimate.
//!
//! With fewer than ten right or ten wrong documents, the replicates vary too little. Without a
//! wrong document, they do not vary at all. The intervals are then extended to the Wilson interval
//! of the metric (Wilson 1927), as if it were a share of the documents.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Precision, recall and F1 score.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Prf {
    /// The share of correct labels among the predicted labels.
    pub precision: f64,
    /// The share of the correct labels that were predicted.
    pub recall: f64,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
}

impl Prf {
    pub(crate) fn of(tp: u64, fp: u64, missed: u64) -> Self {
        Self {
            precision: ratio(tp, tp + fp),
            recall: ratio(tp, tp + missed),
            f1: ratio(2 * tp, 2 * tp + fp + missed),
        }
    }

    pub(crate) fn add(&mut self, other: Self, weight: f64) {
        self.precision += weight * other.precision;
        self.recall += weight * other.recall;
        self.f1 += weight * other.f1;
    }

    pub(crate) fn divided(self, divisor: f64) -> Self {
        let quotient = |sum: f64| if divisor > 0.0 { sum / divisor } else { 0.0 };
        Self {
            precision: quotient(self.precision),
            recall: quotient(self.recall),
            f1: quotient(self.f1),
        }
    }
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Maximum number of labels in a set for which a linear search is faster than a binary search.
const MAX_LINEAR_SEARCH: usize = 8;

/// The labels of a document, sorted and without duplicates.
#[derive(Debug, Clone, Default)]
pub(crate) struct LabelSet(Vec<u32>);

impl LabelSet {
    pub(crate) fn new(labels: impl Into<Vec<u32>>) -> Self {
        let mut labels = labels.into();
        labels.sort_unstable();
        labels.dedup();
        Self(labels)
    }

    pub(crate) fn contains(&self, label: u32) -> bool {
        match self.len() {
            0..=MAX_LINEAR_SEARCH => self.0.contains(&label),
            _ => self.0.binary_search(&label).is_ok(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the labels in increasing order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// Returns the labels that are not in `other`.
    pub(crate) fn without(&self, other: &Self) -> impl Iterator<Item = u32> {
        self.iter().filter(|&label| !other.contains(label))
    }
}

/// The decisions on all documents: the right, wrong and missed labels of each document.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// The end of each document's decisions in `decisions`.
    ends: Vec<usize>,
    /// The decisions, each stored as `4 · label + kind`.
    decisions: Vec<u32>,
}

/// The kind of a decision: whether a label was predicted, and whether it should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Predicted, and one of the document's labels.
    Right,
    /// Predicted, but not one of the document's labels.
    Wrong,
    /// One of the document's labels, but not predicted.
    Missed,
}

const KINDS: [Kind; 3] = [Kind::Right, Kind::Wrong, Kind::Missed];

impl Outcomes {
    /// Adds a document with its correct and its predicted labels. Duplicate labels count once.
    ///
    /// # Panics
    /// Panics if a label is 2³⁰ or above.
    pub fn push(&mut self, expected: &[u32], predicted: &[u32]) {
        self.push_sets(&LabelSet::new(expected), &LabelSet::new(predicted));
    }

    pub(crate) fn push_sets(&mut self, expected: &LabelSet, predicted: &LabelSet) {
        let entry = |label: u32, kind: Kind| {
            assert!(label < 1 << 30, "fewer than 2^30 labels");
            label << 2 | kind as u32
        };
        for label in predicted.iter() {
            let kind = if expected.contains(label) { Kind::Right } else { Kind::Wrong };
            self.decisions.push(entry(label, kind));
        }
        let missed = expected.without(predicted);
        self.decisions.extend(missed.map(|label| entry(label, Kind::Missed)));
        self.ends.push(self.decisions.len());
    }

    /// Appends the decisions of other outcomes.
    pub(crate) fn append(&mut self, other: &Self) {
        let start = self.decisions.len();
        self.decisions.extend_from_slice(&other.decisions);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the decisions on a document.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn of(&self, document: usize) -> impl Iterator<Item = (u32, Kind)> {
        let start = document.checked_sub(1).map_or(0, |before| self.ends[before]);
        let decisions = &self.decisions[start..self.ends[document]];
        decisions.iter().map(|&entry| (entry >> 2, KINDS[(entry & 3) as usize]))
    }

    /// Whether the predicted labels of a document are exactly its correct labels.
    pub fn is_exact(&self, document: usize) -> bool {
        self.of(document).all(|(_, kind)| kind == Kind::Right)
    }

    /// Returns the headline metrics of the given documents. Macro F1 is the mean over the first
    /// `labels` labels, whether documents have them or not. Labels with higher numbers affect only
    /// micro F1.
    pub fn metrics(
        &self,
        documents: impl Iterator<Item = usize>,
        labels: usize,
    ) -> HeadlineMetrics {
        self.weighted(documents.map(|document| (document, 1)), labels)
    }

    /// Returns the headline metrics, counting each document as often as it was drawn.
    fn weighted(
        &self,
        documents: impl Iterator<Item = (usize, u64)>,
        labels: usize,
    ) -> HeadlineMetrics {
        let mut tallies = vec![[0u64; 3]; labels];
        let mut sum = [0u64; 3];
        let mut exact = 0;
        let mut count = 0;
        for (document, times) in documents {
            let mut all_right = true;
            for (label, kind) in self.of(document) {
                all_right &= kind == Kind::Right;
                sum[kind as usize] += times;
                if let Some(tally) = tallies.get_mut(label as usize) {
                    tally[kind as usize] += times;
                }
            }
            exact += if all_right { times } else { 0 };
            count += times;
        }
        let f1 = |[tp, fp, missed]: [u64; 3]| Prf::of(tp, fp, missed).f1;
        HeadlineMetrics {
            micro_f1: f1(sum),
            macro_f1: tallies.into_iter().map(f1).sum::<f64>() / labels.max(1) as f64,
            accuracy: ratio(exact, count),
        }
    }

    /// Returns 95 % confidence intervals of the headline metrics, with macro F1 over the first
    /// `labels` labels. Returns `None` if there are no documents. The same seed gives the same
    /// intervals for any number of threads.
    pub fn intervals(&self, labels: usize, seed: u64) -> Option<Intervals> {
        let replicates = replicate_count(self.decisions.len());
        if self.is_empty() {
            return None;
        }
        let patterns = Patterns::of(self);
        let estimate = self.metrics(0..self.len(), labels);
        let exact = (0..self.len()).filter(|&document| self.is_exact(document)).count();
        let has_enough_of_both = exact.min(self.len() - exact) >= MIN_FOR_BOOTSTRAP;
        let metrics = (0..replicates)
            .into_par_iter()
            .map_init(DrawCounts::default, |drawn, replicate| {
                let times = patterns.count(draws(self.len(), seed, replicate), drawn);
                patterns.distinct.weighted(times, labels)
            })
            .collect::<Vec<HeadlineMetrics>>();
        let interval = |metric: fn(&HeadlineMetrics) -> f64, correction: Correction| {
            let values = metrics.iter().map(metric);
            let drawn = Replicates::new(metric(&estimate), values, correction);
            let [low, high] = drawn.interval().map(|end| end.clamp(0.0, 1.0));
            if has_enough_of_both {
                return [low, high];
            }
            let [lowest, highest] = wilson(metric(&estimate), self.len() as f64);
            [low.min(lowest), high.max(highest)]
        };
        Some(Intervals {
            level: LEVEL,
            replicates,
            seed,
            micro_f1: interval(|metrics| metrics.micro_f1, Correction::None),
            macro_f1: interval(|metrics| metrics.macro_f1, Correction::Bias),
            accuracy: interval(|metrics| metrics.accuracy, Correction::None),
        })
    }
}

/// Minimum number of documents with exactly the right labels, and of other documents, for which
/// resampling alone determines the intervals.
const MIN_FOR_BOOTSTRAP: usize = 10;
/// The quantile of the standard normal distribution for [`LEVEL`].
const Z: f64 = 1.959_964;

/// Returns the 95 % Wilson interval of a share of `total` (above 0).
pub(crate) fn wilson(share: f64, total: f64) -> [f64; 2] {
    let center = share + Z * Z / (2.0 * total);
    let half = Z * libm::sqrt(share * (1.0 - share) / total + Z * Z / (4.0 * total * total));
    let scale = 1.0 + Z * Z / total;
    [(center - half) / scale, (center + half) / scale].map(|bound| bound.clamp(0.0, 1.0))
}

/// Number of hash partitions that are searched for patterns concurrently.
const HASH_PARTITIONS: u64 = 16;

/// Groups of documents with the same decisions, called patterns. A replicate counts how often each
/// pattern is drawn and reads its decisions once.
#[derive(Debug)]
struct Patterns {
    /// The pattern of each document.
    of_document: Vec<u32>,
    /// The decisions of each pattern.
    distinct: Outcomes,
}

/// The number of draws of each document and pattern. The memory is reused.
#[derive(Debug, Default)]
struct DrawCounts {
    /// Draws per document, in small integers that stay in a fast cache.
    documents: Vec<u8>,
    patterns: Vec<u32>,
}

impl Patterns {
    fn of(outcomes: &Outcomes) -> Self {
        let decisions = |document: u32| {
            let document = document as usize;
            let start = document.checked_sub(1).map_or(0, |before| outcomes.ends[before]);
            &outcomes.decisions[start..outcomes.ends[document]]
        };
        let state = FixedState::default();
        let documents = 0..narrow(outcomes.len());
        let hashes: Vec<u64> =
            documents.into_par_iter().map(|document| state.hash_one(decisions(document))).collect();
        // Returns the first document of each pattern in a hash partition, and the pattern of each
        // document.
        let find_patterns = |partition: u64| {
            let mut found: HashTable<(u64, u32)> = HashTable::new();
            let mut firsts = Vec::new();
            let mut patterns = Vec::new();
            for (document, &hash) in (0u32..).zip(&hashes) {
                if (hash >> 32) % HASH_PARTITIONS != partition {
                    continue;
                }
                let is_same = |&(other, pattern): &(u64, u32)| {
                    other == hash && decisions(firsts[pattern as usize]) == decisions(document)
                };
                let next = narrow(firsts.len());
                let entry = found.entry(hash, is_same, |&(hash, _)| hash).or_insert((hash, next));
                let pattern = entry.get().1;
                if pattern == next {
                    firsts.push(document);
                }
                patterns.push((document, pattern));
            }
            (firsts, patterns)
        };
        let partitions: Vec<_> = (0..HASH_PARTITIONS).into_par_iter().map(find_patterns).collect();
        let mut counts: Vec<(u32, u32)> = Vec::new();
        let mut of_document = vec![0; outcomes.len()];
        for (firsts, patterns) in partitions {
            let before = narrow(counts.len());
            counts.extend(firsts.into_iter().map(|first| (0, first)));
            for (document, pattern) in patterns {
                of_document[document as usize] = before + pattern;
                counts[(before + pattern) as usize].0 += 1;
            }
        }
        // The most frequent patterns come first, so that their counters stay in the fastest cache.
        let mut order: Vec<u32> = (0u32..).take(counts.len()).collect();
        order.par_sort_unstable_by_key(|&pattern| {
            let (count, first) = counts[pattern as usize];
            (std::cmp::Reverse(count), first)
        });
        let mut numbers = vec![0; order.len()];
        for (new, &pattern) in (0u32..).zip(&order) {
            numbers[pattern as usize] = new;
        }
        of_document.par_iter_mut().for_each(|pattern| *pattern = numbers[*pattern as usize]);
        let mut distinct = Outcomes::default();
        for &pattern in &order {
            distinct.decisions.extend_from_slice(decisions(counts[pattern as usize].1));
            distinct.ends.push(distinct.decisions.len());
        }
        Self { of_document, distinct }
    }

    /// Returns the patterns that occur in `documents` and how often.
    fn count(
        &self,
        documents: impl Iterator<Item = usize>,
        drawn: &mut DrawCounts,
    ) -> impl Iterator<Item = (usize, u64)> {
        drawn.documents.clear();
        drawn.documents.resize(self.of_document.len(), 0);
        drawn.patterns.clear();
        drawn.patterns.resize(self.distinct.len(), 0);
        for document in documents {
            let times = &mut drawn.documents[document];
            *times = times.wrapping_add(1);
            if *times == 0 {
                drawn.patterns[self.of_document[document] as usize] += 1 << u8::BITS;
            }
        }
        for (&pattern, &times) in self.of_document.iter().zip(&drawn.documents) {
            drawn.patterns[pattern as usize] += u32::from(times);
        }
        let times = drawn.patterns.iter().map(|&times| u64::from(times));
        times.enumerate().filter(|&(_, times)| times > 0)
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 documents")
}

/// Micro F1, macro F1 and accuracy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadlineMetrics {
    /// F1 over all decisions.
    pub micro_f1: f64,
    /// The mean F1 over labels.
    pub macro_f1: f64,
    /// The share of documents whose predicted labels are exactly their correct labels.
    pub accuracy: f64,
}

/// Confidence intervals of the headline metrics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// The confidence level.
    pub level: f64,
    /// Number of replicates.
    pub replicates: u64,
    /// The seed of the draws.
    pub seed: u64,
    /// The lower and upper ends of the interval for micro F1.
    pub micro_f1: [f64; 2],
    /// The lower and upper ends of the interval for macro F1 over the training labels.
    pub macro_f1: [f64; 2],
    /// The lower and upper ends of the interval for accuracy.
    pub accuracy: [f64; 2],
}

const LEVEL: f64 = 0.95;

/// The correction of the bias of replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Correction {
    /// No correction, for metrics that replicates estimate with little bias.
    None,
    /// Subtraction of the bias, for metrics that are too low if a replicate lacks labels.
    Bias,
}

/// A metric and its values in the replicates.
#[derive(Debug, Clone)]
pub(crate) struct Replicates {
    estimate: f64,
    values: Vec<f64>,
    /// The mean of the values minus the estimate; 0 if the bias is not corrected.
    bias: f64,
}

impl Replicates {
    pub(crate) fn new(
        estimate: f64,
        values: impl Iterator<Item = f64>,
        correction: Correction,
    ) -> Self {
        let values: Vec<f64> = values.collect();
        let bias = match correction {
            Correction::None => 0.0,
            // Use the mean of differences rather than the difference of means, because it is
            // exactly 0 if all values equal the estimate.
            Correction::Bias => {
                values.iter().map(|value| value - estimate).sum::<f64>()
                    / values.len().max(1) as f64
            }
        };
        Self { estimate, values, bias }
    }

    /// Returns the 95 % confidence interval. It always contains the estimate.
    pub(crate) fn interval(&self) -> [f64; 2] {
        if self.values.is_empty() {
            return [self.estimate; 2];
        }
        let [low, high] = central_interval(self.values.clone());
        [(low - self.bias).min(self.estimate), (high - self.bias).max(self.estimate)]
    }

    /// Returns the two-sided p-value of the hypothesis that the metric is 0. A replicate of exactly
    /// 0 contains none of the documents that make a difference, so it counts for both sides.
    pub(crate) fn p_value(&self) -> f64 {
        let count = |beyond: fn(f64) -> bool| {
            let values = self.values.iter();
            values.filter(|&&value| value == 0.0 || beyond(value - self.bias)).count() as f64
        };
        let tail = count(|value| value <= 0.0).min(count(|value| value >= 0.0));
        (2.0 * (tail + 1.0) / (self.values.len() as f64 + 1.0)).min(1.0)
    }
}

/// Returns the number of replicates for this number of decisions: 1,000, or fewer if they would
/// take too long.
pub(crate) fn replicate_count(decisions: usize) -> u64 {
    (400_000_000 / decisions.max(1) as u64).clamp(200, 1_000)
}

/// Draws the documents of a replicate: `count` draws with replacement from `count` documents.
pub(crate) fn draws(count: usize, seed: u64, replicate: u64) -> impl Iterator<Item = usize> {
    let mut random = Random::stream(seed, replicate);
    (0..count).map(move |_| random.below(count))
}

/// Returns the ends of the middle 95 % of the values, interpolated linearly like numpy's
/// `quantile`.
fn central_interval(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let position = share * (values.len() - 1) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position in the list"
        )]
        let below = position as usize;
        let above = values[(below + 1).min(values.len() - 1)];
        values[below] + (position - below as f64) * (above - values[below])
    };
    [quantile((1.0 - LEVEL) / 2.0), quantile(f64::midpoint(1.0, LEVEL))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers 0 to 1,000 have the numpy quantiles 25 and 975. For two values, the quantiles
    /// lie 2.5 % and 97.5 % of the way between them.
    #[test]
    fn central_intervals_match_numpy() {
        let [low, high] = central_interval((0..=1_000).rev().map(f64::from).collect());
        assert!((low - 25.0).abs() < 1e-9 && (high - 975.0).abs() < 1e-9);
        let [low, high] = central_interval(vec![1.0, 0.0]);
        assert!((low - 0.025).abs() < 1e-12 && (high - 0.975).abs() < 1e-12);
    }

    /// 300 of 400 documents are right, so the standard error is √(¾ · ¼ / 400) = 0.02165.
    #[test]
    fn intervals_match_the_standard_error_of_a_share() {
        let mut outcomes = Outcomes::default();
        for document in 0..400u32 {
            let given = u32::from(document % 4 == 0);
            outcomes.push(&[0], &[given]);
        }
        let intervals = outcomes.intervals(2, 7).unwrap();
        let [low, high] = intervals.accuracy;
        assert!((low - (0.75 - 1.96 * 0.02165)).abs() < 0.006, "{low}");
        assert!((high - (0.75 + 1.96 * 0.02165)).abs() < 0.006, "{high}");
        // With one label per document, micro F1 equals accuracy.
        assert_eq!(intervals.micro_f1.map(f64::to_bits), intervals.accuracy.map(f64::to_bits));
        assert_eq!(outcomes.intervals(2, 7).unwrap(), intervals);
        assert_ne!(outcomes.intervals(2, 8).unwrap(), intervals);
    }

    /// Wilson's interval of 20 of 20 begins at 20 / (20 + 1.96²).
    #[test]
    fn intervals_without_errors_have_a_width() {
        let mut outcomes = Outcomes::default();
        (0..20).for_each(|_| outcomes.push(&[0], &[0]));
        let intervals = outcomes.intervals(1, 0).unwrap();
        for [low, high] in [intervals.accuracy, intervals.micro_f1, intervals.macro_f1] {
            assert!((low - 20.0 / (20.0 + Z * Z)).abs() < 1e-12, "{low}");
            assert!((high - 1.0).abs() < 1e-12, "{high}");
        }
    }

    #[test]
    fn decisions_can_be_read_back() {
        let mut outcomes = Outcomes::default();
        outcomes.push(&[3, 5], &[5, 9]);
        outcomes.push(&[], &[]);
        let first: Vec<_> = outcomes.of(0).collect();
        assert_eq!(first, [(5, Kind::Right), (9, Kind::Wrong), (3, Kind::Missed)]);
        assert!(!outcomes.is_exact(0) && outcomes.is_exact(1));
        let metrics = outcomes.metrics(0..2, 6);
        assert!((metrics.micro_f1 - 0.5).abs() < 1e-12 && (metrics.accuracy - 0.5).abs() < 1e-12);
        assert!((metrics.macro_f1 - 1.0 / 6.0).abs() < 1e-12);
    }

    /// Replicates computed from pattern counts have the metrics of the drawn documents.
    #[test]
    fn patterns_count_like_documents() {
        let mut random = Random::new(11);
        let mut outcomes = Outcomes::default();
        for _ in 0..500 {
            let mut labels = || -> Vec<u32> { (0..4).filter(|_| random.below(3) == 0).collect() };
            outcomes.push(&labels(), &labels());
        }
        let patterns = Patterns::of(&outcomes);
        assert!(patterns.distinct.len() < 256);
        let mut memory = DrawCounts::default();
        for replicate in 0..20 {
            let drawn = || draws(outcomes.len(), 3, replicate);
            let counted = patterns.distinct.weighted(patterns.count(drawn(), &mut memory), 3);
            assert_eq!(counted, outcomes.metrics(drawn(), 3));
        }
        // Some documents occur far more often than others.
        for count in [255, 256, 257, 1_000] {
            let drawn = || (0..count).map(|_| 7).chain([3, 3, 499]);
            let mut times = vec![0; patterns.distinct.len()];
            drawn().for_each(|document| times[patterns.of_document[document] as usize] += 1);
            let expected = times.into_iter().enumerate().filter(|&(_, times)| times > 0);
            assert!(patterns.count(drawn(), &mut memory).eq(expected), "{count}");
        }
    }

    #[test]
    fn no_documents_have_no_intervals() {
        assert_eq!(Outcomes::default().intervals(3, 0), None);
    }

    #[test]
    fn missed_labels_make_documents_inexact() {
        let mut outcomes = Outcomes::default();
        outcomes.push(&[0, 1], &[0]);
        outcomes.push(&[1], &[1]);
        let metrics = outcomes.metrics(0..2, 2);
        assert!((metrics.accuracy - 0.5).abs() < 1e-12);
        assert!(!outcomes.is_exact(0) && outcomes.is_exact(1));
    }

    #[test]
    #[should_panic = "fewer than 2^30 labels"]
    fn labels_above_the_limit_panic() {
        Outcomes::default().push(&[1 << 30], &[]);
    }

    /// The bias of replicates that lack labels would put the upper end above 1.
    #[test]
    fn intervals_end_at_one() {
        let mut outcomes = Outcomes::default();
        (0..20).for_each(|label| outcomes.push(&[label], &[label]));
        let [low, high] = outcomes.intervals(20, 0).unwrap().macro_f1;
        assert!(low < 1.0 && (1.0..=1.0).contains(&high), "{low} {high}");
    }

    fn replicates_of(estimate: f64, values: &[f64], correction: Correction) -> Replicates {
        Replicates::new(estimate, values.iter().copied(), correction)
    }

    #[test]
    fn p_values_match_hand_computation() {
        let p = |estimate, values: &[f64], correction| {
            replicates_of(estimate, values, correction).p_value()
        };
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        // One of nine values is on the other side: 2 (1 + 1) / (9 + 1).
        let values = [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, -0.1];
        close(p(0.15, &values, Correction::None), 0.4);
        // Replicates that equal 0 count for both sides, whatever their value after the bias is
        // subtracted.
        let values = [0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.4];
        close(p(0.1, &values, Correction::Bias), 1.0);
        // All values are above 0, but only because of the bias.
        let values = [0.04, 0.05, 0.06, 0.04, 0.05, 0.06, 0.03, 0.07, 0.05];
        close(p(0.0, &values, Correction::None), 0.2);
        assert!(p(0.0, &values, Correction::Bias) > 0.7);
    }

    /// The mean of skewed replicates can be outside their percentiles.
    #[test]
    fn intervals_contain_the_estimate() {
        let mut values = vec![0.0; 100];
        values[7] = 1_000.0;
        let [low, high] = replicates_of(0.0, &values, Correction::Bias).interval();
        assert!((low + 10.0).abs() < 1e-9 && high.to_bits() == 0, "{low} {high}");
        values[7] = -1_000.0;
        let [low, high] = replicates_of(0.0, &values, Correction::Bias).interval();
        assert!((high - 10.0).abs() < 1e-9 && low.to_bits() == 0, "{low} {high}");
        let [low, high] = replicates_of(0.5, &[], Correction::Bias).interval();
        assert!((low - 0.5).abs() < 1e-12 && (high - 0.5).abs() < 1e-12);
    }
}
