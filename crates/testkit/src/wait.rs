//! Waits for events in other threads or processes.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time after which a test fails. It can be long, because only failing tests wait that long.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Waits until `holds` returns `true`. `condition` describes the condition in the panic message.
///
/// # Panics
///
/// Panics if the condition does not hold within five minutes.
pub fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {condition}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `work` on another thread and returns its result. `what` describes the work in the panic
/// message.
///
/// Use it for work that takes seconds, but would take hours with the wrong complexity. The limit of
/// five minutes is long enough for slow machines.
///
/// # Panics
///
/// Panics if the work panics, or does not finish within five minutes.
pub fn finish<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(work()).unwrap());
    match result.recv_timeout(TIMEOUT) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("did not finish in five minutes: {what}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}
