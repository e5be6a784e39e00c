//! Compares evaluations of the same documents, and tests whether the differences are significant.
//!
//! * **Micro F1, macro F1, subset accuracy:** a paired bootstrap over documents gives an interval
//!   for the difference. The p-value is derived from how often the difference has the opposite
//!   sign.
//! * **Decisions:** an exact sign test on the decisions that are correct in only one evaluation
//!   (the s-test of Yang and Liu 1999).
//! * **Documents:** `McNemar`'s exact test on the documents whose labels are predicted exactly in
//!   only one evaluation.
//! * **F1 of labels:** a paired t-test (the macro t-test of Yang and Liu 1999), and Wilcoxon's
//!   signed-rank test (normal approximation, corrected for ties).
//!
//! Macro F1 is the mean over the same labels for all evaluations: the labels that have training
//! documents in any of them. All tests are two-sided. If several evaluations are compared with the
//! baseline, the p-values of each test are adjusted by Holm's method (1979).

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::result::DocumentResult;
use crate::decide::outcomes::{
    Correction, HeadlineMetrics, Kind, LabelSet, Outcomes, Prf, Replicates, draws, replicate_count,
};
use crate::limits::{self, LimitedReader};
use crate::printable::printable;
use crate::threads::Threads;

/// The part of an evaluation's JSON that a comparison needs.
#[derive(Debug, Clone, Deserialize)]
pub struct SavedEvaluation {
    schema: String,
    per_label: Vec<SavedLabel>,
    per_document: Option<Vec<DocumentResult>>,
}

#[derive(Debug, Clone, Deserialize)]
struct SavedLabel {
    label: String,
    train: u64,
}

/// The UTF-8 byte order mark that some editors write at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A reason why evaluations cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// The data is not an evaluation.
    #[error("not an evaluation: {}", printable(.0))]
    NotAnEvaluation(String),
    /// The evaluation contains no decisions on documents.
    #[error("the evaluation contains no decisions on documents")]
    NoDocuments,
    /// A document differs from the baseline.
    #[error(
        "document {number} is `{}`, not `{}` as in the first file: evaluate the same documents in \
         the same order",
        printable(other),
        printable(baseline)
    )]
    OtherDocument {
        /// Number of the document, from 1.
        number: usize,
        /// The document's identifier in the baseline.
        baseline: String,
        /// The document's identifier in this evaluation.
        other: String,
    },
    /// The labels of a document differ from the baseline.
    #[error("document {number}, `{}`, has different labels in the first file", printable(id))]
    OtherLabels {
        /// Number of the document, from 1.
        number: usize,
        /// The document's identifier.
        id: String,
    },
    /// The number of documents differs from the baseline.
    #[error("the file has {found} documents, but the first file has {expected}")]
    OtherCount {
        /// Number of documents in this evaluation.
        found: usize,
        /// Number of documents in the baseline.
        expected: usize,
    },
}

impl SavedEvaluation {
    /// Reads the JSON of an [`Evaluation`](super::Evaluation) with decisions on documents.
    ///
    /// # Errors
    /// Fails if the text is not an evaluation, or contains no decisions on documents.
    pub fn from_json(text: &[u8]) -> Result<Self, CompareError> {
        Self::checked(serde_json::from_slice(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)))
    }

    /// Like [`from_json`](Self::from_json), but reads a file of at most [`limits::MAX_FILE_BYTES`]
    /// bytes.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is too long, or is not an evaluation with decisions on
    /// documents.
    pub fn from_reader(file: impl Read) -> Result<Self, CompareError> {
        Self::from_limited(file, limits::MAX_FILE_BYTES)
    }

    fn from_limited(file: impl Read, limit: u64) -> Result<Self, CompareError> {
        let mut file = LimitedReader::new(BufReader::new(file), "a file", limit);
        if file.fill_buf().is_ok_and(|head| head.starts_with(BYTE_ORDER_MARK)) {
            file.consume(BYTE_ORDER_MARK.len());
        }
        Self::checked(serde_json::from_reader(file))
    }

    fn checked(read: serde_json::Result<Self>) -> Result<Self, CompareError> {
        let loaded = read.map_err(|error| CompareError::NotAnEvaluation(error.to_string()))?;
        if loaded.schema != "classify.evaluation/1" {
            let message = format!("the schema is `{}`", loaded.schema);
            return Err(CompareError::NotAnEvaluation(message));
        }
        if loaded.per_document.is_none() {
            return Err(CompareError::NoDocuments);
        }
        Ok(loaded)
    }

    fn documents(&self) -> &[DocumentResult] {
        self.per_document.as_deref().unwrap_or_default()
    }
}

