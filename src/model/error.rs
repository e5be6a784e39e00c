//! Why a model cannot be written or opened, and what to do about it.

use std::path::PathBuf;

use super::VERSION;
use metric_index::container::ContainerProblem;

/// Why a model cannot be written or opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ModelError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: ModelProblem,
}

/// What can be wrong with a model file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelProblem {
    /// The file does not exist.
    #[error("there is no such file")]
    NotFound,
    /// The operating system refused.
    #[error("cannot {doing} the model: {source}")]
    Io {
        /// `read` or `write`.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// No safetensors file, or a damaged one.
    #[error("not a model, or cut short or damaged: {0}")]
    NotAModel(String),
    /// A version of the format that this program does not know.
    #[error("model version {found}, this program reads 1 to {VERSION}")]
    Version {
        /// The file's version.
        found: u64,
    },
    /// An array that is not there.
    #[error("array `{array}` is missing")]
    MissingArray {
        /// The array's name.
        array: String,
    },
    /// An array of another type or shape.
    #[error("array `{array}` is {found}, expected a vector of {expected}")]
    WrongType {
        /// The array's name.
        array: String,
        /// Its type and shape.
        found: String,
        /// The type that it must have.
        expected: String,
    },
    /// An array that is not what was written.
    #[error("array `{array}` is damaged: its checksum is {found}, expected {expected}")]
    Checksum {
        /// The array's name.
        array: String,
        /// The checksum of what is there.
        found: String,
        /// The checksum that was written.
        expected: String,
    },
    /// An array whose contents make no sense.
    #[error("`{array}` is not valid: {what}")]
    Invalid {
        /// The array's name, or `settings`.
        array: String,
        /// What is wrong with it.
        what: String,
    },
}

impl ModelError {
    /// What the user can do next.
    pub fn hint(&self) -> &'static str {
        match self.problem {
            ModelProblem::NotFound => "`classify train CORPUS -o MODEL` makes a model",
            ModelProblem::Io { doing: "write", .. } => {
                "is there room, and may you write in that folder?"
            }
            ModelProblem::Io { .. } => "may you read this file?",
            ModelProblem::Version { .. } => {
                "use the program that trained it, or train it again with `classify train`"
            }
            _ => {
                "copy the model again from where it was made, or train it again with `classify train`"
            }
        }
    }
}

pub(super) fn invalid(array: &'static str) -> impl Fn(String) -> ModelProblem {
    move |what| ModelProblem::Invalid { array: array.to_owned(), what }
}

impl From<ContainerProblem> for ModelProblem {
    fn from(problem: ContainerProblem) -> Self {
        match problem {
            ContainerProblem::Damaged(what) => Self::NotAModel(what),
            ContainerProblem::Json => {
                invalid("settings")("their checksum differs: they are damaged".into())
            }
            ContainerProblem::Missing { array } => Self::MissingArray { array },
            ContainerProblem::WrongType { array, found, expected } => {
                Self::WrongType { array, found, expected }
            }
            ContainerProblem::Invalid { array, what } => Self::Invalid { array, what },
        }
    }
}
