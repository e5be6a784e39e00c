//! Work that several threads share.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does each piece of work once; the results are in their order. A thread takes the next piece when it is done with one;
/// the calling thread is one of them, so that the work is done even where no other can be started.
///
/// # Panics
/// If `work` panics.
pub(crate) fn dealt<R: Send>(
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
