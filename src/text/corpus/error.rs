//! Problems in corpora, and hints on how to solve them.
//!
//! Text that messages quote from the corpus is shortened and [`printable`].

use std::{fmt, io};

use super::place::Place;
use crate::printable::{Printable, printable};
use crate::threads::NO_THREAD_HINT;

/// A problem in a corpus and its place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CorpusError {
    /// The place of the problem.
    pub place: Place,
    /// The problem.
    #[source]
    pub problem: Problem,
}

/// A problem in a corpus.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// An error of the operating system or a decompressor.
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    /// No thread could be started to read the corpus.
    #[error("cannot start a thread to read it: {0}")]
    Thread(#[source] io::Error),
    /// A file of another type, such as an archive, an image or a file in an unsupported
    /// compression.
    #[error("this is {what}, not a corpus")]
    NotText {
        /// The type of the file, with an article.
        what: &'static str,
        /// Advice for this type of file.
        hint: &'static str,
    },
    /// A file of dense vectors instead of a corpus.
    #[error("this is {what}, which contains vectors but no labels")]
    VectorsAsCorpus {
        /// The type of the file, with an article.
        what: &'static str,
    },
    /// A file of unknown format with a NUL byte in its first line.
    #[error("the first line contains a NUL byte: this is not text")]
    Binary,
    /// Bytes that are not UTF-8.
    #[error("byte {byte} of the file is not valid UTF-8")]
    BadUtf8 {
        /// The offset, from 0, in the decompressed file.
        byte: u64,
    },
    /// Bytes that are not UTF-8 in a file that must be UTF-8: a hierarchy or relevance judgments.
    #[error("byte {byte} of the file is not valid UTF-8")]
    OnlyUtf8 {
        /// The offset, from 0, in the decompressed file.
        byte: u64,
    },
    /// A CSV or TSV field that is not UTF-8.
    #[error("a field is not valid UTF-8")]
    BadUtf8Field,
    /// Bytes that are not valid in the encoding.
    #[error("bytes near offset {byte} of the file are not valid {encoding}")]
    BadEncoding {
        /// The offset, from 0, in the decompressed file.
        byte: u64,
        /// The name of the encoding.
        encoding: &'static str,
    },
    /// A line of a hierarchy that is neither `child<TAB>parent` nor in the format of RCV1-v2.
    #[error("neither `child<TAB>parent` nor `parent: P  child: C`")]
    BadHierarchy,
    /// A label that is its own ancestor.
    #[error("the label `{}` is its own ancestor", quoted(.label))]
    CyclicLabel {
        /// The label.
        label: String,
    },
    /// A label with more ancestors than allowed.
    #[error("the label `{}` has more than {limit} ancestors", quoted(.label))]
    TooManyAncestors {
        /// The label.
        label: String,
        /// The maximum number of ancestors.
        limit: usize,
    },
    /// A document with more labels than allowed.
    #[error("{found} labels, expected at most {limit}")]
    TooManyLabels {
        /// The number of labels.
        found: usize,
        /// The maximum number of labels.
        limit: usize,
    },
    /// A record that is not a JSON object.
    #[error("not a JSON object: {}", quoted(in_line(.0)))]
    Json(#[source] serde_json::Error),
    /// `NaN` or `Infinity` in JSON.
    #[error("NaN or Infinity, which are not JSON")]
    JsonNumber,
    /// Half of a surrogate pair in JSON, such as `\\ud83d` alone.
    #[error("the escape of half a surrogate pair, such as `\\ud83d`, which is not a character")]
    LoneSurrogate,
    /// A CSV or TSV file that cannot be parsed.
    #[error("not valid CSV: {}", quoted(.message))]
    Csv {
        /// The message of the parser.
        message: String,
    },
    /// A quoted field without a closing quote.
    #[error("the record that begins here has a quoted field that never ends")]
    OpenQuote,
    /// A record or header without a required field.
    #[error("no field {}; there are: {}", any_of(.fields), list(.found))]
    MissingField {
        /// The accepted field names.
        fields: Vec<String>,
        /// The fields of the record or header.
        found: Vec<String>,
        /// The role of the field.
        role: FieldRole,
    },
    /// A table without several of the columns that the options name.
    #[error("no columns {}; there are: {}", list(.fields), list(.found))]
    MissingColumns {
        /// The columns that are missing.
        fields: Vec<String>,
        /// The columns of the table.
        found: Vec<String>,
    },
    /// A field of the wrong type.
    #[error("field `{}` is {found}, expected {expected}", quoted(.field))]
    WrongType {
        /// The field.
        field: String,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// An empty label.
    #[error("an empty label")]
    EmptyLabel,
    /// A list of zeros and ones instead of labels.
    #[error("the labels are a list of zeros and ones, which does not say what they are called")]
    IndicatorList,
    /// One of several label columns contains a value other than 0 and 1.
    #[error("field `{}` is `{}`, expected 0 or 1", quoted(.field), quoted(.found))]
    NotAnIndicator {
        /// The field.
        field: String,
        /// The value.
        found: String,
    },
    /// A table whose first row is a document.
    #[error("no column {}; line 1 looks like a document, not like column names", any_of(.fields))]
    NoHeader {
        /// The accepted column names.
        fields: Vec<String>,
        /// The number of columns.
        columns: usize,
    },
    /// A table whose first row is a single field that is not a required column.
    #[error("no column {}; line 1 is a single field: `{}`", any_of(.fields), quoted(.found))]
    OneColumn {
        /// The accepted column names.
        fields: Vec<String>,
        /// The field in line 1.
        found: String,
    },
    /// A weight that is not a positive number.
    #[error("weight `{}`, expected a number above 0", quoted(.found))]
    BadWeight {
        /// The invalid value.
        found: String,
    },
    /// A fastText line without a label.
    #[error("no `__label__` at the start of the line")]
    NoFastTextLabel,
    /// A row whose column or label is not below the count in line 1.
    #[error("{what} {found}, but line 1 declares {count} {what}s, numbered from 0")]
    AboveDeclaredCount {
        /// `column` or `label`.
        what: &'static str,
        /// The column or label.
        found: u32,
        /// The count in line 1.
        count: u32,
    },
    /// A svmlight or LYRL2004 item that is not `column:value`.
    #[error(
        "`{}` is not `column:value`: a whole number up to 4294967295 and a number", quoted(.item)
    )]
    BadFeature {
        /// The item.
        item: String,
    },
    /// A column that occurs twice in a row.
    #[error("column {column} appears twice")]
    RepeatedColumn {
        /// The number of the column in the file.
        column: u32,
    },
    /// Column 0 in a file whose columns are numbered from 1.
    #[error("column 0, but columns are counted from 1")]
    ColumnZero,
    /// Columns that do not strictly increase.
    #[error("column {column} comes after column {before}, expected increasing columns")]
    ColumnOrder {
        /// The column that is out of order.
        column: u32,
        /// The preceding column.
        before: u32,
    },
    /// A value that is infinite or not a number.
    #[error("column {column} holds {value}, expected a finite number")]
    NotFinite {
        /// The column.
        column: u32,
        /// The value.
        value: f32,
    },
    /// A negative value where counts are expected.
    #[error("column {column} holds {value}, but counts are never negative")]
    NegativeCount {
        /// The number of the column in the file.
        column: u32,
        /// The value.
        value: f32,
    },
    /// Text that the format does not allow at this place.
    #[error("{}, expected {expected}", quoted(.found))]
    Unexpected {
        /// The text, quoted and shortened.
        found: String,
        /// The expected syntax.
        expected: &'static str,
    },
    /// The file ends within a record.
    #[error("the file ends inside a record: no {missing}")]
    CutShort {
        /// The text that is missing at the end.
        missing: &'static str,
    },
    /// A corpus without labels, although labels are required.
    #[error("{format} has no labels")]
    NoLabels {
        /// The name of the format.
        format: &'static str,
        /// Whether the labels of this format are in a file of relevance judgments.
        from_qrels: bool,
    },
    /// The format cannot be detected.
    #[error("cannot detect the format")]
    UnknownFormat,
    /// A folder without corpus files.
    #[error("no corpus file in this folder")]
    EmptyFolder,
    /// A file where a folder is required.
    #[error("this is a file; the format `folders` reads a folder with one folder per label")]
    NotAFolder,
    /// A symbolic link whose target does not exist.
    #[error("a symbolic link to `{}`, which does not exist", quoted(.target))]
    BrokenLink {
        /// The target of the link.
        target: String,
    },
    /// A symbolic link to a folder that contains the link.
    #[error("a symbolic link to a folder that contains it: following it would never end")]
    LinkCycle,
    /// A folder with label folders and other files.
    #[error("this folder contains label folders and the file `{}`", quoted(.file))]
    MixedFolder {
        /// The first such file.
        file: String,
    },
    /// A corpus without documents.
    #[error("no document")]
    NoDocument,
    /// A document without an identifier, although identifiers are required.
    #[error("the document has no identifier")]
    NoId,
    /// A benchmark folder without documents for one side of the split.
    #[error("no {side} document of this benchmark in this folder")]
    NoDocumentOf {
        /// `training` or `test`.
        side: &'static str,
    },
    /// A corpus without a term that is allowed in the vocabulary.
    #[error("no term is left for the vocabulary")]
    NoTerm,
    /// A corpus whose texts contain no words.
    #[error("no text contains a word: only symbols, or nothing")]
    NoWord,
    /// A record or a file larger than the [limits](crate::limits).
    #[error("{what} of more than {limit} bytes")]
    TooLong {
        /// The record or file, with an article.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Text where the model requires features, or vice versa.
    #[error("{found}, but {expected}")]
    WrongContent {
        /// The content of the document.
        found: &'static str,
        /// The required content.
        expected: &'static str,
    },
    /// A document without a vector, although a vector is required.
    #[error("the document has no vector")]
    NoVector,
    /// An encoder is given, but the document consists of features.
    #[error("the document has features, and no text for the encoder")]
    NoTextToEncode,
    /// A vector whose dimension differs from the dimension of other vectors.
    #[error("a vector of {found} values, expected {expected}")]
    VectorDimension {
        /// The number of values.
        found: usize,
        /// The expected number of values.
        expected: usize,
    },
    /// A vector with no values or too many.
    #[error("a vector of {found} values, expected 1 to 65536")]
    VectorSize {
        /// The number of values.
        found: usize,
    },
    /// A value of a vector that is infinite, not a number, or very large.
    #[error("value {number} of the vector is {value}, expected a number from -1e30 to 1e30")]
    VectorValue {
        /// The position of the value, from 1.
        number: usize,
        /// The value.
        value: f32,
    },
    /// A vector file that does not match its corpus.
    #[error("{}", quoted(.what))]
    VectorsFile {
        /// A description of the mismatch.
        what: String,
    },
    /// A file that cannot be read as a vector file.
    #[error("{}", quoted(.what))]
    VectorFile {
        /// A description of the problem.
        what: String,
    },
    /// A file that cannot be read as word vectors.
    #[error("{}", quoted(.what))]
    WordVectors {
        /// A description of the problem.
        what: String,
    },
    /// A benchmark folder in which a file is missing.
    #[error("`{}` is not in this folder", quoted(.file))]
    MissingFile {
        /// The name or pattern of the file.
        file: String,
    },
}

impl Problem {
    pub(crate) fn at(self, place: &Place) -> CorpusError {
        CorpusError { place: place.clone(), problem: self }
    }
}

impl CorpusError {
    /// Returns advice for the user, if there is any. The wording fits every interface.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match &self.problem {
            Problem::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => {
                    "check the spelling; a relative path begins at the current folder"
                }
                io::ErrorKind::PermissionDenied => "check the permissions of this file",
                _ => return None,
            },
            Problem::Thread(_) => NO_THREAD_HINT,
            Problem::NotText { hint, .. } => hint,
            Problem::VectorsAsCorpus { .. } => {
                "a corpus contains the labels, one row per vector (a CSV file with the column \
                 `label` suffices); give the file of vectors in addition"
            }
            Problem::Binary => "name its format or its encoding if this is a corpus",
            Problem::BadUtf8 { .. } | Problem::BadUtf8Field => {
                "name the encoding (latin-1, windows-1252, …), or have invalid bytes replaced"
            }
            Problem::OnlyUtf8 { .. } => "convert it: `iconv -f windows-1252 -t utf-8 FILE`",
            Problem::BadEncoding { .. } => "name another encoding, or have invalid bytes replaced",
            Problem::Json(_) => "JSONL holds one JSON object on each line",
            Problem::JsonNumber => "write `null`, or leave the field out",
            Problem::LoneSurrogate => "have invalid characters replaced",
            Problem::MissingField { role, .. } => role.hint(),
            Problem::MissingColumns { .. } => "name columns that exist",
            Problem::OpenQuote => "inside a quoted field, a quote is written twice: \"\"",
            Problem::IndicatorList => {
                "write the names of the labels, or a column of 0 and 1 for each label"
            }
            Problem::NotAnIndicator { .. } => {
                "each of several label columns contains 0 or 1; to read several labels from one \
                 column, name their separator"
            }
            Problem::NoHeader { .. } => {
                "state that there is no header, and name the columns by their numbers, from 1"
            }
            Problem::OneColumn { .. } => {
                "name the character between the fields, and remove lines above the column names"
            }
            Problem::NoFastTextLabel => "for predictions, lines without labels are plain text",
            Problem::ColumnZero => "if columns are counted from 0, set the first column to 0",
            Problem::NegativeCount { .. } => "TF-IDF features may have negative values",
            Problem::UnknownFormat => {
                "name it: jsonl, json, csv, tsv, fasttext, annif, folders, plain, svmlight, \
                 reuters, lyrl2004-tokens or lyrl2004-vectors"
            }
            Problem::NoLabels { from_qrels: true, .. } => {
                "give the relevance judgments too (rcv1-v2.topics.qrels); \
                 rows of `label column:value …` have the format svmlight"
            }
            Problem::NoLabels { .. } => {
                "train and evaluate need labeled documents: JSONL, CSV, TSV, fastText, \
                 one folder per label, …"
            }
            Problem::NoTerm => {
                "loosen the limits on document frequencies and word lengths, or keep stop words"
            }
            Problem::MixedFolder { .. } => "move the file elsewhere, or name the format `folders`",
            Problem::NoWord => {
                "split words at white space, or use n-grams of characters, if symbols matter"
            }
            Problem::EmptyFolder => {
                "a folder holds corpus files, or one folder per label and nothing else"
            }
            Problem::BrokenLink { .. } | Problem::LinkCycle => {
                "remove the link, or point it to a file or a folder elsewhere"
            }
            Problem::TooLong { what: "a record", .. } => {
                "split the document; in CSV, a quote that is never closed takes in the rest of \
                 the file"
            }
            Problem::NoTextToEncode => "encoders read texts; features and vectors need none",
            Problem::NoVector => {
                "name the field of the vectors (JSONL, CSV, TSV), or a file of vectors next to \
                 the corpus"
            }
            Problem::VectorDimension { .. } => {
                "all vectors have as many values as the first one, or as the model's; columns of \
                 features count up to the last one of the training corpus, even if it holds 0"
            }
            Problem::VectorsFile { .. } => {
                "row i belongs to the i-th document, or to the document whose identifier is on \
                 line i of the file of identifiers"
            }
            Problem::VectorFile { .. } => {
                "files of vectors are .npy (two dimensions), .fvecs, .bvecs or IDX, also with .gz"
            }
            Problem::WordVectors { .. } => {
                "word2vec (text or .bin), GloVe and fastText .vec files are read, compressed or not"
            }
            Problem::NoId => "give documents a field `id`, or let them be numbered",
            Problem::MissingFile { .. } | Problem::NoDocumentOf { .. } => {
                "corpora/README.md says where the benchmarks come from"
            }
            _ => return None,
        })
    }
}

