//! Runs shell command lines in a temporary folder.

use std::ops::Deref;
use std::process::{Command, Output};

use crate::{Folder, Run};

/// A temporary folder in which a shell runs the program.
///
/// In a command line, `classify` is the program, and `$SAMPLE` is the folder of the sample corpus.
/// GPUs are hidden from the program.
#[derive(Debug)]
pub struct Shell {
    folder: Folder,
    program: &'static str,
}

impl Shell {
    /// Creates an empty folder in which command lines run the program at the path `program`.
    ///
    /// In tests of the crate that builds the program, the path is `env!("CARGO_BIN_EXE_classify")`.
    pub fn new(program: &'static str) -> Self {
        Self { folder: Folder::new(), program }
    }

    /// Prepares a command without starting it.
    pub fn command(&self, line: &str) -> Command {
        let line = line.replace("classify ", "\"$CLASSIFY\" ");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(self.path());
        command.env("CLASSIFY", self.program);
        command.env("SAMPLE", crate::root().join("corpora/sample"));
        command.env("CUDA_VISIBLE_DEVICES", "").env_remove("RUST_BACKTRACE");
        command
    }

    /// Runs a command line and returns its output. The command may be ended by a signal.
    pub fn output(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a command line and returns its exit code and output.
    ///
    /// # Panics
    ///
    /// Panics if a signal ended the command, or if its output is not UTF-8.
    pub fn run(&self, line: &str) -> Run {
        self.output(line).into()
    }

    /// Runs a command line, checks that it succeeds, and returns its standard output.
    ///
    /// # Panics
    ///
    /// Panics if the command line fails.
    pub fn succeed(&self, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code, 0, "{line}: {}", run.err);
        run.out
    }
}

impl Deref for Shell {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}
