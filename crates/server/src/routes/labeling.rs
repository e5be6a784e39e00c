//! Requests of the page on which people label and review documents. All of them need the token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use classify::text::corpus::normalized_label;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::changes::ChangeParameters;
use super::{json_of, to_json};
use crate::answer::Question;
use crate::body;
use crate::documents::{not_json, text_of};
use crate::failure::{ErrorReport, Failure, Resource};
use crate::labeling::Reviewer;
use crate::labeling::{Action, Decision, Finding, FoundDocument, Labeling, Progress, Query};
use crate::live::LiveModel;
use crate::names::check_labels;
use crate::parameters::{Parameters, whole_number};
use crate::queue::DocumentSource;
use crate::shared::Shared;
use crate::state::State as ModelState;

/// Maximum length of the names of clients and reviewers, in characters.
const MAX_NAME: usize = 100;
/// Default number of documents that a search returns.
const DEFAULT_COUNT: usize = 20;
/// Maximum number of documents that a search returns.
const MAX_COUNT: usize = 1000;

/// The page that sends a request.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    /// A unique name of the page, such as a random number.
    #[schema(example = "page-1")]
    client: String,
    /// The name of the reviewer, for the decisions file.
    #[serde(default)]
    #[schema(example = "Ada")]
    reviewer: String,
}

/// Decisions about documents. Either all of them are made, or none.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Decisions)]
pub(crate) struct DecisionsBody {
    #[schema(example = "page-1")]
    client: String,
    #[serde(default)]
    #[schema(example = "Ada")]
    reviewer: String,
    decisions: Vec<OneDecision>,
}

/// A decision about a document.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneDecision {
    #[schema(example = "letter-17")]
    id: String,
    decision: Action,
    /// For `label`, the labels of the document.
    #[serde(default)]
    #[schema(example = json!(["music"]))]
    labels: Vec<String>,
    /// The labels that were shown; an empty list if the document was not in the model. If they have
    /// changed, the decision is refused. If this field is missing, changes are not detected.
    seen: Option<Vec<String>>,
}

/// A document to label.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct NextDocument<'a> {
    /// The document; `null` if there is nothing to label.
    document: Option<ShownDocument<'a>>,
    /// The reason for the proposal: `unknown`, or `undecided` or `perhaps` with labels.
    #[schema(value_type = Object)]
    reason: Option<serde_json::Value>,
    /// How uncertain the prediction is, from 0 to 1.
    uncertainty: Option<f64>,
    /// The prediction and its explanation, as returned by `/v1/explain?marks=true`.
    #[schema(value_type = Object)]
    explanation: Option<&'a RawValue>,
    progress: Progress,
}

/// The next finding to review.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct NextFinding<'a> {
    /// The finding; `null` if there is nothing to review.
    finding: Option<Finding>,
    /// The documents of the finding, followed by the documents that contradict it.
    documents: Vec<ShownDocument<'a>>,
    progress: Progress,
}

/// A document that is shown to a person.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ShownDocument<'a> {
    id: &'a str,
    text: String,
    /// Its labels in the model; `null` if it is not in the model.
    labels: Option<Vec<&'a str>>,
    /// The file and line that it was read from; empty for documents of the model.
    place: String,
}

/// Result of decisions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DecisionReport {
    /// Notes on probable mistakes, for people.
    notes: Vec<String>,
    progress: Progress,
}

/// Result of withdrawing decisions.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct UndoReport {
    /// The documents whose decisions were withdrawn.
    ids: Vec<String>,
    progress: Progress,
}

/// The search: exactly one of `text`, `similar` and `label`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParameters {
    /// Find documents of the pool similar to this text.
    text: Option<String>,
    /// Find documents of the pool similar to the document with this identifier.
    similar: Option<String>,
    /// Find documents of the pool that probably have this label and are not in the model.
    label: Option<String>,
    /// Maximum number of documents: 20 by default, at most 1000.
    #[serde(default, deserialize_with = "whole_number")]
    count: Option<usize>,
}

/// Documents that were found, best first.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct FoundDocuments {
    documents: Vec<FoundDocument>,
}

#[utoipa::path(
    get,
    path = "/v1/labeling",
    security(("token" = [])),
    responses(
        (status = 200, description = "The progress of labeling", body = Progress),
        (status = 404, description = "There are no documents to label", body = ErrorReport),
    )
)]
pub(crate) async fn progress(State(shared): State<Shared>) -> Result<Response, Failure> {
    run_blocking(&shared, |labeling, state| {
        Ok(json_of(&state.live(), to_json(&labeling.progress(state))))
    })
    .await
}

