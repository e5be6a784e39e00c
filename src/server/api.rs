//! What the server answers to.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Path, Query, Request, State as From};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::{self, Kind};
use super::queue::{Done, Queue, Refusal, Wanted};
use super::state::{ChangeFailure, Live, State};
use super::stream::stream;
use super::{metrics, openapi, pages};
use crate::classifier::ClassifyError;
use crate::classifier::answer::{Answer, Extras};
use crate::model::{Change, ChangeError, Changed, UpdateError};
use crate::search::SearchError;
use crate::text::corpus::{Content, Document, IdUse, LabelUse};

/// Terms for and against a label in an explanation.
const TERMS: usize = 20;

/// What handlers share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) state: Arc<State>,
    pub(super) queue: Queue,
    /// Whether the server is ending.
    pub(super) ending: Arc<std::sync::atomic::AtomicBool>,
    /// Room for bodies, in KiB.
    pub(super) room: Arc<Semaphore>,
    /// Places for changes of documents, which are made one after the other.
    pub(super) writes: Arc<Semaphore>,
    /// Names that clients may call the server by; empty: all.
    pub(super) hosts: Arc<[String]>,
}

/// The most KiB of bodies that are in memory, unless one alone is longer.
pub(super) const ROOM: usize = 512 << 10;
/// The most requests that wait to change documents.
pub(super) const WRITES: usize = 64;

impl Shared {
    /// Room for a body of so many bytes.
    fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let wanted = u32::try_from(bytes.div_ceil(1024).clamp(1, ROOM)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(wanted).map_err(|_| {
            let what = "too many long requests at a time: try again later";
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "busy", what)
        })
    }
}

/// All routes.
pub(super) fn router(shared: &Shared) -> Router {
    let reads = Router::new()
        .route("/v1/predict", post(predict))
        .route("/v1/explain", post(explain))
        .route("/v1/neighbors", post(neighbors))
        .route("/v1/model", get(model))
        .route("/v1/documents", get(documents))
        .route("/v1/documents/{id}", get(document))
        .route_layer(from_fn_with_state(shared.clone(), may_read));
    let writes = Router::new()
        .route("/v1/documents", post(add_documents))
        .route(
            "/v1/documents/{id}",
            put(put_document).delete(remove_document).patch(relabel_document),
        )
        .route_layer(from_fn_with_state(shared.clone(), may_write));
    Router::new()
        .merge(reads)
        .merge(writes)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(all_metrics))
        .route("/openapi.json", get(openapi::json))
        .merge(pages::router())
        .fallback(|| async {
            Failure::new(StatusCode::NOT_FOUND, "not-found", "there is nothing at this path")
        })
        .layer(from_fn_with_state(shared.clone(), counted))
        .with_state(shared.clone())
}

/// An error as clients see it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE) {
            // The rest of the body is not read.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl std::convert::From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "busy",
                "too many documents wait for an answer: try again later",
            ),
            Refusal::Late => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "deadline",
                "there was no answer within the deadline: try again later, or with fewer documents",
            ),
            Refusal::Lost => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the search failed")
            }
            Refusal::Failed(error) => error.into(),
        }
    }
}

impl std::convert::From<ClassifyError> for Failure {
    fn from(error: ClassifyError) -> Self {
        match error {
            ClassifyError::Document(error) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "document", error.to_string())
            }
            ClassifyError::Search(error @ SearchError::OutOfMemory { .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "memory", error.to_string())
            }
            ClassifyError::Search(error) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "search", error.to_string())
            }
        }
    }
}

impl std::convert::From<ChangeFailure> for Failure {
    fn from(failure: ChangeFailure) -> Self {
        match failure {
            ChangeFailure::ReadOnly => {
                Self::new(StatusCode::FORBIDDEN, "read-only", failure.to_string())
            }
            ChangeFailure::Document(error) => error.into(),
            ChangeFailure::Update(UpdateError::Change(
                error @ ChangeError::NoSuchDocument { .. },
            )) => Self::new(StatusCode::NOT_FOUND, "no-document", error.to_string()),
            ChangeFailure::Update(error @ UpdateError::Replaced { .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "replaced", error.to_string())
            }
            ChangeFailure::Update(UpdateError::Change(error)) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "document", error.to_string())
            }
            ChangeFailure::Update(error) => {
                tracing::error!("documents were not changed: {error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "storage", error.to_string())
            }
            ChangeFailure::Closed => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "closed", failure.to_string())
            }
            ChangeFailure::Later(_) => {
                tracing::error!("{failure}");
                let code = "changed-on-disk";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, failure.to_string())
            }
        }
    }
}

