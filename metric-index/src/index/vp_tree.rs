//! VP-tree (Yianilos 1993; used by Karelis 2020).

use std::cmp::Ordering;
use std::ops::Range;

mod layout;

pub use layout::VpLayout;

use super::{FromPoint, Index, Kind, PointBlocks, Probe, Progress, Task, check, partition};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{
    DistinctNumbers, FileContents, Reader, StoreProblem, StoredIndex, distances, invalid,
};

/// Maximum number of points of a leaf.
const LEAF: u32 = 16;
/// The same for metrics with blocks: there, a few more distances cost less than a node.
const LEAF_IN_BLOCKS: u32 = 256;

/// One side of a node: its child, and the minimum and maximum distance of its points from the
/// vantage point.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    node: u32,
    low: f32,
    high: f32,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// The positions of its points in the order of the tree: the vantage point, the inner side, the
    /// outer side.
    positions: Range<u32>,
    /// `None` for a leaf.
    sides: Option<[Side; 2]>,
}

/// A balanced tree. Each node has a vantage point; the nearer half of its other points is on the
/// inner side, the farther half on the outer side. Each side keeps the range of its distances.
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
#[derive(Debug, Clone)]
pub struct VpTree<S: Points, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    order: Vec<u32>,
    /// The distance of each point in `order` from the vantage point above its node.
    above: Vec<f32>,
    nodes: Vec<Node>,
    /// Maximum number of points of a leaf.
    leaf: u32,
    blocks: PointBlocks<S>,
}

/// A distance from the vantage point above, and the point that has it.
type RankedPoint = (f32, u32);

impl<S: Points, M: Metric<S::Point>> VpTree<S, M> {
    /// Builds the tree, both sides of a node in parallel. Evaluates about n log₂ n distances.
    ///
    /// The vantage point of a node is its last point. Sides keep the order of their points and
    /// leaves are sorted by distance, so the same points give the same tree with any number of
    /// threads.
    ///
    /// # Errors
    /// If the distance of a point from itself is not 0, or a distance from a vantage point is not
    /// finite.
    ///
    /// ```
    /// use metric_index::index::{Index, VpTree};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// assert_eq!(VpTree::build(words, Edit)?.nearest("pe", 1)?[0].point, 3);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build(points: S, metric: M) -> Result<Self, Error> {
        Self::build_with(points, metric, &Progress::none())
    }

    /// Like [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    ///
    /// ```
    /// use metric_index::index::{Index, Progress, VpTree};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// assert_eq!(VpTree::build_with(words, Edit, &Progress::new(&report))?.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with(points: S, metric: M, progress: &Progress<'_>) -> Result<Self, Error> {
        let count = check(&points, &metric)?;
        let leaf = Self::leaf_size(&points, &metric);
        let mut order: Vec<RankedPoint> = (0..count).map(|point| (0.0, point)).collect();
        let mut nodes = vec![Node::default(); nodes_of(order.len(), leaf)];
        progress.begin(u64::from(count));
        let builder = Builder { points: &points, metric: &metric, leaf, progress };
        builder.build(Subtree { order: &mut order, start: 0, nodes: &mut nodes, first: 0 })?;
        let (above, order): (_, Vec<u32>) = order.into_iter().unzip();
        let blocks = PointBlocks::new(&points, &metric, &order);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, order, above, nodes, leaf, blocks })
    }

    /// The leaf size of the tree that [`build`](Self::build) makes of these points; larger if the
    /// metric has [blocks](Metric::blocks).
    pub fn leaf_size(points: &S, metric: &M) -> u32 {
        if PointBlocks::exist(points, metric) { LEAF_IN_BLOCKS } else { LEAF }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "sorting passes references")]
fn by_distance(a: &RankedPoint, b: &RankedPoint) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// Number of nodes of a tree of `count` points. Nodes are split by rank, so their sizes are known.
fn nodes_of(count: usize, leaf: u32) -> usize {
    match count {
        0 => 0,
        _ if count <= leaf as usize => 1,
        _ => {
            let inner = (count - 1) / 2;
            1 + nodes_of(inner, leaf) + nodes_of(count - 1 - inner, leaf)
        }
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32 points")
}

/// The inputs that all nodes of a tree under construction share.
struct Builder<'a, S, M> {
    points: &'a S,
    metric: &'a M,
    leaf: u32,
    progress: &'a Progress<'a>,
}

/// A node under construction with all nodes below it.
struct Subtree<'a> {
    /// The points of the node, which are rearranged.
    order: &'a mut [RankedPoint],
    /// The position of the first point in the order of the tree.
    start: usize,
    nodes: &'a mut [Node],
    /// The number of the node.
    first: usize,
}

impl<S: Points, M: Metric<S::Point>> Builder<'_, S, M> {
    fn build(&self, subtree: Subtree<'_>) -> Result<(), Error> {
        let Subtree { order, start, nodes, first } = subtree;
        let Some((node, below)) = nodes.split_first_mut() else { return Ok(()) };
        node.positions = number(start)..number(start + order.len());
        if order.len() <= self.leaf as usize {
            order.sort_unstable_by(by_distance);
            self.progress.add(order.len() as u64);
            return Ok(());
        }
        // Moves the vantage point, the last one, to the front and measures the others from it.
        order.swap(0, order.len() - 1);
        let (vantage, others) = order.split_first_mut().expect("a node has points");
        let from = FromPoint::new(self.points, self.metric, vantage.1);
        for (distance, point) in others.iter_mut() {
            *distance = from.to(*point)?;
        }
        self.progress.add(1);
        let half = others.len() / 2;
        partition(others, half, by_distance);
        let (inner, outer) = others.split_at_mut(half);
        let (inner_nodes, outer_nodes) = below.split_at_mut(nodes_of(half, self.leaf));
        let inner_first = first + 1;
        let outer_first = inner_first + inner_nodes.len();
        let side = |points: &[RankedPoint], node: usize| Side {
            node: number(node),
            low: points.iter().map(|&(distance, _)| distance).fold(f32::INFINITY, f32::min),
            high: points.iter().map(|&(distance, _)| distance).fold(0.0, f32::max),
        };
        node.sides = Some([side(inner, inner_first), side(outer, outer_first)]);
        let inner =
            Subtree { order: inner, start: start + 1, nodes: inner_nodes, first: inner_first };
        let outer = Subtree {
            order: outer,
            start: start + 1 + half,
            nodes: outer_nodes,
            first: outer_first,
        };
        let (inner, outer) = rayon::join(|| self.build(inner), || self.build(outer));
        inner.and(outer)
    }
}

