//! The neighbors of many queries in one list: no allocation a query, and none at all the next time.

use rayon::prelude::*;

use super::Neighbor;

/// The neighbors of many queries, best first. It can be filled again and again.
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
    neighbors: Vec<Neighbor>,
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
        &self.neighbors[start..start + self.counts[query] as usize]
    }

    /// Makes room for `queries` lists of at most `k` neighbors, which are empty.
    pub(super) fn reset(&mut self, queries: usize, k: usize) {
        self.stride = k;
        self.counts.clear();
        self.counts.resize(queries, 0);
        // What is left of an earlier search is behind the counts.
        self.neighbors.resize(queries * k, Neighbor { row: 0, similarity: 0.0 });
    }
}

/// Where engines put what they find.
#[derive(Debug)]
pub(super) enum Out<'a> {
    /// A list a query.
    Lists(&'a mut [Vec<Neighbor>]),
    /// Places of one list.
    Flat { stride: usize, counts: &'a mut [u32], neighbors: &'a mut [Neighbor] },
}

impl<'a> Out<'a> {
    pub(super) fn of(lists: &'a mut NeighborLists) -> Self {
        let NeighborLists { stride, counts, neighbors } = lists;
        Self::Flat { stride: *stride, counts, neighbors }
    }

    /// The first `count` queries, and the others.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        match self {
            Self::Lists(lists) => {
                let (now, later) = lists.split_at_mut(count);
                (Self::Lists(now), Self::Lists(later))
            }
            Self::Flat { stride, counts, neighbors } => {
                let (counts, other_counts) = counts.split_at_mut(count);
                let (neighbors, others) = neighbors.split_at_mut(count * stride);
                (
                    Self::Flat { stride, counts, neighbors },
                    Self::Flat { stride, counts: other_counts, neighbors: others },
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
            Self::Flat { stride, counts, neighbors } => {
                let places = counts.iter_mut().zip(neighbors.chunks_mut(stride.max(1)));
                for ((count, places), found) in places.zip(found) {
                    *count = u32::try_from(found.len()).expect("fewer neighbors than rows");
                    places[..found.len()].copy_from_slice(&found);
                }
            }
        }
    }

    /// Sets the neighbors of one query. `sorted`: whether they are in order already.
    pub(super) fn set(&mut self, query: usize, keys: &[u64], sorted: bool) {
        match self {
            Self::Lists(lists) => set_list(&mut lists[query], keys, sorted),
            Self::Flat { stride, counts, neighbors } => {
                let places = &mut neighbors[query * *stride..(query + 1) * *stride];
                set_places(&mut counts[query], places, keys, sorted);
            }
        }
    }

    /// Sets the neighbors of all queries: those of query `q` are the first `counts[q]` of
    /// `keys[q * k..]`. Call it on the threads that are to work.
    pub(super) fn fill(&mut self, keys: &[u64], k: usize, counts: &[u32], sorted: bool) {
        const PIECE: usize = 256;
        let keys = keys.par_chunks(k).zip(counts).map(|(keys, &count)| &keys[..count as usize]);
        match self {
            Self::Lists(lists) => {
                let lists = keys.zip(lists.par_iter_mut());
                lists.with_min_len(PIECE).for_each(|(keys, list)| set_list(list, keys, sorted));
            }
            Self::Flat { stride, counts, neighbors } => {
                let places = counts.par_iter_mut().zip(neighbors.par_chunks_mut(*stride));
                keys.zip(places).with_min_len(PIECE).for_each(|(keys, (count, places))| {
                    set_places(count, places, keys, sorted);
                });
            }
        }
    }
}

/// A neighbor of the GPU's: the bits of the similarity, then the complement of the row.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of a key")]
fn neighbor(key: u64) -> Neighbor {
    Neighbor { row: !(key as u32), similarity: f32::from_bits((key >> 32) as u32) }
}

fn set_list(list: &mut Vec<Neighbor>, keys: &[u64], sorted: bool) {
    list.clear();
    list.extend(keys.iter().map(|&key| neighbor(key)));
    if !sorted {
        list.sort_unstable();
    }
}

fn set_places(count: &mut u32, places: &mut [Neighbor], keys: &[u64], sorted: bool) {
    *count = u32::try_from(keys.len()).expect("fewer neighbors than rows");
    for (place, &key) in places.iter_mut().zip(keys) {
        *place = neighbor(key);
    }
    if !sorted {
        places[..keys.len()].sort_unstable();
    }
}
