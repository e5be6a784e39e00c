//! Evaluation of predictions: the metrics of single-label and multi-label classification.
//!
//! A ratio of 0 / 0 counts as 0, as in scikit-learn. With tp, fp and fn of a label:
//!
//! * **micro** precision, recall and F1 use the sums of tp, fp and fn over all labels. Labels that
//!   only the test corpus has are included: their documents are misses.
//! * **macro** is the mean over all labels of the training corpus, **`macro_present`** the mean
//!   over the labels of the test corpus, **weighted** the latter weighted by support.
//! * **samples** is the mean over documents of precision, recall and F1 of each document's labels.
//! * **P@n** is the mean share of right labels among the first n of the ranking.
//! * **Hamming loss** is the share of wrong decisions among all pairs of a document and a label.

use std::collections::HashMap as Map;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use crate::classifier::{ClassifyOptions, RawPrediction};
use crate::decide::calibrate::NoveltyLimit;
use crate::decide::decision::Decision;
use crate::model::{Model, TuningSummary};
use crate::stages::Stage;
use crate::threads::Threads;

pub mod cluster;
mod compare;
mod confidence;
mod part;
mod run;
mod summary;

pub use crate::decide::outcomes::{Headline, Intervals, Kind, Outcomes, Prf};
pub use compare::{CompareError, Comparison, Difference, SavedEvaluation, Test, compare};
pub use confidence::{Answered, Bin, Coverage, Point};

use crate::decide::outcomes::ratio;
use part::{Counter, PredictedDocument, RANKS, Tally, with_ancestors};
pub use run::{EvaluateError, EvaluateOptions, EvaluationTally, evaluate, tally};
use summary::LabelTally;

type HashMap<K, V> = Map<K, V, RandomState>;

/// The results of one label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelResult {
    /// The label.
    pub label: String,
    /// Number of training documents with the label.
    pub train: u64,
    /// Number of test documents with the label.
    pub support: u64,
    /// Number of test documents for which it was predicted.
    pub predicted: u64,
    /// Number of test documents with the label for which it was predicted.
    pub true_positives: u64,
    /// Its precision, recall and F1.
    #[serde(flatten)]
    pub prf: Prf,
}

/// The labels of one level of the hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LevelResult {
    /// 1 for labels without a parent, otherwise the highest level of a parent plus 1.
    pub level: usize,
    /// Number of labels.
    pub labels: usize,
    /// Metrics over all decisions on these labels.
    pub micro: Prf,
    /// Mean over these labels.
    #[serde(rename = "macro")]
    pub macro_all: Prf,
}

/// A label that was missed while another one was predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The label of the document; empty if it has none.
    pub label: String,
    /// The label that was predicted instead; empty if none was.
    pub predicted: String,
    /// Number of documents.
    pub count: u64,
}

/// Numbers of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DocumentCounts {
    /// Documents of the training corpus.
    pub train: u64,
    /// Documents of the test corpus.
    pub test: u64,
    /// Test documents without a known term.
    pub no_known_term: u64,
    /// Test documents that share no weighted term with a training document.
    pub no_neighbor: u64,
    /// Test documents whose neighbors have no label.
    pub no_label: u64,
    /// Test documents for which the model abstained.
    pub abstained: u64,
    /// Test documents refused as out-of-distribution.
    pub foreign: u64,
    /// Test documents that have no label themselves.
    pub unlabeled: u64,
    /// Test documents for which a row that is not a neighbor has the similarity of the last
    /// neighbor.
    pub tied_at_k: u64,
}

/// Numbers of labels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LabelCounts {
    /// Labels of the training corpus.
    pub train: u64,
    /// Labels of the test corpus.
    pub test: u64,
    /// Labels of the test corpus that the training corpus does not have, by name.
    pub unseen: Vec<String>,
    /// Test documents that have an unseen label.
    pub documents_with_unseen: u64,
}

/// The method that made the predictions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Method {
    /// Number of neighbors that vote.
    pub k: usize,
    /// The weighting of votes.
    pub vote: String,
    /// The decision rule.
    pub decision: Decision,
    /// The weighting's SMART code.
    pub weighting: String,
    /// The weighting's formula.
    pub formula: String,
    /// The number of terms.
    pub terms: u64,
    /// The dense vectors and the share of their neighbors in the votes, if the model has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<String>,
}

impl Method {
    /// The method of a model with these options.
    fn of(model: &Model, options: &ClassifyOptions) -> Self {
        let settings = model.settings();
        Self {
            k: options.k.get(),
            vote: options.vote.to_string(),
            decision: options.decision.clone(),
            weighting: settings.weighting.to_string(),
            formula: settings.formula.clone(),
            terms: settings.counts.terms,
            vectors: model.dense().map(|dense| {
                let spec = dense.spec();
                let percent = options.dense_share * 100.0;
                format!(
                    "{}, {} dimensions, {}, {percent:.0} % of the votes",
                    spec.features, spec.dimension, spec.metric
                )
            }),
        }
    }
}

