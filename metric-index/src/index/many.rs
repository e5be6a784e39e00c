//! Many queries on several threads.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Index, search};
use crate::collector;
use crate::error::Error;
use crate::neighbor::Neighbor;
use crate::points::Points;

type Answer = Result<Vec<Neighbor>, Error>;

/// The answer to one of many queries.
pub(super) fn answer<I: Index, Q: Points<Point = <I::Points as Points>::Point>, A>(
    index: &I,
    queries: &Q,
    query: u32,
    ask: &impl Fn(u32) -> A,
) -> Answer
where
    A: collector::Answer,
{
    let (found, _) = search(index, queries.point(query), ask(query))?;
    Ok(found.into_sorted())
}

/// Asks each query once, on several threads. `ask` is a trait object so that this is compiled only once.
///
/// # Panics
/// If there are 2^32 queries or more, or `ask` panics.
pub(super) fn answers(
    queries: usize,
    threads: NonZero<usize>,
    ask: &(dyn Fn(u32) -> Answer + Sync),
) -> Vec<Answer> {
    dealt(queries, threads, &|query| ask(u32::try_from(query).expect("fewer than 2^32 queries")))
}

/// Does each piece of work once; the results are in their order. A thread takes the next piece when it is done with one;
/// the calling thread is one of them, so that the work is done even where no other can be started.
///
/// # Panics
/// If `work` panics.
pub(super) fn dealt<R: Send>(
    pieces: usize,
    threads: NonZero<usize>,
    work: &(dyn Fn(usize) -> R + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return done;
            }
            done.push((piece, work(piece)));
        }
    };
    let mut all: Vec<Option<R>> = (0..pieces).map(|_| None).collect();
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get().min(pieces))
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, some).ok())
            .collect();
        let own = some();
        let of_others =
            others.into_iter().map(|other| other.join().unwrap_or_else(|e| resume_unwind(e)));
        for (piece, result) in of_others.flatten().chain(own) {
            all[piece] = Some(result);
        }
    });
    all.into_iter().map(|result| result.expect("each piece was taken by a thread")).collect()
}
