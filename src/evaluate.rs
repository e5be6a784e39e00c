//! Predictions against known labels: the measures of single-label and multi-label
//! classification.
//!
//! A ratio of 0 / 0 counts as 0, as in scikit-learn. With tp, fp and fn of a label:
//!
//! * **micro** precision, recall and F1 are those of the sums of tp, fp and fn over all labels,
//!   those of the test that training has not included (their documents are misses).
//! * **macro** is the mean over all labels of the training corpus, **`macro_present`** the mean
//!   over the labels that the test corpus has, **weighted** the latter weighted by support.
//! * **samples** is the mean over documents of precision, recall and F1 of each document's set.
//! * **P@n** is the mean share of right labels among the first n of the ranking.
//! * **Hamming loss** is the share of wrong decisions among all documents × all labels.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::classifier::{Classifier, Prediction, Reason};
use crate::decide::Decision;
use crate::model::{Model, Settings, TuningSummary};
use crate::search::Neighbor;
use crate::threads::Threads;

mod compare;
mod confidence;
mod html;
mod outcomes;
mod plot;
mod report;

pub use compare::{CompareError, Comparison, Loaded, Test, compare};
pub use confidence::{Answered, Bin, Confidences, Coverage, Point};
pub use html::html;
pub use outcomes::{Headline, Intervals, Kind, Outcomes};
pub use report::{compared, markdown, terminal};

/// Precision, recall and F1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Prf {
    /// Right decisions among those made.
    pub precision: f64,
    /// Right decisions among those due.
    pub recall: f64,
    /// The harmonic mean of the two.
    pub f1: f64,
}

impl Prf {
    fn of(tp: u64, fp: u64, fnn: u64) -> Self {
        Self {
            precision: ratio(tp, tp + fp),
            recall: ratio(tp, tp + fnn),
            f1: ratio(2 * tp, 2 * tp + fp + fnn),
        }
    }

    fn add(&mut self, other: Self, weight: f64) {
        self.precision += weight * other.precision;
        self.recall += weight * other.recall;
        self.f1 += weight * other.f1;
    }

    fn divided(self, by: f64) -> Self {
        let part = |sum: f64| if by > 0.0 { sum / by } else { 0.0 };
        Self { precision: part(self.precision), recall: part(self.recall), f1: part(self.f1) }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// One label's line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelResult {
    /// The label.
    pub label: String,
    /// Training documents that have it.
    pub train: u64,
    /// Test documents that have it.
    pub support: u64,
    /// Test documents that got it.
    pub predicted: u64,
    /// Test documents that have it and got it.
    pub true_positives: u64,
    /// Its precision, recall and F1.
    #[serde(flatten)]
    pub prf: Prf,
}

/// The labels of one level of the hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LevelResult {
    /// 1 for labels without a parent, otherwise one more than the level of the highest parent.
    pub level: usize,
    /// How many labels are there.
    pub labels: usize,
    /// Over all decisions on these labels.
    pub micro: Prf,
    /// Over these labels.
    #[serde(rename = "macro")]
    pub macro_all: Prf,
}

/// A label that was missed where another was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The label that the document has; empty: it has none.
    pub label: String,
    /// The label that it got instead; empty: it got none.
    pub predicted: String,
    /// In how many documents.
    pub count: u64,
}

/// Numbers of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DocumentCounts {
    /// In the training corpus.
    pub train: u64,
    /// In the test corpus.
    pub test: u64,
    /// Of the test documents: no term is known.
    pub no_known_term: u64,
    /// Of the test documents: no training document shares a weighted term.
    pub no_neighbor: u64,
    /// Of the test documents: no neighbor has a label.
    pub no_label: u64,
    /// Of the test documents: the model abstained.
    pub abstained: u64,
    /// Of the test documents: they have no label themselves.
    pub unlabeled: u64,
    /// Of the test documents: the similarity at rank k is that of a neighbor left out.
    pub tied_at_k: u64,
}

/// Numbers of labels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LabelCounts {
    /// In the training corpus.
    pub train: u64,
    /// In the test corpus.
    pub test: u64,
    /// In the test corpus but not in the training corpus, by name.
    pub unseen: Vec<String>,
    /// Test documents that have an unseen label.
    pub documents_with_unseen: u64,
}

