//! The launchers of `kernels/karelis.cu`.

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, GpuError, Kernel};

use crate::gpu::{Launched, config};

const THREADS: u32 = 256;
const SCAN_THREADS: u32 = 1024;

/// The kernels, loaded.
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

/// `Level` of kernels/karelis.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct LevelNodes {
    starts: u64,
    counts: u64,
    nodes: u32,
    fixed: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Level`, in order and in size: two pointers and two u32.
unsafe impl DeviceRepr for LevelNodes {}

/// `Tree` of kernels/karelis.cu.
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
// SAFETY: the fields are those of `Tree`, in order and in size: four pointers and three u32.
unsafe impl DeviceRepr for Tree {}

/// `Bounds` of kernels/spaces.cuh.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Errors {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Bounds`, in order and in size: two f64.
unsafe impl DeviceRepr for Errors {}

/// The nodes of a level on the GPU.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) starts: CudaSlice<u32>,
    pub(super) counts: CudaSlice<u32>,
    /// The sizes of the first sides.
    pub(super) halves: CudaSlice<u32>,
    /// The same, which `tree_digit` changes.
    pub(super) ranks: CudaSlice<u32>,
    /// The keys of those ranks, digit by digit.
    pub(super) middles: CudaSlice<u64>,
    /// 256 for each node.
    pub(super) digits: CudaSlice<u32>,
    /// KD-tree: where each node is widest.
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

