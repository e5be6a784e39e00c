//! Engines: the points of a kind on a GPU, and how they are searched.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;

use gpu_runtime::{Device, GpuError};

use crate::Question;
use crate::lists::NeighborLists;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

/// The answers of a GPU to some queries. They can come in any order: the lists stand in one array
/// in the order in which they came.
#[derive(Debug, Default)]
pub struct Found {
    neighbors: Vec<Neighbor>,
    /// Where the list of each query stands; `None` if the GPU cannot answer the query.
    lists: Vec<Option<Range<usize>>>,
    /// The time of the kernels.
    pub(super) milliseconds: f64,
}

impl Found {
    /// No answers to so many queries.
    pub(super) fn nothing(queries: usize) -> Self {
        Self { neighbors: Vec::new(), lists: vec![None; queries], milliseconds: 0.0 }
    }

    /// Adds the list of a query.
    pub(super) fn add(&mut self, query: usize, list: &[Neighbor]) {
        let start = self.add_array(list);
        self.place(query, start..start + list.len());
    }

    /// Adds an array of lists, which [`place`](Self::place) finds; gives where it begins.
    pub(super) fn add_array(&mut self, lists: &[Neighbor]) -> usize {
        let start = self.neighbors.len();
        self.neighbors.extend_from_slice(lists);
        start
    }

    /// Says where the list of a query stands.
    pub(super) fn place(&mut self, query: usize, list: Range<usize>) {
        self.lists[query] = Some(list);
    }

    /// Some of the neighbors, such as a list that is not sorted yet.
    pub(super) fn neighbors_mut(&mut self, places: Range<usize>) -> &mut [Neighbor] {
        &mut self.neighbors[places]
    }

    /// The list of a query, if the GPU has answered it.
    pub(super) fn list(&self, query: usize) -> Option<&[Neighbor]> {
        self.lists[query].clone().map(|list| &self.neighbors[list])
    }

    /// The lists in the order of the queries. That of a query without an answer is empty.
    pub(super) fn into_lists(self, threads: NonZero<usize>) -> NeighborLists {
        let mut end = 0;
        let is_in_order = self.lists.iter().flatten().all(|list| {
            let follows = list.start == end;
            end = list.end;
            follows
        });
        if is_in_order && end == self.neighbors.len() {
            let mut offsets = Vec::with_capacity(self.lists.len() + 1);
            offsets.push(0);
            let mut end = 0;
            offsets.extend(self.lists.iter().map(|list| {
                end = list.as_ref().map_or(end, |list| list.end);
                end
            }));
            return NeighborLists::from_parts(self.neighbors, offsets);
        }
        let list = |query: usize| self.list(query).unwrap_or_default();
        let length = |query| list(query).len();
        let copy = |(): &mut (), query: usize, to: &mut [Neighbor]| to.copy_from_slice(list(query));
        NeighborLists::filled(self.lists.len(), length, threads, || (), copy)
    }
}

/// Points on a GPU, and how they are searched.
pub trait Engine<P: ?Sized>: fmt::Debug + Send + Sync + Sized {
    /// Copies points to a GPU. `None` if it cannot search them.
    ///
    /// # Errors
    /// If the GPU fails, or has too little memory.
    fn upload<S: Points<Point = P>>(
        device: &Device,
        points: &S,
        formula: Formula,
    ) -> Result<Option<Self>, GpuError>;

    /// About how many bytes the points take on a GPU.
    fn bytes_of<S: Points<Point = P>>(points: &S, formula: Formula) -> usize;

    /// Answers some of the queries.
    ///
    /// # Errors
    /// If the GPU fails.
    fn answer<Q: Points<Point = P>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<Found, GpuError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_any_order() {
        let near = |point| Neighbor { point, distance: 1.0 };
        let threads = NonZero::<usize>::MIN;
        let mut in_order = Found::nothing(4);
        let mut mixed = Found::nothing(4);
        in_order.add(0, &[near(1)]);
        in_order.add(1, &[]);
        in_order.add(3, &[near(2), near(3)]);
        mixed.add(3, &[near(2), near(3)]);
        // With an array that holds more than the lists.
        let start = mixed.add_array(&[near(9), near(1)]);
        mixed.place(0, start + 1..start + 2);
        mixed.add(1, &[]);
        assert_eq!((in_order.list(2), in_order.list(1)), (None, Some(&[][..])));
        let in_order = in_order.into_lists(threads);
        assert_eq!(in_order.offsets(), [0, 1, 1, 1, 3]);
        assert_eq!(in_order, mixed.into_lists(threads));
        assert_eq!(Found::nothing(2).into_lists(threads).offsets(), [0, 0, 0]);
    }
}
