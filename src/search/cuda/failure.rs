//! Failures of a search on the GPU.

use std::sync::Arc;

use gpu_runtime::GpuError;

use crate::search::SearchError;

/// The reason a search on the GPU failed.
#[derive(Debug)]
pub(in crate::search) enum DeviceFailure {
    /// The GPU failed.
    Gpu(GpuError),
    /// The search was rejected or stopped.
    Search(SearchError),
}

impl From<GpuError> for DeviceFailure {
    fn from(error: GpuError) -> Self {
        Self::Gpu(error)
    }
}

impl From<SearchError> for DeviceFailure {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}

impl From<DeviceFailure> for SearchError {
    fn from(failure: DeviceFailure) -> Self {
        match failure {
            DeviceFailure::Gpu(error) => Self::Engine(Arc::new(error)),
            DeviceFailure::Search(error) => error,
        }
    }
}
