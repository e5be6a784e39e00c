//! Progress reports on stderr: a bar on a terminal, otherwise a line every ten seconds.
//!
//! ```
//! use progress::Progress;
//!
//! let progress = Progress::new("reading", 1_000, true);
//! progress.show(250, "25 lines");
//! assert_eq!(progress.suspend(|| "printed without the bar"), "printed without the bar");
//! ```

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval between lines if stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The progress display of one stage of work. Dropping it removes the bar.
///
/// ```
/// use progress::Progress;
///
/// let progress = Progress::new("reading", 1_000, false);
/// for done in (0..1_000).step_by(100) {
///     progress.show(done, &format!("{} lines", done / 10));
/// }
/// ```
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    stage: &'static str,
    /// Time of the last line; `None` if no lines are printed.
    last_line: Option<Mutex<Instant>>,
}

impl Progress {
    /// Starts the progress display of a stage. Shows nothing if `quiet` is true.
    ///
    /// `total` is the amount of work, in any unit, or 0 if it is not known.
    pub fn new(stage: &'static str, total: u64, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let length = (total > 0).then_some(total);
        let bar = if is_terminal && !quiet {
            ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr())
        } else {
            let hidden = ProgressBar::hidden();
            hidden.set_length(total);
            hidden
        };
        let template = if total > 0 {
            "{prefix} {wide_bar} {percent}% {msg} ETA {eta}"
        } else {
            "{prefix} {spinner} {msg} {elapsed}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(stage);
        let has_lines = !is_terminal && !quiet;
        Self { bar, stage, last_line: has_lines.then(|| Mutex::new(Instant::now())) }
    }

    /// Shows that `done` units of work are complete, with a message.
    ///
    /// Threads may call this out of order, because the bar never moves back.
    pub fn show(&self, done: u64, message: &str) {
        if done > self.bar.position() {
            self.bar.set_position(done);
        }
        let Some(last) = &self.last_line else {
            return self.bar.set_message(message.to_owned());
        };
        let Ok(mut last) = last.lock() else { return };
        if last.elapsed() >= LINE_INTERVAL {
            *last = Instant::now();
            let line = self.line(message);
            // If stderr is closed, progress cannot be shown.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Changes the total. The display must have been created with a total above 0.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Hides the bar while `print` runs, so that the bar does not overwrite what it prints.
    pub fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, message: &str) -> String {
        let mut parts = Vec::new();
        if !message.is_empty() {
            parts.push(message.to_owned());
        }
        let total = self.bar.length().unwrap_or(0);
        if total > 0 {
            let fraction = self.bar.position() as f64 / total as f64;
            parts.push(format!("{:.0} %", 100.0 * fraction.min(1.0)));
        }
        format!("{}: {}", self.stage, parts.join(", "))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_a_percentage_if_the_total_is_known() {
        let progress = Progress::new("reading", 200, true);
        progress.show(100, "7 lines");
        progress.show(50, "");
        assert_eq!(progress.line("8 lines"), "reading: 8 lines, 50 %");
        progress.set_total(1_000);
        assert_eq!(progress.line(""), "reading: 10 %");
        let unknown = Progress::new("tuning", 0, true);
        unknown.show(9, "");
        assert_eq!(unknown.line("9 trials"), "tuning: 9 trials");
    }
}
