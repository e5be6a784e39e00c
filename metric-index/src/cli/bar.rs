//! How far a long command is, where someone looks at a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error; nothing where that is no terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(what: &'static str, is_quiet: bool) -> Self {
        if is_quiet || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent}% ETA {eta}")
        {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        Self(bar)
    }

    /// Threads do not call in order: the bar does not go back.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.0.set_length(all);
        if done > self.0.position() {
            self.0.set_position(done);
        }
    }

    /// Takes it away, so that the next line has a place of its own.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}
