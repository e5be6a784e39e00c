//! KD-tree (Bentley 1975; used by Karelis 2020).

use std::ops::Range;

use super::{
    Halving, PointBlocks, PointIndex, Probe, Progress, Space, Structure, Task, of_kind, partition,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Coordinates, Metric};
use crate::points::Points;
use crate::stored::{FileContents, Reader, StoreProblem, check_permutation};

/// Maximum number of points per leaf.
const LEAF_SIZE: u32 = 32;
/// Maximum number of points per leaf if the metric has blocks. A few more distances then cost less
/// than another node.
const BLOCK_LEAF_SIZE: u32 = 64;

#[derive(Debug, Clone)]
struct Node {
    /// The positions of the node's points in the order of the tree.
    positions: Range<u32>,
    /// The nodes of the halves; `None` for a leaf.
    halves: Option<[u32; 2]>,
    /// The coordinate that separates the halves.
    axis: u32,
    /// A value of that coordinate between the halves.
    split: f32,
}

impl Node {
    fn new(positions: Range<u32>, halves: Option<[u32; 2]>) -> Self {
        Self { positions, halves, axis: 0, split: 0.0 }
    }
}

/// A balanced tree of vectors. Each node is split at the median of the coordinate with the widest
/// range, and stores the bounding box of its points.
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
pub type KdTree<S, M> = PointIndex<S, M, KdNodes<S>>;

/// The nodes of a [`KdTree`].
#[derive(Debug, Clone)]
pub struct KdNodes<S: Points> {
    dimension: usize,
    order: Vec<u32>,
    nodes: Vec<Node>,
    /// Maximum number of points per leaf.
    leaf: u32,
    blocks: PointBlocks<S>,
    /// The bounding box of node i begins at `boxes[2 i dimension]`: the minimum coordinates, then
    /// the maximum coordinates.
    boxes: Vec<f32>,
}

impl<S: Points, M: Metric<S::Point>> KdTree<S, M> {
    /// Builds the tree, with both halves of a node in parallel. Evaluates only the distance from
    /// each point to itself. Halves keep the order of their points, so the same points give the
    /// same tree for any number of threads.
    ///
    /// # Errors
    /// Fails if the metric has no [coordinates](Metric::coordinates), the distance from a point to
    /// itself is not 0, or the points differ in dimension.
    pub fn build(points: S, metric: M) -> Result<Self, Error> {
        Self::build_with(points, metric, (), &Progress::none())
    }

    /// Returns the leaf size of the tree that [`build`](Self::build) creates for these points. It
    /// is larger if the metric has [blocks](Metric::blocks).
    pub fn leaf_size(points: &S, metric: &M) -> u32 {
        if PointBlocks::are_supported(points, metric) { BLOCK_LEAF_SIZE } else { LEAF_SIZE }
    }

    /// Returns the tree as arrays.
    pub fn layout(&self) -> KdLayout {
        let KdNodes { leaf, order, boxes, .. } = &self.structure;
        KdLayout { leaf_size: *leaf, order: order.clone(), boxes: boxes.clone() }
    }

    /// Creates a tree from arrays that were built elsewhere. If a box does not contain the points
    /// of its node, answers are wrong.
    ///
    /// # Errors
    /// Fails like [`build`](Self::build).
    ///
    /// # Panics
    /// Panics if the lengths of the arrays do not match the number of points, or if `order` is not
    /// a permutation of the points.
    pub fn from_layout(points: S, metric: M, layout: KdLayout) -> Result<Self, Error> {
        let space = Space::new(points, metric)?;
        let dimension = dimension_of(&space)?;
        let count = space.points.len();
        let values = halving(layout.leaf_size).nodes(count) * 2 * dimension;
        assert_eq!(layout.boxes.len(), values, "coordinates of boxes");
        check_permutation(&layout.order, count, "order")
            .expect("`order` is a permutation of the points");
        let structure = KdNodes::new(&space, dimension, layout);
        Ok(Self::of_structure(space, (), structure))
    }
}

