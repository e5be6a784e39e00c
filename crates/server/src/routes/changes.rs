//! Requests that change the documents of the model.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use classify::text::corpus::{IdUse, LabelUse, Notes, normalized_label, repeated_ids};
use serde::{Deserialize, Serialize};

use super::{json_of, to_json};
use crate::body::{self, BodyFormat};
use crate::documents::{DocumentRules, RequestDocuments, not_json, parse};
use crate::failure::{ErrorReport, Failure, Resource};
use crate::names::{NewLabelPolicy, check_added, check_labels};
use crate::notes;
use crate::parameters::{DocumentId, Parameters, yes_or_no};
use crate::schema::{LabeledDocument, LabeledDocuments};
use crate::shared::Shared;
use crate::state::{MadeChange, State as ModelState};

/// Result of a change.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ChangeReport<'a> {
    /// Number of documents that were added.
    added: u64,
    /// Number of documents in the model after the change.
    documents: usize,
    /// Notes on probable mistakes in the request, for people.
    notes: Vec<String>,
    /// Number of documents whose labels were replaced.
    relabeled: u64,
    /// Number of documents that were removed.
    removed: u64,
    /// Number of documents that were replaced by added documents with the same identifiers.
    replaced: u64,
    /// Version of the model after the change, as in the header `x-model-version`.
    version: &'a str,
}

/// Parameters of a change.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[into_params(parameter_in = Query)]
pub(crate) struct ChangeParameters {
    /// Allow labels that the model does not have. Otherwise they are refused, because a misspelled
    /// label would become a new label.
    #[serde(default, deserialize_with = "yes_or_no")]
    new_labels: Option<bool>,
}

impl ChangeParameters {
    pub(crate) fn policy(&self) -> NewLabelPolicy {
        match self.new_labels {
            Some(true) => NewLabelPolicy::Allow,
            _ => NewLabelPolicy::Refuse,
        }
    }
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
    params(("id" = String, Path, description = "Identifier of the document"), ChangeParameters),
    request_body = LabeledDocument,
    security(("token" = [])),
    responses(
        (status = 200, description = "The document is in the model, and on disk",
            body = ChangeReport<'_>),
        (status = 401, description = "The token is missing or wrong", body = ErrorReport),
        (status = 422, description = "The document does not fit the model, or a label is new",
            body = ErrorReport),
    )
)]
pub(crate) async fn put_document(
    State(shared): State<Shared>,
    DocumentId(id): DocumentId,
    Parameters(parameters): Parameters<ChangeParameters>,
    request: Request,
) -> Result<Response, Failure> {
    let LabeledRequest { documents: RequestDocuments { mut documents, is_one }, notes } =
        read_labeled_documents(&shared, request, IdUse::Numbered).await?;
    let Some(document) = documents.first_mut().filter(|_| is_one) else {
        let what = "expected one document; use POST /v1/documents for several";
        return Err(Failure::Body(what.to_owned()));
    };
    document.id = id;
    check_added(&documents)?;
    make_change(&shared, notes, move |state| state.add(&documents, parameters.policy())).await
}

#[utoipa::path(
    post,
    path = "/v1/documents",
    params(ChangeParameters),
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
    Parameters(parameters): Parameters<ChangeParameters>,
    request: Request,
) -> Result<Response, Failure> {
    let LabeledRequest { documents: RequestDocuments { documents, .. }, mut notes } =
        read_labeled_documents(&shared, request, IdUse::Required).await?;
    check_added(&documents)?;
    let repeated = repeated_ids(documents.iter().map(|document| &*document.id));
    notes.extend(repeated.as_ref().map(notes::message));
    make_change(&shared, notes, move |state| state.add(&documents, parameters.policy())).await
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
    make_change(&shared, Vec::new(), move |state| state.remove(id)).await
}

#[utoipa::path(
    patch,
    path = "/v1/documents/{id}",
    params(("id" = String, Path, description = "Identifier of the document"), ChangeParameters),
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
    Parameters(parameters): Parameters<ChangeParameters>,
    request: Request,
) -> Result<Response, Failure> {
    let mut memory = shared.memory.reservation();
    let bytes = body::read(request.into_body(), &shared.state.options, &mut memory).await?;
    let NewLabels { labels } = serde_json::from_slice(&bytes).map_err(|error| not_json(&error))?;
    let labels: Vec<String> =
        labels.iter().map(|label| normalized_label(label).into_owned()).collect();
    check_labels(&id, &labels)?;
    let policy = parameters.policy();
    make_change(&shared, Vec::new(), move |state| state.relabel(id, labels, policy)).await
}

