//! Many queries on several threads.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::Error;
use crate::neighbor::Neighbor;

type Answer = Result<Vec<Neighbor>, Error>;

/// Asks each query once. A thread takes the next query when it is done with one; the calling thread is one of them, so
/// that the work is done even where no other can be started.
///
/// # Panics
/// If there are 2^32 queries or more, or `ask` panics.
pub(super) fn answers(
    queries: usize,
    threads: NonZero<usize>,
    ask: impl Fn(u32) -> Answer + Sync,
) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut answered = Vec::new();
        loop {
            let query = next.fetch_add(1, Ordering::Relaxed);
            if query >= queries {
                return answered;
            }
            answered.push((query, ask(u32::try_from(query).expect("fewer than 2^32 queries"))));
        }
    };
    let mut all: Vec<Option<Answer>> = vec![None; queries];
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(queries))
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let own = work();
        let of_others =
            others.into_iter().map(|other| other.join().unwrap_or_else(|e| resume_unwind(e)));
        for (query, answer) in of_others.flatten().chain(own) {
            all[query] = Some(answer);
        }
    });
    all.into_iter().map(|answer| answer.expect("each query was taken by a thread")).collect()
}
