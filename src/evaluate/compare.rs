//! Two evaluations of the same documents: is one better, or was it chance?
//!
//! | figure | test |
//! |---|---|
//! | micro F1, macro F1, share of exact documents | paired bootstrap over documents: an interval of the difference and how often it changes its sign |
//! | decisions | exact sign test on those that only one of the two has right (the s-test of Yang and Liu 1999) |
//! | documents | `McNemar`'s exact test on those that only one of the two has exactly right |
//! | labels' F1 | paired t-test (the macro t-test of Yang and Liu 1999), Wilcoxon's signed-rank test (normal approximation, ties corrected) |
//!
//! All are two-sided. Where several evaluations are compared with one, p-values of the same test
//! are adjusted by Holm's method (1979).

use std::collections::HashMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

use super::outcomes::{Headline, Kind, Outcomes, draws, middle, replicates};
use super::{DocumentResult, Prf};
use crate::threads::Threads;

/// An evaluation as its JSON file has it, as far as a comparison needs it.
#[derive(Debug, Clone, Deserialize)]
pub struct Loaded {
    schema: String,
    per_label: Vec<LoadedLabel>,
    per_document: Option<Vec<DocumentResult>>,
}

#[derive(Debug, Clone, Deserialize)]
struct LoadedLabel {
    label: String,
    train: u64,
}

/// Why evaluations cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// The file is no evaluation.
    #[error("no result of `classify evaluate --json`: {0}")]
    NotAnEvaluation(String),
    /// The file has no decisions on documents.
    #[error(
        "it has no decisions on documents: write it with `evaluate --json FILE --per-document`"
    )]
    NoDocuments,
    /// The documents are others.
    #[error(
        "document {number} is `{other}`, not `{baseline}` as in the first file: evaluate the same documents in the same order"
    )]
    OtherDocument {
        /// The document's number, from 1.
        number: usize,
        /// Its identifier in the first file.
        baseline: String,
        /// Its identifier here.
        other: String,
    },
    /// A document has other labels.
    #[error("document {number}, `{id}`, has other labels than in the first file")]
    OtherLabels {
        /// The document's number, from 1.
        number: usize,
        /// Its identifier.
        id: String,
    },
    /// There are more or fewer documents.
    #[error("{found} documents, not {expected} as in the first file")]
    OtherCount {
        /// How many there are here.
        found: usize,
        /// How many there are in the first file.
        expected: usize,
    },
}

impl Loaded {
    /// Reads an evaluation that `classify evaluate --json FILE --per-document` wrote.
    ///
    /// # Errors
    /// If the text is none, or is without decisions on documents.
    pub fn from_json(text: &[u8]) -> Result<Self, CompareError> {
        let loaded: Self = serde_json::from_slice(text)
            .map_err(|error| CompareError::NotAnEvaluation(error.to_string()))?;
        if loaded.schema != "classify.evaluation/1" {
            let message = format!("its schema is `{}`", loaded.schema);
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

/// A figure of both evaluations.
#[expect(clippy::struct_field_names, reason = "the difference is one of the things it has")]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The figure of the first evaluation.
    pub baseline: f64,
    /// The figure of the other one.
    pub other: f64,
    /// The other one less the first.
    pub difference: f64,
    /// The 95 % interval of the difference.
    pub interval: [f64; 2],
    /// The bootstrap's p-value.
    pub p_value: f64,
    /// The same, adjusted for the number of comparisons.
    pub adjusted: f64,
}

/// A test and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// What it counts, for those who read it.
    pub detail: String,
    /// The p-value.
    pub p_value: f64,
    /// The same, adjusted for the number of comparisons.
    pub adjusted: f64,
}

/// Two evaluations compared. As JSON it is an entry of the schema `classify.comparison/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// How many documents both have.
    pub documents: usize,
    /// F1 over all decisions.
    pub micro_f1: Difference,
    /// The mean F1 of the labels of training.
    pub macro_f1: Difference,
    /// The share of documents that got exactly their labels.
    pub accuracy: Difference,
    /// The tests.
    pub tests: Vec<Test>,
}