/// Whether a request has the token.
fn has_token(shared: &Shared, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let word = given.and_then(|given| {
        let (scheme, word) = given.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(word)
    });
    let token = shared.state.options.token.as_ref();
    token.zip(word).is_some_and(|(token, word)| token.is(word))
}

fn unauthorized() -> Failure {
    let what = "this needs the server's token: Authorization: Bearer TOKEN";
    Failure::new(StatusCode::UNAUTHORIZED, "token", what)
}

async fn may_read(From(shared): From<Shared>, request: Request, next: Next) -> Response {
    if shared.state.options.protect_reads && !has_token(&shared, request.headers()) {
        return unauthorized().into_response();
    }
    next.run(request).await
}

async fn may_write(From(shared): From<Shared>, request: Request, next: Next) -> Response {
    if shared.state.options.token.is_none() {
        return Failure::from(ChangeFailure::ReadOnly).into_response();
    }
    if !has_token(&shared, request.headers()) {
        return unauthorized().into_response();
    }
    next.run(request).await
}

/// Counts and logs requests, and sets the headers that all answers have.
async fn counted(From(shared): From<Shared>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let path = path.unwrap_or_else(|| "other".to_owned());
    let mut response = if is_for_us(&shared.hosts, request.headers()) {
        next.run(request).await
    } else {
        let what = "this server has another name: see --allow-host";
        Failure::new(StatusCode::MISDIRECTED_REQUEST, "host", what).into_response()
    };
    let took = start.elapsed();
    let status = response.status().as_u16();
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let documents = response.extensions_mut().remove::<Answered>().map_or(0, |answered| answered.0);
    let metrics = &shared.state.metrics;
    metrics.seconds.observe(took.as_secs_f64());
    metrics.answered.inc_by(documents);
    let milliseconds = took.as_secs_f64() * 1e3;
    tracing::info!(target: "classify::request", %method, path, status, documents, milliseconds);
    metrics.requests.get_or_create(&metrics::Kind { path, status }).inc();
    response
}

/// Whether a request is for a name of the server. A web page whose name was made to mean this machine has another one.
fn is_for_us(hosts: &[String], headers: &HeaderMap) -> bool {
    if hosts.is_empty() {
        return true;
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rfind(':').filter(|&at| !host[at..].contains(']')).unwrap_or(host.len());
    hosts.iter().any(|own| own.eq_ignore_ascii_case(&host[..port]))
}

/// How many documents an answer is about.
#[derive(Debug, Clone, Copy)]
struct Answered(u64);

/// Parameters of requests about documents.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Include the scores of so many labels, given or not.
    top: Option<usize>,
    /// Comma-separated: `scores` (of all labels with a vote), `neighbors` (the training documents that voted).
    with: Option<String>,
    /// So many neighbors instead of the model's number: they vote, or are listed by `/v1/neighbors`.
    #[param(value_type = Option<usize>)]
    k: Option<std::num::NonZeroUsize>,
    /// The texts of neighbors, if the model keeps texts.
    texts: Option<bool>,
    /// Explanations: mark the terms in the texts.
    marks: Option<bool>,
}

/// What an endpoint tells of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Prediction,
    Neighbors,
    Explanation,
}

/// The most documents that one request has explained.
const MOST_EXPLAINED: usize = 64;
/// The most neighbors that an answer lists.
const MOST_LISTED: usize = 200_000;
/// The most texts of neighbors that an answer has.
const MOST_TEXTS: usize = 1_000;
/// The most neighbors that a request may ask for.
const MOST_NEIGHBORS: usize = 10_000;

