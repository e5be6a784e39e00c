//! Messages on stderr and the progress of long stages.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use classify::corpus::{Format, OnOpen};
use classify::printable::{printable, printable_lines};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How much to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Talk {
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl Talk {
    /// Prints a line on stderr, unless `--quiet` is set.
    pub(crate) fn say(self, line: &str) {
        if !self.quiet {
            let _ = writeln!(anstream::stderr(), "{}", printable_lines(line));
        }
    }
}

/// The interval between progress lines if stderr is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of a stage: a bar with documents/s and ETA on a terminal, otherwise a line every
/// ten seconds.
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
    stage: &'static str,
    start: Instant,
    last_line: Mutex<Instant>,
    bytes: Arc<AtomicU64>,
    total: u64,
}

impl Progress {
    /// The progress of the named stage, which reads `paths`.
    pub(crate) fn new(talk: Talk, stage: &'static str, paths: &[PathBuf]) -> Self {
        let total = paths.iter().map(|path| size(path)).sum();
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal && !talk.quiet && total > 0 {
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
        } else if terminal && !talk.quiet {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
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
        let start = Instant::now();
        Self {
            bar,
            lines: !terminal && !talk.quiet,
            stage,
            start,
            last_line: Mutex::new(start),
            bytes: Arc::new(AtomicU64::new(0)),
            total,
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// A callback that reports each file's format: once for consecutive files of the same format.
    pub(crate) fn formats(&self, talk: Talk) -> OnOpen {
        let mut last = None;
        let bar = self.bar.clone();
        Box::new(move |name: &str, format: Format| {
            if talk.verbose || last != Some(format) {
                bar.suspend(|| talk.say(&format!("reading {} as {format}", printable(name))));
            }
            last = Some(format);
        })
    }

    /// The counter that the corpus adds the bytes it has read to.
    pub(crate) fn bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes)
    }

    /// Reports that `documents` have been processed so far.
    pub(crate) fn tick(&self, documents: u64) {
        let rate = documents as f64 / self.start.elapsed().as_secs_f64().max(1e-9);
        let message = format!("{documents} documents, {rate:.0}/s");
        if self.lines {
            let Ok(mut last) = self.last_line.lock() else { return };
            if last.elapsed() >= LINE_EVERY {
                *last = Instant::now();
                let _ = writeln!(std::io::stderr(), "{}: {message}{}", self.stage, self.share());
            }
        } else {
            self.bar.set_position(self.bytes.load(Ordering::Relaxed));
            self.bar.set_message(message);
        }
    }

    fn share(&self) -> String {
        if self.total == 0 {
            return String::new();
        }
        let share = self.bytes.load(Ordering::Relaxed) as f64 / self.total as f64;
        format!(", {:.0} %", 100.0 * share.min(1.0))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The size in bytes of a file, or of all files in a folder; 0 if it cannot be determined.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    // Links are not followed: a link to a folder could lead back here.
    let is_link = |path: &Path| path.is_symlink();
    entries.flatten().map(|entry| entry.path()).filter(|p| !is_link(p)).map(|p| size(&p)).sum()
}
