//! How much is read from outside into memory, and the reader that stops there.
//!
//! A quote that is never closed, a compressed file of nothing but zeros, `/dev/zero`: without
//! limits each of them would fill the memory.

use std::io::{self, BufRead, Read};

/// The bytes of one record: a line, a CSV record, a story of several lines, a file in a label
/// folder. 256 MiB; [`ReadOptions::max_record`](crate::text::corpus::ReadOptions::max_record)
/// changes it.
pub const RECORD: u64 = 1 << 28;

/// The bytes of a file other than the corpus, after decompression: a hierarchy, relevance
/// judgments, an evaluation. 1 GiB.
pub const FILE: u64 = 1 << 30;

/// The error behind the [`io::Error`] of a reader that reached its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} of more than {limit} bytes")]
pub(crate) struct TooLong {
    /// What is limited, with its article.
    pub(crate) what: &'static str,
    pub(crate) limit: u64,
}

impl TooLong {
    /// The limit that caused `error`, if one did.
    pub(crate) fn behind(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).copied()
    }
}

/// A reader that fails as soon as more bytes than its limit are asked of it. A stream that ends
/// exactly at the limit is read to its end.
#[derive(Debug)]
pub(crate) struct LimitedReader<R> {
    bytes: R,
    limit: TooLong,
    left: u64,
}

impl<R: BufRead> LimitedReader<R> {
    pub(crate) fn new(bytes: R, what: &'static str, limit: u64) -> Self {
        Self { bytes, limit: TooLong { what, limit }, left: limit }
    }

    /// Begins the next record, of which `taken` bytes were read already.
    pub(crate) fn restart(&mut self, taken: u64) {
        self.left = self.limit.limit.saturating_sub(taken);
    }
}

impl<R: BufRead> BufRead for LimitedReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.bytes.fill_buf()?;
        if self.left == 0 && !bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, self.limit));
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(&bytes[..bytes.len().min(left)])
    }

    fn consume(&mut self, amount: usize) {
        self.left = self.left.saturating_sub(amount as u64);
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
    fn a_stream_without_end() {
        let mut bytes = Vec::new();
        let zeros = io::BufReader::new(io::repeat(0));
        assert!(LimitedReader::new(zeros, "a file", 1_000).read_to_end(&mut bytes).is_err());
        assert_eq!(bytes.len(), 1_000);
    }
}
