//! The files of a command. Outputs are opened before the work starts and written when it ends.

use std::io::Write;
use std::path::{Path, PathBuf};

use array_file::output::{Output, Outputs};
use classify::text::corpus::{Corpus, Format, ReadOptions};
use serde::Serialize;

use crate::failure::Failure;

/// The inputs and outputs of a command. No output may overwrite an input.
#[derive(Debug, Default)]
pub(crate) struct Files(Outputs);

impl Files {
    /// Adds input files.
    pub(crate) fn with_inputs<'a>(mut self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        paths.into_iter().for_each(|path| self.0.add_input(path));
        self
    }

    /// Adds corpora. For a folder, adds only the files that are read as a corpus: outputs may be in
    /// the same folder.
    pub(crate) fn with_corpora(mut self, paths: &[PathBuf], format: Option<Format>) -> Self {
        for path in paths {
            if path.as_os_str() == "-" || !path.is_dir() {
                self.0.add_input(path);
                continue;
            }
            let options = ReadOptions { format, ..ReadOptions::default() };
            // An error here is reported when the corpus is read.
            if let Ok(corpus) = Corpus::open(std::slice::from_ref(path), options) {
                corpus.waiting().for_each(|path| self.0.add_input(path));
            }
        }
        self
    }

    /// Adds the files of a benchmark folder.
    pub(crate) fn with_preset(mut self, folder: &Path) -> Self {
        // An error here is reported when the files are read.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let prefixes = ["lyrl2004_", "rcv1", "20news-"];
            if name.contains(".sgm") || prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                self.0.add_input(&entry.path());
            }
        }
        self
    }

    /// Opens a text output; `-` is standard output.
    pub(crate) fn text(&mut self, path: &Path) -> Result<Output, Failure> {
        Ok(self.0.open(path)?)
    }

    /// Opens a text output if there is a path.
    pub(crate) fn optional(&mut self, path: Option<&PathBuf>) -> Result<Option<Output>, Failure> {
        path.map(|path| self.text(path)).transpose()
    }

    /// Opens an output that must be a file, such as a model.
    pub(crate) fn file(&mut self, path: &Path, what: &str) -> Result<Output, Failure> {
        if path.as_os_str() == "-" {
            let message =
                format!("{what} cannot be written to standard output: name a file with -o FILE");
            return Err(Failure::Usage(message));
        }
        self.text(path)
    }

    /// Opens standard output for the report; returns `None` if another output uses it.
    pub(crate) fn report(&mut self) -> Result<Option<Output>, Failure> {
        if self.0.include_standard_output() {
            return Ok(None);
        }
        Ok(Some(Output::standard()?))
    }
}

/// Fails if standard output was closed when the program started.
pub(crate) fn standard_is_open() -> Result<(), Failure> {
    Output::standard()?;
    Ok(())
}

/// Prints text on standard output.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    write(Output::standard()?, text)
}

/// Writes the whole text to an output and commits it.
pub(crate) fn write(mut output: Output, text: &[u8]) -> Result<(), Failure> {
    output.write_all(text).map_err(|error| output.error(error))?;
    Ok(output.commit()?)
}

/// Writes a value as JSON.
pub(crate) fn write_json(output: Output, value: &impl Serialize) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(value).map_err(|error| output.error(error.into()))?;
    json.push(b'\n');
    write(output, &json)
}
