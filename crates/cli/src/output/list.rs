//! Lists of findings, one per line, as CSV or JSONL.

use std::io;
use std::path::Path;

use array_file::output::Output;
use clap::ValueEnum;
use serde::Serialize;

use super::files::write;
use crate::failure::Failure;

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    Csv,
    Jsonl,
}

impl ListFormat {
    /// Returns the format that was asked for, or that of the file's ending: JSONL unless it is CSV.
    pub(crate) fn of(asked: Option<Self>, path: &Path) -> Self {
        let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        asked.unwrap_or(if is_csv { Self::Csv } else { Self::Jsonl })
    }
}

/// Writes a list.
pub(crate) fn write_list(
    list: Output,
    format: ListFormat,
    mut lines: impl Iterator<Item: Serialize>,
) -> Result<(), Failure> {
    match format {
        ListFormat::Csv => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let written = lines.try_for_each(|line| writer.serialize(line));
            written.map_err(|error| list.error(io::Error::other(error)))?;
            let text = writer.into_inner();
            write(list, &text.map_err(|error| Failure::Internal(error.to_string()))?)
        }
        ListFormat::Jsonl => {
            let mut text = Vec::new();
            for line in lines {
                serde_json::to_writer(&mut text, &line)
                    .map_err(|error| list.error(error.into()))?;
                text.push(b'\n');
            }
            write(list, &text)
        }
    }
}
