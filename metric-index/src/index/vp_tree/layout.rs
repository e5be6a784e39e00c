//! A VP-tree as plain arrays.

use super::{Node, Placed, VpTree, by_distance, nodes_of, shape};
use crate::error::Error;
use crate::index::{InBlocks, check, is_permutation};
use crate::metric::Metric;
use crate::points::Points;
use crate::prune::Bounds;

/// A VP-tree as arrays: what code that builds or searches trees elsewhere, such as on a GPU,
/// exchanges with [`VpTree`].
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
    /// the root's points and of vantage points themselves are not used.
    pub distances: Vec<f32>,
    /// For each node the least and the greatest distance of its inner side from its vantage point,
    /// then the same for its outer side. The values of leaves are not used.
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

    /// A tree that was built elsewhere. The points of a leaf can be in any order. The distances are
    /// not computed again: if they are not those of the metric, answers are wrong.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself.
    ///
    /// # Panics
    /// If the lengths of the arrays do not fit the number of points, or `order` does not name each
    /// point once.
    pub fn from_layout(points: S, metric: M, layout: VpLayout) -> Result<Self, Error> {
        check(&points, &metric)?;
        let VpLayout { leaf_size: leaf, mut order, distances: mut above, sides } = layout;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        assert_eq!(sides.len(), nodes.len(), "distances of sides");
        assert_eq!(above.len(), points.len(), "distances of points");
        assert!(is_permutation(&order, points.len()), "`order` names each point once");
        shape(points.len(), leaf, 0, (&mut nodes, 0));
        for (node, &[low, high, outer_low, outer_high]) in nodes.iter_mut().zip(&sides) {
            if let Some([inner, outer]) = &mut node.sides {
                (inner.low, inner.high) = (low, high);
                (outer.low, outer.high) = (outer_low, outer_high);
            }
        }
        for leaf in nodes.iter().filter(|node| node.sides.is_none()) {
            let places = leaf.places.start as usize..leaf.places.end as usize;
            let own = order[places.clone()].iter().copied();
            let mut sorted: Vec<Placed> = above[places.clone()].iter().copied().zip(own).collect();
            sorted.sort_unstable_by(by_distance);
            for (place, (distance, point)) in places.zip(sorted) {
                (above[place], order[place]) = (distance, point);
            }
        }
        let blocks = InBlocks::new(&points, &metric, &order);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, order, above, nodes, leaf, blocks })
    }
}
