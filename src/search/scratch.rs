//! Buffers that an engine keeps between searches.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// A pool of unused buffers. Each search, or each thread of a search, takes its own buffers.
#[derive(Debug, Default)]
pub(super) struct Scratch<T>(Mutex<Vec<T>>);

impl<T: Default> Scratch<T> {
    /// Takes buffers from the pool, or creates them if all are in use. They return to the pool when
    /// the guard is dropped.
    pub(super) fn take(&self) -> ScratchGuard<'_, T> {
        let unused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        ScratchGuard { scratch: self, buffers: unused.unwrap_or_default() }
    }
}

/// A guard for buffers in use. Dropping it returns them to the pool.
#[derive(Debug)]
pub(super) struct ScratchGuard<'a, T: Default> {
    scratch: &'a Scratch<T>,
    buffers: T,
}

impl<T: Default> Deref for ScratchGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.buffers
    }
}

impl<T: Default> DerefMut for ScratchGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.buffers
    }
}

impl<T: Default> Drop for ScratchGuard<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The buffers may hold the state of an unfinished query.
            return;
        }
        let buffers = std::mem::take(&mut self.buffers);
        self.scratch.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
    }
}
