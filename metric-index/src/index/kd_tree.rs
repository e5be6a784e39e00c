//! KD-tree (Bentley 1975; Karelis 2020).

use std::ops::Range;

use super::{Index, Kind, Probe, Progress, Task, check, partition};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Coordinates, Metric};
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored};

/// Nodes of at most this many points are leaves.
const LEAF: usize = 32;

#[derive(Debug, Clone, Default)]
struct Node {
    /// Where its points stand in the order of the tree.
    places: Range<u32>,
    /// The nodes of its halves; none of a leaf.
    halves: Option<[u32; 2]>,
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
pub struct KdTree<S, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    dimension: usize,
    order: Vec<u32>,
    nodes: Vec<Node>,
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
        let coordinates = metric.coordinates().ok_or(Error::NoCoordinates)?;
        let dimension = dimension_of(&points, coordinates)?;
        let mut order: Vec<u32> = (0..count).collect();
        let mut nodes = vec![Node::default(); nodes_of(order.len())];
        let mut boxes = vec![0.0; nodes.len() * 2 * dimension];
        progress.begin(u64::from(count));
        cut(
            (&points, coordinates),
            dimension,
            (&mut order, 0),
            (&mut nodes, &mut boxes, 0),
            progress,
        );
        Ok(Self { bounds: Bounds::of(&metric), points, metric, dimension, order, nodes, boxes })
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

fn nodes_of(count: usize) -> usize {
    match count {
        0 => 0,
        1..=LEAF => 1,
        _ => 1 + nodes_of(count / 2) + nodes_of(count - count / 2),
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32 points")
}

/// Makes a node of some places of the order, and the nodes below it; each with the number of the first.
fn cut<S: Points>(
    (points, coordinates): (&S, &dyn Coordinates<S::Point>),
    dimension: usize,
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
    if order.len() <= LEAF {
        progress.add(order.len() as u64);
        return;
    }
    let spread = |axis: usize| f64::from(high[axis]) - f64::from(low[axis]);
    let wider = |&a: &usize, &b: &usize| spread(a).total_cmp(&spread(b)).then(b.cmp(&a));
    let axis = (0..dimension).max_by(wider).unwrap_or(0);
    let value = |point: u32| coordinates.of(points.point(point)).get(axis).copied().unwrap_or(0.0);
    let half = order.len() / 2;
    partition(order, half, |&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
    let (left, right) = order.split_at_mut(half);
    let (left_nodes, right_nodes) = below.split_at_mut(nodes_of(half));
    let (left_boxes, right_boxes) = boxes.split_at_mut(left_nodes.len() * 2 * dimension);
    let (left_first, right_first) = (first + 1, first + 1 + left_nodes.len());
    node.halves = Some([number(left_first), number(right_first)]);
    rayon::join(
        || {
            let below = (left_nodes, left_boxes, left_first);
            cut((points, coordinates), dimension, (left, place), below, progress);
        },
        || {
            let below = (right_nodes, right_boxes, right_first);
            cut((points, coordinates), dimension, (right, place + half), below, progress);
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
        let distance = self.coordinates().distance_from_box(query, low, high);
        // The nearest point of the box is no nearer than any of its points.
        self.bounds.gap(distance, 0.0)
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
            let mut bounds = halves.map(|half| (self.bound(query, half), half));
            // The nearer half comes first, which is the last.
            bounds.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            for (bound, region) in bounds {
                if bound <= probe.radius() {
                    tasks.push(Task::new(region, bound, 0.0));
                }
            }
            return;
        }
        for place in node.places.start + task.at..node.places.end {
            if probe.is_exhausted() {
                tasks.push(Task { at: place - node.places.start, ..task });
                return;
            }
            probe.visit_within(self.order[place as usize]);
        }
    }
}

impl<S: Points, M: Metric<S::Point>> Stored for KdTree<S, M> {
    fn name(&self) -> &'static str {
        "kd-tree"
    }

    fn kind(&self) -> Option<Kind> {
        Some(Kind::KdTree)
    }

    fn reads(name: &str) -> bool {
        name == "kd-tree"
    }

    /// The shape of the tree follows from the number of points.
    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.array("order", &self.order);
        parts.array("boxes", &self.boxes);
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let coordinates = metric.coordinates().ok_or(Error::NoCoordinates)?;
        let dimension = dimension_of(&points, coordinates)?;
        let order = file.array_of::<u32>("order", points.len())?.to_vec();
        let mut once = Once::of("order", points.len());
        order.iter().try_for_each(|&point| once.check(point))?;
        let mut nodes = vec![Node::default(); nodes_of(points.len())];
        shape(points.len(), 0, (&mut nodes, 0));
        let boxes = file.array_of("boxes", nodes.len() * 2 * dimension)?.to_vec();
        Ok(Self { bounds: Bounds::of(&metric), points, metric, dimension, order, nodes, boxes })
    }
}

/// The nodes of a tree of `count` points.
fn shape(count: usize, place: usize, (nodes, first): (&mut [Node], usize)) {
    let Some((node, below)) = nodes.split_first_mut() else { return };
    node.places = number(place)..number(place + count);
    if count <= LEAF {
        return;
    }
    let half = count / 2;
    let (left, right) = below.split_at_mut(nodes_of(half));
    let (left_first, right_first) = (first + 1, first + 1 + left.len());
    node.halves = Some([number(left_first), number(right_first)]);
    shape(half, place, (left, left_first));
    shape(count - half, place + half, (right, right_first));
}