/// The values of a metric in two evaluations, and their difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The value in the baseline.
    pub baseline: f64,
    /// The value in the other evaluation.
    pub other: f64,
    /// `other` minus `baseline`.
    pub difference: f64,
    /// The 95 % interval of the difference.
    pub interval: [f64; 2],
    /// The smallest difference that is detected with a power of 80 % at the 5 % level, estimated
    /// from the width of the interval. `None` if the replicates do not differ.
    pub detectable: Option<f64>,
    /// The p-value of the bootstrap.
    pub p_value: f64,
    /// The p-value, adjusted for the number of comparisons.
    pub adjusted: f64,
}

/// The ratio of the detectable difference to the width of a 95 % interval. It is the sum of the
/// normal quantiles of .975 and .8, divided by twice the quantile of .975.
const DETECTABLE: f64 = (1.959_964 + 0.841_621) / (2.0 * 1.959_964);

/// A statistical test and its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// The name of the test.
    pub name: &'static str,
    /// The numbers that the test compares, in words.
    pub detail: String,
    /// The p-value.
    pub p_value: f64,
    /// The p-value, adjusted for the number of comparisons.
    pub adjusted: f64,
}

/// A comparison of two evaluations; serialized as an entry of the JSON schema
/// `classify.comparison/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of documents.
    pub documents: usize,
    /// Micro F1: F1 over all decisions.
    pub micro_f1: Difference,
    /// Macro F1: the mean F1 of the labels that have training documents in any of the evaluations.
    pub macro_f1: Difference,
    /// Subset accuracy: the share of documents whose predicted labels are exactly their correct
    /// labels.
    pub accuracy: Difference,
    /// The statistical tests.
    pub tests: Vec<Test>,
}

impl Comparison {
    /// Returns the metrics with their names.
    pub fn differences(&self) -> [(&'static str, Difference); 3] {
        [("micro F1", self.micro_f1), ("macro F1", self.macro_f1), ("exact", self.accuracy)]
    }

    /// Whether a metric is lower than in the baseline, with an adjusted p-value below `alpha`.
    pub fn is_worse(&self, alpha: f64) -> bool {
        self.differences()
            .iter()
            .any(|(_, metric)| metric.difference < 0.0 && metric.adjusted < alpha)
    }
}

/// Compares evaluations with a baseline. `seed` determines the bootstrap samples. The number of
/// replicates is large enough for p-values below `alpha` to be possible, up to 100,000.
///
/// # Errors
/// Returns the index of the evaluation that cannot be compared (0 is the baseline), and the reason.
pub fn compare(
    baseline: &SavedEvaluation,
    others: &[SavedEvaluation],
    seed: u64,
    alpha: f64,
    threads: &Threads,
) -> Result<Vec<Comparison>, (usize, CompareError)> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let all = || std::iter::once(baseline).chain(others);
    let trained = all().flat_map(|loaded| loaded.per_label.iter().filter(|label| label.train > 0));
    for label in trained {
        number(&mut numbers, &label.label);
    }
    let trained = numbers.len();
    let first = outcomes(baseline.documents(), &mut numbers);
    let mut comparisons = Vec::new();
    for (index, other) in (1..).zip(others) {
        check_same_documents(baseline.documents(), other.documents())
            .map_err(|error| (index, error))?;
        let second = outcomes(other.documents(), &mut numbers);
        // The smallest possible p-value is 2 / (replicates + 1), times the number of comparisons.
        let min_count = (4.0 * others.len() as f64 / alpha).clamp(0.0, 100_000.0);
        let draws = Resampling { seed, min_count };
        let labels = Labels { trained, all: numbers.len() };
        comparisons.push(threads.run(|| compare_pair(&first, &second, labels, draws)));
    }
    adjust(&mut comparisons);
    Ok(comparisons)
}

fn number<'a>(numbers: &mut HashMap<&'a str, u32>, label: &'a str) -> u32 {
    let next = u32::try_from(numbers.len()).expect("fewer than 2^32 labels");
    *numbers.entry(label).or_insert(next)
}

