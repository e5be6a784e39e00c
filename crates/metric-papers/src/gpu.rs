//! Helpers that the GPU searches of all papers share.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, DeviceRepr, Doing, DriverError, GpuError, ValidAsZeroBits,
};
use metric_index::neighbor::Neighbor;

/// The result of enqueuing kernels.
pub(crate) type LaunchResult = Result<(), DriverError>;

/// The answers to a batch of queries, and the time that the GPU took.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedAnswers {
    /// The neighbors of each query, nearest first.
    pub answers: Vec<Vec<Neighbor>>,
    /// Time in kernels, in seconds.
    pub seconds: f64,
}

/// Allocates zero-initialized memory.
pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    length: usize,
    doing: Doing,
) -> Result<CudaSlice<T>, GpuError> {
    stream.alloc_zeros(length).map_err(doing.failed())
}

/// Whether the distances of all keys are finite. A key of all ones means "no neighbor".
pub(crate) fn are_finite(keys: &[u64]) -> bool {
    keys.iter().all(|&key| key == u64::MAX || key >> 32 < u64::from(f32::INFINITY.to_bits()))
}