/// The role of a field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRole {
    /// The text, or one of the fields that are joined to form the text.
    Text,
    /// A text field that is counted separately.
    SeparateText,
    /// The labels.
    Label,
    /// The identifier.
    Id,
    /// The weight of the document.
    Weight,
    /// The group of the document.
    Group,
    /// The dense vector.
    Vector,
}

impl FieldRole {
    fn hint(self) -> &'static str {
        match self {
            Self::Text => "name the field of the text",
            Self::SeparateText => {
                "name the fields of the text; a trained model reads the fields that it was trained \
                 on"
            }
            Self::Label => "name the field of the labels",
            Self::Id | Self::Weight | Self::Group => "name a field that every record has, or none",
            Self::Vector => {
                "name the field of the dense vector, a list of numbers; a trained model reads the \
                 field that it was trained on"
            }
        }
    }
}

/// Prepares text from the corpus for a message: keeps at most 200 characters and makes them
/// printable.
fn quoted(text: impl fmt::Display) -> Printable<String> {
    const SHOWN: usize = 200;
    let mut text = text.to_string();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    printable(text)
}

/// Returns the message of a JSON error in one line, without the line number, which is always 1.
fn in_line(error: &serde_json::Error) -> String {
    let column = error.column();
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line {} column {column}", error.line())) {
        Some(problem) => format!("{problem} at column {column}"),
        None => text,
    }
}

/// Lists alternative names, separated by commas and "or".
fn any_of(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", quoted(name))).collect();
    match names.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.concat(),
    }
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    const SHOWN_CHARS: usize = 40;
    let short = |name: &String| match name.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("`{}…`", printable(&name[..end])),
        None => format!("`{}`", printable(name)),
    };
    let shown = names.iter().take(SHOWN).map(short);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        text.push_str("none");
    } else if names.len() > SHOWN {
        text.push_str(", …");
    }
    text
}
