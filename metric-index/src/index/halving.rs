//! Balanced trees over an ordered list of points. Each node halves its points, so the number of
//! points determines the shape of the tree.

use std::cmp::Ordering;
use std::ops::Range;

/// The parameters of a tree that halves its points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halving {
    /// Maximum number of points per leaf.
    pub(super) leaf: u32,
    /// Number of points that an inner node keeps for itself.
    pub(super) own: usize,
}

impl Halving {
    /// Returns the number of points in the first half of a node with `count` points.
    pub(super) fn half(self, count: usize) -> usize {
        (count - self.own) / 2
    }

    /// Returns whether a node with `count` points is a leaf.
    pub(super) fn is_leaf(self, count: usize) -> bool {
        count <= self.leaf as usize
    }

    /// Returns the number of nodes of a tree with `count` points.
    pub(super) fn nodes(self, count: usize) -> usize {
        if count == 0 || self.is_leaf(count) {
            return usize::from(count > 0);
        }
        let half = self.half(count);
        1 + self.nodes(half) + self.nodes(count - self.own - half)
    }

    /// Returns the nodes of a tree with `count` points in preorder. `node` creates a node from the
    /// positions of its points and the numbers of its children.
    pub(super) fn shape<N>(
        self,
        count: usize,
        node: impl Fn(Range<u32>, Option<[u32; 2]>) -> N,
    ) -> Vec<N> {
        let mut nodes = Vec::with_capacity(self.nodes(count));
        // Ranges of positions whose nodes have yet to be added. The last range is processed next.
        let mut pending: Vec<_> = std::iter::once(0..count).collect();
        while let Some(positions) = pending.pop() {
            if positions.is_empty() {
                continue;
            }
            let children = (!self.is_leaf(positions.len())).then(|| {
                let start = positions.start + self.own;
                let middle = start + self.half(positions.len());
                pending.extend([middle..positions.end, start..middle]);
                let first = nodes.len() + 1;
                [number(first), number(first + self.nodes(middle - start))]
            });
            nodes.push(node(number(positions.start)..number(positions.end), children));
        }
        nodes
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32 points")
}

/// Moves the `half` smallest items to the front. Both parts keep the order of their items. No two
/// items may be equal.
///
/// The result, and therefore the bytes of a stored tree, does not depend on the selection algorithm
/// of the standard library.
pub(super) fn partition<T: Copy>(items: &mut [T], half: usize, order: impl Fn(&T, &T) -> Ordering) {
    let mut greater = items.to_vec();
    let median = *greater.select_nth_unstable_by(half, &order).1;
    greater.clear();
    let mut less = 0;
    for index in 0..items.len() {
        if order(&items[index], &median).is_lt() {
            items[less] = items[index];
            less += 1;
        } else {
            greater.push(items[index]);
        }
    }
    items[less..].copy_from_slice(&greater);
}

#[cfg(test)]
mod tests {
    use super::partition;

    #[test]
    fn parts_keep_their_order() {
        let mut items = [7u32, 2, 9, 4, 0, 5, 8];
        partition(&mut items, 3, u32::cmp);
        assert_eq!(items, [2, 4, 0, 7, 9, 5, 8]);
        partition(&mut items, 0, u32::cmp);
        assert_eq!(items, [2, 4, 0, 7, 9, 5, 8]);
        partition(&mut items, 6, u32::cmp);
        assert_eq!(items, [2, 4, 0, 7, 5, 8, 9]);
    }
}
