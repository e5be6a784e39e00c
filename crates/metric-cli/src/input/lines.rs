//! Reads lines of text, and creates vectors from numbers.

use std::fmt::Display;
use std::io::{BufRead, Read};

use metric_index::points::Vectors;

use crate::failure::Failure;

/// Maximum length of a line in bytes. It limits the memory for files without line ends.
const MAX_LINE_BYTES: usize = 1 << 26;

pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Creates a failure that names the file and the line.
pub(super) fn error_at(path: &str, line: usize, what: impl Display) -> Failure {
    Failure::input(format!("{path}:{line}: {what}"))
}

/// Calls `take` with the number and the text of each line. Numbers start at 1.
///
/// The text has no line end and no byte order mark.
pub(super) fn each_line(
    mut file: impl BufRead,
    path: &str,
    mut take: impl FnMut(usize, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let limited = &mut (&mut file).take(MAX_LINE_BYTES as u64 + 1);
        limited.read_until(b'\n', &mut bytes).map_err(|error| error_at(path, line, error))?;
        if bytes.is_empty() {
            break;
        }
        if bytes.len() > MAX_LINE_BYTES {
            let limit = MAX_LINE_BYTES >> 20;
            let what = format!("a line of more than {limit} MiB; is this a text file?");
            return Err(error_at(path, line, what));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| error_at(path, line, format!("it is not UTF-8: {error}")))?;
        let text =
            if line == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
        let text = text.strip_suffix('\n').unwrap_or(text);
        take(line, text.strip_suffix('\r').unwrap_or(text))?;
    }
    Ok(())
}

/// Creates vectors from their values, or returns an error message.
pub(super) fn vectors(values: Vec<f32>, dimension: usize) -> Result<Vectors<f32>, String> {
    if dimension == 0 {
        return Err("the file contains no vectors".to_owned());
    }
    Vectors::new(values, dimension).map_err(|error| error.to_string())
}