#[utoipa::path(
    post,
    path = "/v1/labeling/next",
    request_body = Client,
    security(("token" = [])),
    responses((
        status = 200,
        description = "The document that the client should label next. It is not shown to others \
            for ten minutes",
        body = NextDocument<'_>,
    ))
)]
pub(crate) async fn next(
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Failure> {
    let Client { client, .. } = read_json(&shared, request).await?;
    check_name(&client)?;
    let proposed = run_blocking(&shared, move |labeling, state| Ok(labeling.next(state, &client)));
    let Some(proposal) = proposed.await? else {
        return run_blocking(&shared, |labeling, state| {
            let nothing = NextDocument {
                document: None,
                reason: None,
                uncertainty: None,
                explanation: None,
                progress: labeling.progress(state),
            };
            Ok(json_of(&state.live(), to_json(&nothing)))
        })
        .await;
    };
    let row = proposal.row;
    let labeling = shared.labeling.as_ref().ok_or(Failure::NoPool)?;
    let question = Question::with_marks();
    let document = vec![labeling.document(row).clone()];
    let answered = shared.queue.answer(document, question.mode(), DocumentSource::Request).await?;
    run_blocking(&shared, move |labeling, state| {
        let json = question.write_all(&answered, true);
        let explanation: Option<&RawValue> = serde_json::from_slice(&json).ok();
        let live = &answered.live;
        let document = labeling.document(row);
        let next = NextDocument {
            document: Some(ShownDocument {
                id: &document.id,
                text: text_of(&document.content),
                labels: None,
                place: document.place.to_string(),
            }),
            reason: Some(proposal.reason),
            uncertainty: Some(proposal.uncertainty),
            explanation,
            progress: labeling.progress(state),
        };
        Ok(json_of(live, to_json(&next)))
    })
    .await
}

#[utoipa::path(
    post,
    path = "/v1/labeling/review",
    request_body = Client,
    security(("token" = [])),
    responses((
        status = 200,
        description = "The finding that the client should review next. It is not shown to others \
            for ten minutes",
        body = NextFinding<'_>,
    ))
)]
pub(crate) async fn review(
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Failure> {
    let Client { client, .. } = read_json(&shared, request).await?;
    check_name(&client)?;
    run_blocking(&shared, move |labeling, state| {
        let finding = labeling.next_finding(state, &client);
        let live = state.live();
        let ids = finding.iter().flat_map(|finding| {
            finding.ids().iter().map(String::as_str).chain(finding.similar_ids())
        });
        let documents = ids.filter_map(|id| shown_document(&live, id)).collect();
        let progress = labeling.progress(state);
        let next = NextFinding { documents, finding: finding.clone(), progress };
        Ok(json_of(&live, to_json(&next)))
    })
    .await
}

/// Returns a document of the model.
fn shown_document<'a>(live: &'a LiveModel, id: &'a str) -> Option<ShownDocument<'a>> {
    let row = live.model().row_of(id)?;
    let text = live.model().text(row).unwrap_or_default().to_owned();
    Some(ShownDocument { id, text, labels: Some(live.label_names(row)), place: String::new() })
}

#[utoipa::path(
    post,
    path = "/v1/labeling/decisions",
    params(ChangeParameters),
    request_body = DecisionsBody,
    security(("token" = [])),
    responses(
        (status = 200, description = "The decisions are on disk", body = DecisionReport),
        (status = 409, description = "Somebody else changed a document after it was shown",
            body = ErrorReport),
    )
)]
pub(crate) async fn decide(
    State(shared): State<Shared>,
    Parameters(parameters): Parameters<ChangeParameters>,
    request: Request,
) -> Result<Response, Failure> {
    let DecisionsBody { client, reviewer, decisions } = read_json(&shared, request).await?;
    check_name(&client)?;
    check_name(&reviewer)?;
    let max = shared.state.options.max_documents;
    if decisions.len() > max {
        let what = format!("{} decisions in one request, at most {max}", decisions.len());
        return Err(Failure::TooMany(what));
    }
    let is_multi = shared.state.live().model().settings().decision.is_multi();
    let decisions = decisions.into_iter().map(|decision| decision.check(is_multi));
    let decisions = decisions.collect::<Result<Vec<Decision>, Failure>>()?;
    let reviewer = Reviewer { client, name: reviewer };
    run_change(&shared, move |labeling, state| {
        let notes = labeling.decide(state, &reviewer, &decisions, parameters.policy())?;
        let live = state.live();
        let report = DecisionReport { notes, progress: labeling.progress(state) };
        Ok(json_of(&live, to_json(&report)))
    })
    .await
}

