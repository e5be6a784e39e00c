//! The neighbors of many queries in one list: no allocation a query, and none at all the next time.

use metric_index::gpu::{Device, GpuError, Pinned};
use rayon::prelude::*;

use super::Neighbor;

/// The neighbors of many queries, best first. It can be filled again and again: a GPU then writes into the
/// same memory, which is page-locked.
///
/// ```
/// use classify::search::NeighborLists;
///
/// let lists = NeighborLists::default();
/// assert_eq!(lists.len(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct NeighborLists {
    /// Places of a query.
    stride: usize,
    counts: Vec<u32>,
    places: Places,
}

/// The memory of lists.
#[derive(Debug)]
enum Places {
    Own(Vec<Neighbor>),
    /// Page-locked: a neighbor a value.
    Pinned(Pinned<u64>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Clone for Places {
    fn clone(&self) -> Self {
        Self::Own(self.neighbors().to_vec())
    }
}

impl Places {
    fn neighbors(&self) -> &[Neighbor] {
        match self {
            Self::Own(neighbors) => neighbors,
            Self::Pinned(values) => bytemuck::cast_slice(values.values()),
        }
    }
}

impl NeighborLists {
    /// How many queries there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The neighbors of a query.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn get(&self, query: usize) -> &[Neighbor] {
        let start = query * self.stride;
        &self.places.neighbors()[start..start + self.counts[query] as usize]
    }

    /// Makes room for `queries` lists of at most `k` neighbors, which are empty.
    pub(super) fn reset(&mut self, queries: usize, k: usize) {
        self.reset_counts(queries, k);
        if let Places::Pinned(_) = self.places {
            self.places = Places::default();
        }
        if let Places::Own(neighbors) = &mut self.places {
            // What is left of an earlier search is behind the counts.
            neighbors.resize(queries * k, Neighbor { row: 0, similarity: 0.0 });
        }
    }

    /// The same in memory that a GPU writes to. No copy to the lists may be on its way.
    ///
    /// # Errors
    /// If the driver gives no such memory; then there is room all the same.
    pub(super) fn reset_for(
        &mut self,
        device: &Device,
        queries: usize,
        k: usize,
    ) -> Result<(), GpuError> {
        self.reset_counts(queries, k);
        if let Places::Own(_) = self.places {
            self.places = Places::Pinned(Pinned::new(device));
        }
        if let Places::Pinned(values) = &mut self.places
            && let Err(error) = values.get(queries * k)
        {
            self.reset(queries, k);
            return Err(error);
        }
        Ok(())
    }

    fn reset_counts(&mut self, queries: usize, k: usize) {
        self.stride = k;
        self.counts.clear();
        self.counts.resize(queries, 0);
    }
}

/// Where engines put what they find.
#[derive(Debug)]
pub(super) enum Out<'a> {
    /// A list a query.
    Lists(&'a mut [Vec<Neighbor>]),
    /// Places of one list; `pinned`: a GPU writes to them.
    Flat { stride: usize, counts: &'a mut [u32], neighbors: &'a mut [Neighbor], pinned: bool },
}

impl<'a> Out<'a> {
    pub(super) fn of(lists: &'a mut NeighborLists) -> Self {
        let NeighborLists { stride, counts, places } = lists;
        let (neighbors, pinned) = match places {
            Places::Own(neighbors) => (neighbors.as_mut_slice(), false),
            Places::Pinned(values) => (bytemuck::cast_slice_mut(values.values_mut()), true),
        };
        let neighbors = &mut neighbors[..counts.len() * *stride];
        Self::Flat { stride: *stride, counts, neighbors, pinned }
    }

    /// The places that a GPU can write the `k` neighbors of each query to, if there are such places.
    pub(super) fn pinned(&mut self, k: usize) -> Option<&mut [u64]> {
        match self {
            Self::Flat { stride, neighbors, pinned: true, .. } if *stride == k => {
                bytemuck::try_cast_slice_mut(neighbors).ok()
            }
            _ => None,
        }
    }

    /// Sets how many neighbors there are in the places that a GPU has written.
    pub(super) fn set_counts(&mut self, from: &[u32], sorted: bool) {
        if let Self::Flat { stride, counts, neighbors, .. } = self {
            counts.copy_from_slice(from);
            if !sorted {
                let places = neighbors.par_chunks_mut((*stride).max(1));
                let lists = places.zip(from).map(|(places, &count)| &mut places[..count as usize]);
                lists.for_each(<[Neighbor]>::sort_unstable);
            }
        }
    }

    /// The first `count` queries, and the others.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        match self {
            Self::Lists(lists) => {
                let (now, later) = lists.split_at_mut(count);
                (Self::Lists(now), Self::Lists(later))
            }
            Self::Flat { stride, counts, neighbors, pinned } => {
                let (counts, other_counts) = counts.split_at_mut(count);
                let (neighbors, others) = neighbors.split_at_mut(count * stride);
                (
                    Self::Flat { stride, counts, neighbors, pinned },
                    Self::Flat { stride, counts: other_counts, neighbors: others, pinned },
                )
            }
        }
    }

    /// Sets the neighbors of all queries.
    pub(super) fn put(self, found: Vec<Vec<Neighbor>>) {
        match self {
            Self::Lists(lists) => {
                for (list, found) in lists.iter_mut().zip(found) {
                    *list = found;
                }
            }
            Self::Flat { stride, counts, neighbors, .. } => {
                let places = counts.iter_mut().zip(neighbors.chunks_mut(stride.max(1)));
                for ((count, places), found) in places.zip(found) {
                    *count = u32::try_from(found.len()).expect("fewer neighbors than rows");
                    places[..found.len()].copy_from_slice(&found);
                }
            }
        }
    }

    /// Sets the neighbors of one query. `sorted`: whether they are in order already.
    pub(super) fn set(&mut self, query: usize, found: &[Neighbor], sorted: bool) {
        match self {
            Self::Lists(lists) => set_list(&mut lists[query], found, sorted),
            Self::Flat { stride, counts, neighbors, .. } => {
                let places = &mut neighbors[query * *stride..(query + 1) * *stride];
                set_places(&mut counts[query], places, found, sorted);
            }
        }
    }

    /// Sets the neighbors of all queries: those of query `q` are the first `counts[q]` of
    /// `found[q * k..]`. Call it on the threads that are to work.
    pub(super) fn fill(&mut self, found: &[Neighbor], k: usize, counts: &[u32], sorted: bool) {
        const PIECE: usize = 256;
        let found = found.par_chunks(k).zip(counts).map(|(found, &count)| &found[..count as usize]);
        match self {
            Self::Lists(lists) => {
                let lists = found.zip(lists.par_iter_mut());
                lists.with_min_len(PIECE).for_each(|(found, list)| set_list(list, found, sorted));
            }
            Self::Flat { stride, counts, neighbors, .. } => {
                let places = counts.par_iter_mut().zip(neighbors.par_chunks_mut(*stride));
                found.zip(places).with_min_len(PIECE).for_each(|(found, (count, places))| {
                    set_places(count, places, found, sorted);
                });
            }
        }
    }
}

fn set_list(list: &mut Vec<Neighbor>, found: &[Neighbor], sorted: bool) {
    list.clear();
    list.extend_from_slice(found);
    if !sorted {
        list.sort_unstable();
    }
}

fn set_places(count: &mut u32, places: &mut [Neighbor], found: &[Neighbor], sorted: bool) {
    *count = u32::try_from(found.len()).expect("fewer neighbors than rows");
    places[..found.len()].copy_from_slice(found);
    if !sorted {
        places[..found.len()].sort_unstable();
    }
}
