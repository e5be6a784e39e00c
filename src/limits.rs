//! Limits on the size of external input, and a reader that enforces them.
//!
//! Without limits, an unclosed quote, a compressed file of zeros or `/dev/zero` would exhaust the
//! memory.

use std::io::{self, BufRead, Read};

/// The default maximum size of a record: 256 MiB. A record is a line, a CSV record, a multi-line
/// story or a file in a label folder.
/// [`ReadOptions::max_record`](crate::text::corpus::ReadOptions::max_record) overrides the default.
pub const MAX_RECORD_BYTES: u64 = 1 << 28;

/// The maximum decompressed size of an input file other than the corpus: 1 GiB. Such files are
/// hierarchies, relevance judgments and evaluations.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// The inner error of the [`io::Error`] that a [`LimitedReader`] returns at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} of more than {limit} bytes")]
pub(crate) struct TooLong {
    /// The limited input, with an article, such as "a record".
    pub(crate) what: &'static str,
    pub(crate) limit: u64,
}

impl TooLong {
    /// Returns the limit that caused `error`, if any.
    pub(crate) fn behind(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).copied()
    }
}

/// A reader that fails if its input is longer than a limit. Input that ends exactly at the limit
/// can be read to its end.
#[derive(Debug)]
pub(crate) struct LimitedReader<R> {
    bytes: R,
    limit: TooLong,
    remaining: u64,
}

impl<R: BufRead> LimitedReader<R> {
    pub(crate) fn new(bytes: R, what: &'static str, limit: u64) -> Self {
        Self { bytes, limit: TooLong { what, limit }, remaining: limit }
    }

    /// Restarts the limit for the next record, of which `taken` bytes have already been read.
    pub(crate) fn restart(&mut self, taken: u64) {
        self.remaining = self.limit.limit.saturating_sub(taken);
    }
}

impl<R: BufRead> BufRead for LimitedReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.bytes.fill_buf()?;
        if self.remaining == 0 && !bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, self.limit));
        }
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        Ok(&bytes[..bytes.len().min(remaining)])
    }

    fn consume(&mut self, amount: usize) {
        self.remaining = self.remaining.saturating_sub(amount as u64);
        self.bytes.consume(amount);
    }
}

impl<R: BufRead> Read for LimitedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let bytes = self.fill_buf()?;
        let length = bytes.len().min(out.len());
        out[..length].copy_from_slice(&bytes[..length]);
        self.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed() {
        let mut text = String::new();
        let mut four = LimitedReader::new(&b"1234"[..], "a text", 4);
        assert_eq!(four.read_to_string(&mut text).unwrap(), 4);
        let mut five = LimitedReader::new(&b"12345"[..], "a text", 4);
        let error = five.read_to_string(&mut text).unwrap_err();
        assert_eq!(error.to_string(), "a text of more than 4 bytes");
        assert_eq!(TooLong::behind(&error), Some(TooLong { what: "a text", limit: 4 }));
        five.restart(3);
        assert_eq!(five.read_to_string(&mut text).unwrap(), 1);
    }

    #[test]
    fn endless_streams_are_cut_off() {
        let mut bytes = Vec::new();
        let zeros = io::BufReader::new(io::repeat(0));
        assert!(LimitedReader::new(zeros, "a file", 1_000).read_to_end(&mut bytes).is_err());
        assert_eq!(bytes.len(), 1_000);
    }
}
