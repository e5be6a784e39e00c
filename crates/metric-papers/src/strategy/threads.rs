//! Threads that start together.

use std::sync::OnceLock;

use super::error::RunError;

/// Converts the number of a query or point to 32 bits.
pub(super) fn number(value: usize) -> u32 {
    u32::try_from(value).expect("`run` checks the number of queries")
}

/// Runs `work` on `threads` threads after all of them have started.
///
/// If `work` began earlier, it could wait at a barrier for a thread that the system cannot start.
pub(super) fn run_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    let work = &work;
    let have_all_started = &OnceLock::<bool>::new();
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for thread in 0..threads {
            let run = move || have_all_started.wait().then(|| work(thread));
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(handle) => started.push(handle),
                Err(_) => break,
            }
        }
        let count = started.len();
        have_all_started.get_or_init(|| count == threads);
        let results = started.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let results: Option<Vec<T>> = results.collect();
        results.ok_or(RunError::Threads { started: count, requested: threads })
    })
}
