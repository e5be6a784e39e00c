//! The differences between a corpus and another one, such as the documents of a later month.
//!
//! * Whether there are any: a two-sample test of nearest neighbors (Schilling 1986). If both
//!   corpora have the same distribution, the neighbors of a document do not depend on its corpus.
//!   The test assigns the documents to the corpora at random and counts how often they are told
//!   apart as well as the real corpora. How well they are told apart is an area under the ROC
//!   curve, as in classifier two-sample tests (Lopez-Paz and Oquab 2017).
//! * Which: terms and labels whose shares of documents differ (likelihood ratio test, Dunning
//!   1993), and the documents that differ most.
//! * What follows: the share of right labels to expect, from the confidence of the classifier.

use std::collections::BTreeMap;

use serde::Serialize;

use super::found_document::FoundDocument;
use crate::classifier::{Classifier, ClassifyError, RawPrediction};
use crate::learn::{HeldOutCorpus, TrainError, Trainer};
use crate::random::Random;
use crate::search::Neighbor;
use crate::text::corpus::{Document, Place, Problem};
use crate::threads::{self, Threads};

/// The differences between a corpus and another one. Pairs of numbers are of the corpus and of the
/// other one.
#[derive(Debug, Clone, Serialize)]
pub struct Drift {
    /// The number of documents in the other corpus.
    pub documents: u64,
    /// Whether the corpora differ at all.
    pub test: TwoSampleTest,
    /// The median similarity of a document to its nearest document in the corpus.
    pub similarity: [f32; 2],
    /// The share of the distinct terms of a document that occur in no (other) document of the
    /// corpus, over all documents.
    pub unknown_terms: [f64; 2],
    /// The terms whose shares of documents differ most, at most 20. If no share differs, the
    /// probability that any term is listed is at most 5 % (Bonferroni correction).
    pub terms: Vec<ShareChange>,
    /// The labels whose shares of documents differ, in the same way. Empty if the other corpus has
    /// no labels.
    pub labels: Vec<ShareChange>,
    /// The documents of the other corpus that are least like the corpus, at most 20. Empty if the
    /// test finds no difference.
    pub most_different: Vec<FoundDocument>,
    /// The share of predicted labels that are right.
    pub right_labels: RightLabels,
}

/// A test of whether two corpora have the same distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TwoSampleTest {
    /// The probability that a document of the other corpus has a larger share of its neighbors in
    /// the other corpus than a document of the corpus has, from 0 to 1: about 0.5 if there is no
    /// difference.
    pub auroc: f64,
    /// The probability of such an area, or a larger one, if there is no difference.
    pub p_value: f64,
    /// The number of random assignments from which the probability was estimated.
    pub permutations: u64,
}

/// A term or a label whose share of the documents differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShareChange {
    /// The term or the label.
    pub name: String,
    /// The share of documents with it, from 0 to 1.
    pub shares: [f64; 2],
    /// The likelihood ratio statistic G² of the difference.
    pub g: f64,
}

/// The share of predicted labels that are right.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RightLabels {
    /// What was expected after training, for documents like those of the corpus. `None` if the
    /// model is not calibrated, or documents can have several labels.
    pub before: Option<f64>,
    /// The mean confidence on the other corpus. `None` if the model is not calibrated. It assumes
    /// that the same texts still have the same labels.
    pub expected: Option<f64>,
    /// The share on the documents of the other corpus that have labels, if there are any.
    pub found: Option<f64>,
}

/// An error that stopped a comparison of two corpora.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriftError {
    /// The documents do not match the model.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// The documents could not be compared.
    #[error(transparent)]
    Train(#[from] TrainError),
}

impl TwoSampleTest {
    /// Maximum p-value of a difference that is reported.
    pub const SIGNIFICANT: f64 = 0.05;

    /// Returns whether the corpora differ, beyond chance.
    pub fn finds_a_difference(&self) -> bool {
        self.p_value <= Self::SIGNIFICANT
    }
}

/// Number of random assignments of documents to the two corpora.
const PERMUTATIONS: u64 = 999;
/// Maximum number of terms, labels and documents that are kept.
const KEPT: usize = 20;

impl Drift {
    /// Compares a corpus with `other`. `trainer` has the options of the corpus, and `classifier`
    /// was trained on it.
    ///
    /// # Errors
    /// Fails if `other` has no documents, or they do not match the model.
    pub fn find(
        trainer: &Trainer<'_>,
        corpus: &HeldOutCorpus,
        other: &[Document],
        classifier: &Classifier,
    ) -> Result<Self, DriftError> {
        if other.is_empty() {
            let place = Place { source: "the other corpus".into(), line: None };
            return Err(ClassifyError::from(Problem::NoDocument.at(&place)).into());
        }
        let predictions = classifier.predict_documents(other, &classifier.options())?;
        let joined = trainer.hold_out_origins([&corpus.documents, other])?;
        let best = |nearest: &[Neighbor]| nearest.first().map_or(0.0, |best| best.similarity);
        let similarity = [
            median(corpus.rows.nearest.iter().map(|nearest| best(nearest)).collect()),
            median(predictions.iter().map(|prediction| best(&prediction.neighbors)).collect()),
        ];
        let terms = OriginCounts::of_terms(&joined);
        let labels = OriginCounts::of_labels([&corpus.documents, other]);
        let test = two_sample_test(&joined, classifier.threads());
        let most_different =
            if test.finds_a_difference() { most_different(&joined) } else { Vec::new() };
        Ok(Self {
            documents: other.len() as u64,
            test,
            similarity,
            unknown_terms: terms.unknown_shares(),
            terms: terms.changes(),
            labels: labels.map_or(Vec::new(), OriginCounts::changes),
            most_different,
            right_labels: RightLabels::of(classifier, other, &predictions),
        })
    }
}

