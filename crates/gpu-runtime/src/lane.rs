//! A stream of a GPU, and how memory moves through it.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};

use crate::{Device, DeviceBuffer, GpuError};

/// A stream of a GPU that waits for its work when it is dropped.
///
/// A type that also owns [`Pinned`](crate::Pinned) memory for copies on the lane must declare the
/// lane as its first field. Fields are dropped in order, so that the memory outlives the copies.
///
/// ```
/// use gpu_runtime::{Device, DeviceBuffer, Lane};
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let lane = Lane::new(&device)?;
///     let mut buffer = DeviceBuffer::<f32>::default();
///     assert!(lane.reserve(&mut buffer, 4)?.len() >= 4);
///     lane.wait("an example")?;
/// }
/// # Ok::<(), gpu_runtime::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Lane {
    device: Device,
    stream: Arc<CudaStream>,
}

impl Lane {
    /// Creates a stream on a GPU.
    ///
    /// # Errors
    /// If the driver cannot create one.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        Ok(Self { device: device.clone(), stream: device.stream()? })
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream. Its work runs in order, concurrently with that of other lanes.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Returns at least `length` values of a buffer, which may be uninitialized.
    ///
    /// The previous values are lost if the buffer grows. A buffer is never empty, because the
    /// driver rejects empty memory.
    ///
    /// # Errors
    /// If the GPU has too little memory.
    pub fn reserve<'a, T: DeviceRepr>(
        &self,
        buffer: &'a mut DeviceBuffer<T>,
        length: usize,
    ) -> Result<&'a mut CudaSlice<T>, GpuError> {
        let length = length.max(1);
        let memory = match buffer.0.take() {
            Some(memory) if memory.len() >= length => memory,
            too_small => {
                // Free it first, so that both need not fit.
                drop(too_small);
                let doing = self.device.doing("allocating its memory");
                #[expect(unsafe_code, reason = "memory of the GPU is not initialized")]
                // SAFETY: any bits are valid values of `T: DeviceRepr` on the GPU. A launch is
                // unsafe: its caller ensures that kernels write the memory before they read it.
                let fresh = unsafe { self.stream.alloc::<T>(length) };
                fresh.map_err(doing.failed())?
            }
        };
        Ok(buffer.0.insert(memory))
    }

    /// Waits until all work enqueued so far is done. `doing` names the step in errors.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn wait(&self, doing: &'static str) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(self.device.doing(doing).failed())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // A GPU that has failed copies nothing more.
        let _ = self.stream.synchronize();
    }
}
