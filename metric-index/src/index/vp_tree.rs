//! VP-tree (Yianilos 1993; Karelis 2020).

use std::cmp::Ordering;
use std::ops::Range;

mod layout;

pub use layout::VpLayout;

use super::{FromPoint, InBlocks, Index, Kind, Probe, Progress, Task, check, partition};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored, distances, invalid};

/// Nodes of at most this many points are leaves.
const LEAF: u32 = 16;
/// The same where the metric has blocks: then a few more distances cost less than a node.
const LEAF_IN_BLOCKS: u32 = 256;

/// The points of a node on one side of its vantage point: the nearest and the farthest distance from it.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    node: u32,
    low: f32,
    high: f32,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// Where its points stand in the order of the tree: the vantage point, the inner side, the outer side.
    places: Range<u32>,
    /// None of a leaf.
    sides: Option<[Side; 2]>,
}

/// A balanced tree: each node has a vantage point, and the nearer half of its other points on the inner
/// side, the farther half on the outer side. Each side keeps the interval of its distances.
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
    /// The distance of each point of the order from the vantage point of the node above its own.
    above: Vec<f32>,
    nodes: Vec<Node>,
    /// Nodes of at most this many points are leaves.
    leaf: u32,
    blocks: InBlocks<S>,
}

/// A point and its distance from the vantage point above.
type Placed = (f32, u32);

impl<S: Points, M: Metric<S::Point>> VpTree<S, M> {
    /// Builds the tree, both sides in parallel: about n log₂ n distances. The vantage point of a node is its last point;
    /// sides keep the order of their points, and leaves are sorted by their distances, so the same points give the same tree with any number of threads.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself or none from a vantage point.
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