fn outcomes<'a>(documents: &'a [DocumentResult], numbers: &mut HashMap<&'a str, u32>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for document in documents {
        let mut numbers_of = |labels: &'a [String]| -> Vec<u32> {
            labels.iter().map(|label| number(numbers, label)).collect()
        };
        let expected = numbers_of(&document.labels);
        let predicted = numbers_of(&document.predicted);
        outcomes.push(&expected, &predicted);
    }
    outcomes
}

fn check_same_documents(a: &[DocumentResult], b: &[DocumentResult]) -> Result<(), CompareError> {
    for (number, (a, b)) in (1..).zip(a.iter().zip(b)) {
        if a.id != b.id {
            let baseline = a.id.clone();
            let other = b.id.clone();
            return Err(CompareError::OtherDocument { number, baseline, other });
        }
        if a.labels != b.labels {
            return Err(CompareError::OtherLabels { number, id: a.id.clone() });
        }
    }
    if a.len() == b.len() {
        return Ok(());
    }
    Err(CompareError::OtherCount { found: b.len(), expected: a.len() })
}

/// Numbers of labels.
#[derive(Debug, Clone, Copy)]
struct Labels {
    /// Number of labels with training documents, which come first. This is the denominator of macro
    /// F1.
    trained: usize,
    all: usize,
}

/// The parameters of resampling.
#[derive(Debug, Clone, Copy)]
struct Resampling {
    seed: u64,
    /// Minimum number of replicates for small p-values to be possible.
    min_count: f64,
}

fn compare_pair(a: &Outcomes, b: &Outcomes, labels: Labels, sampling: Resampling) -> Comparison {
    let metrics = |outcomes: &Outcomes, replicate| {
        outcomes.metrics(draws(a.len(), sampling.seed, replicate), labels.trained)
    };
    let drawn: Vec<(HeadlineMetrics, HeadlineMetrics)> =
        (0..paired_replicate_count(a.len(), sampling.min_count))
            .into_par_iter()
            .map(|replicate| (metrics(a, replicate), metrics(b, replicate)))
            .collect();
    let [first, second] = [a, b].map(|run| run.metrics(0..run.len(), labels.trained));
    let difference = |metric: fn(&HeadlineMetrics) -> f64, correction: Correction| {
        let baseline = metric(&first);
        let other = metric(&second);
        let difference = other - baseline;
        let values = drawn.iter().map(|(a, b)| metric(b) - metric(a));
        let replicates = Replicates::new(difference, values, correction);
        let interval = replicates.interval();
        let p_value = replicates.p_value();
        let width = interval[1] - interval[0];
        let detectable = (width > 0.0).then_some(DETECTABLE * width);
        let adjusted = p_value;
        Difference { baseline, other, difference, interval, detectable, p_value, adjusted }
    };
    Comparison {
        documents: a.len(),
        micro_f1: difference(|metrics| metrics.micro_f1, Correction::None),
        macro_f1: difference(|metrics| metrics.macro_f1, Correction::Bias),
        accuracy: difference(|metrics| metrics.accuracy, Correction::None),
        tests: run_tests(a, b, labels),
    }
}

fn paired_replicate_count(documents: usize, min_count: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 100,000")]
    let min_count = min_count.ceil() as u64;
    replicate_count(documents * 8).max(min_count)
}

/// The numbers of items that are correct in only one of two evaluations.
#[derive(Debug, Clone, Copy, Default)]
struct DiscordantCounts {
    first: u64,
    other: u64,
}

fn run_tests(a: &Outcomes, b: &Outcomes, labels: Labels) -> Vec<Test> {
    let mut documents = DiscordantCounts::default();
    let mut decisions = DiscordantCounts::default();
    for document in 0..a.len() {
        match (a.is_exact(document), b.is_exact(document)) {
            (true, false) => documents.first += 1,
            (false, true) => documents.other += 1,
            _ => {}
        }
        // A decision that is correct or wrong in both evaluations provides no evidence.
        let errors = |outcomes: &Outcomes| {
            let errors = outcomes.of(document).filter(|&(_, kind)| kind != Kind::Right);
            LabelSet::new(errors.map(|(label, _)| label).collect::<Vec<_>>())
        };
        let of_a = errors(a);
        let of_b = errors(b);
        decisions.first += of_b.without(&of_a).count() as u64;
        decisions.other += of_a.without(&of_b).count() as u64;
    }
    let count_test = |name, what: &str, counts: DiscordantCounts| {
        let DiscordantCounts { first, other } = counts;
        let p_value = sign_test(first, other);
        let detail =
            format!("{what} correct only in the first: {first}, only in the other: {other}");
        Test { name, detail, p_value, adjusted: p_value }
    };
    let of_a = label_f1(a, labels);
    let of_b = label_f1(b, labels);
    let differences: Vec<f64> = of_a.iter().zip(&of_b).map(|(a, b)| b - a).collect();
    let unequal = differences.iter().filter(|difference| **difference != 0.0).count();
    let label_test = |name, p_value| {
        let detail = format!("{} labels, of which {unequal} differ", labels.trained);
        Test { name, detail, p_value, adjusted: p_value }
    };
    vec![
        count_test("sign test", "decisions", decisions),
        count_test("McNemar", "documents", documents),
        label_test("paired t", paired_t(&differences)),
        label_test("Wilcoxon", wilcoxon(&differences)),
    ]
}

