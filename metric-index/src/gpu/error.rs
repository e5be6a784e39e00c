//! Why a GPU cannot be used: which one, what it was doing, what the driver said.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Why a GPU cannot be used.
///
/// ```
/// use metric_index::gpu::GpuError;
///
/// assert!(!GpuError::NoDriver.is_out_of_memory());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No driver on this machine.
    #[error("there is no NVIDIA driver on this machine (libcuda.so.1 was not found)")]
    NoDriver,
    /// A program that cannot load the driver.
    #[error("this is a static build, which cannot load the NVIDIA driver; a dynamic one can")]
    StaticBuild,
    /// A driver, but no GPU.
    #[error("the NVIDIA driver lists no GPU")]
    NoDevice,
    /// A GPU that is not there.
    #[error("there is no GPU {ordinal}: the driver lists {count}, from 0")]
    NoSuchDevice {
        /// What was asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// A GPU that the kernels do not run on.
    #[error("{name} has compute capability {}.{}, at least 7.5 is needed", capability.0, capability.1)]
    TooOld {
        /// Its name.
        name: String,
        /// Its compute capability.
        capability: (i32, i32),
    },
    /// A driver that does not know the kernels' PTX.
    #[error("the NVIDIA driver knows CUDA {}.{}, 12.0 is needed: a driver from 525 on", cuda / 1_000, cuda % 1_000 / 10)]
    OldDriver {
        /// The newest CUDA that it knows: 11040 is 11.4.
        cuda: i32,
    },
    /// Too little memory, found before allocating.
    #[error("GPU {ordinal}: {what} needs {needed} bytes, {free} are free")]
    Memory {
        /// Which GPU.
        ordinal: usize,
        /// What was to be put there.
        what: &'static str,
        /// How many bytes that takes.
        needed: usize,
        /// How many are free.
        free: usize,
    },
    /// The driver refused.
    #[error("GPU {ordinal}, {doing}: {}", said(*source))]
    Driver {
        /// Which GPU.
        ordinal: usize,
        /// What it was doing.
        doing: &'static str,
        /// What the driver said.
        source: DriverError,
    },
}

impl GpuError {
    /// Whether less at a time could help.
    ///
    /// ```
    /// use metric_index::gpu::GpuError;
    ///
    /// let error = GpuError::Memory { ordinal: 0, what: "rows", needed: 2, free: 1 };
    /// assert!(error.is_out_of_memory());
    /// ```
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Memory { .. } => true,
            Self::Driver { source, .. } => source.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            _ => false,
        }
    }

    pub(super) fn of_count(error: DriverError) -> Self {
        match error.0 {
            CUresult::CUDA_ERROR_NO_DEVICE => Self::NoDevice,
            _ => Self::Driver { ordinal: 0, doing: "starting the driver", source: error },
        }
    }
}

/// A step of the work on a GPU, for its errors.
///
/// ```
/// use metric_index::gpu::{Device};
///
/// // Nothing where there is no GPU.
/// if let Ok(device) = Device::open_best() {
///     let step = device.doing("waiting");
///     device.context().synchronize().map_err(step.failed())?;
/// }
/// # Ok::<(), metric_index::gpu::GpuError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Doing {
    ordinal: usize,
    what: &'static str,
}

impl Doing {
    pub(super) fn new(ordinal: usize, what: &'static str) -> Self {
        Self { ordinal, what }
    }

    /// Makes the driver's error one of this step.
    ///
    /// ```
    /// use metric_index::gpu::{Device};
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     let step = device.doing("waiting");
    ///     device.context().synchronize().map_err(step.failed())?;
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn failed(self) -> impl Fn(DriverError) -> GpuError {
        move |source| GpuError::Driver { ordinal: self.ordinal, doing: self.what, source }
    }
}

fn said(error: DriverError) -> String {
    match (error.error_string(), error.error_name()) {
        (Ok(text), Ok(name)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("driver error {:?}", error.0),
    }
}

/// The newest CUDA that the driver knows, or 0 if it does not say.
pub(super) fn driver_version() -> i32 {
    let mut version = 0;
    #[expect(unsafe_code, reason = "cudarc has no safe call for the driver's version")]
    // SAFETY: the driver is loaded (a context is open) and writes one i32 to the pointer.
    let result = unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version) };
    if result == CUresult::CUDA_SUCCESS { version } else { 0 }
}
