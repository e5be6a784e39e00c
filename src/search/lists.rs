//! The neighbors of many queries in one buffer, which searches reuse. Nothing is allocated per
//! query.

use gpu_runtime::{Device, Pinned};
use rayon::prelude::*;

use super::error::SearchError;
use super::neighbor::{Neighbor, row_number};
use super::report::Report;

/// The neighbors of many queries, best first. Each search reuses the memory of the previous one.
///
/// ```
/// use classify::search::NeighborLists;
///
/// let lists = NeighborLists::default();
/// assert_eq!(lists.len(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct NeighborLists {
    /// Number of slots per query.
    stride: usize,
    counts: Vec<u32>,
    /// For each query, whether the fast path could not answer it.
    fell_back: Vec<bool>,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Owned(Vec<Neighbor>),
    /// Page-locked memory, to which a GPU writes directly.
    Pinned(Pinned<u64>),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::Owned(self.neighbors().to_vec())
    }
}

impl Memory {
    fn neighbors(&self) -> &[Neighbor] {
        match self {
            Self::Owned(neighbors) => neighbors,
            Self::Pinned(memory) => {
                #[expect(unsafe_code, reason = "the GPU writes to this memory during a search")]
                // SAFETY: a search borrows the lists mutably and waits for its lanes before it
                // returns.
                let keys = unsafe { memory.values() };
                bytemuck::cast_slice(keys)
            }
        }
    }
}

impl NeighborLists {
    /// The number of queries.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The neighbors of a query, best first.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn get(&self, query: usize) -> &[Neighbor] {
        let start = query * self.stride;
        &self.memory.neighbors()[start..start + self.counts[query] as usize]
    }

    /// The neighbors of each query, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Neighbor]> {
        (0..self.len()).map(|query| self.get(query))
    }

    /// The number of neighbors for which memory is allocated.
    pub(super) fn capacity(&self) -> usize {
        self.memory.neighbors().len()
    }

    /// Whether a query fell back because the engine's fast path could not answer it.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn fell_back(&self, query: usize) -> bool {
        self.fell_back[query]
    }

    /// Reports how the queries were answered.
    pub(super) fn report(&self) -> Report {
        Report::of_lists(&[self])
    }

    /// Marks all queries as not answered by the fast path.
    pub(super) fn mark_all_fell_back(&mut self) {
        self.fell_back.fill(true);
    }

    /// Removes all queries but keeps the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.fell_back.clear();
    }

    /// Resizes to `queries` empty lists of at most `k` neighbors.
    pub(super) fn reset(&mut self, queries: usize, k: usize) -> Result<(), SearchError> {
        self.reset_counts(queries, k);
        if let Memory::Pinned(_) = self.memory {
            self.memory = Memory::default();
        }
        if let Memory::Owned(neighbors) = &mut self.memory {
            let needed = queries.saturating_mul(k);
            if neighbors.len() < needed {
                let additional = needed - neighbors.len();
                if neighbors.try_reserve_exact(additional).is_err() {
                    self.clear();
                    return Err(SearchError::OutOfMemory { queries, k });
                }
                // Neighbors of an earlier search lie beyond the counts, so they are never read.
                neighbors.resize(needed, Neighbor { row: 0, similarity: 0.0 });
            }
        }
        Ok(())
    }

    /// Like [`reset`](Self::reset), but with page-locked memory for a GPU. If page-locked memory
    /// cannot be allocated, uses ordinary memory, which makes copies slower.
    pub(super) fn reset_pinned(
        &mut self,
        queries: usize,
        k: usize,
        device: &Device,
    ) -> Result<(), SearchError> {
        self.reset_counts(queries, k);
        if let Memory::Owned(_) = self.memory {
            self.memory = Memory::Pinned(Pinned::new(device));
        }
        let Memory::Pinned(memory) = &mut self.memory else { unreachable!("set above") };
        let slots = queries.checked_mul(k).filter(|&slots| isize::try_from(slots).is_ok());
        match slots.map(|slots| memory.get(slots).map(|_| ())) {
            Some(Ok(())) => Ok(()),
            _ => self.reset(queries, k),
        }
    }

    fn reset_counts(&mut self, queries: usize, k: usize) {
        self.stride = k;
        self.counts.clear();
        self.counts.resize(queries, 0);
        self.fell_back.clear();
        self.fell_back.resize(queries, false);
    }

    /// The slots of all queries.
    pub(super) fn slots(&mut self) -> Slots<'_> {
        let Self { stride, counts, fell_back, memory } = self;
        let (neighbors, is_pinned) = match memory {
            Memory::Owned(neighbors) => (neighbors.as_mut_slice(), false),
            Memory::Pinned(memory) => {
                #[expect(unsafe_code, reason = "the GPU writes to this memory during a search")]
                // SAFETY: as in `Memory::neighbors`. During a search, each batch has its own slots
                // and reads them only after its lane has waited for the GPU.
                let keys = unsafe { memory.values_mut() };
                (bytemuck::cast_slice_mut(keys), true)
            }
        };
        let neighbors = &mut neighbors[..counts.len() * *stride];
        Slots { stride: *stride, counts, fell_back, neighbors, is_pinned }
    }
}

