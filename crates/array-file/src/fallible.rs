//! Allocations whose failure the caller handles.

use std::cell::Cell;

thread_local! {
    static IS_FALLIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that handles failed allocations itself, so that `try_reserve` can return an error.
pub(crate) fn fallibly<R>(allocate: impl FnOnce() -> R) -> R {
    let before = IS_FALLIBLE.replace(true);
    let result = allocate();
    IS_FALLIBLE.set(before);
    result
}

/// Whether the calling thread handles a failed allocation itself, for example while it reads a
/// file.
///
/// A global allocator that ends the process when memory runs out must return null instead if this
/// is true.
///
/// ```
/// assert!(!array_file::handles_failed_allocation());
/// ```
pub fn handles_failed_allocation() -> bool {
    // A thread that is exiting no longer has the flag.
    IS_FALLIBLE.try_with(Cell::get).unwrap_or(false)
}
