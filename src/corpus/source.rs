//! Bytes in: files and standard input, decompressed by their magic bytes and decoded to UTF-8.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{DecoderResult, Encoding};

use super::{CorpusError, OnBadUtf8, Place, Problem, ReadOptions};

/// No record of a corpus may be longer: a line of gigabytes is a mistake in the file.
const MAX_RECORD: usize = 1 << 28;
const BUFFER: usize = 1 << 16;

type Bytes = Box<dyn BufRead + Send>;

/// A named stream of bytes: decompressed, and UTF-8 unless it is damaged.
pub(super) struct Source {
    name: Arc<str>,
    bytes: Peeked,
    /// The bytes before the text: a byte order mark.
    offset: u64,
    on_bad_utf8: OnBadUtf8,
}

/// The encoding of that name: WHATWG labels, and `latin-1`.
///
/// ```
/// assert_eq!(classify::corpus::encoding_for_label("latin-1").unwrap().name(), "windows-1252");
/// assert!(classify::corpus::encoding_for_label("klingon").is_none());
/// ```
pub fn encoding_for_label(label: &str) -> Option<&'static Encoding> {
    let label = if label.eq_ignore_ascii_case("latin-1") { "latin1" } else { label };
    Encoding::for_label(label.as_bytes())
}

pub(super) fn io_error(path: &Path, error: io::Error) -> CorpusError {
    Problem::Io(error).at(&Place { source: path.to_string_lossy().into(), line: None })
}

impl Source {
    pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Self, CorpusError> {
        if path.as_os_str() == "-" {
            let stdin = BufReader::with_capacity(BUFFER, io::stdin());
            return Self::from_reader("<stdin>", Box::new(stdin), options);
        }
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        let file = Counted { file, bytes: options.bytes_read.clone() };
        let file = BufReader::with_capacity(BUFFER, file);
        Self::from_reader(&path.to_string_lossy(), Box::new(file), options)
    }

    pub(super) fn from_reader(
        name: &str,
        bytes: Bytes,
        options: &ReadOptions,
    ) -> Result<Self, CorpusError> {
        let name: Arc<str> = name.into();
        let failed =
            |error| Problem::Io(error).at(&Place { source: Arc::clone(&name), line: None });
        let bytes = decompressed(bytes).map_err(failed)?;
        let bytes = Peeked::new(bytes);
        let on_bad_utf8 = options.on_bad_utf8;
        let mut source = Self { name: Arc::clone(&name), bytes, offset: 0, on_bad_utf8 };
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

    /// The same stream read as `encoding` instead of UTF-8.
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

    /// The first line, and what was read after it, without taking them. Of a line that does not
    /// end, the first 64 KiB.
    pub(super) fn first_line(&mut self) -> Result<&[u8], CorpusError> {
        let place = self.place();
        let enough = |head: &[u8]| head.len() >= BUFFER || head.contains(&b'\n');
        self.bytes.head_until(enough).map_err(|error| read_error(error, &place))
    }

    pub(super) fn on_bad_utf8(&self) -> OnBadUtf8 {
        self.on_bad_utf8
    }

    pub(super) fn into_bytes(self) -> Bytes {
        Box::new(self.bytes)
    }

    pub(super) fn lines(self) -> Lines {
        let offset = self.offset;
        Lines { source: self, line: 0, offset, buffer: Vec::new() }
    }
}

/// The problem behind an I/O error: damaged text where the decoder says so.
pub(super) fn read_error(error: io::Error, place: &Place) -> CorpusError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Malformed>()) {
        Some(malformed) => {
            Problem::BadEncoding { byte: malformed.byte, encoding: malformed.encoding }.at(place)
        }
        None => Problem::Io(error).at(place),
    }
}

/// `bytes` as UTF-8, by the rule for invalid bytes; `offset` is where they begin in the file.
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

/// The lines of a source, counted, without their line ends.
pub(super) struct Lines {
    source: Source,
    line: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// The place of the line read last.
    pub(super) fn place(&self) -> Place {
        Place { source: Arc::clone(&self.source.name), line: Some(self.line.max(1)) }
    }