impl Comparison {
    /// The figures by name.
    pub fn differences(&self) -> [(&'static str, Difference); 3] {
        [("micro F1", self.micro_f1), ("macro F1", self.macro_f1), ("exact", self.accuracy)]
    }

    /// Whether a figure is lower than in the first evaluation, with an adjusted p-value below
    /// `alpha`.
    pub fn is_worse(&self, alpha: f64) -> bool {
        self.differences()
            .iter()
            .any(|(_, figure)| figure.difference < 0.0 && figure.adjusted < alpha)
    }
}

/// Compares evaluations with the first one. The seed draws the documents of the bootstrap, at
/// least so often (up to 100,000 times) that a p-value below `alpha` can come out.
///
/// # Errors
/// The number of the evaluation, from 0 for the baseline, and why it cannot be compared.
pub fn compare(
    baseline: &Loaded,
    others: &[Loaded],
    (seed, alpha): (u64, f64),
    threads: &Threads,
) -> Result<Vec<Comparison>, (usize, CompareError)> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let all = || std::iter::once(baseline).chain(others);
    let trained = all().flat_map(|loaded| loaded.per_label.iter().filter(|label| label.train > 0));
    for label in trained {
        number(&mut numbers, &label.label);
    }
    let labels = numbers.len();
    let first = outcomes(baseline.documents(), &mut numbers);
    let mut comparisons = Vec::new();
    for (at, other) in (1..).zip(others) {
        same_documents(baseline.documents(), other.documents()).map_err(|error| (at, error))?;
        let second = outcomes(other.documents(), &mut numbers);
        let all = numbers.len();
        // The least p-value is 2 / (draws + 1), times the comparisons.
        let least = (4.0 * others.len() as f64 / alpha).clamp(0.0, 100_000.0);
        comparisons.push(threads.run(|| compared(&first, &second, labels, all, (seed, least))));
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
        let mut of = |labels: &'a [String]| -> Vec<u32> {
            labels.iter().map(|label| number(numbers, label)).collect()
        };
        let (due, given) = (of(&document.labels), of(&document.predicted));
        outcomes.push(&due, &given);
    }
    outcomes
}