impl Asked {
    fn has(&self, extra: &str) -> bool {
        self.with.as_deref().unwrap_or_default().split(',').any(|name| name == extra)
    }

    fn check(&self) -> Result<(), Failure> {
        let bad = |what: String| Failure::new(StatusCode::BAD_REQUEST, "parameter", what);
        for name in self.with.as_deref().unwrap_or_default().split(',') {
            if !matches!(name, "" | "scores" | "neighbors") {
                return Err(bad(format!(
                    "with={name}: expected scores, neighbors, or both with a comma"
                )));
            }
        }
        if self.k.is_some_and(|k| k.get() > MOST_NEIGHBORS) {
            return Err(bad(format!("k is at most {MOST_NEIGHBORS}")));
        }
        Ok(())
    }

    pub(super) fn wanted(&self, about: About) -> Wanted {
        match (about, self.k) {
            (About::Explanation, _) => Wanted::Explanations,
            (_, Some(k)) => Wanted::By(k),
            (_, None) => Wanted::Predictions,
        }
    }

    /// Refuses what would be a very long answer.
    pub(super) fn check_size(
        &self,
        about: About,
        documents: usize,
        live: &Live,
    ) -> Result<(), Failure> {
        let k = self.k.unwrap_or(live.options.k).get();
        let lists = about == About::Neighbors || self.has("neighbors");
        let listed = documents.saturating_mul(k);
        let message = if about == About::Explanation && documents > MOST_EXPLAINED {
            format!("{documents} explanations in one request, at most {MOST_EXPLAINED}")
        } else if about == About::Explanation && self.marks == Some(true) && documents > 1 {
            "marks are for one document per request".to_owned()
        } else if lists && listed > MOST_LISTED {
            format!("{k} neighbors of {documents} documents, at most {MOST_LISTED} in all")
        } else if lists && self.texts == Some(true) && listed > MOST_TEXTS {
            format!("texts of {k} neighbors of {documents} documents, at most {MOST_TEXTS} in all")
        } else {
            return Ok(());
        };
        Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too-many-documents", message))
    }

    pub(super) fn write(&self, about: About, done: &Done, at: usize, out: &mut Vec<u8>) {
        let model = done.live.model();
        let document = &done.documents[at];
        let written = if about == About::Explanation {
            let explanation = &done.explanations[at];
            if self.marks == Some(true) {
                let text = text_of(&document.content);
                let named = explanation.marked(model, &document.id, &text, TERMS);
                serde_json::to_writer(&mut *out, &named)
            } else {
                let mut named = explanation.named(model, &document.id, TERMS);
                if self.texts != Some(true) {
                    named.without_texts();
                }
                serde_json::to_writer(&mut *out, &named)
            }
        } else {
            let scores = self.has("scores").then_some(usize::MAX);
            let learned = model.learned_votes().filter(|_| done.live.options.vote.learned);
            let extras = Extras {
                scores: self.top.or(scores),
                neighbors: about == About::Neighbors || self.has("neighbors"),
                texts: self.texts == Some(true),
                learned,
            };
            let answer = Answer::new(model, &document.id, &done.predictions[at], extras);
            serde_json::to_writer(&mut *out, &answer)
        };
        // Names and numbers always become JSON, and a vector takes them.
        written.unwrap_or_default();
    }
}

fn text_of(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Fields(fields) => fields.join("\n"),
        Content::Features(_) => String::new(),
    }
}

/// What a handler gives.
type Outcome = Result<Response, Failure>;

#[utoipa::path(post, path = "/v1/predict", params(Asked), request_body = openapi::DocumentOrDocuments,
    responses((status = 200, description = "The labels of each document", body = openapi::Prediction),
    (status = 413, description = "Too large"), (status = 422, description = "A document does not fit the model"),
    (status = 429, description = "Too many requests wait")))]
pub(super) async fn predict(
    shared: From<Shared>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Outcome {
    about(shared, asked, request, About::Prediction).await
}

#[utoipa::path(post, path = "/v1/explain", params(Asked), request_body = openapi::DocumentOrDocuments,
    responses((status = 200, description = "Why each document gets its labels: schema classify.explanation/1")))]
