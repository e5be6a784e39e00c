//! VP-trees and KD-trees that are built and searched on a GPU, following Karelis 2020.
//!
//! A tree is built level by level, with all nodes of a level in parallel. One thread answers a
//! query. The trees are identical to the trees that the CPU builds, including the bytes of their
//! files. The command `metric-index bench karelis` repeats the measurements.
//!
//! The paper sorts all points twice per level. Here, a radix selection finds the median of each
//! node, and prefix sums determine the new positions of the points.

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DevicePtr, GpuError};

use crate::gpu::{LaunchResult, are_finite, empty_lists, lists_of, zeros};
use metric_index::error::Error;
use metric_index::index::{Index, KdLayout, KdTree, VpLayout, VpTree};
use metric_index::lists::NeighborLists;
use metric_index::metric::Euclidean;
use metric_index::points::{Points, Vectors};
use metric_index::prune::Bounds;

mod launch;

use launch::{ErrorBounds, Kernels, Level, Partition, Search, SearchBuffers, Tree};

/// A tree, with the GPU time that building it took.
#[derive(Debug, Clone)]
pub struct TimedTree<T> {
    /// The tree.
    pub tree: T,
    /// The time in kernels, in seconds; 0 if the CPU built the tree.
    pub seconds: f64,
}

/// A built tree, or the reason why the points are invalid.
pub type BuildResult<T> = Result<TimedTree<T>, Error>;

/// Builds a VP-tree on a GPU, identical to the tree of [`VpTree::build`].
///
/// ```
/// use metric_index::gpu::Device;
/// use metric_papers::karelis;
/// use metric_index::index::Index;
/// use metric_index::points::Vectors;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let points = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
///     let built = karelis::build_vp_tree(&device, points)??;
///     assert_eq!(built.tree.nearest(&[3.0, 3.0], 1)?[0].point, 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the GPU fails.
pub fn build_vp_tree(
    device: &Device,
    points: Vectors<f32>,
) -> Result<BuildResult<VpTree<Vectors<f32>, Euclidean>>, GpuError> {
    let Some(count) = count_of(&points) else {
        // The CPU reports which point is invalid.
        return Ok(VpTree::build(points, Euclidean).map(|tree| TimedTree { tree, seconds: 0.0 }));
    };
    let leaf = VpTree::leaf_size(&points, &Euclidean);
    let mut builder = Builder::new(device, &points, count, 1)?;
    let mut sides = vec![[0f32; 4]; nodes_below(count, leaf, 1) as usize];
    builder.build_levels(count, leaf, |builder, level, nodes| {
        builder.kernels.vp_keys(&builder.stream, level, &mut builder.partition)?;
        builder.kernels.partition(&builder.stream, level, &mut builder.partition)?;
        let mut on_gpu = builder.stream.alloc_zeros(nodes.len() * 4)?;
        builder.kernels.vp_sides(&builder.stream, level, &builder.partition, &mut on_gpu)?;
        let on_host = builder.stream.clone_dtoh(&on_gpu)?;
        for (node, values) in nodes.iter().zip(on_host.as_chunks::<4>().0) {
            sides[node.number as usize] = *values;
        }
        Ok(())
    })?;
    let seconds = builder.seconds()?;
    let failed = device.step("copying the tree").failed();
    let mut order = builder.stream.clone_dtoh(&builder.partition.order).map_err(&failed)?;
    let mut above = builder.stream.clone_dtoh(&builder.partition.above).map_err(&failed)?;
    order.truncate(count as usize);
    above.truncate(count as usize);
    let is_finite = above.iter().chain(sides.as_flattened()).all(|distance| distance.is_finite());
    if !is_finite {
        // The CPU reports which point is invalid.
        return Ok(VpTree::build(points, Euclidean).map(|tree| TimedTree { tree, seconds }));
    }
    let layout = VpLayout { leaf_size: leaf, order, distances: above, sides };
    Ok(VpTree::from_layout(points, Euclidean, layout).map(|tree| TimedTree { tree, seconds }))
}

