//! The progress of building an index.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many times a builder tells it at most.
const TIMES: u64 = 1_000;

/// Reports the progress of building an index.
///
/// It gets how much is done and how much there is, in parts of the work that each index counts in its own way (mostly
/// points): from (0, all) to (all, all), at most a thousand times. An index that is built by several threads calls it
/// from all of them, so that a lower number may come after a higher one.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use metric_index::index::{Progress, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let is_done = AtomicBool::new(false);
/// let report = |done: u64, all: u64| is_done.store(done == all, Ordering::Relaxed);
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// VpTree::build_with(words, Edit, &Progress::new(&report))?;
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
    /// Calls `report` with the work done and the total. To be used for one build only.
    ///
    /// ```
    /// use metric_index::index::Progress;
    ///
    /// let progress = Progress::new(&|done, all| println!("{done} of {all}"));
    /// ```
    pub fn new(report: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        Self { report: Some(report), ..Self::default() }
    }

    /// A no-op sink.
    ///
    /// ```
    /// use metric_index::index::{BruteForce, Kind, Progress};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// Kind::BruteForce.build_with(Strings::default(), Edit, &Progress::none())?;
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn none() -> Self {
        Self::default()
    }

    /// There is so much to do.
    pub(super) fn begin(&self, all: u64) {
        self.all.store(all, Ordering::Relaxed);
        if let Some(report) = self.report {
            report(0, all);
        }
    }

    /// So much more is done.
    pub(super) fn add(&self, more: u64) {
        let Some(report) = self.report.filter(|_| more > 0) else { return };
        let before = self.done.fetch_add(more, Ordering::Relaxed);
        let (now, all) = (before + more, self.all.load(Ordering::Relaxed));
        let step = |done: u64| u128::from(done) * u128::from(TIMES - 1) / u128::from(all.max(1));
        if step(now) > step(before) {
            report(now, all);
        }
    }
}

/// The progress of a tree that is built level by level, whose depth is not known: each time that a point goes
/// down a level, half of what was left of its work is done.
pub(super) struct Levels<'a> {
    progress: &'a Progress<'a>,
}

impl<'a> Levels<'a> {
    /// The work of a point.
    const POINT: u64 = 1 << 16;

    pub(super) fn begin(progress: &'a Progress<'a>, points: u32) -> Self {
        progress.begin(u64::from(points) * Self::POINT);
        Self { progress }
    }

    fn left(depth: u32) -> u64 {
        Self::POINT.checked_shr(depth).unwrap_or(0)
    }

    /// `points` points of a level move to the next.
    pub(super) fn down(&self, depth: u32, points: usize) {
        self.progress.add(points as u64 * (Self::left(depth) - Self::left(depth + 1)));
    }

    /// `points` points of a level have reached their place.
    pub(super) fn stay(&self, depth: u32, points: usize) {
        self.progress.add(points as u64 * Self::left(depth));
    }
}
