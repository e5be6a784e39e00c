//! Errors as the user meets them: what, where, what next, and the exit code.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use classify::classifier::ClassifyError;
use classify::corpus::CorpusError;
use classify::model::{ModelError, ModelProblem};
use classify::search::SearchError;
use classify::vectors::{VectorsError, VectorsProblem};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Flags that do not go together.
    Usage(String),
    /// A corpus that cannot be read.
    Corpus(CorpusError),
    /// A model that cannot be read or written.
    Model(ModelError),
    /// Vectors that cannot be read or written.
    Vectors(VectorsError),
    /// The search refused.
    Search(SearchError),
    /// Another file that cannot be written.
    Output { path: PathBuf, error: io::Error },
    /// Another file that cannot be read.
    Input { path: PathBuf, message: String },
    /// A GPU that was asked for.
    Gpu(SearchError),
    /// Something that the machine does not have.
    Resource(String),
    /// A comparison that was asked to fail.
    Worse(String),
}

const NO_GPU: &str =
    "`classify devices` shows what there is; `--device auto` takes the CPU where no GPU works";

impl Failure {
    pub(crate) fn output(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |error| Self::Output { path: path.to_owned(), error }
    }

    /// The error of a write to standard output.
    pub(crate) fn stdout(error: io::Error) -> Self {
        Self::Output { path: "<stdout>".into(), error }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Model(ModelError {
                problem: ModelProblem::Io { doing: "write", .. }, ..
            })
            | Self::Vectors(VectorsError {
                problem: VectorsProblem::Io { doing: "write", .. },
                ..
            })
            | Self::Search(_)
            | Self::Output { .. } => 1,
            Self::Corpus(_) | Self::Input { .. } | Self::Vectors(_) => 3,
            Self::Model(_) => 4,
            Self::Gpu(_) | Self::Resource(_) => 5,
            Self::Worse(_) => 6,
        }
    }

    fn message(&self) -> (String, Option<&'static str>) {
        match self {
            Self::Usage(message) => (message.clone(), Some("`classify --help` shows the flags")),
            Self::Corpus(error) => (error.to_string(), error.hint()),
            Self::Model(error) => (error.to_string(), Some(error.hint())),
            Self::Vectors(error) => (error.to_string(), Some(error.hint())),
            Self::Search(error) => (error.to_string(), None),
            Self::Gpu(error) => (error.to_string(), Some(NO_GPU)),
            Self::Output { path, error } => {
                let message = format!("{}: cannot write: {error}", path.display());
                (message, Some("is there room, and may you write there?"))
            }
            Self::Input { path, message } => (format!("{}: {message}", path.display()), None),
            Self::Resource(message) | Self::Worse(message) => (message.clone(), None),
        }
    }

    /// Says it on stderr and gives the exit code. A broken pipe is a quiet end.
    pub(crate) fn report(&self) -> ExitCode {
        if let Self::Output { error, .. } = self
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return ExitCode::SUCCESS;
        }
        let (message, hint) = self.message();
        let (red, cyan) = (anstyle("31;1"), anstyle("36;1"));
        let mut stderr = anstream::stderr().lock();
        // Where stderr is gone there is nobody left to tell.
        let _ = writeln!(stderr, "{red}error:\x1b[0m {message}");
        if let Some(hint) = hint {
            let _ = writeln!(stderr, "{cyan}hint:\x1b[0m {hint}");
        }
        ExitCode::from(self.code())
    }
}

fn anstyle(code: &str) -> String {
    format!("\x1b[{code}m")
}

impl From<CorpusError> for Failure {
    fn from(error: CorpusError) -> Self {
        Self::Corpus(error)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl From<VectorsError> for Failure {
    fn from(error: VectorsError) -> Self {
        Self::Vectors(error)
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Gpu(_) => Self::Gpu(error),
            error => Self::Search(error),
        }
    }
}

impl From<ClassifyError> for Failure {
    fn from(error: ClassifyError) -> Self {
        match error {
            ClassifyError::Document(error) => Self::Corpus(error),
            ClassifyError::Search(error) => error.into(),
        }
    }
}
