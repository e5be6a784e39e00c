//! Answers many queries on several threads.

use std::num::NonZero;

use super::{Index, search};
use crate::collector;
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::neighbor::Neighbor;
use crate::points::Points;
use crate::threads::map_parallel;

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

/// Calls `ask` once per query, on several threads. `ask` is a trait object so that this function is
/// compiled only once.
///
/// # Panics
/// If there are 2^32 queries or more, or `ask` panics.
pub(super) fn answers(
    queries: usize,
    threads: NonZero<usize>,
    ask: &(dyn Fn(u32) -> Answer + Sync),
) -> NeighborLists {
    /// Maximum number of queries that a thread takes at a time.
    const MAX_QUERIES: usize = 64;
    /// Minimum number of times that each thread takes queries, so that all end at about the same
    /// time.
    const MIN_TURNS: usize = 16;
    let size = (queries / threads.get().saturating_mul(MIN_TURNS)).clamp(1, MAX_QUERIES);
    let parts = map_parallel(queries.div_ceil(size), threads, &|piece| {
        let own = piece * size..queries.min((piece + 1) * size);
        own.map(|query| ask(u32::try_from(query).expect("fewer than 2^32 queries"))).collect()
    });
    NeighborLists::concatenated(parts)
}
