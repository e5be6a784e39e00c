//! A temporary folder in which the program runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) struct Room(tempfile::TempDir);

impl Room {
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Runs a shell command line in the folder; `classify` is the program, `$SAMPLE` the sample corpus.
    pub(crate) fn sh(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let line = line.replace("classify ", "\"$CLASSIFY\" ");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(self.path());
        command.env("CLASSIFY", env!("CARGO_BIN_EXE_classify"));
        command.env("SAMPLE", concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/sample"));
        command.env("CUDA_VISIBLE_DEVICES", "").env_remove("RUST_BACKTRACE");
        command
    }

    /// The temporary files of outputs.
    pub(crate) fn temporary(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.to_string_lossy().contains(".writing-")).collect()
    }
}
