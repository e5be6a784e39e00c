//! Shapes of bodies that no type of the server has, for the description of the server.
//!
//! Documents are read by the library, which knows their fields from the model. Predictions are
//! types of the library, which knows nothing of HTTP. Tests compare these shapes with what the
//! server reads and writes.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::documents::OneText;

/// One document, or several as `{"documents": […]}`. As `application/x-ndjson`, a document per
/// line, answered line by line. As `text/plain`, the text itself.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum OneOrMore {
    One(OneText),
    Several { documents: Vec<OneText> },
}

/// A document with its labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct LabeledDocument {
    #[schema(example = "The band played three new songs.")]
    text: String,
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// Weight of the document's vote, above 0.
    #[schema(example = 1.0)]
    weight: Option<f32>,
}

/// Several documents with their identifiers and labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct LabeledDocuments {
    documents: Vec<NamedDocument>,
}

/// A document with its identifier and labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct NamedDocument {
    /// Identifier. A document of the model with the same one is replaced.
    #[schema(example = "letter-17")]
    id: String,
    #[schema(example = "The band played three new songs.")]
    text: String,
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// Weight of the document's vote, above 0.
    #[schema(example = 1.0)]
    weight: Option<f32>,
}

/// A prediction. Several are `{"answers": […]}`, in the order of the documents.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Prediction {
    id: String,
    /// The labels, best first.
    labels: Vec<String>,
    /// Share of the votes that the best label has.
    score: Option<f64>,
    /// Probability that the best label is right, if the model is calibrated.
    probability: Option<f64>,
    /// Expected share of the given labels that are right, if the model is calibrated.
    confidence: Option<f64>,
    /// `no-known-term`, `no-neighbor`, `no-label`, `unsure` or `foreign`.
    reason: Option<String>,
    /// The best labels, given or not.
    scores: Option<Vec<ScoredLabel>>,
    /// The training documents that voted, best first.
    neighbors: Option<Vec<Neighbor>>,
    /// The neighbors by dense vectors, if the model searches terms, too.
    by_vectors: Option<Vec<Neighbor>>,
}

/// A label with its score.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct ScoredLabel {
    label: String,
    score: f64,
    probability: Option<f64>,
}

/// A training document that voted.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Neighbor {
    id: String,
    similarity: f32,
    labels: Vec<String>,
    /// Weights of the document's vote for labels, if they were learned.
    worth: Option<BTreeMap<String, f32>>,
    text: Option<String>,
}
