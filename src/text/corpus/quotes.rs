//! The quotes of CSV records.

use super::table::Dialect;

/// Follows the quotes of CSV records as the crate `csv` reads them: a quote opens a field only at
/// its beginning, two quotes within are one, and blank lines are no records.
#[derive(Debug, Clone)]
pub(super) struct Quotes {
    dialect: Dialect,
    state: QuoteState,
    /// The line of the next byte, counted from 1.
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
    /// After a quote in a quoted field: its end, or the first of two.
    AfterQuote,
}

impl Quotes {
    /// At the beginning of a record in this line.
    pub(super) const fn new(dialect: Dialect, line: u64) -> Self {
        Self { dialect, state: QuoteState::RecordBegins, line }
    }

    pub(super) fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Whether the text so far ends within quotes.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, QuoteState::Quoted | QuoteState::Escaped)
    }

    /// Reads on, and calls `begins` with the line of every record that begins. Returns the end of
    /// the last record that ends among these bytes: after its line feed, or, if a carriage return
    /// ends it, before the next record.
    pub(super) fn last_end(&mut self, bytes: &[u8], mut begins: impl FnMut(u64)) -> Option<usize> {
        use QuoteState::{AfterQuote, Escaped, FieldBegins, Quoted, RecordBegins, Unquoted};
        let Dialect { separator, quote, escapes, .. } = self.dialect;
        let mut last = None;
        for (at, &byte) in bytes.iter().enumerate() {
            if self.state == RecordBegins && !matches!(byte, b'\n' | b'\r') {
                begins(self.line);
                if at > 0 {
                    last = Some(at);
                }
            }
            self.state = match (self.state, byte) {
                (Quoted, b'\\') if escapes => Escaped,
                (Quoted, byte) if Some(byte) == quote => AfterQuote,
                (RecordBegins | FieldBegins | AfterQuote, byte) if Some(byte) == quote => Quoted,
                (Quoted | Escaped, _) => Quoted,
                (_, b'\n') => {
                    last = Some(at + 1);
                    RecordBegins
                }
                (_, b'\r') => RecordBegins,
                (_, byte) if byte == separator => FieldBegins,
                _ => Unquoted,
            };
            self.line += u64::from(byte == b'\n');
        }
        last
    }
}