pub(super) async fn explain(
    shared: From<Shared>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Outcome {
    about(shared, asked, request, About::Explanation).await
}

#[utoipa::path(post, path = "/v1/neighbors", params(Asked), request_body = openapi::DocumentOrDocuments,
    responses((status = 200, description = "The training documents most similar to each document", body = openapi::Prediction)))]
pub(super) async fn neighbors(
    shared: From<Shared>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Outcome {
    about(shared, asked, request, About::Neighbors).await
}

async fn about(
    From(shared): From<Shared>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
    request: Request,
    about: About,
) -> Outcome {
    let Query(asked) = asked
        .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, "parameter", error.body_text()))?;
    asked.check()?;
    let options = &shared.state.options;
    let kind = Kind::of(request.headers())?;
    if kind == Kind::Lines {
        let body = request.into_body();
        return Ok(stream(shared, asked, about, body));
    }
    let room = shared.room(length_of(request.headers(), options.most_bytes)?)?;
    let bytes = body::read(request.into_body(), options.most_bytes, options.deadline).await?;
    let live = shared.state.live();
    let limits = (options.most_documents, LabelUse::Optional, IdUse::Numbered);
    let (documents, is_one) = body::documents(&bytes, kind, &live, limits)?;
    drop(bytes);
    asked.check_size(about, documents.len(), &live)?;
    log_texts(options.log_texts, &documents);
    let wanted = asked.wanted(about);
    let done = shared.queue.answer(documents, wanted, (options.deadline, false)).await?;
    // A short answer is written at once; a long one would keep others waiting.
    if about == About::Prediction && !asked.has("neighbors") {
        return Ok(respond(&asked, about, &done, is_one));
    }
    let written = tokio::task::spawn_blocking(move || {
        let _room = room;
        respond(&asked, about, &done, is_one)
    });
    written.await.map_err(|_| internal())
}

fn internal() -> Failure {
    let what = "the request failed: see the server's log";
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", what)
}

pub(super) fn log_texts(logs: bool, documents: &[Document]) {
    for document in documents.iter().filter(|_| logs) {
        tracing::info!(target: "classify::text", id = document.id, text = text_of(&document.content));
    }
}

/// The length of a body, or the longest one if the request does not say.
fn length_of(headers: &HeaderMap, most: usize) -> Result<usize, Failure> {
    let given = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = given.and_then(|length| length.parse().ok()).unwrap_or(most);
    if length <= most { Ok(length) } else { Err(body::too_large(most)) }
}

/// Writes an answer.
fn respond(asked: &Asked, about: About, done: &Done, is_one: bool) -> Response {
    let mut out = Vec::with_capacity(256);
    if is_one {
        asked.write(about, done, 0, &mut out);
    } else {
        out.extend_from_slice(b"{\"answers\":[");
        for at in 0..done.documents.len() {
            if at > 0 {
                out.push(b',');
            }
            asked.write(about, done, at, &mut out);
        }
        out.extend_from_slice(b"]}");
    }
    out.push(b'\n');
    let mut response = ([(header::CONTENT_TYPE, "application/json")], out).into_response();
    response.extensions_mut().insert(Answered(done.documents.len() as u64));
    name_model(&mut response, &done.live);
    response
}

/// Says which model answered.
fn name_model(response: &mut Response, live: &Live) {
    if let Ok(version) = HeaderValue::from_str(&live.version) {
        response.headers_mut().insert("x-model-version", version);
    }
}

