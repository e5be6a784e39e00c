//! The description of the server for programs.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi, ToSchema};

use crate::api;

/// A document: the fields that the model was trained on.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Document {
    /// Comes back with the answer.
    id: Option<String>,
    /// The text; models of features have `features`, those of columns the columns' names.
    #[schema(example = "The band played three new songs.")]
    text: String,
}

/// One document, or several as `{"documents": […]}`; as `application/x-ndjson` a document per line, answered line by line; as
/// `text/plain` the text itself.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum DocumentOrDocuments {
    One(Document),
    Several { documents: Vec<Document> },
}

/// A document with its labels.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct LabeledDocument {
    #[schema(example = "The band played three new songs.")]
    text: String,
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// The weight of its vote, above 0.
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
    /// A document of the model with the same identifier is replaced.
    #[schema(example = "letter-17")]
    id: String,
    #[schema(example = "The band played three new songs.")]
    text: String,
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// The weight of its vote, above 0.
    weight: Option<f32>,
}

/// A prediction; several as `{"answers": […]}` in the order of the documents.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Prediction {
    id: String,
    /// Best first.
    labels: Vec<String>,
    /// The share of the vote of the best label.
    score: Option<f64>,
    /// The probability that the best label is right, of a calibrated model.
    probability: Option<f64>,
    /// The share of the labels given that should be right, of a calibrated model.
    confidence: Option<f64>,
    /// `no-known-term`, `no-neighbor`, `no-label`, `unsure` or `foreign`.
    reason: Option<String>,
    scores: Option<Vec<ScoredLabel>>,
    neighbors: Option<Vec<Neighbor>>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct ScoredLabel {
    label: String,
    score: f64,
    probability: Option<f64>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Neighbor {
    id: String,
    similarity: f32,
    labels: Vec<String>,
    text: Option<String>,
}

/// What a change did.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct Changes {
    added: u64,
    replaced: u64,
    removed: u64,
    relabeled: u64,
    /// How many documents the model has now.
    documents: u64,
    /// The model's version now, as in the header `x-model-version` of answers.
    version: String,
}

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "classify",
        description = "Labels for documents, with their reasons, and documents that come and go. Errors are \
            {\"error\": {\"code\", \"message\"}}.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        api::predict,
        api::explain,
        api::neighbors,
        api::model,
        api::documents,
        api::document,
        api::put_document,
        api::add_documents,
        api::remove_document,
        api::relabel_document
    ),
    components(schemas(Document, LabeledDocument, NamedDocument, ScoredLabel, Neighbor)),
    modifiers(&Tokens)
)]
struct Description;

pub(crate) async fn json() -> Response {
    static JSON: OnceLock<String> = OnceLock::new();
    let json = JSON.get_or_init(|| Description::openapi().to_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], json.as_str()).into_response()
}
