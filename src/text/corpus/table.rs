//! The syntax of tables: the separator, the quoting, and whether there is a header.

use serde::{Deserialize, Serialize};

/// The syntax of CSV and TSV files. By default, the separator is detected from the first lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableOptions {
    /// The ASCII character between fields, or `None` to detect it. A line such as `sep=;`, which
    /// Excel writes, determines the separator. Otherwise, the separator that best matches the
    /// header or splits the first lines evenly is used.
    pub separator: Option<u8>,
    /// How fields are quoted.
    pub quoting: Quoting,
    /// The ASCII character that quotes a field. `None` means the double quote.
    pub quote: Option<u8>,
    /// Whether the first row is a document. The names of the columns are then their numbers, from
    /// 1.
    pub no_header: bool,
}

/// How fields of CSV and TSV files are quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quoting {
    /// [`None`](Self::None) if tabs separate the fields, otherwise [`Csv`](Self::Csv).
    #[default]
    Auto,
    /// A field may be quoted; a quote inside it is written twice (RFC 4180).
    Csv,
    /// A field may be quoted; inside it, a backslash escapes the next character.
    Backslash,
    /// Quotes have no special meaning, and every line is a row.
    None,
}

/// The syntax of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) separator: u8,
    /// The quote, or `None` if quotes have no special meaning.
    pub(super) quote: Option<u8>,
    /// Whether a backslash in a quoted field escapes the next character.
    pub(super) escapes: bool,
    pub(super) has_header: bool,
    /// Whether the first line is `sep=` and the separator, which Excel writes.
    pub(super) has_separator_line: bool,
}

/// The candidate separators, in order of preference.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// The number of rows that are examined to find the separator.
const ROWS: usize = 16;

impl Dialect {
    /// Determines the dialect of a table that begins with `head`. `default_separator` is the
    /// separator of the format, and `expected` are the expected columns of the header.
    pub(super) fn detect(
        head: &[u8],
        default_separator: u8,
        expected: &[&str],
        table: TableOptions,
    ) -> Self {
        let declared = separator_line(head);
        let detect = || detect_separator(head, default_separator, expected, table);
        let separator = table.separator.or(declared).unwrap_or_else(detect);
        Self { has_separator_line: declared.is_some(), ..Self::new(separator, table) }
    }

    fn new(separator: u8, table: TableOptions) -> Self {
        let is_quoted = match table.quoting {
            Quoting::Auto => separator != b'\t',
            Quoting::Csv | Quoting::Backslash => true,
            Quoting::None => false,
        };
        Self {
            separator,
            quote: is_quoted.then(|| table.quote.unwrap_or(b'"')),
            escapes: table.quoting == Quoting::Backslash,
            has_header: !table.no_header,
            has_separator_line: false,
        }
    }

    /// Returns a parser that accepts rows with any number of fields.
    pub(super) fn parser(self) -> csv::ReaderBuilder {
        let mut parser = csv::ReaderBuilder::new();
        parser.delimiter(self.separator).has_headers(false).flexible(true);
        match self.quote {
            Some(quote) => parser.quote(quote).escape(self.escapes.then_some(b'\\')),
            None => parser.quoting(false),
        };
        parser
    }

    /// Parses the first rows of `head`, without the last line, which may be truncated.
    fn rows(self, head: &[u8]) -> Vec<csv::ByteRecord> {
        let complete_lines = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
        self.parser()
            .from_reader(complete_lines)
            .into_byte_records()
            .map_while(Result::ok)
            .take(ROWS)
            .collect()
    }
}

/// Returns the separator in a first line such as `sep=;`.
fn separator_line(head: &[u8]) -> Option<u8> {
    let line = head.split(|&byte| byte == b'\n').next()?.trim_ascii_end();
    let line = if line == b"sep=" { b"sep=\t" } else { line };
    match line.strip_prefix(b"sep=").or_else(|| line.strip_prefix(b"SEP=")) {
        Some(&[separator]) if separator.is_ascii() => Some(separator),
        _ => None,
    }
}

/// Chooses the separator with which the header contains the most expected columns. Ties are broken
/// by equal field counts in the first rows, then by the default of the format.
fn detect_separator(
    head: &[u8],
    default_separator: u8,
    expected: &[&str],
    table: TableOptions,
) -> u8 {
    let is_expected =
        |field: &[u8]| std::str::from_utf8(field).is_ok_and(|name| expected.contains(&name.trim()));
    let rank = |separator: u8| {
        let rows = Dialect::new(separator, table).rows(head);
        let fields = rows.first().map_or(0, csv::ByteRecord::len);
        let expected_count = match rows.first() {
            Some(header) if !table.no_header => {
                header.iter().filter(|field| is_expected(field)).count()
            }
            _ => 0,
        };
        let is_even = fields > 1 && rows.iter().all(|row| row.len() == fields);
        (expected_count, is_even, fields > 1, separator == default_separator)
    };
    let ranked = SEPARATORS.iter().rev().map(|&separator| (rank(separator), separator));
    ranked.max_by_key(|&(rank, _)| rank).map_or(default_separator, |(_, separator)| separator)
}

/// Returns whether a row looks like data instead of column names: a field is long, has many words
/// or is a URL.
pub(super) fn looks_like_data(row: &[String]) -> bool {
    const MAX_NAME_CHARS: usize = 60;
    const MAX_NAME_WORDS: usize = 6;
    row.iter().any(|field| {
        field.chars().count() > MAX_NAME_CHARS
            || field.split_whitespace().count() > MAX_NAME_WORDS
            || field.starts_with("http")
            || field.starts_with("<http")
    })
}
