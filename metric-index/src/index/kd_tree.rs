//! KD-tree (Bentley 1975; Karelis 2020).

use std::ops::Range;

mod layout;

pub use layout::KdLayout;

use super::{InBlocks, Index, Kind, Probe, Progress, Task, check, partition};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Coordinates, Metric};
use crate::points::Points;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored};

/// Nodes of at most this many points are leaves.
const LEAF: u32 = 32;
/// The same where the metric has blocks: then a few more distances cost less than a node.
const LEAF_IN_BLOCKS: u32 = 64;

#[derive(Debug, Clone, Default)]
struct Node {
    /// Where its points stand in the order of the tree.
    places: Range<u32>,
    /// The nodes of its halves; none of a leaf.
    halves: Option<[u32; 2]>,
    /// The coordinate by which the halves differ, and a value between them.
    axis: u32,
    split: f32,
}

/// A balanced tree of vectors: each node is split at the median of the coordinate in which its points spread most, and
/// stores their bounding box.
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
    /// Nodes of at most this many points are leaves.
    leaf: u32,
    blocks: InBlocks<S>,
    /// The box of node i is `boxes[2 i dimension ..]`: the least coordinates, then the greatest.
    boxes: Vec<f32>,
}

impl<S: Points, M: Metric<S::Point>> KdTree<S, M> {
    /// Builds the tree, both halves in parallel. Evaluates no distances but that of each point from itself. Halves keep the
    /// order of their points, so the same points give the same tree with any number of threads.
    ///
    /// # Errors
    /// If the metric has no [coordinates](Metric::coordinates), or a point has no distance of 0 from itself or is of
    /// another dimension than the first.
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

    /// As [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// As [`build`](Self::build).
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
        cut(
            (&points, coordinates),
            (dimension, leaf),
            (&mut order, 0),
            (&mut nodes, &mut boxes, 0),
            progress,
        );
        split(&mut nodes, &boxes, dimension);
        let blocks = InBlocks::new(&points, &metric, &order);
        Ok(Self { points, metric, dimension, order, nodes, leaf, blocks, boxes })
    }

    /// The leaf size of the tree that [`build`](Self::build) makes of these points: larger where
    /// the metric has [blocks](Metric::blocks).
    pub fn leaf_size(points: &S, metric: &M) -> u32 {
        if InBlocks::exist(points, metric) { LEAF_IN_BLOCKS } else { LEAF }
    }
}

/// What all points have.
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

