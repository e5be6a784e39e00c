//! Lists of neighbors: the answers to many queries.

use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::neighbor::Neighbor;
use crate::threads::map_parallel;

pub(crate) use merge::Merger;

mod merge;

/// The answers to many queries, stored as one array of neighbors with the start of each query's
/// list. A rejected query has an error instead of a list.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::index::{Index, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(&words, Edit)?;
/// let lists = tree.within_many(&words, 1.0, NonZero::<usize>::MIN);
/// assert_eq!(lists.len(), 4);
/// assert_eq!(lists.get(3)?.len(), 1);
/// assert_eq!((lists.neighbors().len(), lists.offsets()), (8, &[0, 3, 5, 7, 8][..]));
/// for list in &lists {
///     assert_eq!(list?[0].distance, 0.0);
/// }
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NeighborLists {
    neighbors: Vec<Neighbor>,
    /// The start of each list and the end of the last list.
    offsets: Vec<usize>,
    /// The rejected queries in ascending order, with their errors. Their lists are empty.
    errors: Vec<(usize, Error)>,
}

impl Default for NeighborLists {
    /// Creates lists for no queries.
    fn default() -> Self {
        Self { neighbors: Vec::new(), offsets: vec![0], errors: Vec::new() }
    }
}

impl NeighborLists {
    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the neighbors of a query, nearest first.
    ///
    /// # Errors
    /// Fails if the query was rejected.
    ///
    /// # Panics
    /// Panics if `query` is out of range.
    pub fn get(&self, query: usize) -> Result<&[Neighbor], Error> {
        let list = &self.neighbors[self.offsets[query]..self.offsets[query + 1]];
        match self.errors.binary_search_by_key(&query, |&(rejected, _)| rejected) {
            Ok(index) => Err(self.errors[index].1),
            Err(_) => Ok(list),
        }
    }

    /// Returns the lists in query order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { lists: self, queries: 0..self.len() }
    }

    /// Returns the neighbors of all queries, one list after the other.
    pub fn neighbors(&self) -> &[Neighbor] {
        &self.neighbors
    }

    /// Returns the start of each query's list in [`neighbors`](Self::neighbors) and the end of the
    /// last list.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Adds the answer to the next query.
    ///
    /// ```
    /// use metric_index::lists::NeighborLists;
    /// use metric_index::neighbor::Neighbor;
    ///
    /// let mut lists = NeighborLists::default();
    /// lists.push(Ok(&[Neighbor { point: 7, distance: 1.0 }]));
    /// assert_eq!(lists.get(0).map(<[_]>::len), Ok(1));
    /// ```
    pub fn push(&mut self, answer: Result<&[Neighbor], Error>) {
        match answer {
            Ok(list) => self.neighbors.extend_from_slice(list),
            Err(error) => self.errors.push((self.len(), error)),
        }
        self.offsets.push(self.neighbors.len());
    }

    /// Appends the answers to more queries.
    pub fn append(&mut self, more: &Self) {
        let queries = self.len();
        let neighbors = self.neighbors.len();
        self.neighbors.extend_from_slice(&more.neighbors);
        self.offsets.extend(more.offsets[1..].iter().map(|end| neighbors + end));
        self.errors.extend(more.errors.iter().map(|&(query, error)| (queries + query, error)));
    }

    /// Concatenates the answers to consecutive ranges of queries.
    pub(crate) fn concatenated(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let mut all = Self::default();
        all.neighbors.reserve_exact(parts.iter().map(|part| part.neighbors.len()).sum());
        all.offsets.reserve_exact(parts.iter().map(Self::len).sum());
        for part in &parts {
            all.append(part);
        }
        all
    }

    /// Creates lists from their neighbors and offsets; `offsets` begins with 0.
    pub(crate) fn from_parts(neighbors: Vec<Neighbor>, offsets: Vec<usize>) -> Self {
        debug_assert_eq!(offsets.last(), Some(&neighbors.len()));
        Self { neighbors, offsets, errors: Vec::new() }
    }

    /// Creates lists of the given lengths and fills them on several threads, one range of queries
    /// at a time. Nothing is allocated per query. `fill` receives the value that `scratch` creates
    /// for each range, a query and its list.
    pub(crate) fn filled<S>(
        queries: usize,
        length: impl Fn(usize) -> usize,
        threads: NonZero<usize>,
        scratch: impl Fn() -> S + Sync,
        fill: impl Fn(&mut S, usize, &mut [Neighbor]) + Sync,
    ) -> Self {
        /// Minimum number of neighbors per range. For fewer, a thread costs more than it saves.
        const MIN_RANGE_NEIGHBORS: usize = 1 << 14;
        let mut offsets = Vec::with_capacity(queries + 1);
        offsets.push(0);
        let mut end = 0;
        offsets.extend((0..queries).map(|query| {
            end += length(query);
            end
        }));
        let mut neighbors = vec![Neighbor { point: 0, distance: 0.0 }; end];
        let mut ranges: Vec<Mutex<(Range<usize>, &mut [Neighbor])>> = Vec::new();
        let mut rest = &mut neighbors[..];
        let mut start = 0;
        for query in 1..offsets.len() {
            let length = offsets[query] - offsets[start];
            if length >= MIN_RANGE_NEIGHBORS || query + 1 == offsets.len() {
                let (own, others) = rest.split_at_mut(length);
                ranges.push(Mutex::new((start..query, own)));
                rest = others;
                start = query;
            }
        }
        map_parallel(ranges.len(), threads, &|range| {
            // The lock is never contended, because each range is processed once.
            let mut range = ranges[range].lock().unwrap_or_else(PoisonError::into_inner);
            let (queries, own) = &mut *range;
            let mut scratch = scratch();
            let first = offsets[queries.start];
            for query in queries.clone() {
                let list = &mut own[offsets[query] - first..offsets[query + 1] - first];
                fill(&mut scratch, query, list);
            }
        });
        drop(ranges);
        Self { neighbors, offsets, errors: Vec::new() }
    }

    /// Sets the errors of some queries, whose lists are empty.
    pub(crate) fn with_errors(self, errors: Vec<(usize, Error)>) -> Self {
        Self { errors, ..self }
    }
}

