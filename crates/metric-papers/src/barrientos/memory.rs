//! Points and queries in the memory of a GPU.

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, GpuError};
use metric_index::gpu::Alphabet;

use super::launch::{Clusters, Pivots, address};

/// Points in the memory of a GPU.
#[derive(Debug)]
pub(super) enum DevicePoints {
    Vectors { columns: CudaSlice<f32>, dimension: u32 },
    Words { columns: CudaSlice<u8>, lengths: CudaSlice<u8>, longest: u32, alphabet: Box<Alphabet> },
}

/// A List of Clusters in the memory of a GPU.
#[derive(Debug)]
pub(super) struct DeviceClusters {
    pub(super) radii: CudaSlice<f32>,
    pub(super) ends: CudaSlice<u32>,
    pub(super) cluster_of: CudaSlice<u32>,
    pub(super) points: CudaSlice<u32>,
    pub(super) count: u32,
}

/// A table of distances to pivots in the memory of a GPU.
#[derive(Debug)]
pub(super) struct DevicePivots {
    pub(super) numbers: CudaSlice<u32>,
    pub(super) distances: CudaSlice<f32>,
    pub(super) count: u32,
}

impl DeviceClusters {
    /// Returns the clusters in the form that kernels read.
    pub(super) fn addresses(&self, stream: &CudaStream) -> Clusters {
        Clusters {
            radii: address(stream, &self.radii),
            ends: address(stream, &self.ends),
            cluster_of: address(stream, &self.cluster_of),
            points: address(stream, &self.points),
            count: self.count,
        }
    }
}

impl DevicePivots {
    /// Returns the table in the form that kernels read.
    pub(super) fn addresses(&self, stream: &CudaStream) -> Pivots {
        Pivots {
            numbers: address(stream, &self.numbers),
            distances: address(stream, &self.distances),
            count: self.count,
        }
    }
}

/// Queries in the memory of a GPU.
#[derive(Debug)]
pub(super) enum DeviceQueries {
    Vectors(CudaSlice<f32>),
    Words(CudaSlice<u8>),
}

/// Copies values to a GPU. If there are no values, copies one default value, because the driver
/// rejects empty copies.
pub(super) fn upload<T: gpu_runtime::DeviceRepr + Default + Copy>(
    device: &Device,
    stream: &Arc<CudaStream>,
    values: &[T],
) -> Result<CudaSlice<T>, GpuError> {
    let failed = device.step("copying points to it").failed();
    if values.is_empty() {
        return stream.clone_htod(&[T::default()]).map_err(failed);
    }
    stream.clone_htod(values).map_err(failed)
}
