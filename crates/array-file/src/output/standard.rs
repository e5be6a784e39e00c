//! Standard streams: the path of standard output, and the streams that were closed when the program
//! started.

use std::sync::atomic::{AtomicU8, Ordering};

/// The path that stands for standard output, or for standard input among the inputs.
pub(super) const STANDARD: &str = "-";

/// Bit n is set if descriptor n, from 0 to 2, was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Returns whether a standard stream (0, 1 or 2) was closed when [`note_closed_streams`] was
/// called.
pub(super) fn was_closed(descriptor: i32) -> bool {
    (0..=2).contains(&descriptor) && CLOSED.load(Ordering::Relaxed) & (1 << descriptor) != 0
}

/// Records which standard streams are closed. Output to a closed stream is then an error.
///
/// Before `main`, Rust opens `/dev/null` as a replacement for a closed standard stream. The loader
/// must therefore call this function earlier, as the crate `process-setup` arranges. Otherwise all
/// streams count as open, and output to a closed stream is lost.
pub extern "C" fn note_closed_streams() {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for (number, stream) in streams.into_iter().enumerate() {
        if rustix::io::fcntl_getfd(stream) == Err(rustix::io::Errno::BADF) {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}
