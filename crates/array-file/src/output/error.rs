//! Errors in opening or writing an output, with advice for the user.

use std::io;
use std::path::{Path, PathBuf};

use super::standard::STANDARD;
use crate::hint::hint_to_write;

/// An error in opening or writing an output: its path and the problem.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", name(path))]
pub struct OutputError {
    /// The path as given; `-` is standard output.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: OutputProblem,
}

fn name(path: &Path) -> String {
    if path.as_os_str() == STANDARD {
        "standard output".to_owned()
    } else {
        path.display().to_string()
    }
}

/// The reason why an output cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputProblem {
    /// The file is one of the inputs.
    #[error("the output would replace this input ({})", input.display())]
    IsInput {
        /// The input, as given.
        input: PathBuf,
    },
    /// The file is another output of the same command.
    #[error("another output goes to the same place ({})", name(other))]
    IsOutput {
        /// The other output, as given.
        other: PathBuf,
    },
    /// The folder of the file does not exist.
    #[error("there is no folder {}", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The path is a folder.
    #[error("it is a folder")]
    IsFolder,
    /// The file exists and is not writable.
    #[error("the file is read-only")]
    ReadOnly,
    /// The descriptor was closed when the program started.
    #[error("it is closed")]
    Closed,
    /// The operating system reported an error.
    #[error("cannot {doing} it: {source}")]
    Io {
        /// The operation: `open` or `write`.
        doing: &'static str,
        /// The I/O error.
        source: io::Error,
    },
}

impl OutputError {
    /// Creates an error for a failed write to `path`.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), problem: OutputProblem::Io { doing: "write", source } }
    }

    /// Returns the kind of the I/O error, or `None` if the problem is not an I/O error.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            OutputProblem::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// Returns advice for the user.
    ///
    /// ```
    /// use array_file::output::Output;
    ///
    /// let missing = Output::open("no/such/folder/file".as_ref()).unwrap_err();
    /// assert!(missing.hint().unwrap().starts_with("make the folder"));
    /// ```
    pub fn hint(&self) -> Option<&'static str> {
        self.problem.hint()
    }
}

impl OutputProblem {
    /// Returns advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::IsInput { .. } | Self::IsOutput { .. } => Some("use another name for the output"),
            Self::NoFolder { .. } => Some("make the folder first, or check its name"),
            Self::IsFolder => Some("use the name of a file in it"),
            Self::ReadOnly => {
                Some("make it writable (`chmod u+w`), or use another name for the output")
            }
            Self::Closed => Some("write to a file, or do not close the stream"),
            Self::Io { source, .. } => hint_to_write(source.kind()),
        }
    }
}
