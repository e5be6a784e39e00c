//! Progress reports while an index is built.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of reports per build.
const MAX_REPORTS: u64 = 1_000;

/// Reports the progress of building an index.
///
/// The callback receives the amount of work done and the total, from (0, total) to (total, total),
/// at most a thousand times. Each index counts work in its own unit, usually points. If several
/// threads build an index, they all call the callback, so amounts may arrive out of order.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use metric_index::index::{Kind, Progress};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let is_done = AtomicBool::new(false);
/// let report = |done: u64, all: u64| is_done.store(done == all, Ordering::Relaxed);
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// Kind::VpTree.build_with(words, Edit, &Progress::new(&report))?;
/// assert!(is_done.into_inner());
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Default)]
pub struct Progress<'a> {
    report: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    done: AtomicU64,
    all: AtomicU64,
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("done", &self.done).field("all", &self.all).finish()
    }
}

impl<'a> Progress<'a> {
    /// Creates a reporter that calls `report` with the amount of work done and the total. Use it
    /// for one build only.
    pub fn new(report: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        Self { report: Some(report), ..Self::default() }
    }

    /// Creates a reporter that does nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Sets the total amount of work and reports the start.
    pub(super) fn begin(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
        if let Some(report) = self.report {
            report(0, all);
        }
    }

    /// Adds finished work and reports it if enough has accumulated.
    pub(super) fn add(&self, more: u64) {
        let Some(report) = self.report.filter(|_| more > 0) else { return };
        let before = self.done.fetch_add(more, Ordering::Relaxed);
        let now = before + more;
        let all = self.all.load(Ordering::Relaxed);
        let step =
            |done: u64| u128::from(done) * u128::from(MAX_REPORTS - 1) / u128::from(all.max(1));
        if step(now) > step(before) {
            report(now, all);
        }
    }
}

/// The progress of a tree of unknown depth that is built level by level. Each time a point moves
/// down a level, half of its remaining work is done.
pub(super) struct Levels<'a> {
    progress: &'a Progress<'a>,
}

impl<'a> Levels<'a> {
    /// Total work per point.
    const WORK_PER_POINT: u64 = 1 << 16;

    pub(super) fn begin(progress: &'a Progress<'a>, points: u32) -> Self {
        progress.begin(u64::from(points) * Self::WORK_PER_POINT);
        Self { progress }
    }

    /// Returns the remaining work of a point at a level.
    fn remaining(depth: u32) -> u64 {
        Self::WORK_PER_POINT.checked_shr(depth).unwrap_or(0)
    }

    /// Reports that `points` points of a level have moved down to the next level.
    pub(super) fn add_moved_down(&self, depth: u32, points: usize) {
        self.progress.add(points as u64 * (Self::remaining(depth) - Self::remaining(depth + 1)));
    }

    /// Reports that `points` points of a level have reached their final position.
    pub(super) fn add_placed(&self, depth: u32, points: usize) {
        self.progress.add(points as u64 * Self::remaining(depth));
    }
}
