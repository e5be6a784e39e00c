//! Out of memory: prints a message and exits with a code, instead of aborting.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mimalloc::MiMalloc;
use signal_hook::consts::SIGABRT;

use crate::output::try_to_remove_temporary_files;

/// The exit code when out of memory.
const CODE: i32 = 5;

/// The allocator for command-line programs: mimalloc, since many threads that allocate and free
/// small objects for each other wait for one another in the C library's. When out of memory, it
/// removes the temporary files of [outputs](crate::output), prints a message on stderr and ends the
/// process with exit code 5. Reading a file returns an error instead.
///
/// ```
/// #[global_allocator]
/// static MEMORY: array_file::command::Memory = array_file::command::Memory;
///
/// assert_eq!(vec![1; 1_000].len(), 1_000);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Memory;

thread_local! {
    /// Whether the caller handles a failed allocation.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Runs code whose allocations may fail, so that `try_reserve` returns its error.
pub(crate) fn may_fail<R>(allocate: impl FnOnce() -> R) -> R {
    let before = MAY_FAIL.replace(true);
    let result = allocate();
    MAY_FAIL.set(before);
    result
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: every call is forwarded to `MiMalloc` unchanged, and its result is returned; if that is
// null, the process may end instead, without unwinding.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        checked(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        checked(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `realloc`.
        checked(unsafe { MiMalloc.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

/// The number of mimalloc's option for the milliseconds after which freed memory is returned to the system: see `mi_option_purge_delay`
/// in its `mimalloc.h`.
const PURGE_DELAY: c_int = 15;

#[expect(
    unsafe_code,
    reason = "functions of mimalloc, which `mimalloc` links but does not declare"
)]
// SAFETY: declared as in `mimalloc.h`.
unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_collect(force: bool);
}

/// From now on, [`Memory`] keeps what is freed for later allocations instead of returning it to the system, until the process ends.
/// For work that allocates and frees much memory again and again: clearing new pages can take an eighth of its time. Other
/// processes have less memory meanwhile.
///
/// ```
/// array_file::command::keep_freed_memory();
/// ```
pub fn keep_freed_memory() {
    mi_option_set(PURGE_DELAY, -1);
}

/// From now on, [`Memory`] returns what is freed to the system after this time (whole milliseconds) instead of a second; what
/// the calling thread has freed already, it returns now. For work that soon needs other memory: what one part of it freed is
/// then not added to what the next part needs.
///
/// ```
/// array_file::command::return_freed_memory_after(std::time::Duration::from_millis(300));
/// ```
pub fn return_freed_memory_after(delay: Duration) {
    mi_option_set(PURGE_DELAY, c_long::try_from(delay.as_millis()).unwrap_or(c_long::MAX));
    // All that is freed is returned at a time that was set when the first memory was freed. This ends the wait for it.
    mi_collect(true);
}

fn checked(pointer: *mut u8, size: usize) -> *mut u8 {
    // The flag of a thread that is ending is gone.
    if pointer.is_null() && !MAY_FAIL.try_with(Cell::get).unwrap_or(false) {
        end(Some(size));
    }
    pointer
}

/// Whether a thread is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Gives the thread that is ending the process the time to remove the files. The wait is limited, since
/// the caller can be that thread, entered again.
fn wait_for_the_end() {
    std::thread::sleep(Duration::from_secs(2));
}

/// Handles SIGABRT: the C library aborts the process where memory for its own use runs out. Removes the
/// temporary files, unless another thread is doing so, and ends the process by the signal. Allocates
/// nothing and waits for seconds at most, so a signal handler may call it.
pub(crate) fn clean_up_and_abort() {
    if ENDING.load(Ordering::SeqCst) {
        wait_for_the_end();
    } else {
        try_to_remove_temporary_files();
    }
    let _ = signal_hook::low_level::emulate_default_handler(SIGABRT);
}

/// Ends the process, which needed so many bytes more, if known. Nothing called here may allocate, or
/// this function would be entered again.
#[cold]
pub(crate) fn end(size: Option<usize>) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        wait_for_the_end();
    } else {
        let mut text = [0; 200];
        let mut rest = &mut text[..];
        // 200 bytes suffice for the message, with any number.
        let _ = rest.write_all(b"error: out of memory");
        if let Some(size) = size {
            let _ = write!(rest, ": {size} more bytes were needed");
        }
        let _ = rest.write_all(
            b"\nhint: free memory, use fewer threads (-j), more memory, or less data at a time\n",
        );
        let left = rest.len();
        let length = text.len() - left;
        let _ = rustix::io::write(rustix::stdio::stderr(), &text[..length]);
        try_to_remove_temporary_files();
    }
    signal_hook::low_level::exit(CODE)
}
