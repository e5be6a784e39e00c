//! Ends a process that is out of memory or aborts, without allocating.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use array_file::output::try_to_remove_temporary_files;
use signal_hook::consts::SIGABRT;

/// Exit code when memory runs out.
const OUT_OF_MEMORY: i32 = 5;

/// Whether a thread is ending the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Waits two seconds for the thread that is ending the process to remove the temporary files.
///
/// The wait is limited, because the caller may be a signal handler that interrupted that thread.
fn wait_for_ending_thread() {
    std::thread::sleep(Duration::from_secs(2));
}

/// Handles SIGABRT: removes the temporary files, then ends the process with the signal.
///
/// The C library aborts the process if it cannot allocate memory for its own use. If another thread
/// is already removing the files, this function waits for it. It does not allocate and takes at
/// most a few seconds, so a signal handler may call it.
pub(crate) fn clean_up_and_abort() {
    if IS_ENDING.load(Ordering::SeqCst) {
        wait_for_ending_thread();
    } else {
        try_to_remove_temporary_files();
    }
    let _ = signal_hook::low_level::emulate_default_handler(SIGABRT);
}

/// Exits after an allocation of `size` bytes failed; `None` if the size is unknown.
///
/// This function must not allocate, because a failed allocation would call it again.
#[cold]
pub(crate) fn exit_out_of_memory(size: Option<usize>) -> ! {
    if IS_ENDING.swap(true, Ordering::SeqCst) {
        wait_for_ending_thread();
    } else {
        let mut text = [0; 200];
        let mut rest = &mut text[..];
        // 200 bytes are enough for the message with any size.
        let _ = rest.write_all(b"error: out of memory");
        if let Some(size) = size {
            let _ = write!(rest, ": {size} more bytes were needed");
        }
        let _ = rest.write_all(
            b"\nhint: free or add memory, use fewer threads (-j), or process less data at a time\n",
        );
        let unused = rest.len();
        let length = text.len() - unused;
        let _ = rustix::io::write(rustix::stdio::stderr(), &text[..length]);
        try_to_remove_temporary_files();
    }
    signal_hook::low_level::exit(OUT_OF_MEMORY)
}