impl OneDecision {
    fn check(self, is_multi: bool) -> Result<Decision, Failure> {
        let Self { id, decision: action, labels, seen } = self;
        let labels: Vec<String> =
            labels.iter().map(|label| normalized_label(label).into_owned()).collect();
        check_labels(&id, &labels)?;
        if action == Action::Label && labels.is_empty() && !is_multi {
            return Err(Failure::Body(format!("`{id}`: the decision `label` needs a label")));
        }
        if action != Action::Label && !labels.is_empty() {
            return Err(Failure::Body(format!("`{id}`: only the decision `label` has labels")));
        }
        Ok(Decision { id, action, labels, seen })
    }
}

#[utoipa::path(
    post,
    path = "/v1/labeling/undo",
    request_body = Client,
    security(("token" = [])),
    responses(
        (status = 200, description = "The last request of the client is withdrawn",
            body = UndoReport),
        (status = 409, description = "There is nothing to undo, or somebody else changed the \
            document", body = ErrorReport),
    )
)]
pub(crate) async fn undo(
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, Failure> {
    let Client { client, reviewer } = read_json(&shared, request).await?;
    check_name(&client)?;
    check_name(&reviewer)?;
    let reviewer = Reviewer { client, name: reviewer };
    run_change(&shared, move |labeling, state| {
        let ids = labeling.undo(state, &reviewer)?;
        let live = state.live();
        let report = UndoReport { ids, progress: labeling.progress(state) };
        Ok(json_of(&live, to_json(&report)))
    })
    .await
}

#[utoipa::path(
    get,
    path = "/v1/labeling/search",
    params(SearchParameters),
    security(("token" = [])),
    responses((
        status = 200,
        description = "The documents of the pool that were found",
        body = FoundDocuments,
    ))
)]
pub(crate) async fn search(
    State(shared): State<Shared>,
    Parameters(parameters): Parameters<SearchParameters>,
) -> Result<Response, Failure> {
    let count = parameters.count.unwrap_or(DEFAULT_COUNT).min(MAX_COUNT);
    let query = match parameters {
        SearchParameters { text: Some(text), similar: None, label: None, .. } => Query::Text(text),
        SearchParameters { similar: Some(id), text: None, label: None, .. } => Query::Similar(id),
        SearchParameters { label: Some(label), text: None, similar: None, .. } => {
            Query::Label(label)
        }
        _ => {
            let what = "expected exactly one of the parameters text, similar and label";
            return Err(Failure::Parameter(what.to_owned()));
        }
    };
    run_blocking(&shared, move |labeling, state| {
        let live = state.live();
        let documents = labeling.search(state, query, count)?;
        Ok(json_of(&live, to_json(&FoundDocuments { documents })))
    })
    .await
}

/// A labeled document, as a line of JSON that `classify train` reads.
#[derive(Debug, Serialize)]
struct ExportedDocument<'a> {
    id: &'a str,
    text: String,
    labels: Vec<&'a str>,
}

#[utoipa::path(
    get,
    path = "/v1/labeling/export",
    security(("token" = [])),
    responses((
        status = 200,
        description = "The documents of the pool that are in the model, with their labels, one \
            per line",
        content_type = "application/x-ndjson",
    ))
)]
pub(crate) async fn export(State(shared): State<Shared>) -> Result<Response, Failure> {
    run_blocking(&shared, |labeling, state| {
        let live = state.live();
        let mut lines = Vec::new();
        for (document, labels) in labeling.labeled(&live) {
            let text = text_of(&document.content);
            lines.extend(to_json(&ExportedDocument { id: &document.id, text, labels }));
            lines.push(b'\n');
        }
        Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
    })
    .await
}

/// Reads a body of JSON.
async fn read_json<T: DeserializeOwned>(shared: &Shared, request: Request) -> Result<T, Failure> {
    let mut memory = shared.memory.reservation();
    let bytes = body::read(request.into_body(), &shared.state.options, &mut memory).await?;
    serde_json::from_slice(&bytes).map_err(|error| not_json(&error))
}

