//! A signal that ends searches early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::error::SearchError;

/// A signal that ends searches early: on request from another thread, or at a deadline.
///
/// Engines check the signal between blocks of work, so a search ends soon after the signal. The
/// search then returns [`SearchError::Stopped`], never partial results.
///
/// ```
/// use classify::search::Stop;
/// use std::time::Duration;
///
/// let stop = Stop::new();
/// assert!(!stop.is_stopped());
/// stop.stop();
/// assert!(stop.is_stopped());
/// assert!(Stop::after(Duration::ZERO).is_stopped());
/// ```
#[derive(Debug, Default)]
pub struct Stop {
    stopped: AtomicBool,
    deadline: Option<Instant>,
}

/// The default stop of requests. It never ends a search.
pub(crate) static NEVER: Stop = Stop::new();

impl Stop {
    /// Creates a stop without a deadline. Searches run until [`Stop::stop`] is called.
    pub const fn new() -> Self {
        Self { stopped: AtomicBool::new(false), deadline: None }
    }

    /// Creates a stop with a deadline.
    pub const fn at(deadline: Instant) -> Self {
        Self { stopped: AtomicBool::new(false), deadline: Some(deadline) }
    }

    /// Creates a stop whose deadline is `time` from now.
    pub fn after(time: Duration) -> Self {
        Self { stopped: AtomicBool::new(false), deadline: Instant::now().checked_add(time) }
    }

    /// Ends the searches that use this stop.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether searches must end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns an error if searches must end.
    pub(super) fn check(&self) -> Result<(), SearchError> {
        if self.is_stopped() { Err(SearchError::Stopped) } else { Ok(()) }
    }
}
