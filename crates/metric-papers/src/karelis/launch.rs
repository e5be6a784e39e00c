//! Launches the kernels of `kernels/karelis.cu`.

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, GpuError, Grid, Kernel};

use crate::gpu::LaunchResult;

/// Number of threads per block of most kernels.
const THREADS: u32 = 256;
/// Number of threads per block of the prefix sums.
const SCAN_THREADS: u32 = 1024;
/// Number of threads per block of `tree_nearest`; each thread answers one query.
const SEARCH_THREADS: u32 = 64;

/// The loaded kernels.
#[derive(Debug)]
pub(super) struct Kernels {
    mark: Kernel,
    vp_begin: Kernel,
    vp_keys: Kernel,
    kd_boxes: Kernel,
    kd_keys: Kernel,
    count: Kernel,
    digit: Kernel,
    scan: Kernel,
    scan_sums: Kernel,
    scatter: Kernel,
    vp_sides: Kernel,
    nearest: Kernel,
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let module = device.load_packed(gpu_runtime::ptx!("karelis"))?;
        let kernel = |name| module.kernel(name, 0);
        Ok(Self {
            mark: kernel("tree_mark")?,
            vp_begin: kernel("vp_begin")?,
            vp_keys: kernel("vp_keys")?,
            kd_boxes: kernel("kd_boxes")?,
            kd_keys: kernel("kd_keys")?,
            count: kernel("tree_count")?,
            digit: kernel("tree_digit")?,
            scan: kernel("tree_scan")?,
            scan_sums: kernel("tree_scan_sums")?,
            scatter: kernel("tree_scatter")?,
            vp_sides: kernel("vp_sides")?,
            nearest: kernel("tree_nearest")?,
        })
    }
}

/// The nodes of a level: `Level` of `kernels/karelis.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct LevelNodes {
    starts: u64,
    counts: u64,
    nodes: u32,
    fixed: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields have the order and sizes of `Level`: two pointers and two u32.
unsafe impl DeviceRepr for LevelNodes {}

/// A tree: `Tree` of `kernels/karelis.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Tree {
    pub(super) points: u64,
    pub(super) order: u64,
    pub(super) nodes: u64,
    pub(super) bounds: u64,
    pub(super) count: u32,
    pub(super) dimension: u32,
    pub(super) is_kd: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields have the order and sizes of `Tree`: four pointers and three u32.
unsafe impl DeviceRepr for Tree {}

/// Bounds for the rounding errors of distances: `Bounds` of `kernels/spaces.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct ErrorBounds {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields have the order and sizes of `Bounds`: two f64.
unsafe impl DeviceRepr for ErrorBounds {}

/// The nodes of a level in the memory of a GPU.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) starts: CudaSlice<u32>,
    pub(super) counts: CudaSlice<u32>,
    /// The sizes of the first sides.
    pub(super) halves: CudaSlice<u32>,
    /// The ranks of the medians among the remaining keys, which `tree_digit` updates.
    pub(super) ranks: CudaSlice<u32>,
    /// The keys of the medians, to which `tree_digit` appends one digit at a time.
    pub(super) medians: CudaSlice<u64>,
    /// A histogram of 256 digits for each node.
    pub(super) digits: CudaSlice<u32>,
    /// The dimension in which each node is widest. For KD-trees only.
    pub(super) axes: CudaSlice<u32>,
    pub(super) nodes: u32,
    pub(super) fixed: u32,
}

impl Level {
    fn nodes(&self, stream: &CudaStream) -> LevelNodes {
        LevelNodes {
            starts: self.starts.device_ptr(stream).0,
            counts: self.counts.device_ptr(stream).0,
            nodes: self.nodes,
            fixed: self.fixed,
        }
    }
}

/// The points, and their current order in the tree.
///
/// The order is stored twice: a level reads one copy and writes the other.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) points: CudaSlice<f32>,
    pub(super) count: u32,
    pub(super) dimension: u32,
    pub(super) order: CudaSlice<u32>,
    pub(super) above: CudaSlice<f32>,
    pub(super) new_order: CudaSlice<u32>,
    pub(super) new_above: CudaSlice<f32>,
    pub(super) node_of: CudaSlice<u32>,
    pub(super) keys: CudaSlice<u64>,
    pub(super) before: CudaSlice<u32>,
    pub(super) sums: CudaSlice<u32>,
}

/// Queries for a tree, in the memory of a GPU.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) tree: Tree,
    pub(super) errors: ErrorBounds,
    pub(super) queries: &'a CudaSlice<f32>,
    /// Number of queries.
    pub(super) count: u32,
    pub(super) k: u32,
}

