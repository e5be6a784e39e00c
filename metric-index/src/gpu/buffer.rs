//! Pinned host memory, and a pool of things that are costly to make.

use std::sync::{Mutex, PoisonError};

use cudarc::driver::{DeviceRepr, PinnedHostSlice, ValidAsZeroBits};

use super::{Device, GpuError};

/// Page-locked host memory that grows: copies to and from it run beside other work.
#[derive(Debug)]
pub struct Pinned<T> {
    device: Device,
    memory: Option<PinnedHostSlice<T>>,
}

impl<T: DeviceRepr + ValidAsZeroBits> Pinned<T> {
    /// No memory yet.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), memory: None }
    }

    /// `length` values, with what was left in them by their last use. The copies that were put into
    /// a stream with them must have ended (`CudaStream::synchronize`).
    ///
    /// # Errors
    /// If the driver gives no such memory.
    ///
    /// # Panics
    /// If `length` is above half of the address space.
    pub fn get(&mut self, length: usize) -> Result<&mut [T], GpuError> {
        let doing = self.device.doing("allocating pinned memory");
        if self.memory.as_ref().is_none_or(|memory| memory.len() < length) {
            self.memory = None;
            let length = length.next_power_of_two();
            #[expect(unsafe_code, reason = "the driver's memory is not initialized")]
            // SAFETY: it is zeroed below, before anybody reads it.
            let fresh = unsafe { self.device.context().alloc_pinned_with_flags::<T>(length, 0) };
            let mut fresh = fresh.map_err(doing.failed())?;
            let start = fresh.as_mut_ptr().map_err(doing.failed())?;
            #[expect(unsafe_code, reason = "zeroes bytes that may be uninitialized")]
            // SAFETY: `start` points at `length` values of a type for which zeros are valid.
            unsafe {
                std::ptr::write_bytes(start, 0, length);
            }
            self.memory = Some(fresh);
        }
        let memory = self.memory.as_mut().expect("allocated above");
        let values = memory.as_mut_slice().map_err(doing.failed())?;
        Ok(&mut values[..length])
    }
}

/// Things that are not in use, kept for the next who needs one.
#[derive(Debug)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> Pool<T> {
    /// One that is not in use, or what `make` makes.
    ///
    /// # Errors
    /// That of `make`.
    pub fn take<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.map_or_else(make, Ok)
    }

    /// Gives it back.
    pub fn put(&self, item: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    /// Drops all that are not in use.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
