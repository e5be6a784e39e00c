//! Reads JSON that is not one object per line: an array of objects, or objects that span several
//! lines.

use std::io::BufRead;
use std::sync::Arc;

use super::document::Document;
use super::encoding::{OnBadUtf8, read_error, utf8};
use super::error::{CorpusError, Problem};
use super::jsonl::JsonFields;
use super::options::ReadOptions;
use super::peeked::Bytes;
use super::place::Place;
use super::source::Source;
use crate::limits::LimitedReader;

/// Reads the objects of a source, one at a time.
pub(super) struct Json {
    name: Arc<str>,
    bytes: LimitedReader<Bytes>,
    on_bad_utf8: OnBadUtf8,
    fields: JsonFields,
    /// The line of the next byte, from 1.
    line: u64,
    offset: u64,
    /// Whether the bracket of the array is open.
    is_in_array: bool,
}

impl Json {
    pub(super) fn new(source: Source, options: &Arc<ReadOptions>) -> Self {
        let name = source.place().source;
        let on_bad_utf8 = source.on_bad_utf8();
        let fields = JsonFields::new(Arc::clone(options));
        let bytes = source.into_records();
        Self { name, bytes, on_bad_utf8, fields, line: 1, offset: 0, is_in_array: false }
    }

    fn place(&self) -> Place {
        Place { source: Arc::clone(&self.name), line: Some(self.line) }
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        self.bytes.restart(0);
        // Skip the brackets of the array, commas and white space between objects.
        let place = loop {
            let place = self.place();
            match self.next_byte()? {
                None if self.is_in_array => {
                    return Err(Problem::CutShort { missing: "closing `]`" }.at(&place));
                }
                None => return Ok(None),
                Some(b'{') => break place,
                Some(b'[') if !self.is_in_array => self.is_in_array = true,
                Some(b']') if self.is_in_array => self.is_in_array = false,
                Some(b',') => {}
                Some(byte) if byte.is_ascii_whitespace() => {}
                Some(byte) => {
                    let found = format!("`{}`", byte.escape_ascii());
                    return Err(Problem::Unexpected { found, expected: "a JSON object" }.at(&place));
                }
            }
        };
        let start = self.offset - 1;
        let object = self.object(&place)?;
        let json = utf8(&object, self.on_bad_utf8, start).map_err(|problem| problem.at(&place))?;
        self.fields.document(&json, &place).map(Some)
    }

    /// Reads the rest of an object whose opening brace has been read.
    fn object(&mut self, place: &Place) -> Result<Vec<u8>, CorpusError> {
        let mut object = vec![b'{'];
        let mut depth = 1;
        let mut is_in_string = false;
        while depth > 0 {
            let Some(byte) = self.next_byte()? else {
                return Err(Problem::CutShort { missing: "closing `}`" }.at(place));
            };
            object.push(byte);
            match byte {
                b'\\' if is_in_string => object.extend(self.next_byte()?),
                b'"' => is_in_string = !is_in_string,
                b'{' if !is_in_string => depth += 1,
                b'}' if !is_in_string => depth -= 1,
                _ => {}
            }
        }
        Ok(object)
    }

    fn next_byte(&mut self) -> Result<Option<u8>, CorpusError> {
        let next = self.bytes.fill_buf().map(|bytes| bytes.first().copied());
        let byte = next.map_err(|error| read_error(error, &self.place()))?;
        if let Some(byte) = byte {
            self.bytes.consume(1);
            self.offset += 1;
            self.line += u64::from(byte == b'\n');
        }
        Ok(byte)
    }
}

impl Iterator for Json {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
