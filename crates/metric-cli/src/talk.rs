//! Messages on standard error.

use std::io::{self, Write};

/// Prints messages other than errors on standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Talk {
    pub(crate) is_quiet: bool,
}

impl Talk {
    pub(crate) fn say(self, text: &str) {
        if !self.is_quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    pub(crate) fn warn(self, text: &str) {
        self.say(&format!("warning: {text}"));
    }
}
