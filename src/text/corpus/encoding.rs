//! Text encodings: decoding to UTF-8 and validation of UTF-8.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use encoding_rs::{DecoderResult, Encoding};

use super::error::{CorpusError, Problem};
use super::peeked::Bytes;
use super::place::Place;
use crate::limits::TooLong;

const BUFFER_SIZE: usize = 1 << 16;

/// How to handle bytes that are invalid in the encoding of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadUtf8 {
    /// Stop with an error that gives the location.
    #[default]
    Error,
    /// Replace invalid bytes with U+FFFD.
    Replace,
}

/// Returns the encoding with this label, which is a label of the WHATWG standard or `latin-1`.
///
/// ```
/// use classify::text::corpus::encoding_for_label;
///
/// assert_eq!(encoding_for_label("latin-1").unwrap().name(), "windows-1252");
/// assert!(encoding_for_label("klingon").is_none());
/// ```
pub fn encoding_for_label(label: &str) -> Option<&'static Encoding> {
    let label = if label.eq_ignore_ascii_case("latin-1") { "latin1" } else { label };
    Encoding::for_label(label.as_bytes())
}

/// Returns a stream that decodes `bytes` from `encoding` to UTF-8.
pub(super) fn decode(bytes: Bytes, encoding: &'static Encoding, on_bad: OnBadUtf8) -> Bytes {
    let decoded = DecodingReader {
        bytes,
        decoder: encoding.new_decoder_with_bom_removal(),
        encoding,
        on_bad,
        offset: 0,
        is_at_end: false,
        malformed: None,
        pending: Vec::new(),
        consumed: 0,
    };
    Box::new(BufReader::with_capacity(BUFFER_SIZE, decoded))
}

/// Converts an I/O error to a corpus error. Recognizes the errors of the decoder and of
/// [`LimitedReader`](crate::limits::LimitedReader).
pub(crate) fn read_error(error: io::Error, place: &Place) -> CorpusError {
    if let Some(TooLong { what, limit }) = TooLong::behind(&error) {
        return Problem::TooLong { what, limit }.at(place);
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<MalformedBytes>()) {
        Some(malformed) => {
            Problem::BadEncoding { byte: malformed.byte, encoding: malformed.encoding }.at(place)
        }
        None => Problem::Io(error).at(place),
    }
}

/// Returns `bytes` as UTF-8. `offset` is the position of `bytes` in the file; errors report
/// positions in the file.
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

#[derive(Debug, thiserror::Error)]
#[error("not valid {encoding}")]
struct MalformedBytes {
    byte: u64,
    encoding: &'static str,
}

/// A reader that decodes bytes in another encoding to UTF-8.
struct DecodingReader {
    bytes: Bytes,
    decoder: encoding_rs::Decoder,
    encoding: &'static Encoding,
    on_bad: OnBadUtf8,
    offset: u64,
    is_at_end: bool,
    /// The error that is reported once the text before it has been read.
    malformed: Option<MalformedBytes>,
    pending: Vec<u8>,
    consumed: usize,
}

impl DecodingReader {
    fn refill(&mut self) -> io::Result<()> {
        if let Some(malformed) = self.malformed.take() {
            self.is_at_end = true;
            return Err(io::Error::new(io::ErrorKind::InvalidData, malformed));
        }
        self.pending.resize(BUFFER_SIZE, 0);
        self.consumed = 0;
        let input = self.bytes.fill_buf()?;
        let is_last = input.is_empty();
        let (read, written) = match self.on_bad {
            OnBadUtf8::Replace => {
                let (result, read, written, _) =
                    self.decoder.decode_to_utf8(input, &mut self.pending, is_last);
                self.is_at_end = is_last && result == encoding_rs::CoderResult::InputEmpty;
                (read, written)
            }
            OnBadUtf8::Error => {
                let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
                    input,
                    &mut self.pending,
                    is_last,
                );
                if let DecoderResult::Malformed(length, after) = result {
                    let end = self.offset + read as u64;
                    let byte = end.saturating_sub(u64::from(length) + u64::from(after));
                    self.malformed = Some(MalformedBytes { byte, encoding: self.encoding.name() });
                }
                self.is_at_end = is_last && result == DecoderResult::InputEmpty;
                (read, written)
            }
        };
        self.bytes.consume(read);
        self.offset += read as u64;
        self.pending.truncate(written);
        Ok(())
    }
}

impl Read for DecodingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.consumed == self.pending.len() {
            if self.is_at_end {
                return Ok(0);
            }
            self.refill()?;
        }
        let length = out.len().min(self.pending.len() - self.consumed);
        out[..length].copy_from_slice(&self.pending[self.consumed..self.consumed + length]);
        self.consumed += length;
        Ok(length)
    }
}