fn check_name(name: &str) -> Result<(), Failure> {
    if name.chars().count() > MAX_NAME || name.contains(char::is_control) {
        let what = "a name of a client or a reviewer has more than 100 characters, or a control \
                    character";
        return Err(Failure::Body(what.to_owned()));
    }
    Ok(())
}

/// Runs a request on a separate thread.
async fn run_blocking<T: Send + 'static>(
    shared: &Shared,
    run: impl FnOnce(&Labeling, &ModelState) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let labeling = Arc::clone(shared.labeling.as_ref().ok_or(Failure::NoPool)?);
    let state = Arc::clone(&shared.state);
    let done = tokio::task::spawn_blocking(move || run(&labeling, &state));
    done.await.map_err(|_| Failure::Internal)?
}

/// Runs a request that changes documents on a separate thread.
async fn run_change<T: Send + 'static>(
    shared: &Shared,
    run: impl FnOnce(&Labeling, &ModelState) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let permit = Arc::clone(&shared.changes).try_acquire_owned();
    let permit = permit.map_err(|_| Failure::Busy(Resource::Changes))?;
    run_blocking(shared, move |labeling, state| {
        let _permit = permit;
        run(labeling, state)
    })
    .await
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use classify::text::corpus::Document;
    use serde_json::{Value, json};

    use crate::test_server::{Reply, TestServer};

    fn pool() -> Vec<Document> {
        let texts = ["apple plum", "fork and knife", "pear", "spoon with apple"];
        (0..).zip(texts).map(|(n, text)| Document::text(format!("p{n}"), text)).collect()
    }

    fn server() -> TestServer {
        TestServer::with_pool(pool())
    }

    async fn post(server: &TestServer, path: &str, body: Value) -> Reply {
        server.send("POST", &format!("/v1/labeling/{path}"), body.to_string()).await
    }

    async fn decide(server: &TestServer, decisions: Value) -> Reply {
        post(server, "decisions", json!({ "client": "a", "decisions": decisions })).await
    }

    async fn next(server: &TestServer, client: &str) -> String {
        let next = post(server, "next", json!({ "client": client })).await.json();
        next["document"]["id"].as_str().unwrap_or("nothing").to_owned()
    }

    async fn labels(server: &TestServer, id: &str) -> Value {
        server.get(&format!("/v1/documents/{id}")).await.json()["labels"].clone()
    }

    #[track_caller]
    fn refused(reply: &Reply, status: StatusCode, code: &str, message: &str) {
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!((reply.code(), reply.message()), (code.to_owned(), message.to_owned()));
    }

    #[tokio::test]
    async fn every_document_is_proposed_once() {
        let server = server();
        let mut seen = Vec::new();
        for client in ["a", "b", "c", "d", "e"] {
            seen.push(next(&server, client).await);
            assert_eq!(next(&server, client).await, *seen.last().unwrap());
        }
        assert_eq!(seen.pop().unwrap(), "nothing");
        seen.sort_unstable();
        assert_eq!(seen, ["p0", "p1", "p2", "p3"]);
    }

    #[tokio::test]
    async fn decisions_change_the_model_and_can_be_undone() {
        let server = server();
        let done = decide(
            &server,
            json!([
                { "id": "p0", "decision": "label", "labels": ["fruit"], "seen": [] },
                { "id": "a", "decision": "label", "labels": ["cutlery"], "seen": ["fruit"] },
                { "id": "b", "decision": "remove", "seen": ["cutlery"] },
                { "id": "c", "decision": "keep" },
                { "id": "p1", "decision": "skip" },
            ]),
        );
        let progress = done.await.json()["progress"].clone();
        assert_eq!((&progress["labeled"], &progress["skipped"]), (&json!(1), &json!(1)));
        assert_eq!(labels(&server, "p0").await, json!(["fruit"]));
        assert_eq!(labels(&server, "a").await, json!(["cutlery"]));
        assert_eq!(labels(&server, "b").await, Value::Null);
        let exported = server.get("/v1/labeling/export").await.json();
        assert_eq!(exported, json!({ "id": "p0", "text": "apple plum", "labels": ["fruit"] }));
        let undone = post(&server, "undo", json!({ "client": "a" })).await.json();
        assert_eq!(undone["ids"], json!(["p0", "a", "b", "c", "p1"]));
        assert_eq!(
            (&undone["progress"]["labeled"], &undone["progress"]["skipped"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(labels(&server, "a").await, json!(["fruit"]));
        assert_eq!(labels(&server, "p0").await, Value::Null);
        // The removed document is found as before.
        let knife = server.send("POST", "/v1/neighbors?texts=true", r#"{"text": "knife"}"#).await;
        let nearest = &knife.json()["neighbors"][0];
        assert_eq!((&nearest["id"], &nearest["text"]), (&json!("b"), &json!("spoon fork knife")));
        let nothing = post(&server, "undo", json!({ "client": "a" })).await;
        refused(&nothing, StatusCode::CONFLICT, "undo", "there is nothing to undo");
    }

    #[tokio::test]
    async fn decisions_survive_a_restart() {
        let mut server = server();
        let decisions = json!([
            { "id": "p0", "decision": "label", "labels": ["fruit"] },
            { "id": "p1", "decision": "skip" },
            { "id": "c", "decision": "keep" },
        ]);
        assert_eq!(decide(&server, decisions).await.status, StatusCode::OK);
        server.open_pool(pool());
        let progress = server.get("/v1/labeling").await.json();
        assert_eq!((&progress["labeled"], &progress["skipped"]), (&json!(1), &json!(1)));
        assert_eq!(progress["history"].as_array().unwrap().len(), 1);
        let mut rest = [next(&server, "a").await, next(&server, "b").await];
        rest.sort_unstable();
        assert_eq!(rest, ["p2", "p3"]);
        assert_eq!(next(&server, "c").await, "nothing");
    }

    #[tokio::test]
    async fn decisions_about_changed_documents_are_refused() {
        let server = server();
        let first = json!([{ "id": "p0", "decision": "label", "labels": ["fruit"], "seen": [] }]);
        assert_eq!(decide(&server, first.clone()).await.status, StatusCode::OK);
        let message = "somebody else already decided on document `p0`; its labels are now `fruit`";
        let again = decide(&server, first).await;
        refused(&again, StatusCode::CONFLICT, "decided", message);
        let relabel = json!({ "labels": ["cutlery"] }).to_string();
        let other = server.send("PATCH", "/v1/documents/p0", relabel).await;
        assert_eq!(other.status, StatusCode::OK);
        let undo = post(&server, "undo", json!({ "client": "a" })).await;
        refused(&undo, StatusCode::CONFLICT, "decided", &message.replace("`fruit`", "`cutlery`"));
    }

    #[tokio::test]
    async fn wrong_decisions_change_nothing() {
        let server = server();
        let right = json!({ "id": "p0", "decision": "label", "labels": ["fruit"] });
        let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
        for (wrong, status, code) in [
            (json!({ "id": "p1", "decision": "label" }), StatusCode::BAD_REQUEST, "body"),
            (json!({ "id": "p1", "decision": "undo" }), StatusCode::BAD_REQUEST, "body"),
            (json!({ "id": "p1", "decision": "praise" }), StatusCode::BAD_REQUEST, "body"),
            (json!({ "id": "p0", "decision": "skip" }), StatusCode::BAD_REQUEST, "body"),
            (json!({ "id": "x", "decision": "skip" }), StatusCode::NOT_FOUND, "no-document"),
            (json!({ "id": "p1", "decision": "remove" }), StatusCode::NOT_FOUND, "no-document"),
            (json!({ "id": "p1", "decision": "keep" }), StatusCode::NOT_FOUND, "no-document"),
            (
                json!({ "id": "c", "decision": "keep", "labels": ["fruit"] }),
                StatusCode::BAD_REQUEST,
                "body",
            ),
            (
                json!({ "id": "p1", "decision": "label", "labels": ["cutlry"] }),
                unprocessable,
                "new-label",
            ),
            (
                json!({ "id": "p1", "decision": "label", "labels": [" "] }),
                unprocessable,
                "document",
            ),
        ] {
            let reply = decide(&server, json!([right, wrong])).await;
            assert_eq!((reply.status, &*reply.code()), (status, code), "{wrong} {reply:?}");
            assert_eq!(server.get("/v1/labeling").await.json()["labeled"], 0, "{wrong}");
        }
    }

    #[tokio::test]
    async fn removed_documents_are_not_proposed_again() {
        let server = server();
        let label = json!([{ "id": "p0", "decision": "label", "labels": ["fruit"] }]);
        assert_eq!(decide(&server, label).await.status, StatusCode::OK);
        let removed = decide(&server, json!([{ "id": "p0", "decision": "remove" }])).await.json();
        assert_eq!(
            (&removed["progress"]["left"], &removed["progress"]["labeled"]),
            (&json!(3), &json!(0))
        );
        for client in ["a", "b", "c", "d"] {
            assert_ne!(next(&server, client).await, "p0");
        }
    }

    /// A new label changes the numbers of labels that come later in byte order.
    #[tokio::test]
    async fn new_labels_do_not_mix_up_the_others() {
        let server = server();
        let labels = json!(["an early label", "an early label"]);
        let body = json!({ "client": "a", "decisions": [
            { "id": "p2", "decision": "label", "labels": labels },
        ] });
        let made = post(&server, "decisions?new-labels=true", body).await;
        assert_eq!(made.status, StatusCode::OK, "{made:?}");
        let found = server.get("/v1/labeling/search?label=cutlery").await.json();
        let ids: Vec<&str> = found["documents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["p1", "p3"]);
        let undone = post(&server, "undo", json!({ "client": "a" })).await;
        assert_eq!(undone.status, StatusCode::OK, "{undone:?}");
        assert_eq!(undone.json()["progress"]["history"], json!([]));
    }

    #[tokio::test]
    async fn an_undo_restores_what_was_skipped() {
        let server = server();
        let one = |decision: &str| json!([{ "id": "p0", "decision": decision }]);
        assert_eq!(decide(&server, one("skip")).await.status, StatusCode::OK);
        let label = json!([{ "id": "p0", "decision": "label", "labels": ["fruit"] }]);
        let labeled = decide(&server, label).await.json();
        assert_eq!(
            (&labeled["progress"]["skipped"], &labeled["progress"]["left"]),
            (&json!(0), &json!(3))
        );
        let undone = post(&server, "undo", json!({ "client": "a" })).await.json();
        assert_eq!(undone["progress"]["skipped"], 1);
        // A refused undo does not block earlier ones.
        let other = json!({ "labels": ["cutlery"] }).to_string();
        let relabel = json!([{ "id": "a", "decision": "label", "labels": ["fruit"] }]);
        assert_eq!(decide(&server, relabel).await.status, StatusCode::OK);
        assert_eq!(server.send("PATCH", "/v1/documents/a", other).await.status, StatusCode::OK);
        let undo = || post(&server, "undo", json!({ "client": "a" }));
        assert_eq!(undo().await.status, StatusCode::CONFLICT);
        assert_eq!(undo().await.json()["progress"]["skipped"], 0);
    }

    #[tokio::test]
    async fn the_pool_can_be_searched() {
        let server = server();
        let found = |query: &'static str| {
            let server = &server;
            async move {
                let reply = server.get(&format!("/v1/labeling/search?{query}")).await.json();
                let documents = reply["documents"].as_array().unwrap().clone();
                let ids = documents.iter().map(|one| one["id"].as_str().unwrap().to_owned());
                ids.collect::<Vec<_>>()
            }
        };
        assert_eq!(found("text=fork").await, ["p1"]);
        assert_eq!(found("similar=b").await, ["p1", "p3"]);
        assert_eq!(found("similar=p0&count=1").await, ["p0"]);
        assert_eq!(found("label=cutlery").await, ["p1", "p3"]);
        let unknown = server.get("/v1/labeling/search?label=car").await;
        assert_eq!((unknown.status, &*unknown.code()), (StatusCode::NOT_FOUND, "no-label"));
        for query in ["", "text=a&label=b", "count=3"] {
            let reply = server.get(&format!("/v1/labeling/search?{query}")).await;
            let message = "expected exactly one of the parameters text, similar and label";
            refused(&reply, StatusCode::BAD_REQUEST, "parameter", message);
        }
    }

    #[tokio::test]
    async fn a_replaced_model_is_seen() {
        let server = server();
        server.replace_model(r#"{"id": "p2", "text": "wheel brake pear", "label": "car"}"#);
        server.shared.state.reload(crate::state::ReloadCause::Timer);
        let progress = server.get("/v1/labeling").await.json();
        assert_eq!(progress["labeled"], 1);
        assert_eq!(next(&server, "a").await.len(), 2);
        let found = server.get("/v1/labeling/search?label=car").await.json();
        assert_eq!(found["documents"], json!([]), "p2 has the label already");
    }

    #[tokio::test]
    async fn servers_without_a_pool_report_it() {
        let server = TestServer::open();
        let message = "the server was started without documents to label (--pool)";
        let reply = server.get("/v1/labeling").await;
        refused(&reply, StatusCode::NOT_FOUND, "no-pool", message);
        let named = post(&server, "next", json!({ "client": "x".repeat(101) })).await;
        assert_eq!(named.code(), "body");
    }
}
