//! Merges the neighbor lists of several parts of the points.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::neighbor::Neighbor;

/// Merges neighbor lists from parts of the points, which were distributed round-robin.
///
/// With T parts, point p of part t is point `p * T + t`.
#[derive(Debug)]
pub(crate) struct Merger<'a> {
    parts: usize,
    /// The next neighbor of each part; empty between queries.
    heads: BinaryHeap<Reverse<Head<'a>>>,
}

/// The next neighbor of a part, with its number among all points.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head<'a> {
    neighbor: Neighbor,
    part: usize,
    rest: &'a [Neighbor],
}

impl<'a> Head<'a> {
    /// Returns the head of a list from part `part` of `parts`, or `None` if the list is empty.
    fn of(part: usize, parts: usize, list: &'a [Neighbor]) -> Option<Self> {
        let (first, rest) = list.split_first()?;
        let point = u32::try_from(first.point as usize * parts + part);
        let point = point.expect("point numbers have 32 bits");
        Some(Self { neighbor: Neighbor { point, ..*first }, part, rest })
    }
}

impl<'a> Merger<'a> {
    pub(crate) fn new(parts: usize) -> Self {
        Self { parts, heads: BinaryHeap::with_capacity(parts) }
    }

    /// Writes the nearest neighbors of a query to `merged`, whose length must be at most the total
    /// length of the lists. The lists must be sorted.
    pub(crate) fn merge(
        &mut self,
        lists: impl Iterator<Item = &'a [Neighbor]>,
        merged: &mut [Neighbor],
    ) {
        for (part, list) in lists.enumerate() {
            if self.parts == 1 {
                merged.copy_from_slice(&list[..merged.len()]);
                return;
            }
            let head = Head::of(part, self.parts, list);
            self.heads.extend(head.map(Reverse));
        }
        for slot in merged {
            let Some(mut nearest) = self.heads.peek_mut() else { break };
            let Reverse(head) = &*nearest;
            *slot = head.neighbor;
            match Head::of(head.part, self.parts, head.rest) {
                Some(next) => *nearest = Reverse(next),
                None => {
                    PeekMut::pop(nearest);
                }
            }
        }
        self.heads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_merged_as_if_sorted() {
        let mut random = seeded_random::Random::new(1);
        for parts in 1..6u32 {
            let mut merger = Merger::new(parts as usize);
            for _ in 0..50 {
                // There are only three distinct distances, so many are tied.
                let mut list = |_| {
                    let count = u32::try_from(random.below(9)).unwrap();
                    let near = |point| Neighbor { point, distance: random.below(3) as f32 };
                    let mut list: Vec<Neighbor> = (0..count).map(near).collect();
                    list.sort_unstable();
                    list
                };
                let lists: &[Vec<Neighbor>] = (0..parts).map(&mut list).collect::<Vec<_>>().leak();
                let numbered = (0..).zip(lists).flat_map(|(part, list)| {
                    list.iter()
                        .map(move |near| Neighbor { point: near.point * parts + part, ..*near })
                });
                let mut expected: Vec<Neighbor> = numbered.collect();
                expected.sort_unstable();
                for k in [0, 1, 5, expected.len()] {
                    let k = k.min(expected.len());
                    let mut nearest = vec![Neighbor { point: 0, distance: 0.0 }; k];
                    merger.merge(lists.iter().map(|list| &list[..]), &mut nearest);
                    assert_eq!(nearest, expected[..k]);
                }
            }
        }
    }
}
