//! Tallies predictions. Parts of a batch are tallied in parallel and combined in order.

use std::borrow::Cow;
use std::collections::HashMap as Map;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

use super::confidence::Confidences;
use super::result::{DocumentCounts, DocumentResult, ErrorNeighbor, WorstError};
use crate::classifier::{ClassifyOptions, RawPrediction, Reason};
use crate::decide::decision::Decision;
use crate::decide::outcomes::{LabelSet, Outcomes};
use crate::model::Model;
use crate::search::Neighbor;

pub(super) type HashMap<K, V> = Map<K, V, RandomState>;

/// Maximum number of worst errors that are kept.
const MAX_ERRORS: usize = 50;
/// Maximum number of neighbors that are kept for each of the worst errors.
const MAX_NEIGHBORS: usize = 5;

/// Maximum number of pairs of a missed label and a wrong label that one document adds to the
/// confused labels. With more pairs, it is unclear which labels were confused with each other.
/// Documents with thousands of labels would also exhaust the memory.
const MAX_PAIRS: usize = 10_000;

/// The ranks of P@1, P@3 and P@5.
pub(super) const RANKS: [usize; 3] = [1, 3, 5];

/// The data that every thread needs to tally documents.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Counter {
    pub(super) model: Arc<Model>,
    /// The number of each label, by name.
    pub(super) numbers: Arc<HashMap<String, u32>>,
    /// Whether the model is single-label.
    pub(super) is_single_label: bool,
    pub(super) may_abstain: bool,
    /// Whether similarities are cosines of terms. A similarity of 1 then means equal terms.
    finds_copies: bool,
    /// Whether the prediction for every document is kept.
    pub(super) keeps_documents: bool,
    /// The bits of a score as `f64`. Only errors with a higher score are kept.
    pub(super) min_error_score: Arc<AtomicU64>,
}

impl Counter {
    pub(super) fn new(model: Arc<Model>, options: &ClassifyOptions) -> Self {
        let names = model.labels().iter().map(str::to_owned);
        let weighting = model.settings().weighting;
        Self {
            numbers: Arc::new(names.zip(0..).collect()),
            finds_copies: model.has_terms() && weighting.is_cosine() && weighting.is_symmetric(),
            model,
            is_single_label: options.decision == Decision::Single,
            may_abstain: options.abstention.is_some() || options.novelty.is_some(),
            keeps_documents: false,
            min_error_score: Arc::new(f64::NEG_INFINITY.to_bits().into()),
        }
    }

    /// Whether a document has the same known terms as a training document, in the same proportions
    /// up to rounding.
    fn is_copy(&self, prediction: &RawPrediction) -> bool {
        const IDENTICAL: f32 = 0.999_999;
        let nearest = prediction.neighbors.first();
        self.finds_copies && nearest.is_some_and(|nearest| nearest.similarity >= IDENTICAL)
    }

    /// Creates an empty tally.
    pub(super) fn tally(&self) -> Tally {
        Tally {
            confidences: Confidences::new(self.may_abstain),
            per_document: self.keeps_documents.then(Vec::new),
            ..Tally::default()
        }
    }

    /// Returns the numbers of a document's labels. `None` if a label is not in the training corpus.
    pub(super) fn known_label_numbers(&self, labels: &[String]) -> Option<Vec<u32>> {
        let labels = with_ancestors(&self.model, labels);
        labels.iter().map(|label| self.numbers.get(label).copied()).collect()
    }

    fn names(&self, labels: &[u32]) -> Vec<String> {
        labels.iter().map(|&label| self.name(label)).collect()
    }

    fn name(&self, label: u32) -> String {
        self.model.label_name(label).to_owned()
    }
}

/// A document with its prediction.
#[derive(Debug, Clone, Copy)]
pub(super) struct PredictedDocument<'a> {
    pub(super) id: &'a str,
    pub(super) labels: &'a [String],
    pub(super) prediction: &'a RawPrediction,
    /// Whether a further row, which is not a neighbor, has the same similarity as the last
    /// neighbor.
    pub(super) tied_at_k: bool,
}

