//! Reads rows of numbers from text.

use std::io::BufRead;

use metric_index::points::Vectors;

use super::lines::{BYTE_ORDER_MARK, each_line, error_at, vectors};
use crate::failure::Failure;
use crate::verbosity::Verbosity;

/// The lines and columns to skip in a table of numbers.
pub(super) struct Table {
    /// Number of lines to skip. If it is `None`, a first line of column names is detected and
    /// skipped.
    pub(super) skip_lines: Option<usize>,
    /// Number of columns to skip in each row.
    pub(super) skip_columns: usize,
}

/// The separator of the numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Comma,
    Semicolon,
    Tab,
    /// Any number of spaces.
    Spaces,
}

impl Separator {
    /// Detects the separator of a file from its first row.
    fn detect(line: &str) -> Self {
        let separators = [(',', Self::Comma), (';', Self::Semicolon), ('\t', Self::Tab)];
        let found = separators.into_iter().find(|&(separator, _)| line.contains(separator));
        found.map_or(Self::Spaces, |(_, separator)| separator)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Comma => "commas",
            Self::Semicolon => "semicolons",
            Self::Tab => "tabs",
            Self::Spaces => "spaces",
        }
    }

    fn fields(self, line: &str) -> Vec<&str> {
        let separator = match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
            Self::Spaces => return line.split_whitespace().collect(),
        };
        line.split(separator).map(str::trim).collect()
    }

    /// Returns the first separator in a line that differs from the separator of the file.
    fn find_other(self, line: &str) -> Option<char> {
        line.chars().find(|&c| match c {
            ',' => self != Self::Comma,
            ';' => self != Self::Semicolon,
            _ => false,
        })
    }
}

fn parse_number(field: &str) -> Option<f32> {
    field.parse().ok().filter(|value: &f32| value.is_finite())
}

/// Whether the first lines are rows of the same length, each with at least two numbers and nothing
/// else.
pub(super) fn is_likely(start: &[u8]) -> bool {
    let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(start, |end| &start[..end]);
    let Ok(text) = std::str::from_utf8(whole) else { return false };
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut rows = text.lines().filter(|line| !line.trim().is_empty()).take(10).peekable();
    let Some(separator) = rows.peek().map(|line| Separator::detect(line)) else { return false };
    let mut counts = rows.map(|row| {
        let fields = separator.fields(row);
        fields.iter().all(|field| parse_number(field).is_some()).then_some(fields.len())
    });
    let first = counts.next().flatten();
    first.is_some_and(|count| count >= 2) && counts.all(|count| count == first)
}

/// Whether a row counts up from 0 or 1, as default column names do.
fn counts_up(row: &[f32]) -> bool {
    row.len() >= 3
        && [0.0, 1.0].contains(&row[0])
        && row.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() < f32::EPSILON)
}

impl Table {
    pub(super) fn read(
        &self,
        file: impl BufRead,
        path: &str,
        verbosity: Verbosity,
    ) -> Result<Vectors<f32>, Failure> {
        let mut values = Vec::new();
        let mut dimension = 0;
        let mut separator = None;
        each_line(file, path, |line, text| {
            if line <= self.skip_lines.unwrap_or(0) || text.trim().is_empty() {
                return Ok(());
            }
            let is_first = separator.is_none();
            let separator = *separator.get_or_insert_with(|| Separator::detect(text));
            if let Some(other) = separator.find_other(text) {
                let name = separator.name();
                let what = format!(
                    "{other:?} in a file whose numbers are separated by {name}: use a single \
                     separator, and decimal points (1.5)"
                );
                return Err(error_at(path, line, what));
            }
            let fields = separator.fields(text);
            let kept = fields.get(self.skip_columns..).unwrap_or_default();
            if is_first
                && self.skip_lines.is_none()
                && !kept.is_empty()
                && kept.iter().all(|field| parse_number(field).is_none())
            {
                // The first line contains column names.
                return Ok(());
            }
            let row_start = values.len();
            for (column, &field) in (self.skip_columns + 1..).zip(kept) {
                values.push(
                    parse_number(field)
                        .ok_or_else(|| error_at(path, line, invalid_field(column, field)))?,
                );
            }
            let row = &values[row_start..];
            if dimension == 0 {
                dimension = row.len();
            }
            if row.len() != dimension || row.is_empty() {
                let what = format!("{} numbers, expected {}", row.len(), dimension.max(1));
                return Err(error_at(path, line, what));
            }
            if is_first && self.skip_lines.is_none() && counts_up(row) {
                let what = "a row that counts up: are these the names of the columns?";
                if self.skip_columns > 0 {
                    let what = format!(
                        "{what} --skip-lines 1 skips it, --skip-lines 0 reads it as a vector"
                    );
                    return Err(error_at(path, line, what));
                }
                verbosity.warn(&format!(
                    "{path}:{line}: {what} It is read as a vector; --skip-lines 1 skips it"
                ));
            }
            Ok(())
        })?;
        vectors(values, dimension).map_err(|what| Failure::input(format!("{path}: {what}")))
    }
}

fn invalid_field(column: usize, field: &str) -> String {
    if field.is_empty() {
        return format!("column {column} is empty, expected a number");
    }
    let excerpt: String = field.chars().take(40).collect();
    format!(
        "column {column} is {excerpt:?}, expected a number; \
         skip labels and names with --skip-columns and --skip-lines"
    )
}
