//! Predictions and their options.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::Serialize;

use crate::decide::calibrate::{ConfidenceLimit, NoveltyLimit};
use crate::decide::decision::Decision;
use crate::decide::vote::{LabelScore, Vote};
use crate::model::Model;
use crate::search::{Neighbor, SearchError};
use crate::text::corpus::CorpusError;

/// The reason why labels are missing or unreliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No term of the document is in the vocabulary.
    NoKnownTerm,
    /// No training document has a similarity above 0.
    NoNeighbor,
    /// No neighbor has a label.
    NoLabel,
    /// The confidence is too low, so the model abstains.
    LowConfidence,
    /// The document seems to have none of the model's labels, so the model abstains.
    OutOfDistribution,
}

impl Reason {
    /// Returns the name of the reason, as used in the output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoKnownTerm => "no-known-term",
            Self::NoNeighbor => "no-neighbor",
            Self::NoLabel => "no-label",
            Self::LowConfidence => "unsure",
            Self::OutOfDistribution => "foreign",
        }
    }
}

/// A prediction with names, which are borrowed from the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction<'a> {
    /// The labels, best first.
    pub labels: Vec<&'a str>,
    /// Every label with a vote, by decreasing score.
    pub scores: Vec<ScoredLabel<'a>>,
    /// The expected share of correct labels among the predicted or withheld labels. This is 0
    /// without labels, and `None` if the model is not calibrated.
    pub confidence: Option<f64>,
    /// The training documents that voted, best first: found by terms if the model searches
    /// terms, otherwise by dense vectors.
    pub neighbors: Vec<NamedNeighbor<'a>>,
    /// The reason why there are no votes or no labels.
    pub reason: Option<Reason>,
}

/// A label with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredLabel<'a> {
    /// The label.
    pub label: &'a str,
    /// The label's share of the vote.
    pub score: f64,
    /// The probability that the label is correct; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// A training document that voted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedNeighbor<'a> {
    /// The identifier of the document.
    pub id: &'a str,
    /// The similarity.
    pub similarity: f32,
    /// The labels of the document.
    pub labels: Vec<&'a str>,
    /// The nonzero learned vote weights by label, if they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "worth")]
    pub vote_weights: Option<BTreeMap<&'a str, f32>>,
    /// The text of the document, if the model keeps texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
}

impl<'a> NamedNeighbor<'a> {
    pub(super) fn new(model: &'a Model, neighbor: Neighbor) -> Self {
        Self {
            id: model.ids().get(neighbor.row as usize).expect("a training document"),
            similarity: neighbor.similarity,
            labels: names(model, model.document_labels(neighbor.row)),
            vote_weights: None,
            text: model.text(neighbor.row),
        }
    }
}

/// Returns the names of labels.
fn names<'a>(model: &'a Model, labels: &[u32]) -> Vec<&'a str> {
    labels.iter().map(|&label| model.label_name(label)).collect()
}

/// A prediction with label and row numbers instead of names, for programs that process many
/// predictions. [`Model::labels`] returns the names of labels, and [`Model::ids`] returns the
/// identifiers of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawPrediction {
    /// The labels, best first.
    pub labels: Vec<u32>,
    /// Every label with a vote, by decreasing score.
    pub scores: Vec<LabelScore>,
    /// The probabilities of the labels in `scores`, or of the first of them, as
    /// [requested](ClassifyOptions::probabilities). Empty if the model is not calibrated.
    pub probabilities: Vec<f64>,
    /// The expected share of correct labels among the predicted or withheld labels. This is 0
    /// without labels, and `None` if the model is not calibrated.
    pub confidence: Option<f64>,
    /// The training documents that voted, best first: found by terms if the model searches
    /// terms, otherwise by dense vectors.
    pub neighbors: Vec<Neighbor>,
    /// The training documents found by dense vectors that voted, best first, if the model searches
    /// both.
    pub by_vectors: Vec<Neighbor>,
    /// The reason why there are no votes or no labels.
    pub reason: Option<Reason>,
    /// The number of the document's terms that are not in the vocabulary, counting repetitions.
    pub unknown_terms: usize,
}

impl RawPrediction {
    /// Returns the prediction with names.
    ///
    /// # Panics
    /// Panics if the prediction belongs to another model.
    pub fn named<'a>(&self, model: &'a Model) -> Prediction<'a> {
        Prediction {
            labels: self.label_names(model),
            scores: self.scored_labels(model).collect(),
            confidence: self.confidence,
            neighbors: self.neighbors.iter().map(|&near| NamedNeighbor::new(model, near)).collect(),
            reason: self.reason,
        }
    }

    pub(super) fn label_names<'a>(&self, model: &'a Model) -> Vec<&'a str> {
        names(model, &self.labels)
    }

    pub(super) fn scored_labels<'a>(
        &self,
        model: &'a Model,
    ) -> impl Iterator<Item = ScoredLabel<'a>> {
        self.scores.iter().enumerate().map(|(rank, found)| ScoredLabel {
            label: model.label_name(found.label),
            score: found.score,
            probability: self.probabilities.get(rank).copied(),
        })
    }
}

/// The labels for which probabilities are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Probabilities {
    /// All labels with a vote.
    #[default]
    All,
    /// The labels up to the last predicted label, and at least the first label. This is faster than
    /// `All`.
    Predicted,
}

/// The options of [`Classifier::predict_documents`](super::Classifier::predict_documents).
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifyOptions {
    /// The number of neighbors that vote.
    pub k: NonZeroUsize,
    /// The vote rule.
    pub vote: Vote,
    /// The rule that chooses labels.
    pub decision: Decision,
    /// The confidence limit below which the classifier abstains; `None` if it never abstains.
    pub abstention: Option<ConfidenceLimit>,
    /// The novelty limit above which a document is rejected; `None` if none is rejected.
    pub novelty: Option<NoveltyLimit>,
    /// The share of the votes that goes to neighbors found by dense vectors: 0 for a model without
    /// vectors, 1 for a model without terms.
    pub dense_share: f64,
    /// The labels for which probabilities are computed, if the model is calibrated.
    pub probabilities: Probabilities,
}

impl ClassifyOptions {
    /// Whether the model's limits for abstaining were learned with the same k, vote, decision and
    /// dense share.
    pub fn fits_abstention_of(&self, model: &Model) -> bool {
        let settings = model.settings();
        (self.abstention.is_none() && self.novelty.is_none())
            || (self.k == settings.k
                && self.vote == settings.vote
                && self.decision == settings.decision
                && self.dense_share.to_bits() == settings.dense_share.to_bits())
    }

    /// Returns the model's default options.
    pub fn of(model: &Model) -> Self {
        let settings = model.settings();
        Self {
            k: settings.k,
            vote: settings.vote,
            decision: settings.decision.clone(),
            abstention: settings.abstention,
            novelty: settings.novelty,
            dense_share: settings.dense_share,
            probabilities: Probabilities::All,
        }
    }
}

/// An error that prevents the classification of documents.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// A document does not match the model.
    #[error(transparent)]
    Document(#[from] CorpusError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
}
