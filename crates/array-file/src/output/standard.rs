//! Standard streams: the name of standard output, and the streams that were closed when the program
//! started.

use std::sync::atomic::{AtomicU8, Ordering};

/// The name that denotes standard output, or standard input among the inputs.
pub(super) const STANDARD: &str = "-";

/// A bit for each of the descriptors 0 to 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether a standard stream (0, 1 or 2) was closed when [`note_closed_streams`] was called.
pub(super) fn was_closed(descriptor: i32) -> bool {
    (0..=2).contains(&descriptor) && CLOSED.load(Ordering::Relaxed) & (1 << descriptor) != 0
}

/// Records which of the standard streams are closed, so that an output to one is refused.
///
/// Before `main`, Rust opens `/dev/null` in place of a closed standard stream. A program must
/// therefore arrange for the loader to call this earlier, as the crate `process-setup` does.
/// Otherwise all streams count as open, and output to a closed one is lost.
pub extern "C" fn note_closed_streams() {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for (number, stream) in streams.into_iter().enumerate() {
        if rustix::io::fcntl_getfd(stream) == Err(rustix::io::Errno::BADF) {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}
