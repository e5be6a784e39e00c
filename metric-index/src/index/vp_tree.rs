//! VP-tree (Yianilos 1993; used by Karelis 2020).

use std::cmp::Ordering;
use std::ops::Range;

use super::{
    Halving, PointBlocks, PointIndex, Probe, Progress, Space, Structure, Task, of_kind, partition,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{FileContents, Reader, StoreProblem, check_permutation, invalid};

/// Maximum number of points per leaf.
const LEAF_SIZE: u32 = 16;
/// Maximum number of points per leaf if the metric has blocks. A few more distances then cost less
/// than another node.
const BLOCK_LEAF_SIZE: u32 = 256;

/// One side of a node: its child, and the minimum and maximum distance from the vantage point to
/// the points of the side.
#[derive(Debug, Clone, Copy)]
struct Side {
    node: u32,
    low: f32,
    high: f32,
}

#[derive(Debug, Clone)]
struct Node {
    /// The positions of the node's points in the order of the tree: the vantage point, the inner
    /// side, the outer side.
    positions: Range<u32>,
    /// The inner and the outer side; `None` for a leaf.
    sides: Option<[Side; 2]>,
}

impl Node {
    /// Creates a node without distances.
    fn new(positions: Range<u32>, children: Option<[u32; 2]>) -> Self {
        let side = |node| Side { node, low: 0.0, high: 0.0 };
        Self { positions, sides: children.map(|children| children.map(side)) }
    }

    /// Returns the positions as `usize`.
    fn span(&self) -> Range<usize> {
        self.positions.start as usize..self.positions.end as usize
    }
}

/// A balanced tree. Each node has a vantage point. The nearer half of the other points is on its
/// inner side, and the farther half is on its outer side. Each side stores the range of the
/// distances from its points to the vantage point.
///
/// The vantage point of a node is the last of its points, as in Karelis 2020.
///
/// ```
/// use metric_index::index::{Index, VpTree};
/// use metric_index::metric::Manhattan;
/// use metric_index::points::Vectors;
///
/// let plane = Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0], 2)?;
/// assert_eq!(VpTree::build(plane, Manhattan)?.within(&[3.0, 3.0], 6.0)?.len(), 2);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub type VpTree<S, M> = PointIndex<S, M, VpNodes<S>>;

/// The nodes of a [`VpTree`].
#[derive(Debug, Clone)]
pub struct VpNodes<S: Points> {
    order: Vec<u32>,
    /// The distance from each point in `order` to the vantage point above the point's node.
    from_vantage: Vec<f32>,
    nodes: Vec<Node>,
    /// Maximum number of points per leaf.
    leaf: u32,
    blocks: PointBlocks<S>,
}

/// A distance from the vantage point above, and the point at that distance.
type RankedPoint = (f32, u32);

impl<S: Points, M: Metric<S::Point>> VpTree<S, M> {
    /// Builds the tree, with both sides of a node in parallel. Evaluates about n log₂ n distances.
    ///
    /// The vantage point of a node is its last point. Sides keep the order of their points, and
    /// leaves are sorted by distance. Therefore, the same points give the same tree for any number
    /// of threads.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, or a distance from a vantage point is
    /// not finite.
    pub fn build(points: S, metric: M) -> Result<Self, Error> {
        Self::build_with(points, metric, (), &Progress::none())
    }

    /// Returns the leaf size of the tree that [`build`](Self::build) creates for these points. It
    /// is larger if the metric has [blocks](Metric::blocks).
    pub fn leaf_size(points: &S, metric: &M) -> u32 {
        if PointBlocks::are_supported(points, metric) { BLOCK_LEAF_SIZE } else { LEAF_SIZE }
    }

    /// Returns the tree as arrays.
    pub fn layout(&self) -> VpLayout {
        let VpNodes { leaf, order, from_vantage, nodes, .. } = &self.structure;
        let sides = |node: &Node| match node.sides {
            Some([inner, outer]) => [inner.low, inner.high, outer.low, outer.high],
            None => [0.0; 4],
        };
        VpLayout {
            leaf_size: *leaf,
            order: order.clone(),
            distances: from_vantage.clone(),
            sides: nodes.iter().map(sides).collect(),
        }
    }

    /// Creates a tree from arrays that were built elsewhere. The points of a leaf can be in any
    /// order. The distances are not recomputed; if they differ from the distances of the metric,
    /// answers are wrong.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0.
    ///
    /// # Panics
    /// Panics if the lengths of the arrays do not match the number of points, or if `order` is not
    /// a permutation of the points.
    pub fn from_layout(points: S, metric: M, layout: VpLayout) -> Result<Self, Error> {
        let space = Space::new(points, metric)?;
        let VpLayout { leaf_size: leaf, mut order, distances: mut from_vantage, sides } = layout;
        let count = space.points.len();
        let mut nodes = halving(leaf).shape(count, Node::new);
        assert_eq!(sides.len(), nodes.len(), "distances of sides");
        assert_eq!(from_vantage.len(), count, "distances of points");
        check_permutation(&order, count, "order").expect("`order` is a permutation of the points");
        for (node, &[low, high, outer_low, outer_high]) in nodes.iter_mut().zip(&sides) {
            if let Some([inner, outer]) = &mut node.sides {
                *inner = Side { low, high, ..*inner };
                *outer = Side { low: outer_low, high: outer_high, ..*outer };
            }
        }
        for leaf in nodes.iter().filter(|node| node.sides.is_none()) {
            let own = order[leaf.span()].iter().copied();
            let mut sorted: Vec<RankedPoint> =
                from_vantage[leaf.span()].iter().copied().zip(own).collect();
            sorted.sort_unstable_by(by_distance);
            for (position, (distance, point)) in leaf.span().zip(sorted) {
                from_vantage[position] = distance;
                order[position] = point;
            }
        }
        let blocks = PointBlocks::new(&space, &order);
        Ok(Self::of_structure(space, (), VpNodes { order, from_vantage, nodes, leaf, blocks }))
    }
}

/// A VP-tree as arrays, for exchange with code that builds or searches trees elsewhere, such as on
/// a GPU.
///
/// The number of points and `leaf_size` determine the shape. A node of `n` points is a leaf if
/// `n <= leaf_size`. Otherwise its first point in `order` is its vantage point. The next
/// `(n - 1) / 2` points are its inner side, and the rest are its outer side. Nodes are numbered in
/// preorder: a node, then its inner side, then its outer side.
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
    /// The distance from each point of `order` to the vantage point above the point's node. The
    /// values of the root's points and of vantage points are unused.
    pub distances: Vec<f32>,
    /// For each node, the minimum and maximum distance from its vantage point to its inner side,
    /// then to its outer side. The values of leaves are unused.
    pub sides: Vec<[f32; 4]>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "sorting passes references")]
