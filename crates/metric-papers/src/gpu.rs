//! Helpers that the GPU searches of all papers share.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, DeviceRepr, DriverError, GpuError, GpuStep, ValidAsZeroBits,
};
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;

/// The result of enqueuing kernels.
pub(crate) type LaunchResult = Result<(), DriverError>;

/// The answers to a batch of queries, with the GPU time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimedAnswers {
    /// The neighbors of each query, nearest first.
    pub answers: NeighborLists,
    /// The time in kernels, in seconds.
    pub seconds: f64,
}

/// Allocates zero-initialized memory.
pub(crate) fn zeros<T: DeviceRepr + ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    length: usize,
    doing: GpuStep,
) -> Result<CudaSlice<T>, GpuError> {
    stream.alloc_zeros(length).map_err(doing.failed())
}

/// Whether the distances of all keys are finite. A key whose bits are all 1 means "no neighbor".
pub(crate) fn are_finite(keys: &[u64]) -> bool {
    keys.iter().all(|&key| key == u64::MAX || key >> 32 < u64::from(f32::INFINITY.to_bits()))
}

/// Returns the neighbor lists of queries that have `k` keys each. A list may end with keys that
/// mean "no neighbor".
pub(crate) fn lists_of(keys: &[u64], k: u32) -> NeighborLists {
    let mut lists = NeighborLists::default();
    for keys in keys.chunks(k as usize) {
        let count = keys.iter().position(|&key| key == u64::MAX).unwrap_or(keys.len());
        lists.push(Ok(Neighbor::from_keys(&keys[..count])));
    }
    lists
}

/// Returns an empty list for each of `queries` queries.
pub(crate) fn empty_lists(queries: usize) -> NeighborLists {
    (0..queries).map(|_| Ok(Vec::new())).collect()
}
