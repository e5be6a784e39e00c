//! Messages on standard error, and the progress of long stages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use classify::printable::{printable, printable_lines};
use classify::stages::{PipelineProgress, Stage};
use classify::text::corpus::{Format, OnOpen};

/// How much a command prints on standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verbosity {
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl Verbosity {
    /// Prints a line on stderr for each stage if `--verbose` is set.
    pub(crate) fn stages<'a>(self, stages: impl IntoIterator<Item = &'a Stage>) {
        if self.verbose {
            stages.into_iter().for_each(|stage| self.print(&stage.to_string()));
        }
    }

    /// Prints a line on stderr, unless `--quiet` is set.
    pub(crate) fn print(self, line: &str) {
        if !self.quiet {
            let _ = writeln!(anstream::stderr(), "{}", printable_lines(line));
        }
    }
}

/// Progress of a stage: documents, documents/s, and the share of the bytes already read.
pub(crate) struct Progress {
    bar: Arc<progress::Progress>,
    start: Instant,
    bytes: Arc<AtomicU64>,
}

impl Progress {
    /// Shows the progress of a stage that reads `paths`.
    pub(crate) fn new(verbosity: Verbosity, stage: &'static str, paths: &[PathBuf]) -> Self {
        let total = paths.iter().map(|path| size(path)).sum();
        let bar = Arc::new(progress::Progress::new(stage, total, verbosity.quiet));
        Self { bar, start: Instant::now(), bytes: Arc::new(AtomicU64::new(0)) }
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish();
    }

    /// Returns a callback that reports the format of each file. Consecutive files of one format are
    /// reported once, unless `--verbose` is set.
    pub(crate) fn formats(&self, verbosity: Verbosity) -> OnOpen {
        let mut last = None;
        let bar = Arc::clone(&self.bar);
        Box::new(move |name: &str, format: Format| {
            if verbosity.verbose || last != Some(format) {
                bar.suspend(|| {
                    verbosity.print(&format!("reading {} as {format}", printable(name)));
                });
            }
            last = Some(format);
        })
    }

    /// Returns the counter of the bytes that the corpus has read.
    pub(crate) fn bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes)
    }

    /// Reports that `documents` have been processed so far.
    pub(crate) fn tick(&self, documents: u64) {
        self.show(documents, "");
    }

    /// Reports progress and names the busiest of the parallel stages.
    pub(crate) fn tick_stages(&self, so_far: &PipelineProgress<'_>) {
        let PipelineProgress { documents, busiest, busy } = so_far;
        self.show(*documents, &format!("; busiest: {busiest} ({:.0} %)", busy * 100.0));
    }

    fn show(&self, documents: u64, stages: &str) {
        let rate = documents as f64 / self.start.elapsed().as_secs_f64().max(1e-9);
        let message = format!("{documents} documents, {rate:.0}/s{stages}");
        self.bar.show(self.bytes.load(Ordering::Relaxed), &message);
    }
}

/// Returns the size in bytes of a file, or of all files in a folder. Returns 0 if the size cannot
/// be determined.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    // Links are not followed, because a link to a parent folder would cause endless recursion.
    let is_link = |path: &Path| path.is_symlink();
    entries.flatten().map(|entry| entry.path()).filter(|p| !is_link(p)).map(|p| size(&p)).sum()
}
