//! Handlers that remove temporary files before a signal or an abort ends the process.

use std::io;
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use array_file::output::remove_temporary_files;
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::ending::{clean_up_and_abort, exit_out_of_memory};

/// Registers handlers that remove the temporary files of [outputs](array_file::output) before a
/// signal or an abort ends the process.
///
/// Call this before any thread starts. Ctrl-C, SIGTERM, SIGHUP and aborts end the process as they
/// would without a handler: a shell reports 130, 143, 129 or 134. Signals that are ignored when the
/// program starts (for example by `nohup`) stay ignored. Exceeding `ulimit -f` causes a write error
/// instead of a signal. If the system refuses memory for a thread, the process exits like
/// [`Allocator`](crate::Allocator) instead of panicking.
///
/// # Errors
/// Fails if a handler cannot be registered or the thread that waits for signals cannot be started.
/// Signals without a handler end the process immediately.
pub fn clean_up_on_exit() -> io::Result<()> {
    clean_up_on_abort()?;
    clean_up_on_signals()
}

/// Registers the handlers of [`clean_up_on_exit`] for aborts, `ulimit -f` and refused memory only.
///
/// Use it in programs that handle Ctrl-C, SIGTERM and SIGHUP themselves.
///
/// # Errors
/// Fails if a handler cannot be registered.
pub fn clean_up_on_abort() -> io::Result<()> {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if is_out_of_memory(panic) {
            exit_out_of_memory(None);
        }
        report(panic);
    }));
    #[expect(unsafe_code, reason = "registers a handler that runs on an interrupted thread")]
    // SAFETY: the handler does not allocate, and waits for at most a few seconds.
    unsafe {
        signal_hook::low_level::register(SIGABRT, clean_up_and_abort)?;
    }
    // The flag is never read. With a handler, a write beyond the limit fails with `FileTooLarge`
    // instead of ending the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

fn clean_up_on_signals() -> io::Result<()> {
    let ignored = ignored_signals();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.contains(signal));
    let signals: Vec<i32> = signals.collect();
    let (sender, receiver) = sync_channel(1);
    // The thread registers the handlers. If it cannot start, signals keep their default action.
    std::thread::Builder::new().name("signals".to_owned()).stack_size(1 << 16).spawn(
        move || {
            let mut signals = match Signals::new(signals) {
                Ok(signals) => signals,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            let _ = sender.send(Ok(()));
            for signal in signals.forever() {
                remove_temporary_files();
                let _ = emulate_default_handler(signal);
            }
        },
    )?;
    receiver.recv().map_err(io::Error::other)?
}

/// Whether the standard library panicked because the system refused memory.
fn is_out_of_memory(panic: &PanicHookInfo<'_>) -> bool {
    const ENOMEM: &str = "(os error 12)";
    panic.payload_as_str().is_some_and(|text| text.contains(ENOMEM))
}

/// Returns the signals that this process ignores; empty if the system does not report them.
fn ignored_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).filter(|signal| mask & (1 << (signal - 1)) != 0).collect()
}
