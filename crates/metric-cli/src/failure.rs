//! Failures and their exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use array_file::FileProblem;
use array_file::output::{Output, OutputError, OutputProblem};
use metric_index::error::Error;
use metric_index::gpu::GpuError;
use metric_index::stored::{StoreError, StoreProblem};
use metric_papers::strategy::RunError;

/// The error that ended a command, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // The reader of a pipe may close it early, which is not a failure.
        let is_broken_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        if self.error.chain().any(|error| error.downcast_ref().is_some_and(is_broken_pipe)) {
            return ExitCode::SUCCESS;
        }
        let _ = writeln!(io::stderr(), "error: {:#}", self.error);
        ExitCode::from(self.code)
    }

    /// Creates a failure for an index file that is invalid or cannot be read or written.
    pub(crate) fn stored(error: StoreError) -> Self {
        let code = match &error.problem {
            StoreProblem::File(problem)
                if problem.io_kind() == Some(io::ErrorKind::OutOfMemory) =>
            {
                5
            }
            StoreProblem::File(problem) if problem.is_write() => 1,
            _ => 4,
        };
        let is_version = matches!(error.problem, StoreProblem::File(FileProblem::Version { .. }));
        let error = anyhow::Error::from(error);
        let hint = "build it again with `metric-index build`";
        Self { code, error: if is_version { anyhow::anyhow!("{error}; {hint}") } else { error } }
    }

    pub(crate) fn usage(text: String) -> Self {
        Self { code: 2, error: anyhow::Error::msg(text) }
    }

    /// Creates a failure for a requested GPU that is missing or fails.
    pub(crate) fn gpu(error: GpuError) -> Self {
        Self { code: 5, error: error.into() }
    }

    pub(crate) fn input(text: String) -> Self {
        Self { code: 3, error: anyhow::Error::msg(text) }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let is_conflict =
            matches!(error.problem, OutputProblem::IsInput { .. } | OutputProblem::IsOutput { .. });
        let hint = error.hint();
        let error = anyhow::Error::from(error);
        let error = match hint {
            Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
            None => error,
        };
        Self { code: if is_conflict { 2 } else { 1 }, error }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { code: 1, error: error.into() }
    }
}

pub(crate) type Outcome = Result<(), Failure>;

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match error {
            RunError::Threads { .. } => 5,
            RunError::Window | RunError::NoIndexes => 2,
            _ => 3,
        };
        Self { code, error: error.into() }
    }
}

/// Creates a failure for an invalid flag or invalid points that make an index or a search
/// impossible.
pub(crate) fn invalid_request(error: Error) -> Failure {
    let code = match error {
        Error::Share { .. }
        | Error::Radius { .. }
        | Error::Option { .. }
        | Error::NoCoordinates => 2,
        _ => 3,
    };
    Failure { code, error: error.into() }
}

/// Prints help, the version or a usage error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help and version go to standard output, like data.
        let printed = Output::standard().map_err(Failure::from).and_then(|_| Ok(error.print()?));
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        };
    }
    let _ = error.print();
    ExitCode::from(2)
}
