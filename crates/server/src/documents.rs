//! Parses request bodies into documents.

use std::sync::Arc;

use classify::text::corpus::{
    Content, Corpus, CorpusError, Document, IdUse, LabelUse, Notes, Place, ReadOptions,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::body::BodyFormat;
use crate::failure::{Failure, ONLY_DOCUMENT};
use crate::live::LiveModel;

/// Requirements for the documents of a request.
#[derive(Debug, Clone)]
pub(crate) struct DocumentRules {
    pub(crate) max_documents: usize,
    pub(crate) labels: LabelUse,
    pub(crate) ids: IdUse,
    /// Collects notes from reading, if they must be reported.
    pub(crate) notes: Option<Arc<Notes>>,
}

/// The documents of a request.
#[derive(Debug)]
pub(crate) struct RequestDocuments {
    pub(crate) documents: Vec<Document>,
    /// Whether the body is one document rather than a list.
    pub(crate) is_one: bool,
}

impl RequestDocuments {
    fn one(document: Document) -> Self {
        Self { documents: vec![document], is_one: true }
    }
}

/// The most common body: one text to classify.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Document)]
pub(crate) struct OneText {
    /// Identifier, which the answer repeats.
    #[serde(default)]
    id: Option<String>,
    /// The text. If the model was trained on features, send the field `features` instead. If it was
    /// trained on several columns, send one field for each column.
    #[schema(example = "The band played three new songs.")]
    text: String,
}

/// A list of documents.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentList<'a> {
    #[serde(borrow)]
    documents: Vec<&'a RawValue>,
}

/// Reads the documents of a body.
pub(crate) fn parse(
    body: &[u8],
    format: BodyFormat,
    live: &LiveModel,
    rules: &DocumentRules,
) -> Result<RequestDocuments, Failure> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Failure::Body(format!("the body is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    match format {
        BodyFormat::Json => parse_json(text, live, rules),
        BodyFormat::Text if live.accepts_plain_text => {
            Ok(RequestDocuments::one(document_of(None, text.to_owned(), live)))
        }
        BodyFormat::Text => {
            let what = "this model does not accept plain text; \
                        send JSON with the fields that it was trained on";
            Err(Failure::Body(what.to_owned()))
        }
        BodyFormat::Lines => {
            let documents = parse_lines("line", text, live, rules)?;
            Ok(RequestDocuments { documents, is_one: false })
        }
    }
}

fn parse_json(
    text: &str,
    live: &LiveModel,
    rules: &DocumentRules,
) -> Result<RequestDocuments, Failure> {
    if live.accepts_plain_text
        && rules.labels == LabelUse::Optional
        && let Ok(OneText { id, text }) = serde_json::from_str(text)
    {
        return Ok(RequestDocuments::one(document_of(id, text, live)));
    }
    if let Ok(DocumentList { documents }) = serde_json::from_str(text) {
        check_count(documents.len(), rules.max_documents)?;
        let lines: Result<Vec<String>, Failure> =
            documents.iter().map(|document| one_line(document.get())).collect();
        let documents = parse_lines("document", &lines?.join("\n"), live, rules)?;
        return Ok(RequestDocuments { documents, is_one: false });
    }
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    let Value::Object(object) = value else {
        let what = "expected a JSON object: a document, or {\"documents\": […]}";
        return Err(Failure::Body(what.to_owned()));
    };
    if object.contains_key("documents") {
        let what = "expected an array in `documents`, and no other field next to it";
        return Err(Failure::Body(what.to_owned()));
    }
    let json = Value::Object(object).to_string();
    let documents = parse_lines(ONLY_DOCUMENT, &json, live, rules)?;
    Ok(RequestDocuments { documents, is_one: true })
}

/// Reads a document from each line of JSON. Error messages refer to a line by `name` and its
/// number.
pub(crate) fn parse_lines(
    name: &str,
    text: &str,
    live: &LiveModel,
    rules: &DocumentRules,
) -> Result<Vec<Document>, Failure> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let DocumentRules { labels, ids, notes, .. } = rules.clone();
    let read_options = ReadOptions { labels, ids, notes, ..live.read_options.clone() };
    let documents = Corpus::from_bytes(name, text.into(), read_options)
        .and_then(Iterator::collect::<Result<Vec<Document>, CorpusError>>)
        .map_err(Failure::Document)?;
    check_count(documents.len(), rules.max_documents)?;
    Ok(documents)
}

pub(crate) fn not_json(error: &serde_json::Error) -> Failure {
    Failure::Body(format!("not valid JSON: {error}"))
}

/// Removes the line breaks from a JSON document.
fn one_line(json: &str) -> Result<String, Failure> {
    if !json.contains(['\n', '\r']) {
        return Ok(json.to_owned());
    }
    let value: Value = serde_json::from_str(json).map_err(|error| not_json(&error))?;
    Ok(value.to_string())
}

fn check_count(count: usize, max: usize) -> Result<(), Failure> {
    if count <= max {
        return Ok(());
    }
    let what = format!(
        "{count} documents in one request, at most {max}; send a stream, or several requests"
    );
    Err(Failure::TooMany(what))
}

fn document_of(id: Option<String>, text: String, live: &LiveModel) -> Document {
    let encoder = live.read_options.encoder.as_ref();
    Document {
        vector: encoder.and_then(|encoder| encoder.encode(&[(&text).into()]).pop()),
        id: id.unwrap_or_else(|| "1".to_owned()),
        content: Content::Text(text),
        labels: Vec::new(),
        weight: 1.0,
        group: None,
        place: Place { source: Arc::from(ONLY_DOCUMENT), line: Some(1) },
    }
}

/// Returns the text of a document, for the log and for marks.
pub(crate) fn text_of(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Fields(fields) => fields.join("\n"),
        Content::Features(_) => String::new(),
    }
}

/// Logs the texts of documents if `logs` is set.
pub(crate) fn log_texts(logs: bool, documents: &[Document]) {
    for document in documents.iter().filter(|_| logs) {
        let text = text_of(&document.content);
        tracing::info!(target: "classify::text", id = document.id, text);
    }
}
