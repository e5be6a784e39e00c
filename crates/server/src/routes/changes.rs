//! Requests that change the documents of the model.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use classify::model::{Change, ChangeCounts};
use classify::text::corpus::{IdUse, LabelUse};
use serde::{Deserialize, Serialize};

use super::{json_of, to_json};
use crate::body::{self, BodyFormat};
use crate::documents::{DocumentRules, RequestDocuments, not_json, parse};
use crate::failure::{ErrorReport, Failure, Resource};
use crate::parameters::DocumentId;
use crate::schema::{LabeledDocument, LabeledDocuments};
use crate::shared::Shared;
use crate::state;

/// Counts of a change.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ChangeReport<'a> {
    /// Number of documents that were added.
    added: u64,
    /// Number of documents in the model after the change.
    documents: usize,
    /// Number of documents whose labels were replaced.
    relabeled: u64,
    /// Number of documents that were removed.
    removed: u64,
    /// Number of documents that were replaced by added documents with the same identifiers.
    replaced: u64,
    /// Version of the model after the change, as in the header `x-model-version`.
    version: &'a str,
}

/// New labels of a document.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLabels {
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
}

#[utoipa::path(
    put,
    path = "/v1/documents/{id}",
    params(("id" = String, Path, description = "Identifier of the document")),
    request_body = LabeledDocument,
    security(("token" = [])),
    responses(
        (status = 200, description = "The document is in the model, and on disk",
            body = ChangeReport<'_>),
        (status = 401, description = "No token, or a wrong one", body = ErrorReport),
    )
)]
pub(crate) async fn put_document(
    State(shared): State<Shared>,
    DocumentId(id): DocumentId,
    request: Request,
) -> Result<Response, Failure> {
    let RequestDocuments { mut documents, is_one } =
        read_labeled_documents(&shared, request, IdUse::Numbered).await?;
    let Some(document) = documents.first_mut().filter(|_| is_one) else {
        let what = "expected one document; use POST /v1/documents for several";
        return Err(Failure::Body(what.to_owned()));
    };
    document.id = id;
    make_change(&shared, move |state| state.add(&documents)).await
}

#[utoipa::path(
    post,
    path = "/v1/documents",
    request_body = LabeledDocuments,
    security(("token" = [])),
    responses((
        status = 200,
        description = "The documents are in the model, and on disk",
        body = ChangeReport<'_>,
    ))
)]
pub(crate) async fn add_documents(
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Failure> {
    let added = read_labeled_documents(&shared, request, IdUse::Required).await?;
    make_change(&shared, move |state| state.add(&added.documents)).await
}

#[utoipa::path(
    delete,
    path = "/v1/documents/{id}",
    params(("id" = String, Path, description = "Identifier of the document")),
    security(("token" = [])),
    responses(
        (status = 200, description = "The document is no longer in the model",
            body = ChangeReport<'_>),
        (status = 404, description = "No document has the identifier", body = ErrorReport),
    )
)]
pub(crate) async fn remove_document(
    State(shared): State<Shared>,
    DocumentId(id): DocumentId,
) -> Result<Response, Failure> {
    make_change(&shared, move |state| state.change(vec![Change::Remove { id }])).await
}

#[utoipa::path(
    patch,
    path = "/v1/documents/{id}",
    params(("id" = String, Path, description = "Identifier of the document")),
    request_body = NewLabels,
    security(("token" = [])),
    responses((
        status = 200,
        description = "The document has these labels and no others",
        body = ChangeReport<'_>,
    ))
)]
pub(crate) async fn relabel_document(
    State(shared): State<Shared>,
    DocumentId(id): DocumentId,
    request: Request,
) -> Result<Response, Failure> {
    let mut memory = shared.memory.reservation();
    let bytes = body::read(request.into_body(), &shared.state.options, &mut memory).await?;
    let NewLabels { labels } = serde_json::from_slice(&bytes).map_err(|error| not_json(&error))?;
    make_change(&shared, move |state| state.change(vec![Change::Relabel { id, labels }])).await
}

/// Reads documents that must have labels.
async fn read_labeled_documents(
    shared: &Shared,
    request: Request,
    ids: IdUse,
) -> Result<RequestDocuments, Failure> {
    let options = &shared.state.options;
    let format = BodyFormat::of(request.headers())?;
    if format == BodyFormat::Text {
        return Err(Failure::TextWithoutLabels);
    }
    let mut memory = shared.memory.reservation();
    let bytes = body::read(request.into_body(), options, &mut memory).await?;
    let max_documents = options.max_documents;
    let rules = DocumentRules { max_documents, labels: LabelUse::Required, ids };
    parse(&bytes, format, &shared.state.live(), &rules)
}

/// Makes a change on a separate thread, because it writes to disk.
async fn make_change(
    shared: &Shared,
    change: impl FnOnce(&state::State) -> Result<ChangeCounts, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    let permit = Arc::clone(&shared.changes).try_acquire_owned();
    let permit = permit.map_err(|_| Failure::Busy(Resource::Changes))?;
    let state = Arc::clone(&shared.state);
    let counts = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        change(&state)
    });
    let counts = counts.await.map_err(|_| Failure::Internal)??;
    let live = shared.state.live();
    let report = ChangeReport {
        added: counts.added,
        documents: live.model().ids().len(),
        relabeled: counts.relabeled,
        removed: counts.removed,
        replaced: counts.replaced,
        version: &live.version,
    };
    Ok(json_of(&live, to_json(&report)))
}
