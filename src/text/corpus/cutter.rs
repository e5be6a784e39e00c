//! A source cut into blocks of whole records.

use std::io::{self, Read};
use std::sync::Arc;

use super::encoding::{OnBadUtf8, read_error};
use super::error::CorpusError;
use super::lines::Lines;
use super::peeked::{Bytes, PeekReader, failing};
use super::place::Place;
use super::quotes::Quotes;
use crate::limits::LimitedReader;

const BUFFER: usize = 1 << 16;
/// The bytes of a block that one thread parses, and the rest of its last line.
pub(super) const BLOCK: usize = 1 << 18;

/// Where records end.
pub(super) enum Ends {
    /// With every line.
    Lines,
    /// With the line ends that are not quoted; where the text is within a record.
    Quoted(Quotes),
    /// Where this function says so, given two consecutive lines: between them, or after the second.
    /// The first line of a block is given with an empty line before it.
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
    pub(super) name: Arc<str>,
    pub(super) bytes: PeekReader,
    pub(super) ends: Ends,
    /// The number of lines before the next block.
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) on_bad_utf8: OnBadUtf8,
    pub(super) max_record: u64,
    /// The beginning of a line whose end is not in the last block.
    pub(super) rest: Vec<u8>,
    pub(super) ended: bool,
    /// Why reading failed after the whole lines of the last block.
    pub(super) failed: Option<io::Error>,
}

impl Cutter {
    /// The lines of the next block. A line that exceeds the limit of a record is cut, but stays
    /// longer than the limit, so that its parser fails.
    pub(super) fn next_block(&mut self) -> Result<Option<Lines>, CorpusError> {
        if let Some(error) = self.failed.take() {
            return Err(self.error(error));
        }
        let mut block = std::mem::take(&mut self.rest);
        // The quotes of the rest of the last block have been seen, and it has no line end.
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
                    // Parsing this block fails there: it has no end of a record.
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
                    // Only the parser knows which problem comes first.
                    self.ended = true;
                    let bytes: Bytes = Box::new(io::Cursor::new(block).chain(failing(error)));
                    let bytes = LimitedReader::new(bytes, "a record", self.max_record);
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
        let line = self.line;
        let offset = self.offset;
        let lines = memchr::memchr_iter(b'\n', &block).count();
        self.line += lines as u64;
        self.offset += block.len() as u64;
        // A name of their own: the threads that parse blocks would wait for each other to count the
        // places that share one.
        let name = Arc::from(&*self.name);
        Lines { name, line, offset, bytes: limited(block, self.max_record), ..self.no_lines() }
    }

    /// An empty block of this source.
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
    let mut at = last_line_end(&block[..searched]).unwrap_or(0);
    let mut last = None;
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

fn limited(block: Vec<u8>, max_record: u64) -> LimitedReader<Bytes> {
    LimitedReader::new(Box::new(io::Cursor::new(block)), "a record", max_record)
}