/// P@1, P@3 and P@5.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PrecisionAt {
    /// P@1.
    #[serde(rename = "1")]
    pub one: f64,
    /// P@3.
    #[serde(rename = "3")]
    pub three: f64,
    /// P@5.
    #[serde(rename = "5")]
    pub five: f64,
}

/// The result of an evaluation. As JSON it is the schema `classify.evaluation/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// The schema's name.
    pub schema: &'static str,
    /// The method that made the predictions.
    pub method: Method,
    /// Numbers of documents.
    pub documents: DocumentCounts,
    /// Numbers of labels.
    pub labels: LabelCounts,
    /// The share of documents whose predicted label is right; single-label only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The share of documents whose predicted labels are exactly right.
    pub subset_accuracy: f64,
    /// The share of wrong decisions among all pairs of a document and a label.
    pub hamming_loss: f64,
    /// Metrics over all decisions.
    pub micro: Prf,
    /// Mean over all labels of the training corpus.
    #[serde(rename = "macro")]
    pub macro_all: Prf,
    /// Mean over the labels of the test corpus.
    pub macro_present: Prf,
    /// Mean over the labels of the test corpus, weighted by support.
    pub weighted: Prf,
    /// Mean over documents.
    pub samples: Prf,
    /// Precision of the first labels of the ranking.
    pub precision_at: PrecisionAt,
    /// The share of documents with a right label among the three best.
    pub top_3_accuracy: f64,
    /// Every label of the training or test corpus, by name.
    pub per_label: Vec<LabelResult>,
    /// Single-label only: how often each label was predicted for documents of each label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusion: Option<Vec<Confusion>>,
    /// The most frequent pairs of a missed label and a wrong one.
    pub most_confused: Vec<Confusion>,
    /// The metrics of each level of the hierarchy, if there is one. Documents and predictions
    /// include the ancestors of their labels, so that `micro` is hierarchical precision, recall and
    /// F1 (Kiritchenko et al. 2005).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelResult>,
    /// 95 % intervals of the headline metrics; `None` without documents.
    pub intervals: Option<Intervals>,
    /// The documents that got labels, if the model may abstain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// The mean difference between probabilities and shares of right labels (expected calibration
    /// error over ten bins); only with a calibrated model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration_error: Option<f64>,
    /// The predicted labels by confidence, and how many of them are right.
    pub reliability: Vec<Bin>,
    /// Precision of the most confident predictions.
    pub coverage: Vec<Coverage>,
    /// Precision and recall of one threshold for the share of the vote.
    pub curve: Vec<Point>,
    /// The wrong predictions with the highest scores.
    pub worst_errors: Vec<WorstError>,
    /// The results of tuning, if the model was tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningSummary>,
    /// The limit for out-of-distribution documents, and the estimates of tuning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<NoveltyLimit>,
    /// The prediction for every document, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_document: Option<Vec<DocumentResult>>,
    /// The duration of each stage.
    pub stages: Vec<Stage>,
    /// The peak memory of the process, if the system reports it.
    pub peak_memory_bytes: Option<u64>,
}

/// A document's labels and its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentResult {
    /// The document's identifier.
    pub id: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The predicted labels, best first.
    pub predicted: Vec<String>,
    /// The share of the vote of the best label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The probability of the best label, of a calibrated model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The share of the predicted labels that should be right, of a calibrated model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why no label was predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A wrong prediction with a high score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstError {
    /// The document and its decisions.
    #[serde(flatten)]
    pub document: DocumentResult,
    /// The wrong label.
    pub wrong: String,
    /// That label's share of the vote.
    pub wrong_score: f64,
    /// The first five training documents that voted.
    pub neighbors: Vec<ErrorNeighbor>,
}

/// A training document that voted on a wrongly labeled document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorNeighbor {
    /// Its identifier.
    pub id: String,
    /// Its similarity.
    pub similarity: f32,
    /// Its labels.
    pub labels: Vec<String>,
}

/// Accumulates predictions and computes their metrics.
#[derive(Debug)]
pub struct Evaluator {
    options: ClassifyOptions,
    /// The labels of training, then new ones.
    names: Vec<String>,
    /// The numbers of new labels.
    numbers: HashMap<String, u32>,
    train: Vec<u64>,
    tallies: Vec<LabelTally>,
    exact: u64,
    differences: u64,
    samples: Prf,
    counter: Counter,
    all: Tally,
}

impl Evaluator {
    /// An evaluator of predictions that a model makes with these options.
    pub fn new(model: Arc<Model>, options: ClassifyOptions) -> Self {
        let names: Vec<String> = model.labels().iter().map(str::to_owned).collect();
        let train = model.label_sizes().iter().copied().map(u64::from).collect();
        let counter = Counter::new(model, &options);
        let mut all = counter.tally();
        all.documents.train = counter.model.settings().counts.documents;
        Self {
            options,
            tallies: vec![LabelTally::default(); names.len()],
            names,
            numbers: HashMap::default(),
            train,
            exact: 0,
            differences: 0,
            samples: Prf::default(),
            counter,
            all,
        }
    }