#[utoipa::path(get, path = "/v1/model", responses((status = 200, description = "The model's settings, size and figures")))]
pub(super) async fn model(From(shared): From<Shared>) -> Response {
    let live = shared.state.live();
    let model = live.model();
    let mut settings = serde_json::to_value(model.settings()).unwrap_or_default();
    if let Some(settings) = settings.as_object_mut() {
        // Long, and of no use to readers.
        settings.remove("checksums");
        settings.remove("hierarchy");
    }
    let sizes = model.label_sizes();
    let mut labels: Vec<(u32, &str)> = sizes.iter().copied().zip(model.labels().iter()).collect();
    labels.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let labels: Vec<_> =
        labels.iter().map(|(size, name)| json!({ "label": name, "documents": size })).collect();
    let body = json!({
        "version": live.version,
        "settings": settings,
        "labels": labels,
        "keeps_texts": model.keeps_texts(),
        "takes_text": live.takes_one_text,
        "writable": shared.state.options.token.is_some(),
        "protected": shared.state.options.protect_reads,
    });
    let mut response = axum::Json(body).into_response();
    name_model(&mut response, &live);
    response
}

/// A document of the model.
#[derive(Debug, Serialize)]
struct Stored<'a> {
    id: &'a str,
    labels: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[utoipa::path(get, path = "/v1/documents/{id}", responses((status = 200, description = "A document of the model"),
    (status = 404, description = "No document has the identifier")))]
pub(super) async fn document(From(shared): From<Shared>, Path(id): Path<String>) -> Outcome {
    let live = shared.state.live();
    let found = tokio::task::spawn_blocking(move || {
        let model = live.model();
        let row = model.ids().iter().position(|own| own == id)?;
        let row = u32::try_from(row).ok()?;
        let name = |&label: &u32| model.labels().get(label as usize).unwrap_or_default();
        let labels = model.document_labels(row).iter().map(name).collect();
        let stored = Stored { id: &id, labels, text: model.text(row) };
        serde_json::to_vec(&stored).ok()
    });
    match found.await {
        Ok(Some(json)) => Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response()),
        Err(_) => Err(internal()),
        Ok(None) => Err(Failure::new(
            StatusCode::NOT_FOUND,
            "no-document",
            "no document has this identifier",
        )),
    }
}

/// Which documents to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
    /// Only those with this label.
    label: Option<String>,
    /// The first one, from 0.
    #[serde(default)]
    start: usize,
    /// At most so many, up to 1000.
    #[serde(default = "a_page")]
    count: usize,
}

fn a_page() -> usize {
    20
}

#[utoipa::path(get, path = "/v1/documents", params(Listed), responses((status = 200,
    description = "Documents of the model, in order, with the beginnings of their texts, and how many there are in all")))]
pub(super) async fn documents(
    From(shared): From<Shared>,
    listed: Result<Query<Listed>, axum::extract::rejection::QueryRejection>,
) -> Outcome {
    const MOST: usize = 1000;
    const BEGINNING: usize = 1000;
    let Query(Listed { label, start, count }) = listed
        .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, "parameter", error.body_text()))?;
    let live = shared.state.live();
    let found = tokio::task::spawn_blocking(move || {
        let model = live.model();
        let name = |&label: &u32| model.labels().get(label as usize).unwrap_or_default();
        let wanted =
            label.as_deref().map(|label| model.labels().iter().position(|own| own == label));
        let wanted = match wanted {
            None => None,
            Some(None) => return None,
            Some(Some(number)) => Some(u32::try_from(number).ok()?),
        };
        let has = |row: &u32| {
            wanted.is_none_or(|wanted| model.document_labels(*row).binary_search(&wanted).is_ok())
        };
        let rows: Vec<u32> = (0..).take(model.ids().len()).filter(has).collect();
        let shown = rows.iter().skip(start).take(count.min(MOST)).map(|&row| Stored {
            id: model.ids().get(row as usize).unwrap_or_default(),
            labels: model.document_labels(row).iter().map(name).collect(),
            text: model.text(row).map(|text| &text[..text.floor_char_boundary(BEGINNING)]),
        });
        let shown: Vec<Stored<'_>> = shown.collect();
        Some(json!({ "total": rows.len(), "documents": shown }))
    });
    match found.await {
        Ok(Some(found)) => Ok(axum::Json(found).into_response()),
        Err(_) => Err(internal()),
        Ok(None) => {
            Err(Failure::new(StatusCode::NOT_FOUND, "no-label", "the model has no such label"))
        }
    }
}

