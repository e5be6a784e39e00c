//! Splits a source into blocks of complete records.

use std::io::{self, Read};
use std::sync::Arc;

use super::encoding::{OnBadUtf8, read_error};
use super::error::CorpusError;
use super::lines::Lines;
use super::peeked::{Bytes, PeekReader, failing_stream};
use super::place::Place;
use super::quotes::Quotes;
use crate::limits::LimitedReader;

const BUFFER: usize = 1 << 16;
/// The target size of a block in bytes. A block is larger if it would not contain a complete record
/// otherwise. It ends with its last complete record.
pub(super) const BLOCK: usize = 1 << 18;

/// The rule that determines where records end.
pub(super) enum RecordEnds {
    /// At the end of each line.
    Lines,
    /// At line ends outside quotes. The value tracks the quotes up to the current position.
    Quoted(Quotes),
    /// Where this function finds an end in two consecutive lines. The first line of a block is
    /// paired with an empty line.
    Between(fn(&[u8], &[u8]) -> Option<RecordEnd>),
}

/// Where a record ends relative to the second of two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordEnd {
    BeforeSecond,
    AfterSecond,
}

/// Cuts a source into blocks of complete records.
pub(super) struct Cutter {
    pub(super) name: Arc<str>,
    pub(super) bytes: PeekReader,
    pub(super) ends: RecordEnds,
    /// The number of lines before the next block.
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) on_bad_utf8: OnBadUtf8,
    pub(super) max_record: u64,
    /// The bytes after the last complete record of the previous block.
    pub(super) rest: Vec<u8>,
    pub(super) is_at_end: bool,
    /// The error that followed the complete records of the previous block.
    pub(super) pending_error: Option<io::Error>,
}

impl Cutter {
    /// Returns the lines of the next block. A record that exceeds the size limit is truncated, but
    /// remains over the limit, so the parser reports the error.
    pub(super) fn next_block(&mut self) -> Result<Option<Lines>, CorpusError> {
        if let Some(error) = self.pending_error.take() {
            return Err(self.error(error));
        }
        let mut block = std::mem::take(&mut self.rest);
        // The rest of the previous block contains no end of a record, and its quotes have been
        // tracked.
        let mut searched = block.len();
        // The end of the last complete record of the block.
        let mut complete_end = 0;
        while !self.is_at_end {
            if matches!(self.ends, RecordEnds::Quoted(_)) || block.len() >= BLOCK {
                complete_end = self.last_end(&block, searched).unwrap_or(complete_end);
                searched = block.len();
            }
            if block.len() >= BLOCK {
                if complete_end > 0 {
                    self.rest = block.split_off(complete_end);
                    break;
                }
                if block.len() as u64 > self.max_record {
                    // The block contains no complete record. Parsing it reports the error.
                    self.is_at_end = true;
                    break;
                }
            }
            let read_size = BLOCK.saturating_sub(block.len()).max(BUFFER);
            block.reserve(read_size);
            // If reading fails, `block` still receives the bytes before the error.
            match self.bytes.by_ref().take(read_size as u64).read_to_end(&mut block) {
                Ok(read) => self.is_at_end = read < read_size,
                Err(error) if matches!(self.ends, RecordEnds::Between(_)) => {
                    // Only the parser knows which problem comes first.
                    self.is_at_end = true;
                    let bytes: Bytes =
                        Box::new(io::Cursor::new(block).chain(failing_stream(error)));
                    let bytes = LimitedReader::new(bytes, "a record", self.max_record);
                    let lines = Lines { bytes, line: self.line, ..self.empty_block() };
                    return Ok(Some(lines));
                }
                Err(error) => {
                    self.is_at_end = true;
                    // Deliver the complete records before the error first.
                    let complete_end = self.last_end(&block, searched).unwrap_or(complete_end);
                    if (block.len() - complete_end) as u64 > self.max_record {
                        // The parser reports that the record exceeds the limit. That error takes
                        // precedence.
                        break;
                    }
                    if complete_end == 0 {
                        return Err(self.error(error));
                    }
                    block.truncate(complete_end);
                    self.pending_error = Some(error);
                }
            }
        }
        Ok((!block.is_empty()).then(|| self.lines_of(block)))
    }

    /// Returns the end of the last complete record that ends at or after `searched`.
    fn last_end(&mut self, block: &[u8], searched: usize) -> Option<usize> {
        let unsearched = &block[searched..];
        let end = match &mut self.ends {
            RecordEnds::Quoted(quotes) => quotes.last_end(unsearched, |_| ()),
            RecordEnds::Lines => last_line_end(unsearched),
            RecordEnds::Between(end) => return last_end_between(block, searched, *end),
        };
        end.map(|end| searched + end)
    }

    /// The number of bytes before the next block.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn error(&self, error: io::Error) -> CorpusError {
        read_error(error, &Place { source: Arc::clone(&self.name), line: Some(self.line + 1) })
    }

    fn lines_of(&mut self, block: Vec<u8>) -> Lines {
        let line = self.line;
        let offset = self.offset;
        let lines = memchr::memchr_iter(b'\n', &block).count();
        self.line += lines as u64;
        self.offset += block.len() as u64;
        // Each block has its own copy of the name. Otherwise, the parsing threads would contend for
        // one reference count.
        let name = Arc::from(&*self.name);
        Lines { name, line, offset, bytes: limited(block, self.max_record), ..self.empty_block() }
    }

    /// Returns an empty block of this source.
    pub(super) fn empty_block(&self) -> Lines {
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

/// Returns the offset after the last line feed.
fn last_line_end(bytes: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', bytes).map(|index| index + 1)
}

/// Returns the last end of a record that `end` finds in the lines that end at or after `searched`.
fn last_end_between(
    block: &[u8],
    searched: usize,
    end: fn(&[u8], &[u8]) -> Option<RecordEnd>,
) -> Option<usize> {
    let line_before = |start: usize| last_line_end(&block[..start.saturating_sub(1)]).unwrap_or(0);
    let mut start = last_line_end(&block[..searched]).unwrap_or(0);
    let mut last = None;
    let mut previous = &block[line_before(start)..start];
    for line in block[start..].split_inclusive(|&byte| byte == b'\n') {
        if line.last() != Some(&b'\n') {
            break;
        }
        match end(previous, line) {
            Some(RecordEnd::BeforeSecond) if start > 0 => last = Some(start),
            Some(RecordEnd::AfterSecond) => last = Some(start + line.len()),
            _ => {}
        }
        start += line.len();
        previous = line;
    }
    last
}

fn limited(block: Vec<u8>, max_record: u64) -> LimitedReader<Bytes> {
    LimitedReader::new(Box::new(io::Cursor::new(block)), "a record", max_record)
}