/// An iterator over the lists of [`NeighborLists`], in query order.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    lists: &'a NeighborLists,
    queries: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<&'a [Neighbor], Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.queries.next().map(|query| self.lists.get(query))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.queries.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a NeighborLists {
    type Item = Result<&'a [Neighbor], Error>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl FromIterator<Result<Vec<Neighbor>, Error>> for NeighborLists {
    fn from_iter<T: IntoIterator<Item = Result<Vec<Neighbor>, Error>>>(answers: T) -> Self {
        let mut lists = Self::default();
        for answer in answers {
            lists.push(answer.as_deref().map_err(|&error| error));
        }
        lists
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(point: u32) -> Neighbor {
        Neighbor { point, distance: 1.0 }
    }

    #[test]
    fn lists_and_errors_keep_their_queries() {
        let rejected = Error::Radius { radius: -1.0 };
        let one: NeighborLists = [Ok(vec![near(1), near(2)]), Err(rejected)].into_iter().collect();
        let two: NeighborLists =
            [Err(rejected), Ok(vec![]), Ok(vec![near(3)])].into_iter().collect();
        let all = NeighborLists::concatenated(vec![one.clone(), NeighborLists::default(), two]);
        assert_eq!((all.len(), all.iter().len()), (5, 5));
        let expected = [Ok(vec![near(1), near(2)]), Err(rejected), Err(rejected), Ok(vec![])];
        let expected = expected.into_iter().chain([Ok(vec![near(3)])]);
        assert!(all.iter().map(|list| list.map(<[_]>::to_vec)).eq(expected));
        assert_eq!(NeighborLists::concatenated(vec![one.clone()]), one);
    }

    #[test]
    fn ranges_are_filled_once() {
        let threads = NonZero::new(3).unwrap();
        for queries in [0usize, 1, 2, 5_000] {
            let length = |query: usize| (query * 7) % 23;
            let filled = NeighborLists::filled(
                queries,
                length,
                threads,
                || 0,
                |calls, query, list| {
                    *calls += 1;
                    list.fill(near(u32::try_from(query).unwrap()));
                },
            );
            assert_eq!(filled.len(), queries);
            for (query, list) in filled.iter().enumerate() {
                let expected = vec![near(u32::try_from(query).unwrap()); length(query)];
                assert_eq!(list, Ok(&expected[..]));
            }
        }
    }
}
