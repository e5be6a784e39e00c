//! Formats tables as plain text and as Markdown.

use classify::printable::printable;
use comfy_table::{CellAlignment, Table, presets};

/// Creates a table with this header. The columns from index `first_number` onward are
/// right-aligned.
pub(crate) fn table(header: &[&str], first_number: usize) -> Table {
    let mut table = Table::new();
    table.set_header(header.to_vec());
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Formats the table as plain text, without borders or trailing spaces.
pub(crate) fn plain(mut table: Table) -> String {
    table.load_style(presets::NOTHING);
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// Formats the table as Markdown.
pub(crate) fn markdown(mut table: Table) -> String {
    table.load_style(presets::ASCII_MARKDOWN);
    if let Some(header) = table.header() {
        let cells: Vec<String> = header.cell_iter().map(|cell| escaped(&cell.content())).collect();
        table.set_header(cells);
    }
    for row in table.row_iter_mut() {
        let cells: Vec<String> = row.cell_iter().map(|cell| escaped(&cell.content())).collect();
        *row = cells.into();
    }
    table.to_string()
}

/// Escapes characters that Markdown and HTML would interpret. The text must not contain line
/// breaks, which [`one_line`] escapes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' | '$' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes line breaks and control characters, which would break a table.
pub(crate) fn one_line(label: &str) -> String {
    printable(label).to_string()
}

/// Returns the label on one line, or `(none)` if it is empty.
pub(crate) fn label_or_none(label: &str) -> String {
    if label.is_empty() { "(none)".to_owned() } else { one_line(label) }
}

/// Formats a metric with four decimal places.
pub(crate) fn decimal(value: f64) -> String {
    format!("{value:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_on_one_line() {
        assert_eq!(one_line("a\nb\u{1b}c"), "a\\nb\\u{1b}c");
    }
}