/// A KD-tree as arrays, for exchange with code that builds or searches trees elsewhere, such as on
/// a GPU.
///
/// The number of points and `leaf_size` determine the shape. A node of `n` points is a leaf if
/// `n <= leaf_size`. Otherwise its first `n / 2` points in `order` are its first half, and the rest
/// are its second half. Nodes are numbered in preorder: a node, then its first half, then its
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
    /// For each node, the minimum coordinates of its points, then the maximum coordinates.
    pub boxes: Vec<f32>,
}

/// Returns the parameters of a tree that divides all points of a node between its two children.
fn halving(leaf: u32) -> Halving {
    Halving { leaf, own: 0 }
}

/// Returns the common dimension of all points.
fn dimension_of<S: Points, M: Metric<S::Point>>(space: &Space<S, M>) -> Result<usize, Error> {
    let coordinates = space.metric.coordinates().ok_or(Error::NoCoordinates)?;
    let mut dimension = None;
    for point in 0..space.count() {
        let values = coordinates.of(space.points.point(point)).len();
        let dimension = *dimension.get_or_insert(values);
        if values != dimension {
            return Err(Error::Shape { values, dimension });
        }
    }
    Ok(dimension.unwrap_or(0))
}

/// The inputs that all nodes of a tree under construction share.
struct Builder<'a, S: Points> {
    points: &'a S,
    coordinates: &'a dyn Coordinates<S::Point>,
    dimension: usize,
    progress: &'a Progress<'a>,
}

/// A node under construction with all nodes below it.
struct Subtree<'a> {
    /// The points of the node, which are rearranged.
    order: &'a mut [u32],
    nodes: &'a [Node],
    boxes: &'a mut [f32],
}

impl<S: Points> Builder<'_, S> {
    fn build(&self, subtree: Subtree<'_>) {
        let Subtree { order, nodes, boxes } = subtree;
        let dimension = self.dimension;
        let Some((node, below)) = nodes.split_first() else { return };
        let (own, boxes) = boxes.split_at_mut(2 * dimension);
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
        // Replace negative zeros with positive zeros, because `min` and `max` may return either.
        low.iter_mut().chain(&mut *high).for_each(|value| *value += 0.0);
        let Some([left, right]) = node.halves else {
            self.progress.add(order.len() as u64);
            return;
        };
        let axis = widest_axis(low, high);
        let value = |point: u32| {
            self.coordinates.of(self.points.point(point)).get(axis).copied().unwrap_or(0.0)
        };
        let half = order.len() / 2;
        partition(order, half, |&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
        let (left_order, right_order) = order.split_at_mut(half);
        let (left_nodes, right_nodes) = below.split_at((right - left) as usize);
        let (left_boxes, right_boxes) = boxes.split_at_mut(left_nodes.len() * 2 * dimension);
        let left = Subtree { order: left_order, nodes: left_nodes, boxes: left_boxes };
        let right = Subtree { order: right_order, nodes: right_nodes, boxes: right_boxes };
        rayon::join(|| self.build(left), || self.build(right));
    }
}

impl<S: Points> KdNodes<S> {
    fn new(space: &Space<S, impl Metric<S::Point>>, dimension: usize, layout: KdLayout) -> Self {
        let KdLayout { leaf_size: leaf, order, boxes } = layout;
        let mut nodes = halving(leaf).shape(order.len(), Node::new);
        set_splits(&mut nodes, &boxes, dimension);
        let blocks = PointBlocks::new(space, &order);
        Self { dimension, order, nodes, leaf, blocks, boxes }
    }

