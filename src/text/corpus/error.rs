//! What can be wrong with a corpus, and what to do about it.
//!
//! Messages quote the corpus: what they quote is shortened and [`printable`].

use std::{fmt, io};

use super::place::Place;
use crate::printable::{Printable, printable};
use crate::threads::NO_THREAD_HINT;

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
    /// The operating system or a decompressor reported an error.
    #[error("cannot read: {0}")]
    Io(#[source] io::Error),
    /// No thread could be started that reads it.
    #[error("cannot start a thread to read it: {0}")]
    Thread(#[source] io::Error),
    /// A file of another kind: an archive, an image, another compression.
    #[error("this is {what}, not a corpus")]
    NotText {
        /// What it is, with its article.
        what: &'static str,
        /// What to do with it.
        hint: &'static str,
    },
    /// A file of dense vectors in place of a corpus.
    #[error("this is {what}, which holds vectors and no labels")]
    VectorsAsCorpus {
        /// What it is, with its article.
        what: &'static str,
    },
    /// A file of no known format with a zero byte in its first line.
    #[error("the first line holds a zero byte: this is not text")]
    Binary,
    /// Bytes that are not UTF-8.
    #[error("byte {byte} of the file is not valid UTF-8")]
    BadUtf8 {
        /// The offset, from 0, in the decompressed file.
        byte: u64,
    },
    /// The same in a file that is always UTF-8: a hierarchy, relevance judgments.
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
        /// The encoding's name.
        encoding: &'static str,
    },
    /// A line of a hierarchy that is neither `child<TAB>parent` nor as in RCV1-v2's file.
    #[error("neither `child<TAB>parent` nor `parent: P  child: C`")]
    BadHierarchy,
    /// A label that is its own ancestor.
    #[error("the label `{}` is its own ancestor", quoted(.label))]
    LabelAboveItself {
        /// The label.
        label: String,
    },
    /// A label with more ancestors than a hierarchy may have.
    #[error("the label `{}` has more than {limit} ancestors", quoted(.label))]
    TooManyAncestors {
        /// The label.
        label: String,
        /// The largest number of ancestors.
        limit: usize,
    },
    /// A document with more labels than a document may have.
    #[error("{found} labels, expected at most {limit}")]
    TooManyLabels {
        /// The number of labels.
        found: usize,
        /// The largest number of labels.
        limit: usize,
    },
    /// A record that is not a JSON object.
    #[error("not a JSON object: {}", quoted(in_line(.0)))]
    Json(#[source] serde_json::Error),
    /// `NaN` or `Infinity` in JSON.
    #[error("NaN or Infinity, which are not JSON")]
    JsonNumber,
    /// Half of a surrogate pair in JSON, such as `\\ud83d` alone.
    #[error("the escape of half a surrogate pair, such as `\\ud83d`, which is no character")]
    LoneSurrogate,
    /// A CSV or TSV file that cannot be parsed.
    #[error("not valid CSV: {}", quoted(.message))]
    Csv {
        /// The parser's message.
        message: String,
    },
    /// A quoted field that does not end.
    #[error("the record that begins here has a quoted field that never ends")]
    OpenQuote,
    /// A record or header without a required field.
    #[error("no field {}; there are: {}", any_of(.fields), list(.found))]
    MissingField {
        /// The fields looked for; one of them suffices.
        fields: Vec<String>,
        /// The fields that are there.
        found: Vec<String>,
        /// What the field is for.
        role: FieldRole,
    },
    /// A table without several of the columns that the options name.
    #[error("no columns {}; there are: {}", list(.fields), list(.found))]
    MissingColumns {
        /// The columns that are missing.
        fields: Vec<String>,
        /// The columns that are there.
        found: Vec<String>,
    },
    /// A field of the wrong type.
    #[error("field `{}` is {found}, expected {expected}", quoted(.field))]
    WrongType {
        /// The field.
        field: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A label without characters.
    #[error("an empty label")]
    EmptyLabel,
    /// A list of zeros and ones in place of labels.
    #[error("the labels are a list of zeros and ones, which does not say what they are called")]
    IndicatorList,
    /// One of several label columns holds something else than 0 or 1.
    #[error("field `{}` is `{}`, expected 0 or 1", quoted(.field), quoted(.found))]
    NotAnIndicator {
        /// The field.
        field: String,
        /// What it holds.
        found: String,
    },
    /// A table whose first row is a document.
    #[error("no column {}; line 1 looks like a document, not like column names", any_of(.fields))]
    NoHeader {
        /// The columns looked for; one of them suffices.
        fields: Vec<String>,
        /// The number of columns.
        columns: usize,
    },
    /// A table whose first row is one field without the name of a needed column.
    #[error("no column {}; line 1 is a single field: `{}`", any_of(.fields), quoted(.found))]
    OneColumn {
        /// The columns looked for; one of them suffices.
        fields: Vec<String>,
        /// The field in line 1.
        found: String,
    },
    /// A weight that is not a positive number.
    #[error("weight `{}`, expected a number above 0", quoted(.found))]
    BadWeight {
        /// What was found.
        found: String,
    },
    /// A fastText line without a label.
    #[error("no `__label__` at the start of the line")]
    NoFastTextLabel,
    /// A row with a column or a label that the counts in line 1 exclude.
    #[error("{what} {found}, but line 1 counts {count}, from 0")]
    BeyondCounts {
        /// `column` or `label`.
        what: &'static str,
        /// The column or label.
        found: u32,
        /// The number in line 1.
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
    /// The same column twice in a row.
    #[error("column {column} appears twice")]
    RepeatedColumn {
        /// The column as the file numbers it.
        column: u32,
    },
    /// Column 0 where columns begin at 1.
    #[error("column 0, but columns are counted from 1")]
    ColumnZero,
    /// Columns that do not strictly increase.
    #[error("column {column} comes after column {before}, expected increasing columns")]
    ColumnOrder {
        /// The column that is out of order.
        column: u32,
        /// The one before it.
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
        /// The column as the file numbers it.
        column: u32,
        /// The value.
        value: f32,
    },
    /// Something else than the format expects here.
    #[error("{}, expected {expected}", quoted(.found))]
    Unexpected {
        /// What was found, quoted and shortened.
        found: String,
        /// What the format expects here.
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
        /// Whether the labels of this format are in a file of relevance judgments.
        from_qrels: bool,
    },
    /// No format fits.
    #[error("cannot tell the format")]
    UnknownFormat,
    /// A folder without a corpus in it.
    #[error("no corpus file in this folder")]
    EmptyFolder,
    /// A file where a folder is needed.
    #[error("this is a file; the format `folders` reads a folder with one folder per label")]
    NotAFolder,
    /// A symbolic link in a folder to something that does not exist.
    #[error("a symbolic link to `{}`, which does not exist", quoted(.target))]
    BrokenLink {
        /// What the link holds.
        target: String,
    },
    /// A symbolic link to a folder that contains it.
    #[error("a symbolic link to a folder that contains it: following it would never end")]
    LinkCycle,
    /// A folder with label folders and other files.
    #[error("this folder holds label folders, and `{}` beside them", quoted(.file))]
    FileBesideLabels {
        /// The first such file.
        file: String,
    },
    /// No document at all.
    #[error("no document")]
    NoDocument,
    /// A document has no identifier, but is to have one.
    #[error("the document has no identifier")]
    NoId,
    /// A benchmark's folder without a document of one side.
    #[error("no {side} document of this benchmark in this folder")]
    NoDocumentOf {
        /// `training` or `test`.
        side: &'static str,
    },
    /// A corpus whose documents have no term that may enter the vocabulary.
    #[error("no term is left for the vocabulary")]
    NoTerm,
    /// A corpus of texts without a word.
    #[error("no text contains a word: only symbols, or nothing")]
    NoWord,
    /// A record or a file larger than the [limits](crate::limits).
    #[error("{what} of more than {limit} bytes")]
    TooLong {
        /// What is too long, with its article.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Text where the model needs features, or the reverse.
    #[error("{found}, but {expected}")]
    WrongContent {
        /// What the document holds.
        found: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// A document without a vector where one is needed.
    #[error("the document has no vector")]
    NoVector,
    /// A vector of another dimension than the others.
    #[error("a vector of {found} values, expected {expected}")]
    VectorDimension {
        /// Its number of values.
        found: usize,
        /// The number of values of the others.
        expected: usize,
    },
    /// A vector without values, or with too many.
    #[error("a vector of {found} values, expected 1 to 65536")]
    VectorSize {
        /// Its number of values.
        found: usize,
    },
    /// A value of a vector that is infinite, not a number, or very large.
    #[error("value {number} of the vector is {value}, expected a number from -1e30 to 1e30")]
    VectorValue {
        /// Which value, from 1.
        number: usize,
        /// The value.
        value: f32,
    },
    /// A file of vectors next to the corpus that does not fit it.
    #[error("{}", quoted(.what))]
    VectorsBeside {
        /// What does not fit.
        what: String,
    },
    /// A file that is not one of vectors.
    #[error("{}", quoted(.what))]
    VectorFile {
        /// What is wrong.
        what: String,
    },
    /// A file of word vectors that cannot be read as one.
    #[error("{}", quoted(.what))]
    WordVectors {
        /// What is wrong.
        what: String,
    },
    /// A benchmark's folder without one of its files.
    #[error("`{}` is not in this folder", quoted(.file))]
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
    /// What the user can do next, if there is something to say, in words that fit every interface.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match &self.problem {
            Problem::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => {
                    "check the spelling; a relative path begins at the current folder"
                }
                io::ErrorKind::PermissionDenied => "may you read this file?",
                _ => return None,
            },
            Problem::Thread(_) => NO_THREAD_HINT,
            Problem::NotText { hint, .. } => hint,
            Problem::VectorsAsCorpus { .. } => {
                "a corpus holds the labels, one row per vector (a CSV file with the column `label` \
                 suffices); the file of vectors goes with it"
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
            Problem::MissingColumns { .. } => "name columns that are there",
            Problem::OpenQuote => "inside a quoted field a quote is written twice: \"\"",
            Problem::IndicatorList => {
                "write the names of the labels, or a column of 0 and 1 for each label"
            }
            Problem::NotAnIndicator { .. } => {
                "several label columns hold 0 or 1 each; labels of one column may have a separator"
            }
            Problem::NoHeader { .. } => {
                "say that there is no header, and name the columns by their numbers, from 1"
            }
            Problem::OneColumn { .. } => {
                "name the character between the fields, and remove lines above the column names"
            }
            Problem::NoFastTextLabel => "for predictions, lines without labels are plain text",
            Problem::ColumnZero => "if columns are counted from 0, say so",
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
            Problem::FileBesideLabels { .. } => {
                "move the file elsewhere, or name the format `folders`"
            }
            Problem::NoWord => {
                "split words at white space, or use n-grams of characters, if symbols matter"
            }
            Problem::EmptyFolder => {
                "a folder holds corpus files, or one folder per label and nothing else"
            }
            Problem::BrokenLink { .. } | Problem::LinkCycle => {
                "remove the link, or let it lead to a file or a folder elsewhere"
            }
            Problem::TooLong { what: "a record", .. } => {
                "split the document; in CSV, a quote that is never closed takes in the rest of \
                 the file"
            }
            Problem::NoVector => {
                "name the field of the vectors (JSONL, CSV, TSV), or a file of vectors next to \
                 the corpus"
            }
            Problem::VectorDimension { .. } => {
                "all vectors have as many values as the first one, or as the model's; columns of \
                 features count up to the last one of the training corpus, even if it holds 0"
            }
            Problem::VectorsBeside { .. } => {
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

/// What a field of a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRole {
    /// The text, or one of the fields that are joined to it.
    Text,
    /// A field of the text that is counted separately.
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
                "name the fields of the text; a trained model reads those that it was trained on"
            }
            Self::Label => "name the field of the labels",
            Self::Id | Self::Weight | Self::Group => {
                "name a field that every record has, or none if there is none"
            }
            Self::Vector => {
                "name the field of the dense vector, a list of numbers; a trained model reads the \
                 one that it was trained on"
            }
        }
    }
}

/// What the corpus holds, for a message: at most 200 characters of it.
fn quoted(text: impl fmt::Display) -> Printable<String> {
    const SHOWN: usize = 200;
    let mut text = text.to_string();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    printable(text)
}

/// What is wrong with the JSON of one line, which is line 1 to the parser.
fn in_line(error: &serde_json::Error) -> String {
    let column = error.column();
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line {} column {column}", error.line())) {
        Some(problem) => format!("{problem} at column {column}"),
        None => text,
    }
}

/// The names, of which any suffices.
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
