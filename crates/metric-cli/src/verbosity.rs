//! The verbosity of messages on standard error.

use std::io::{self, Write};

/// Whether messages other than errors are printed on standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verbosity {
    pub(crate) is_quiet: bool,
}

impl Verbosity {
    pub(crate) fn say(self, text: &str) {
        if !self.is_quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    pub(crate) fn warn(self, text: &str) {
        self.say(&format!("warning: {text}"));
    }
}
