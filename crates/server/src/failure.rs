//! Failed requests and their responses: an HTTP status, and JSON with a code for programs and a
//! message for people.
//!
//! This module phrases the library's errors for clients. Details for the operator, such as file
//! paths, are logged where the error occurs.

use axum::Json;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use classify::classifier::ClassifyError;
use classify::model::ChangeError;
use classify::printable::printable;
use classify::search::SearchError;
use classify::text::corpus::{CorpusError, Problem};
use serde::Serialize;

use crate::notes::closest_label;

/// Source name of the only document in a request. Error messages about it contain no number.
pub(crate) const ONLY_DOCUMENT: &str = "request";

/// Reason why a request is refused or fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server has no such path.
    NoSuchPath,
    /// The path supports other methods only.
    MethodNotAllowed {
        method: Method,
        /// The supported methods, as listed in the header `allow`.
        allowed: HeaderValue,
    },
    /// The request is addressed to another host.
    HostNotAllowed(String),
    /// The request has no token.
    NoToken,
    /// The token of the request is wrong.
    WrongToken,
    /// Documents cannot be changed, because the server has no token.
    ReadOnly,
    /// A parameter in the URL is invalid. The text names it and its valid values.
    Parameter(String),
    /// The body is compressed.
    Compressed,
    /// The body has an unknown content type.
    ContentType,
    /// The body is plain text where labels are needed.
    TextWithoutLabels,
    /// The body is larger than a limit in bytes.
    TooLarge(usize),
    /// The request has too many documents, or its answer would be too long. The text gives the
    /// reason.
    TooMany(String),
    /// The body did not arrive in time.
    SlowBody,
    /// The body ended too early.
    IncompleteBody,
    /// The body is not what the request expects. The text gives the reason.
    Body(String),
    /// A document does not fit the model.
    Document(CorpusError),
    /// A change does not fit the model.
    Change(ChangeError),
    /// A change contains a label that the model does not have.
    NewLabel {
        label: String,
        /// The most similar label of the model.
        closest: Option<String>,
    },
    /// The model has no label of this name.
    NoSuchLabel(String),
    /// The model has no document with this identifier.
    NoSuchDocument(String),
    /// A shared resource is exhausted.
    Busy(Resource),
    /// The deadline passed before there was an answer.
    Deadline,
    /// There is not enough memory for the answer.
    OutOfMemory {
        /// Number of documents in the request.
        documents: usize,
        /// Number of neighbors per document.
        k: usize,
    },
    /// The search failed.
    Search,
    /// Another process changed the model's files while documents were being changed.
    Replaced,
    /// The change could not be written.
    Storage,
    /// The server could not open the model on disk for changes.
    Closed,
    /// The change was written, but cannot be searched yet.
    NotSearchable,
    /// The server has no pool of documents to label.
    NoPool,
    /// Somebody else changed the document after it was shown.
    EditConflict {
        id: String,
        /// The current labels of the document; empty if it is not in the model.
        labels: Vec<String>,
    },
    /// The client has no decisions to withdraw.
    NothingToUndo,
    /// The removed document cannot be added again.
    CannotRestore(String),
    /// The decisions file could not be written.
    NotRecorded,
    /// The client stopped reading the answers.
    ClientGone,
    /// A thread of the server panicked.
    Internal,
}

/// Shared resource that is exhausted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Resource {
    /// Slots for documents that wait for an answer.
    Documents,
    /// Memory for request bodies.
    Bodies,
    /// Slots for changes that wait for other changes.
    Changes,
}

/// Body of an error response.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorReport {
    error: ErrorDetails,
}

/// Code and message of an error.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ErrorDetails {
    /// Kind of the error, for programs.
    #[schema(example = "too-large")]
    code: &'static str,
    /// Message for people.
    #[schema(example = "the body, or a line of it, is longer than 16777216 bytes")]
    message: String,
}

