//! Prints the results of a benchmark as tables or JSON lines.

use std::io::Write;

use array_file::output::Output;
use comfy_table::{CellAlignment, Table, presets};

use crate::failure::{Failure, Outcome};

/// Results that are printed as tables or JSON lines.
pub(super) struct Results {
    out: Output,
    json: bool,
}

impl Results {
    /// Opens standard output before anything is measured.
    pub(super) fn open(json: bool) -> Result<Self, Failure> {
        Ok(Self { out: Output::standard()?, json })
    }

    /// Prints a result if the output format is JSON lines.
    pub(super) fn line(&mut self, result: impl serde::Serialize) -> Outcome {
        if self.json {
            let line = serde_json::to_string(&result).map_err(std::io::Error::from)?;
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Prints a table if the output format is tables.
    pub(super) fn table(&mut self, title: &str, table: &Table) -> Outcome {
        if !self.json {
            writeln!(self.out, "{title}{table}")?;
        }
        Ok(())
    }

    pub(super) fn commit(self) -> Outcome {
        self.out.commit()?;
        Ok(())
    }
}

/// Returns an empty Markdown table with this header.
pub(super) fn table<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header.into_iter().map(Into::into).collect::<Vec<String>>());
    table
}

/// Right-aligns the columns from index `first` on.
pub(super) fn align(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
