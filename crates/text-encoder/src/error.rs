//! Errors while opening a model.

use std::io;
use std::path::{Path, PathBuf};

/// An error while opening a model, with the file that caused it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct EncoderError {
    /// The file or folder.
    pub file: PathBuf,
    /// The cause.
    pub problem: Problem,
}

/// The cause of an [`EncoderError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not JSON with the expected fields.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The file is not a tokenizer, or its special tokens leave no room for a text.
    #[error("{0}")]
    Tokenizer(String),
    /// The weights are damaged, or a tensor is missing or has an unexpected shape.
    #[error("{0}")]
    Weights(String),
    /// The model is of a kind that is not implemented.
    #[error("{0}")]
    Unsupported(String),
}

/// Returns a function that adds a file to a problem.
pub(crate) fn at(file: &Path) -> impl Fn(Problem) -> EncoderError {
    move |problem| EncoderError { file: file.to_owned(), problem }
}