/// Counts and metrics of documents and their predictions.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) documents: DocumentCounts,
    pub(super) with_unseen: u64,
    /// For each of the [`RANKS`], the number of correct labels up to that rank.
    pub(super) right_at: [u64; 3],
    pub(super) in_top_3: u64,
    pub(super) confused: HashMap<(Option<u32>, Option<u32>), u64>,
    pub(super) outcomes: Outcomes,
    pub(super) confidences: Confidences,
    pub(super) per_document: Option<Vec<DocumentResult>>,
    pub(super) worst: Vec<WorstError>,
}

impl Tally {
    /// Returns the score that an error must exceed to be among the worst.
    pub(super) fn min_error_score(&self) -> Option<f64> {
        self.worst.get(MAX_ERRORS - 1).map(|last| last.wrong_score)
    }

    /// Adds a document. `numbers` are the numbers of its labels and, with a label hierarchy, of
    /// their ancestors.
    pub(super) fn add(
        &mut self,
        counter: &Counter,
        document: &PredictedDocument<'_>,
        numbers: Vec<u32>,
    ) {
        let prediction = document.prediction;
        let first = numbers.first().copied();
        let expected = LabelSet::new(numbers);
        let predicted = LabelSet::new(&*prediction.labels);
        let documents = &mut self.documents;
        documents.test += 1;
        documents.tied_at_k += u64::from(document.tied_at_k);
        documents.copies += u64::from(counter.is_copy(prediction));
        documents.unlabeled += u64::from(expected.is_empty());
        match prediction.reason {
            Some(Reason::NoKnownTerm) => documents.no_known_term += 1,
            Some(Reason::NoNeighbor) => documents.no_neighbor += 1,
            Some(Reason::NoLabel) => documents.no_label += 1,
            Some(Reason::LowConfidence) => documents.abstained += 1,
            Some(Reason::OutOfDistribution) => documents.out_of_distribution += 1,
            None => {}
        }
        let unseen = expected.iter().any(|label| label as usize >= counter.numbers.len());
        self.with_unseen += u64::from(unseen);
        for (rank, sum) in RANKS.into_iter().zip(&mut self.right_at) {
            let first = prediction.scores.iter().take(rank);
            *sum += first.filter(|score| expected.contains(score.label)).count() as u64;
        }
        let mut top_3 = prediction.scores.iter().take(3);
        self.in_top_3 += u64::from(top_3.any(|score| expected.contains(score.label)));
        if counter.is_single_label {
            self.count_single_confusion(&expected, first, prediction.labels.first().copied());
        } else {
            self.count_multi_confusions(&expected, &predicted);
        }
        self.outcomes.push_sets(&expected, &predicted);
        self.confidences.add(prediction, &expected, &predicted);
        self.keep_document(counter, document, &expected, &predicted);
    }

    /// Adds the tally of later documents.
    pub(super) fn append(&mut self, other: Self) {
        let all = &mut self.documents;
        let more = other.documents;
        for (sum, count) in [
            (&mut all.test, more.test),
            (&mut all.no_known_term, more.no_known_term),
            (&mut all.no_neighbor, more.no_neighbor),
            (&mut all.no_label, more.no_label),
            (&mut all.abstained, more.abstained),
            (&mut all.out_of_distribution, more.out_of_distribution),
            (&mut all.unlabeled, more.unlabeled),
            (&mut all.tied_at_k, more.tied_at_k),
            (&mut all.copies, more.copies),
            (&mut self.with_unseen, other.with_unseen),
            (&mut self.in_top_3, other.in_top_3),
        ] {
            *sum += count;
        }
        for (sum, count) in self.right_at.iter_mut().zip(other.right_at) {
            *sum += count;
        }
        for (pair, count) in other.confused {
            *self.confused.entry(pair).or_default() += count;
        }
        self.outcomes.append(&other.outcomes);
        self.confidences.append(other.confidences);
        if let Some(documents) = &mut self.per_document {
            documents.extend(other.per_document.into_iter().flatten());
        }
        for error in other.worst {
            self.keep_error(error);
        }
    }

