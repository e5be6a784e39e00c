//! A KD-tree as plain arrays.

use super::{KdTree, Node, dimension_of, nodes_of, shape, split};
use crate::error::Error;
use crate::index::{PointBlocks, check, is_permutation};
use crate::metric::Metric;
use crate::points::Points;

/// A KD-tree as arrays: the exchange format with code that builds or searches trees elsewhere, such
/// as on a GPU.
///
/// The shape follows from the number of points and from `leaf_size`. A node of `n` points is a leaf
/// if `n <= leaf_size`. Otherwise its first `n / 2` points in `order` are its first half, and the
/// rest its second half. Nodes are numbered in preorder: a node, then its first half, then its
/// second half.
///
/// ```
/// use metric_index::index::{Index, KdTree};
/// use metric_index::metric::Euclidean;
/// use metric_index::points::Vectors;
///
/// let plane = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
/// let tree = KdTree::build(&plane, Euclidean)?;
/// let again = KdTree::from_layout(&plane, Euclidean, tree.layout())?;
/// assert_eq!(again.nearest(&[3.0, 3.0], 1)?, tree.nearest(&[3.0, 3.0], 1)?);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct KdLayout {
    /// Maximum number of points per leaf.
    pub leaf_size: u32,
    /// The points in the order of the tree.
    pub order: Vec<u32>,
    /// For each node the minimum coordinates of its points, then the maximum.
    pub boxes: Vec<f32>,
}

impl<S: Points, M: Metric<S::Point>> KdTree<S, M> {
    /// The tree as arrays.
    pub fn layout(&self) -> KdLayout {
        KdLayout { leaf_size: self.leaf, order: self.order.clone(), boxes: self.boxes.clone() }
    }

    /// Creates a tree that was built elsewhere. If its boxes do not contain their points, answers
    /// are wrong.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    ///
    /// # Panics
    /// If the lengths of the arrays do not fit the points, or `order` is not a permutation of the
    /// points.
    pub fn from_layout(points: S, metric: M, layout: KdLayout) -> Result<Self, Error> {
        check(&points, &metric)?;
        let dimension = dimension_of(&points, metric.coordinates().ok_or(Error::NoCoordinates)?)?;
        let KdLayout { leaf_size: leaf, order, boxes } = layout;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        assert_eq!(boxes.len(), nodes.len() * 2 * dimension, "coordinates of boxes");
        assert!(is_permutation(&order, points.len()), "`order` is a permutation of the points");
        shape(points.len(), leaf, 0, &mut nodes, 0);
        split(&mut nodes, &boxes, dimension);
        let blocks = PointBlocks::new(&points, &metric, &order);
        Ok(Self { points, metric, dimension, order, nodes, leaf, blocks, boxes })
    }
}
