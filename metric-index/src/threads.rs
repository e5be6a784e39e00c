//! Runs work on several threads.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs `work` for each task and returns the results in order. A thread takes the next task when
/// it has finished the previous task. The calling thread takes part, so the work is done even if
/// no other thread can be started.
///
/// # Panics
/// Panics if `work` panics.
pub(crate) fn map_parallel<R: Send>(
    tasks: usize,
    threads: NonZero<usize>,
    work: &(dyn Fn(usize) -> R + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run_tasks = || {
        let mut done = Vec::new();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return done;
            }
            done.push((task, work(task)));
        }
    };
    let mut all: Vec<Option<R>> = (0..tasks).map(|_| None).collect();
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(tasks))
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, run_tasks).ok())
            .collect();
        let own = run_tasks();
        let other_results =
            others.into_iter().map(|other| other.join().unwrap_or_else(|e| resume_unwind(e)));
        for (task, result) in other_results.flatten().chain(own) {
            all[task] = Some(result);
        }
    });
    all.into_iter().map(|result| result.expect("every task has been processed")).collect()
}
