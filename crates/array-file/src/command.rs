//! Process-wide setup that a command-line program does once, at the start of `main`.
//!
//! Libraries must not change signals or the allocator: nothing here runs unless a program requests
//! it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

pub use crate::memory::Memory;
use crate::output::remove_temporary_files;

/// On Ctrl-C, SIGTERM and SIGHUP, removes the temporary files of [outputs](crate::output) and then
/// ends the process as it would end without a handler: a shell sees 130, 143 or 129. Signals that
/// are ignored when the program starts (`nohup`) stay ignored.
///
/// Exceeding `ulimit -f` becomes a write error instead of a signal.
///
/// # Errors
/// If the thread cannot be started; signals then end the process immediately.
pub fn clean_up_on_signals() -> io::Result<()> {
    let ignored = ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.contains(signal));
    let signals: Vec<i32> = signals.collect();
    let (ready, is_ready) = sync_channel(1);
    // The handler is registered on the thread, so that there is no handler without the thread.
    std::thread::Builder::new().name("signals".to_owned()).stack_size(1 << 16).spawn(
        move || {
            let registered = Signals::new(signals);
            let (registered, mut signals) = match registered {
                Ok(signals) => (Ok(()), Some(signals)),
                Err(error) => (Err(error), None),
            };
            let _ = ready.send(registered);
            for signal in signals.iter_mut().flat_map(Signals::forever) {
                remove_temporary_files();
                let _ = emulate_default_handler(signal);
            }
        },
    )?;
    is_ready.recv().map_err(io::Error::other)??;
    // The flag is never read: the handler makes the write fail with `FileTooLarge`.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// The signals that this process ignores; empty if the system does not report them.
fn ignored() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask & (1 << (signal - 1)) != 0).collect()
}
