//! How to read a corpus.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::encoding::OnBadUtf8;
use super::error::FieldRole;
use super::format::Format;
use super::label_cell::LABEL_FIELDS;
use super::notes::{Note, Notes};
use super::qrels::Qrels;
use super::source::SourceOptions;
use super::table::TableOptions;
use super::vectors_beside::VectorsBeside;
use crate::threads::Threads;

/// A side of the ModApte split: training stories are those with `LEWISSPLIT="TRAIN"` and
/// `TOPICS="YES"`, test stories those with `LEWISSPLIT="TEST"` and `TOPICS="YES"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Split {
    /// All stories, in the split or not.
    #[default]
    All,
    /// The 9,603 training stories.
    Train,
    /// The 3,299 test stories.
    Test,
}

/// Whether records must have labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelUse {
    /// Training and evaluation: a record without a label field is an error. An empty list of labels
    /// is allowed.
    #[default]
    Required,
    /// Prediction: labels are read if they are there.
    Optional,
}

/// What becomes of documents without an identifier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdUse {
    /// They get their number in the corpus, from 1; after a document with an identifier, `row-`
    /// and their number, since the number alone may be the identifier of another one.
    #[default]
    Numbered,
    /// They get their number, counted after this many earlier documents.
    NumberedAfter(u64),
    /// They get a prefix and their number, counted after this many earlier documents.
    Prefixed {
        /// The prefix.
        prefix: String,
        /// The number of earlier documents.
        after: u64,
    },
    /// They are an error.
    Required,
}

/// How to read a corpus. By default the format is detected and the fields have their usual names.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct ReadOptions {
    /// The format; `None` detects it for each file.
    pub format: Option<Format>,
    /// JSONL, CSV and TSV: the fields that make up the text, joined by line breaks. If empty:
    /// `text`.
    pub text_columns: Vec<String>,
    /// Whether these fields stay separate ([`Content::Fields`](super::Content::Fields)) instead of
    /// being joined.
    pub fields: bool,
    /// JSONL, CSV and TSV: the field of the labels. If empty: the first of `labels`, `label`,
    /// `category` and `class` that exists. Several fields hold 0 or 1 each, for the label that the
    /// field is named after.
    pub label_columns: Vec<String>,
    /// JSONL, CSV and TSV: the field of the identifier. `None`: `id` if it exists.
    pub id_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's weight. `None`: every document has weight 1.
    pub weight_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's group. `None`: no groups.
    pub group_column: Option<String>,
    /// What separates the labels in one CSV or TSV field or JSON string. `None`: the field is one
    /// label.
    pub label_separator: Option<String>,
    /// CSV and TSV: how rows are written.
    pub table: TableOptions,
    /// svmlight: the number of the first column, 0 or 1. `None`: 1, or 0 in a file that begins with
    /// its counts of rows, columns and labels.
    pub first_column: Option<u32>,
    /// The text encoding; `None` is UTF-8 (Reuters-21578: windows-1252).
    pub encoding: Option<&'static encoding_rs::Encoding>,
    /// What to do with invalid bytes.
    pub on_bad_utf8: OnBadUtf8,
    /// Whether records must have labels.
    pub labels: LabelUse,
    /// What becomes of records without an identifier.
    pub ids: IdUse,
    /// Labels by document identifier; they replace those of the corpus.
    pub qrels: Option<Arc<Qrels>>,
    /// Reuters-21578: which side of the ModApte split to read.
    pub split: Split,
    /// JSONL, CSV and TSV: the field of the dense vector.
    pub vector_field: Option<String>,
    /// Dense vectors in a file next to the corpus.
    pub vectors_beside: Option<Arc<VectorsBeside>>,
    /// JSONL, CSV and TSV: whether a record may be without a text, which is then empty.
    pub text_optional: bool,
    /// JSON: whether a record may have the usual fields `text`, `labels`, `id` and `weight` instead
    /// of those that the options name, or have no identifier and no weight.
    pub usual_fields: bool,
    /// Whether documents are known to be text: rows of features are then not detected.
    pub text_only: bool,
    /// Collects what is remarkable about the corpus, if it is to be reported.
    pub notes: Option<Arc<Notes>>,
    /// How many bytes a record may have: a line, a CSV record, a file in a label folder.
    /// `None`: [`limits::MAX_RECORD_BYTES`](crate::limits::MAX_RECORD_BYTES).
    pub max_record: Option<u64>,
    /// Counts the bytes read from files, before decompression, to show progress.
    pub bytes_read: Option<Arc<AtomicU64>>,
    /// The threads that read and parse: blocks of a file, files of a folder, and several files
    /// concurrently. `None`: the thread that asks for documents. The documents and errors are the
    /// same. Streams that are no files are parsed by the thread that asks, as they come.
    pub threads: Option<Threads>,
}

impl ReadOptions {
    /// How the bytes of the corpus are read.
    pub(super) fn source(&self) -> SourceOptions {
        SourceOptions {
            encoding: self.encoding,
            on_bad_utf8: self.on_bad_utf8,
            max_record: self.max_record,
            bytes_read: self.bytes_read.clone(),
            threads: self.threads.clone(),
        }
    }

    /// Notes what is remarkable, once per kind.
    pub(super) fn note(&self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &self.notes {
            notes.add(note());
        }
    }

    /// The columns of texts and labels that a table may name.
    pub(super) fn table_columns(&self) -> Vec<&str> {
        let columns = self.text_columns.iter().chain(&self.label_columns).map(String::as_str);
        let text = self.text_columns.is_empty().then_some("text");
        let label = if self.label_columns.is_empty() { &LABEL_FIELDS[..] } else { &[] };
        columns.chain(text).chain(label.iter().copied()).collect()
    }

    /// A field next to the text that looks like a part of it and is not read, if the options name
    /// no fields of text.
    pub(super) fn unread_text<'a>(
        &self,
        mut fields: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        const PARTS: [&str; 4] = ["title", "headline", "subject", "abstract"];
        if self.notes.is_none() || !self.text_columns.is_empty() {
            return None;
        }
        fields.find(|field| PARTS.contains(field))
    }

    /// What the fields of the text are for.
    pub(super) fn text_role(&self) -> FieldRole {
        if self.fields { FieldRole::SeparateText } else { FieldRole::Text }
    }
}
