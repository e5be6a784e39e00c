//! Corpora: streams of [`Document`]s read from files, folders or standard input.
//!
//! ```text
//! path ─▶ source (decompress, decode) ─▶ detect ─▶ one reader a format ─▶ Document
//! ```
//!
//! A [`Corpus`] is an iterator that holds one record at a time. Every error names its
//! [`Place`]: the file and the line (or the record) where it was met.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

mod detect;
mod delimited;
mod error;
mod fasttext;
mod folders;
mod jsonl;
mod lyrl2004;
mod plain;
pub mod preset;
mod qrels;
mod reuters;
mod source;
mod svmlight;

pub use error::{CorpusError, Problem};
pub use qrels::Qrels;
pub use reuters::Split;
pub use source::encoding_for_label;

use source::Source;

/// One document: what is classified, and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The identifier that the corpus gives, or the record's number (from 1) in its corpus.
    pub id: String,
    /// What the document says.
    pub content: Content,
    /// Zero or more labels, without duplicates, in the corpus's order.
    pub labels: Vec<String>,
    /// How much the document's vote counts; finite and above 0. 1 where the corpus gives none.
    pub weight: f32,
    /// Documents of one group are no neighbors of each other while a model is tuned.
    pub group: Option<String>,
    /// Where the document was read.
    pub place: Place,
}

/// The content of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Running text, to be analyzed.
    Text(String),
    /// The same in fields, in the order in which the options name their columns.
    Fields(Vec<String>),
    /// `(column, value)` pairs by increasing column, every value finite.
    Features(Vec<(u32, f32)>),
}

impl Content {
    /// The texts of several columns: apart, or a line each.
    fn of_columns(mut texts: Vec<String>, apart: bool) -> Self {
        match (apart, texts.len()) {
            (true, _) => Self::Fields(texts),
            (false, 1) => Self::Text(texts.remove(0)),
            (false, _) => Self::Text(texts.join("\n")),
        }
    }
}

/// A place in a corpus, for messages: `file:line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's path as the user gave it, or `<stdin>`.
    pub source: Arc<str>,
    /// The line, from 1; `None` where the whole file is meant.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.source),
            None => write!(f, "{}", self.source),
        }
    }
}

/// The corpus formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// fastText lines: `__label__x __label__y text`.
    FastText,
    /// A folder of folders: each inner folder is a label, each file in it a document.
    Folders,
    /// One document a line, no labels.
    Plain,
    /// svmlight / libsvm rows: `label,label column:value …`.
    Svmlight,
    /// Reuters-21578 SGML.
    Reuters,
    /// LYRL2004 token files: `.I id`, `.W`, lines of tokens.
    Lyrl2004Tokens,
    /// LYRL2004 vector files: `id  column:value …`.
    Lyrl2004Vectors,
}

impl Format {
    /// Every format, in the order of the documentation.
    pub const ALL: [Self; 10] = [
        Self::Jsonl,
        Self::Csv,
        Self::Tsv,
        Self::FastText,
        Self::Folders,
        Self::Plain,
        Self::Svmlight,
        Self::Reuters,
        Self::Lyrl2004Tokens,
        Self::Lyrl2004Vectors,
    ];

    /// The name that `--format` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::FastText => "fasttext",
            Self::Folders => "folders",
            Self::Plain => "plain",
            Self::Svmlight => "svmlight",
            Self::Reuters => "reuters",
            Self::Lyrl2004Tokens => "lyrl2004-tokens",
            Self::Lyrl2004Vectors => "lyrl2004-vectors",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What to do with bytes that are no valid text in the corpus's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadUtf8 {
    /// Stop with an error that names the line and the byte.
    #[default]
    Error,
    /// Put U+FFFD in their place.
    Replace,
}

/// Whether a record must say its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelUse {
    /// Training and evaluation: a record without a label field is an error (an empty list is not).
    #[default]
    Required,
    /// Prediction: labels are read where they are, and never missed.
    Optional,
}

