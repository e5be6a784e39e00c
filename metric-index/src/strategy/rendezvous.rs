//! A barrier that does not wait for a thread that has panicked.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Where threads wait until all are there.
#[derive(Debug)]
pub(super) struct Rendezvous {
    threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    round: u64,
    broken: bool,
}

/// A thread that takes part: if it is dropped by a panic, nobody waits for it.
#[derive(Debug)]
pub(super) struct Party<'a>(&'a Rendezvous);

impl Rendezvous {
    pub(super) fn of(threads: usize) -> Self {
        Self { threads, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn party(&self) -> Party<'_> {
        Party(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Party<'_> {
    /// Waits until all are here; whether that is so: otherwise one of them will never come.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.0.state();
        state.arrived += 1;
        let round = state.round;
        if state.arrived == self.0.threads {
            state.arrived = 0;
            state.round += 1;
            self.0.changed.notify_all();
        }
        while state.round == round && !state.broken {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.broken
    }

    /// Whether one of the threads has panicked.
    pub(super) fn is_broken(&self) -> bool {
        self.0.state().broken
    }
}

impl Drop for Party<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state().broken = true;
            self.0.changed.notify_all();
        }
    }
}
