//! Opens files and standard input as byte streams, decompressed and decoded to UTF-8.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

use super::compressed::decompress;
use super::cutter::{Cutter, RecordEnds};
use super::encoding::{OnBadUtf8, decode, read_error};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::magic;
use super::members::decompress_on_threads;
use super::peeked::{Bytes, PeekReader};
use super::place::Place;
use crate::limits::{self, LimitedReader};
use crate::threads::Threads;

const BUFFER: usize = 1 << 16;

/// Options for reading the bytes of a source.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceOptions {
    /// The text encoding; `None` means UTF-8.
    pub(super) encoding: Option<&'static Encoding>,
    pub(super) on_bad_utf8: OnBadUtf8,
    /// The maximum number of bytes of a record; `None` means [`limits::MAX_RECORD_BYTES`].
    pub(super) max_record: Option<u64>,
    /// Counts the bytes read from files, before decompression.
    pub(super) bytes_read: Option<Arc<AtomicU64>>,
    /// The threads that decompress the source.
    pub(super) threads: Option<Threads>,
}

/// A named stream of decompressed bytes, which should be UTF-8.
pub(super) struct Source {
    name: Arc<str>,
    bytes: PeekReader,
    /// The length of the byte order mark before the text.
    offset: u64,
    on_bad_utf8: OnBadUtf8,
    max_record: u64,
    /// Whether the source is a file, which can be read ahead without waiting for more input.
    is_file: bool,
}

pub(super) fn io_error(path: &Path, error: io::Error) -> CorpusError {
    Problem::Io(error).at(&Place { source: path.to_string_lossy().into(), line: None })
}

/// Opens a file other than a corpus and returns its decompressed bytes.
pub(crate) fn open_bytes(path: &Path) -> Result<Bytes, CorpusError> {
    let file = File::open(path).map_err(|error| io_error(path, error))?;
    let bytes = Box::new(BufReader::with_capacity(BUFFER, file));
    decompress(bytes).map_err(|error| io_error(path, error))
}

impl Source {
    pub(super) fn open(path: &Path, options: &SourceOptions) -> Result<Self, CorpusError> {
        if path.as_os_str() == "-" {
            let stdin = BufReader::with_capacity(BUFFER, io::stdin());
            return Self::from_reader("<stdin>", Box::new(stdin), options);
        }
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let file = CountingFile { file, bytes: options.bytes_read.clone() };
        let file = BufReader::with_capacity(BUFFER, file);
        let threads = options.threads.as_ref().filter(|_| is_file);
        let source =
            Self::read_on_threads(&path.to_string_lossy(), Box::new(file), options, threads)?;
        Ok(Self { is_file, ..source })
    }

    pub(super) fn from_reader(
        name: &str,
        bytes: Bytes,
        options: &SourceOptions,
    ) -> Result<Self, CorpusError> {
        Self::read_on_threads(name, bytes, options, None)
    }

    /// Like [`from_reader`](Self::from_reader), but decompresses on `threads` if possible.
    fn read_on_threads(
        name: &str,
        bytes: Bytes,
        options: &SourceOptions,
        threads: Option<&Threads>,
    ) -> Result<Self, CorpusError> {
        let name: Arc<str> = name.into();
        let failed =
            |error| Problem::Io(error).at(&Place { source: Arc::clone(&name), line: None });
        let bytes = decompress_on_threads(bytes, threads).map_err(failed)?;
        let mut bytes = PeekReader::new(bytes);
        if let Some(problem) =
            magic::find_problem(bytes.peek_until(magic::is_long_enough).map_err(failed)?)
        {
            return Err(problem.at(&Place { source: name, line: None }));
        }
        let on_bad_utf8 = options.on_bad_utf8;
        let max_record = options.max_record.unwrap_or(limits::MAX_RECORD_BYTES);
        let mut source = Self {
            name: Arc::clone(&name),
            bytes,
            offset: 0,
            on_bad_utf8,
            max_record,
            is_file: false,
        };
        match options.encoding {
            Some(encoding) if encoding != encoding_rs::UTF_8 => {
                source = source.decode(encoding, options.on_bad_utf8);
            }
            _ => {
                let place = source.place();
                let marks: [&[u8]; 3] = [&[0xEF, 0xBB, 0xBF], &[0xFF, 0xFE], &[0xFE, 0xFF]];
                let head = source.bytes.peek_for(&marks);
                let head = head.map_err(|error| read_error(error, &place))?;
                if head.starts_with(&[0xEF, 0xBB, 0xBF]) {
                    source.bytes.consume(3);
                    source.offset = 3;
                } else if head.starts_with(&[0xFF, 0xFE]) || head.starts_with(&[0xFE, 0xFF]) {
                    // The decoder removes the byte order mark.
                    let is_little = head.starts_with(&[0xFF, 0xFE]);
                    let utf_16 = if is_little { UTF_16LE } else { UTF_16BE };
                    source = source.decode(utf_16, options.on_bad_utf8);
                }
            }
        }
        Ok(source)
    }