/// The points and their order on the GPU, twice: a level reads one and writes the other.
#[derive(Debug)]
pub(super) struct Growing {
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

/// `tree_mark`: the node of each place; `node_of` is filled with zeros before.
pub(super) fn mark(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    level: &Level,
    growing: &mut Growing,
) -> Launched {
    let nodes = level.nodes(stream);
    let blocks = (growing.count / level.nodes / THREADS).clamp(1, 512);
    let mut launch = kernels.mark.launch_on(stream);
    launch.value(&nodes).pointer(&mut growing.node_of);
    #[expect(unsafe_code, reason = "the launcher of `tree_mark`")]
    // SAFETY: the arguments are those of the kernel, in order and type; nodes are ranges of places.
    unsafe {
        launch.launch(config((level.nodes, blocks), THREADS, 0))
    }
}

/// `vp_begin` and `vp_keys`: vantage points, and the distances from them.
pub(super) fn vp_keys(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    level: &Level,
    growing: &mut Growing,
) -> Launched {
    let nodes = level.nodes(stream);
    let mut launch = kernels.vp_begin.launch_on(stream);
    launch.value(&nodes).pointer(&mut growing.order).pointer(&mut growing.above);
    #[expect(unsafe_code, reason = "the launcher of `vp_begin`")]
    // SAFETY: the arguments are those of the kernel, in order and type; nodes are ranges of places.
    unsafe {
        launch.launch(config((level.nodes.div_ceil(THREADS), 1), THREADS, 0))?;
    }
    let mut launch = kernels.vp_keys.launch_on(stream);
    launch.pointer(&growing.points).value(&growing.dimension).value(&nodes);
    launch.pointer(&growing.node_of).pointer(&growing.order).value(&growing.count);
    launch.pointer(&mut growing.above).pointer(&mut growing.keys);
    #[expect(unsafe_code, reason = "the launcher of `vp_keys`")]
    // SAFETY: as above; there are a distance and a key for each place.
    unsafe {
        launch.launch(config((growing.count.div_ceil(THREADS / 8), 1), THREADS, 0))
    }
}

/// `kd_boxes`: the boxes of nodes, and where they are widest.
pub(super) fn kd_boxes(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    level: &mut Level,
    growing: &Growing,
    boxes: &mut CudaSlice<f32>,
) -> Launched {
    let nodes = level.nodes(stream);
    let mut launch = kernels.kd_boxes.launch_on(stream);
    launch.pointer(&growing.points).value(&growing.dimension).value(&nodes);
    launch.pointer(&growing.order).pointer(boxes).pointer(&mut level.axes);
    #[expect(unsafe_code, reason = "the launcher of `kd_boxes`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are a box and an axis for each node.
    unsafe {
        launch.launch(config((level.nodes, 1), THREADS, 0))
    }
}

/// `kd_keys`: coordinates as keys.
pub(super) fn kd_keys(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    level: &Level,
    growing: &mut Growing,
) -> Launched {
    let mut launch = kernels.kd_keys.launch_on(stream);
    launch.pointer(&growing.points).value(&growing.dimension).pointer(&level.axes);
    launch.pointer(&growing.node_of).pointer(&growing.order).value(&growing.count);
    launch.pointer(&mut growing.keys);
    #[expect(unsafe_code, reason = "the launcher of `kd_keys`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there is a key for each place.
    unsafe {
        launch.launch(config((growing.count.div_ceil(THREADS), 1), THREADS, 0))
    }
}

/// `tree_count` to `tree_scatter`: the points with smaller keys to the first sides.
pub(super) fn partition(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    level: &mut Level,
    growing: &mut Growing,
) -> Launched {
    let nodes = level.nodes(stream);
    let count = growing.count;
    for shift in (0..64u32).step_by(8).rev() {
        let mut launch = kernels.count.launch_on(stream);
        launch.pointer(&growing.keys).value(&nodes).pointer(&growing.node_of).value(&count);
        launch.pointer(&level.middles).value(&shift).pointer(&mut level.digits);
        #[expect(unsafe_code, reason = "the launcher of `tree_count`")]
        // SAFETY: the arguments are those of the kernel, in order and type; there are 256 digits for each node.
        unsafe {
            launch.launch(config((count.div_ceil(8 * THREADS), 1), THREADS, 0))?;
        }
        let mut launch = kernels.digit.launch_on(stream);
        launch.pointer(&mut level.digits).value(&level.nodes);
        launch.pointer(&mut level.middles).pointer(&mut level.ranks);
        #[expect(unsafe_code, reason = "the launcher of `tree_digit`")]
        // SAFETY: as above.
        unsafe {
            launch.launch(config((level.nodes.div_ceil(THREADS / 32), 1), THREADS, 0))?;
        }
    }
    let blocks = count.div_ceil(SCAN_THREADS);
    let mut launch = kernels.scan.launch_on(stream);
    launch.pointer(&growing.keys).value(&nodes).pointer(&growing.node_of).pointer(&level.middles);
    launch.value(&count).pointer(&mut growing.before).pointer(&mut growing.sums);
    #[expect(unsafe_code, reason = "the launcher of `tree_scan`")]
    // SAFETY: as above; there is a sum for each block.
    unsafe {
        launch.launch(config((blocks, 1), SCAN_THREADS, 0))?;
    }
    let mut launch = kernels.scan_sums.launch_on(stream);
    launch.pointer(&mut growing.sums).value(&blocks);
    #[expect(unsafe_code, reason = "the launcher of `tree_scan_sums`")]
    // SAFETY: as above.
    unsafe {
        launch.launch(config((1, 1), SCAN_THREADS, 0))?;
    }
    let mut launch = kernels.scatter.launch_on(stream);
    launch.pointer(&growing.keys).value(&nodes).pointer(&growing.node_of).pointer(&level.middles);
    launch.pointer(&level.halves).value(&count).pointer(&growing.before).pointer(&growing.sums);
    launch.pointer(&growing.order).pointer(&growing.above);
    launch.pointer(&mut growing.new_order).pointer(&mut growing.new_above);
    #[expect(unsafe_code, reason = "the launcher of `tree_scatter`")]
    // SAFETY: as above; each place goes to another.
    unsafe {
        launch.launch(config((blocks, 1), SCAN_THREADS, 0))?;
    }
    std::mem::swap(&mut growing.order, &mut growing.new_order);
    std::mem::swap(&mut growing.above, &mut growing.new_above);
    Ok(())
}

/// `vp_sides`: the least and the greatest distances of the sides of nodes.
pub(super) fn vp_sides(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    level: &Level,
    growing: &Growing,
    sides: &mut CudaSlice<f32>,
) -> Launched {
    let nodes = level.nodes(stream);
    let mut launch = kernels.vp_sides.launch_on(stream);
    launch.value(&nodes).pointer(&level.halves).pointer(&growing.above).pointer(sides);
    #[expect(unsafe_code, reason = "the launcher of `vp_sides`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are four numbers for each node.
    unsafe {
        launch.launch(config((level.nodes, 1), THREADS, 0))
    }
}

/// `tree_nearest`: the k nearest of each query, and the nodes that it visits.
pub(super) fn nearest(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (tree, errors): (&Tree, &Errors),
    queries: &CudaSlice<f32>,
    (count, k): (u32, u32),
    heaps: &mut CudaSlice<u64>,
    (neighbors, visited): (&mut CudaSlice<u64>, &mut CudaSlice<u32>),
) -> Launched {
    let mut launch = kernels.nearest.launch_on(stream);
    launch.value(tree).value(errors).pointer(queries).value(&count).value(&k);
    launch.pointer(heaps).pointer(neighbors).pointer(visited);
    #[expect(unsafe_code, reason = "the launcher of `tree_nearest`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are k keys in `heaps` and `neighbors` for each
    // query.
    unsafe {
        launch.launch(config((count.div_ceil(64), 1), 64, 0))
    }
}
