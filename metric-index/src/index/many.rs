//! Answers many queries on several threads.

use std::num::NonZero;

use crate::error::Error;
use crate::lists::NeighborLists;
use crate::neighbor::Neighbor;
use crate::threads::map_parallel;

type Answer = Result<Vec<Neighbor>, Error>;

/// Calls `ask` once per query, on several threads. `ask` is a trait object so that this function is
/// compiled only once.
///
/// # Panics
/// Panics if there are 2^32 queries or more, or `ask` panics.
pub(super) fn answer_in_parallel(
    queries: usize,
    threads: NonZero<usize>,
    ask: &(dyn Fn(u32) -> Answer + Sync),
) -> NeighborLists {
    /// Maximum number of queries per task.
    const MAX_QUERIES_PER_TASK: usize = 64;
    /// Minimum number of tasks per thread, so that all threads end at about the same time.
    const MIN_TASKS_PER_THREAD: usize = 16;
    let size = (queries / threads.get().saturating_mul(MIN_TASKS_PER_THREAD))
        .clamp(1, MAX_QUERIES_PER_TASK);
    let parts = map_parallel(queries.div_ceil(size), threads, &|task| {
        let own = task * size..queries.min((task + 1) * size);
        own.map(|query| ask(u32::try_from(query).expect("fewer than 2^32 queries"))).collect()
    });
    NeighborLists::concatenated(parts)
}