impl Failure {
    fn status(&self) -> StatusCode {
        match self {
            Self::Parameter(_) | Self::IncompleteBody | Self::Body(_) | Self::ClientGone => {
                StatusCode::BAD_REQUEST
            }
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::NoSuchPath | Self::NoSuchLabel(_) | Self::NoSuchDocument(_) | Self::NoPool => {
                StatusCode::NOT_FOUND
            }
            Self::EditConflict { .. } | Self::NothingToUndo | Self::CannotRestore(_) => {
                StatusCode::CONFLICT
            }
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge(_) | Self::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Compressed | Self::ContentType | Self::TextWithoutLabels => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::HostNotAllowed(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::Document(_) | Self::Change(_) | Self::NewLabel { .. } => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Search
            | Self::Storage
            | Self::NotSearchable
            | Self::NotRecorded
            | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Deadline | Self::OutOfMemory { .. } | Self::Replaced | Self::Closed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchPath => "not-found",
            Self::MethodNotAllowed { .. } => "method",
            Self::HostNotAllowed(_) => "host",
            Self::NoToken | Self::WrongToken => "token",
            Self::ReadOnly => "read-only",
            Self::Parameter(_) => "parameter",
            Self::Compressed => "content-encoding",
            Self::ContentType | Self::TextWithoutLabels => "content-type",
            Self::TooLarge(_) => "too-large",
            Self::TooMany(_) => "too-many-documents",
            Self::SlowBody => "slow-body",
            Self::IncompleteBody | Self::Body(_) => "body",
            Self::Document(_) | Self::Change(_) => "document",
            Self::NewLabel { .. } => "new-label",
            Self::NoSuchLabel(_) => "no-label",
            Self::NoSuchDocument(_) => "no-document",
            Self::Busy(_) => "busy",
            Self::Deadline => "deadline",
            Self::OutOfMemory { .. } => "memory",
            Self::Search => "search",
            Self::Replaced => "replaced",
            Self::Storage => "storage",
            Self::Closed => "closed",
            Self::NotSearchable => "changed-on-disk",
            Self::NoPool => "no-pool",
            Self::EditConflict { .. } => "decided",
            Self::NothingToUndo | Self::CannotRestore(_) => "undo",
            Self::NotRecorded => "not-recorded",
            Self::ClientGone => "gone",
            Self::Internal => "internal",
        }
    }

    fn message(&self) -> String {
        let text = match self {
            Self::NoSuchPath => "there is nothing at this path; /openapi.json lists all requests",
            Self::MethodNotAllowed { method, allowed } => {
                let allowed = allowed.to_str().unwrap_or_default().replace(',', ", ");
                return format!("this path does not support {method}; use {allowed}");
            }
            Self::HostNotAllowed(host) => {
                let host = printable(host);
                return format!(
                    "`Host: {host}` is not allowed; \
                     ask the operator of the server to allow this name"
                );
            }
            Self::NoToken => "the token is missing; send the header `Authorization: Bearer TOKEN`",
            Self::WrongToken => "wrong token; send the token that the server was started with",
            Self::ReadOnly => {
                "documents cannot be changed: the server was started without a token for changes"
            }
            Self::Parameter(text) | Self::TooMany(text) | Self::Body(text) => return text.clone(),
            Self::Compressed => "compressed bodies are not supported; send the body uncompressed",
            Self::ContentType => {
                "unsupported content type; use application/json, \
                 application/x-ndjson (one document per line) or text/plain"
            }
            Self::TextWithoutLabels => {
                "plain text has no labels; send JSON with the fields `text` and `labels`"
            }
            Self::TooLarge(limit) => {
                return format!("the body, or a line of it, is longer than {limit} bytes");
            }
            Self::SlowBody => "the body did not arrive in time",
            Self::IncompleteBody => "the body ended before it was complete",
            Self::Document(error) => return document_message(error),
            Self::Change(error) => return change_message(error),
            Self::NewLabel { label, closest } => {
                let closest = closest.as_deref().map(closest_label).unwrap_or_default();
                return format!(
                    "the model has no label `{}`, and nothing was changed{closest}; to add a new \
                     label, send `?new-labels=true`",
                    printable(label)
                );
            }
            Self::NoSuchLabel(label) => {
                return format!("the model has no label `{}`", printable(label));
            }
            Self::NoSuchDocument(id) => {
                return format!("the model has no document `{}`", printable(id));
            }
            Self::Busy(Resource::Documents) => "too many documents are waiting; try again later",
            Self::Busy(Resource::Bodies) => "too many large requests at a time; try again later",
            Self::Busy(Resource::Changes) => "too many changes are waiting; try again later",
            Self::Deadline => {
                "the deadline passed before there was an answer; try again later, or send fewer \
                 documents"
            }
            Self::OutOfMemory { documents, k } => {
                return format!(
                    "not enough memory for {k} neighbors of {documents} documents; \
                     send fewer documents, or set a smaller k"
                );
            }
            Self::Search => "the search failed; the server's log has the reason",
            Self::Replaced => {
                "another process changed the files of the model, and nothing was changed; \
                 try again in a second"
            }
            Self::Storage => {
                "the change could not be written, and nothing was changed; \
                 the server's log has the reason"
            }
            Self::Closed => {
                "documents cannot be changed until the server can open the model on disk; \
                 the server tries again, and its log has the reason"
            }
            Self::NotSearchable => {
                "the change was written, but answers do not include it yet; \
                 the server's log has the reason"
            }
            Self::NoPool => "the server was started without documents to label (--pool)",
            Self::EditConflict { id, labels } => return conflict_message(id, labels),
            Self::NothingToUndo => "there is nothing to undo",
            Self::CannotRestore(id) => {
                let id = printable(id);
                return format!(
                    "document `{id}` cannot be restored, because the model has dense vectors; \
                     add it again"
                );
            }
            Self::NotRecorded => {
                "the decisions file could not be written; changed labels are in the model, but \
                 other decisions are lost; the server's log has the reason"
            }
            Self::ClientGone => "the client stopped reading the answers",
            Self::Internal => "the request failed; the server's log has the reason",
        };
        text.to_owned()
    }

    /// Returns the body of the error response.
    pub(crate) fn report(&self) -> ErrorReport {
        ErrorReport { error: ErrorDetails { code: self.code(), message: self.message() } }
    }
}

/// Returns the message for a document that somebody else changed.
fn conflict_message(id: &str, labels: &[String]) -> String {
    let now = match labels {
        [] => "it has no labels now".to_owned(),
        labels => format!("its labels are now `{}`", printable(labels.join("`, `"))),
    };
    format!("somebody else already decided on document `{}`; {now}", printable(id))
}

/// Returns the message for an invalid document, with its position in the request.
fn document_message(error: &CorpusError) -> String {
    let problem = match &error.problem {
        Problem::MissingField { fields, found, .. } => {
            let field = printable(fields.join("` or `"));
            match found.as_slice() {
                [] => format!("no field `{field}`: the document is empty"),
                found => format!("no field `{field}`; the document has {}", list(found)),
            }
        }
        Problem::NoId => "the document has no field `id`".to_owned(),
        problem => printable(problem).to_string(),
    };
    match error.place.line {
        Some(line) if &*error.place.source != ONLY_DOCUMENT => {
            format!("{} {line}: {problem}", error.place.source)
        }
        _ => problem,
    }
}

/// Lists the names of the first few fields.
fn list(fields: &[String]) -> String {
    const SHOWN: usize = 12;
    let names: Vec<String> =
        fields.iter().take(SHOWN).map(|field| format!("`{}`", printable(field))).collect();
    let more = if fields.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn change_message(error: &ChangeError) -> String {
    match error {
        ChangeError::Document { id, what } => format!("document `{}`: {what}", printable(id)),
        error => error.to_string(),
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status();
        // A connection with an unread body cannot be reused.
        let leaves_body = matches!(
            self,
            Self::SlowBody | Self::TooLarge(_) | Self::TooMany(_) | Self::Busy(Resource::Bodies)
        );
        let mut response = (status, Json(self.report())).into_response();
        let headers = response.headers_mut();
        if let Self::MethodNotAllowed { allowed, .. } = self {
            headers.insert(header::ALLOW, allowed);
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if leaves_body {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<ClassifyError> for Failure {
    fn from(error: ClassifyError) -> Self {
        match error {
            ClassifyError::Document(error) => Self::Document(error),
            ClassifyError::Search(error) => error.into(),
        }
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Stopped => Self::Deadline,
            SearchError::OutOfMemory { queries, k } => Self::OutOfMemory { documents: queries, k },
            error => {
                tracing::error!("a search failed: {error}");
                Self::Search
            }
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NoSuchDocument { id } => Self::NoSuchDocument(id),
            error => Self::Change(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{HeaderMap, Request, StatusCode};

    use crate::test_server::{Reply, TestServer};

    /// Messages must not mention flags or files of the server.
    fn check_words(reply: &Reply) {
        let message = reply.message();
        for word in ["--", "classify ", "/tmp", "Failed to", "deserialize"] {
            assert!(!message.contains(word), "{message}");
        }
    }

    #[tokio::test]
    async fn parameters_are_named() {
        let server = TestServer::open();
        for (query, expected) in [
            ("k=0", "k: `0`, expected a whole number from 1 to 10000"),
            ("k=10001", "k: `10001`, expected a whole number from 1 to 10000"),
            ("k=x", "k: `x`, expected a whole number"),
            ("top=-1", "top: `-1`, expected a whole number"),
            ("texts=yes", "texts: `yes`, expected true or false"),
            ("with=all", "with: `all`, expected `scores`, `neighbors`, or both with a comma"),
        ] {
            let path = format!("/v1/predict?{query}");
            let reply = server.send("POST", &path, r#"{"text": "apple"}"#).await;
            assert_eq!((reply.status, reply.code()), (StatusCode::BAD_REQUEST, "parameter".into()));
            assert_eq!(reply.message(), expected);
        }
        let reply = server.send("POST", "/v1/predict?size=1", r#"{"text": "apple"}"#).await;
        assert!(reply.message().contains("`size`"), "{reply:?}");
        assert!(reply.message().contains("`top`"), "{reply:?}");
        check_words(&reply);
        let reply = server.get("/v1/documents?count=many").await;
        assert_eq!(reply.message(), "count: `many`, expected a whole number");
    }

    #[tokio::test]
    async fn wrong_and_missing_tokens_differ() {
        let server = TestServer::with(|options| options.protect_reads = true);
        let send = |authorization: Option<&str>| {
            let mut request = Request::builder().uri("/v1/model").header("host", "localhost");
            if let Some(authorization) = authorization {
                request = request.header("authorization", authorization);
            }
            server.request(request, Body::empty())
        };
        let missing = send(None).await;
        let wrong = send(Some("Bearer something-else")).await;
        for reply in [&missing, &wrong] {
            assert_eq!((reply.status, reply.code()), (StatusCode::UNAUTHORIZED, "token".into()));
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
            check_words(reply);
        }
        assert!(missing.message().starts_with("the token is missing"), "{missing:?}");
        assert!(wrong.message().starts_with("wrong token"), "{wrong:?}");
    }

    #[tokio::test]
    async fn other_methods_and_paths() {
        let server = TestServer::open();
        let reply = server.get("/v1/predict").await;
        assert_eq!((reply.status, reply.code()), (StatusCode::METHOD_NOT_ALLOWED, "method".into()));
        assert_eq!(reply.headers["allow"], "POST");
        assert_eq!(reply.message(), "this path does not support GET; use POST");
        let reply = server.send("POST", "/v1/documents/a", "").await;
        assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
        let expected = "this path does not support POST; use GET, HEAD, PUT, DELETE, PATCH";
        assert_eq!(reply.message(), expected);
        let reply = server.get("/v1/nothing").await;
        assert_eq!((reply.status, reply.code()), (StatusCode::NOT_FOUND, "not-found".into()));
        let reply = server.get("/v1/documents/%ff").await;
        assert_eq!((reply.status, reply.code()), (StatusCode::BAD_REQUEST, "parameter".into()));
        let host = Request::builder().uri("/v1/model").header("host", "x.example");
        let reply = server.request(host, Body::empty()).await;
        assert_eq!((reply.status, reply.code()), (StatusCode::MISDIRECTED_REQUEST, "host".into()));
        assert!(reply.message().contains("`Host: x.example`"), "{reply:?}");
        check_words(&reply);
    }

    #[tokio::test]
    async fn document_errors_are_explained() {
        let server = TestServer::open();
        for (path, body, expected) in [
            ("/v1/predict", "{}", "no field `text`: the document is empty"),
            ("/v1/predict", r#"{"txt": "a"}"#, "no field `text`; the document has `txt`"),
            (
                "/v1/predict",
                r#"{"documents": [{"text": "a"}, {"txt": "b"}]}"#,
                "document 2: no field `text`; the document has `txt`",
            ),
            (
                "/v1/documents",
                r#"{"documents": [{"text": "a", "label": "b"}]}"#,
                "the document has no field `id`",
            ),
        ] {
            let reply = server.send("POST", path, body).await;
            let code = reply.code();
            assert_eq!((reply.status, &*code), (StatusCode::UNPROCESSABLE_ENTITY, "document"));
            assert!(reply.message().ends_with(expected), "{reply:?}");
            check_words(&reply);
        }
        let unknown = server.send("DELETE", "/v1/documents/x%20y", "").await;
        assert_eq!(unknown.message(), "the model has no document `x y`");
        let unlabeled = server.send("PUT", "/v1/documents/a", r#"{"text": "a"}"#).await;
        assert_eq!(unlabeled.status, StatusCode::UNPROCESSABLE_ENTITY);
        check_words(&unlabeled);
    }

    #[tokio::test]
    async fn a_server_without_a_token_is_read_only() {
        let server = TestServer::with(|options| options.token = None);
        let reply = server.send("DELETE", "/v1/documents/a", "").await;
        assert_eq!((reply.status, reply.code()), (StatusCode::FORBIDDEN, "read-only".into()));
        check_words(&reply);
    }

    #[test]
    fn busy_servers_send_retry_after() {
        use axum::response::IntoResponse;

        use super::{Failure, Resource};

        for failure in [Failure::Busy(Resource::Bodies), Failure::Deadline, Failure::Closed] {
            let response = failure.into_response();
            let headers: &HeaderMap = response.headers();
            assert_eq!(headers["retry-after"], "1");
        }
    }
}