/// How to read a corpus. The default detects everything.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format, or `None` to detect it for each file.
    pub format: Option<Format>,
    /// JSONL, CSV and TSV: the fields whose texts make the document, joined by line breaks.
    /// Empty: `text`.
    pub text_columns: Vec<String>,
    /// Whether these fields stay apart ([`Content::Fields`]) instead of being joined.
    pub fields: bool,
    /// JSONL, CSV and TSV: the field of the labels. `None`: the first of `labels`, `label`,
    /// `category`, `class` that is there.
    pub label_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the identifier. `None`: `id` if it is there.
    pub id_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's weight. `None`: `weight` if it is there.
    pub weight_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's group. `None`: no groups.
    pub group_column: Option<String>,
    /// What separates several labels in one CSV or TSV field or JSON string. `None`: the field is one label.
    pub label_separator: Option<String>,
    /// svmlight: the number of the first column, 0 or 1. `None`: 1.
    pub first_column: Option<u32>,
    /// The text encoding; `None` is UTF-8 (Reuters-21578: windows-1252).
    pub encoding: Option<&'static encoding_rs::Encoding>,
    /// What to do with invalid bytes.
    pub on_bad_utf8: OnBadUtf8,
    /// Whether labels must be there.
    pub labels: LabelUse,
    /// Labels by document id, which replace those of the corpus.
    pub qrels: Option<Arc<Qrels>>,
    /// Reuters-21578: which side of the ModApte split to read.
    pub split: Split,
    /// Whether documents are text: rows of features are then not detected.
    pub text_only: bool,
    /// Counts the bytes that are read from files, compressed ones as they are, to show progress.
    pub bytes_read: Option<Arc<AtomicU64>>,
}

type Records = Box<dyn Iterator<Item = Result<Document, CorpusError>> + Send>;

/// Tells the caller that a file was opened, and as which format.
pub type OnOpen = Box<dyn FnMut(&str, Format) + Send>;