/// The memory that a search writes.
#[derive(Debug)]
pub(super) struct SearchBuffers {
    /// k keys for each query.
    pub(super) heaps: CudaSlice<u64>,
    /// k keys for each query.
    pub(super) neighbors: CudaSlice<u64>,
    /// Number of nodes visited by each query.
    pub(super) visited: CudaSlice<u32>,
}

impl Kernels {
    /// Enqueues `tree_mark`, which records the node of each position. `node_of` must contain zeros.
    pub(super) fn mark(
        &self,
        stream: &Arc<CudaStream>,
        level: &Level,
        partition: &mut Partition,
    ) -> LaunchResult {
        let nodes = level.nodes(stream);
        let blocks = (partition.count / level.nodes / THREADS).clamp(1, 512);
        let mut launch = self.mark.launch_on(stream);
        launch.value(&nodes).pointer(&mut partition.node_of);
        #[expect(unsafe_code, reason = "the launcher of `tree_mark`")]
        // SAFETY: the arguments match the kernel's parameters in order and type; nodes are ranges
        // of positions.
        unsafe {
            launch.launch(Grid::new(level.nodes, THREADS).with_rows(blocks).into())
        }
    }

    /// Enqueues `vp_begin` and `vp_keys`, which choose vantage points and compute the distances to
    /// them.
    pub(super) fn vp_keys(
        &self,
        stream: &Arc<CudaStream>,
        level: &Level,
        partition: &mut Partition,
    ) -> LaunchResult {
        let nodes = level.nodes(stream);
        let mut launch = self.vp_begin.launch_on(stream);
        launch.value(&nodes).pointer(&mut partition.order).pointer(&mut partition.above);
        #[expect(unsafe_code, reason = "the launcher of `vp_begin`")]
        // SAFETY: the arguments match the kernel's parameters in order and type; nodes are ranges
        // of positions.
        unsafe {
            launch.launch(Grid::new(level.nodes.div_ceil(THREADS), THREADS).into())?;
        }
        let mut launch = self.vp_keys.launch_on(stream);
        launch.pointer(&partition.points).value(&partition.dimension).value(&nodes);
        launch.pointer(&partition.node_of).pointer(&partition.order).value(&partition.count);
        launch.pointer(&mut partition.above).pointer(&mut partition.keys);
        #[expect(unsafe_code, reason = "the launcher of `vp_keys`")]
        // SAFETY: as above; there is one distance and one key for each position.
        unsafe {
            launch.launch(Grid::new(partition.count.div_ceil(THREADS / 8), THREADS).into())
        }
    }

    /// Enqueues `kd_boxes`, which computes the boxes of nodes, and the dimension in which each node
    /// is widest.
    pub(super) fn kd_boxes(
        &self,
        stream: &Arc<CudaStream>,
        level: &mut Level,
        partition: &Partition,
        boxes: &mut CudaSlice<f32>,
    ) -> LaunchResult {
        let nodes = level.nodes(stream);
        let mut launch = self.kd_boxes.launch_on(stream);
        launch.pointer(&partition.points).value(&partition.dimension).value(&nodes);
        launch.pointer(&partition.order).pointer(boxes).pointer(&mut level.axes);
        #[expect(unsafe_code, reason = "the launcher of `kd_boxes`")]
        // SAFETY: the arguments match the kernel's parameters in order and type; there is one box
        // and one axis for each node.
        unsafe {
            launch.launch(Grid::new(level.nodes, THREADS).into())
        }
    }

    /// Enqueues `kd_keys`, which converts coordinates to keys.
    pub(super) fn kd_keys(
        &self,
        stream: &Arc<CudaStream>,
        level: &Level,
        partition: &mut Partition,
    ) -> LaunchResult {
        let mut launch = self.kd_keys.launch_on(stream);
        launch.pointer(&partition.points).value(&partition.dimension).pointer(&level.axes);
        launch.pointer(&partition.node_of).pointer(&partition.order).value(&partition.count);
        launch.pointer(&mut partition.keys);
        #[expect(unsafe_code, reason = "the launcher of `kd_keys`")]
        // SAFETY: the arguments match the kernel's parameters in order and type; there is one key
        // for each position.
        unsafe {
            launch.launch(Grid::new(partition.count.div_ceil(THREADS), THREADS).into())
        }
    }

