//! The launchers of `kernels/cordeiro.cu`.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, Device, DevicePtr, DeviceRepr, GpuError, Kernel,
};

use crate::gpu::{Launched, config};

/// Threads of a block of `k_selection`, `32 * WARPS`, and of `knn_kernel` where many share a multiprocessor.
pub(super) const THREADS: u32 = 256;
/// Threads of a block of `knn_kernel` that answers queries alone.
pub(super) const MOST_THREADS: u32 = 1024;
/// An upper bound of the static shared memory of these kernels, in bytes.
const STATIC_BYTES: usize = 256;

/// The kernels, loaded.
#[derive(Debug)]
pub(super) struct Kernels {
    knn: Kernel,
    selection: Kernel,
    /// The most shared memory of a block that is left to them.
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

/// `Rows` of kernels/cordeiro.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Rows {
    values: u64,
    count: u32,
    dimension: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Rows`, in order and in size: a pointer and two u32.
unsafe impl DeviceRepr for Rows {}

/// Bytes of shared memory of `knn_kernel`.
pub(super) fn knn_bytes(dimension: u32, k: u32) -> usize {
    (dimension as usize * 4).next_multiple_of(16) + k as usize * 8
}

/// Bytes of shared memory of `k_selection`.
pub(super) fn selection_bytes(k: u32) -> usize {
    k.next_power_of_two() as usize * 8
}

/// `knn_kernel`: with `of_block` > 0, each of `blocks` blocks answers so many queries; with 0, all answer the first, each from a part
/// of the points.
pub(super) fn knn(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (points, count, dimension): (&CudaSlice<f32>, u32, u32),
    queries: &CudaView<'_, f32>,
    (blocks, threads): (u32, u32),
    (of_block, k): (u32, u32),
    neighbors: &mut CudaViewMut<'_, u64>,
) -> Launched {
    let points = Rows { values: points.device_ptr(stream).0, count, dimension };
    let lists = (blocks * of_block.max(1)) as usize;
    assert!(neighbors.len() >= lists * k as usize, "{lists} lists of {k} neighbors");
    assert!(queries.len() >= (blocks * of_block).max(1) as usize * dimension as usize);
    let mut launch = kernels.knn.launch_on(stream);
    launch.value(&points).pointer(queries).value(&of_block).value(&k).pointer(neighbors);
    #[expect(unsafe_code, reason = "the launcher of `knn_kernel`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are queries and room for neighbors, as
    // asserted.
    unsafe {
        launch.launch(config((blocks, 1), threads, knn_bytes(dimension, k)))
    }
}

/// `k_selection`: the k least of `length` keys of each of `queries` queries, sorted.
pub(super) fn selection(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    keys: &CudaSlice<u64>,
    (queries, length, k): (u32, u32, u32),
    neighbors: &mut CudaViewMut<'_, u64>,
) -> Launched {
    assert!(keys.len() >= queries as usize * length as usize, "{queries} queries of {length} keys");
    assert!(neighbors.len() >= queries as usize * k as usize, "{queries} lists of {k} neighbors");
    let size = k.next_power_of_two();
    let mut launch = kernels.selection.launch_on(stream);
    launch.pointer(keys).value(&length).value(&k).value(&size).pointer(neighbors);
    #[expect(unsafe_code, reason = "the launcher of `k_selection`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are keys and room for neighbors, as
    // asserted.
    unsafe {
        launch.launch(config((queries, 1), THREADS, selection_bytes(k)))
    }
}
