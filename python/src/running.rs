//! Runs work without the GIL, on shared threads, until it ends or Ctrl-C stops it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use classify::search::Stop;
use classify::threads::Threads;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::logging;

/// Interval between checks for Ctrl-C.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` without the GIL. Ctrl-C stops it and then raises `KeyboardInterrupt`.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime")]
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    stop: &Arc<Stop>,
    work: impl FnOnce(&Stop) -> T + Send,
) -> PyResult<T> {
    let mut interrupt = Ok(());
    let outcome = py.detach(|| {
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let outcome = work(stop);
                // Sending cannot fail, because the receiver outlives this thread.
                let _ = done.send(());
                outcome
            });
            while is_done.recv_timeout(SIGNAL_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if worker.is_finished() {
                    break;
                }
                if interrupt.is_ok() {
                    interrupt = Python::attach(|py| py.check_signals());
                    if interrupt.is_err() {
                        stop.stop();
                    }
                }
            }
            worker.join()
        })
    });
    logging::flush(py)?;
    interrupt?;
    Ok(outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Maximum number of queries that are answered without checks for Ctrl-C.
const MAX_UNCHECKED: usize = 64;

/// Runs work for this number of queries without the GIL. Ctrl-C stops the work, unless there are
/// few queries.
pub(crate) fn run_for<T: Send>(
    py: Python<'_>,
    queries: usize,
    work: impl FnOnce(&Stop) -> T + Send,
) -> PyResult<T> {
    if queries > MAX_UNCHECKED {
        return run(py, &Arc::default(), work);
    }
    let outcome = py.detach(|| work(&Stop::new()));
    logging::flush(py)?;
    Ok(outcome)
}

/// Maximum number of shared thread pools. Older pools end with the last model that uses them.
const MAX_POOLS: usize = 4;

/// Thread pools, with the process that started them and their number of threads. The most recently
/// used pool is last.
static POOLS: Mutex<Vec<(u32, usize, Threads)>> = Mutex::new(Vec::new());

/// Returns `jobs` threads, or one thread per processor for `None`. All calls share the threads.
///
/// A forked process has none of its parent's threads, so it starts its own.
pub(crate) fn threads(jobs: Option<usize>) -> PyResult<Threads> {
    let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let count = NonZeroUsize::new(jobs.unwrap_or_else(available)).unwrap_or(NonZeroUsize::MIN);
    let process = std::process::id();
    let start = || {
        Threads::new(count).map_err(|error| {
            PyOSError::new_err(format!(
                "cannot start {count} threads: {error}; use a smaller n_jobs"
            ))
        })
    };
    // Another thread of the parent may have held the lock when the process was forked.
    let Ok(mut pools) = POOLS.try_lock() else { return start() };
    if pools.iter().any(|(owner, ..)| *owner != process) {
        // The parent's threads do not exist in this process, so they cannot be joined.
        std::mem::forget(std::mem::take(&mut *pools));
    }
    let threads = match pools.iter().position(|(_, have, _)| *have == count.get()) {
        Some(at) => pools.remove(at).2,
        None => start()?,
    };
    if pools.len() == MAX_POOLS {
        pools.remove(0);
    }
    pools.push((process, count.get(), threads.clone()));
    Ok(threads)
}

/// Value that owns threads, created again in a forked process.
#[derive(Debug)]
pub(crate) struct ProcessLocal<T> {
    /// The process whose threads may hold the lock.
    owner: AtomicU32,
    kept: Mutex<Option<(u32, Arc<T>)>>,
}

impl<T> Default for ProcessLocal<T> {
    fn default() -> Self {
        Self { owner: AtomicU32::new(std::process::id()), kept: Mutex::new(None) }
    }
}

impl<T: Send + Sync> ProcessLocal<T> {
    /// Returns the value of this process. Creates it with `make`, without the GIL, if necessary.
    pub(crate) fn get(
        &self,
        py: Python<'_>,
        make: impl FnOnce() -> PyResult<T> + Send,
    ) -> PyResult<Arc<T>> {
        let process = std::process::id();
        py.detach(|| {
            let mut kept = if self.owner.load(Ordering::Relaxed) == process {
                self.kept.lock().unwrap_or_else(PoisonError::into_inner)
            } else {
                // If a thread of the parent held the lock during the fork, it is never released.
                let Ok(kept) = self.kept.try_lock() else { return Ok(Arc::new(make()?)) };
                self.owner.store(process, Ordering::Relaxed);
                kept
            };
            match &*kept {
                Some((owner, own)) if *owner == process => return Ok(Arc::clone(own)),
                // The parent's threads do not exist in this process, so they cannot be joined.
                Some((_, of_parent)) => std::mem::forget(Arc::clone(of_parent)),
                None => {}
            }
            let fresh = Arc::new(make()?);
            *kept = Some((process, Arc::clone(&fresh)));
            Ok(fresh)
        })
    }
}
