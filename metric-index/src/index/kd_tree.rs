//! KD-tree (Bentley 1975; used by Karelis 2020).

use std::ops::Range;

mod layout;

pub use layout::KdLayout;

use super::{Index, Kind, PointBlocks, Probe, Progress, Task, check, partition};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Coordinates, Metric};
use crate::points::Points;
use crate::stored::{DistinctNumbers, FileContents, Reader, StoreProblem, StoredIndex};

/// Maximum number of points of a leaf.
const LEAF: u32 = 32;
/// The same for metrics with blocks: there, a few more distances cost less than a node.
const LEAF_IN_BLOCKS: u32 = 64;

#[derive(Debug, Clone, Default)]
struct Node {
    /// The positions of its points in the order of the tree.
    positions: Range<u32>,
    /// The nodes of its halves; `None` for a leaf.
    halves: Option<[u32; 2]>,
    /// The coordinate that separates the halves.
    axis: u32,
    /// A value of that coordinate between the halves.
    split: f32,
}

/// A balanced tree of vectors. Each node is split at the median of the coordinate with the widest
/// spread, and stores the bounding box of its points.
///
/// ```
/// use metric_index::index::{Index, KdTree};
/// use metric_index::metric::Chebyshev;
/// use metric_index::points::Vectors;
///
/// let plane = Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0], 2)?;
/// assert_eq!(KdTree::build(plane, Chebyshev)?.nearest(&[5.0, 8.0], 1)?[0].point, 2);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct KdTree<S: Points, M> {
    points: S,
    metric: M,
    dimension: usize,
    order: Vec<u32>,
    nodes: Vec<Node>,
    /// Maximum number of points of a leaf.
    leaf: u32,
    blocks: PointBlocks<S>,
    /// The box of node i is `boxes[2 i dimension ..]`: the minimum coordinates, then the maximum.
    boxes: Vec<f32>,
}

impl<S: Points, M: Metric<S::Point>> KdTree<S, M> {
    /// Builds the tree, both halves of a node in parallel. The only distances it evaluates are
    /// those of the points from themselves. Halves keep the order of their points, so the same
    /// points give the same tree with any number of threads.
    ///
    /// # Errors
    /// If the metric has no [coordinates](Metric::coordinates), the distance of a point from itself
    /// is not 0, or the points differ in dimension.
    ///
    /// ```
    /// use metric_index::index::{Index, KdTree};
    /// use metric_index::metric::Euclidean;
    /// use metric_index::points::Vectors;
    ///
    /// let plane = Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0], 2)?;
    /// assert_eq!(KdTree::build(plane, Euclidean)?.nearest(&[3.0, 3.0], 1)?[0].distance, 1.0);
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
    /// use metric_index::index::{Index, KdTree, Progress};
    /// use metric_index::metric::Euclidean;
    /// use metric_index::points::Vectors;
    ///
    /// let plane = Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0], 2)?;
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// assert_eq!(KdTree::build_with(plane, Euclidean, &Progress::new(&report))?.nodes(), 1);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with(points: S, metric: M, progress: &Progress<'_>) -> Result<Self, Error> {
        let count = check(&points, &metric)?;
        let leaf = Self::leaf_size(&points, &metric);
        let coordinates = metric.coordinates().ok_or(Error::NoCoordinates)?;
        let dimension = dimension_of(&points, coordinates)?;
        let mut order: Vec<u32> = (0..count).collect();
        let mut nodes = vec![Node::default(); nodes_of(order.len(), leaf)];
        let mut boxes = vec![0.0; nodes.len() * 2 * dimension];
        progress.begin(u64::from(count));
        let builder = Builder { points: &points, coordinates, dimension, leaf, progress };
        builder.build(Subtree {
            order: &mut order,
            start: 0,
            nodes: &mut nodes,
            boxes: &mut boxes,
            first: 0,
        });
        split(&mut nodes, &boxes, dimension);
        let blocks = PointBlocks::new(&points, &metric, &order);
        Ok(Self { points, metric, dimension, order, nodes, leaf, blocks, boxes })
    }

    /// The leaf size of the tree that [`build`](Self::build) makes of these points; larger if the
    /// metric has [blocks](Metric::blocks).
    pub fn leaf_size(points: &S, metric: &M) -> u32 {
        if PointBlocks::exist(points, metric) { LEAF_IN_BLOCKS } else { LEAF }
    }
}