    /// Returns a lower bound on the distances from a query to the points of a node.
    fn bound(&self, coordinates: &dyn Coordinates<S::Point>, query: &[f32], node: u32) -> f32 {
        let size = self.dimension;
        let (low, high) = self.boxes[node as usize * 2 * size..][..2 * size].split_at(size);
        coordinates.bound_from_box(query, low, high)
    }
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for KdNodes<S> {
    of_kind!(KdTree);

    fn build(space: &Space<S, M>, _options: (), progress: &Progress<'_>) -> Result<Self, Error> {
        let coordinates = space.metric.coordinates().ok_or(Error::NoCoordinates)?;
        let dimension = dimension_of(space)?;
        let leaf_size = KdTree::leaf_size(&space.points, &space.metric);
        let mut order = space.numbers();
        let nodes = halving(leaf_size).shape(order.len(), Node::new);
        let mut boxes = vec![0.0; nodes.len() * 2 * dimension];
        progress.begin(order.len() as u64);
        let builder = Builder { points: &space.points, coordinates, dimension, progress };
        builder.build(Subtree { order: &mut order, nodes: &nodes, boxes: &mut boxes });
        Ok(Self::new(space, dimension, KdLayout { leaf_size, order, boxes }))
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn blocks(&self, _: &Space<S, M>) -> Option<&dyn Blocks<S::Point>> {
        self.blocks.get()
    }

    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let node = &self.nodes[task.region as usize];
        // A query of a different dimension is compared with all points of the node. Its distances
        // are invalid, so it fails.
        let coordinates = space.metric.coordinates().expect("checked when the tree was built");
        let query = coordinates.of(probe.query());
        let halves = node.halves.filter(|_| query.len() == self.dimension);
        if let Some(halves) = halves {
            let [left, right] = halves;
            // Vectors without coordinates are all equal.
            let value = query.get(node.axis as usize).copied().unwrap_or(0.0);
            let (near, far) = if value < node.split { (left, right) } else { (right, left) };
            let radius = probe.radius();
            let bound = self.bound(coordinates, query, far);
            if bound <= radius {
                tasks.push(Task::new(far, bound, 0.0));
            }
            // The nearer half is pushed last, so it is processed first.
            let bound = if self.nodes[near as usize].halves.is_some() {
                task.bound
            } else {
                self.bound(coordinates, query, near)
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

    /// Writes no nodes, because the number of points determines the shape of the tree.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.number("leaf", self.leaf.into());
        contents.array("order", &self.order);
        contents.array("boxes", &self.boxes);
    }

    fn read(file: &mut Reader, space: &Space<S, M>, _options: ()) -> Result<Self, StoreProblem> {
        let dimension = dimension_of(space)?;
        let leaf_size = file.leaf_size()?;
        let order = file.permutation("order", space.points.len())?.to_vec();
        let values = halving(leaf_size).nodes(order.len()) * 2 * dimension;
        let boxes = file.array_of("boxes", values)?.to_vec();
        Ok(Self::new(space, dimension, KdLayout { leaf_size, order, boxes }))
    }
}

/// Returns the coordinate in which a box is widest.
fn widest_axis(low: &[f32], high: &[f32]) -> usize {
    let width = |axis: usize| f64::from(high[axis]) - f64::from(low[axis]);
    let by_width = |&a: &usize, &b: &usize| width(a).total_cmp(&width(b)).then(b.cmp(&a));
    (0..low.len()).max_by(by_width).unwrap_or(0)
}

/// Sets the axis and the split value of each node from the boxes.
fn set_splits(nodes: &mut [Node], boxes: &[f32], dimension: usize) {
    let box_of = |node: usize| boxes[2 * dimension * node..][..2 * dimension].split_at(dimension);
    for (number, node) in nodes.iter_mut().enumerate() {
        let Some([left, right]) = node.halves else { continue };
        let (low, high) = box_of(number);
        let axis = widest_axis(low, high);
        let value = |side: &[f32]| side.get(axis).copied().unwrap_or(0.0);
        node.axis = u32::try_from(axis).expect("a box has two coordinates per axis");
        node.split = f32::midpoint(value(box_of(left as usize).1), value(box_of(right as usize).0));
    }
}
