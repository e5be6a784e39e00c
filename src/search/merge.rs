//! Merging sorted neighbor lists from several parts of the training rows.

use rayon::prelude::*;

use super::lists::{NeighborLists, Slots};
use super::neighbor::Neighbor;
use super::row_map::RowMap;
use crate::threads::Threads;

/// The neighbor lists from one part, and the part's row map.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartLists<'a> {
    /// The lists of all queries, each sorted.
    pub(super) lists: &'a NeighborLists,
    pub(super) rows: &'a RowMap,
}

/// The next neighbor of a part to merge, and the neighbors that follow it.
#[derive(Debug)]
struct Head<'a> {
    neighbor: Neighbor,
    /// The neighbors that follow, with row numbers within the part.
    rest: &'a [Neighbor],
    rows: &'a RowMap,
}

impl<'a> Head<'a> {
    fn new(list: &'a [Neighbor], rows: &'a RowMap) -> Option<Self> {
        let (first, rest) = list.split_first()?;
        let neighbor = Neighbor { row: rows.collection_row(first.row), ..*first };
        Some(Self { neighbor, rest, rows })
    }
}

/// Sets each list to the best neighbors of all parts, sorted by descending similarity, then
/// ascending row.
///
/// A query fell back if it fell back in any part. Large batches are merged on `threads`, small ones
/// on the calling thread. Nothing is allocated per query.
pub(super) fn merge(parts: &[PartLists<'_>], threads: &Threads, mut slots: Slots<'_>) {
    /// Number of queries per merging task.
    const QUERIES_PER_TASK: usize = 256;
    if slots.len() <= QUERIES_PER_TASK || threads.count() == 1 {
        return merge_from(parts, 0, &mut slots);
    }
    threads.run(|| {
        let chunks = slots.par_chunks(QUERIES_PER_TASK).enumerate();
        chunks
            .for_each(|(chunk, mut slots)| merge_from(parts, chunk * QUERIES_PER_TASK, &mut slots));
    });
}

/// Merges the lists of the queries, starting with query `first`.
fn merge_from(parts: &[PartLists<'_>], first: usize, slots: &mut Slots<'_>) {
    let mut heads: Vec<Head<'_>> = Vec::with_capacity(parts.len());
    for query in 0..slots.len() {
        if parts.iter().any(|part| part.lists.fell_back(first + query)) {
            slots.mark_fell_back(query);
        }
        heads.clear();
        heads.extend(
            parts.iter().filter_map(|part| Head::new(part.lists.get(first + query), part.rows)),
        );
        slots.fill_with(query, || {
            let best = (0..heads.len()).min_by_key(|&index| heads[index].neighbor)?;
            let neighbor = heads[best].neighbor;
            match Head::new(heads[best].rest, heads[best].rows) {
                Some(next) => heads[best] = next,
                None => drop(heads.swap_remove(best)),
            }
            Some(neighbor)
        });
    }
}