impl<S: Points, M: Metric<S::Point>> VpTree<S, M> {
    /// The positions of a leaf that their distances from the vantage point above do not exclude.
    /// These distances are in ascending order. `distance` is that of the query, NaN if there is no
    /// vantage point above.
    fn near(&self, leaf: &Node, distance: f32, radius: f32) -> Range<u32> {
        if distance.is_nan() {
            return leaf.positions.clone();
        }
        let above = &self.above[leaf.positions.start as usize..leaf.positions.end as usize];
        let near = self.bounds.near(above, distance, radius);
        leaf.positions.start + number(near.start)..leaf.positions.start + number(near.end)
    }
}

impl<S: Points, M: Metric<S::Point>> Index for VpTree<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.points
    }

    fn metric(&self) -> &M {
        &self.metric
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn blocks(&self) -> Option<&dyn Blocks<S::Point>> {
        self.blocks.get()
    }

    fn start<C: Collector>(&self, _: &mut Probe<'_, S, M, C>, tasks: &mut Vec<Task>) -> Box<[f32]> {
        if !self.nodes.is_empty() {
            // The root has no vantage point above it: NaN excludes nothing.
            tasks.push(Task::new(0, 0.0, f32::NAN));
        }
        Box::default()
    }

    /// `distance` is the distance of the query from the vantage point above the node.
    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let node = &self.nodes[task.region as usize];
        let Some(sides) = node.sides else {
            let positions = self.near(node, task.distance, probe.radius());
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
        // The nearer side is pushed last, so it is processed first. Of equally near sides, it is
        // the one with the nearer midpoint.
        let middle = |side: &Side| (distance - f32::midpoint(side.low, side.high)).abs();
        let bound = |side: Side| (self.bounds.outside(distance, side.low, side.high), side);
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
}

impl<S: Points, M: Metric<S::Point>> StoredIndex for VpTree<S, M> {
    fn name(&self) -> &'static str {
        "vp-tree"
    }

    fn kind(&self) -> Kind {
        Kind::VpTree
    }

    fn reads(name: &str) -> bool {
        name == "vp-tree"
    }

    /// Writes no nodes: the shape of the tree follows from the number of points.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let sides = || self.nodes.iter().filter_map(|node| node.sides).flatten();
        contents.number("leaf", self.leaf.into());
        contents.array("order", &self.order);
        contents.array("distances", &self.above);
        contents.computed("sides.low", sides().map(|side| side.low));
        contents.computed("sides.high", sides().map(|side| side.high));
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let leaf = file.leaf()?;
        let order = file.array_of::<u32>("order", points.len())?.to_vec();
        let mut distinct = DistinctNumbers::of("order", points.len());
        order.iter().try_for_each(|&point| distinct.check(point))?;
        let above = file.array_of::<f32>("distances", points.len())?.to_vec();
        distances(&above, "distances")?;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        shape(points.len(), leaf, 0, &mut nodes, 0);
        let sides = 2 * nodes.iter().filter(|node| node.sides.is_some()).count();
        let low = file.array_of::<f32>("sides.low", sides)?;
        let high = file.array_of::<f32>("sides.high", sides)?;
        distances(&low, "sides.low")?;
        distances(&high, "sides.high")?;
        let all = nodes.iter_mut().filter_map(|node| node.sides.as_mut()).flatten();
        for ((side, &low), &high) in all.zip(low.iter()).zip(high.iter()) {
            *side = Side { low, high, ..*side };
        }
        for leaf in nodes.iter().filter(|node| node.sides.is_none()) {
            let positions = leaf.positions.start as usize..leaf.positions.end as usize;
            if !above[positions].is_sorted() {
                let what = "the distances of a leaf are not in ascending order";
                return Err(invalid("distances", what));
            }
        }
        let blocks = PointBlocks::new(&points, &metric, &order);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, order, above, nodes, leaf, blocks })
    }
}

/// Fills in the nodes of a tree of `count` points from position `start`, without distances. The
/// root has the number `first`.
fn shape(count: usize, leaf: u32, start: usize, nodes: &mut [Node], first: usize) {
    let Some((node, below)) = nodes.split_first_mut() else { return };
    node.positions = number(start)..number(start + count);
    if count <= leaf as usize {
        return;
    }
    let half = (count - 1) / 2;
    let (inner, outer) = below.split_at_mut(nodes_of(half, leaf));
    let inner_first = first + 1;
    let outer_first = inner_first + inner.len();
    let side = |node: usize| Side { node: number(node), ..Side::default() };
    node.sides = Some([side(inner_first), side(outer_first)]);
    shape(half, leaf, start + 1, inner, inner_first);
    shape(count - 1 - half, leaf, start + 1 + half, outer, outer_first);
}
