//! Reads documents from files, folders or bytes.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cutter::RecordEnds;
use super::document::{Document, finish};
use super::error::{CorpusError, Problem};
use super::format::Format;
use super::options::{IdUse, ReadOptions};
use super::records::{Record, Records, read_in_blocks, read_one_by_one};
use super::source::{Source, io_error};
use super::text_encoder::{TextEncoder, encode_documents};
use super::{
    annif, delimited, detect, fasttext, folders, json, jsonl, lyrl2004, plain, reuters, svmlight,
};
use crate::threads::Threads;

/// The format and the records of a file or of label folders.
type OpenedFile = Result<(Format, Records), CorpusError>;

/// A callback that receives the name and the format of each file that is opened.
pub type OnOpen = Box<dyn FnMut(&str, Format) + Send>;

/// A stream of documents from one or several files, in the order given.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("two.jsonl");
/// let lines = "{\"text\": \"a b\", \"labels\": [\"x\"]}\n{\"text\": \"c\", \"labels\": []}\n";
/// std::fs::write(&path, lines)?;
/// let corpus = classify::text::corpus::Corpus::open(&[path], Default::default())?;
/// let documents = corpus.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(documents.len(), 2);
/// assert_eq!(documents[0].labels, ["x"]);
/// assert_eq!(documents[1].id, "2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Corpus {
    waiting: VecDeque<PathBuf>,
    /// The next files, which are already open and whose first blocks are being read.
    open_files: VecDeque<(PathBuf, OpenedFile)>,
    current: Option<Records>,
    options: Arc<ReadOptions>,
    on_open: Option<OnOpen>,
    documents_read: u64,
    /// Whether the current source is standard input.
    is_stream: bool,
    /// Documents that were read and encoded together.
    encoded: VecDeque<Result<Document, CorpusError>>,
    /// Whether a document had an identifier.
    has_ids: bool,
    has_failed: bool,
}

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus")
            .field("waiting", &self.waiting)
            .field("options", &self.options)
            .field("read", &self.documents_read)
            .finish_non_exhaustive()
    }
}

impl Corpus {
    /// Opens a corpus of `paths`: files, folders, or `-` for standard input.
    ///
    /// A folder that contains only folders is read as one folder per label. A folder of texts with
    /// label files is read in the format of Annif. In any other folder, the corpus files are read,
    /// ordered by name. Symbolic links are followed.
    ///
    /// # Errors
    /// If a path does not exist, a folder contains no corpus file, or a symbolic link is broken.
    pub fn open(paths: &[PathBuf], options: ReadOptions) -> Result<Self, CorpusError> {
        let mut waiting = VecDeque::new();
        for path in paths {
            if path.as_os_str() == "-" {
                waiting.push_back(path.clone());
                continue;
            }
            let kind = std::fs::metadata(path).map_err(|error| io_error(path, error))?;
            if kind.is_dir() && folders::tree_format(path, options.format)?.is_none() {
                waiting.extend(folders::corpus_files(path, options.format)?);
            } else {
                waiting.push_back(path.clone());
            }
        }
        let mut corpus = Self::empty(Arc::new(options));
        corpus.waiting = waiting;
        Ok(corpus)
    }

    /// Returns the files and label folders that have not been read yet, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Path> {
        let open_files = self.open_files.iter().map(|(path, _)| path);
        open_files.chain(&self.waiting).map(PathBuf::as_path)
    }

    /// Opens a corpus of bytes in memory. Error messages refer to it as `name`.
    ///
    /// # Errors
    /// If the format cannot be detected or the first bytes cannot be read.
    pub fn from_bytes(
        name: &str,
        bytes: Vec<u8>,
        options: ReadOptions,
    ) -> Result<Self, CorpusError> {
        let options = Arc::new(options);
        let source =
            Source::from_reader(name, Box::new(std::io::Cursor::new(bytes)), &options.source())?;
        let (_, records) = read_source(source, &options)?;
        let mut corpus = Self::empty(options);
        corpus.current = Some(records);
        Ok(corpus)
    }

    fn empty(options: Arc<ReadOptions>) -> Self {
        Self {
            waiting: VecDeque::new(),
            open_files: VecDeque::new(),
            current: None,
            options,
            on_open: None,
            documents_read: 0,
            is_stream: false,
            encoded: VecDeque::new(),
            has_ids: false,
            has_failed: false,
        }
    }

    /// Calls `on_open` for each file that is opened from now on.
    #[must_use]
    pub fn on_open(mut self, on_open: OnOpen) -> Self {
        self.on_open = Some(on_open);
        self
    }

    /// Opens the next file, and further files if several threads read.
    fn open_next(&mut self) -> Option<Result<Records, CorpusError>> {
        if self.open_files.is_empty() {
            let path = self.waiting.pop_front()?;
            let opened = open_path(&path, &self.options);
            self.open_files.push_back((path, opened));
        }
        let (path, opened) = self.open_files.pop_front()?;
        let threads = self.options.threads.as_ref().map_or(1, Threads::count);
        while opened.is_ok()
            && self.open_files.len() + 1 < threads.min(MAX_OPEN_FILES)
            && let Some(next) =
                self.waiting.pop_front_if(|path| path.as_os_str() != "-" && path.is_file())
        {
            let opened = open_path(&next, &self.options);
            self.open_files.push_back((next, opened));
        }
        self.is_stream = path.as_os_str() == "-";
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
        if self.encoded.is_empty()
            && let Some(encoder) = self.options.encoder.clone()
        {
            self.read_encoded(&*encoder);
        }
        if self.options.encoder.is_some() { self.encoded.pop_front() } else { self.read() }
    }
}

