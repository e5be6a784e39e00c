//! Errors that occur when a model is written or opened.

use std::io;
use std::path::PathBuf;

use crate::printable::printable;
pub use array_file::FileProblem as ModelProblem;

/// The reason a model cannot be written or opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", printable(path.display()), printable(problem))]
pub struct ModelError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: ModelProblem,
}

impl ModelError {
    /// Returns the kind of the I/O error, or `None` if the problem is not an I/O error.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.problem.io_kind()
    }

    /// Returns a hint about how to solve the problem.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.problem {
            ModelProblem::Read(error) if error.kind() == io::ErrorKind::NotFound => {
                Some("train a model first")
            }
            problem if problem.is_io_error() => problem.system_hint(),
            ModelProblem::Version { .. } => Some("train the model again"),
            _ => Some("copy the model again from its source, or retrain it"),
        }
    }
}

pub(super) fn invalid(array: &'static str) -> impl Fn(String) -> ModelProblem {
    move |what| ModelProblem::invalid(array, what)
}