    /// Enqueues `tree_count` to `tree_scatter`, which move the points with smaller keys to the
    /// first sides.
    pub(super) fn partition(
        &self,
        stream: &Arc<CudaStream>,
        level: &mut Level,
        partition: &mut Partition,
    ) -> LaunchResult {
        let nodes = level.nodes(stream);
        let count = partition.count;
        for shift in (0..64u32).step_by(8).rev() {
            let mut launch = self.count.launch_on(stream);
            launch.pointer(&partition.keys).value(&nodes).pointer(&partition.node_of).value(&count);
            launch.pointer(&level.medians).value(&shift).pointer(&mut level.digits);
            #[expect(unsafe_code, reason = "the launcher of `tree_count`")]
            // SAFETY: the arguments match the kernel's parameters in order and type; there are 256
            // digits for each node.
            unsafe {
                launch.launch(Grid::new(count.div_ceil(8 * THREADS), THREADS).into())?;
            }
            let mut launch = self.digit.launch_on(stream);
            launch.pointer(&mut level.digits).value(&level.nodes);
            launch.pointer(&mut level.medians).pointer(&mut level.ranks);
            #[expect(unsafe_code, reason = "the launcher of `tree_digit`")]
            // SAFETY: as above.
            unsafe {
                launch.launch(Grid::new(level.nodes.div_ceil(THREADS / 32), THREADS).into())?;
            }
        }
        let blocks = count.div_ceil(SCAN_THREADS);
        let mut launch = self.scan.launch_on(stream);
        launch
            .pointer(&partition.keys)
            .value(&nodes)
            .pointer(&partition.node_of)
            .pointer(&level.medians);
        launch.value(&count).pointer(&mut partition.before).pointer(&mut partition.sums);
        #[expect(unsafe_code, reason = "the launcher of `tree_scan`")]
        // SAFETY: as above; there is one sum for each block.
        unsafe {
            launch.launch(Grid::new(blocks, SCAN_THREADS).into())?;
        }
        let mut launch = self.scan_sums.launch_on(stream);
        launch.pointer(&mut partition.sums).value(&blocks);
        #[expect(unsafe_code, reason = "the launcher of `tree_scan_sums`")]
        // SAFETY: as above.
        unsafe {
            launch.launch(Grid::new(1, SCAN_THREADS).into())?;
        }
        let mut launch = self.scatter.launch_on(stream);
        launch
            .pointer(&partition.keys)
            .value(&nodes)
            .pointer(&partition.node_of)
            .pointer(&level.medians);
        launch
            .pointer(&level.halves)
            .value(&count)
            .pointer(&partition.before)
            .pointer(&partition.sums);
        launch.pointer(&partition.order).pointer(&partition.above);
        launch.pointer(&mut partition.new_order).pointer(&mut partition.new_above);
        #[expect(unsafe_code, reason = "the launcher of `tree_scatter`")]
        // SAFETY: as above; the new positions are a permutation.
        unsafe {
            launch.launch(Grid::new(blocks, SCAN_THREADS).into())?;
        }
        std::mem::swap(&mut partition.order, &mut partition.new_order);
        std::mem::swap(&mut partition.above, &mut partition.new_above);
        Ok(())
    }

    /// Enqueues `vp_sides`, which computes the smallest and the largest distance of each side of
    /// each node.
    pub(super) fn vp_sides(
        &self,
        stream: &Arc<CudaStream>,
        level: &Level,
        partition: &Partition,
        sides: &mut CudaSlice<f32>,
    ) -> LaunchResult {
        let nodes = level.nodes(stream);
        let mut launch = self.vp_sides.launch_on(stream);
        launch.value(&nodes).pointer(&level.halves).pointer(&partition.above).pointer(sides);
        #[expect(unsafe_code, reason = "the launcher of `vp_sides`")]
        // SAFETY: the arguments match the kernel's parameters in order and type; there are four
        // numbers for each node.
        unsafe {
            launch.launch(Grid::new(level.nodes, THREADS).into())
        }
    }

    /// Enqueues `tree_nearest`, which finds the k nearest points of each query and counts the
    /// visited nodes.
    pub(super) fn nearest(
        &self,
        stream: &Arc<CudaStream>,
        search: &Search<'_>,
        buffers: &mut SearchBuffers,
    ) -> LaunchResult {
        let Search { tree, errors, queries, count, k } = search;
        let mut launch = self.nearest.launch_on(stream);
        launch.value(tree).value(errors).pointer(*queries).value(count).value(k);
        launch.pointer(&mut buffers.heaps).pointer(&mut buffers.neighbors);
        launch.pointer(&mut buffers.visited);
        #[expect(unsafe_code, reason = "the launcher of `tree_nearest`")]
        // SAFETY: the arguments match the kernel's parameters in order and type; there are k keys
        // in `heaps` and `neighbors` for each query.
        unsafe {
            launch.launch(Grid::new(count.div_ceil(SEARCH_THREADS), SEARCH_THREADS).into())
        }
    }
}