/// Builds a KD-tree on a GPU, identical to the tree of [`KdTree::build`].
///
/// ```
/// use metric_index::gpu::Device;
/// use metric_papers::karelis;
/// use metric_index::index::Index;
/// use metric_index::points::Vectors;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let points = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
///     let built = karelis::build_kd_tree(&device, points)??;
///     assert_eq!(built.tree.nearest(&[3.0, 3.0], 1)?[0].point, 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the GPU fails.
pub fn build_kd_tree(
    device: &Device,
    points: Vectors<f32>,
) -> Result<BuildResult<KdTree<Vectors<f32>, Euclidean>>, GpuError> {
    let Some(count) = count_of(&points) else {
        // The CPU reports which point is invalid.
        return Ok(KdTree::build(points, Euclidean).map(|tree| TimedTree { tree, seconds: 0.0 }));
    };
    let leaf = KdTree::leaf_size(&points, &Euclidean);
    let mut builder = Builder::new(device, &points, count, 0)?;
    let box_size = 2 * points.dimension();
    let mut boxes = vec![0f32; nodes_below(count, leaf, 0) as usize * box_size];
    builder.build_levels(count, leaf, |builder, level, nodes| {
        let mut on_gpu = builder.stream.alloc_zeros(nodes.len() * box_size)?;
        builder.kernels.kd_boxes(&builder.stream, level, &builder.partition, &mut on_gpu)?;
        builder.kernels.kd_keys(&builder.stream, level, &mut builder.partition)?;
        builder.kernels.partition(&builder.stream, level, &mut builder.partition)?;
        let on_host = builder.stream.clone_dtoh(&on_gpu)?;
        for (node, values) in nodes.iter().zip(on_host.chunks(box_size)) {
            boxes[node.number as usize * box_size..][..box_size].copy_from_slice(values);
        }
        Ok(())
    })?;
    let seconds = builder.seconds()?;
    let failed = device.step("copying the tree").failed();
    let mut order = builder.stream.clone_dtoh(&builder.partition.order).map_err(&failed)?;
    order.truncate(count as usize);
    let layout = KdLayout { leaf_size: leaf, order, boxes };
    Ok(KdTree::from_layout(points, Euclidean, layout).map(|tree| TimedTree { tree, seconds }))
}

/// Returns the number of points; `None` if there are too many for a tree, or if a point is not
/// finite.
fn count_of(points: &Vectors<f32>) -> Option<u32> {
    let count = u32::try_from(points.len()).ok().filter(|&count| count < u32::MAX)?;
    points.values().iter().all(|value| value.is_finite()).then_some(count)
}

/// A node of the current level.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Number of the node in preorder: the node, then its first side, then its second side.
    number: u32,
    start: u32,
    count: u32,
}

/// Builds a tree level by level.
struct Builder {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    partition: Partition,
    /// Number of positions at the start of a node that do not move: 1 for the vantage point of a
    /// VP-tree.
    fixed: u32,
    milliseconds: f64,
}

impl Builder {
    fn new(
        device: &Device,
        points: &Vectors<f32>,
        count: u32,
        fixed: u32,
    ) -> Result<Self, GpuError> {
        let stream = device.stream()?;
        let doing = device.step("copying points to it");
        let failed = doing.failed();
        let positions = count.max(1) as usize;
        let order: Vec<u32> = (0..count.max(1)).collect();
        let values = if points.is_empty() { &[0.0][..] } else { points.values() };
        let partition = Partition {
            points: stream.clone_htod(values).map_err(&failed)?,
            count,
            dimension: u32::try_from(points.dimension()).expect("fewer than 2^32 dimensions"),
            order: stream.clone_htod(&order).map_err(&failed)?,
            above: zeros(&stream, positions, doing)?,
            new_order: zeros(&stream, positions, doing)?,
            new_above: zeros(&stream, positions, doing)?,
            node_of: zeros(&stream, positions, doing)?,
            keys: zeros(&stream, positions, doing)?,
            before: zeros(&stream, positions, doing)?,
            sums: zeros(&stream, positions.div_ceil(1024), doing)?,
        };
        let kernels = Kernels::load(device)?;
        let device = device.clone();
        Ok(Self { device, stream, kernels, partition, fixed, milliseconds: 0.0 })
    }

    /// Waits for the GPU and returns the time in kernels, in seconds.
    fn seconds(&self) -> Result<f64, GpuError> {
        let failed = self.device.step("building a tree").failed();
        self.stream.synchronize().map_err(failed)?;
        Ok(self.milliseconds / 1e3)
    }

