//! What can be wrong with a corpus, and what to do about it.

use super::Place;

/// A problem in a corpus and its place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CorpusError {
    /// Where.
    pub place: Place,
    /// What.
    #[source]
    pub problem: Problem,
}

/// What can be wrong with a corpus.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system, or a decompressor, refused.
    #[error("cannot read: {0}")]
    Io(#[source] std::io::Error),
    /// Bytes that are no UTF-8.
    #[error("byte {byte} of the file is not valid UTF-8")]
    BadUtf8 {
        /// The offset, from 0, in the decompressed file.
        byte: u64,
    },
    /// A CSV or TSV field that is no UTF-8.
    #[error("a field is not valid UTF-8")]
    BadUtf8Field,
    /// Bytes that are no text of the encoding.
    #[error("bytes near offset {byte} of the file are not valid {encoding}")]
    BadEncoding {
        /// The offset, from 0, in the decompressed file.
        byte: u64,
        /// The encoding's name.
        encoding: &'static str,
    },
    /// A UTF-16 byte order mark.
    #[error("the file begins with a UTF-16 byte order mark")]
    Utf16,
    /// A line of a hierarchy that is neither `child<TAB>parent` nor as in RCV1-v2's file.
    #[error("neither `child<TAB>parent` nor `parent: P  child: C`")]
    BadHierarchy,
    /// A label that is its own ancestor.
    #[error("the label `{label}` is above itself")]
    LabelAboveItself {
        /// The label.
        label: String,
    },
    /// A record that is no JSON object.
    #[error("not a JSON object: {0}")]
    Json(#[source] serde_json::Error),
    /// A CSV or TSV file that cannot be parsed.
    #[error("not valid CSV: {message}")]
    Csv {
        /// The parser's sentence.
        message: String,
    },
    /// A quoted field that does not end.
    #[error("the record that begins here has a quoted field that never ends")]
    OpenQuote,
    /// A record or header without a field that is needed.
    #[error("no field `{field}`; there are: {}", list(.found))]
    MissingField {
        /// The field looked for.
        field: String,
        /// The fields that are there.
        found: Vec<String>,
    },
    /// A field of the wrong type.
    #[error("field `{field}` is {found}, expected {expected}")]
    WrongType {
        /// The field.
        field: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A label of no characters.
    #[error("an empty label")]
    EmptyLabel,
    /// A weight that is no positive number.
    #[error("weight `{found}`, expected a number above 0")]
    BadWeight {
        /// What was found.
        found: String,
    },
    /// A fastText line without a label.
    #[error("no `__label__` at the start of the line")]
    NoFastTextLabel,
    /// A svmlight or LYRL2004 item that is no `column:value`.
    #[error("`{item}` is not `column:value`")]
    BadFeature {
        /// The item.
        item: String,
    },
    /// The same column twice in a row.
    #[error("column {column} appears twice")]
    RepeatedColumn {
        /// The column as the file numbers it.
        column: u32,
    },
    /// Column 0 where columns begin at 1.
    #[error("column 0, but columns are counted from 1")]
    ColumnZero,
    /// A negative value where counts are expected.
    #[error("column {column} holds {value}, but counts are never negative")]
    NegativeCount {
        /// The column as the file numbers it.
        column: u32,
        /// The value.
        value: f32,
    },
    /// A value that is not of the format, in words.
    #[error("{found}, expected {expected}")]
    Unexpected {
        /// What was found, quoted and shortened.
        found: String,
        /// What the format wants here.
        expected: &'static str,
    },
    /// The file ends within a record.
    #[error("the file ends inside a record: no {missing}")]
    CutShort {
        /// What was still expected.
        missing: &'static str,
    },
    /// A corpus without labels where labels are needed.
    #[error("{format} has no labels")]
    NoLabels {
        /// The format's name.
        format: &'static str,
    },
    /// No format fits.
    #[error("cannot tell the format")]
    UnknownFormat,
    /// A folder without a corpus in it.
    #[error("no corpus file in this folder")]
    EmptyFolder,
    /// A file where a folder is needed.
    #[error("this is a file; the format `folders` reads a folder with one folder a label")]
    NotAFolder,
    /// No document at all.
    #[error("no document")]
    NoDocument,
    /// A corpus whose documents have no term that may enter the vocabulary.
    #[error("no term is left for the vocabulary")]
    NoTerm,
    /// A record larger than memory should hold.
    #[error("a record of more than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// Text where the model needs features, or the reverse.
    #[error("{found}, but {expected}")]
    WrongContent {
        /// What the document holds.
        found: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// A benchmark's folder without one of its files.
    #[error("`{file}` is not in this folder")]
    MissingFile {
        /// The file or the pattern of files.
        file: String,
    },
}

impl Problem {
    pub(crate) fn at(self, place: &Place) -> CorpusError {
        CorpusError { place: place.clone(), problem: self }
    }
}

impl CorpusError {
    /// What the user can do next, where that can be said.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match &self.problem {
            Problem::BadUtf8 { .. } | Problem::BadUtf8Field => {
                "name the encoding (`--encoding latin-1`, `--encoding windows-1252`, …) or take `--on-bad-utf8 replace`"
            }
            Problem::BadEncoding { .. } => {
                "name another `--encoding`, or take `--on-bad-utf8 replace`"
            }
            Problem::Utf16 => "`--encoding utf-16le` or `--encoding utf-16be` reads it",
            Problem::Json(_) => {
                "JSONL holds one JSON object on each line; `--format` names another format"
            }
            Problem::MissingField { .. } => {
                "name the fields with `--text-column`, `--label-column` and `--id-column`"
            }
            Problem::OpenQuote => "inside a quoted field a quote is written twice: \"\"",
            Problem::NoFastTextLabel => "`--format plain` reads lines without labels (predict)",
            Problem::ColumnZero => "`--first-column 0` counts columns from 0",
            Problem::NegativeCount { .. } => {
                "`--features tfidf` takes the values as they are, negative ones too"
            }
            Problem::UnknownFormat => {
                "name it: --format jsonl|csv|tsv|fasttext|folders|plain|svmlight|reuters|lyrl2004-tokens|lyrl2004-vectors"
            }
            Problem::NoLabels { format: "a LYRL2004 file" } => {
                "give the labels with `--qrels rcv1-v2.topics.qrels`"
            }
            Problem::NoLabels { .. } => {
                "train and evaluate need labeled documents: JSONL, CSV, TSV, fastText, one folder a label, …"
            }
            Problem::NoTerm => {
                "loosen --min-df, --max-df, --min-length or --stop-words; `classify tokens` shows the terms"
            }
            Problem::EmptyFolder => {
                "a folder holds corpus files, or one folder a label and nothing else (`--format folders` insists)"
            }
            Problem::MissingFile { .. } => "corpora/README.md says where the benchmarks come from",
            _ => return None,
        })
    }
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text =
        names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        text.push_str("none");
    } else if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}
