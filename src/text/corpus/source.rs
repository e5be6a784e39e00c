//! Files and standard input as streams of bytes: decompressed and decoded to UTF-8.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{DecoderResult, Encoding};

use super::compressed::decompressed;
use super::peeked::{Bytes, Peeked};
use super::{CorpusError, OnBadUtf8, Place, Problem, ReadOptions, magic};
use crate::limits::{self, Limited, TooLong};
use crate::threads::Threads;

const BUFFER: usize = 1 << 16;
/// The bytes of a block that one thread parses, and the rest of its last line.
pub(super) const BLOCK: usize = 1 << 18;

/// A named stream of bytes, decompressed and meant to be UTF-8.
pub(super) struct Source {
    name: Arc<str>,
    bytes: Peeked,
    /// The length of the byte order mark before the text.
    offset: u64,
    on_bad_utf8: OnBadUtf8,
    max_record: u64,
    /// Whether all of it is there: nothing waits for more.
    is_file: bool,
}

/// The encoding with this label: a label of the WHATWG standard, or `latin-1`.
///
/// ```
/// assert_eq!(classify::text::corpus::encoding_for_label("latin-1").unwrap().name(), "windows-1252");
/// assert!(classify::text::corpus::encoding_for_label("klingon").is_none());
/// ```
pub fn encoding_for_label(label: &str) -> Option<&'static Encoding> {
    let label = if label.eq_ignore_ascii_case("latin-1") { "latin1" } else { label };
    Encoding::for_label(label.as_bytes())
}

pub(super) fn io_error(path: &Path, error: io::Error) -> CorpusError {
    Problem::Io(error).at(&Place { source: path.to_string_lossy().into(), line: None })
}

/// The bytes of a file that is no corpus, decompressed.
pub(crate) fn open_bytes(path: &Path) -> Result<Bytes, CorpusError> {
    let file = File::open(path).map_err(|error| io_error(path, error))?;
    let bytes = Box::new(BufReader::with_capacity(BUFFER, file));
    decompressed(bytes, None).map_err(|error| io_error(path, error))
}

impl Source {
    pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Self, CorpusError> {
        if path.as_os_str() == "-" {
            let stdin = BufReader::with_capacity(BUFFER, io::stdin());
            return Self::from_reader("<stdin>", Box::new(stdin), options);
        }
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let file = Counted { file, bytes: options.bytes_read.clone() };
        let file = BufReader::with_capacity(BUFFER, file);
        let threads = options.threads.as_ref().filter(|_| is_file);
        let source = Self::read_by(&path.to_string_lossy(), Box::new(file), options, threads)?;
        Ok(Self { is_file, ..source })
    }

    pub(super) fn from_reader(
        name: &str,
        bytes: Bytes,
        options: &ReadOptions,
    ) -> Result<Self, CorpusError> {
        Self::read_by(name, bytes, options, None)
    }

