//! Corpora: streams of [`Document`]s read from files, folders or standard input.
//!
//! ```text
//! path ─▶ source (decompress, decode) ─▶ detect ─▶ one reader per format ─▶ Document
//! ```
//!
//! A [`Corpus`] is an iterator that holds one record at a time, or some blocks of them if several threads parse. Every error names its [`Place`]:
//! the file and the line where the record begins or the problem is.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

mod blocks;
mod compressed;
mod detect;
mod delimited;
mod error;
mod fasttext;
mod folders;
mod holdout;
mod jsonl;
mod lyrl2004;
mod magic;
mod members;
mod peeked;
mod plain;
pub mod preset;
mod qrels;
mod reuters;
mod source;
mod svmlight;
mod vectors_beside;

pub use error::{CorpusError, Problem};
pub use holdout::{HoldOut, Side, hold_out};
pub use qrels::Qrels;
pub use reuters::Split;
pub use source::encoding_for_label;
pub use vectors_beside::VectorsBeside;

use crate::printable::printable;
use crate::rows::dense::GREATEST;
use crate::threads::Threads;
use source::{Ends, Lines, Source};
pub(crate) use source::{open_bytes, read_error};

/// One document: its content and what the corpus says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The identifier in the corpus, or the number of the record in its corpus, from 1.
    pub id: String,
    /// What is classified.
    pub content: Content,
    /// Zero or more labels, without duplicates, in the corpus's order.
    pub labels: Vec<String>,
    /// The weight of the document's vote: finite and above 0; 1 if the corpus gives none.
    pub weight: f32,
    /// The dense vector, if the corpus has one for it; every value is finite and from -1e30 to 1e30.
    pub vector: Option<Vec<f32>>,
    /// Documents of the same group are never neighbors of each other while a model is tuned.
    pub group: Option<String>,
    /// Where the document was found.
    pub place: Place,
}

impl Document {
    /// A document of a text, without labels.
    ///
    /// ```
    /// use classify::text::corpus::Document;
    ///
    /// let document = Document::text("a", "bake the bread").labels(["cooking", "baking"]);
    /// assert_eq!(document.labels, ["cooking", "baking"]);
    /// assert_eq!(document.weight, 1.0);
    /// ```
    pub fn text(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            content: Content::Text(text.into()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { source: "memory".into(), line: None },
        }
    }

    /// Replaces the labels. Labels that occur twice are kept once.
    #[must_use]
    pub fn labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.labels.clear();
        for label in labels {
            let label = label.into();
            if !self.labels.contains(&label) {
                self.labels.push(label);
            }
        }
        self
    }
}

/// The content of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Running text, to be analyzed.
    Text(String),
    /// Running text in several fields, in the order in which the options name their columns.
    Fields(Vec<String>),
    /// `(column, value)` pairs by strictly increasing column, every value finite: see [`Content::features`].
    Features(Vec<(u32, f32)>),
}

/// Checks that columns strictly increase and values are finite, as [`Content::Features`] needs it.
///
/// # Errors
/// The first column that is out of order, or whose value is not finite.
pub fn check_features(features: &[(u32, f32)]) -> Result<(), Problem> {
    if let Some(pair) = features.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        return Err(Problem::ColumnOrder { column: pair[1].0, before: pair[0].0 });
    }
    match features.iter().find(|(_, value)| !value.is_finite()) {
        Some(&(column, value)) => Err(Problem::NotFinite { column, value }),
        None => Ok(()),
    }
}

/// Adds the values of features to a dense vector, whose first value is that of column `first_column`.
///
/// # Errors
/// If columns do not strictly increase, a value is not that of a vector, or a column lies outside.
pub(crate) fn add_features(
    features: &[(u32, f32)],
    first_column: u32,
    vector: &mut [f32],
) -> Result<(), Problem> {
    check_features(features)?;
    let expected = vector.len();
    for &(column, value) in features {
        let at = column.checked_sub(first_column).ok_or(Problem::ColumnZero)? as usize;
        let found = at + 1;
        *vector.get_mut(at).ok_or(Problem::VectorDimension { found, expected })? = value;
    }
    check_vector(vector)
}

/// Checks that a dense vector's values are within ± [`GREATEST`].
///
/// # Errors
/// The first value that is not.
pub fn check_vector(vector: &[f32]) -> Result<(), Problem> {
    let fits = |value: &f32| value.abs() <= GREATEST;
    // All values are looked at, so that many are compared at a time.
    if vector.iter().fold(true, |all, value| all & fits(value)) {
        return Ok(());
    }
    let wrong = (1..).zip(vector).find(|(_, value)| !fits(value));
    wrong.map_or(Ok(()), |(number, &value)| Err(Problem::VectorValue { number, value }))
}

