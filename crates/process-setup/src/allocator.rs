//! An allocator for command-line programs that exits with a message when memory runs out.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_long;
use std::time::Duration;

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t, mi_option_use_numa_nodes};
use mimalloc::MiMalloc;

use crate::ending::exit_out_of_memory;

/// The allocator for command-line programs: mimalloc.
///
/// With the C library's allocator, threads wait for each other when they allocate and free many
/// small objects. When memory runs out, this allocator removes the temporary files of
/// [outputs](array_file::output), prints a message on stderr and exits with code 5. The only
/// exception is reading a file into [`Bytes`](array_file::Bytes), which returns an error.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: process_setup::Allocator = process_setup::Allocator;
///
/// assert_eq!(vec![1; 1_000].len(), 1_000);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Allocator;

#[expect(unsafe_code, reason = "implements an allocator")]
// SAFETY: every call is forwarded to `MiMalloc` unchanged, and its result is returned. If the
// result is null, the process may exit instead, without unwinding.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        exit_if_failed(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        exit_if_failed(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `realloc`.
        exit_if_failed(unsafe { MiMalloc.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

/// Exits the process if an allocation failed and the caller does not handle failures.
fn exit_if_failed(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() && !array_file::handles_failed_allocation() {
        exit_out_of_memory(Some(size));
    }
    pointer
}

/// mimalloc's option `mi_option_purge_delay`: milliseconds after which freed memory is returned to
/// the system. `libmimalloc-sys` exports only the option after it. `tests/freed_memory.rs` fails if
/// this number identifies another option.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// Makes [`Allocator`] return freed memory to the system after `delay` instead of after a second.
///
/// The delay has a resolution of milliseconds. Memory that the calling thread has already freed is
/// returned immediately. Call this between stages of work, so that memory freed by one stage does
/// not add to the memory use of the next. With a short delay, work that repeatedly allocates and
/// frees much memory takes up to a tenth longer, because the system clears the pages again.
///
/// ```
/// process_setup::return_freed_memory_after(std::time::Duration::from_millis(300));
/// ```
pub fn return_freed_memory_after(delay: Duration) {
    let milliseconds = c_long::try_from(delay.as_millis()).unwrap_or(c_long::MAX);
    // mimalloc reads the delay when memory is freed. Memory that is already free is returned by
    // `mi_collect`.
    #[expect(unsafe_code, reason = "calls a C function")]
    // SAFETY: the option exists, and mimalloc accepts any value for it.
    unsafe {
        mi_option_set(PURGE_DELAY, milliseconds);
    }
    #[expect(unsafe_code, reason = "calls a C function")]
    // SAFETY: `mi_collect` has no preconditions.
    unsafe {
        mi_collect(true);
    }
}
