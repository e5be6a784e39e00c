//! A barrier that does not wait for a thread that has panicked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread looks whether the others have come before it sleeps. Supersteps are short: to be woken takes
/// longer than many of them.
const LOOK: Duration = Duration::from_micros(50);

/// Where threads wait until all are there.
#[derive(Debug)]
pub(super) struct Rendezvous {
    threads: usize,
    /// Whether each thread can have a core: otherwise those that look keep others from coming.
    looks: bool,
    state: Mutex<State>,
    /// How many times all were there. It changes while the state is locked.
    round: AtomicU64,
    broken: AtomicBool,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    asleep: usize,
}

/// A thread that takes part: if it is dropped by a panic, nobody waits for it.
#[derive(Debug)]
pub(super) struct Party<'a>(&'a Rendezvous);

impl Rendezvous {
    pub(super) fn of(threads: usize) -> Self {
        Self {
            threads,
            looks: std::thread::available_parallelism().is_ok_and(|cores| threads <= cores.get()),
            state: Mutex::default(),
            round: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            changed: Condvar::new(),
        }
    }

    pub(super) fn party(&self) -> Party<'_> {
        Party(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self, round: u64) -> bool {
        self.round.load(Ordering::Acquire) == round && !self.broken.load(Ordering::Acquire)
    }
}

impl Party<'_> {
    /// Waits until all are here; whether that is so: otherwise one of them will never come.
    pub(super) fn wait(&self) -> bool {
        let all = self.0;
        let mut state = all.state();
        let round = all.round.load(Ordering::Acquire);
        state.arrived += 1;
        if state.arrived == all.threads {
            state.arrived = 0;
            all.round.store(round + 1, Ordering::Release);
            if state.asleep > 0 {
                all.changed.notify_all();
            }
            return !self.is_broken();
        }
        if all.looks {
            drop(state);
            let start = Instant::now();
            while all.waits(round) && start.elapsed() < LOOK {
                std::hint::spin_loop();
            }
            if !all.waits(round) {
                return !self.is_broken();
            }
            state = all.state();
        }
        state.asleep += 1;
        while all.waits(round) {
            state = all.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep -= 1;
        drop(state);
        !self.is_broken()
    }

    /// Whether one of the threads has panicked.
    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(Ordering::Acquire)
    }
}

impl Drop for Party<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // While it is locked nobody is about to sleep.
            let _state = self.0.state();
            self.0.broken.store(true, Ordering::Release);
            self.0.changed.notify_all();
        }
    }
}