impl Content {
    /// The number of bytes of text.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Fields(fields) => fields.iter().map(String::len).sum(),
            Self::Features(_) => 0,
        }
    }

    /// The features of a document.
    ///
    /// # Errors
    /// If columns do not strictly increase or a value is not finite.
    ///
    /// ```
    /// use classify::text::corpus::Content;
    ///
    /// assert!(Content::features(vec![(3, 1.0), (7, 0.5)]).is_ok());
    /// assert!(Content::features(vec![(7, 0.5), (3, 1.0)]).is_err());
    /// assert!(Content::features(vec![(3, f32::NAN)]).is_err());
    /// ```
    pub fn features(features: Vec<(u32, f32)>) -> Result<Self, Problem> {
        check_features(&features)?;
        Ok(Self::Features(features))
    }

    /// The texts of several columns: as fields (`apart`), or as the lines of one text.
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
    /// The path as the user gave it, or `<stdin>`.
    pub source: Arc<str>,
    /// The line, from 1, or `None` for the whole file.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", printable(&self.source)),
            None => write!(f, "{}", printable(&self.source)),
        }
    }
}

/// The corpus formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// fastText lines: `__label__x __label__y text`.
    FastText,
    /// A folder of folders: each inner folder is a label, and each file in it a document.
    Folders,
    /// One document per line, without labels.
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
    /// All formats, in the order of the documentation.
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

/// What to do with bytes that are not valid in the encoding of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadUtf8 {
    /// Stop with an error that names the place.
    #[default]
    Error,
    /// Replace them with U+FFFD.
    Replace,
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
    /// They get their number in the corpus, from 1.
    #[default]
    Numbered,
    /// They get this and their number.
    Prefixed(String),
    /// They are an error.
    Required,
}

/// How to read a corpus. By default the format is detected and the fields have their usual names.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format; `None` detects it for each file.
    pub format: Option<Format>,
    /// JSONL, CSV and TSV: the fields that make up the text, joined by line breaks. If empty: `text`.
    pub text_columns: Vec<String>,
    /// Whether these fields stay separate ([`Content::Fields`]) instead of being joined.
    pub fields: bool,
    /// JSONL, CSV and TSV: the field of the labels. `None`: the first of `labels`, `label`, `category`
    /// and `class` that exists.
    pub label_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the identifier. `None`: `id` if it exists.
    pub id_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's weight. `None`: `weight` if it exists.
    pub weight_column: Option<String>,
    /// JSONL, CSV and TSV: the field of the document's group. `None`: no groups.
    pub group_column: Option<String>,
    /// What separates the labels in one CSV or TSV field or JSON string. `None`: the field is one label.
    pub label_separator: Option<String>,
    /// svmlight: the number of the first column, 0 or 1. `None`: 1.
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
    /// Dense vectors in a file beside the corpus.
    pub vectors_beside: Option<Arc<VectorsBeside>>,
    /// JSONL, CSV and TSV: whether a record may be without a text, which is then empty.
    pub text_optional: bool,
    /// Whether documents are known to be text: rows of features are then not detected.
    pub text_only: bool,
    /// How many bytes a record may have: a line, a CSV record, a file in a label folder.
    /// `None`: [`limits::RECORD`](crate::limits::RECORD).
    pub max_record: Option<u64>,
    /// Counts the bytes read from files, before decompression, to show progress.
    pub bytes_read: Option<Arc<AtomicU64>>,
    /// The threads that read and parse: blocks of a file, files of a folder, and several files side by side. `None`: the thread that asks for
    /// documents. The documents and errors are the same. Streams that are no files are parsed by the thread that asks, as they come.
    pub threads: Option<Threads>,
}

impl ReadOptions {
    /// The flag that names the fields of the text.
    fn text_flag(&self) -> &'static str {
        if self.fields { "--field" } else { "--text-column" }
    }
}

type Records = Box<dyn Iterator<Item = Result<Record, CorpusError>> + Send>;

/// A document that was read.
struct Record {
    document: Document,
    /// Whether it is complete; otherwise it depends on the number of documents before it.
    is_finished: bool,
}

impl Record {
    /// Completes a document, if that is possible.
    fn new(mut document: Document, options: &ReadOptions) -> Result<Self, CorpusError> {
        if document.id.is_empty() || options.vectors_beside.is_some() {
            return Ok(Self { document, is_finished: false });
        }
        if let Some(qrels) = &options.qrels {
            document.labels = qrels.labels(&document.id);
        }
        Ok(Self { document: finish(document)?, is_finished: true })
    }
}

