//! The components of an evaluation result.

use serde::{Deserialize, Serialize};

use crate::classifier::ClassifyOptions;
use crate::decide::decision::Decision;
use crate::decide::outcomes::Prf;
use crate::model::Model;

/// The counts and metrics of one label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelResult {
    /// The label.
    pub label: String,
    /// Number of training documents with the label.
    pub train: u64,
    /// Number of test documents with the label.
    pub support: u64,
    /// Number of test documents for which the label was predicted.
    pub predicted: u64,
    /// Number of test documents with the label for which the label was predicted.
    pub true_positives: u64,
    /// Precision, recall and F1 of the label.
    #[serde(flatten)]
    pub prf: Prf,
}

/// The metrics of one level of the label hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LevelResult {
    /// Number of the level: 1 for labels without a parent, otherwise the highest level of a parent
    /// plus 1.
    pub level: usize,
    /// Number of labels.
    pub labels: usize,
    /// Metrics over all decisions on these labels.
    pub micro: Prf,
    /// Mean metrics over these labels.
    #[serde(rename = "macro")]
    pub macro_all: Prf,
}

/// A pair of a missed label and the label that was predicted instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The label of the document; empty if it has none.
    pub label: String,
    /// The label that was predicted instead; empty if no label was predicted.
    pub predicted: String,
    /// Number of documents with this pair.
    pub count: u64,
}

/// The numbers of documents of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DocumentCounts {
    /// Number of documents in the training corpus.
    pub train: u64,
    /// Number of documents in the test corpus.
    pub test: u64,
    /// Number of test documents without a known term.
    pub no_known_term: u64,
    /// Number of test documents that share no weighted term with a training document.
    pub no_neighbor: u64,
    /// Number of test documents whose neighbors have no label.
    pub no_label: u64,
    /// Number of test documents for which the model abstained.
    pub abstained: u64,
    /// Number of test documents that were rejected as out-of-distribution.
    #[serde(rename = "foreign")]
    pub out_of_distribution: u64,
    /// Number of test documents without a label.
    pub unlabeled: u64,
    /// Number of test documents with a tie at k: a further row, which is not a neighbor, has the
    /// same similarity as the last neighbor.
    pub tied_at_k: u64,
    /// Number of test documents with the same known terms as a training document, in the same
    /// proportions. Counted for cosine similarities only.
    pub copies: u64,
}

/// The numbers of labels of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LabelCounts {
    /// Number of labels in the training corpus.
    pub train: u64,
    /// Number of labels in the test corpus.
    pub test: u64,
    /// The labels that only the test corpus has, ordered by name.
    pub unseen: Vec<String>,
    /// Number of test documents that have an unseen label.
    pub documents_with_unseen: u64,
}

/// A description of the model and the options that made the predictions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Method {
    /// Number of neighbors that vote.
    pub k: usize,
    /// The weighting of votes.
    pub vote: String,
    /// The decision rule.
    pub decision: Decision,
    /// The SMART code of the weighting.
    pub weighting: String,
    /// The formula of the weighting.
    pub formula: String,
    /// Number of terms in the vocabulary.
    pub terms: u64,
    /// A description of the dense vectors and their share of the votes, if the model has dense
    /// vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<String>,
}

impl Method {
    /// Describes a model with these options.
    pub(super) fn of(model: &Model, options: &ClassifyOptions) -> Self {
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

/// The precision of the first labels of the ranking: P@1, P@3 and P@5.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PrecisionAt {
    /// Precision of the first label.
    #[serde(rename = "1")]
    pub one: f64,
    /// Precision of the first three labels.
    #[serde(rename = "3")]
    pub three: f64,
    /// Precision of the first five labels.
    #[serde(rename = "5")]
    pub five: f64,
}

/// The labels of a document, and their prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentResult {
    /// The document's identifier.
    pub id: String,
    /// The labels of the document.
    pub labels: Vec<String>,
    /// The predicted labels, best first.
    pub predicted: Vec<String>,
    /// The best label's share of the vote, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The probability of the best label; `None` without calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The expected share of correct labels among the predicted labels; `None` without calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The reason why no label was predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A wrong prediction with a high score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstError {
    /// The document and its prediction.
    #[serde(flatten)]
    pub document: DocumentResult,
    /// The wrong label.
    pub wrong: String,
    /// The wrong label's share of the vote, from 0 to 1.
    pub wrong_score: f64,
    /// The first five training documents that voted.
    pub neighbors: Vec<ErrorNeighbor>,
}

/// A training document that voted for a wrongly classified document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorNeighbor {
    /// The identifier of the training document.
    pub id: String,
    /// The similarity of the training document to the test document.
    pub similarity: f32,
    /// The labels of the training document.
    pub labels: Vec<String>,
}