    pub(super) fn next(&mut self) -> Result<Option<Cow<'_, str>>, CorpusError> {
        self.buffer.clear();
        let read = Read::take(&mut self.source.bytes, MAX_RECORD as u64 + 1)
            .read_until(b'\n', &mut self.buffer);
        self.line += 1;
        let read = read.map_err(|error| read_error(error, &self.place()))?;
        if read == 0 {
            return Ok(None);
        }
        if read > MAX_RECORD {
            return Err(Problem::TooLong { limit: MAX_RECORD }.at(&self.place()));
        }
        let offset = self.offset;
        self.offset += read as u64;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
        }
        let place = Place { source: Arc::clone(&self.source.name), line: Some(self.line) };
        utf8(&self.buffer, self.source.on_bad_utf8, offset)
            .map(Some)
            .map_err(|problem| problem.at(&place))
    }
}

/// A file whose bytes are counted as they are read.
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

/// A stream whose beginning was read ahead.
struct Peeked {
    head: Vec<u8>,
    taken: usize,
    rest: Bytes,
}

impl Peeked {
    fn new(rest: Bytes) -> Self {
        Self { head: Vec::new(), taken: 0, rest }
    }

    /// Reads ahead until `enough` or the end.
    fn head_until(&mut self, enough: impl Fn(&[u8]) -> bool) -> io::Result<&[u8]> {
        while !enough(&self.head[self.taken..]) {
            let more = self.rest.fill_buf()?;
            let length = more.len();
            if length == 0 {
                break;
            }
            self.head.extend_from_slice(more);
            self.rest.consume(length);
        }
        Ok(&self.head[self.taken..])
    }

    /// Reads ahead so far that it is clear whether the stream begins with one of `marks`. A pipe
    /// may give a byte at a time.
    fn head_for(&mut self, marks: &[&[u8]]) -> io::Result<&[u8]> {
        self.head_until(|head| {
            !marks.iter().any(|mark| head.len() < mark.len() && mark.starts_with(head))
        })
    }
}

impl Read for Peeked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.len().min(out.len());
        out[..length].copy_from_slice(&self.fill_buf()?[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Peeked {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken < self.head.len() {
            Ok(&self.head[self.taken..])
        } else {
            self.rest.fill_buf()
        }
    }

    fn consume(&mut self, amount: usize) {
        if self.taken < self.head.len() {
            self.taken += amount;
            if self.taken == self.head.len() {
                self.head = Vec::new();
                self.taken = 0;
            }
        } else {
            self.rest.consume(amount);
        }
    }
}

const GZIP: [u8; 2] = [0x1F, 0x8B];
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

fn decompressed(bytes: Bytes) -> io::Result<Bytes> {
    let mut bytes = Peeked::new(bytes);
    let head = bytes.head_for(&[&GZIP, &ZSTD])?;
    if head.starts_with(&GZIP) {
        let decoder = flate2::bufread::MultiGzDecoder::new(bytes);
        Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
    } else if head.starts_with(&ZSTD) {
        let decoder = Zstd { rest: ZstdState::Between(Box::new(bytes)) };
        Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
    } else {
        Ok(Box::new(bytes))
    }
}

/// The frames of a zstd stream, one after the other.
struct Zstd {
    rest: ZstdState,
}

type Frame = ruzstd::decoding::StreamingDecoder<Bytes, ruzstd::decoding::FrameDecoder>;

enum ZstdState {
    Between(Bytes),
    Inside(Box<Frame>),
    Ended,
}

impl Read for Zstd {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.rest, ZstdState::Ended) {
                ZstdState::Ended => return Ok(0),
                ZstdState::Between(mut bytes) => {
                    if bytes.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let frame = Frame::new(bytes).map_err(io::Error::other)?;
                    self.rest = ZstdState::Inside(Box::new(frame));
                }
                ZstdState::Inside(mut frame) => {
                    let read = frame.read(out)?;
                    if read > 0 {
                        self.rest = ZstdState::Inside(frame);
                        return Ok(read);
                    }
                    let written = frame.decoder.get_checksum_from_data();
                    if written.is_some() && written != frame.decoder.get_calculated_checksum() {
                        let what = "the checksum of the zstd stream differs: it is damaged";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                    self.rest = ZstdState::Between(frame.into_inner());
                }
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not valid {encoding}")]
struct Malformed {
    byte: u64,
    encoding: &'static str,
}

/// Bytes of another encoding, read as UTF-8.
struct Decoded {
    bytes: Bytes,
    decoder: encoding_rs::Decoder,
    encoding: &'static Encoding,
    on_bad: OnBadUtf8,
    offset: u64,
    ended: bool,
    /// Told after the text before it was read.
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