/// Documents with their labels, and notes from reading them.
struct LabeledRequest {
    documents: RequestDocuments,
    notes: Vec<String>,
}

/// Reads documents that must have labels.
async fn read_labeled_documents(
    shared: &Shared,
    request: Request,
    ids: IdUse,
) -> Result<LabeledRequest, Failure> {
    let options = &shared.state.options;
    let format = BodyFormat::of(request.headers())?;
    if format == BodyFormat::Text {
        return Err(Failure::TextWithoutLabels);
    }
    let mut memory = shared.memory.reservation();
    let bytes = body::read(request.into_body(), options, &mut memory).await?;
    let max_documents = options.max_documents;
    let notes = Arc::new(Notes::default());
    let rules = DocumentRules {
        max_documents,
        labels: LabelUse::Required,
        ids,
        notes: Some(Arc::clone(&notes)),
    };
    let documents = parse(&bytes, format, &shared.state.live(), &rules)?;
    Ok(LabeledRequest { documents, notes: notes.take().iter().map(notes::message).collect() })
}

/// Makes a change on a separate thread, because it writes to disk. The answer contains `notes` and
/// the notes of the change.
async fn make_change(
    shared: &Shared,
    mut notes: Vec<String>,
    change: impl FnOnce(&ModelState) -> Result<MadeChange, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    let permit = Arc::clone(&shared.changes).try_acquire_owned();
    let permit = permit.map_err(|_| Failure::Busy(Resource::Changes))?;
    let state = Arc::clone(&shared.state);
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        change(&state)
    });
    let MadeChange { counts, notes: more } = made.await.map_err(|_| Failure::Internal)??;
    notes.extend(more);
    let live = shared.state.live();
    let report = ChangeReport {
        added: counts.added,
        documents: live.model().ids().len(),
        notes,
        relabeled: counts.relabeled,
        removed: counts.removed,
        replaced: counts.replaced,
        version: &live.version,
    };
    Ok(json_of(&live, to_json(&report)))
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use crate::test_server::{Reply, TestServer};

    fn refused(reply: &Reply, code: &str) {
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{reply:?}");
        assert_eq!(reply.code(), code, "{reply:?}");
    }

    #[tokio::test]
    async fn new_labels_are_refused_unless_allowed() {
        let server = TestServer::open();
        let put = json!({ "text": "apple", "labels": ["fruit", "cutlry"] }).to_string();
        let post = json!({ "documents": [{ "id": "d", "text": "pear", "labels": ["cutlry"] }] });
        let patch = json!({ "labels": ["cutlry"] }).to_string();
        let requests = [
            ("PUT", "/v1/documents/d", put),
            ("POST", "/v1/documents", post.to_string()),
            ("PATCH", "/v1/documents/a", patch),
        ];
        for (method, path, body) in &requests {
            let reply = server.send(method, path, body.clone()).await;
            refused(&reply, "new-label");
            let expected = "the model has no label `cutlry`, and nothing was changed; the closest \
                            label is `cutlery`; to add a new label, send `?new-labels=true`";
            assert_eq!(reply.message(), expected);
        }
        let model = server.get("/v1/model").await.json();
        assert_eq!(model["labels"].as_array().unwrap().len(), 2, "{model}");
        for (method, path, body) in &requests {
            let reply = server.send(method, &format!("{path}?new-labels=true"), body.clone()).await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        }
        let far = json!({ "text": "apple", "labels": ["philosophy"] }).to_string();
        let reply = server.send("PUT", "/v1/documents/d", far.clone()).await;
        assert!(!reply.message().contains("closest"), "{reply:?}");
        // Labels are normalized before they are compared.
        let spelled = json!({ "labels": [" fruit\u{a0}"] }).to_string();
        let reply = server.send("PATCH", "/v1/documents/a", spelled).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        let reply = server.send("PUT", "/v1/documents/d?new-labels=1", far).await;
        assert_eq!(reply.message(), "new-labels: `1`, expected true or false");
    }

    #[tokio::test]
    async fn changes_have_notes() {
        let server = TestServer::open();
        let notes = |reply: &Reply| {
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
            reply.json()["notes"].clone()
        };
        let put = |path: &'static str, body: serde_json::Value| {
            server.send("PUT", path, body.to_string())
        };
        let clean = put("/v1/documents/d", json!({ "text": "a plum", "labels": ["fruit"] })).await;
        assert_eq!(notes(&clean), json!([]));
        let title = json!({ "title": "Pears", "text": "a pear", "labels": ["fruit"] });
        let title = put("/v1/documents/d", title).await;
        assert_eq!(notes(&title), json!(["the field `title` is not read; put it into the text"]));
        let list = json!({ "text": "a pear", "labels": "['fruit', 'cutlery']" });
        let list = put("/v1/documents/d", list).await;
        let expected = "a label field holds the text of a list, and its items were read as labels; \
                        send a JSON array";
        assert_eq!(notes(&list), json!([expected]));
        let unknown = json!({ "text": "wheel brake", "labels": ["Fruit"] });
        let unknown = put("/v1/documents/d?new-labels=true", unknown).await;
        let expected = [
            "the label `Fruit` is new; the closest label is `fruit`",
            "no term of document `d` is known to the model, so it can never be a neighbor; train \
             again to learn its terms",
        ];
        assert_eq!(notes(&unknown), json!(expected));
        let twice = json!({ "documents": [
            { "id": "d", "text": "plum", "labels": ["fruit"] },
            { "id": "d", "text": "spoon", "labels": ["cutlery"] },
        ] });
        let twice = server.send("POST", "/v1/documents", twice.to_string()).await;
        let expected = "1 documents of the request repeat the identifier of an earlier one, such \
                        as `d`, and replaced it";
        assert_eq!(notes(&twice), json!([expected]));
        let relabeled = json!({ "labels": ["cutlery"] }).to_string();
        let relabeled = server.send("PATCH", "/v1/documents/d", relabeled).await;
        assert_eq!(notes(&relabeled), json!([]));
        let removed = server.send("DELETE", "/v1/documents/d", "").await;
        assert_eq!(notes(&removed), json!([]));
    }

    #[tokio::test]
    async fn names_without_a_visible_character_are_refused() {
        let server = TestServer::open();
        let put = |labels: &[&str]| json!({ "text": "plum", "labels": labels }).to_string();
        let post = |id: &str| {
            let document = json!({ "id": id, "text": "plum", "labels": ["fruit"] });
            (
                "POST",
                "/v1/documents?new-labels=true",
                json!({ "documents": [document] }).to_string(),
            )
        };
        for (method, path, body) in [
            ("PUT", "/v1/documents/d?new-labels=true", put(&["a\0b"])),
            ("PUT", "/v1/documents/d?new-labels=true", put(&["\u{200b}\u{a0}"])),
            ("PUT", "/v1/documents/%20?new-labels=true", put(&["fruit"])),
            ("PUT", "/v1/documents/a%00?new-labels=true", put(&["fruit"])),
            ("PATCH", "/v1/documents/a?new-labels=true", json!({ "labels": [" "] }).to_string()),
            ("PATCH", "/v1/documents/a?new-labels=true", json!({ "labels": ["\0"] }).to_string()),
            post("\0"),
            post(" \t"),
        ] {
            let reply = server.send(method, path, body.clone()).await;
            assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {body} {reply:?}");
            refused(&reply, "document");
        }
        assert_eq!(server.get("/v1/documents").await.json()["total"], 3);
    }

    #[tokio::test]
    async fn documents_have_few_labels() {
        let server = TestServer::open();
        let labels: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
        for (method, body) in [
            ("PUT", json!({ "text": "plum", "labels": labels })),
            ("PATCH", json!({ "labels": labels })),
        ] {
            let path = "/v1/documents/a?new-labels=true";
            let reply = server.send(method, path, body.to_string()).await;
            refused(&reply, "document");
            assert_eq!(reply.message(), "document `a`: it has more than 1000 labels");
        }
    }

    /// A journal that another process shortens must not get a hole.
    #[tokio::test]
    async fn a_shortened_journal_is_read_again() {
        let server = TestServer::open();
        let put = |id: &'static str| {
            let body = json!({ "text": "plum", "labels": ["fruit"] }).to_string();
            let server = &server;
            async move { server.send("PUT", &format!("/v1/documents/{id}"), body).await }
        };
        assert_eq!(put("d").await.status, StatusCode::OK);
        let journal = server.path("a.model.journal");
        let length = std::fs::metadata(&journal).unwrap().len();
        assert_eq!(put("e").await.status, StatusCode::OK);
        let file = std::fs::OpenOptions::new().write(true).open(&journal).unwrap();
        file.set_len(length + 1).unwrap();
        let reply = put("f").await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::SERVICE_UNAVAILABLE, "replaced".into())
        );
        server.shared.state.reload(crate::state::ReloadCause::Timer);
        assert_eq!(put("f").await.status, StatusCode::OK);
        let ids = classify::model::Model::open(&server.path("a.model")).unwrap();
        assert_eq!(ids.ids().iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "f"]);
    }
}