/// Makes a node of some places of the order, and the nodes below it; each with the number of the first.
fn cut<S: Points>(
    (points, coordinates): (&S, &dyn Coordinates<S::Point>),
    (dimension, leaf): (usize, u32),
    (order, place): (&mut [u32], usize),
    (nodes, boxes, first): (&mut [Node], &mut [f32], usize),
    progress: &Progress<'_>,
) {
    let Some((node, below)) = nodes.split_first_mut() else { return };
    let (own, boxes) = boxes.split_at_mut(2 * dimension);
    node.places = number(place)..number(place + order.len());
    let (low, high) = own.split_at_mut(dimension);
    low.fill(f32::INFINITY);
    high.fill(f32::NEG_INFINITY);
    for &point in &*order {
        let values = coordinates.of(points.point(point));
        for ((low, high), &value) in low.iter_mut().zip(&mut *high).zip(values) {
            *low = low.min(value);
            *high = high.max(value);
        }
    }
    // No negative zeros: which of two zeros is the least is not said.
    low.iter_mut().chain(&mut *high).for_each(|value| *value += 0.0);
    if order.len() <= leaf as usize {
        progress.add(order.len() as u64);
        return;
    }
    let axis = widest(low, high);
    let value = |point: u32| coordinates.of(points.point(point)).get(axis).copied().unwrap_or(0.0);
    let half = order.len() / 2;
    partition(order, half, |&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
    let (left, right) = order.split_at_mut(half);
    let (left_nodes, right_nodes) = below.split_at_mut(nodes_of(half, leaf));
    let (left_boxes, right_boxes) = boxes.split_at_mut(left_nodes.len() * 2 * dimension);
    let (left_first, right_first) = (first + 1, first + 1 + left_nodes.len());
    node.halves = Some([number(left_first), number(right_first)]);
    rayon::join(
        || {
            let below = (left_nodes, left_boxes, left_first);
            cut((points, coordinates), (dimension, leaf), (left, place), below, progress);
        },
        || {
            let below = (right_nodes, right_boxes, right_first);
            cut((points, coordinates), (dimension, leaf), (right, place + half), below, progress);
        },
    );
}

impl<S: Points, M: Metric<S::Point>> KdTree<S, M> {
    fn coordinates(&self) -> &dyn Coordinates<S::Point> {
        self.metric.coordinates().expect("a tree without coordinates is neither built nor opened")
    }

    /// How near a query can be to the points of a node.
    fn bound(&self, query: &[f32], node: u32) -> f32 {
        let (start, size) = (node as usize * 2 * self.dimension, self.dimension);
        let (low, high) =
            (&self.boxes[start..start + size], &self.boxes[start + size..start + 2 * size]);
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
        // A query of another dimension meets a point, which has no distance from it.
        let query = self.coordinates().of(probe.query());
        let halves = node.halves.filter(|_| query.len() == self.dimension);
        if let Some(halves) = halves {
            let [left, right] = halves;
            // Vectors without coordinates are all the same.
            let value = query.get(node.axis as usize).copied().unwrap_or(0.0);
            let (near, far) = if value < node.split { (left, right) } else { (right, left) };
            let radius = probe.radius();
            let bound = self.bound(query, far);
            if bound <= radius {
                tasks.push(Task::new(far, bound, 0.0));
            }
            // The nearer half comes first, which is the last.
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
        let places = node.places.start + task.at..node.places.end;
        let left = probe.visit_places(places, &self.order);
        if left < node.places.end {
            tasks.push(Task { at: left - node.places.start, ..task });
        }
    }
}

impl<S: Points, M: Metric<S::Point>> Stored for KdTree<S, M> {
    fn name(&self) -> &'static str {
        "kd-tree"
    }

    fn kind(&self) -> Kind {
        Kind::KdTree
    }

    fn reads(name: &str) -> bool {
        name == "kd-tree"
    }

    /// The shape of the tree follows from the number of points.
    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.number("leaf", self.leaf.into());
        parts.array("order", &self.order);
        parts.array("boxes", &self.boxes);
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let coordinates = metric.coordinates().ok_or(Error::NoCoordinates)?;
        let dimension = dimension_of(&points, coordinates)?;
        let leaf = file.leaf()?;
        let order = file.array_of::<u32>("order", points.len())?.to_vec();
        let mut once = Once::of("order", points.len());
        order.iter().try_for_each(|&point| once.check(point))?;
        let mut nodes = vec![Node::default(); nodes_of(points.len(), leaf)];
        shape(points.len(), leaf, 0, (&mut nodes, 0));
        let boxes = file.array_of("boxes", nodes.len() * 2 * dimension)?.to_vec();
        split(&mut nodes, &boxes, dimension);
        let blocks = InBlocks::new(&points, &metric, &order);
        Ok(Self { points, metric, dimension, order, nodes, leaf, blocks, boxes })
    }
}

/// The coordinate in which a box is widest.
fn widest(low: &[f32], high: &[f32]) -> usize {
    let spread = |axis: usize| f64::from(high[axis]) - f64::from(low[axis]);
    let wider = |&a: &usize, &b: &usize| spread(a).total_cmp(&spread(b)).then(b.cmp(&a));
    (0..low.len()).max_by(wider).unwrap_or(0)
}

/// Finds out from the boxes what each node was split by.
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

/// The nodes of a tree of `count` points.
fn shape(count: usize, leaf: u32, place: usize, (nodes, first): (&mut [Node], usize)) {
    let Some((node, below)) = nodes.split_first_mut() else { return };
    node.places = number(place)..number(place + count);
    if count <= leaf as usize {
        return;
    }
    let half = count / 2;
    let (left, right) = below.split_at_mut(nodes_of(half, leaf));
    let (left_first, right_first) = (first + 1, first + 1 + left.len());
    node.halves = Some([number(left_first), number(right_first)]);
    shape(half, leaf, place, (left, left_first));
    shape(count - half, leaf, place + half, (right, right_first));
}
