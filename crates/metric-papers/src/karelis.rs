//! VP- and KD-trees of Karelis 2020: built on a GPU level by level, all nodes of a level at once, and searched there by a thread a
//! query. The trees are those of the CPU, to the byte of their files.
//!
//! The paper sorts all points twice a level; here the median of each node is selected digit by digit, and the points are
//! moved by prefix sums.

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DevicePtr, GpuError};

use crate::gpu::{are_finite, zeros};
use metric_index::error::Error;
use metric_index::index::{Index, KdLayout, KdTree, VpLayout, VpTree};
use metric_index::metric::Euclidean;
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Vectors};
use metric_index::prune::Bounds;

mod launch;

use launch::{Errors, Growing, Kernels, Level, Tree};

/// A tree and the time of its kernels in seconds, or why its points are refused.
pub type Built<T> = Result<(T, f64), Error>;

/// Builds a VP-tree on a GPU: that of [`VpTree::build`].
///
/// ```
/// use metric_index::gpu::Device;
/// use metric_papers::karelis;
/// use metric_index::index::Index;
/// use metric_index::points::Vectors;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let (tree, _) = karelis::build_vp_tree(&device, Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]))??;
///     assert_eq!(tree.nearest(&[3.0, 3.0], 1)?[0].point, 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the GPU fails.
pub fn build_vp_tree(
    device: &Device,
    points: Vectors<f32>,
) -> Result<Built<VpTree<Vectors<f32>, Euclidean>>, GpuError> {
    let Some(count) = count_of(&points) else {
        // The CPU says of which point.
        return Ok(VpTree::build(points, Euclidean).map(|tree| (tree, 0.0)));
    };
    let leaf = VpTree::leaf_size(&points, &Euclidean);
    let mut builder = Builder::new(device, &points, count, 1)?;
    let mut sides = vec![[0f32; 4]; nodes_below(count, leaf, 1) as usize];
    builder.levels(count, leaf, |builder, level, nodes| {
        launch::vp_keys(&builder.kernels, &builder.stream, level, &mut builder.growing)?;
        launch::partition(&builder.kernels, &builder.stream, level, &mut builder.growing)?;
        let mut there = builder.stream.alloc_zeros(nodes.len() * 4)?;
        launch::vp_sides(&builder.kernels, &builder.stream, level, &builder.growing, &mut there)?;
        let here = builder.stream.clone_dtoh(&there)?;
        for (node, here) in nodes.iter().zip(here.as_chunks::<4>().0) {
            sides[node.number as usize] = *here;
        }
        Ok(())
    })?;
    let seconds = builder.seconds()?;
    let failed = device.doing("copying the tree").failed();
    let order = builder.stream.clone_dtoh(&builder.growing.order).map_err(&failed)?;
    let above = builder.stream.clone_dtoh(&builder.growing.above).map_err(&failed)?;
    let (mut order, mut above) = (order, above);
    order.truncate(count as usize);
    above.truncate(count as usize);
    let is_finite = above.iter().chain(sides.as_flattened()).all(|distance| distance.is_finite());
    if !is_finite {
        // The CPU says of which point.
        return Ok(VpTree::build(points, Euclidean).map(|tree| (tree, seconds)));
    }
    let layout = VpLayout { leaf_size: leaf, order, distances: above, sides };
    Ok(VpTree::from_layout(points, Euclidean, layout).map(|tree| (tree, seconds)))
}

/// Builds a KD-tree on a GPU: that of [`KdTree::build`].
///
/// ```
/// use metric_index::gpu::Device;
/// use metric_papers::karelis;
/// use metric_index::index::Index;
/// use metric_index::points::Vectors;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let (tree, _) = karelis::build_kd_tree(&device, Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]))??;
///     assert_eq!(tree.nearest(&[3.0, 3.0], 1)?[0].point, 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the GPU fails.
pub fn build_kd_tree(
    device: &Device,
    points: Vectors<f32>,
) -> Result<Built<KdTree<Vectors<f32>, Euclidean>>, GpuError> {
    let Some(count) = count_of(&points) else {
        // The CPU says of which point.
        return Ok(KdTree::build(points, Euclidean).map(|tree| (tree, 0.0)));
    };
    let leaf = KdTree::leaf_size(&points, &Euclidean);
    let mut builder = Builder::new(device, &points, count, 0)?;
    let box_size = 2 * points.dimension();
    let mut boxes = vec![0f32; nodes_below(count, leaf, 0) as usize * box_size];
    builder.levels(count, leaf, |builder, level, nodes| {
        let mut there = builder.stream.alloc_zeros(nodes.len() * box_size)?;
        launch::kd_boxes(&builder.kernels, &builder.stream, level, &builder.growing, &mut there)?;
        launch::kd_keys(&builder.kernels, &builder.stream, level, &mut builder.growing)?;
        launch::partition(&builder.kernels, &builder.stream, level, &mut builder.growing)?;
        let here = builder.stream.clone_dtoh(&there)?;
        for (node, here) in nodes.iter().zip(here.chunks(box_size)) {
            boxes[node.number as usize * box_size..][..box_size].copy_from_slice(here);
        }
        Ok(())
    })?;
    let seconds = builder.seconds()?;
    let failed = device.doing("copying the tree").failed();
    let mut order = builder.stream.clone_dtoh(&builder.growing.order).map_err(&failed)?;
    order.truncate(count as usize);
    let layout = KdLayout { leaf_size: leaf, order, boxes };
    Ok(KdTree::from_layout(points, Euclidean, layout).map(|tree| (tree, seconds)))
}