/// What the predictions were made with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Method {
    /// How many neighbors voted.
    pub k: usize,
    /// How much each vote counted.
    pub vote: String,
    /// How many labels a document got.
    pub decision: Decision,
    /// The weighting's SMART code.
    pub weighting: String,
    /// The weighting's formula.
    pub formula: String,
    /// The number of terms.
    pub terms: u64,
}

/// P@1, P@3 and P@5.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PrecisionAt {
    /// Among the first label.
    #[serde(rename = "1")]
    pub one: f64,
    /// Among the first three labels.
    #[serde(rename = "3")]
    pub three: f64,
    /// Among the first five labels.
    #[serde(rename = "5")]
    pub five: f64,
}

/// The time that a stage took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// What was done.
    pub name: String,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// The documents that went through.
    pub documents: u64,
}

impl Stage {
    /// A stage that has done nothing yet.
    pub fn empty(name: &str) -> Self {
        Self { name: name.to_owned(), seconds: 0.0, documents: 0 }
    }

    /// `documents` more went through, since `start`.
    pub fn add(&mut self, documents: u64, start: Instant) {
        self.seconds += start.elapsed().as_secs_f64();
        self.documents += documents;
    }
}

/// The result of an evaluation. As JSON it is the schema `classify.evaluation/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// The schema's name.
    pub schema: &'static str,
    /// What the predictions were made with.
    pub method: Method,
    /// Numbers of documents.
    pub documents: DocumentCounts,
    /// Numbers of labels.
    pub labels: LabelCounts,
    /// The share of documents that got their label; single-label only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The share of documents that got exactly their labels.
    pub subset_accuracy: f64,
    /// The share of wrong decisions among all documents × all labels.
    pub hamming_loss: f64,
    /// Over all decisions.
    pub micro: Prf,
    /// Over all labels of the training corpus.
    #[serde(rename = "macro")]
    pub macro_all: Prf,
    /// Over the labels that the test corpus has.
    pub macro_present: Prf,
    /// Over the labels that the test corpus has, by support.
    pub weighted: Prf,
    /// Over documents.
    pub samples: Prf,
    /// Of the ranking.
    pub precision_at: PrecisionAt,
    /// Every label of training or test, by name.
    pub per_label: Vec<LabelResult>,
    /// Single-label only: every pair of a label and what its documents got, right ones too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusion: Option<Vec<Confusion>>,
    /// The most frequent pairs of a missed label and one that was wrongly given.
    pub most_confused: Vec<Confusion>,
    /// With a hierarchy the measures of each level. Documents and answers have the ancestors of
    /// their labels, so that `micro` is hierarchical precision, recall and F1 (Kiritchenko et al.
    /// 2005).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelResult>,
    /// 95 % intervals of the headline figures; none without documents.
    pub intervals: Option<Intervals>,
    /// The documents that the model did not abstain from, if it may abstain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// How far probabilities are from the shares of right labels, in the mean (expected calibration
    /// error over ten bins); only of a calibrated model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration_error: Option<f64>,
    /// Of the labels given: how sure the model was, and how many were right.
    pub reliability: Vec<Bin>,
    /// How good the surest answers are.
    pub coverage: Vec<Coverage>,
    /// Precision and recall of one threshold for the share of the vote.
    pub curve: Vec<Point>,
    /// The wrong labels of highest score.
    pub worst_errors: Vec<WorstError>,
    /// What tuning found, of a tuned model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningSummary>,
    /// What became of every document, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_document: Option<Vec<DocumentResult>>,
    /// Seconds by stage.
    pub stages: Vec<Stage>,
    /// The most memory that the process had in use, if the system tells.
    pub peak_memory_bytes: Option<u64>,
}

/// A document's labels and what it got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentResult {
    /// The document's identifier.
    pub id: String,
    /// The labels that it has.
    pub labels: Vec<String>,
    /// The labels that it got, best first.
    pub predicted: Vec<String>,
    /// The share of the vote of the best label.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub score: Option<f64>,
    /// The probability of the best label, of a calibrated model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probability: Option<f64>,
    /// Why it got no label.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// A wrong decision that was made with much confidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstError {
    /// The document and its decisions.
    #[serde(flatten)]
    pub document: DocumentResult,
    /// The label that it should not have got.
    pub wrong: String,
    /// The share of the vote of that label.
    pub wrong_score: f64,
    /// The training documents that voted, the best five.
    pub neighbors: Vec<ErrorNeighbor>,
}