    /// Keeps the prediction for every document, for [`Evaluation::per_document`].
    #[must_use]
    pub fn with_documents(mut self) -> Self {
        self.counter.keeps_documents = true;
        self.all.per_document = Some(Vec::new());
        self
    }

    /// Adds the prediction for a document with these labels. `tied_at_k` says whether a row that is
    /// not a neighbor has the similarity of the last neighbor.
    pub fn add(
        &mut self,
        id: &str,
        labels: &[String],
        prediction: &RawPrediction,
        tied_at_k: bool,
    ) {
        self.add_all([PredictedDocument { id, labels, prediction, tied_at_k }].into_iter());
    }

    /// Adds documents, whose labels need not be in the training corpus.
    fn add_all<'a>(&mut self, documents: impl Iterator<Item = PredictedDocument<'a>>) {
        let mut tally = self.counter.tally();
        for document in documents {
            let labels = with_ancestors(&self.counter.model, document.labels).into_owned();
            let numbers = labels.iter().map(|label| self.number(label)).collect();
            tally.add(&self.counter, &document, numbers);
        }
        self.append(tally);
    }

    fn append(&mut self, tally: Tally) {
        for document in 0..tally.outcomes.len() {
            let mut counts = [0u64; 3];
            for (label, kind) in tally.outcomes.of(document) {
                counts[kind as usize] += 1;
                let of_label = &mut self.tallies[label as usize];
                match kind {
                    Kind::Right => of_label.tp += 1,
                    Kind::Wrong => of_label.fp += 1,
                    Kind::Missed => of_label.fnn += 1,
                }
            }
            let [right, wrong, missed] = counts;
            self.exact += u64::from(missed + wrong == 0);
            self.differences += missed + wrong;
            self.samples.add(Prf::of(right, wrong, missed), 1.0);
        }
        self.all.append(tally);
        if let Some(min) = self.all.min_error_score() {
            self.counter.min_error_score.store(min.to_bits(), Ordering::Relaxed);
        }
    }

    fn number(&mut self, label: &str) -> u32 {
        let known = self.counter.numbers.get(label).or_else(|| self.numbers.get(label));
        if let Some(&number) = known {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 labels");
        self.names.push(label.to_owned());
        self.numbers.insert(label.to_owned(), number);
        self.tallies.push(LabelTally::default());
        number
    }

    /// The metrics of all predictions. `seed` draws the documents of the intervals. The time that
    /// this takes is added to `stages`.
    pub fn finish(self, seed: u64, threads: &Threads, mut stages: Vec<Stage>) -> Evaluation {
        let start = Instant::now();
        let Tally { documents, confidences, outcomes, .. } = &self.all;
        let count = documents.test as f64;
        let mean = |sum: f64| if count > 0.0 { sum / count } else { 0.0 };
        // The other metrics are computed meanwhile.
        let mut intervals = None;
        let (summary, confusion, reliability, coverage, answered) = threads.scope(|scope| {
            scope.spawn(|_| intervals = outcomes.intervals(self.train.len(), seed));
            let coverage = threads.run(|| confidences.coverage());
            let answered = confidences.answered(documents);
            (self.summary(), self.confusions(), confidences.reliability(), coverage, answered)
        });
        let single = !self.options.decision.is_multi();
        let most_confused =
            confusion.iter().filter(|pair| pair.label != pair.predicted).take(20).cloned();
        let [one, three, five] =
            std::array::from_fn(|at| mean(self.all.right_at[at] as f64 / RANKS[at] as f64));
        let mut evaluation = Evaluation {
            schema: "classify.evaluation/1",
            method: Method::of(&self.counter.model, &self.options),
            accuracy: single.then(|| mean(self.exact as f64)),
            subset_accuracy: mean(self.exact as f64),
            hamming_loss: mean(self.differences as f64) / self.names.len().max(1) as f64,
            micro: summary.sum.prf(),
            macro_all: summary.macro_all,
            macro_present: summary.macro_present,
            weighted: summary.weighted,
            samples: self.samples.divided(count),
            precision_at: PrecisionAt { one, three, five },
            top_3_accuracy: mean(self.all.in_top_3 as f64),
            labels: summary.labels,
            levels: summary.levels,
            per_label: summary.per_label,
            most_confused: most_confused.collect(),
            confusion: single.then_some(confusion),
            documents: *documents,
            intervals,
            answered,
            calibration_error: confidences.calibration_error(&reliability),
            reliability,
            coverage,
            curve: confidences.curve(summary.sum.support()),
            worst_errors: self.all.worst,
            tuning: self.counter.model.settings().tuning.clone(),
            foreign: self.options.novelty,
            per_document: self.all.per_document,
            stages: Vec::new(),
            peak_memory_bytes: peak_memory(),
        };
        let documents = evaluation.documents.test;
        stages.push(Stage::since("measures, intervals", documents, start));
        evaluation.stages = stages;
        evaluation
    }
}

/// The peak resident size of this process in bytes, where `/proc` has it.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
