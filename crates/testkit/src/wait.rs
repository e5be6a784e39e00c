//! Waiting for something that happens elsewhere.

use std::time::{Duration, Instant};

/// Time after which a test gives up. It is long, because it matters only if the test fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until a condition holds.
///
/// # Panics
///
/// If it does not hold after two minutes.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