impl Report {
    /// Reports on queries that several engines answered together. Each engine has one list per
    /// query, or no lists if it did not take part.
    pub(crate) fn of_lists(engines: &[&NeighborLists]) -> Self {
        let queries = engines.iter().map(|lists| lists.len()).max().unwrap_or(0);
        let fell_back = |&query: &usize| {
            engines.iter().any(|lists| !lists.is_empty() && lists.fell_back(query))
        };
        let fell_back = (0..queries).filter(fell_back).count() as u64;
        Self { fast: queries as u64 - fell_back, fell_back }
    }
}

/// Slots for the neighbors of consecutive queries.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    stride: usize,
    counts: &'a mut [u32],
    fell_back: &'a mut [bool],
    neighbors: &'a mut [Neighbor],
    /// Whether the slots are in page-locked memory.
    is_pinned: bool,
}

impl<'a> Slots<'a> {
    /// Splits the slots into chunks of `size` queries; the last chunk may be smaller.
    pub(super) fn par_chunks(self, size: usize) -> impl IndexedParallelIterator<Item = Slots<'a>> {
        let mut chunks = Vec::with_capacity(self.len().div_ceil(size));
        let mut rest = self;
        while rest.len() > size {
            let (chunk, others) = rest.split_at(size);
            chunks.push(chunk);
            rest = others;
        }
        if rest.len() > 0 {
            chunks.push(rest);
        }
        chunks.into_par_iter()
    }

    /// Splits the slots after the first `count` queries.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        let Self { stride, counts, fell_back, neighbors, is_pinned } = self;
        let (counts, other_counts) = counts.split_at_mut(count);
        let (fell_back, others_fell_back) = fell_back.split_at_mut(count);
        let (neighbors, others) = neighbors.split_at_mut(count * stride);
        (
            Self { stride, counts, fell_back, neighbors, is_pinned },
            Self {
                stride,
                counts: other_counts,
                fell_back: others_fell_back,
                neighbors: others,
                is_pinned,
            },
        )
    }

    /// Marks a query as not answered by the fast path.
    pub(super) fn mark_fell_back(&mut self, query: usize) {
        self.fell_back[query] = true;
    }

    /// The number of queries.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Sets the neighbors of a query to the results of `next`, in order, until `next` returns
    /// `None` or no slot is left.
    pub(super) fn fill_with(&mut self, query: usize, mut next: impl FnMut() -> Option<Neighbor>) {
        let slots = &mut self.neighbors[query * self.stride..][..self.stride];
        let mut count = 0;
        for (slot, neighbor) in slots.iter_mut().zip(std::iter::from_fn(&mut next)) {
            *slot = neighbor;
            count += 1;
        }
        self.counts[query] = count;
    }

    /// Sets the neighbors of a query; `found` must be sorted.
    pub(super) fn set(&mut self, query: usize, found: &[Neighbor]) {
        self.counts[query] = row_number(found.len());
        let start = query * self.stride;
        self.neighbors[start..start + found.len()].copy_from_slice(found);
    }

    /// Sets the neighbors of a query and sorts them.
    pub(super) fn set_unsorted(&mut self, query: usize, found: &[Neighbor]) {
        self.set(query, found);
        let start = query * self.stride;
        self.neighbors[start..start + found.len()].sort_unstable();
    }

    /// The slots as keys, if they are in page-locked memory and there are exactly `k` per query.
    pub(super) fn pinned(&mut self, k: usize) -> Option<&mut [u64]> {
        if !self.is_pinned || self.stride != k {
            return None;
        }
        bytemuck::try_cast_slice_mut(self.neighbors).ok()
    }

    /// Sets the number of neighbors of each query. The GPU has already written the neighbors.
    pub(super) fn set_counts(&mut self, from: &[u32]) {
        self.counts.copy_from_slice(from);
    }

    /// Like [`set_counts`](Self::set_counts), but also sorts the neighbors, in the current thread
    /// pool.
    pub(super) fn set_counts_and_sort(&mut self, from: &[u32]) {
        self.set_counts(from);
        let slots = self.neighbors.par_chunks_mut(self.stride.max(1));
        let lists = slots.zip(from).map(|(slots, &count)| &mut slots[..count as usize]);
        lists.for_each(<[Neighbor]>::sort_unstable);
    }

    /// Sets the neighbors of all queries, in the current thread pool. Query `q` gets the first
    /// `counts[q]` neighbors of `found[q * k..]`.
    pub(super) fn fill(&mut self, found: &[Neighbor], k: usize, counts: &[u32], is_sorted: bool) {
        const MIN_QUERIES_PER_TASK: usize = 256;
        let found = found.par_chunks(k).zip(counts).map(|(found, &count)| &found[..count as usize]);
        let stride = self.stride.max(1);
        let slots = self.counts.par_iter_mut().zip(self.neighbors.par_chunks_mut(stride));
        found.zip(slots).with_min_len(MIN_QUERIES_PER_TASK).for_each(|(found, (count, slots))| {
            *count = row_number(found.len());
            slots[..found.len()].copy_from_slice(found);
            if !is_sorted {
                slots[..found.len()].sort_unstable();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbors(rows: &[u32]) -> Vec<Neighbor> {
        let similarity = |row: u32| 1.0 / (1.0 + f32::from(u16::try_from(row).unwrap()));
        rows.iter().map(|&row| Neighbor { row, similarity: similarity(row) }).collect()
    }

    fn rows_of(lists: &NeighborLists) -> Vec<Vec<u32>> {
        lists.iter().map(|list| list.iter().map(|neighbor| neighbor.row).collect()).collect()
    }

    #[test]
    fn each_query_has_its_own_slots() {
        let mut lists = NeighborLists::default();
        // `k` grows, then shrinks.
        for k in [3, 5, 2] {
            lists.reset(4, k).unwrap();
            assert_eq!(rows_of(&lists), vec![Vec::<u32>::new(); 4]);
            let (mut first, mut others) = lists.slots().split_at(1);
            first.set(0, &neighbors(&[1, 2]));
            others.set_unsorted(0, &neighbors(&[4, 3]));
            others.set(2, &neighbors(&[6]));
            assert_eq!(rows_of(&lists), [vec![1, 2], vec![3, 4], vec![], vec![6]]);
        }
        let mut copy = lists.clone();
        copy.clear();
        assert!(copy.is_empty() && lists.len() == 4);
    }

    #[test]
    fn fill_sets_the_neighbors_of_all_queries() {
        // Each query has three slots, of which the first `counts` are used.
        let found = neighbors(&[2, 1, 9, 4, 9, 9, 9, 9, 9]);
        let counts = [2, 1, 0];
        let mut lists = NeighborLists::default();
        for (sorted, first) in [(false, [1, 2]), (true, [2, 1])] {
            for k in [2, 3, 5] {
                lists.reset(3, k).unwrap();
                lists.slots().fill(&found, 3, &counts, sorted);
                assert_eq!(rows_of(&lists), [first.to_vec(), vec![4], vec![]]);
            }
            lists.reset(3, 3).unwrap();
            let mut slots = lists.slots();
            // Only page-locked memory is written to directly.
            assert!(slots.pinned(3).is_none());
            slots.is_pinned = true;
            assert_eq!(slots.pinned(3).map(|keys| keys.len()), Some(9));
            assert!(slots.pinned(2).is_none());
            slots.neighbors.copy_from_slice(&found);
            if sorted {
                slots.set_counts(&counts);
            } else {
                slots.set_counts_and_sort(&counts);
            }
            assert_eq!(rows_of(&lists), [first.to_vec(), vec![4], vec![]]);
        }
    }

    #[test]
    fn queries_are_marked_individually() {
        let mut lists = NeighborLists::default();
        for k in [0, 2] {
            lists.reset(5, k).unwrap();
            assert_eq!(lists.report(), Report { fast: 5, fell_back: 0 });
            let (mut first, mut others) = lists.slots().split_at(2);
            first.mark_fell_back(1);
            others.mark_fell_back(2);
            let marked: Vec<bool> = (0..5).map(|query| lists.fell_back(query)).collect();
            assert_eq!(marked, [false, true, false, false, true]);
            assert_eq!(lists.report(), Report { fast: 3, fell_back: 2 });
            let chunks = lists.slots().par_chunks(2);
            chunks.for_each(|mut chunk| chunk.mark_fell_back(0));
            assert_eq!(lists.report(), Report { fast: 1, fell_back: 4 });
        }
        let mut others = NeighborLists::default();
        assert_eq!(Report::of_lists(&[&lists, &others]), Report { fast: 1, fell_back: 4 });
        others.reset(5, 1).unwrap();
        others.slots().mark_fell_back(3);
        others.slots().mark_fell_back(0);
        assert_eq!(Report::of_lists(&[&lists, &others]), Report { fast: 0, fell_back: 5 });
        lists.mark_all_fell_back();
        assert_eq!(lists.report(), Report { fast: 0, fell_back: 5 });
        lists.clear();
        assert_eq!(lists.report(), Report::default());
    }

    #[test]
    fn too_many_neighbors_for_memory_are_an_error() {
        let mut lists = NeighborLists::default();
        lists.reset(2, 2).unwrap();
        for (queries, k) in [(1, usize::MAX / 4), (4, usize::MAX / 4 + 1), (3, usize::MAX)] {
            let error = lists.reset(queries, k).unwrap_err();
            assert!(matches!(error, SearchError::OutOfMemory { .. }), "{error}");
            assert!(lists.is_empty());
        }
        assert!(lists.reset(2, 2).is_ok());
    }
}
