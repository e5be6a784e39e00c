//! Request bodies → documents, within limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::Failure;
use crate::state::Live;
use classify::corpus::{Content, Corpus, Document, IdUse, LabelUse, Place, ReadOptions};

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A document, or several, as JSON.
    Json,
    /// A document on each line.
    Lines,
    /// One text.
    Text,
}

impl Kind {
    /// What the headers say.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Err(Failure::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-encoding",
                "bodies are not to be compressed",
            ));
        }
        let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let given = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match given.to_ascii_lowercase().as_str() {
            "application/json" => Ok(Self::Json),
            "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Ok(Self::Lines)
            }
            "text/plain" => Ok(Self::Text),
            _ => Err(Failure::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-type",
                "the content type is to be application/json, application/x-ndjson (a document per line) or text/plain",
            )),
        }
    }
}

/// Reads a whole body.
pub(crate) async fn read(body: Body, most: usize, within: Duration) -> Result<Bytes, Failure> {
    match tokio::time::timeout(within, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            while let Some(error) = source {
                if error.is::<http_body_util::LengthLimitError>() {
                    return Err(too_large(most));
                }
                source = error.source();
            }
            Err(Failure::new(
                StatusCode::BAD_REQUEST,
                "body",
                "the body ended before it was complete",
            ))
        }
        Err(_) => Err(Failure::new(
            StatusCode::REQUEST_TIMEOUT,
            "slow-body",
            "the body did not arrive in time",
        )),
    }
}

pub(crate) fn too_large(most: usize) -> Failure {
    let what = format!("the body, or a line of it, is longer than {most} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", what)
}

/// The usual body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneText {
    #[serde(default)]
    id: Option<String>,
    text: String,
}

/// The documents of a body, and whether it was one document by itself.
pub(crate) fn documents(
    body: &[u8],
    kind: Kind,
    live: &Live,
    (most, labels, ids): (usize, LabelUse, IdUse),
) -> Result<(Vec<Document>, bool), Failure> {
    let bad = |what: String| Failure::new(StatusCode::BAD_REQUEST, "body", what);
    let text = std::str::from_utf8(body)
        .map_err(|error| bad(format!("the body is not UTF-8 at byte {}", error.valid_up_to())))?;
    match kind {
        Kind::Text if live.takes_one_text => return Ok((vec![one(None, text.to_owned())], true)),
        Kind::Text => {
            let what = "this model does not take plain text: send JSON with the fields that it was trained on";
            return Err(bad(what.to_owned()));
        }
        Kind::Lines => return Ok((lines(text.to_owned(), live, (most, labels, ids))?, false)),
        Kind::Json => {}
    }
    if live.takes_one_text
        && labels == LabelUse::Optional
        && let Ok(OneText { id, text }) = serde_json::from_str(text)
    {
        return Ok((vec![one(id, text)], true));
    }
    if let Ok(Several { documents }) = serde_json::from_str(text) {
        check_count(documents.len(), most)?;
        let all: Result<Vec<String>, Failure> =
            documents.iter().map(|document| one_line(document.get()).map_err(&bad)).collect();
        return Ok((lines(all?.join("\n"), live, (most, labels, ids))?, false));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| bad(format!("JSON: {error}")))?;
    let Value::Object(object) = value else {
        return Err(bad("expected a JSON object: a document, or {\"documents\": […]}".to_owned()));
    };
    if object.contains_key("documents") {
        return Err(bad("`documents` is to be an array, and nothing beside it".to_owned()));
    }
    Ok((lines(Value::Object(object).to_string(), live, (most, labels, ids))?, true))
}

/// Several documents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several<'a> {
    #[serde(borrow)]
    documents: Vec<&'a RawValue>,
}

/// JSON without line breaks.
fn one_line(json: &str) -> Result<String, String> {
    if !json.contains(['\n', '\r']) {
        return Ok(json.to_owned());
    }
    let value: Value = serde_json::from_str(json).map_err(|error| format!("JSON: {error}"))?;
    Ok(value.to_string())
}

fn check_count(count: usize, most: usize) -> Result<(), Failure> {
    if count <= most {
        return Ok(());
    }
    let what = format!(
        "{count} documents in one request, at most {most}: send a stream, or several requests"
    );
    Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too-many-documents", what))
}

fn one(id: Option<String>, text: String) -> Document {
    Document {
        id: id.unwrap_or_else(|| "1".to_owned()),
        content: Content::Text(text),
        labels: Vec::new(),
        weight: 1.0,
        vector: None,
        group: None,
        place: Place { source: Arc::from("request"), line: Some(1) },
    }
}

/// Reads lines of JSON.
pub(crate) fn lines(
    text: String,
    live: &Live,
    (most, labels, ids): (usize, LabelUse, IdUse),
) -> Result<Vec<Document>, Failure> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let read = ReadOptions { labels, ids, ..live.read.clone() };
    let bad = |error: classify::corpus::CorpusError| {
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "document", error.to_string())
    };
    let corpus = Corpus::from_bytes("request", text.into_bytes(), read).map_err(bad)?;
    let documents: Vec<Document> = corpus.collect::<Result<_, _>>().map_err(bad)?;
    check_count(documents.len(), most)?;
    Ok(documents)
}
