//! Lets callers handle failed allocations.

use std::cell::Cell;

thread_local! {
    static IS_FALLIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `allocate`, which handles failed allocations itself, for example with `try_reserve`.
pub(crate) fn with_fallible_allocation<R>(allocate: impl FnOnce() -> R) -> R {
    let before = IS_FALLIBLE.replace(true);
    let result = allocate();
    IS_FALLIBLE.set(before);
    result
}

/// Returns whether the calling thread currently handles failed allocations itself, for example
/// while it reads a file.
///
/// A global allocator that normally ends the process when memory runs out must return null if this
/// function returns `true`.
///
/// ```
/// assert!(!array_file::handles_failed_allocation());
/// ```
pub fn handles_failed_allocation() -> bool {
    // The flag of a thread that is exiting may already be destroyed.
    IS_FALLIBLE.try_with(Cell::get).unwrap_or(false)
}
