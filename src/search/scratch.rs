//! Buffers that an engine keeps between searches.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Buffers that are not in use. Each search, or each thread of one, takes its own.
#[derive(Debug, Default)]
pub(super) struct Scratch<T>(Mutex<Vec<T>>);

impl<T: Default> Scratch<T> {
    /// Takes buffers, or makes new ones if all are in use. They return when the guard is dropped.
    pub(super) fn take(&self) -> ScratchGuard<'_, T> {
        let unused = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        ScratchGuard { scratch: self, buffers: unused.unwrap_or_default() }
    }
}

/// Buffers in use.
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
            // They may hold half of a query.
            return;
        }
        let buffers = std::mem::take(&mut self.buffers);
        self.scratch.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffers);
    }
}
