//! Thread pools that are passed as arguments. Results do not depend on the number of threads.

use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rayon::prelude::*;

/// Advice for the user when no thread can be started.
pub(crate) const NO_THREAD_HINT: &str = "use fewer threads or raise the process limit (ulimit -u)";

/// The threads that a stage of the pipeline may use.
#[derive(Clone)]
pub struct Threads(Arc<rayon::ThreadPool>);

impl Threads {
    /// Starts a pool of `count` threads.
    ///
    /// # Errors
    /// Fails if the operating system cannot start more threads.
    pub fn new(count: NonZeroUsize) -> Result<Self, std::io::Error> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count.get())
            .thread_name(|index| format!("classify-{index}"))
            .build()
            .map_err(std::io::Error::other)?;
        Ok(Self(Arc::new(pool)))
    }

    /// Starts a pool with as many threads as this machine can run concurrently.
    ///
    /// # Errors
    /// Fails if the operating system cannot start more threads.
    pub fn available() -> Result<Self, std::io::Error> {
        Self::new(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs `work` on the calling thread. Tasks spawned by `work` run on these threads and end
    /// before this function returns. `work` must not wait for spawned tasks: if the caller is the
    /// only thread of the pool, no other thread can run them.
    pub(crate) fn scope<'scope, R>(&self, work: impl FnOnce(&rayon::Scope<'scope>) -> R) -> R {
        self.0.in_place_scope(work)
    }

    /// Runs `work` on one of these threads later, and returns immediately.
    pub(crate) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.0.spawn(work);
    }

    /// Queues `work` for these threads and returns a task that provides the result.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let work: Work<T> = Box::new(work);
        let task = Arc::new(Mutex::new(Some(work)));
        let (sender, result) = channel();
        let queued = Arc::clone(&task);
        self.0.spawn(move || {
            if let Some(work) = take(&queued) {
                // If the receiver was dropped, the result is lost.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
            }
        });
        Task { work: task, result }
    }

    /// Runs `work` on these threads. Parallel iterators in `work` use them too, and so do functions
    /// that take no threads as an argument, such as [`Model::save`](crate::model::Model::save).
    ///
    /// ```
    /// use classify::threads::Threads;
    ///
    /// let threads = Threads::available()?;
    /// assert_eq!(threads.run(|| 6 * 7), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.install(work)
    }

    /// Runs both functions on these threads.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        self.run(|| rayon::join(first, second))
    }

    /// Applies `work` to each item and returns the results in order. Processes at most
    /// `max_concurrent` items (one if 0) at a time. Parallel iterators in `work` use the idle
    /// threads.
    pub(crate) fn map_few<T: Sync, R: Send>(
        &self,
        items: &[T],
        max_concurrent: usize,
        work: impl Fn(&T) -> R + Send + Sync,
    ) -> Vec<R> {
        let mut results = Vec::with_capacity(items.len());
        for items in items.chunks(max_concurrent.max(1)) {
            self.run(|| results.par_extend(items.par_iter().map(&work)));
        }
        results
    }
}

type Work<T> = Box<dyn FnOnce() -> T + Send>;

/// Work queued on [`Threads`]. If the task is dropped before a thread starts the work, the work is
/// not done.
pub(crate) struct Task<T> {
    /// The work, or `None` once a thread has started it.
    work: Arc<Mutex<Option<Work<T>>>>,
    result: Receiver<std::thread::Result<T>>,
}

impl<T> Task<T> {
    /// Waits for the result. A caller that is a worker of a thread pool does the work itself unless
    /// another thread has started it. Otherwise, all workers might wait for work that none of them
    /// starts.
    pub(crate) fn wait(self) -> T {
        if is_worker() { self.finish() } else { self.receive_result() }
    }

    /// Returns the result. The caller does the work itself unless another thread has started it.
    pub(crate) fn finish(self) -> T {
        match take(&self.work) {
            Some(work) => work(),
            None => self.receive_result(),
        }
    }

    fn receive_result(&self) -> T {
        let result = self.result.recv().expect("the thread that took the work sends its result");
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        drop(take(&self.work));
    }
}

fn take<T>(work: &Mutex<Option<Work<T>>>) -> Option<Work<T>> {
    work.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns whether the calling thread is a worker of a thread pool.
pub(crate) fn is_worker() -> bool {
    rayon::current_thread_index().is_some()
}

/// Returns the next message, or `None` after the last one. While it waits, a worker of a thread
/// pool runs other tasks of its pool, because the sender might depend on them.
pub(crate) fn receive<T>(messages: &Receiver<T>) -> Option<T> {
    while is_worker() {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => do_pool_work(),
        }
    }
    messages.recv().ok()
}

/// Joins a thread. Waits in the same way as [`receive`].
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> std::thread::Result<T> {
    while is_worker() && !thread.is_finished() {
        do_pool_work();
    }
    thread.join()
}

/// Runs one task of the caller's pool, or sleeps briefly if there is none.
fn do_pool_work() {
    const PAUSE: Duration = Duration::from_micros(100);
    if rayon::yield_now() != Some(rayon::Yield::Executed) {
        std::thread::sleep(PAUSE);
    }
}

/// Returns whether `test` returns true for all numbers below `count`. Runs in parallel if the
/// caller is a worker of a thread pool.
pub(crate) fn all(count: usize, test: impl Fn(usize) -> bool + Send + Sync) -> bool {
    if is_worker() { (0..count).into_par_iter().all(test) } else { (0..count).all(test) }
}

/// Applies `work` to each item and returns the results in order. Runs in parallel if the caller is
/// a worker of a thread pool.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
    if is_worker() {
        items.par_iter().map(work).collect()
    } else {
        items.iter().map(work).collect()
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn map_few_keeps_the_order_and_limits_concurrency() {
        let threads = Threads::new(NonZeroUsize::new(4).unwrap()).unwrap();
        let items: Vec<usize> = (0..11).collect();
        for max_concurrent in [0, 1, 3, 99] {
            let running = AtomicUsize::new(0);
            let peak = AtomicUsize::new(0);
            let results = threads.map_few(&items, max_concurrent, |&item| {
                peak.fetch_max(1 + running.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                10 * item
            });
            assert_eq!(results, items.iter().map(|item| 10 * item).collect::<Vec<_>>());
            assert!(peak.into_inner() <= max_concurrent.clamp(1, 4));
        }
        assert_eq!(threads.map_few(&[0; 0], 3, |&item| item), [0; 0]);
        assert_eq!(threads.join(|| 1, || 2), (1, 2));
    }
}