    /// Builds the levels from the root to the leaves. `work` splits the nodes of a level.
    ///
    /// The leaves of a KD-tree also have boxes, so its last level consists of leaves only, which
    /// are not split.
    fn build_levels(
        &mut self,
        count: u32,
        leaf: u32,
        mut work: impl FnMut(&mut Self, &mut Level, &[Node]) -> LaunchResult,
    ) -> Result<(), GpuError> {
        let doing = self.device.step("building a tree");
        let failed = doing.failed();
        let is_kd = self.fixed == 0;
        let mut nodes = vec![Node { number: 0, start: 0, count }];
        if count == 0 {
            return Ok(());
        }
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        while !nodes.is_empty() {
            let is_split = |node: &&Node| node.count > leaf;
            // All nodes have boxes, but only nodes that are split have sides.
            let level_nodes: Vec<Node> =
                nodes.iter().filter(|node| is_kd || is_split(node)).copied().collect();
            if level_nodes.is_empty() {
                break;
            }
            let column =
                |field: fn(&Node) -> u32| level_nodes.iter().map(field).collect::<Vec<u32>>();
            let starts = column(|node| node.start);
            let counts = column(|node| node.count);
            let fixed = self.fixed;
            let half = |node: &Node| (node.count - fixed) / 2;
            // The order of a node that is not split does not change: all of its points are on the
            // second side.
            let halves: Vec<u32> = level_nodes
                .iter()
                .map(|node| if is_split(&node) { half(node) } else { 0 })
                .collect();
            let copy = |values: &[u32]| -> Result<CudaSlice<u32>, GpuError> {
                self.stream.clone_htod(values).map_err(&failed)
            };
            let mut level = Level {
                starts: copy(&starts)?,
                counts: copy(&counts)?,
                halves: copy(&halves)?,
                ranks: copy(&halves)?,
                medians: zeros(&self.stream, level_nodes.len(), doing)?,
                digits: zeros(&self.stream, level_nodes.len() * 256, doing)?,
                axes: zeros(&self.stream, level_nodes.len(), doing)?,
                nodes: u32::try_from(level_nodes.len()).expect("not more than points"),
                fixed,
            };
            start.record(&self.stream).map_err(&failed)?;
            self.stream.memset_zeros(&mut self.partition.node_of).map_err(&failed)?;
            self.kernels.mark(&self.stream, &level, &mut self.partition).map_err(&failed)?;
            work(self, &mut level, &level_nodes).map_err(&failed)?;
            end.record(&self.stream).map_err(&failed)?;
            self.milliseconds += f64::from(start.elapsed_ms(&end).map_err(&failed)?);
            let mut next = Vec::new();
            for node in level_nodes.iter().filter(is_split) {
                let first = half(node);
                let second = node.count - fixed - first;
                let below = nodes_below(first, leaf, fixed);
                next.push(Node {
                    number: node.number + 1,
                    start: node.start + fixed,
                    count: first,
                });
                next.push(Node {
                    number: node.number + 1 + below,
                    start: node.start + fixed + first,
                    count: second,
                });
            }
            nodes = next;
        }
        Ok(())
    }
}

/// Returns the number of nodes of a tree with `count` points.
fn nodes_below(count: u32, leaf: u32, fixed: u32) -> u32 {
    match count {
        0 => 0,
        _ if count <= leaf => 1,
        _ => {
            let first = (count - fixed) / 2;
            1 + nodes_below(first, leaf, fixed) + nodes_below(count - fixed - first, leaf, fixed)
        }
    }
}

/// Returns the nodes of a tree in preorder.
///
/// Each node consists of its first position, its number of positions, and the numbers of its two
/// sides (`u32::MAX` for a leaf). The first `fixed` positions of a node are on neither side.
fn nodes_of(count: usize, leaf: u32, fixed: u32) -> Vec<[u32; 4]> {
    fn push(nodes: &mut Vec<[u32; 4]>, start: u32, count: u32, leaf: u32, fixed: u32) {
        if count <= leaf {
            nodes.push([start, count, u32::MAX, u32::MAX]);
            return;
        }
        let first = (count - fixed) / 2;
        let number = u32::try_from(nodes.len()).expect("not more than points");
        let second = number + 1 + nodes_below(first, leaf, fixed);
        nodes.push([start, count, number + 1, second]);
        push(nodes, start + fixed, first, leaf, fixed);
        push(nodes, start + fixed + first, count - fixed - first, leaf, fixed);
    }
    let mut nodes = Vec::new();
    if count > 0 {
        push(&mut nodes, 0, u32::try_from(count).expect("fewer than 2^32 points"), leaf, fixed);
    }
    nodes
}

/// The answers of a [`TreeSearch`].
#[derive(Debug, Clone, PartialEq)]
pub struct TreeAnswers {
    /// The neighbors of each query, nearest first.
    pub neighbors: NeighborLists,
    /// Number of nodes that each query visited.
    pub visited: Vec<u32>,
    /// The time in the kernel, in seconds.
    pub seconds: f64,
}

/// The arrays that describe a tree.
#[derive(Debug)]
struct TreeLayout<'a> {
    /// The points in the order of the nodes.
    order: &'a [u32],
    /// The nodes, as returned by [`nodes_of`].
    nodes: &'a [[u32; 4]],
    /// The distance ranges of the sides of a VP-tree, or the boxes of a KD-tree.
    bounds: &'a [f32],
    is_kd: bool,
}

/// A tree on a GPU.
#[derive(Debug)]
pub struct TreeSearch {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    points: CudaSlice<f32>,
    order: CudaSlice<u32>,
    nodes: CudaSlice<[u32; 4]>,
    bounds: CudaSlice<f32>,
    count: u32,
    dimension: u32,
    is_kd: bool,
}