fn by_distance(a: &RankedPoint, b: &RankedPoint) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// Returns the parameters of a tree that divides the points of a node, except its vantage point,
/// between its two sides.
fn halving(leaf: u32) -> Halving {
    Halving { leaf, own: 1 }
}

/// The inputs that all nodes of a tree under construction share.
struct Builder<'a, S, M> {
    space: &'a Space<S, M>,
    progress: &'a Progress<'a>,
}

impl<S: Points, M: Metric<S::Point>> Builder<'_, S, M> {
    /// Builds the first node and all other nodes, which are below it. Rearranges the points of the
    /// node.
    fn build(&self, order: &mut [RankedPoint], nodes: &mut [Node]) -> Result<(), Error> {
        let Some((node, below)) = nodes.split_first_mut() else { return Ok(()) };
        let Some([inner_side, outer_side]) = &mut node.sides else {
            order.sort_unstable_by(by_distance);
            self.progress.add(order.len() as u64);
            return Ok(());
        };
        // Move the vantage point, the last point, to the front, and compute the distances from the
        // other points to it.
        order.swap(0, order.len() - 1);
        let (vantage, others) = order.split_first_mut().expect("a node has points");
        let from = self.space.origin(vantage.1);
        for (distance, point) in others.iter_mut() {
            *distance = from.to(*point)?;
        }
        self.progress.add(1);
        let half = others.len() / 2;
        partition(others, half, by_distance);
        let (inner, outer) = others.split_at_mut(half);
        let (inner_nodes, outer_nodes) =
            below.split_at_mut((outer_side.node - inner_side.node) as usize);
        for (side, points) in [(inner_side, &*inner), (outer_side, &*outer)] {
            let distances = || points.iter().map(|&(distance, _)| distance);
            side.low = distances().fold(f32::INFINITY, f32::min);
            side.high = distances().fold(0.0, f32::max);
        }
        let (inner, outer) =
            rayon::join(|| self.build(inner, inner_nodes), || self.build(outer, outer_nodes));
        inner.and(outer)
    }
}

