//! What is counted of some documents. Parts of a batch are counted side by side and added up in their order.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::confidence::Confidences;
use super::{DocumentCounts, DocumentResult, ErrorNeighbor, HashMap, WorstError};
use crate::classifier::{ClassifyOptions, Prediction, Reason};
use crate::decide::decision::Decision;
use crate::decide::outcomes::{LabelSet, Outcomes};
use crate::model::Model;
use crate::search::Neighbor;

/// How many of the worst errors are kept.
const WORST: usize = 50;
/// How many of their neighbors are kept.
const NEIGHBORS: usize = 5;

/// A document with more pairs of a missed and a wrong label than this is not counted among the
/// confused labels: nothing says which label was taken for which, and the pairs of documents with
/// thousands of labels would fill the memory.
const MOST_PAIRS: usize = 10_000;

/// The first labels of the ranking among which right ones are counted.
pub(super) const FIRST: [usize; 3] = [1, 3, 5];

/// Counts documents of which all labels are known from training; any number of threads may use it.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    pub(super) model: Arc<Model>,
    /// The numbers of labels.
    pub(super) numbers: Arc<HashMap<String, u32>>,
    /// Whether documents get one label.
    pub(super) single: bool,
    pub(super) may_abstain: bool,
    /// Whether the prediction for every document is kept.
    pub(super) keeps_documents: bool,
    /// The bits of a score; errors that are no worse are not kept.
    pub(super) least_error: Arc<AtomicU64>,
}

impl Counter {
    pub(super) fn new(model: Arc<Model>, options: &ClassifyOptions) -> Self {
        let names = model.labels().iter().map(str::to_owned);
        Self {
            numbers: Arc::new(names.zip(0..).collect()),
            model,
            single: options.decision == Decision::Single,
            may_abstain: options.abstention.is_some() || options.novelty.is_some(),
            keeps_documents: false,
            least_error: Arc::new(f64::NEG_INFINITY.to_bits().into()),
        }
    }

    /// An empty part.
    pub(super) fn part(&self) -> Part {
        Part {
            confidences: Confidences::new(self.may_abstain),
            per_document: self.keeps_documents.then(Vec::new),
            ..Part::default()
        }
    }

    /// The numbers of a document's labels; nothing if training has not all of them.
    pub(super) fn known(&self, labels: &[String]) -> Option<Vec<u32>> {
        let labels = closed(&self.model, labels);
        labels.iter().map(|label| self.numbers.get(label).copied()).collect()
    }

    fn names(&self, labels: &[u32]) -> Vec<String> {
        labels.iter().map(|&label| self.name(label)).collect()
    }

    fn name(&self, label: u32) -> String {
        self.model.labels().get(label as usize).unwrap_or_default().to_owned()
    }
}

/// A document with its prediction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) id: &'a str,
    pub(super) labels: &'a [String],
    pub(super) prediction: &'a Prediction,
    /// Whether there is a row with the similarity of the last neighbor that is not among the neighbors.
    pub(super) tied_at_k: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) documents: DocumentCounts,
    pub(super) with_unseen: u64,
    /// The right labels among the first one, three and five of all documents.
    pub(super) right_in_first: [u64; 3],
    pub(super) in_top_3: u64,
    pub(super) confused: HashMap<(Option<u32>, Option<u32>), u64>,
    pub(super) outcomes: Outcomes,
    pub(super) confidences: Confidences,
    pub(super) per_document: Option<Vec<DocumentResult>>,
    pub(super) worst: Vec<WorstError>,
}

impl Part {
    /// The errors that are no worse than this are not among the worst.
    pub(super) fn least_error(&self) -> Option<f64> {
        self.worst.get(WORST - 1).map(|last| last.wrong_score)
    }

    /// Adds a document; `numbers` are those of its labels and, with a hierarchy, of their ancestors.
    pub(super) fn add(&mut self, counter: &Counter, judged: &Judged<'_>, numbers: Vec<u32>) {
        let prediction = judged.prediction;
        let first = numbers.first().copied();
        let (expected, predicted) = (LabelSet::new(numbers), LabelSet::new(&*prediction.labels));
        let documents = &mut self.documents;
        documents.test += 1;
        documents.tied_at_k += u64::from(judged.tied_at_k);
        documents.unlabeled += u64::from(expected.is_empty());
        match prediction.reason {
            Some(Reason::NoKnownTerm) => documents.no_known_term += 1,
            Some(Reason::NoNeighbor) => documents.no_neighbor += 1,
            Some(Reason::NoLabel) => documents.no_label += 1,
            Some(Reason::Unsure) => documents.abstained += 1,
            Some(Reason::OutOfDistribution) => documents.foreign += 1,
            None => {}
        }
        let unseen = expected.iter().any(|label| label as usize >= counter.numbers.len());
        self.with_unseen += u64::from(unseen);
        for (n, sum) in FIRST.into_iter().zip(&mut self.right_in_first) {
            let first = prediction.scores.iter().take(n);
            *sum += first.filter(|score| expected.contains(score.label)).count() as u64;
        }
        let mut top_3 = prediction.scores.iter().take(3);
        self.in_top_3 += u64::from(top_3.any(|score| expected.contains(score.label)));
        if counter.single {
            self.confuse_single(&expected, first, prediction.labels.first().copied());
        } else {
            self.confuse_multi(&expected, &predicted);
        }
        self.outcomes.push_sets(&expected, &predicted);
        self.confidences.add(prediction, &expected, &predicted);
        self.remember(counter, judged, &expected, &predicted);
    }

