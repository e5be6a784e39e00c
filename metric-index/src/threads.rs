//! Runs work on several threads.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs `work` for each piece and returns the results in order. A thread takes the next piece when
/// it has finished the previous piece. The calling thread takes part, so the work is done even if
/// no other thread can be started.
///
/// # Panics
/// Panics if `work` panics.
pub(crate) fn map_parallel<R: Send>(
    pieces: usize,
    threads: NonZero<usize>,
    work: &(dyn Fn(usize) -> R + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take_pieces = || {
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
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, take_pieces).ok())
            .collect();
        let own = take_pieces();
        let of_others =
            others.into_iter().map(|other| other.join().unwrap_or_else(|e| resume_unwind(e)));
        for (piece, result) in of_others.flatten().chain(own) {
            all[piece] = Some(result);
        }
    });
    all.into_iter().map(|result| result.expect("a thread has processed each piece")).collect()
}