/// A training document that voted for a wrong label, or against it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorNeighbor {
    /// Its identifier.
    pub id: String,
    /// Its similarity.
    pub similarity: f32,
    /// Its labels.
    pub labels: Vec<String>,
}

/// Takes predictions one after the other.
#[derive(Debug)]
pub struct Evaluator<'m> {
    settings: &'m Settings,
    decision: Decision,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    train: Vec<u64>,
    tallies: Vec<Tally>,
    confused: HashMap<(Option<u32>, Option<u32>), u64>,
    documents: DocumentCounts,
    documents_with_unseen: u64,
    exact: u64,
    differences: u64,
    samples: Prf,
    precision_at: PrecisionAt,
    model: &'m Model,
    outcomes: Outcomes,
    confidences: Confidences,
    per_document: Option<Vec<DocumentResult>>,
    worst: Vec<WorstError>,
}

/// So many of the worst errors are kept.
const WORST: usize = 50;
/// So many of their neighbors are kept.
const NEIGHBORS: usize = 5;

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    tp: u64,
    fp: u64,
    fnn: u64,
}

impl<'m> Evaluator<'m> {
    /// An evaluator of a classifier's predictions.
    pub fn new(classifier: &Classifier<'m>) -> Self {
        let (model, decision) = (classifier.model(), classifier.decision.clone());
        let names: Vec<String> = model.labels().iter().map(str::to_owned).collect();
        let numbers = (0..).zip(&names).map(|(number, name)| (name.clone(), number)).collect();
        let train = model.label_sizes().iter().copied().map(u64::from).collect();
        let documents = model.settings().counts.documents;
        Self {
            settings: model.settings(),
            decision,
            tallies: vec![Tally::default(); names.len()],
            names,
            numbers,
            train,
            confused: HashMap::new(),
            documents: DocumentCounts { train: documents, ..DocumentCounts::default() },
            documents_with_unseen: 0,
            exact: 0,
            differences: 0,
            samples: Prf::default(),
            precision_at: PrecisionAt::default(),
            model,
            outcomes: Outcomes::default(),
            confidences: Confidences::new(classifier.abstention.is_some()),
            per_document: None,
            worst: Vec::new(),
        }
    }

    /// Keeps the decisions on every document, for [`Evaluation::per_document`].
    #[must_use]
    pub fn with_documents(self) -> Self {
        Self { per_document: Some(Vec::new()), ..self }
    }

    /// Takes a document's identifier and labels and its prediction. `tied_at_k`: a row with the
    /// similarity of the last neighbor was left out.
    pub fn add(&mut self, id: &str, labels: &[String], prediction: &Prediction, tied_at_k: bool) {
        let labels = &*self.closed(labels);
        let due: Vec<u32> = labels.iter().map(|label| self.number(label)).collect();
        let given = &prediction.labels;
        let right = given.iter().filter(|label| due.contains(label)).count();
        let documents = &mut self.documents;
        documents.test += 1;
        documents.tied_at_k += u64::from(tied_at_k);
        documents.unlabeled += u64::from(due.is_empty());
        match prediction.reason {
            Some(Reason::NoKnownTerm) => documents.no_known_term += 1,
            Some(Reason::NoNeighbor) => documents.no_neighbor += 1,
            Some(Reason::NoLabel) => documents.no_label += 1,
            Some(Reason::Unsure) => documents.abstained += 1,
            None => {}
        }
        let unseen = due.iter().any(|&label| label as usize >= self.train.len());
        self.documents_with_unseen += u64::from(unseen);
        let missed = (due.len() - right) as u64;
        let wrong = (given.len() - right) as u64;
        self.exact += u64::from(missed + wrong == 0);
        self.differences += missed + wrong;
        self.samples.add(Prf::of(right as u64, wrong, missed), 1.0);
        for (n, sum) in [
            (1, &mut self.precision_at.one),
            (3, &mut self.precision_at.three),
            (5, &mut self.precision_at.five),
        ] {
            let first = prediction.scores.iter().take(n);
            *sum += first.filter(|score| due.contains(&score.label)).count() as f64 / n as f64;
        }
        for &label in given {
            let tally = &mut self.tallies[label as usize];
            if due.contains(&label) { tally.tp += 1 } else { tally.fp += 1 }
        }
        for &label in due.iter().filter(|label| !given.contains(label)) {
            self.tallies[label as usize].fnn += 1;
        }
        self.confuse(&due, given);
        self.outcomes.push(&due, given);
        self.confidences.add(prediction, &due);
        self.remember(id, labels, &due, prediction);
    }