/// The number of points; `None` if there are too many for a tree, or one is not finite.
fn count_of(points: &Vectors<f32>) -> Option<u32> {
    let count = u32::try_from(points.len()).ok().filter(|&count| count < u32::MAX)?;
    points.values().iter().all(|value| value.is_finite()).then_some(count)
}

/// A node of a level.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// In the order of the tree: a node, those of its first side, those of its second side.
    number: u32,
    start: u32,
    count: u32,
}

struct Builder {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    growing: Growing,
    /// Places of a node that stay: the vantage point.
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
        let (stream, doing) = (device.stream()?, device.doing("copying points to it"));
        let failed = doing.failed();
        let places = count.max(1) as usize;
        let order: Vec<u32> = (0..count.max(1)).collect();
        let values = if points.is_empty() { &[0.0][..] } else { points.values() };
        let growing = Growing {
            points: stream.clone_htod(values).map_err(&failed)?,
            count,
            dimension: u32::try_from(points.dimension()).expect("fewer than 2^32 dimensions"),
            order: stream.clone_htod(&order).map_err(&failed)?,
            above: zeros(&stream, places, doing)?,
            new_order: zeros(&stream, places, doing)?,
            new_above: zeros(&stream, places, doing)?,
            node_of: zeros(&stream, places, doing)?,
            keys: zeros(&stream, places, doing)?,
            before: zeros(&stream, places, doing)?,
            sums: zeros(&stream, places.div_ceil(1024), doing)?,
        };
        let kernels = Kernels::load(device)?;
        let (device, milliseconds) = (device.clone(), 0.0);
        Ok(Self { device, stream, kernels, growing, fixed, milliseconds })
    }

    fn seconds(&self) -> Result<f64, GpuError> {
        let failed = self.device.doing("building a tree").failed();
        self.stream.synchronize().map_err(failed)?;
        Ok(self.milliseconds / 1e3)
    }

    /// Goes through the levels. `work` splits the nodes of one. A leaf of a KD-tree has a box, too, so there the last level is of
    /// leaves, which stay as they are.
    fn levels(
        &mut self,
        count: u32,
        leaf: u32,
        mut work: impl FnMut(&mut Self, &mut Level, &[Node]) -> Result<(), gpu_runtime::DriverError>,
    ) -> Result<(), GpuError> {
        let (failed, doing) =
            (self.device.doing("building a tree").failed(), self.device.doing("building a tree"));
        let is_kd = self.fixed == 0;
        let mut nodes = vec![Node { number: 0, start: 0, count }];
        if count == 0 {
            return Ok(());
        }
        let (start, end) = (self.device.timer()?, self.device.timer()?);
        while !nodes.is_empty() {
            let is_split = |node: &&Node| node.count > leaf;
            // Boxes are of all nodes, sides of those that are split.
            let own: Vec<Node> =
                nodes.iter().filter(|node| is_kd || is_split(node)).copied().collect();
            if own.is_empty() {
                break;
            }
            let column = |of: fn(&Node) -> u32| own.iter().map(of).collect::<Vec<u32>>();
            let (starts, counts) = (column(|node| node.start), column(|node| node.count));
            let fixed = self.fixed;
            let half = |node: &Node| (node.count - fixed) / 2;
            // What is not split stays: all of it is on the second side.
            let halves: Vec<u32> =
                own.iter().map(|node| if is_split(&node) { half(node) } else { 0 }).collect();
            let copy = |values: &[u32]| -> Result<CudaSlice<u32>, GpuError> {
                self.stream.clone_htod(values).map_err(&failed)
            };
            let mut level = Level {
                starts: copy(&starts)?,
                counts: copy(&counts)?,
                halves: copy(&halves)?,
                ranks: copy(&halves)?,
                middles: zeros(&self.stream, own.len(), doing)?,
                digits: zeros(&self.stream, own.len() * 256, doing)?,
                axes: zeros(&self.stream, own.len(), doing)?,
                nodes: u32::try_from(own.len()).expect("not more than points"),
                fixed,
            };
            start.record(&self.stream).map_err(&failed)?;
            self.stream.memset_zeros(&mut self.growing.node_of).map_err(&failed)?;
            launch::mark(&self.kernels, &self.stream, &level, &mut self.growing)
                .map_err(&failed)?;
            work(self, &mut level, &own).map_err(&failed)?;
            end.record(&self.stream).map_err(&failed)?;
            self.milliseconds += f64::from(start.elapsed_ms(&end).map_err(&failed)?);
            let mut next = Vec::new();
            for node in own.iter().filter(is_split) {
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

/// The nodes of a tree of `count` points.
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

/// The nodes of a tree in preorder: of each its first place, its number of places, and its two
/// sides (`u32::MAX` for a leaf). The first `fixed` places of a node are on neither side.
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

/// What a search of a tree gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// The neighbors of each query, nearest first.
    pub neighbors: Vec<Vec<Neighbor>>,
    /// The nodes that each query visited.
    pub visited: Vec<u32>,
    /// The time of the kernel.
    pub seconds: f64,
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
    /// If the GPU fails.
    pub fn of_vp_tree(
        device: &Device,
        tree: &VpTree<Vectors<f32>, Euclidean>,
    ) -> Result<Self, GpuError> {
        let VpLayout { leaf_size, order, sides, .. } = tree.layout();
        let nodes = nodes_of(order.len(), leaf_size, 1);
        Self::new(device, tree.points(), &order, &nodes, &sides.concat(), false)
    }

    /// Copies a KD-tree to a GPU.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn of_kd_tree(
        device: &Device,
        tree: &KdTree<Vectors<f32>, Euclidean>,
    ) -> Result<Self, GpuError> {
        let KdLayout { leaf_size, order, boxes } = tree.layout();
        let nodes = nodes_of(order.len(), leaf_size, 0);
        Self::new(device, tree.points(), &order, &nodes, &boxes, true)
    }

    fn new(
        device: &Device,
        points: &Vectors<f32>,
        order: &[u32],
        nodes: &[[u32; 4]],
        bounds: &[f32],
        is_kd: bool,
    ) -> Result<Self, GpuError> {
        let (stream, failed) = (device.stream()?, device.doing("copying a tree to it").failed());
        let some = |values: &[f32]| if values.is_empty() { vec![0.0] } else { values.to_vec() };
        let order_there = if order.is_empty() { &[0][..] } else { order };
        let nodes = if nodes.is_empty() { &[[0; 4]][..] } else { nodes };
        Ok(Self {
            points: stream.clone_htod(&some(points.values())).map_err(&failed)?,
            order: stream.clone_htod(order_there).map_err(&failed)?,
            nodes: stream.clone_htod(nodes).map_err(&failed)?,
            bounds: stream.clone_htod(&some(bounds)).map_err(&failed)?,
            count: u32::try_from(order.len()).expect("fewer than 2^32 points"),
            dimension: u32::try_from(points.dimension()).expect("fewer than 2^32 dimensions"),
            is_kd,
            kernels: Kernels::load(device)?,
            device: device.clone(),
            stream,
        })
    }

    /// The k nearest points of each query; all-kNN if the queries are the points. `None` if the queries have another dimension or are not
    /// finite, a distance is infinite, or there are more of them than 2^32 / k.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn nearest(&self, queries: &Vectors<f32>, k: u32) -> Result<Option<Searched>, GpuError> {
        let doing = self.device.doing("searching a tree");
        let (failed, stream) = (doing.failed(), &self.stream);
        let k = k.min(self.count);
        let count = queries.len();
        let is_taken = queries.dimension() == self.dimension as usize
            && queries.values().iter().all(|value| value.is_finite())
            && u32::try_from(count * k.max(1) as usize).is_ok();
        if !is_taken {
            return Ok(None);
        }
        if count == 0 || k == 0 {
            let (neighbors, visited) = (vec![Vec::new(); count], vec![0; count]);
            return Ok(Some(Searched { neighbors, visited, seconds: 0.0 }));
        }
        let there = stream.clone_htod(queries.values()).map_err(&failed)?;
        let mut heaps = zeros::<u64>(stream, count * k as usize, doing)?;
        let mut neighbors = zeros::<u64>(stream, count * k as usize, doing)?;
        let mut visited = zeros::<u32>(stream, count, doing)?;
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
        let (relative, absolute) = (bounds.relative_error(), bounds.absolute_error());
        let (start, end) = (self.device.timer()?, self.device.timer()?);
        start.record(stream).map_err(&failed)?;
        let asked = (u32::try_from(count).unwrap_or(u32::MAX), k);
        let found = (&mut neighbors, &mut visited);
        let tree = (&tree, &Errors { relative, absolute });
        launch::nearest(&self.kernels, stream, tree, &there, asked, &mut heaps, found)
            .map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        let visited = stream.clone_dtoh(&visited).map_err(&failed)?;
        if !are_finite(&keys) {
            return Ok(None);
        }
        let neighbors =
            keys.chunks(k as usize).map(|keys| Neighbor::from_keys(keys).to_vec()).collect();
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(Some(Searched { neighbors, visited, seconds }))
    }
}
