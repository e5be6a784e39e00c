//! Whether the standard streams were open when the program started.
//!
//! Before `main`, Rust opens `/dev/null` in place of a closed standard stream, so output to it is
//! lost without an error. Only code that runs earlier can detect this.

use std::sync::atomic::{AtomicU8, Ordering};

/// One bit for each of the descriptors 0 to 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether a standard stream (0, 1 or 2) was closed when the program started.
pub(crate) fn was_closed(descriptor: i32) -> bool {
    (0..=2).contains(&descriptor) && CLOSED.load(Ordering::Relaxed) & (1 << descriptor) != 0
}

#[cfg(target_os = "linux")]
extern "C" fn look() {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for (number, stream) in streams.into_iter().enumerate() {
        if rustix::io::fcntl_getfd(stream) == Err(rustix::io::Errno::BADF) {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

#[cfg(target_os = "linux")]
#[used]
#[expect(unsafe_code, reason = "runs before Rust's own initialization")]
// SAFETY: the section holds pointers to functions of this type, which the loader calls once before
// `main`. `look` makes three system calls, stores an atomic value and requires no initialization.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
