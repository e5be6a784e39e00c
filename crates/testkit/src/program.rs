//! Runs a program and collects its output.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program under test, with its working folder and environment.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    folder: PathBuf,
    hides_gpus: bool,
}

/// A finished run of a program.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Program {
    /// Creates a runner for the program at `path`, which starts in the root of the repository.
    ///
    /// In tests of the crate that builds the program, the path is `env!("CARGO_BIN_EXE_…")`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), folder: crate::root(), hides_gpus: false }
    }

    /// Sets the folder in which the program starts.
    #[must_use]
    pub fn within(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// Hides all GPUs from the program.
    #[must_use]
    pub fn without_gpus(self) -> Self {
        Self { hides_gpus: true, ..self }
    }

    /// Prepares a command without starting it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.folder).env_remove("RUST_BACKTRACE");
        if self.hides_gpus {
            command.env("CUDA_VISIBLE_DEVICES", "");
        }
        command
    }

    /// Runs the program with empty standard input.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, b"")
    }

    /// Runs the program with `input` as standard input. The program may exit before it has read all
    /// of it.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The program may close its input early, so this may fail.
                let _ = pipe.write_all(input);
            });
            child.wait_with_output().unwrap().into()
        })
    }

    /// Runs the program and checks that it succeeds.
    ///
    /// # Panics
    ///
    /// Panics if the exit code is not 0.
    pub fn succeed(&self, arguments: &[&str]) -> Run {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
        run
    }
}

impl From<Output> for Run {
    /// Converts the output of a program.
    ///
    /// # Panics
    ///
    /// Panics if a signal ended the program, or if its output is not UTF-8.
    fn from(output: Output) -> Self {
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let code = output.status.code().unwrap_or_else(|| panic!("{}: {err}", output.status));
        Self { code, out, err }
    }
}