/// The records of a file or of a label tree.
type Opened = Result<(Format, Records), CorpusError>;

/// Called with the name and the format of each file that is opened.
pub type OnOpen = Box<dyn FnMut(&str, Format) + Send>;

/// A stream of documents from one or several files, in the order given.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("two.jsonl");
/// std::fs::write(&path, "{\"text\": \"a b\", \"labels\": [\"x\"]}\n{\"text\": \"c\", \"labels\": []}\n")?;
/// let corpus = classify::text::corpus::Corpus::open(&[path], Default::default())?;
/// let documents = corpus.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(documents.len(), 2);
/// assert_eq!(documents[0].labels, ["x"]);
/// assert_eq!(documents[1].id, "2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Corpus {
    waiting: VecDeque<PathBuf>,
    /// The next files, whose first blocks are on their way.
    ahead: VecDeque<(PathBuf, Opened)>,
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
    /// A folder that holds only folders is read as one folder per label; any other folder stands for
    /// the corpus files in it, ordered by name. Symbolic links are followed.
    ///
    /// # Errors
    /// If a path does not exist, a folder holds no corpus file, or a symbolic link leads nowhere.
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
        let ahead = VecDeque::new();
        Ok(Self { waiting, ahead, current: None, options, on_open: None, read: 0, failed: false })
    }

    /// The files, and the folders of one folder a label, that are still to be read, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Path> {
        let ahead = self.ahead.iter().map(|(path, _)| path);
        ahead.chain(&self.waiting).map(PathBuf::as_path)
    }

    /// A corpus of bytes in memory; messages call it `name`.
    ///
    /// # Errors
    /// If the format cannot be detected.
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
        options: ReadOptions,
    ) -> Result<Self, CorpusError> {
        let options = Arc::new(options);
        let source = Source::from_reader(name, Box::new(std::io::Cursor::new(bytes)), &options)?;
        let (_, records) = read_source(source, &options)?;
        let (waiting, ahead) = (VecDeque::new(), VecDeque::new());
        let current = Some(records);
        Ok(Self { waiting, ahead, current, options, on_open: None, read: 0, failed: false })
    }

    /// Calls `on_open` for each file that is opened from now on.
    #[must_use]
    pub fn on_open(mut self, on_open: OnOpen) -> Self {
        self.on_open = Some(on_open);
        self
    }

    /// Opens the next file, and those after it if several threads read.
    fn open_next(&mut self) -> Option<Result<Records, CorpusError>> {
        if self.ahead.is_empty() {
            let path = self.waiting.pop_front()?;
            let opened = open_path(&path, &self.options);
            self.ahead.push_back((path, opened));
        }
        let (path, opened) = self.ahead.pop_front()?;
        let threads = self.options.threads.as_ref().map_or(1, Threads::count);
        while opened.is_ok()
            && self.ahead.len() + 1 < threads.min(MOST_OPEN)
            && let Some(next) =
                self.waiting.pop_front_if(|path| path.as_os_str() != "-" && path.is_file())
        {
            let opened = open_path(&next, &self.options);
            self.ahead.push_back((next, opened));
        }
        Some(opened.map(|(format, records)| {
            if let Some(on_open) = &mut self.on_open {
                on_open(&path.to_string_lossy(), format);
            }
            records
        }))
    }

    fn advance(&mut self) -> Option<Result<Record, CorpusError>> {
        loop {
            if let Some(current) = &mut self.current {
                match current.next() {
                    Some(record) => return Some(record),
                    None => self.current = None,
                }
            }
            match self.open_next()? {
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
        let Some(next) = self.advance() else {
            // Once.
            self.failed = true;
            let beside = self.options.vectors_beside.as_ref()?;
            return beside.check_end(self.read).err().map(Err);
        };
        let finished = next.and_then(|Record { mut document, is_finished }| {
            self.read += 1;
            if is_finished {
                return Ok(document);
            }
            if document.id.is_empty() {
                document.id = match &self.options.ids {
                    IdUse::Numbered => self.read.to_string(),
                    IdUse::Prefixed(prefix) => format!("{prefix}{}", self.read),
                    IdUse::Required => return Err(Problem::NoId.at(&document.place)),
                };
            }
            if let Some(qrels) = &self.options.qrels {
                document.labels = qrels.labels(&document.id);
            }
            if let Some(beside) = &self.options.vectors_beside {
                let vector = beside.vector(self.read - 1, &document.id);
                document.vector = Some(vector.map_err(|problem| problem.at(&document.place))?);
            }
            finish(document)
        });
        self.failed = finished.is_err();
        Some(finished)
    }
}

/// The most files that are read beside each other.
const MOST_OPEN: usize = 4;

/// So many labels are faster compared with each other than hashed.
const FEW_LABELS: usize = 16;

/// Checks what must hold for the documents of every reader, and drops repeated labels.
fn finish(mut document: Document) -> Result<Document, CorpusError> {
    if document.labels.iter().any(String::is_empty) {
        return Err(Problem::EmptyLabel.at(&document.place));
    }
    if !(document.weight.is_finite() && document.weight > 0.0) {
        return Err(Problem::BadWeight { found: document.weight.to_string() }.at(&document.place));
    }
    if let Some(Err(problem)) = document.vector.as_deref().map(check_vector) {
        return Err(problem.at(&document.place));
    }
    if let labels @ [_, _, ..] = &*document.labels
        && labels.len() <= FEW_LABELS
        && labels.iter().enumerate().all(|(at, label)| !labels[..at].contains(label))
    {
        return Ok(document);
    }
    if document.labels.len() > 1 {
        let mut seen = HashSet::with_capacity(document.labels.len());
        let first: Vec<bool> = document.labels.iter().map(|label| seen.insert(&**label)).collect();
        let mut first = first.into_iter();
        document.labels.retain(|_| first.next().unwrap_or(true));
    }
    Ok(document)
}

fn open_path(path: &Path, options: &Arc<ReadOptions>) -> Opened {
    if path.as_os_str() != "-" && path.is_dir() {
        return Ok((Format::Folders, folders::read(path, options)?));
    }
    read_source(Source::open(path, options)?, options)
}

fn read_source(mut source: Source, options: &Arc<ReadOptions>) -> Opened {
    let format = match options.format {
        Some(format) => format,
        None => detect::format(&mut source, options)?,
    };
    if format == Format::Reuters && options.encoding.is_none() {
        source = source.decoded(encoding_rs::WINDOWS_1252, options.on_bad_utf8);
    }
    let records: Records = match format {
        Format::Jsonl => in_blocks(source, options, Ends::Lines, |lines, options| {
            Ok(jsonl::Jsonl::new(lines, Arc::clone(options)))
        })?,
        Format::FastText => in_blocks(source, options, Ends::Lines, |lines, options| {
            Ok(fasttext::FastText::new(lines, options))
        })?,
        Format::Plain => in_blocks(source, options, Ends::Lines, |lines, options| {
            plain::Plain::new(lines, options)
        })?,
        Format::Svmlight => in_blocks(source, options, Ends::Lines, |lines, options| {
            Ok(svmlight::Svmlight::new(lines, options))
        })?,
        Format::Lyrl2004Vectors => in_blocks(source, options, Ends::Lines, |lines, options| {
            lyrl2004::Vectors::new(lines, options)
        })?,
        Format::Csv => delimited::read(source, options, None)?,
        Format::Tsv => delimited::read(source, options, Some(b'\t'))?,
        Format::Reuters => {
            let ends = Ends::Between(reuters::story_records);
            in_blocks(source, options, ends, |lines, options| {
                Ok(reuters::Reuters::new(lines, Arc::clone(options)))
            })?
        }
        Format::Lyrl2004Tokens => {
            let ends = Ends::Between(lyrl2004::token_records);
            in_blocks(source, options, ends, |lines, options| {
                lyrl2004::Tokens::new(lines, options)
            })?
        }
        Format::Folders => return Err(Problem::NotAFolder.at(&source.place())),
    };
    Ok((format, records))
}

/// The records of a format that can be cut into blocks.
fn in_blocks<R>(
    source: Source,
    options: &Arc<ReadOptions>,
    ends: Ends,
    open: impl Fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError> + Send + Sync + 'static,
) -> Result<Records, CorpusError>
where
    R: Iterator<Item = Result<Document, CorpusError>> + Send + 'static,
{
    match threads_for(&source, options) {
        Some(threads) => {
            let cutter = source.blocks(ends);
            Ok(Box::new(blocks::InBlocks::new(cutter, open, options, threads)?))
        }
        None => Ok(one_by_one(open(source.lines(), options)?, options)),
    }
}

/// The threads that read a source in blocks, if there are several and the source is all there.
fn threads_for<'a>(source: &Source, options: &'a ReadOptions) -> Option<&'a Threads> {
    options.threads.as_ref().filter(|threads| threads.count() > 1 && source.is_file())
}

fn one_by_one(
    documents: impl Iterator<Item = Result<Document, CorpusError>> + Send + 'static,
    options: &Arc<ReadOptions>,
) -> Records {
    let options = Arc::clone(options);
    Box::new(documents.map(move |document| Record::new(document?, &options)))
}