impl TreeSearch {
    /// Copies a VP-tree to a GPU.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    pub fn of_vp_tree(
        device: &Device,
        tree: &VpTree<Vectors<f32>, Euclidean>,
    ) -> Result<Self, GpuError> {
        let VpLayout { leaf_size, order, sides, .. } = tree.layout();
        let nodes = nodes_of(order.len(), leaf_size, 1);
        let layout =
            TreeLayout { order: &order, nodes: &nodes, bounds: &sides.concat(), is_kd: false };
        Self::new(device, tree.points(), &layout)
    }

    /// Copies a KD-tree to a GPU.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    pub fn of_kd_tree(
        device: &Device,
        tree: &KdTree<Vectors<f32>, Euclidean>,
    ) -> Result<Self, GpuError> {
        let KdLayout { leaf_size, order, boxes } = tree.layout();
        let nodes = nodes_of(order.len(), leaf_size, 0);
        let layout = TreeLayout { order: &order, nodes: &nodes, bounds: &boxes, is_kd: true };
        Self::new(device, tree.points(), &layout)
    }

    fn new(
        device: &Device,
        points: &Vectors<f32>,
        layout: &TreeLayout<'_>,
    ) -> Result<Self, GpuError> {
        let &TreeLayout { order, nodes, bounds, is_kd } = layout;
        let stream = device.stream()?;
        let failed = device.step("copying a tree to it").failed();
        // The driver rejects empty copies.
        let non_empty =
            |values: &[f32]| if values.is_empty() { vec![0.0] } else { values.to_vec() };
        let positions = if order.is_empty() { &[0][..] } else { order };
        let nodes = if nodes.is_empty() { &[[0; 4]][..] } else { nodes };
        Ok(Self {
            points: stream.clone_htod(&non_empty(points.values())).map_err(&failed)?,
            order: stream.clone_htod(positions).map_err(&failed)?,
            nodes: stream.clone_htod(nodes).map_err(&failed)?,
            bounds: stream.clone_htod(&non_empty(bounds)).map_err(&failed)?,
            count: u32::try_from(order.len()).expect("fewer than 2^32 points"),
            dimension: u32::try_from(points.dimension()).expect("fewer than 2^32 dimensions"),
            is_kd,
            kernels: Kernels::load(device)?,
            device: device.clone(),
            stream,
        })
    }

    /// Returns the k nearest points of each query. If the queries are the points, this is the
    /// all-kNN problem.
    ///
    /// Returns `None` if the queries have a different dimension or are not finite, or if a distance
    /// is infinite. Also returns `None` for more than 2^32 / k queries.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    pub fn nearest(&self, queries: &Vectors<f32>, k: u32) -> Result<Option<TreeAnswers>, GpuError> {
        let doing = self.device.step("searching a tree");
        let failed = doing.failed();
        let stream = &self.stream;
        let k = k.min(self.count);
        let count = queries.len();
        let is_supported = queries.dimension() == self.dimension as usize
            && queries.values().iter().all(|value| value.is_finite())
            && u32::try_from(count * k.max(1) as usize).is_ok();
        if !is_supported {
            return Ok(None);
        }
        if count == 0 || k == 0 {
            let neighbors = empty_lists(count);
            return Ok(Some(TreeAnswers { neighbors, visited: vec![0; count], seconds: 0.0 }));
        }
        let copies = stream.clone_htod(queries.values()).map_err(&failed)?;
        let mut buffers = SearchBuffers {
            heaps: zeros(stream, count * k as usize, doing)?,
            neighbors: zeros(stream, count * k as usize, doing)?,
            visited: zeros(stream, count, doing)?,
        };
        let tree = Tree {
            points: self.points.device_ptr(stream).0,
            order: self.order.device_ptr(stream).0,
            nodes: self.nodes.device_ptr(stream).0,
            bounds: self.bounds.device_ptr(stream).0,
            count: self.count,
            dimension: self.dimension,
            is_kd: u32::from(self.is_kd),
        };
        let bounds = Bounds::of::<[f32]>(&Euclidean);
        let errors =
            ErrorBounds { relative: bounds.relative_error(), absolute: bounds.absolute_error() };
        let search = Search {
            tree,
            errors,
            queries: &copies,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            k,
        };
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        start.record(stream).map_err(&failed)?;
        self.kernels.nearest(stream, &search, &mut buffers).map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&buffers.neighbors).map_err(&failed)?;
        let visited = stream.clone_dtoh(&buffers.visited).map_err(&failed)?;
        if !are_finite(&keys) {
            return Ok(None);
        }
        let neighbors = lists_of(&keys, k);
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(Some(TreeAnswers { neighbors, visited, seconds }))
    }
}