/// The common dimension of all points.
fn dimension_of<S: Points>(
    points: &S,
    coordinates: &dyn Coordinates<S::Point>,
) -> Result<usize, Error> {
    let dimension = if points.is_empty() { 0 } else { coordinates.of(points.point(0)).len() };
    for point in 0..number(points.len()) {
        let values = coordinates.of(points.point(point)).len();
        if values != dimension {
            return Err(Error::Shape { values, dimension });
        }
    }
    Ok(dimension)
}

/// Number of nodes of a tree of `count` points.
fn nodes_of(count: usize, leaf: u32) -> usize {
    match count {
        0 => 0,
        _ if count <= leaf as usize => 1,
        _ => 1 + nodes_of(count / 2, leaf) + nodes_of(count - count / 2, leaf),
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32 points")
}

/// The inputs that all nodes of a tree under construction share.
struct Builder<'a, S: Points> {
    points: &'a S,
    coordinates: &'a dyn Coordinates<S::Point>,
    dimension: usize,
    leaf: u32,
    progress: &'a Progress<'a>,
}

/// A node under construction with all nodes below it.
struct Subtree<'a> {
    /// The points of the node, which are rearranged.
    order: &'a mut [u32],
    /// The position of the first point in the order of the tree.
    start: usize,
    nodes: &'a mut [Node],
    boxes: &'a mut [f32],
    /// The number of the node.
    first: usize,
}

impl<S: Points> Builder<'_, S> {
    fn build(&self, subtree: Subtree<'_>) {
        let Subtree { order, start, nodes, boxes, first } = subtree;
        let dimension = self.dimension;
        let Some((node, below)) = nodes.split_first_mut() else { return };
        let (own, boxes) = boxes.split_at_mut(2 * dimension);
        node.positions = number(start)..number(start + order.len());
        let (low, high) = own.split_at_mut(dimension);
        low.fill(f32::INFINITY);
        high.fill(f32::NEG_INFINITY);
        for &point in &*order {
            let values = self.coordinates.of(self.points.point(point));
            for ((low, high), &value) in low.iter_mut().zip(&mut *high).zip(values) {
                *low = low.min(value);
                *high = high.max(value);
            }
        }
        // Turns negative zeros into positive ones: `min` and `max` may return either zero.
        low.iter_mut().chain(&mut *high).for_each(|value| *value += 0.0);
        if order.len() <= self.leaf as usize {
            self.progress.add(order.len() as u64);
            return;
        }
        let axis = widest(low, high);
        let value = |point: u32| {
            self.coordinates.of(self.points.point(point)).get(axis).copied().unwrap_or(0.0)
        };
        let half = order.len() / 2;
        partition(order, half, |&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
        let (left, right) = order.split_at_mut(half);
        let (left_nodes, right_nodes) = below.split_at_mut(nodes_of(half, self.leaf));
        let (left_boxes, right_boxes) = boxes.split_at_mut(left_nodes.len() * 2 * dimension);
        let left_first = first + 1;
        let right_first = left_first + left_nodes.len();
        node.halves = Some([number(left_first), number(right_first)]);
        let left =
            Subtree { order: left, start, nodes: left_nodes, boxes: left_boxes, first: left_first };
        let right = Subtree {
            order: right,
            start: start + half,
            nodes: right_nodes,
            boxes: right_boxes,
            first: right_first,
        };
        rayon::join(|| self.build(left), || self.build(right));
    }
}

impl<S: Points, M: Metric<S::Point>> KdTree<S, M> {
    fn coordinates(&self) -> &dyn Coordinates<S::Point> {
        self.metric.coordinates().expect("a tree without coordinates is neither built nor opened")
    }

    /// A lower bound of the distance of a query from the points of a node.
    fn bound(&self, query: &[f32], node: u32) -> f32 {
        let size = self.dimension;
        let (low, high) = self.boxes[node as usize * 2 * size..][..2 * size].split_at(size);
        self.coordinates().bound_from_box(query, low, high)
    }
}

