//! Options of corpus readers.

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
use super::text_encoder::TextEncoder;
use super::vectors_beside::VectorsFile;
use crate::threads::Threads;

/// A side of the ModApte split. Training stories have `LEWISSPLIT="TRAIN"` and `TOPICS="YES"`, and
/// test stories have `LEWISSPLIT="TEST"` and `TOPICS="YES"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Split {
    /// All stories, including those outside the split.
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
    /// For training and evaluation: a record without a label field is an error. An empty list of
    /// labels is allowed.
    #[default]
    Required,
    /// For prediction: labels are read if the field exists.
    Optional,
}

/// How to handle documents without an identifier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdUse {
    /// The identifier is the number of the document in the corpus, from 1. After a document with an
    /// identifier, it is `row-` and the number, because another document may have the number as its
    /// identifier.
    #[default]
    Numbered,
    /// The identifier is the number of the document plus this number of earlier documents.
    NumberedAfter(u64),
    /// The identifier is a prefix and the number of the document plus the number of earlier
    /// documents.
    Prefixed {
        /// The prefix.
        prefix: String,
        /// The number of earlier documents.
        after: u64,
    },
    /// A document without an identifier is an error.
    Required,
}

/// The options of corpus readers. By default, the format is detected and the fields have their
/// usual names.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct ReadOptions {
    /// The format, or `None` to detect it for each file.
    pub format: Option<Format>,
    /// JSONL, CSV and TSV: the fields that form the text, joined by line breaks. If empty, the
    /// field is `text`.
    pub text_columns: Vec<String>,
    /// Whether these fields remain separate ([`Content::Fields`](super::Content::Fields)) instead
    /// of being joined.
    pub fields: bool,
    /// JSONL, CSV and TSV: the label field. If empty, the first existing field among `labels`,
    /// `label`, `category` and `class`. Each of several fields contains 0 or 1 for the label of the
    /// same name.
    pub label_columns: Vec<String>,
    /// JSONL, CSV and TSV: the identifier field. `None` means `id` if it exists.
    pub id_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's weight. `None` gives every document the
    /// weight 1.
    pub weight_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's group. `None` means no groups.
    pub group_column: Option<String>,
    /// The separator of labels in a CSV or TSV field or JSON string. With `None`, the items of a
    /// JSON or Python list are labels, and any other field is one label.
    pub label_separator: Option<String>,
    /// CSV and TSV: the syntax of rows.
    pub table: TableOptions,
    /// svmlight: the number of the first column, 0 or 1. `None` means 1, or 0 in a file that begins
    /// with its counts of rows, columns and labels.
    pub first_column: Option<u32>,
    /// The text encoding. `None` means UTF-8, or windows-1252 for Reuters-21578.
    pub encoding: Option<&'static encoding_rs::Encoding>,
    /// How to handle invalid bytes.
    pub on_bad_utf8: OnBadUtf8,
    /// Whether records must have labels.
    pub labels: LabelUse,
    /// How to handle records without an identifier.
    pub ids: IdUse,
    /// Labels by document identifier. They replace the labels in the corpus.
    pub qrels: Option<Arc<Qrels>>,
    /// Reuters-21578: the side of the ModApte split to read.
    pub split: Split,
    /// JSONL, CSV and TSV: the field of the dense vector.
    pub vector_field: Option<String>,
    /// Dense vectors from a separate file.
    pub vectors_beside: Option<Arc<VectorsFile>>,
    /// Computes dense vectors from the texts. The documents of a file are encoded in batches, those
    /// of a stream one at a time, as they arrive.
    pub encoder: Option<Arc<dyn TextEncoder>>,
    /// JSONL, CSV and TSV: whether a missing text field means an empty text.
    pub text_optional: bool,
    /// JSON: whether a record may have the usual fields `text`, `labels`, `id` and `weight` instead
    /// of the fields that the options name. The identifier and the weight may then be missing.
    pub usual_fields: bool,
    /// Whether documents are known to be text. Formats of feature rows are then not detected.
    pub text_only: bool,
    /// Collects notes about the corpus, if they are to be reported.
    pub notes: Option<Arc<Notes>>,
    /// The maximum size of a record in bytes. A record is a line, a CSV record or a file in a label
    /// folder. `None` means [`limits::MAX_RECORD_BYTES`](crate::limits::MAX_RECORD_BYTES).
    pub max_record: Option<u64>,
    /// Counts the bytes read from files, before decompression, to show progress.
    pub bytes_read: Option<Arc<AtomicU64>>,
    /// The threads that read and parse blocks of a file, files of a folder, and several files
    /// concurrently. With `None`, the calling thread reads and parses. The documents and errors are
    /// the same. Streams other than files are always parsed by the calling thread, as the data
    /// arrive.
    pub threads: Option<Threads>,
}

impl ReadOptions {
    /// Returns the options for reading the bytes of the corpus.
    pub(super) fn source(&self) -> SourceOptions {
        SourceOptions {
            encoding: self.encoding,
            on_bad_utf8: self.on_bad_utf8,
            max_record: self.max_record,
            bytes_read: self.bytes_read.clone(),
            threads: self.threads.clone(),
        }
    }

    /// Adds a note, once per kind.
    pub(super) fn note(&self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &self.notes {
            notes.add(note());
        }
    }

    /// Returns the names of the text and label columns that are expected in a header.
    pub(super) fn table_columns(&self) -> Vec<&str> {
        let columns = self.text_columns.iter().chain(&self.label_columns).map(String::as_str);
        let text = self.text_columns.is_empty().then_some("text");
        let label = if self.label_columns.is_empty() { &LABEL_FIELDS[..] } else { &[] };
        columns.chain(text).chain(label.iter().copied()).collect()
    }

    /// Returns a field that probably belongs to the text but is not read, if the options name no
    /// text fields.
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

    /// Returns the role of the text fields.
    pub(super) fn text_role(&self) -> FieldRole {
        if self.fields { FieldRole::SeparateText } else { FieldRole::Text }
    }
}
