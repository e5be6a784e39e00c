//! The interface of a search engine on one GPU: the trait [`Engine`] and its answers.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;

use gpu_runtime::{Device, GpuError};

use crate::Question;
use crate::lists::NeighborLists;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

/// The answers of a GPU to some queries. Lists are stored in the order of arrival, which can differ
/// from the query order.
#[derive(Debug, Default)]
pub struct GpuAnswers {
    neighbors: Vec<Neighbor>,
    /// The range of each query's list in `neighbors`; `None` if the GPU cannot answer the query.
    lists: Vec<Option<Range<usize>>>,
    /// Kernel time in milliseconds.
    pub(super) milliseconds: f64,
}

impl GpuAnswers {
    /// Creates answers to `queries` queries, none of which is answered yet.
    pub(super) fn unanswered(queries: usize) -> Self {
        Self { neighbors: Vec::new(), lists: vec![None; queries], milliseconds: 0.0 }
    }

    /// Adds the list of a query.
    pub(super) fn add(&mut self, query: usize, list: &[Neighbor]) {
        let start = self.add_array(list);
        self.set_list(query, start..start + list.len());
    }

    /// Adds an array of lists and returns its start. Afterwards, [`set_list`](Self::set_list)
    /// assigns ranges of the array to queries.
    pub(super) fn add_array(&mut self, lists: &[Neighbor]) -> usize {
        let start = self.neighbors.len();
        self.neighbors.extend_from_slice(lists);
        start
    }

    /// Sets the range of a query's list.
    pub(super) fn set_list(&mut self, query: usize, list: Range<usize>) {
        self.lists[query] = Some(list);
    }

    /// Returns a mutable range of the neighbors, such as a list that is not sorted yet.
    pub(super) fn neighbors_mut(&mut self, range: Range<usize>) -> &mut [Neighbor] {
        &mut self.neighbors[range]
    }

    /// Returns the list of a query, if the GPU has answered it.
    pub(super) fn list(&self, query: usize) -> Option<&[Neighbor]> {
        self.lists[query].clone().map(|list| &self.neighbors[list])
    }

    /// Returns the lists in query order. A query without an answer has an empty list.
    pub(super) fn into_lists(self, threads: NonZero<usize>) -> NeighborLists {
        let mut end = 0;
        let is_in_order = self.lists.iter().flatten().all(|list| {
            let is_next = list.start == end;
            end = list.end;
            is_next
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

/// A copy of points on one GPU that can answer queries.
pub trait Engine<P: ?Sized>: fmt::Debug + Send + Sync + Sized {
    /// Copies points to a GPU. Returns `None` if the GPU cannot search them.
    ///
    /// # Errors
    /// Fails if the GPU fails or has too little memory.
    fn upload<S: Points<Point = P>>(
        device: &Device,
        points: &S,
        formula: Formula,
    ) -> Result<Option<Self>, GpuError>;

    /// Returns the approximate number of bytes that the points occupy on a GPU.
    fn bytes_of<S: Points<Point = P>>(points: &S, formula: Formula) -> usize;

    /// Answers the queries in a range.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    fn answer<Q: Points<Point = P>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<GpuAnswers, GpuError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_can_arrive_in_any_order() {
        let near = |point| Neighbor { point, distance: 1.0 };
        let threads = NonZero::<usize>::MIN;
        let mut in_order = GpuAnswers::unanswered(4);
        let mut mixed = GpuAnswers::unanswered(4);
        in_order.add(0, &[near(1)]);
        in_order.add(1, &[]);
        in_order.add(3, &[near(2), near(3)]);
        mixed.add(3, &[near(2), near(3)]);
        // This array holds more neighbors than the lists use.
        let start = mixed.add_array(&[near(9), near(1)]);
        mixed.set_list(0, start + 1..start + 2);
        mixed.add(1, &[]);
        assert_eq!((in_order.list(2), in_order.list(1)), (None, Some(&[][..])));
        let in_order = in_order.into_lists(threads);
        assert_eq!(in_order.offsets(), [0, 1, 1, 1, 3]);
        assert_eq!(in_order, mixed.into_lists(threads));
        assert_eq!(GpuAnswers::unanswered(2).into_lists(threads).offsets(), [0, 0, 0]);
    }
}