impl RightLabels {
    fn of(classifier: &Classifier, documents: &[Document], predictions: &[RawPrediction]) -> Self {
        let model = classifier.model();
        let settings = model.settings();
        let summary = settings.tuning.as_ref().filter(|_| !settings.decision.is_multi());
        let count = |prediction: &RawPrediction| prediction.labels.len();
        let answered = predictions.iter().filter(|prediction| count(prediction) > 0);
        let expected = answered.map(|one| one.confidence.map(|share| share * count(one) as f64));
        let expected: Option<f64> = expected.sum();
        let all: usize = predictions.iter().map(count).sum();
        let expected = expected.filter(|_| all > 0).map(|expected| expected / all as f64);
        let labeled = || {
            let both = documents.iter().zip(predictions);
            both.filter(|(document, _)| !document.labels.is_empty())
        };
        let right = |(document, prediction): (&Document, &RawPrediction)| {
            let names = prediction.labels.iter().map(|&label| model.label_name(label));
            names.filter(|name| document.labels.iter().any(|label| label == name)).count()
        };
        let predicted: usize = labeled().map(|(_, prediction)| count(prediction)).sum();
        let right: usize = labeled().map(right).sum();
        Self {
            before: summary.map(|summary| {
                let expected = summary.cross_validated.map(|expected| expected.metrics);
                expected.unwrap_or(summary.metrics).accuracy
            }),
            expected,
            found: (predicted > 0).then(|| right as f64 / predicted as f64),
        }
    }
}

/// Tests whether the nearest neighbors of documents depend on their corpus.
fn two_sample_test(joined: &HeldOutCorpus, threads: &Threads) -> TwoSampleTest {
    let count = joined.documents.len();
    let is_other: Vec<bool> = (0u32..).take(count).map(|row| joined.labels(row) == [1]).collect();
    let others = is_other.iter().filter(|&&other| other).count();
    let share = others as f64 / count as f64;
    let auroc = |is_other: &[bool]| {
        let excess = |nearest: &Vec<Neighbor>| {
            let others = nearest.iter().filter(|near| is_other[near.row as usize]).count();
            others as f64 - share * nearest.len() as f64
        };
        auroc(joined.rows.nearest.iter().map(excess).zip(is_other.iter().copied()).collect())
    };
    let found = auroc(&is_other);
    let numbers: Vec<u64> = (0..PERMUTATIONS).collect();
    let is_as_large = |&number: &u64| {
        let mut assigned = vec![false; count];
        for row in Random::stream(0, number).sample(count, others) {
            assigned[row as usize] = true;
        }
        auroc(&assigned) >= found
    };
    let as_large = threads.run(|| threads::map(&numbers, is_as_large));
    let as_large = as_large.into_iter().filter(|&as_large| as_large).count() + 1;
    let p_value = as_large as f64 / (PERMUTATIONS + 1) as f64;
    TwoSampleTest { auroc: found, p_value, permutations: PERMUTATIONS }
}

/// Returns the area under the ROC curve of scores: the probability that a positive has a higher
/// score than a negative, where ties count as one half. 0.5 without positives or negatives.
fn auroc(mut scores: Vec<(f64, bool)>) -> f64 {
    scores.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut negatives_below = 0.0;
    let mut area = 0.0;
    let mut positives = 0.0;
    for tied in scores.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let tied_positives = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        let tied_negatives = tied.len() as f64 - tied_positives;
        area += tied_positives * (negatives_below + tied_negatives / 2.0);
        positives += tied_positives;
        negatives_below += tied_negatives;
    }
    let pairs = positives * negatives_below;
    if pairs > 0.0 { area / pairs } else { 0.5 }
}

