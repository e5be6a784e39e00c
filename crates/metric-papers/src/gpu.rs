//! What the searches of all papers do with a GPU.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use gpu_runtime::{
    CudaSlice, CudaStream, DeviceRepr, Doing, DriverError, GpuError, LaunchConfig, ValidAsZeroBits,
};

/// The outcome of a launch.
pub(crate) type Launched = Result<(), DriverError>;

/// A grid of blocks of `threads` threads, with `shared` bytes of shared memory per block.
pub(crate) fn config(grid: (u32, u32), threads: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid.0, grid.1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: u32::try_from(shared).expect("shared memory is below 4 GiB"),
    }
}

/// Allocates memory that is filled with zeros.
pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    length: usize,
    doing: Doing,
) -> Result<CudaSlice<T>, GpuError> {
    stream.alloc_zeros(length).map_err(doing.failed())
}

/// Whether the distances of all keys are finite. A key of all ones stands for no neighbor.
pub(crate) fn are_finite(keys: &[u64]) -> bool {
    keys.iter().all(|&key| key == u64::MAX || key >> 32 < u64::from(f32::INFINITY.to_bits()))
}

/// Works on each piece on a thread of its own; the results are in the order of the pieces.
pub(crate) fn together<'a, T: Sync, R: Send>(
    pieces: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    if let [single] = pieces {
        return vec![work(single)];
    }
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = pieces.iter().map(|piece| scope.spawn(move || work(piece))).collect();
        let joined = started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.collect()
    })
}