    /// The same, decompressed by these threads if that is possible.
    fn read_by(
        name: &str,
        bytes: Bytes,
        options: &ReadOptions,
        threads: Option<&Threads>,
    ) -> Result<Self, CorpusError> {
        let name: Arc<str> = name.into();
        let failed =
            |error| Problem::Io(error).at(&Place { source: Arc::clone(&name), line: None });
        let bytes = decompressed(bytes, threads).map_err(failed)?;
        let mut bytes = Peeked::new(bytes);
        if let Some(problem) = magic::refused(bytes.head_until(magic::suffices).map_err(failed)?) {
            return Err(problem.at(&Place { source: name, line: None }));
        }
        let on_bad_utf8 = options.on_bad_utf8;
        let max_record = options.max_record.unwrap_or(limits::RECORD);
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
                source = source.decoded(encoding, options.on_bad_utf8);
            }
            _ => {
                let place = source.place();
                let marks: [&[u8]; 3] = [&[0xEF, 0xBB, 0xBF], &[0xFF, 0xFE], &[0xFE, 0xFF]];
                let head = source.bytes.head_for(&marks);
                let head = head.map_err(|error| read_error(error, &place))?;
                if head.starts_with(&[0xEF, 0xBB, 0xBF]) {
                    source.bytes.consume(3);
                    source.offset = 3;
                } else if head.starts_with(&[0xFF, 0xFE]) || head.starts_with(&[0xFE, 0xFF]) {
                    return Err(Problem::Utf16.at(&source.place()));
                }
            }
        }
        Ok(source)
    }

    /// The same stream, decoded from `encoding` instead of UTF-8.
    pub(super) fn decoded(self, encoding: &'static Encoding, on_bad: OnBadUtf8) -> Self {
        let decoded = Decoded {
            bytes: Box::new(self.bytes),
            decoder: encoding.new_decoder_with_bom_removal(),
            encoding,
            on_bad,
            offset: 0,
            ended: false,
            malformed: None,
            pending: Vec::new(),
            taken: 0,
        };
        let decoded = Box::new(BufReader::with_capacity(BUFFER, decoded));
        Self { bytes: Peeked::new(decoded), ..self }
    }

    pub(super) fn place(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: None }
    }

    /// The first line, and whatever was read with it, without taking them; the first 64 KiB of a
    /// longer line.
    pub(super) fn first_line(&mut self) -> Result<&[u8], CorpusError> {
        let place = self.place();
        let enough = |head: &[u8]| head.len() >= BUFFER || head.contains(&b'\n');
        self.bytes.head_until(enough).map_err(|error| read_error(error, &place))
    }

    pub(super) fn on_bad_utf8(&self) -> OnBadUtf8 {
        self.on_bad_utf8
    }

    /// The same stream, which fails where it is longer than a file beside the corpus may be.
    pub(super) fn limited(self) -> Self {
        let bytes = Limited::new(self.bytes, "a file", limits::FILE);
        Self { bytes: Peeked::new(Box::new(bytes)), ..self }
    }

    /// The bytes, limited as one record. [`Limited::restart`] begins the next one.
    pub(super) fn into_records(self) -> Limited<Bytes> {
        Limited::new(Box::new(self.bytes), "a record", self.max_record)
    }

    /// All bytes as one document.
    pub(super) fn into_document(self) -> Result<String, CorpusError> {
        let (place, offset, on_bad_utf8) = (self.place(), self.offset, self.on_bad_utf8);
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

    /// The same in blocks of whole records.
    pub(super) fn blocks(self, ends: Ends) -> Cutter {
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
            ended: false,
            failed: None,
        }
    }

    pub(super) fn lines(self) -> Lines {
        let Self { name, offset, on_bad_utf8, .. } = &self;
        let (name, offset, on_bad_utf8) = (Arc::clone(name), *offset, *on_bad_utf8);
        let bytes = self.into_records();
        Lines { name, bytes, line: 0, offset, on_bad_utf8, buffer: Vec::new() }
    }
}

/// The problem behind an I/O error: damaged text where the decoder says so, a limit that was reached.
pub(crate) fn read_error(error: io::Error, place: &Place) -> CorpusError {
    if let Some(TooLong { what, limit }) = TooLong::behind(&error) {
        return Problem::TooLong { what, limit }.at(place);
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Malformed>()) {
        Some(malformed) => {
            Problem::BadEncoding { byte: malformed.byte, encoding: malformed.encoding }.at(place)
        }
        None => Problem::Io(error).at(place),
    }
}

/// `bytes` as UTF-8; `offset` is their place in the file, for the error.
pub(super) fn utf8(
    bytes: &[u8],
    on_bad_utf8: OnBadUtf8,
    offset: u64,
) -> Result<Cow<'_, str>, Problem> {
    match (std::str::from_utf8(bytes), on_bad_utf8) {
        (Ok(text), _) => Ok(Cow::Borrowed(text)),
        (Err(_), OnBadUtf8::Replace) => Ok(String::from_utf8_lossy(bytes)),
        (Err(error), OnBadUtf8::Error) => {
            Err(Problem::BadUtf8 { byte: offset + error.valid_up_to() as u64 })
        }
    }
}

