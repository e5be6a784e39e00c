//! Process-wide setup of a command-line program: allocator, signals, and closed streams.
//!
//! Only programs depend on this crate. A library must not change the allocator or the signals of
//! its process, and must not run code before `main`.
//!
//! A typical program:
//!
//! ```
//! use process_setup::Allocator;
//!
//! process_setup::note_closed_streams_before_main!();
//!
//! #[global_allocator]
//! static ALLOCATOR: Allocator = Allocator;
//!
//! fn main() {
//!     // Without the handlers, a signal can leave a temporary file behind, but nothing worse.
//!     let _ = process_setup::clean_up_on_exit();
//!     assert_eq!(vec![1; 1_000].len(), 1_000);
//! }
//! ```

mod allocator;
mod ending;
mod signals;

pub use allocator::{Allocator, return_freed_memory_after};
pub use array_file::output::note_closed_streams;
pub use signals::{clean_up_on_abort, clean_up_on_exit};

/// Makes the program call [`note_closed_streams`] before `main`.
///
/// Rust opens `/dev/null` in place of a closed standard stream before `main` runs, so output to it
/// would be lost without an error. Only code that runs earlier can detect that the stream was
/// closed. Invoke this macro once, next to `main`. It does nothing on systems other than Linux.
#[macro_export]
macro_rules! note_closed_streams_before_main {
    () => {
        #[cfg(target_os = "linux")]
        const _: () = {
            #[used]
            #[expect(unsafe_code, reason = "runs before Rust replaces closed streams")]
            // SAFETY: `.init_array` contains pointers to functions of this type, which the loader
            // calls once before `main`. The function makes three system calls and stores an atomic
            // value. It does not rely on anything that is initialized later.
            #[unsafe(link_section = ".init_array")]
            static NOTE_CLOSED_STREAMS: extern "C" fn() = $crate::note_closed_streams;
        };
    };
}
