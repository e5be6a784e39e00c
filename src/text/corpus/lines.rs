//! The lines of a source.

use std::borrow::Cow;
use std::io::BufRead;
use std::sync::Arc;

use super::encoding::{OnBadUtf8, read_error, utf8};
use super::error::CorpusError;
use super::peeked::Bytes;
use super::place::Place;
use crate::limits::LimitedReader;

/// The numbered lines of a source, without line ends.
pub(super) struct Lines {
    pub(super) name: Arc<str>,
    pub(super) bytes: LimitedReader<Bytes>,
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) on_bad_utf8: OnBadUtf8,
    pub(super) buffer: Vec<u8>,
}

impl Lines {
    /// The place of the last line read.
    pub(super) fn place(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: Some(self.line.max(1)) }
    }

    /// Reads the next line, which begins a record.
    pub(super) fn next(&mut self) -> Result<Option<Cow<'_, str>>, CorpusError> {
        self.begin_record();
        self.next_of_record()
    }

    /// Returns the bytes, limited to the size of one record. [`LimitedReader::restart`] begins the
    /// next record.
    pub(super) fn into_records(self) -> LimitedReader<Bytes> {
        self.bytes
    }

    /// The number of lines read so far, including the lines before this block.
    pub(super) fn lines_read(&self) -> u64 {
        self.line
    }

    pub(super) fn on_bad_utf8(&self) -> OnBadUtf8 {
        self.on_bad_utf8
    }

    /// Begins a new record: restarts the size limit.
    pub(super) fn begin_record(&mut self) {
        self.bytes.restart(0);
    }

    /// Like [`next`](Self::next), but also returns the place of the line.
    pub(super) fn next_with_place(&mut self) -> Result<Option<(Place, Cow<'_, str>)>, CorpusError> {
        let place = Place { source: Arc::clone(&self.name), line: Some(self.line + 1) };
        Ok(self.next()?.map(|line| (place, line)))
    }

    /// Reads the next line of the same record. The size limit applies to all lines of the record
    /// together.
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