/// The numbered lines of a source, without their line ends.
pub(super) struct Lines {
    name: Arc<str>,
    bytes: Limited<Bytes>,
    line: u64,
    offset: u64,
    on_bad_utf8: OnBadUtf8,
    buffer: Vec<u8>,
}

impl Lines {
    /// The place of the last line read.
    pub(super) fn place(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: Some(self.line.max(1)) }
    }

    /// The next line: the first one of a record.
    pub(super) fn next(&mut self) -> Result<Option<Cow<'_, str>>, CorpusError> {
        self.begin_record();
        self.next_of_record()
    }

    /// The bytes, limited as one record; [`Limited::restart`] begins the next one.
    pub(super) fn into_records(self) -> Limited<Bytes> {
        self.bytes
    }

    /// The number of lines before.
    pub(super) fn before(&self) -> u64 {
        self.line
    }

    pub(super) fn on_bad_utf8(&self) -> OnBadUtf8 {
        self.on_bad_utf8
    }

    /// The lines from here on are another record.
    pub(super) fn begin_record(&mut self) {
        self.bytes.restart(0);
    }

    /// The same with its place.
    pub(super) fn next_placed(&mut self) -> Result<Option<(Place, Cow<'_, str>)>, CorpusError> {
        let place = Place { source: Arc::clone(&self.name), line: Some(self.line + 1) };
        Ok(self.next()?.map(|line| (place, line)))
    }

    /// The next line of the same record: the limit is that of all its lines together.
    pub(super) fn next_of_record(&mut self) -> Result<Option<Cow<'_, str>>, CorpusError> {
        self.buffer.clear();
        let read = self.bytes.read_until(b'\n', &mut self.buffer);
        self.line += 1;
        let read = read.map_err(|error| read_error(error, &self.place()))?;
        if read == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += read as u64;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
        }
        utf8(&self.buffer, self.on_bad_utf8, offset).map(Some).map_err(|problem| {
            problem.at(&Place { source: Arc::clone(&self.name), line: Some(self.line) })
        })
    }
}

/// Where records end.
pub(super) enum Ends {
    /// With every line.
    Lines,
    /// With the line ends that are not quoted; where the text is within a record.
    Quoted(Quotes),
    /// Where this says so of two whole lines, one after the other: between them, or after the second. The first line of a block has an
    /// empty line before it.
    Between(fn(&[u8], &[u8]) -> Option<End>),
}

/// Where a record ends, of two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    BeforeSecond,
    AfterSecond,
}

/// Cuts a source into blocks of whole records.
pub(super) struct Cutter {
    name: Arc<str>,
    bytes: Peeked,
    ends: Ends,
    /// The lines before the next block.
    line: u64,
    offset: u64,
    on_bad_utf8: OnBadUtf8,
    max_record: u64,
    /// The beginning of a line whose end is not in the last block.
    rest: Vec<u8>,
    ended: bool,
    /// Why reading failed after the whole lines of the last block.
    failed: Option<io::Error>,
}

impl Cutter {
    /// The lines of the next block. A line that is longer than a record may be is cut off, but not so that it fits.
    pub(super) fn next_block(&mut self) -> Result<Option<Lines>, CorpusError> {
        if let Some(error) = self.failed.take() {
            return Err(self.error(error));
        }
        let mut block = std::mem::take(&mut self.rest);
        // Quotes of what is left of the last block have been seen; a line end is not in it.
        let mut searched = block.len();
        // The end of the last whole record of the block.
        let mut whole = 0;
        while !self.ended {
            if matches!(self.ends, Ends::Quoted(_)) || block.len() >= BLOCK {
                whole = self.last_end(&block, searched).unwrap_or(whole);
                searched = block.len();
            }
            if block.len() >= BLOCK {
                if whole > 0 {
                    self.rest = block.split_off(whole);
                    break;
                }
                if block.len() as u64 > self.max_record {
                    // Who parses this block fails there: it has no end of a record.
                    self.ended = true;
                    break;
                }
            }
            let room = BLOCK.saturating_sub(block.len()).max(BUFFER);
            block.reserve(room);
            // What was read before an error is in the block.
            match self.bytes.by_ref().take(room as u64).read_to_end(&mut block) {
                Ok(read) => self.ended = read < room,
                Err(error) if matches!(self.ends, Ends::Between(_)) => {
                    // Only who parses the lines can tell which problem comes first.
                    self.ended = true;
                    let bytes: Bytes = Box::new(io::Cursor::new(block).chain(failing(error)));
                    let bytes = Limited::new(bytes, "a record", self.max_record);
                    let lines = Lines { bytes, line: self.line, ..self.no_lines() };
                    return Ok(Some(lines));
                }
                Err(error) => {
                    self.ended = true;
                    // The whole records before are delivered first.
                    let whole = self.last_end(&block, searched).unwrap_or(whole);
                    if (block.len() - whole) as u64 > self.max_record {
                        // The record was too long before.
                        break;
                    }
                    if whole == 0 {
                        return Err(self.error(error));
                    }
                    block.truncate(whole);
                    self.failed = Some(error);
                }
            }
        }
        Ok((!block.is_empty()).then(|| self.lines_of(block)))
    }

