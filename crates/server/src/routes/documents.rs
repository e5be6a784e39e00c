//! Requests that read the documents of the model.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::to_json;
use crate::failure::{ErrorReport, Failure};
use crate::live::LiveModel;
use crate::parameters::{DocumentId, Parameters, whole_number};
use crate::shared::Shared;

/// Maximum number of documents in a list.
const MAX_COUNT: usize = 1000;
/// Default number of documents in a list.
const DEFAULT_COUNT: usize = 20;
/// Maximum size of a text in a list, in bytes.
const MAX_TEXT_BYTES: usize = 1000;

/// A document of the model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct StoredDocument<'a> {
    id: &'a str,
    labels: Vec<&'a str>,
    /// The text, if the model stores texts. In a list, only its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// Documents of the model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct StoredDocuments<'a> {
    documents: Vec<StoredDocument<'a>>,
    /// Number of documents that match the request.
    total: usize,
}

/// Parameters of a list of documents.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParameters {
    /// List only the documents with this label.
    label: Option<String>,
    /// Position of the first document to list, from 0.
    #[serde(default, deserialize_with = "whole_number")]
    start: Option<usize>,
    /// Maximum number of documents to list: 20 by default, at most 1000.
    #[serde(default, deserialize_with = "whole_number")]
    count: Option<usize>,
}

fn stored_document(live: &LiveModel, row: u32) -> StoredDocument<'_> {
    let model = live.model();
    StoredDocument {
        id: model.ids().get(row as usize).unwrap_or_default(),
        labels: live.label_names(row),
        text: model.text(row),
    }
}

#[utoipa::path(
    get,
    path = "/v1/documents/{id}",
    params(("id" = String, Path, description = "Identifier of the document")),
    responses(
        (status = 200, description = "A document of the model", body = StoredDocument<'_>),
        (status = 404, description = "No document has the identifier", body = ErrorReport),
    )
)]
pub(crate) async fn document(
    State(shared): State<Shared>,
    DocumentId(id): DocumentId,
) -> Result<Response, Failure> {
    let live = shared.state.live();
    // The first lookup in a model builds an index of its identifiers.
    let found = tokio::task::spawn_blocking(move || match live.model().row_of(&id) {
        Some(row) => Ok(to_json(&stored_document(&live, row))),
        None => Err(Failure::NoSuchDocument(id)),
    });
    found.await.map_err(|_| Failure::Internal)?.map(json)
}

#[utoipa::path(
    get,
    path = "/v1/documents",
    params(ListParameters),
    responses((
        status = 200,
        description = "Documents of the model in order, with the beginnings of their texts",
        body = StoredDocuments<'_>,
    ))
)]
pub(crate) async fn documents(
    State(shared): State<Shared>,
    Parameters(parameters): Parameters<ListParameters>,
) -> Result<Response, Failure> {
    let live = shared.state.live();
    let listed = tokio::task::spawn_blocking(move || list(&live, parameters));
    listed.await.map_err(|_| Failure::Internal)?.map(json)
}

fn list(live: &LiveModel, parameters: ListParameters) -> Result<Vec<u8>, Failure> {
    let ListParameters { label, start, count } = parameters;
    let model = live.model();
    let label = match label {
        None => None,
        Some(name) => match (0..).zip(model.labels().iter()).find(|(_, label)| *label == name) {
            Some((number, _)) => Some(number),
            None => return Err(Failure::NoSuchLabel(name)),
        },
    };
    let has_label = |row: &u32| {
        label.is_none_or(|label| model.document_labels(*row).binary_search(&label).is_ok())
    };
    let rows: Vec<u32> = (0..).take(model.ids().len()).filter(has_label).collect();
    let count = count.unwrap_or(DEFAULT_COUNT).min(MAX_COUNT);
    let documents = rows.iter().skip(start.unwrap_or(0)).take(count).map(|&row| {
        let mut document = stored_document(live, row);
        document.text = document.text.map(|text| &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]);
        document
    });
    Ok(to_json(&StoredDocuments { documents: documents.collect(), total: rows.len() }))
}

fn json(json: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use crate::test_server::TestServer;

    #[tokio::test]
    async fn documents_are_found_by_their_identifiers_after_changes() {
        let server = TestServer::open();
        let labels = |id: &'static str| {
            let server = &server;
            async move {
                let reply = server.get(&format!("/v1/documents/{id}")).await;
                (reply.status == StatusCode::OK).then(|| reply.json()["labels"].clone())
            }
        };
        assert_eq!(labels("c").await, Some(json!(["fruit"])));
        assert_eq!(labels("d").await, None);
        let put = |id: &str, label: &str| {
            let path = format!("/v1/documents/{id}?new-labels=true");
            let body = json!({ "text": "apple", "labels": [label] }).to_string();
            let server = &server;
            async move { server.send("PUT", &path, body).await.status }
        };
        assert_eq!(put("d", "new").await, StatusCode::OK);
        assert_eq!(put("a", "other").await, StatusCode::OK);
        assert_eq!(labels("d").await, Some(json!(["new"])));
        assert_eq!(labels("a").await, Some(json!(["other"])));
        let removed = server.send("DELETE", "/v1/documents/b", "").await;
        assert_eq!(removed.status, StatusCode::OK);
        assert_eq!(labels("b").await, None);
        assert_eq!(labels("c").await, Some(json!(["fruit"])));
        let new = r#"{"labels": ["last"]}"#;
        let path = "/v1/documents/c?new-labels=true";
        assert_eq!(server.send("PATCH", path, new).await.status, StatusCode::OK);
        assert_eq!(labels("c").await, Some(json!(["last"])));
    }

    #[tokio::test]
    async fn lists_have_a_label_a_start_and_a_length() {
        let server = TestServer::open();
        let list = server.get("/v1/documents?label=fruit&start=1&count=1").await.json();
        assert_eq!(list, json!({ "documents": [{ "id": "c", "labels": ["fruit"] }], "total": 2 }));
        let all = server.get("/v1/documents").await.json();
        assert_eq!(all["documents"].as_array().unwrap().len(), 3);
        let unknown = server.get("/v1/documents?label=car").await;
        assert_eq!((unknown.status, unknown.code()), (StatusCode::NOT_FOUND, "no-label".into()));
    }
}