    /// Adds the documents of another part behind those of this one.
    pub(super) fn append(&mut self, other: Self) {
        let (all, more) = (&mut self.documents, other.documents);
        for (sum, count) in [
            (&mut all.test, more.test),
            (&mut all.no_known_term, more.no_known_term),
            (&mut all.no_neighbor, more.no_neighbor),
            (&mut all.no_label, more.no_label),
            (&mut all.abstained, more.abstained),
            (&mut all.foreign, more.foreign),
            (&mut all.unlabeled, more.unlabeled),
            (&mut all.tied_at_k, more.tied_at_k),
            (&mut self.with_unseen, other.with_unseen),
            (&mut self.in_top_3, other.in_top_3),
        ] {
            *sum += count;
        }
        for (sum, count) in self.right_in_first.iter_mut().zip(other.right_in_first) {
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
            self.keep(error);
        }
    }

    /// Keeps an error if it is one of the worst; of equal ones the first.
    fn keep(&mut self, error: WorstError) {
        let score = error.wrong_score;
        if self.least_error().is_none_or(|least| score > least) {
            let at = self.worst.partition_point(|other| other.wrong_score >= score);
            self.worst.insert(at, error);
            self.worst.truncate(WORST);
        }
    }

    /// Keeps the prediction, if that was asked for, and the worst errors.
    fn remember(
        &mut self,
        counter: &Counter,
        &Judged { id, labels, prediction, .. }: &Judged<'_>,
        expected: &LabelSet,
        predicted: &LabelSet,
    ) {
        let wrong = prediction
            .scores
            .iter()
            .find(|score| predicted.contains(score.label) && !expected.contains(score.label));
        let worse = wrong.filter(|wrong| {
            let of_all = f64::from_bits(counter.least_error.load(Ordering::Relaxed));
            wrong.score > of_all && self.least_error().is_none_or(|least| wrong.score > least)
        });
        if worse.is_none() && self.per_document.is_none() {
            return;
        }
        let result = DocumentResult {
            id: id.to_owned(),
            labels: closed(&counter.model, labels).into_owned(),
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
            self.keep(WorstError {
                document: result.clone(),
                wrong: counter.name(wrong.label),
                wrong_score: wrong.score,
                neighbors: prediction.neighbors.iter().take(NEIGHBORS).map(neighbor).collect(),
            });
        }
        if let Some(documents) = &mut self.per_document {
            documents.push(result);
        }
    }

    /// Counts the document's label against the one that was predicted, right or wrong. A
    /// document of several labels is right with any of them, and otherwise stands for its
    /// `first` one.
    fn confuse_single(&mut self, expected: &LabelSet, first: Option<u32>, predicted: Option<u32>) {
        let label = predicted.filter(|&label| expected.contains(label)).or(first);
        *self.confused.entry((label, predicted)).or_default() += 1;
    }

    /// Counts every missed label against every wrong one, up to [`MOST_PAIRS`].
    fn confuse_multi(&mut self, expected: &LabelSet, predicted: &LabelSet) {
        let wrong = || predicted.without(expected);
        let missed = expected.without(predicted).count();
        if missed == 0 || missed.saturating_mul(wrong().count()) > MOST_PAIRS {
            return;
        }
        for missed in expected.without(predicted) {
            for wrong in wrong() {
                *self.confused.entry((Some(missed), Some(wrong))).or_default() += 1;
            }
        }
    }
}

/// The labels and their ancestors.
pub(super) fn closed<'l>(model: &Model, labels: &'l [String]) -> Cow<'l, [String]> {
    let hierarchy = &model.settings().hierarchy;
    if hierarchy.is_empty() {
        return Cow::Borrowed(labels);
    }
    let mut closed = labels.to_vec();
    for label in labels {
        let above = hierarchy.ancestors(label).into_iter();
        closed.extend(above.map(str::to_owned));
    }
    closed.sort();
    closed.dedup();
    Cow::Owned(closed)
}