    /// The end of the last whole record that ends at `searched` or after.
    fn last_end(&mut self, block: &[u8], searched: usize) -> Option<usize> {
        let new = &block[searched..];
        let end = match &mut self.ends {
            Ends::Quoted(quotes) => quotes.last_end(new, |_| ()),
            Ends::Lines => last_line_end(new),
            Ends::Between(end) => return last_end_between(block, searched, *end),
        };
        end.map(|end| searched + end)
    }

    /// The bytes before the next block.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn error(&self, error: io::Error) -> CorpusError {
        read_error(error, &Place { source: Arc::clone(&self.name), line: Some(self.line + 1) })
    }

    fn lines_of(&mut self, block: Vec<u8>) -> Lines {
        let (line, offset) = (self.line, self.offset);
        let lines = memchr::memchr_iter(b'\n', &block).count();
        self.line += lines as u64;
        self.offset += block.len() as u64;
        // A name of their own: the threads that parse blocks would wait for each other to count the
        // places that share one.
        let name = Arc::from(&*self.name);
        Lines { name, line, offset, bytes: limited(block, self.max_record), ..self.no_lines() }
    }

    /// No line of this source.
    pub(super) fn no_lines(&self) -> Lines {
        Lines {
            name: Arc::clone(&self.name),
            bytes: limited(Vec::new(), self.max_record),
            line: 0,
            offset: self.offset,
            on_bad_utf8: self.on_bad_utf8,
            buffer: Vec::new(),
        }
    }
}

/// A stream that fails, then ends.
pub(super) fn failing(error: io::Error) -> Bytes {
    Box::new(BufReader::new(Failing(Some(error))))
}

struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The place after the last line feed.
fn last_line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', bytes).map(|at| at + 1)
}

/// The last place at which a record ends, if a line that ends at `searched` or after says so.
fn last_end_between(
    block: &[u8],
    searched: usize,
    end: fn(&[u8], &[u8]) -> Option<End>,
) -> Option<usize> {
    let line_before = |at: usize| last_line_end(&block[..at.saturating_sub(1)]).unwrap_or(0);
    let (mut at, mut last) = (last_line_end(&block[..searched]).unwrap_or(0), None);
    let mut before = &block[line_before(at)..at];
    for line in block[at..].split_inclusive(|&byte| byte == b'\n') {
        if line.last() != Some(&b'\n') {
            break;
        }
        match end(before, line) {
            Some(End::BeforeSecond) if at > 0 => last = Some(at),
            Some(End::AfterSecond) => last = Some(at + line.len()),
            _ => {}
        }
        at += line.len();
        before = line;
    }
    last
}

fn limited(block: Vec<u8>, max_record: u64) -> Limited<Bytes> {
    Limited::new(Box::new(io::Cursor::new(block)), "a record", max_record)
}

