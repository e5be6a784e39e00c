//! A barrier that does not wait for threads that have panicked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a waiting thread spins before it sleeps. Waking a thread takes longer than many
/// supersteps.
const SPIN: Duration = Duration::from_micros(50);

/// A barrier at which threads wait until all have arrived.
#[derive(Debug)]
pub(super) struct Rendezvous {
    threads: usize,
    /// Whether threads spin. They spin only if each thread can have its own core; otherwise,
    /// spinning delays the threads that have not arrived.
    spins: bool,
    state: Mutex<State>,
    /// Number of times that all threads have arrived. It changes only while the state is locked.
    round: AtomicU64,
    is_broken: AtomicBool,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    asleep: usize,
}

/// A thread's membership in a barrier. If a panic drops it, the other threads stop waiting.
#[derive(Debug)]
pub(super) struct Membership<'a>(&'a Rendezvous);

impl Rendezvous {
    pub(super) fn of(threads: usize) -> Self {
        Self {
            threads,
            spins: std::thread::available_parallelism().is_ok_and(|cores| threads <= cores.get()),
            state: Mutex::default(),
            round: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            changed: Condvar::new(),
        }
    }

    pub(super) fn membership(&self) -> Membership<'_> {
        Membership(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_wait(&self, round: u64) -> bool {
        self.round.load(Ordering::Acquire) == round && !self.is_broken.load(Ordering::Acquire)
    }
}

impl Membership<'_> {
    /// Waits until all threads have arrived. Returns `false` if one of them panicked.
    pub(super) fn wait(&self) -> bool {
        let barrier = self.0;
        let mut state = barrier.state();
        let round = barrier.round.load(Ordering::Acquire);
        state.arrived += 1;
        if state.arrived == barrier.threads {
            state.arrived = 0;
            barrier.round.store(round + 1, Ordering::Release);
            if state.asleep > 0 {
                barrier.changed.notify_all();
            }
            return !self.is_broken();
        }
        if barrier.spins {
            drop(state);
            let start = Instant::now();
            while barrier.must_wait(round) && start.elapsed() < SPIN {
                std::hint::spin_loop();
            }
            if !barrier.must_wait(round) {
                return !self.is_broken();
            }
            state = barrier.state();
        }
        state.asleep += 1;
        while barrier.must_wait(round) {
            state = barrier.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep -= 1;
        drop(state);
        !self.is_broken()
    }

    /// Whether one of the threads has panicked.
    pub(super) fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Acquire)
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // While the state is locked, no thread is about to sleep and miss the notification.
            let _state = self.0.state();
            self.0.is_broken.store(true, Ordering::Release);
            self.0.changed.notify_all();
        }
    }
}