impl<S: Points> VpNodes<S> {
    /// Returns the positions of a leaf that are not excluded by their distances from the vantage
    /// point above, which are in ascending order. `distance` is the query's distance from that
    /// vantage point, or NaN if there is none.
    fn candidates(&self, bounds: Bounds, leaf: &Node, distance: f32, radius: f32) -> Range<u32> {
        if distance.is_nan() {
            return leaf.positions.clone();
        }
        let near = bounds.candidate_range(&self.from_vantage[leaf.span()], distance, radius);
        let position = |at| leaf.positions.start + u32::try_from(at).expect("below the end");
        position(near.start)..position(near.end)
    }
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for VpNodes<S> {
    of_kind!(VpTree);

    fn build(space: &Space<S, M>, _options: (), progress: &Progress<'_>) -> Result<Self, Error> {
        let leaf = VpTree::leaf_size(&space.points, &space.metric);
        let mut order: Vec<RankedPoint> = (0..space.count()).map(|point| (0.0, point)).collect();
        let mut nodes = halving(leaf).shape(order.len(), Node::new);
        progress.begin(order.len() as u64);
        Builder { space, progress }.build(&mut order, &mut nodes)?;
        let (from_vantage, order): (_, Vec<u32>) = order.into_iter().unzip();
        let blocks = PointBlocks::new(space, &order);
        Ok(Self { order, from_vantage, nodes, leaf, blocks })
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn blocks(&self, _: &Space<S, M>) -> Option<&dyn Blocks<S::Point>> {
        self.blocks.get()
    }

    /// `task.distance` is the distance from the query to the vantage point above the node.
    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let node = &self.nodes[task.region as usize];
        let Some(sides) = node.sides else {
            let positions = self.candidates(space.bounds, node, task.distance, probe.radius());
            let start = positions.start.max(node.positions.start + task.at);
            let next = probe.visit_positions(start..positions.end, &self.order);
            if next < positions.end {
                tasks.push(Task { at: next - node.positions.start, ..task });
            }
            return;
        };
        if probe.is_exhausted() {
            tasks.push(task);
            return;
        }
        let distance = probe.visit(self.order[node.positions.start as usize]);
        // The nearer side is pushed last, so it is processed first. Ties go to the side with the
        // nearer midpoint.
        let middle = |side: &Side| (distance - f32::midpoint(side.low, side.high)).abs();
        let bound = |side: Side| (space.bounds.outside(distance, side.low, side.high), side);
        let [inner, outer] = sides.map(bound);
        let nearer =
            outer.0.total_cmp(&inner.0).then(middle(&outer.1).total_cmp(&middle(&inner.1)));
        let sides = if nearer.is_le() { [inner, outer] } else { [outer, inner] };
        for (bound, side) in sides {
            if bound <= probe.radius() {
                tasks.push(Task::new(side.node, bound, distance));
            }
        }
    }

    /// Writes no nodes, because the number of points determines the shape of the tree.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let sides = || self.nodes.iter().filter_map(|node| node.sides).flatten();
        contents.number("leaf", self.leaf.into());
        contents.array("order", &self.order);
        contents.array("distances", &self.from_vantage);
        contents.computed("sides.low", sides().map(|side| side.low));
        contents.computed("sides.high", sides().map(|side| side.high));
    }

    fn read(file: &mut Reader, space: &Space<S, M>, _options: ()) -> Result<Self, StoreProblem> {
        let leaf = file.leaf_size()?;
        let order = file.permutation("order", space.points.len())?.to_vec();
        let from_vantage = file.distances_of("distances", order.len())?.to_vec();
        let mut nodes = halving(leaf).shape(order.len(), Node::new);
        let sides = 2 * nodes.iter().filter(|node| node.sides.is_some()).count();
        let low = file.distances_of("sides.low", sides)?;
        let high = file.distances_of("sides.high", sides)?;
        let all = nodes.iter_mut().filter_map(|node| node.sides.as_mut()).flatten();
        for ((side, &low), &high) in all.zip(low.iter()).zip(high.iter()) {
            *side = Side { low, high, ..*side };
        }
        if nodes.iter().any(|node| node.sides.is_none() && !from_vantage[node.span()].is_sorted()) {
            let what = "the distances of a leaf are not in ascending order";
            return Err(invalid("distances", what));
        }
        let blocks = PointBlocks::new(space, &order);
        Ok(Self { order, from_vantage, nodes, leaf, blocks })
    }
}
