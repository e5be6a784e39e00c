//! Messages of a program, in a form that does not depend on the machine.

use std::fmt;
use std::path::Path;

use crate::Run;

/// The messages of several runs, to be compared with a snapshot.
///
/// So the wording of a message stands once: in the snapshot. Tests assert the exit codes.
#[derive(Debug)]
pub struct Messages {
    folder: String,
    text: String,
}

impl Messages {
    /// No messages yet. Paths in the folder are shown as `{folder}/…`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_str().unwrap().to_owned(), text: String::new() }
    }

    /// Adds the command and the messages of a run that must have ended with an exit code.
    ///
    /// # Panics
    ///
    /// If the exit code is another one, or if the program panicked.
    pub fn add(&mut self, command: &str, run: &Run, code: i32) {
        assert_eq!(run.code, code, "{command}: {}", run.err);
        assert!(!run.err.contains("panicked"), "{command}: {}", run.err);
        let said = format!("$ {command}\nexit code {code}\n{}\n", run.err);
        self.text += &said.replace(&self.folder, "{folder}");
    }
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