fn same_documents(a: &[DocumentResult], b: &[DocumentResult]) -> Result<(), CompareError> {
    for (number, (a, b)) in (1..).zip(a.iter().zip(b)) {
        if a.id != b.id {
            let (baseline, other) = (a.id.clone(), b.id.clone());
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

fn compared(
    a: &Outcomes,
    b: &Outcomes,
    labels: usize,
    all: usize,
    (seed, least): (u64, f64),
) -> Comparison {
    let met = (a.met(labels), b.met(labels));
    let drawn: Vec<(Headline, Headline)> = (0..draws_of(a.len(), least))
        .into_par_iter()
        .map(|replicate| {
            let drawn = || draws(a.len(), seed, replicate);
            (a.figures(drawn(), &met.0), b.figures(drawn(), &met.1))
        })
        .collect();
    let (first, second) = (a.figures(0..a.len(), &met.0), b.figures(0..b.len(), &met.1));
    let difference = |of: fn(&Headline) -> f64| {
        let differences: Vec<f64> = drawn.iter().map(|(a, b)| of(b) - of(a)).collect();
        let count = |beyond: fn(f64) -> bool| {
            differences.iter().filter(|&&difference| beyond(difference)).count() as f64
        };
        let tail = count(|d| d <= 0.0).min(count(|d| d >= 0.0));
        let p_value = (2.0 * (tail + 1.0) / (differences.len() as f64 + 1.0)).min(1.0);
        let (baseline, other) = (of(&first), of(&second));
        let interval = if differences.is_empty() { [0.0; 2] } else { middle(differences) };
        Difference {
            baseline,
            other,
            difference: other - baseline,
            interval,
            p_value,
            adjusted: p_value,
        }
    };
    Comparison {
        documents: a.len(),
        micro_f1: difference(|figures| figures.micro_f1),
        macro_f1: difference(|figures| figures.macro_f1),
        accuracy: difference(|figures| figures.accuracy),
        tests: tests(a, b, labels, all),
    }
}

fn draws_of(documents: usize, least: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 100,000")]
    let least = least.ceil() as u64;
    replicates(documents * 8).max(least)
}

fn tests(a: &Outcomes, b: &Outcomes, labels: usize, all: usize) -> Vec<Test> {
    let (mut documents, mut decisions) = ((0u64, 0u64), (0u64, 0u64));
    for document in 0..a.len() {
        match (a.is_exact(document), b.is_exact(document)) {
            (true, false) => documents.0 += 1,
            (false, true) => documents.1 += 1,
            _ => {}
        }
        // A decision is right or wrong: a label that both got wrong, or right, tells nothing.
        let errors = |outcomes: &Outcomes| -> Vec<u32> {
            let errors = outcomes.of(document).filter(|&(_, kind)| kind != Kind::Right);
            errors.map(|(label, _)| label).collect()
        };
        let (a, b) = (errors(a), errors(b));
        decisions.0 += b.iter().filter(|label| !a.contains(label)).count() as u64;
        decisions.1 += a.iter().filter(|label| !b.contains(label)).count() as u64;
    }
    let counted = |name, what: &str, (first, other): (u64, u64)| {
        let p_value = sign_test(first, other);
        let detail =
            format!("{what} that only the first has right {first}, only the other {other}");
        Test { name, detail, p_value, adjusted: p_value }
    };
    let (a, b) = (label_f1(a, labels, all), label_f1(b, labels, all));
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
    let unequal = differences.iter().filter(|difference| **difference != 0.0).count();
    let by_labels = |name, p_value| {
        let detail = format!("{labels} labels, of which {unequal} differ");
        Test { name, detail, p_value, adjusted: p_value }
    };
    vec![
        counted("sign test", "decisions", decisions),
        counted("McNemar", "documents", documents),
        by_labels("paired t", paired_t(&differences)),
        by_labels("Wilcoxon", wilcoxon(&differences)),
    ]
}

/// The F1 of each of the first `labels` labels.
fn label_f1(outcomes: &Outcomes, labels: usize, all: usize) -> Vec<f64> {
    let mut tallies = vec![[0u64; 3]; all.max(labels)];
    for document in 0..outcomes.len() {
        for (label, kind) in outcomes.of(document) {
            tallies[label as usize][kind as usize] += 1;
        }
    }
    tallies.truncate(labels);
    tallies.into_iter().map(|[tp, fp, missed]| Prf::of(tp, fp, missed).f1).collect()
}

/// Two-sided exact test of equal chances: `a` heads, `b` tails.
fn sign_test(a: u64, b: u64) -> f64 {
    let Ok(fair) = Binomial::new(0.5, a + b) else { return 1.0 };
    (2.0 * fair.cdf(a.min(b))).min(1.0)
}

/// Two-sided t-test of a mean of 0.
fn paired_t(differences: &[f64]) -> f64 {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
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

/// Two-sided signed-rank test; differences of 0 are left out.
fn wilcoxon(differences: &[f64]) -> f64 {
    let mut values: Vec<f64> = differences.iter().copied().filter(|value| *value != 0.0).collect();
    values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = values.len() as f64;
    let (mut positive, mut ties, mut before) = (0.0, 0.0, 0.0);
    // Differences that rounding alone tells apart are equal: F1 has few values.
    for equal in values.chunk_by(|a, b| (a.abs() - b.abs()).abs() < 1e-12) {
        let count = equal.len() as f64;
        let rank = before + f64::midpoint(1.0, count);
        positive += rank * equal.iter().filter(|value| **value > 0.0).count() as f64;
        ties += count.powi(3) - count;
        before += count;
    }
    let error = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0).sqrt();
    if error <= 0.0 {
        return 1.0;
    }
    let z = (positive - n * (n + 1.0) / 4.0) / error;
    2.0 * Normal::standard().sf(z.abs())
}

/// Adjusts the p-values of every test over the comparisons.
fn adjust(comparisons: &mut [Comparison]) {
    let figures: [fn(&mut Comparison) -> &mut Difference; 3] =
        [|c| &mut c.micro_f1, |c| &mut c.macro_f1, |c| &mut c.accuracy];
    for of in figures {
        let values: Vec<f64> = comparisons.iter_mut().map(|c| of(c).p_value).collect();
        for (comparison, adjusted) in comparisons.iter_mut().zip(holm(&values)) {
            of(comparison).adjusted = adjusted;
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

/// Holm's adjusted p-values.
fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut adjusted = vec![0.0; values.len()];
    let mut highest = 0.0f64;
    for (rank, &at) in order.iter().enumerate() {
        highest = highest.max(((values.len() - rank) as f64 * values[at]).min(1.0));
        adjusted[at] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests_of_tests {
    use super::*;

    /// scipy's `binomtest`, `ttest_rel` and `wilcoxon`, statsmodels' `multipletests`.
    #[test]
    fn tests_of_other_peoples_code() {
        let golden = include_str!("../../tests/golden/evaluation.json");
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        let list = |value: &serde_json::Value| -> Vec<f64> {
            value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let close = |a: f64, b: &serde_json::Value| {
            let b = b.as_f64().unwrap();
            assert!((a - b).abs() < 1e-9, "{a}, not {b}");
        };
        for case in golden["signs"].as_array().unwrap() {
            close(sign_test(case["a"].as_u64().unwrap(), case["b"].as_u64().unwrap()), &case["p"]);
        }
        for case in golden["pairs"].as_array().unwrap() {
            let differences = list(&case["differences"]);
            close(paired_t(&differences), &case["t"]);
            close(wilcoxon(&differences), &case["wilcoxon"]);
        }
        for case in golden["holm"].as_array().unwrap() {
            let adjusted = holm(&list(&case["p"]));
            for (adjusted, expected) in adjusted.iter().zip(case["adjusted"].as_array().unwrap()) {
                close(*adjusted, expected);
            }
        }
    }

    #[test]
    fn nothing_differs() {
        assert!((sign_test(0, 0) - 1.0).abs() < 1e-12);
        assert!((paired_t(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
        assert!(paired_t(&[-1.0, -1.0]) <= 0.0, "all labels alike");
        assert!((wilcoxon(&[0.0]) - 1.0).abs() < 1e-12);
        assert!((wilcoxon(&[]) - 1.0).abs() < 1e-12);
    }
}
