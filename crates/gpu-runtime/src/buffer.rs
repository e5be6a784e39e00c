//! Growing buffers in pinned host memory and in GPU memory.

use std::ptr::NonNull;

use cudarc::driver::{CudaSlice, DeviceRepr, PinnedHostSlice, ValidAsZeroBits};

use super::{Device, GpuError};

/// A growing buffer in page-locked host memory. Copies between it and the GPU run concurrently with
/// other work.
///
/// ```
/// use gpu_runtime::{Device, Pinned};
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let mut pinned = Pinned::<f32>::new(&device);
///     pinned.get(4)?.fill(1.0);
///     // SAFETY: no copy was enqueued.
///     assert_eq!(unsafe { pinned.values() }[..4], [1.0; 4]);
/// }
/// # Ok::<(), gpu_runtime::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Pinned<T> {
    device: Device,
    memory: Option<PinnedHostSlice<T>>,
    /// A cached pointer to the values, which avoids a driver call for each access.
    start: NonNull<T>,
    length: usize,
}

#[expect(unsafe_code, reason = "the buffer owns the memory behind the pointer")]
// SAFETY: the pointer refers to `memory`, which is owned and does not move.
unsafe impl<T: Send> Send for Pinned<T> {}
#[expect(unsafe_code, reason = "shared references only read")]
// SAFETY: shared access only reads.
unsafe impl<T: Sync> Sync for Pinned<T> {}

impl<T: DeviceRepr + ValidAsZeroBits> Pinned<T> {
    /// Creates an empty buffer.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), memory: None, start: NonNull::dangling(), length: 0 }
    }

    /// Returns the first `length` values. They keep their contents, or are all zero if the buffer
    /// had to grow.
    ///
    /// Copies to and from the buffer must have finished (`CudaStream::synchronize`).
    ///
    /// # Errors
    /// Fails if the driver cannot allocate the memory.
    ///
    /// # Panics
    /// Panics if `length` exceeds half of the address space.
    pub fn get(&mut self, length: usize) -> Result<&mut [T], GpuError> {
        let start = self.start(length)?;
        #[expect(unsafe_code, reason = "borrows memory of the driver")]
        // SAFETY: `start` points at `length` initialized values owned by `memory`.
        let values = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) };
        Ok(values)
    }

    /// Returns a pointer to the values that [`get`](Self::get) returns. Use it for memory that the
    /// GPU writes while the host reads it.
    ///
    /// # Errors
    /// Fails if the driver cannot allocate the memory.
    ///
    /// # Panics
    /// Panics if `length` exceeds half of the address space.
    pub fn start(&mut self, length: usize) -> Result<NonNull<T>, GpuError> {
        let doing = self.device.step("allocating pinned memory");
        if self.memory.as_ref().is_none_or(|memory| memory.len() < length) {
            self.memory = None;
            self.start = NonNull::dangling();
            self.length = 0;
            let length = length.next_power_of_two();
            #[expect(unsafe_code, reason = "allocates uninitialized memory")]
            // SAFETY: the memory is zeroed below, before it is read.
            let fresh = unsafe { self.device.context().alloc_pinned_with_flags::<T>(length, 0) };
            let mut fresh = fresh.map_err(doing.failed())?;
            let start = fresh.as_mut_ptr().map_err(doing.failed())?;
            #[expect(unsafe_code, reason = "zeroes bytes that may be uninitialized")]
            // SAFETY: `start` points at `length` values of a type for which zeros are valid.
            unsafe {
                std::ptr::write_bytes(start, 0, length);
            }
            self.start = NonNull::new(start).expect("the driver's memory is not null");
            self.length = length;
            self.memory = Some(fresh);
        }
        Ok(self.start)
    }

    /// Returns all allocated values, which may be more than were requested.
    ///
    /// # Safety
    /// The GPU must not write to the values while the slice exists. Kernels and copies that use
    /// this memory must have finished (`CudaStream::synchronize`).
    ///
    /// ```compile_fail,E0133
    /// // Only the caller can know that no copy is in progress.
    /// fn values(pinned: &gpu_runtime::Pinned<f32>) -> &[f32] { pinned.values() }
    /// ```
    ///
    /// ```
    /// use gpu_runtime::{Device, Pinned};
    ///
    /// // Does nothing without a GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     let mut pinned = Pinned::<f32>::new(&device);
    ///     pinned.get(4)?;
    ///     // SAFETY: no copy was enqueued.
    ///     assert!(unsafe { pinned.values() }.len() >= 4);
    /// }
    /// # Ok::<(), gpu_runtime::GpuError>(())
    /// ```
    #[expect(unsafe_code, reason = "the GPU may write to this memory")]
    pub unsafe fn values(&self) -> &[T] {
        // SAFETY: `start` points at `length` initialized values owned by `memory`, or `length` is
        // 0. The caller guarantees that the GPU does not write to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Returns all allocated values, for modification.
    ///
    /// # Safety
    /// The GPU must neither read nor write the values while the slice exists. Kernels and copies
    /// that use this memory must have finished (`CudaStream::synchronize`).
    #[expect(unsafe_code, reason = "the GPU may use this memory")]
    pub unsafe fn values_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `values`, and the memory is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

/// A growing buffer in GPU memory; see [`Lane::reserve`](crate::Lane::reserve).
///
/// Use a buffer with one lane only.
#[derive(Debug)]
pub struct DeviceBuffer<T>(pub(crate) Option<CudaSlice<T>>);

impl<T> Default for DeviceBuffer<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> DeviceBuffer<T> {
    /// Returns the number of values that fit in the allocated memory.
    pub fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, CudaSlice::len)
    }

    /// Returns the memory that [`Lane::reserve`](crate::Lane::reserve) allocated.
    ///
    /// # Panics
    /// Panics if no memory was reserved.
    pub fn reserved(&self) -> &CudaSlice<T> {
        self.0.as_ref().expect("memory is reserved before it is used")
    }
}
