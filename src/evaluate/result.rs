//! The components of an evaluation result.

use serde::{Deserialize, Serialize};

use crate::classifier::ClassifyOptions;
use crate::decide::decision::Decision;
use crate::decide::outcomes::Prf;
use crate::model::Model;

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
    #[serde(rename = "foreign")]
    pub out_of_distribution: u64,
    /// Test documents without a label.
    pub unlabeled: u64,
    /// Test documents for which a row that is not a neighbor has the same similarity as the last
    /// neighbor.
    pub tied_at_k: u64,
    /// Test documents with the same known terms as a training document, in the same proportions.
    /// Counted for cosine similarities only.
    pub copies: u64,
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
    /// Describes the method of a model with these options.
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
    /// The probability of the best label; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// The expected share of correct labels among the predicted labels; only if the model is
    /// calibrated.
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
