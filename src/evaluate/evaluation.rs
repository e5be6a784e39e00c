//! The result of an evaluation.

use serde::Serialize;

use super::confidence::{AnsweredDocuments, Bin, Coverage, Point};
use super::result::{
    Confusion, DocumentCounts, DocumentResult, LabelCounts, LabelResult, LevelResult, Method,
    PrecisionAt, WorstError,
};
use crate::decide::calibrate::{NoveltyLimit, Shift};
use crate::decide::outcomes::{Intervals, Prf};
use crate::model::TuningSummary;
use crate::stages::Stage;

/// The result of an evaluation; serialized as JSON with the schema `classify.evaluation/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// The name of the JSON schema.
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
    /// The share of documents whose predicted labels are exactly their correct labels.
    pub subset_accuracy: f64,
    /// The share of wrong decisions among all pairs of a document and a label.
    pub hamming_loss: f64,
    /// Metrics over all decisions (a decision is a pair of a document and a label).
    pub micro: Prf,
    /// Mean metrics over all labels of the training corpus.
    #[serde(rename = "macro")]
    pub macro_all: Prf,
    /// Mean metrics over the labels of the test corpus.
    pub macro_present: Prf,
    /// Mean metrics over the labels of the test corpus, weighted by support.
    pub weighted: Prf,
    /// Mean metrics over documents.
    pub samples: Prf,
    /// Precision of the first labels of the ranking.
    pub precision_at: PrecisionAt,
    /// The share of documents with a correct label among the three labels with the highest scores.
    pub top_3_accuracy: f64,
    /// The results of every label of the training or test corpus, ordered by name.
    pub per_label: Vec<LabelResult>,
    /// How often each label was predicted for the documents of each label; single-label only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusion: Option<Vec<Confusion>>,
    /// The most frequent pairs of a missed label and a wrong label.
    pub most_confused: Vec<Confusion>,
    /// The metrics of each level of the label hierarchy, if there is one. Labels and predictions
    /// then include the ancestors of each label, so `micro` is hierarchical precision, recall and
    /// F1 (Kiritchenko et al. 2005).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelResult>,
    /// 95 % confidence intervals of the headline metrics; `None` without documents.
    pub intervals: Option<Intervals>,
    /// The metrics of the documents with predicted labels, if the model may abstain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<AnsweredDocuments>,
    /// The expected calibration error. This is the weighted mean over ten bins of the difference
    /// between the mean probability and the share of correct labels. `None` without calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration_error: Option<f64>,
    /// The share of correct labels among the predicted labels, by confidence.
    pub reliability: Vec<Bin>,
    /// Precision of the most confident predictions.
    pub coverage: Vec<Coverage>,
    /// Precision and recall at each value of a single threshold on the share of the vote.
    pub curve: Vec<Point>,
    /// The wrong predictions with the highest scores.
    pub worst_errors: Vec<WorstError>,
    /// The results of tuning, if the model was tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningSummary>,
    /// The limit for out-of-distribution documents, with the estimates from tuning.
    #[serde(rename = "foreign", skip_serializing_if = "Option::is_none")]
    pub novelty: Option<NoveltyLimit>,
    /// How the test documents differ from the training documents. `None` if they do not, if there
    /// are too few documents to say, or if the model was trained without held-out documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
    /// The prediction for every document, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_document: Option<Vec<DocumentResult>>,
    /// The duration of each stage.
    pub stages: Vec<Stage>,
    /// The peak memory of the process in bytes, if the system reports it.
    pub peak_memory_bytes: Option<u64>,
}