/// Follows the quotes of CSV records as the crate `csv` reads them: a quote opens a field only at its
/// beginning, two quotes within are one, and blank lines are no records.
#[derive(Debug, Clone)]
pub(super) struct Quotes {
    delimiter: u8,
    state: QuoteState,
    /// The line of the next byte, counted from 1.
    line: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    RecordBegins,
    FieldBegins,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two.
    AfterQuote,
}

impl Quotes {
    /// At the beginning of a record in this line.
    pub(super) const fn new(delimiter: u8, line: u64) -> Self {
        Self { delimiter, state: QuoteState::RecordBegins, line }
    }

    pub(super) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Whether the text so far ends within quotes.
    pub(super) fn is_open(&self) -> bool {
        self.state == QuoteState::Quoted
    }

    /// Reads on, and tells the line of every record that begins. Returns the end of the last record that
    /// ends among these bytes: after its line feed, or, if a carriage return ends it, before the next
    /// record.
    pub(super) fn last_end(&mut self, bytes: &[u8], mut begins: impl FnMut(u64)) -> Option<usize> {
        use QuoteState::{AfterQuote, FieldBegins, Quoted, RecordBegins, Unquoted};
        let mut last = None;
        for (at, &byte) in bytes.iter().enumerate() {
            if self.state == RecordBegins && !matches!(byte, b'\n' | b'\r') {
                begins(self.line);
                if at > 0 {
                    last = Some(at);
                }
            }
            self.state = match (self.state, byte) {
                (Quoted, b'"') => AfterQuote,
                (RecordBegins | FieldBegins | AfterQuote, b'"') | (Quoted, _) => Quoted,
                (_, b'\n') => {
                    last = Some(at + 1);
                    RecordBegins
                }
                (_, b'\r') => RecordBegins,
                (_, byte) if byte == self.delimiter => FieldBegins,
                _ => Unquoted,
            };
            self.line += u64::from(byte == b'\n');
        }
        last
    }
}

/// A file that counts the bytes read from it.
struct Counted {
    file: File,
    bytes: Option<Arc<AtomicU64>>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        if let Some(bytes) = &self.bytes {
            bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not valid {encoding}")]
struct Malformed {
    byte: u64,
    encoding: &'static str,
}

/// Bytes in another encoding, decoded to UTF-8.
struct Decoded {
    bytes: Bytes,
    decoder: encoding_rs::Decoder,
    encoding: &'static Encoding,
    on_bad: OnBadUtf8,
    offset: u64,
    ended: bool,
    /// Reported once the text before it has been read.
    malformed: Option<Malformed>,
    pending: Vec<u8>,
    taken: usize,
}

impl Decoded {
    fn refill(&mut self) -> io::Result<()> {
        if let Some(malformed) = self.malformed.take() {
            self.ended = true;
            return Err(io::Error::new(io::ErrorKind::InvalidData, malformed));
        }
        self.pending.resize(BUFFER, 0);
        self.taken = 0;
        let input = self.bytes.fill_buf()?;
        let last = input.is_empty();
        let (read, written) = match self.on_bad {
            OnBadUtf8::Replace => {
                let (result, read, written, _) =
                    self.decoder.decode_to_utf8(input, &mut self.pending, last);
                self.ended = last && result == encoding_rs::CoderResult::InputEmpty;
                (read, written)
            }
            OnBadUtf8::Error => {
                let (result, read, written) =
                    self.decoder.decode_to_utf8_without_replacement(input, &mut self.pending, last);
                if let DecoderResult::Malformed(length, after) = result {
                    let end = self.offset + read as u64;
                    let byte = end.saturating_sub(u64::from(length) + u64::from(after));
                    self.malformed = Some(Malformed { byte, encoding: self.encoding.name() });
                }
                self.ended = last && result == DecoderResult::InputEmpty;
                (read, written)
            }
        };
        self.bytes.consume(read);
        self.offset += read as u64;
        self.pending.truncate(written);
        Ok(())
    }
}

impl Read for Decoded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.pending.len() {
            if self.ended {
                return Ok(0);
            }
            self.refill()?;
        }
        let length = out.len().min(self.pending.len() - self.taken);
        out[..length].copy_from_slice(&self.pending[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}
