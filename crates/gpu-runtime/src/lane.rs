//! CUDA streams that wait for their work when they are dropped.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};

use crate::{Device, DeviceBuffer, GpuError};

/// A CUDA stream that waits for its work when it is dropped.
///
/// A type that also owns [`Pinned`](crate::Pinned) memory for copies on the lane must declare the
/// lane as its first field. Fields are dropped in declaration order, so the memory then outlives
/// the copies.
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
    /// Fails if the driver cannot create a stream.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        Ok(Self { device: device.clone(), stream: device.stream()? })
    }

    /// Returns the GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the stream. Its work runs in order, concurrently with the work of other lanes.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Grows a buffer to at least `length` values and returns its memory, which may be
    /// uninitialized.
    ///
    /// The previous values are lost if the buffer grows. The memory is never empty, because the
    /// driver rejects allocations of size 0.
    ///
    /// # Errors
    /// Fails if the GPU has too little memory.
    pub fn reserve<'a, T: DeviceRepr>(
        &self,
        buffer: &'a mut DeviceBuffer<T>,
        length: usize,
    ) -> Result<&'a mut CudaSlice<T>, GpuError> {
        let length = length.max(1);
        let memory = match buffer.0.take() {
            Some(memory) if memory.len() >= length => memory,
            too_small => {
                // Free the old memory first: both allocations may not fit at the same time.
                drop(too_small);
                let doing = self.device.step("allocating its memory");
                #[expect(unsafe_code, reason = "allocates uninitialized GPU memory")]
                // SAFETY: any bits are valid values of `T: DeviceRepr` on the GPU. Launches are
                // unsafe, and their caller ensures that kernels write the memory before they read
                // it.
                let fresh = unsafe { self.stream.alloc::<T>(length) };
                fresh.map_err(doing.failed())?
            }
        };
        Ok(buffer.0.insert(memory))
    }

    /// Waits until all enqueued work is done. `doing` names the step in error messages.
    ///
    /// # Errors
    /// Fails if the work failed on the GPU.
    pub fn wait(&self, doing: &'static str) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(self.device.step(doing).failed())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // A GPU that has failed does not continue copying, so the error can be ignored.
        let _ = self.stream.synchronize();
    }
}