/// A stream of documents from one or several files, in the order given.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("two.jsonl");
/// std::fs::write(&path, "{\"text\": \"a b\", \"labels\": [\"x\"]}\n{\"text\": \"c\", \"labels\": []}\n")?;
/// let corpus = classify::corpus::Corpus::open(&[path], Default::default())?;
/// let documents = corpus.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(documents.len(), 2);
/// assert_eq!(documents[0].labels, ["x"]);
/// assert_eq!(documents[1].id, "2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Corpus {
    waiting: VecDeque<PathBuf>,
    current: Option<Records>,
    options: Arc<ReadOptions>,
    on_open: Option<OnOpen>,
    read: u64,
    failed: bool,
}

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus")
            .field("waiting", &self.waiting)
            .field("options", &self.options)
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl Corpus {
    /// A corpus of `paths`: files, folders, or `-` for standard input.
    ///
    /// A folder that holds only folders is read as one folder a label; any other folder stands
    /// for the corpus files in it, by name.
    ///
    /// # Errors
    /// If a path does not exist or a folder holds no corpus file.
    pub fn open(paths: &[PathBuf], options: ReadOptions) -> Result<Self, CorpusError> {
        let mut waiting = VecDeque::new();
        for path in paths {
            if path.as_os_str() == "-" {
                waiting.push_back(path.clone());
                continue;
            }
            let kind = std::fs::metadata(path).map_err(|error| source::io_error(path, error))?;
            if kind.is_dir() && !folders::is_label_tree(path, options.format)? {
                waiting.extend(folders::corpus_files(path, options.format)?);
            } else {
                waiting.push_back(path.clone());
            }
        }
        let options = Arc::new(options);
        Ok(Self { waiting, current: None, options, on_open: None, read: 0, failed: false })
    }

    /// A corpus of bytes in memory, named `name` in messages.
    ///
    /// # Errors
    /// If the format cannot be told.
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
        options: ReadOptions,
    ) -> Result<Self, CorpusError> {
        let options = Arc::new(options);
        let source = Source::from_reader(name, Box::new(std::io::Cursor::new(bytes)), &options)?;
        let (_, records) = read_source(source, &options)?;
        let waiting = VecDeque::new();
        let current = Some(records);
        Ok(Self { waiting, current, options, on_open: None, read: 0, failed: false })
    }

    /// Calls `on_open` for every file that is opened from now on.
    #[must_use]
    pub fn on_open(mut self, on_open: OnOpen) -> Self {
        self.on_open = Some(on_open);
        self
    }

    fn open_next(&mut self, path: &Path) -> Result<Records, CorpusError> {
        let (format, records) = if path.as_os_str() != "-" && path.is_dir() {
            (Format::Folders, folders::read(path, &self.options)?)
        } else {
            read_source(Source::open(path, &self.options)?, &self.options)?
        };
        if let Some(on_open) = &mut self.on_open {
            on_open(&path.to_string_lossy(), format);
        }
        Ok(records)
    }

    fn advance(&mut self) -> Option<Result<Document, CorpusError>> {
        loop {
            if let Some(current) = &mut self.current {
                match current.next() {
                    Some(record) => return Some(record),
                    None => self.current = None,
                }
            }
            let path = self.waiting.pop_front()?;
            match self.open_next(&path) {
                Ok(records) => self.current = Some(records),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for Corpus {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let finished = self.advance()?.and_then(|mut document| {
            self.read += 1;
            if document.id.is_empty() {
                document.id = self.read.to_string();
            }
            if let Some(qrels) = &self.options.qrels {
                document.labels = qrels.labels(&document.id);
            }
            finish(document)
        });
        self.failed = finished.is_err();
        Some(finished)
    }
}

/// What every reader's documents must fulfil.
fn finish(mut document: Document) -> Result<Document, CorpusError> {
    if document.labels.iter().any(String::is_empty) {
        return Err(Problem::EmptyLabel.at(&document.place));
    }
    if !(document.weight.is_finite() && document.weight > 0.0) {
        return Err(Problem::BadWeight { found: document.weight.to_string() }.at(&document.place));
    }
    if document.labels.len() > 1 {
        let mut seen = std::collections::HashSet::new();
        document.labels.retain(|label| seen.insert(label.clone()));
    }
    Ok(document)
}

fn read_source(
    mut source: Source,
    options: &Arc<ReadOptions>,
) -> Result<(Format, Records), CorpusError> {
    let format = match options.format {
        Some(format) => format,
        None => detect::format(&mut source, options)?,
    };
    if format == Format::Reuters && options.encoding.is_none() {
        source = source.decoded(encoding_rs::WINDOWS_1252, options.on_bad_utf8);
    }
    let options = Arc::clone(options);
    let records: Records = match format {
        Format::Jsonl => Box::new(jsonl::Jsonl::new(source.lines(), options)),
        Format::Csv => Box::new(delimited::Delimited::new(source, options, None)?),
        Format::Tsv => Box::new(delimited::Delimited::new(source, options, Some(b'\t'))?),
        Format::FastText => Box::new(fasttext::FastText::new(source.lines(), &options)),
        Format::Plain => Box::new(plain::Plain::new(source.lines(), &options)?),
        Format::Svmlight => Box::new(svmlight::Svmlight::new(source.lines(), &options)),
        Format::Reuters => Box::new(reuters::Reuters::new(source.lines(), options)),
        Format::Lyrl2004Tokens => Box::new(lyrl2004::Tokens::new(source.lines(), &options)?),
        Format::Lyrl2004Vectors => Box::new(lyrl2004::Vectors::new(source.lines(), &options)?),
        Format::Folders => return Err(Problem::NotAFolder.at(&source.place())),
    };
    Ok((format, records))
}