    /// As [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// As [`build`](Self::build).
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
        let mut order: Vec<Placed> = (0..count).map(|point| (0.0, point)).collect();
        let mut nodes = vec![Node::default(); nodes_of(order.len(), leaf)];
        progress.begin(u64::from(count));
        cut((&points, &metric), leaf, (&mut order, 0), (&mut nodes, 0), progress)?;
        let (above, order): (_, Vec<u32>) = order.into_iter().unzip();
        let blocks = InBlocks::new(&points, &metric, &order);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, order, above, nodes, leaf, blocks })
    }

    /// The leaf size of the tree that [`build`](Self::build) makes of these points: larger where
    /// the metric has [blocks](Metric::blocks).
    pub fn leaf_size(points: &S, metric: &M) -> u32 {
        if InBlocks::exist(points, metric) { LEAF_IN_BLOCKS } else { LEAF }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as sorting gives them")]
fn by_distance(a: &Placed, b: &Placed) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// The number of nodes of a tree of `count` points: nodes are split by rank, so their sizes are known.
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

/// Makes a node of some places of the order, and the nodes below it; both with the number of the first.
fn cut<S: Points, M: Metric<S::Point>>(
    (points, metric): (&S, &M),
    leaf: u32,
    (order, place): (&mut [Placed], usize),
    (nodes, first): (&mut [Node], usize),
    progress: &Progress<'_>,
) -> Result<(), Error> {
    let Some((node, below)) = nodes.split_first_mut() else { return Ok(()) };
    node.places = number(place)..number(place + order.len());
    if order.len() <= leaf as usize {
        order.sort_unstable_by(by_distance);
        progress.add(order.len() as u64);
        return Ok(());
    }
    // The last point becomes the first; the others get their distances from it.
    order.swap(0, order.len() - 1);
    let (vantage, others) = order.split_first_mut().expect("a node has points");
    let from = FromPoint::new(points, metric, vantage.1);
    for (distance, point) in others.iter_mut() {
        *distance = from.to(*point)?;
    }
    progress.add(1);
    let half = others.len() / 2;
    partition(others, half, by_distance);
    let (inner, outer) = others.split_at_mut(half);
    let (inner_nodes, outer_nodes) = below.split_at_mut(nodes_of(half, leaf));
    let (inner_first, outer_first) = (first + 1, first + 1 + inner_nodes.len());
    let side = |points: &[Placed], node: usize| Side {
        node: number(node),
        low: points.iter().map(|&(distance, _)| distance).fold(f32::INFINITY, f32::min),
        high: points.iter().map(|&(distance, _)| distance).fold(0.0, f32::max),
    };
    node.sides = Some([side(inner, inner_first), side(outer, outer_first)]);
    let (a, b) = rayon::join(
        || cut((points, metric), leaf, (inner, place + 1), (inner_nodes, inner_first), progress),
        || {
            cut(
                (points, metric),
                leaf,
                (outer, place + 1 + half),
                (outer_nodes, outer_first),
                progress,
            )
        },
    );
    a.and(b)
}

impl<S: Points, M: Metric<S::Point>> VpTree<S, M> {
    /// The places of a leaf that are not excluded by their distances from the vantage point above, which rise. The query's
    /// is `distance`, NaN if there is no vantage point above.
    fn near(&self, leaf: &Node, distance: f32, radius: f32) -> Range<u32> {
        if distance.is_nan() {
            return leaf.places.clone();
        }
        let above = &self.above[leaf.places.start as usize..leaf.places.end as usize];
        let near = self.bounds.near(above, distance, radius);
        leaf.places.start + number(near.start)..leaf.places.start + number(near.end)
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
            // No vantage point is above the root: this distance excludes nothing.
            tasks.push(Task::new(0, 0.0, f32::NAN));
        }
        Box::default()
    }

    /// `distance` is that of the query from the vantage point above the node.
    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let node = &self.nodes[task.region as usize];
        let Some(sides) = node.sides else {
            let places = self.near(node, task.distance, probe.radius());
            let start = places.start.max(node.places.start + task.at);
            let left = probe.visit_places(start..places.end, &self.order);
            if left < places.end {
                tasks.push(Task { at: left - node.places.start, ..task });
            }
            return;
        };
        if probe.is_exhausted() {
            tasks.push(task);
            return;
        }
        let distance = probe.visit(self.order[node.places.start as usize]);
        // The side that is nearer comes first, which is the last; of equal ones that with the nearer middle.
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

impl<S: Points, M: Metric<S::Point>> Stored for VpTree<S, M> {
    fn name(&self) -> &'static str {
        "vp-tree"
    }

    fn kind(&self) -> Kind {
        Kind::VpTree
    }

    fn reads(name: &str) -> bool {
        name == "vp-tree"
    }

    /// The shape of the tree follows from the number of points.
    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        let sides = || self.nodes.iter().filter_map(|node| node.sides).flatten();
        parts.number("leaf", self.leaf.into());
        parts.array("order", &self.order);
        parts.array("distances", &self.above);
        parts.made("sides.low", sides().map(|side| side.low));
        parts.made("sides.high", sides().map(|side| side.high));
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let leaf = file.leaf()?;
        let order = file.array_of::<u32>("order", points.len())?.to_vec();
        let mut once = Once::of("order", points.len());
        order.iter().try_for_each(|&point| once.check(point))?;
        let above = file.array_of::<f32>("distances", points.len())?.to_vec();
        distances(&above, "distances")?;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        shape(points.len(), leaf, 0, (&mut nodes, 0));
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
            let places = leaf.places.start as usize..leaf.places.end as usize;
            if !above[places].is_sorted() {
                return Err(invalid("distances", "the distances of a leaf do not rise"));
            }
        }
        let blocks = InBlocks::new(&points, &metric, &order);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, order, above, nodes, leaf, blocks })
    }
}

/// The nodes of a tree of `count` points, without distances.
fn shape(count: usize, leaf: u32, place: usize, (nodes, first): (&mut [Node], usize)) {
    let Some((node, below)) = nodes.split_first_mut() else { return };
    node.places = number(place)..number(place + count);
    if count <= leaf as usize {
        return;
    }
    let half = (count - 1) / 2;
    let (inner, outer) = below.split_at_mut(nodes_of(half, leaf));
    let (inner_first, outer_first) = (first + 1, first + 1 + inner.len());
    let side = |node: usize| Side { node: number(node), ..Side::default() };
    node.sides = Some([side(inner_first), side(outer_first)]);
    shape(half, leaf, place + 1, (inner, inner_first));
    shape(count - 1 - half, leaf, place + 1 + half, (outer, outer_first));
}