impl Corpus {
    /// Reads the next documents and encodes them together.
    fn read_encoded(&mut self, encoder: &dyn TextEncoder) {
        let mut documents = Vec::new();
        let mut error = None;
        while documents.is_empty() || (documents.len() < ENCODED_TOGETHER && !self.is_stream) {
            match self.read() {
                Some(Ok(document)) if document.content.text().is_none() => {
                    error = Some(Problem::NoTextToEncode.at(&document.place));
                    break;
                }
                Some(Ok(document)) => documents.push(document),
                Some(Err(problem)) => {
                    error = Some(problem);
                    break;
                }
                None => break,
            }
        }
        encode_documents(encoder, &mut documents);
        self.encoded.extend(documents.into_iter().map(Ok));
        self.has_failed |= error.is_some();
        self.encoded.extend(error.map(Err));
    }

    /// Reads the next document.
    fn read(&mut self) -> Option<Result<Document, CorpusError>> {
        if self.has_failed {
            return None;
        }
        let Some(next) = self.advance() else {
            // Report a mismatch only once.
            self.has_failed = true;
            let vectors = self.options.vectors_beside.as_ref()?;
            return vectors.check_end(self.documents_read).err().map(Err);
        };
        let finished = next.and_then(|Record { mut document, is_finished }| {
            self.documents_read += 1;
            if is_finished {
                self.has_ids = true;
                return Ok(document);
            }
            self.has_ids |= !document.id.is_empty();
            if document.id.is_empty() {
                document.id = match &self.options.ids {
                    IdUse::Numbered if self.has_ids => format!("row-{}", self.documents_read),
                    IdUse::Numbered => self.documents_read.to_string(),
                    IdUse::NumberedAfter(before) => (before + self.documents_read).to_string(),
                    IdUse::Prefixed { prefix, after } => {
                        format!("{prefix}{}", after + self.documents_read)
                    }
                    IdUse::Required => return Err(Problem::NoId.at(&document.place)),
                };
            }
            if let Some(qrels) = &self.options.qrels {
                document.labels = qrels.labels(&document.id);
            }
            if let Some(vectors) = &self.options.vectors_beside {
                let vector = vectors.vector(self.documents_read - 1, &document.id);
                document.vector = Some(vector.map_err(|problem| problem.at(&document.place))?);
            }
            finish(document)
        });
        self.has_failed = finished.is_err();
        Some(finished)
    }
}

/// The maximum number of documents that are encoded together.
const ENCODED_TOGETHER: usize = 1024;

/// The maximum number of files that are read concurrently.
const MAX_OPEN_FILES: usize = 4;

fn open_path(path: &Path, options: &Arc<ReadOptions>) -> OpenedFile {
    if path.as_os_str() != "-" && path.is_dir() {
        let format = folders::tree_format(path, options.format)?.unwrap_or(Format::Folders);
        return Ok((format, folders::read(path, format, options)?));
    }
    read_source(Source::open(path, &options.source())?, options)
}

fn read_source(mut source: Source, options: &Arc<ReadOptions>) -> OpenedFile {
    let format = match options.format {
        Some(format) => format,
        None => detect::format(&mut source, options)?,
    };
    if format == Format::Reuters && options.encoding.is_none() {
        source = source.decode(encoding_rs::WINDOWS_1252, options.on_bad_utf8);
    }
    let records: Records = match format {
        Format::Jsonl => read_in_blocks(source, options, RecordEnds::Lines, |lines, options| {
            Ok(jsonl::Jsonl::new(lines, Arc::clone(options)))
        })?,
        Format::FastText => {
            read_in_blocks(source, options, RecordEnds::Lines, |lines, options| {
                Ok(fasttext::FastText::new(lines, options))
            })?
        }
        Format::Plain => read_in_blocks(source, options, RecordEnds::Lines, |lines, options| {
            plain::Plain::new(lines, options)
        })?,
        Format::Json => read_one_by_one(json::Json::new(source, options), options),
        Format::Annif => read_in_blocks(source, options, RecordEnds::Lines, |lines, options| {
            Ok(annif::Annif::new(lines, options))
        })?,
        Format::Svmlight => {
            let counts = svmlight::Counts::parse(detect::first_line(source.first_line()?));
            read_in_blocks(source, options, RecordEnds::Lines, move |lines, options| {
                Ok(svmlight::Svmlight::new(lines, options, counts))
            })?
        }
        Format::Lyrl2004Vectors => {
            read_in_blocks(source, options, RecordEnds::Lines, |lines, options| {
                lyrl2004::Vectors::new(lines, options)
            })?
        }
        Format::Csv => delimited::read(source, options, b',')?,
        Format::Tsv => delimited::read(source, options, b'\t')?,
        Format::Reuters => {
            let ends = RecordEnds::Between(reuters::find_story_end);
            read_in_blocks(source, options, ends, |lines, options| {
                Ok(reuters::Reuters::new(lines, Arc::clone(options)))
            })?
        }
        Format::Lyrl2004Tokens => {
            let ends = RecordEnds::Between(lyrl2004::find_token_record_end);
            read_in_blocks(source, options, ends, |lines, options| {
                lyrl2004::Tokens::new(lines, options)
            })?
        }
        Format::Folders => return Err(Problem::NotAFolder.at(&source.place())),
    };
    Ok((format, records))
}
