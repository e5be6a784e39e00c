//! Errors of array files.

use std::io;

use safetensors::SafeTensorError;

use crate::hint::hint_to_read;
use crate::output::{OutputError, OutputProblem};

/// An error in reading or writing an array file, such as a model, vectors or an index.
///
/// ```
/// use array_file::FileProblem;
///
/// let problem = FileProblem::Missing { array: "numbers".to_owned() };
/// assert_eq!(problem.to_string(), "array `numbers` is missing");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The file could not be read: the system reported an error, or there is not enough memory.
    #[error("{}", read_message(.0))]
    Read(#[source] io::Error),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] OutputProblem),
    /// The file is not a safetensors file, or is damaged.
    #[error("not {expected}, or cut short or damaged: {source}")]
    NotSafetensors {
        /// The name for the expected file, such as "a model".
        expected: &'static str,
        /// The underlying error.
        source: SafeTensorError,
    },
    /// The file is a safetensors file of another format.
    #[error("not {expected}, but another safetensors file")]
    Other {
        /// The name for the expected file, such as "a model".
        expected: &'static str,
    },
    /// The file has an unsupported version of the format.
    #[error("{expected} of version {found}; this build reads version {supported}")]
    Version {
        /// The name for the expected file, such as "a model".
        expected: &'static str,
        /// The version of the file; 0 if it has none.
        found: u64,
        /// The supported version.
        supported: u32,
    },
    /// The JSON document is not valid for its version.
    #[error("its settings are not valid: {0}")]
    Settings(#[source] serde_json::Error),
    /// The JSON document does not match its checksum.
    #[error("its settings are damaged: their checksum differs")]
    SettingsChecksum,
    /// A required array is missing.
    #[error("array `{array}` is missing")]
    Missing {
        /// The array's name.
        array: String,
    },
    /// The file contains an unknown array.
    #[error("array `{array}` is unknown")]
    Unknown {
        /// The array's name.
        array: String,
    },
    /// An array has an unexpected type or shape.
    #[error("array `{array}` is {found}, expected a vector of {expected}")]
    WrongType {
        /// The array's name.
        array: String,
        /// The type and shape of the array.
        found: String,
        /// The expected type.
        expected: String,
    },
    /// An array does not match its checksum.
    #[error("array `{array}` is damaged: its checksum is {found}, expected {expected}")]
    Checksum {
        /// The array's name.
        array: String,
        /// The checksum of the array's contents.
        found: String,
        /// The stored checksum; empty if there is none.
        expected: String,
    },
    /// The values of an array are invalid.
    #[error("`{array}` is not valid: {what}")]
    Invalid {
        /// The array's name, or `settings`.
        array: String,
        /// The reason.
        what: String,
    },
}

fn read_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => format!("cannot read it: {error}"),
    }
}

impl FileProblem {
    /// Creates an error for an array with invalid values.
    pub fn invalid(array: &str, what: impl Into<String>) -> Self {
        Self::Invalid { array: array.to_owned(), what: what.into() }
    }

    /// Returns the kind of the I/O error, or `None` if the error is not an I/O error.
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use array_file::FileProblem;
    ///
    /// let problem = FileProblem::Read(Error::from(ErrorKind::OutOfMemory));
    /// assert_eq!(problem.io_kind(), Some(ErrorKind::OutOfMemory));
    /// ```
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Read(source) | Self::Write(OutputProblem::Io { source, .. }) => {
                Some(source.kind())
            }
            _ => None,
        }
    }

    /// Returns whether the file could not be written.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// Returns advice for the user after an I/O error.
    ///
    /// Returns `None` if the contents of the file are invalid: the advice then depends on the
    /// purpose of the file.
    ///
    /// ```
    /// use array_file::FileProblem;
    /// use std::io::{Error, ErrorKind};
    ///
    /// let denied = FileProblem::Read(Error::from(ErrorKind::PermissionDenied));
    /// assert!(denied.system_hint().is_some());
    /// ```
    pub fn system_hint(&self) -> Option<&'static str> {
        match self {
            Self::Read(source) => hint_to_read(source.kind()),
            Self::Write(problem) => problem.hint(),
            _ => None,
        }
    }

    /// Returns whether the error is an I/O error, as opposed to invalid contents.
    pub fn is_io_error(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_))
    }
}

impl From<OutputError> for FileProblem {
    fn from(error: OutputError) -> Self {
        Self::Write(error.problem)
    }
}