/// Does what blocks, such as writing to disk, on a thread of its own.
async fn blocking(
    shared: &Shared,
    change: impl FnOnce(&State) -> Result<Changed, ChangeFailure> + Send + 'static,
) -> Outcome {
    let place = Arc::clone(&shared.writes).try_acquire_owned().map_err(|_| {
        let what = "too many changes wait: try again later";
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "busy", what)
    })?;
    let state = Arc::clone(&shared.state);
    let changed = tokio::task::spawn_blocking(move || {
        let _place = place;
        change(&state)
    });
    let changed = changed.await.map_err(|_| internal())??;
    let live = shared.state.live();
    let body = json!({
        "added": changed.added,
        "replaced": changed.replaced,
        "removed": changed.removed,
        "relabeled": changed.relabeled,
        "documents": live.model().ids().len(),
        "version": live.version,
    });
    let mut response = axum::Json(body).into_response();
    name_model(&mut response, &live);
    Ok(response)
}

async fn labeled(
    shared: &Shared,
    request: Request,
    ids: IdUse,
) -> Result<(Vec<Document>, bool), Failure> {
    let _room = shared.room(length_of(request.headers(), shared.state.options.most_bytes)?)?;
    let options = &shared.state.options;
    let kind = Kind::of(request.headers())?;
    if kind == Kind::Text {
        let what = "a document has labels: send JSON with `text` and `labels`";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", what));
    }
    let bytes = body::read(request.into_body(), options.most_bytes, options.deadline).await?;
    let limits = (options.most_documents, LabelUse::Required, ids);
    body::documents(&bytes, kind, &shared.state.live(), limits)
}

#[utoipa::path(put, path = "/v1/documents/{id}", request_body = openapi::LabeledDocument, security(("token" = [])),
    responses((status = 200, description = "It is in the model, and on disk", body = openapi::Changes),
    (status = 401, description = "No token, or a wrong one")))]
pub(super) async fn put_document(
    From(shared): From<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Outcome {
    let (mut documents, is_one) = labeled(&shared, request, IdUse::Numbered).await?;
    let (Some(document), true) = (documents.first_mut(), is_one) else {
        let what = "expected one document; POST /v1/documents takes several";
        return Err(Failure::new(StatusCode::BAD_REQUEST, "body", what));
    };
    document.id = id;
    blocking(&shared, move |state| state.add(&documents)).await
}

#[utoipa::path(post, path = "/v1/documents", request_body = openapi::LabeledDocuments, security(("token" = [])),
    responses((status = 200, description = "They are in the model, and on disk", body = openapi::Changes)))]
pub(super) async fn add_documents(From(shared): From<Shared>, request: Request) -> Outcome {
    let (documents, _) = labeled(&shared, request, IdUse::Required).await?;
    blocking(&shared, move |state| state.add(&documents)).await
}

#[utoipa::path(delete, path = "/v1/documents/{id}", security(("token" = [])),
    responses((status = 200, description = "It is not in the model any more", body = openapi::Changes),
    (status = 404, description = "No document has the identifier")))]
pub(super) async fn remove_document(From(shared): From<Shared>, Path(id): Path<String>) -> Outcome {
    blocking(&shared, move |state| state.make(vec![Change::Remove { id }])).await
}

/// The labels that a document is to have.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewLabels {
    labels: Vec<String>,
}

#[utoipa::path(patch, path = "/v1/documents/{id}", request_body = NewLabels, security(("token" = [])),
    responses((status = 200, description = "It has these labels and no others", body = openapi::Changes)))]
pub(super) async fn relabel_document(
    From(shared): From<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Outcome {
    let options = &shared.state.options;
    let bytes = body::read(request.into_body(), options.most_bytes, options.deadline).await?;
    let NewLabels { labels } = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, "body", format!("JSON: {error}")))?;
    blocking(&shared, move |state| state.make(vec![Change::Relabel { id, labels }])).await
}

async fn ready(From(shared): From<Shared>) -> Response {
    if shared.ending.load(std::sync::atomic::Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response();
    }
    "ready\n".into_response()
}

async fn all_metrics(From(shared): From<Shared>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.state.metrics.text()).into_response()
}