    /// The labels and those above them.
    fn closed<'l>(&self, labels: &'l [String]) -> Cow<'l, [String]> {
        let hierarchy = &self.settings.hierarchy;
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

    /// Keeps the decisions if that is asked for, and the worst errors.
    fn remember(&mut self, id: &str, labels: &[String], due: &[u32], prediction: &Prediction) {
        let wrong = prediction.scores.iter().enumerate().find(|(_, score)| {
            prediction.labels.contains(&score.label) && !due.contains(&score.label)
        });
        // The first of equal ones stays.
        let worse = wrong.filter(|(_, wrong)| {
            let last = self.worst.last();
            self.worst.len() < WORST || last.is_none_or(|last| wrong.score > last.wrong_score)
        });
        if worse.is_none() && self.per_document.is_none() {
            return;
        }
        let names = |numbers: &[u32]| -> Vec<String> {
            numbers.iter().map(|&label| self.names[label as usize].clone()).collect()
        };
        let result = DocumentResult {
            id: id.to_owned(),
            labels: labels.to_vec(),
            predicted: names(&prediction.labels),
            score: prediction.scores.first().map(|score| score.score),
            probability: prediction.probabilities.first().copied(),
            reason: prediction.reason.map(|reason| reason.name().to_owned()),
        };
        if let Some((_, wrong)) = worse {
            let neighbor = |neighbor: &Neighbor| ErrorNeighbor {
                id: self.model.ids().get(neighbor.row as usize).unwrap_or_default().to_owned(),
                similarity: neighbor.similarity,
                labels: names(self.model.document_labels(neighbor.row)),
            };
            let error = WorstError {
                document: result.clone(),
                wrong: self.names[wrong.label as usize].clone(),
                wrong_score: wrong.score,
                neighbors: prediction.neighbors.iter().take(NEIGHBORS).map(neighbor).collect(),
            };
            let at = self.worst.partition_point(|other| other.wrong_score >= wrong.score);
            self.worst.insert(at, error);
            self.worst.truncate(WORST);
        }
        if let Some(documents) = &mut self.per_document {
            documents.push(result);
        }
    }

    /// Single-label: the label against what was given, right or wrong. Multi-label: every missed
    /// label against every wrong one.
    fn confuse(&mut self, due: &[u32], given: &[u32]) {
        if self.decision == Decision::Single {
            let given = given.first().copied();
            // A document of several labels is right with any of them.
            let label = given.filter(|label| due.contains(label)).or(due.first().copied());
            let pair = (label, given);
            *self.confused.entry(pair).or_default() += 1;
            return;
        }
        for &missed in due.iter().filter(|label| !given.contains(label)) {
            for &wrong in given.iter().filter(|label| !due.contains(label)) {
                *self.confused.entry((Some(missed), Some(wrong))).or_default() += 1;
            }
        }
    }

    fn number(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.numbers.get(label) {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 labels");
        self.names.push(label.to_owned());
        self.numbers.insert(label.to_owned(), number);
        self.tallies.push(Tally::default());
        number
    }

    /// The measures of all predictions taken; what that takes is one more stage. `seed` draws the documents
    /// of the intervals.
    pub fn finish(
        self,
        (k, vote): (usize, String),
        seed: u64,
        threads: &Threads,
        mut stages: Vec<Stage>,
    ) -> Evaluation {
        let start = Instant::now();
        let documents = self.documents.test as f64;
        let mean = |sum: f64| if documents > 0.0 { sum / documents } else { 0.0 };
        let mut per_label: Vec<LabelResult> = Vec::with_capacity(self.names.len());
        let mut sum = Tally::default();
        let (mut all, mut present, mut weighted) = (Prf::default(), Prf::default(), Prf::default());
        let (mut present_labels, mut support_sum) = (0u64, 0u64);
        for (label, (name, &Tally { tp, fp, fnn })) in
            self.names.iter().zip(&self.tallies).enumerate()
        {
            let (prf, support) = (Prf::of(tp, fp, fnn), tp + fnn);
            sum = Tally { tp: sum.tp + tp, fp: sum.fp + fp, fnn: sum.fnn + fnn };
            if label < self.train.len() {
                all.add(prf, 1.0);
            }
            if support > 0 {
                present.add(prf, 1.0);
                weighted.add(prf, support as f64);
                present_labels += 1;
                support_sum += support;
            }
            per_label.push(LabelResult {
                label: name.clone(),
                train: self.train.get(label).copied().unwrap_or(0),
                support,
                predicted: tp + fp,
                true_positives: tp,
                prf,
            });
        }
        per_label.sort_by(|a, b| a.label.cmp(&b.label));
        let levels = self.levels(&per_label);
        let mut unseen = self.names[self.train.len()..].to_vec();
        unseen.sort();
        let single = !self.decision.is_multi();
        let confusion = self.confusions();
        let most_confused =
            confusion.iter().filter(|pair| pair.label != pair.predicted).take(20).cloned();
        let mut evaluation = Evaluation {
            schema: "classify.evaluation/1",
            method: Method {
                k,
                vote,
                decision: self.decision,
                weighting: self.settings.weighting.to_string(),
                formula: self.settings.formula.clone(),
                terms: self.settings.counts.terms,
            },
            labels: LabelCounts {
                train: self.train.len() as u64,
                test: present_labels,
                unseen,
                documents_with_unseen: self.documents_with_unseen,
            },
            accuracy: single.then(|| mean(self.exact as f64)),
            subset_accuracy: mean(self.exact as f64),
            hamming_loss: mean(self.differences as f64) / self.names.len().max(1) as f64,
            micro: Prf::of(sum.tp, sum.fp, sum.fnn),
            macro_all: all.divided(self.train.len() as f64),
            macro_present: present.divided(present_labels as f64),
            weighted: weighted.divided(support_sum as f64),
            samples: self.samples.divided(documents),
            precision_at: PrecisionAt {
                one: mean(self.precision_at.one),
                three: mean(self.precision_at.three),
                five: mean(self.precision_at.five),
            },
            per_label,
            most_confused: most_confused.collect(),
            levels,
            confusion: single.then_some(confusion),
            documents: self.documents,
            intervals: threads.run(|| self.outcomes.intervals(self.train.len(), seed)),
            answered: self.confidences.answered(&self.documents),
            calibration_error: self.confidences.calibration_error(),
            reliability: self.confidences.reliability(),
            coverage: self.confidences.coverage(),
            curve: self.confidences.curve(sum.tp + sum.fnn),
            worst_errors: self.worst,
            tuning: self.settings.tuning.clone(),
            per_document: self.per_document,
            stages: Vec::new(),
            peak_memory_bytes: peak_memory(),
        };
        let mut stage = Stage::empty("measures, intervals");
        stage.add(self.documents.test, start);
        stages.push(stage);
        evaluation.stages = stages;
        evaluation
    }

    /// The measures of the labels of each level of the hierarchy.
    fn levels(&self, per_label: &[LabelResult]) -> Vec<LevelResult> {
        let hierarchy = &self.settings.hierarchy;
        if hierarchy.is_empty() {
            return Vec::new();
        }
        let mut levels: BTreeMap<usize, Vec<&LabelResult>> = BTreeMap::new();
        for label in per_label {
            levels.entry(hierarchy.level(&label.label)).or_default().push(label);
        }
        let result = |(level, labels): (usize, Vec<&LabelResult>)| {
            let (mut tp, mut given, mut due, mut mean) = (0, 0, 0, Prf::default());
            for label in &labels {
                tp += label.true_positives;
                given += label.predicted;
                due += label.support;
                mean.add(label.prf, 1.0);
            }
            LevelResult {
                level,
                labels: labels.len(),
                micro: Prf::of(tp, given - tp, due - tp),
                macro_all: mean.divided(labels.len() as f64),
            }
        };
        levels.into_iter().map(result).collect()
    }

    /// The pairs by falling count, then by name.
    fn confusions(&self) -> Vec<Confusion> {
        let name = |label: Option<u32>| {
            label.map(|label| self.names[label as usize].clone()).unwrap_or_default()
        };
        let mut pairs: Vec<Confusion> = self
            .confused
            .iter()
            .map(|(&(label, predicted), &count)| Confusion {
                label: name(label),
                predicted: name(predicted),
                count,
            })
            .collect();
        pairs.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| (&a.label, &a.predicted).cmp(&(&b.label, &b.predicted)))
        });
        pairs
    }
}

/// The largest resident size of this process so far, in bytes, where `/proc` tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
