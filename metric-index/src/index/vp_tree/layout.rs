//! A VP-tree as plain arrays.

use super::{Node, RankedPoint, VpTree, by_distance, nodes_of, shape};
use crate::error::Error;
use crate::index::{PointBlocks, check, is_permutation};
use crate::metric::Metric;
use crate::points::Points;
use crate::prune::Bounds;

/// A VP-tree as arrays: the exchange format with code that builds or searches trees elsewhere, such
/// as on a GPU.
///
/// The shape follows from the number of points and from `leaf_size`. A node of `n` points is a leaf
/// if `n <= leaf_size`. Otherwise its first point in `order` is its vantage point, the next
/// `(n - 1) / 2` are its inner side, and the rest its outer side. Nodes are numbered in preorder:
/// a node, then its inner side, then its outer side.
///
/// ```
/// use metric_index::index::{Index, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(&words, Edit)?;
/// let again = VpTree::from_layout(&words, Edit, tree.layout())?;
/// assert_eq!(again.nearest("cas", 2)?, tree.nearest("cas", 2)?);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VpLayout {
    /// Maximum number of points per leaf.
    pub leaf_size: u32,
    /// The points in the order of the tree.
    pub order: Vec<u32>,
    /// The distance of each point of `order` from the vantage point above its node. The values of
    /// the root's points and of vantage points are unused.
    pub distances: Vec<f32>,
    /// For each node the minimum and maximum distance of its inner side from its vantage point,
    /// then of its outer side. The values of leaves are unused.
    pub sides: Vec<[f32; 4]>,
}

impl<S: Points, M: Metric<S::Point>> VpTree<S, M> {
    /// The tree as arrays.
    pub fn layout(&self) -> VpLayout {
        let sides = |node: &Node| {
            let [inner, outer] = node.sides.unwrap_or_default();
            [inner.low, inner.high, outer.low, outer.high]
        };
        VpLayout {
            leaf_size: self.leaf,
            order: self.order.clone(),
            distances: self.above.clone(),
            sides: self.nodes.iter().map(sides).collect(),
        }
    }

    /// Creates a tree that was built elsewhere. The points of a leaf can be in any order. The
    /// distances are not recomputed: if they differ from those of the metric, answers are wrong.
    ///
    /// # Errors
    /// If the distance of a point from itself is not 0.
    ///
    /// # Panics
    /// If the lengths of the arrays do not fit the number of points, or `order` is not a
    /// permutation of the points.
    pub fn from_layout(points: S, metric: M, layout: VpLayout) -> Result<Self, Error> {
        check(&points, &metric)?;
        let VpLayout { leaf_size: leaf, mut order, distances: mut above, sides } = layout;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        assert_eq!(sides.len(), nodes.len(), "distances of sides");
        assert_eq!(above.len(), points.len(), "distances of points");
        assert!(is_permutation(&order, points.len()), "`order` is a permutation of the points");
        shape(points.len(), leaf, 0, &mut nodes, 0);
        for (node, &[low, high, outer_low, outer_high]) in nodes.iter_mut().zip(&sides) {
            if let Some([inner, outer]) = &mut node.sides {
                inner.low = low;
                inner.high = high;
                outer.low = outer_low;
                outer.high = outer_high;
            }
        }
        for leaf in nodes.iter().filter(|node| node.sides.is_none()) {
            let positions = leaf.positions.start as usize..leaf.positions.end as usize;
            let own = order[positions.clone()].iter().copied();
            let mut sorted: Vec<RankedPoint> =
                above[positions.clone()].iter().copied().zip(own).collect();
            sorted.sort_unstable_by(by_distance);
            for (position, (distance, point)) in positions.zip(sorted) {
                above[position] = distance;
                order[position] = point;
            }
        }
        let blocks = PointBlocks::new(&points, &metric, &order);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, order, above, nodes, leaf, blocks })
    }
}