    /// Keeps an error if it is one of the worst. Among equally bad errors, the first ones are kept.
    fn keep_error(&mut self, error: WorstError) {
        let score = error.wrong_score;
        if self.min_error_score().is_none_or(|min| score > min) {
            let position = self.worst.partition_point(|other| other.wrong_score >= score);
            self.worst.insert(position, error);
            self.worst.truncate(MAX_ERRORS);
        }
    }

    /// Keeps the prediction if it was requested, and the error if it is one of the worst.
    fn keep_document(
        &mut self,
        counter: &Counter,
        document: &PredictedDocument<'_>,
        expected: &LabelSet,
        predicted: &LabelSet,
    ) {
        let &PredictedDocument { id, labels, prediction, .. } = document;
        let wrong = prediction
            .scores
            .iter()
            .find(|score| predicted.contains(score.label) && !expected.contains(score.label));
        let worse = wrong.filter(|wrong| {
            let min = f64::from_bits(counter.min_error_score.load(Ordering::Relaxed));
            wrong.score > min && self.min_error_score().is_none_or(|min| wrong.score > min)
        });
        if worse.is_none() && self.per_document.is_none() {
            return;
        }
        let result = DocumentResult {
            id: id.to_owned(),
            labels: with_ancestors(&counter.model, labels).into_owned(),
            predicted: counter.names(&prediction.labels),
            score: prediction.scores.first().map(|score| score.score),
            probability: prediction.probabilities.first().copied(),
            confidence: prediction.confidence,
            reason: prediction.reason.map(|reason| reason.name().to_owned()),
        };
        if let Some(wrong) = worse {
            let model = &counter.model;
            let neighbor = |neighbor: &Neighbor| ErrorNeighbor {
                id: model.ids().get(neighbor.row as usize).unwrap_or_default().to_owned(),
                similarity: neighbor.similarity,
                labels: counter.names(model.document_labels(neighbor.row)),
            };
            self.keep_error(WorstError {
                document: result.clone(),
                wrong: counter.name(wrong.label),
                wrong_score: wrong.score,
                neighbors: prediction.neighbors.iter().take(MAX_NEIGHBORS).map(neighbor).collect(),
            });
        }
        if let Some(documents) = &mut self.per_document {
            documents.push(result);
        }
    }

    /// Counts the pair of a document's label and its predicted label, whether correct or wrong. The
    /// label is the predicted label if the document has it, and the `first` label otherwise.
    fn count_single_confusion(
        &mut self,
        expected: &LabelSet,
        first: Option<u32>,
        predicted: Option<u32>,
    ) {
        let label = predicted.filter(|&label| expected.contains(label)).or(first);
        *self.confused.entry((label, predicted)).or_default() += 1;
    }

    /// Counts every pair of a missed label and a wrong label, up to [`MAX_PAIRS`].
    fn count_multi_confusions(&mut self, expected: &LabelSet, predicted: &LabelSet) {
        let wrong = || predicted.without(expected);
        let missed = expected.without(predicted).count();
        if missed == 0 || missed.saturating_mul(wrong().count()) > MAX_PAIRS {
            return;
        }
        for missed in expected.without(predicted) {
            for wrong in wrong() {
                *self.confused.entry((Some(missed), Some(wrong))).or_default() += 1;
            }
        }
    }
}

/// Returns the labels and their ancestors.
pub(super) fn with_ancestors<'l>(model: &Model, labels: &'l [String]) -> Cow<'l, [String]> {
    let hierarchy = &model.settings().hierarchy;
    if hierarchy.is_empty() {
        return Cow::Borrowed(labels);
    }
    let mut all = labels.to_vec();
    for label in labels {
        let above = hierarchy.ancestors(label).into_iter();
        all.extend(above.map(str::to_owned));
    }
    all.sort();
    all.dedup();
    Cow::Owned(all)
}