fn median(mut values: Vec<f32>) -> f32 {
    values.sort_unstable_by(f32::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the documents of the other corpus that are told apart most clearly, each text once.
fn most_different(joined: &HeldOutCorpus) -> Vec<FoundDocument> {
    let suspects = joined.rows.label_errors.suspects.iter();
    let mut others: Vec<(f64, u32)> = suspects
        .filter(|suspect| suspect.given == Some(1))
        .map(|suspect| (suspect.evidence, suspect.row))
        .collect();
    others.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let documents = others.into_iter().map(|(_, row)| FoundDocument::of_row(joined, row));
    let mut found: Vec<FoundDocument> = Vec::new();
    for document in documents {
        if found.len() == KEPT {
            break;
        }
        if document.text.is_empty() || found.iter().all(|other| other.text != document.text) {
            found.push(document);
        }
    }
    found
}

/// The numbers of documents of each corpus that contain something.
struct OriginCounts {
    /// The number of documents in each corpus.
    documents: [u64; 2],
    /// The number of documents with each name.
    with: Vec<(String, [u64; 2])>,
}

impl OriginCounts {
    fn of_terms(joined: &HeldOutCorpus) -> Self {
        let counts = &joined.counts;
        let of_origin = |origin: u32| {
            let frequencies = counts.frequencies_among(|row| joined.labels(row) == [origin]);
            frequencies.into_iter().map(u64::from)
        };
        let names = counts.vocabulary.terms().iter().map(str::to_owned);
        let with = names.zip(of_origin(0).zip(of_origin(1)).map(|(a, b)| [a, b])).collect();
        let sizes = counts.label_sizes();
        Self { documents: [0, 1].map(|origin: usize| sizes[origin].into()), with }
    }

    /// Counts labels. `None` if a corpus has none.
    fn of_labels(corpora: [&[Document]; 2]) -> Option<Self> {
        let mut with: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        let mut labeled = [0; 2];
        for (origin, documents) in corpora.into_iter().enumerate() {
            for document in documents.iter().filter(|document| !document.labels.is_empty()) {
                labeled[origin] += 1;
                for label in &document.labels {
                    with.entry(label).or_default()[origin] += 1;
                }
            }
        }
        let with = with.into_iter().map(|(label, counts)| (label.to_owned(), counts)).collect();
        (labeled[0] > 0 && labeled[1] > 0).then_some(Self { documents: labeled, with })
    }

    /// Returns the share of the terms that occur in no other document of the first corpus, over all
    /// pairs of a document and a term, for each corpus.
    fn unknown_shares(&self) -> [f64; 2] {
        let mut unknown = [0, 0];
        let mut all = [0, 0];
        for (_, [first, other]) in &self.with {
            unknown[0] += u64::from(*first == 1);
            unknown[1] += if *first == 0 { *other } else { 0 };
            all[0] += first;
            all[1] += other;
        }
        [0, 1].map(|origin| unknown[origin] as f64 / all[origin].max(1) as f64)
    }

    /// Returns the names whose shares differ, most significant differences first. The Bonferroni
    /// correction is applied.
    fn changes(self) -> Vec<ShareChange> {
        let Self { documents, with } = self;
        let max_p = TwoSampleTest::SIGNIFICANT / with.len().max(1) as f64;
        let change = |(name, with): (String, [u64; 2])| {
            let g = g_statistic(with, documents);
            // A chi-square variable with one degree of freedom is the square of a normal variable.
            let p = libm::erfc(libm::sqrt(g / 2.0));
            let share = |origin: usize| with[origin] as f64 / documents[origin] as f64;
            (p <= max_p).then(|| ShareChange { name, shares: [share(0), share(1)], g })
        };
        let mut changes: Vec<ShareChange> = with.into_iter().filter_map(change).collect();
        changes.sort_by(|a, b| b.g.total_cmp(&a.g));
        changes.truncate(KEPT);
        changes
    }
}

/// Returns the likelihood ratio statistic G² of the difference between two shares: twice the log of
/// the likelihood with two shares divided by that with one.
fn g_statistic(with: [u64; 2], documents: [u64; 2]) -> f64 {
    let all_with = with[0] + with[1];
    let all = documents[0] + documents[1];
    let term = |found: u64, row: u64, column: u64| {
        let expected = row as f64 * column as f64 / all as f64;
        if found == 0 { 0.0 } else { found as f64 * libm::log(found as f64 / expected) }
    };
    let of_corpus = |(with, documents): (u64, u64)| {
        term(with, all_with, documents) + term(documents - with, all - all_with, documents)
    };
    let sum: f64 = with.into_iter().zip(documents).map(of_corpus).sum();
    (2.0 * sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_counts_ties_as_one_half() {
        let cases = [
            (vec![(0.0, false), (1.0, true)], 1.0),
            (vec![(1.0, false), (0.0, true)], 0.0),
            (vec![(1.0, false), (1.0, true)], 0.5),
            (vec![(1.0, false), (1.0, true), (2.0, true)], 0.75),
            (vec![(1.0, true)], 0.5),
        ];
        for (scores, expected) in cases {
            assert!((auroc(scores) - expected).abs() < 1e-12, "{expected}");
        }
    }

    /// The value was computed with `scipy.stats.chi2_contingency(…, lambda_="log-likelihood",
    /// correction=False)`.
    #[test]
    fn statistic_of_a_difference() {
        let cases = [
            ([10, 30], [100, 100], 12.971_514_326_006_812),
            ([0, 0], [5, 7], 0.0),
            ([5, 7], [5, 7], 0.0),
        ];
        for (with, documents, expected) in cases {
            assert!((g_statistic(with, documents) - expected).abs() < 1e-9, "{expected}");
        }
    }
}
