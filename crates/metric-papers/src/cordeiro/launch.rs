//! Launches the kernels of `kernels/cordeiro.cu`.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, Device, DevicePtr, DeviceRepr, GpuError, Grid,
    Kernel,
};

use crate::gpu::LaunchResult;

/// Number of threads per block of `k_selection` (`32 * WARPS`), and of `knn_kernel` if several
/// blocks share a multiprocessor.
pub(super) const THREADS: u32 = 256;
/// Number of threads per block of `knn_kernel` if each block answers queries on its own.
pub(super) const MAX_THREADS: u32 = 1024;
/// Upper bound for the static shared memory of these kernels, in bytes.
const STATIC_BYTES: usize = 256;

/// The loaded kernels.
#[derive(Debug)]
pub(super) struct Kernels {
    knn: Kernel,
    selection: Kernel,
    /// Maximum dynamic shared memory per block, in bytes.
    pub(super) shared: usize,
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let module = device.load_packed(gpu_runtime::ptx!("cordeiro"))?;
        let shared = device.info().shared_per_block - STATIC_BYTES;
        Ok(Self {
            knn: module.kernel("knn_kernel", shared)?,
            selection: module.kernel("k_selection", shared)?,
            shared,
        })
    }
}

/// Vectors on the GPU: `Rows` of `kernels/cordeiro.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Rows {
    values: u64,
    count: u32,
    dimension: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields have the order and sizes of `Rows`: a pointer and two u32.
unsafe impl DeviceRepr for Rows {}

/// Returns the shared memory per block of `knn_kernel`, in bytes.
pub(super) fn knn_bytes(dimension: u32, k: u32) -> usize {
    (dimension as usize * 4).next_multiple_of(16) + k as usize * 8
}

/// Returns the shared memory per block of `k_selection`, in bytes.
pub(super) fn selection_bytes(k: u32) -> usize {
    k.next_power_of_two() as usize * 8
}

/// Vectors in the memory of a GPU, in rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceVectors<'a> {
    pub(super) values: &'a CudaSlice<f32>,
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// The configuration of a launch of `knn_kernel`.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnnLaunch {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Number of queries that each block answers. If 0, all blocks answer the first query, each
    /// from its part of the points.
    pub(super) queries_per_block: u32,
    pub(super) k: u32,
}

/// Lists of keys from which `k_selection` selects.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyLists<'a> {
    pub(super) keys: &'a CudaSlice<u64>,
    /// Number of lists: one per query.
    pub(super) count: u32,
    /// Number of keys per list.
    pub(super) length: u32,
}

impl Kernels {
    /// Enqueues `knn_kernel`.
    pub(super) fn knn(
        &self,
        stream: &Arc<CudaStream>,
        points: DeviceVectors<'_>,
        queries: &CudaView<'_, f32>,
        config: KnnLaunch,
        neighbors: &mut CudaViewMut<'_, u64>,
    ) -> LaunchResult {
        let KnnLaunch { blocks, threads, queries_per_block, k } = config;
        let DeviceVectors { values, count, dimension } = points;
        let points = Rows { values: values.device_ptr(stream).0, count, dimension };
        let lists = (blocks * queries_per_block.max(1)) as usize;
        assert!(neighbors.len() >= lists * k as usize, "{lists} lists of {k} neighbors");
        let needed = (blocks * queries_per_block).max(1) as usize;
        assert!(queries.len() >= needed * dimension as usize, "{needed} queries");
        let mut launch = self.knn.launch_on(stream);
        launch.value(&points).pointer(queries).value(&queries_per_block).value(&k);
        launch.pointer(neighbors);
        let grid = Grid::new(blocks, threads).with_shared_bytes(knn_bytes(dimension, k));
        #[expect(unsafe_code, reason = "the launcher of `knn_kernel`")]
        // SAFETY: the arguments match the kernel's parameters in order and type. There are enough
        // queries and neighbors, as asserted.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues `k_selection`, which returns the k smallest keys of each list in increasing order.
    pub(super) fn selection(
        &self,
        stream: &Arc<CudaStream>,
        lists: KeyLists<'_>,
        k: u32,
        neighbors: &mut CudaViewMut<'_, u64>,
    ) -> LaunchResult {
        let KeyLists { keys, count, length } = lists;
        assert!(keys.len() >= count as usize * length as usize, "{count} lists of {length} keys");
        assert!(neighbors.len() >= count as usize * k as usize, "{count} lists of {k} neighbors");
        let size = k.next_power_of_two();
        let mut launch = self.selection.launch_on(stream);
        launch.pointer(keys).value(&length).value(&k).value(&size).pointer(neighbors);
        let grid = Grid::new(count, THREADS).with_shared_bytes(selection_bytes(k));
        #[expect(unsafe_code, reason = "the launcher of `k_selection`")]
        // SAFETY: the arguments match the kernel's parameters in order and type. There are enough
        // keys and neighbors, as asserted.
        unsafe {
            launch.launch(grid.into())
        }
    }
}
