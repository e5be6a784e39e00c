//! The request that describes the model.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;

use super::{json_of, to_json};
use crate::shared::Shared;

/// Description of the model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "fields of JSON")]
pub(crate) struct ModelReport<'a> {
    /// Whether the server has a pool of documents to label.
    has_pool: bool,
    /// Whether the model stores the texts of its documents.
    keeps_texts: bool,
    /// The labels, by decreasing number of documents.
    labels: Vec<LabelReport<'a>>,
    /// Whether documents can have several labels.
    multi_label: bool,
    /// Whether read requests need the token.
    protected: bool,
    /// The settings of the model, its size, and its metrics if it was tuned.
    #[schema(value_type = Object)]
    settings: Value,
    /// Whether a document consists of one text, in the field `text`.
    takes_text: bool,
    /// Version of the model, as in the header `x-model-version` of answers.
    version: &'a str,
    /// Whether documents can be changed, with the token.
    writable: bool,
}

/// A label of the model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LabelReport<'a> {
    /// Number of documents with the label.
    documents: u32,
    label: &'a str,
}

#[utoipa::path(
    get,
    path = "/v1/model",
    responses((
        status = 200,
        description = "The model's settings, size and metrics",
        body = ModelReport<'_>,
    ))
)]
pub(crate) async fn model(State(shared): State<Shared>) -> Response {
    let live = shared.state.live();
    let model = live.model();
    let mut settings = serde_json::to_value(model.settings()).unwrap_or_default();
    if let Some(settings) = settings.as_object_mut() {
        // Both are long, and clients do not need them.
        settings.remove("checksums");
        settings.remove("hierarchy");
    }
    let sizes = model.label_sizes().iter();
    let mut labels: Vec<LabelReport<'_>> = sizes
        .zip(model.labels().iter())
        .map(|(&documents, label)| LabelReport { documents, label })
        .collect();
    labels.sort_by(|a, b| b.documents.cmp(&a.documents).then(a.label.cmp(b.label)));
    let report = ModelReport {
        has_pool: shared.labeling.is_some(),
        keeps_texts: model.keeps_texts(),
        labels,
        multi_label: model.settings().decision.is_multi(),
        protected: shared.state.options.protect_reads,
        settings,
        takes_text: live.accepts_plain_text,
        version: &live.version,
        writable: shared.state.options.token.is_some(),
    };
    json_of(&live, to_json(&report))
}
