//! Waits for events in other threads or processes.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time after which a test fails. It is long, because only failing tests wait that long.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Waits until a condition holds.
///
/// # Panics
///
/// Panics if the condition does not hold after five minutes.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs work that must finish, and returns its result.
///
/// Use it for work that takes seconds, but would take hours with the wrong complexity. Slow
/// machines pass.
///
/// # Panics
///
/// Panics if the work panics, or does not finish within five minutes.
pub fn finish<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(work()).unwrap());
    match result.recv_timeout(TIMEOUT) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("this does not finish: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}