    /// Decodes the stream from `encoding`.
    pub(super) fn decode(self, encoding: &'static Encoding, on_bad: OnBadUtf8) -> Self {
        let decoded = decode(Box::new(self.bytes), encoding, on_bad);
        Self { bytes: PeekReader::new(decoded), ..self }
    }

    pub(super) fn place(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: None }
    }

    /// Returns the first line and the bytes read with it, without consuming them. If the line is
    /// longer than 64 KiB, returns at least its first 64 KiB.
    pub(super) fn first_line(&mut self) -> Result<&[u8], CorpusError> {
        let place = self.place();
        let is_enough = |head: &[u8]| head.len() >= BUFFER || head.contains(&b'\n');
        self.bytes.peek_until(is_enough).map_err(|error| read_error(error, &place))
    }

    pub(super) fn on_bad_utf8(&self) -> OnBadUtf8 {
        self.on_bad_utf8
    }

    /// Limits the stream to the maximum size of files other than the corpus
    /// ([`limits::MAX_FILE_BYTES`]).
    pub(super) fn limited(self) -> Self {
        let bytes = LimitedReader::new(self.bytes, "a file", limits::MAX_FILE_BYTES);
        Self { bytes: PeekReader::new(Box::new(bytes)), ..self }
    }

    /// Returns the bytes, limited to the size of one record. [`LimitedReader::restart`] begins the
    /// next record.
    pub(super) fn into_records(self) -> LimitedReader<Bytes> {
        LimitedReader::new(Box::new(self.bytes), "a record", self.max_record)
    }

    /// Reads all bytes as one document.
    pub(super) fn into_document(self) -> Result<String, CorpusError> {
        let place = self.place();
        let Self { offset, on_bad_utf8, .. } = self;
        let mut bytes = Vec::new();
        let read = self.into_records().read_to_end(&mut bytes);
        read.map_err(|error| read_error(error, &place))?;
        let mut text = match (String::from_utf8(bytes), on_bad_utf8) {
            (Ok(text), _) => text,
            (Err(error), OnBadUtf8::Replace) => String::from_utf8_lossy(error.as_bytes()).into(),
            (Err(error), OnBadUtf8::Error) => {
                let byte = offset + error.utf8_error().valid_up_to() as u64;
                return Err(Problem::BadUtf8 { byte }.at(&place));
            }
        };
        text.shrink_to_fit();
        Ok(text)
    }

    pub(super) fn is_file(&self) -> bool {
        self.is_file
    }

    /// Splits the source into blocks of complete records.
    pub(super) fn blocks(self, ends: RecordEnds) -> Cutter {
        let Self { name, bytes, offset, on_bad_utf8, max_record, .. } = self;
        Cutter {
            name,
            bytes,
            ends,
            line: 0,
            offset,
            on_bad_utf8,
            max_record,
            rest: Vec::new(),
            is_at_end: false,
            pending_error: None,
        }
    }

    pub(super) fn lines(self) -> Lines {
        let name = Arc::clone(&self.name);
        let Self { offset, on_bad_utf8, .. } = self;
        let bytes = self.into_records();
        Lines { name, bytes, line: 0, offset, on_bad_utf8, buffer: Vec::new() }
    }
}

/// A file that counts the bytes read from it.
struct CountingFile {
    file: File,
    bytes: Option<Arc<AtomicU64>>,
}

impl Read for CountingFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        if let Some(bytes) = &self.bytes {
            bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }
}