impl<S: Points, M: Metric<S::Point>> Index for KdTree<S, M> {
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
            tasks.push(Task::new(0, 0.0, 0.0));
        }
        Box::default()
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let node = &self.nodes[task.region as usize];
        // A query of another dimension is sent to a leaf, where its distance from a point is
        // invalid.
        let query = self.coordinates().of(probe.query());
        let halves = node.halves.filter(|_| query.len() == self.dimension);
        if let Some(halves) = halves {
            let [left, right] = halves;
            // All vectors without coordinates are equal.
            let value = query.get(node.axis as usize).copied().unwrap_or(0.0);
            let (near, far) = if value < node.split { (left, right) } else { (right, left) };
            let radius = probe.radius();
            let bound = self.bound(query, far);
            if bound <= radius {
                tasks.push(Task::new(far, bound, 0.0));
            }
            // The nearer half is pushed last, so it is processed first.
            let bound = if self.nodes[near as usize].halves.is_some() {
                task.bound
            } else {
                self.bound(query, near)
            };
            if bound <= radius {
                tasks.push(Task::new(near, bound, 0.0));
            }
            return;
        }
        let positions = node.positions.start + task.at..node.positions.end;
        let next = probe.visit_positions(positions, &self.order);
        if next < node.positions.end {
            tasks.push(Task { at: next - node.positions.start, ..task });
        }
    }
}

impl<S: Points, M: Metric<S::Point>> StoredIndex for KdTree<S, M> {
    fn name(&self) -> &'static str {
        "kd-tree"
    }

    fn kind(&self) -> Kind {
        Kind::KdTree
    }

    fn reads(name: &str) -> bool {
        name == "kd-tree"
    }

    /// Writes no nodes: the shape of the tree follows from the number of points.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.number("leaf", self.leaf.into());
        contents.array("order", &self.order);
        contents.array("boxes", &self.boxes);
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let coordinates = metric.coordinates().ok_or(Error::NoCoordinates)?;
        let dimension = dimension_of(&points, coordinates)?;
        let leaf = file.leaf()?;
        let order = file.array_of::<u32>("order", points.len())?.to_vec();
        let mut distinct = DistinctNumbers::of("order", points.len());
        order.iter().try_for_each(|&point| distinct.check(point))?;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        shape(points.len(), leaf, 0, &mut nodes, 0);
        let boxes = file.array_of("boxes", nodes.len() * 2 * dimension)?.to_vec();
        split(&mut nodes, &boxes, dimension);
        let blocks = PointBlocks::new(&points, &metric, &order);
        Ok(Self { points, metric, dimension, order, nodes, leaf, blocks, boxes })
    }
}

/// The coordinate in which a box is widest.
fn widest(low: &[f32], high: &[f32]) -> usize {
    let spread = |axis: usize| f64::from(high[axis]) - f64::from(low[axis]);
    let wider = |&a: &usize, &b: &usize| spread(a).total_cmp(&spread(b)).then(b.cmp(&a));
    (0..low.len()).max_by(wider).unwrap_or(0)
}

/// Derives the split of each node from the boxes.
fn split(nodes: &mut [Node], boxes: &[f32], dimension: usize) {
    let of = |node: usize| boxes[2 * dimension * node..][..2 * dimension].split_at(dimension);
    for (at, node) in nodes.iter_mut().enumerate() {
        let Some([left, right]) = node.halves else { continue };
        let (low, high) = of(at);
        let axis = widest(low, high);
        let value = |side: &[f32]| side.get(axis).copied().unwrap_or(0.0);
        node.axis = number(axis);
        node.split = f32::midpoint(value(of(left as usize).1), value(of(right as usize).0));
    }
}

/// Fills in the nodes of a tree of `count` points from position `start`. The root has the number
/// `first`.
fn shape(count: usize, leaf: u32, start: usize, nodes: &mut [Node], first: usize) {
    let Some((node, below)) = nodes.split_first_mut() else { return };
    node.positions = number(start)..number(start + count);
    if count <= leaf as usize {
        return;
    }
    let half = count / 2;
    let (left, right) = below.split_at_mut(nodes_of(half, leaf));
    let left_first = first + 1;
    let right_first = left_first + left.len();
    node.halves = Some([number(left_first), number(right_first)]);
    shape(half, leaf, start, left, left_first);
    shape(count - half, leaf, start + half, right, right_first);
}
