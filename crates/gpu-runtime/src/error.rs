//! GPU errors: which GPU failed, in which step, and the driver's message.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// An error of a GPU or its driver.
///
/// ```
/// use gpu_runtime::GpuError;
///
/// assert!(!GpuError::NoDriver.is_out_of_memory());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no NVIDIA driver on this machine.
    #[error("there is no NVIDIA driver on this machine (libcuda.so.1 was not found)")]
    NoDriver,
    /// The program is linked statically and cannot load the driver.
    #[error("this is a static build, which cannot load the NVIDIA driver; use a dynamic build")]
    StaticBuild,
    /// There is a driver, but no GPU.
    #[error("the NVIDIA driver lists no GPU")]
    NoDevice,
    /// There is no GPU with this ordinal.
    #[error("there is no GPU {ordinal}: the driver lists {count}, counted from 0")]
    NoSuchDevice {
        /// The requested ordinal.
        ordinal: usize,
        /// Number of GPUs.
        count: usize,
    },
    /// The GPU is too old for the kernels.
    #[error(
        "{name} has compute capability {}.{}, but at least 7.5 is required",
        capability.0,
        capability.1
    )]
    TooOld {
        /// The GPU's name.
        name: String,
        /// Compute capability of the GPU: major, minor.
        capability: (i32, i32),
    },
    /// The driver is too old for the kernels' PTX.
    #[error(
        "the NVIDIA driver supports CUDA {}.{}, but 12.0 is required: update it to 525 or newer",
        cuda / 1_000,
        cuda % 1_000 / 10
    )]
    OldDriver {
        /// The newest CUDA version that the driver supports: 11040 is 11.4.
        cuda: i32,
    },
    /// The GPU has too little free memory, which was detected before allocating.
    #[error("GPU {ordinal}: {what} needs {needed} bytes, but {free} are free")]
    Memory {
        /// The GPU's ordinal.
        ordinal: usize,
        /// Name of the data that needs memory, such as "the rows".
        what: &'static str,
        /// Number of bytes that are needed.
        needed: usize,
        /// Number of bytes that are free.
        free: usize,
    },
    /// The driver reported an error.
    #[error("GPU {ordinal}, {doing}: {}", driver_message(*source))]
    Driver {
        /// The GPU's ordinal.
        ordinal: usize,
        /// Description of the step that failed, such as "opening it".
        doing: &'static str,
        /// The driver's error.
        source: DriverError,
    },
}

impl GpuError {
    /// Whether processing less data at a time could avoid the error.
    ///
    /// ```
    /// use gpu_runtime::GpuError;
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

/// A step of the work on a GPU, for error messages.
///
/// ```
/// use gpu_runtime::Device;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let step = device.step("waiting");
///     device.context().synchronize().map_err(step.failed())?;
/// }
/// # Ok::<(), gpu_runtime::GpuError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct GpuStep {
    ordinal: usize,
    what: &'static str,
}

impl GpuStep {
    pub(super) fn new(ordinal: usize, what: &'static str) -> Self {
        Self { ordinal, what }
    }

    /// Returns a function that turns a driver error into an error of this step.
    pub fn failed(self) -> impl Fn(DriverError) -> GpuError {
        move |source| GpuError::Driver { ordinal: self.ordinal, doing: self.what, source }
    }
}

fn driver_message(error: DriverError) -> String {
    match (error.error_string(), error.error_name()) {
        (Ok(text), Ok(name)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("driver error {:?}", error.0),
    }
}

/// Returns the newest CUDA version that the driver supports, or 0 if the driver does not report it.
pub(super) fn driver_version() -> i32 {
    let mut version = 0;
    #[expect(unsafe_code, reason = "cudarc has no safe call for the driver's version")]
    // SAFETY: the driver is loaded (a context is open) and writes one i32 to the pointer.
    let result = unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version) };
    if result == CUresult::CUDA_SUCCESS { version } else { 0 }
}
