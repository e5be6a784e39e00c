//! Tracks the quotes of CSV records.

use super::table::Dialect;

/// Tracks the quotes of CSV records according to the rules of the crate `csv`: a field is quoted
/// only if it begins with a quote, two quotes inside a quoted field stand for one, and blank lines
/// are skipped.
#[derive(Debug, Clone)]
pub(super) struct Quotes {
    dialect: Dialect,
    state: QuoteState,
    /// The line of the next byte, from 1.
    line: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    RecordBegins,
    FieldBegins,
    Unquoted,
    Quoted,
    /// After a backslash in a quoted field.
    Escaped,
    /// After a quote in a quoted field, which ends the field or is the first of two quotes.
    AfterQuote,
}

impl Quotes {
    /// Starts at the beginning of a record on line `line`.
    pub(super) const fn new(dialect: Dialect, line: u64) -> Self {
        Self { dialect, state: QuoteState::RecordBegins, line }
    }

    pub(super) fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Returns whether the text read so far ends inside quotes.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, QuoteState::Quoted | QuoteState::Escaped)
    }

    /// Reads `bytes`, and calls `on_record` with the line of each record that begins. Returns the
    /// end of the last record that ends in `bytes`: the position after its line feed, or the start
    /// of the next record if only a carriage return ends the record.
    pub(super) fn last_end(
        &mut self,
        bytes: &[u8],
        mut on_record: impl FnMut(u64),
    ) -> Option<usize> {
        use QuoteState::{AfterQuote, Escaped, FieldBegins, Quoted, RecordBegins, Unquoted};
        let Dialect { separator, quote, escapes, .. } = self.dialect;
        let mut last_end = None;
        for (index, &byte) in bytes.iter().enumerate() {
            if self.state == RecordBegins && !matches!(byte, b'\n' | b'\r') {
                on_record(self.line);
                if index > 0 {
                    last_end = Some(index);
                }
            }
            self.state = match (self.state, byte) {
                (Quoted, b'\\') if escapes => Escaped,
                (Quoted, byte) if Some(byte) == quote => AfterQuote,
                (RecordBegins | FieldBegins | AfterQuote, byte) if Some(byte) == quote => Quoted,
                (Quoted | Escaped, _) => Quoted,
                (_, b'\n') => {
                    last_end = Some(index + 1);
                    RecordBegins
                }
                (_, b'\r') => RecordBegins,
                (_, byte) if byte == separator => FieldBegins,
                _ => Unquoted,
            };
            self.line += u64::from(byte == b'\n');
        }
        last_end
    }
}
