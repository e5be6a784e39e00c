//! Byte streams whose beginning can be examined without consuming it.

use std::io::{self, BufRead, BufReader, Read};

/// A buffered byte stream.
pub(super) type Bytes = Box<dyn BufRead + Send>;

/// A stream that can be read ahead.
pub(super) struct PeekReader {
    head: Vec<u8>,
    consumed: usize,
    rest: Bytes,
}

impl PeekReader {
    pub(super) fn new(rest: Bytes) -> Self {
        Self { head: Vec::new(), consumed: 0, rest }
    }

    /// Reads ahead until `is_enough` returns true or the stream ends. Returns the bytes read ahead.
    pub(super) fn peek_until(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<&[u8]> {
        while !is_enough(&self.head[self.consumed..]) {
            let buffer = self.rest.fill_buf()?;
            let length = buffer.len();
            if length == 0 {
                break;
            }
            self.head.extend_from_slice(buffer);
            self.rest.consume(length);
        }
        Ok(&self.head[self.consumed..])
    }

    /// Reads ahead until it is clear whether the stream begins with one of `marks`. Does not read
    /// further, because a pipe may deliver one byte at a time.
    pub(super) fn peek_for(&mut self, marks: &[&[u8]]) -> io::Result<&[u8]> {
        self.peek_until(|head| {
            !marks.iter().any(|mark| head.len() < mark.len() && mark.starts_with(head))
        })
    }
}

impl Read for PeekReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let head = &self.head[self.consumed..];
        if head.is_empty() {
            // Bypass the buffer for large reads.
            return self.rest.read(out);
        }
        let length = head.len().min(out.len());
        out[..length].copy_from_slice(&head[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for PeekReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.consumed < self.head.len() {
            Ok(&self.head[self.consumed..])
        } else {
            self.rest.fill_buf()
        }
    }

    fn consume(&mut self, amount: usize) {
        if self.consumed < self.head.len() {
            self.consumed += amount;
            if self.consumed == self.head.len() {
                self.head = Vec::new();
                self.consumed = 0;
            }
        } else {
            self.rest.consume(amount);
        }
    }
}

/// Returns a stream that fails once, then ends.
pub(super) fn failing_stream(error: io::Error) -> Bytes {
    Box::new(BufReader::new(FailingReader(Some(error))))
}

struct FailingReader(Option<io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