/// Returns the F1 of each label with training documents.
fn label_f1(outcomes: &Outcomes, labels: Labels) -> Vec<f64> {
    let mut tallies = vec![[0u64; 3]; labels.all];
    for document in 0..outcomes.len() {
        for (label, kind) in outcomes.of(document) {
            tallies[label as usize][kind as usize] += 1;
        }
    }
    tallies.truncate(labels.trained);
    tallies.into_iter().map(|[tp, fp, missed]| Prf::of(tp, fp, missed).f1).collect()
}

/// Exact two-sided sign test: returns the p-value of two equally probable outcomes that occurred
/// `a` and `b` times.
fn sign_test(a: u64, b: u64) -> f64 {
    let Ok(fair) = Binomial::new(0.5, a + b) else { return 1.0 };
    (2.0 * fair.cdf(a.min(b))).min(1.0)
}

/// Two-sided paired t-test: returns the p-value of the hypothesis that the mean difference is 0.
fn paired_t(differences: &[f64]) -> f64 {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let square = |difference: &f64| (difference - mean) * (difference - mean);
    let squares: f64 = differences.iter().map(square).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    if differences.len() < 2 {
        return 1.0;
    }
    if error <= 0.0 {
        return if mean == 0.0 { 1.0 } else { 0.0 };
    }
    let Ok(t) = StudentsT::new(0.0, 1.0, n - 1.0) else { return 1.0 };
    2.0 * t.sf((mean / error).abs())
}

/// Two-sided signed-rank test: returns the p-value. Differences of 0 are ignored.
fn wilcoxon(differences: &[f64]) -> f64 {
    let mut values: Vec<f64> = differences.iter().copied().filter(|value| *value != 0.0).collect();
    values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = values.len() as f64;
    let mut positive = 0.0;
    let mut ties = 0.0;
    let mut before = 0.0;
    // Values that differ only by rounding count as equal, because F1 has few different values.
    for equal in values.chunk_by(|a, b| (a.abs() - b.abs()).abs() < 1e-12) {
        let count = equal.len() as f64;
        let rank = before + f64::midpoint(1.0, count);
        positive += rank * equal.iter().filter(|value| **value > 0.0).count() as f64;
        ties += count * count * count - count;
        before += count;
    }
    let error = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0).sqrt();
    if error <= 0.0 {
        return 1.0;
    }
    let z = (positive - n * (n + 1.0) / 4.0) / error;
    2.0 * Normal::standard().sf(z.abs())
}

/// Adjusts the p-values of each test for the number of comparisons.
fn adjust(comparisons: &mut [Comparison]) {
    let metrics: [fn(&mut Comparison) -> &mut Difference; 3] =
        [|c| &mut c.micro_f1, |c| &mut c.macro_f1, |c| &mut c.accuracy];
    for metric in metrics {
        let values: Vec<f64> = comparisons.iter_mut().map(|c| metric(c).p_value).collect();
        for (comparison, adjusted) in comparisons.iter_mut().zip(holm(&values)) {
            metric(comparison).adjusted = adjusted;
        }
    }
    let tests = comparisons.first().map_or(0, |comparison| comparison.tests.len());
    for test in 0..tests {
        let values: Vec<f64> = comparisons.iter().map(|c| c.tests[test].p_value).collect();
        for (comparison, adjusted) in comparisons.iter_mut().zip(holm(&values)) {
            comparison.tests[test].adjusted = adjusted;
        }
    }
}

/// Returns p-values adjusted by Holm's method.
fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut adjusted = vec![0.0; values.len()];
    let mut highest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max(((values.len() - rank) as f64 * values[index]).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod unit_tests;
