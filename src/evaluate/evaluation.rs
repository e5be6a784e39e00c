//! The result of an evaluation.

use serde::Serialize;

use super::confidence::{Answered, Bin, Coverage, Point};
use super::result::{
    Confusion, DocumentCounts, DocumentResult, LabelCounts, LabelResult, LevelResult, Method,
    PrecisionAt, WorstError,
};
use crate::decide::calibrate::NoveltyLimit;
use crate::decide::outcomes::{Intervals, Prf};
use crate::model::TuningSummary;
use crate::stages::Stage;

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
    /// The share of documents whose predicted label is correct; single-label only.
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
    /// The predicted labels by confidence, and the share of them that is correct.
    pub reliability: Vec<Bin>,
    /// Precision of the most confident predictions.
    pub coverage: Vec<Coverage>,
    /// Precision and recall at each single threshold for the share of the vote.
    pub curve: Vec<Point>,
    /// The wrong predictions with the highest scores.
    pub worst_errors: Vec<WorstError>,
    /// The results of tuning, if the model was tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningSummary>,
    /// The limit for out-of-distribution documents, and the estimates of tuning.
    #[serde(rename = "foreign", skip_serializing_if = "Option::is_none")]
    pub novelty: Option<NoveltyLimit>,
    /// The prediction for every document, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_document: Option<Vec<DocumentResult>>,
    /// The duration of each stage.
    pub stages: Vec<Stage>,
    /// The peak memory of the process, if the system reports it.
    pub peak_memory_bytes: Option<u64>,
}
