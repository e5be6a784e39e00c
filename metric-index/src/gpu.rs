//! NVIDIA GPUs: found at run time, described, opened.
//!
//! Nothing here needs a GPU or its driver to build or to start: the driver's library is looked for
//! when a GPU is asked for, and its absence is an [`GpuError`] like any other.
//!
//! ```
//! use metric_index::gpu::{GpuError, devices};
//!
//! match devices() {
//!     Ok(found) => println!("{} GPUs", found.len()),
//!     Err(GpuError::NoDriver) => println!("no driver"),
//!     Err(error) => println!("{error}"),
//! }
//! ```

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::nvrtc::Ptx;

mod buffer;
mod error;
mod texture;

pub use buffer::{Pinned, Pool};
pub use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr,
    LaunchConfig, PushKernelArg, ValidAsZeroBits,
};
pub use cudarc::driver::{DevicePtr, DriverError};
pub use error::{Doing, GpuError};
pub use texture::{Texel, Texture};

use cudarc::driver::{CudaContext, CudaModule};

/// The least compute capability that the kernels run on.
///
/// ```
/// use metric_index::gpu::{LEAST_CAPABILITY, devices};
///
/// for info in devices().unwrap_or_default() {
///     assert!(!info.is_supported() || info.capability >= LEAST_CAPABILITY);
/// }
/// ```
pub const LEAST_CAPABILITY: (i32, i32) = (7, 5);
/// The oldest driver that reads the kernels' PTX, by the newest CUDA that it knows: 12000 is 12.0, of the
/// drivers from 525 on.
///
/// ```
/// use metric_index::gpu::{LEAST_DRIVER, devices};
///
/// for info in devices().unwrap_or_default() {
///     assert!(!info.is_supported() || info.driver >= LEAST_DRIVER);
/// }
/// ```
pub const LEAST_DRIVER: i32 = 12_000;

/// What a GPU is and how much of everything it has.
///
/// ```
/// use metric_index::gpu::devices;
///
/// for info in devices().unwrap_or_default() {
///     println!("GPU {}: {}, {} bytes free", info.ordinal, info.name, info.free);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The driver's number of the GPU, from 0.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability: major, minor.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Threads that a multiprocessor holds at once.
    pub threads: usize,
    /// Memory, in bytes.
    pub memory: usize,
    /// Memory that was free when this was asked, in bytes.
    pub free: usize,
    /// The most shared memory that a block can ask for, in bytes.
    pub shared_per_block: usize,
    /// The shared memory of a multiprocessor, in bytes.
    pub shared_per_multiprocessor: usize,
    /// The shared memory that every block takes for the system, in bytes.
    pub shared_reserved: usize,
    /// The widest one-dimensional texture over linear memory, in texels.
    pub texture_width: usize,
    /// The newest CUDA that the driver knows: 12040 is 12.4.
    pub driver: i32,
}

impl DeviceInfo {
    /// Whether the kernels run on it.
    ///
    /// ```
    /// use metric_index::gpu::devices;
    ///
    /// for info in devices().unwrap_or_default() {
    ///     assert_eq!(info.is_supported(), info.check().is_ok());
    /// }
    /// ```
    pub fn is_supported(&self) -> bool {
        self.check().is_ok()
    }

    /// Refuses a GPU that the kernels do not run on.
    ///
    /// # Errors
    /// [`GpuError::TooOld`] or [`GpuError::OldDriver`].
    ///
    /// ```
    /// use metric_index::gpu::devices;
    ///
    /// for info in devices().unwrap_or_default() {
    ///     if let Err(why) = info.check() {
    ///         println!("{}: {why}", info.name);
    ///     }
    /// }
    /// ```
    pub fn check(&self) -> Result<(), GpuError> {
        if self.capability < LEAST_CAPABILITY {
            let (name, capability) = (self.name.clone(), self.capability);
            return Err(GpuError::TooOld { name, capability });
        }
        if self.driver < LEAST_DRIVER {
            return Err(GpuError::OldDriver { cuda: self.driver });
        }
        Ok(())
    }
}

/// The GPUs that the driver lists and opens, by ordinal.
///
/// # Errors
/// The first GPU's if none can be opened (one that others keep for themselves, or whose memory is full);
/// [`GpuError::NoDriver`] where there is no driver, [`GpuError::NoDevice`] where it lists no GPU,
/// [`GpuError::StaticBuild`] in a static binary.
///
/// ```
/// use metric_index::gpu::{GpuError, devices};
///
/// match devices() {
///     Ok(found) => assert!(!found.is_empty()),
///     Err(why) => println!("no GPU: {why}"),
/// }
/// ```
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    let mut found = Vec::new();
    let mut first_error = None;
    for ordinal in 0..count()? {
        match Device::open(ordinal) {
            Ok(device) => found.push(device.info),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn count() -> Result<usize, GpuError> {
    // A program without a dynamic loader of its own must not load the driver's library.
    if cfg!(target_feature = "crt-static") {
        return Err(GpuError::StaticBuild);
    }
    #[expect(unsafe_code, reason = "cudarc's probe for the driver's library is unsafe")]
    // SAFETY: loading the driver's library runs its initializers, which any process may do.
    let present = unsafe { cudarc::driver::sys::is_culib_present() };
    if !present {
        return Err(GpuError::NoDriver);
    }
    let count = CudaContext::device_count().map_err(GpuError::of_count)?;
    match usize::try_from(count) {
        Ok(0) | Err(_) => Err(GpuError::NoDevice),
        Ok(count) => Ok(count),
    }
}

/// An open GPU.
///
/// ```
/// use metric_index::gpu::Device;
///
/// // Nothing where there is no GPU.
/// if let Ok(device) = Device::open_best() {
///     println!("{}", device.info().name);
/// }
/// # Ok::<(), metric_index::gpu::GpuError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    context: Arc<CudaContext>,
    info: DeviceInfo,
}

impl Device {
    /// Opens the GPU of this ordinal.
    ///
    /// # Errors
    /// If there is no driver, no such GPU, or it does not answer.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// assert!(Device::open(usize::MAX).is_err());
    /// ```
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let count = count()?;
        if ordinal >= count {
            return Err(GpuError::NoSuchDevice { ordinal, count });
        }
        let doing = Doing::new(ordinal, "opening it");
        let context = CudaContext::new(ordinal).map_err(doing.failed())?;
        #[expect(unsafe_code, reason = "each buffer is used on one stream, or after a wait")]
        // SAFETY: cudarc would order buffers of several streams by events. Here buffers are used on
        // the stream that made them, or by others only after `CudaStream::synchronize`.
        unsafe {
            context.disable_event_tracking();
        }
        let info = info(&context, ordinal).map_err(doing.failed())?;
        Ok(Self { context, info })
    }

    /// Opens the GPU with the most free memory of those that the kernels run on.
    ///
    /// # Errors
    /// If there is none.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// match Device::open_best() {
    ///     Ok(device) => assert!(device.info().is_supported()),
    ///     Err(why) => println!("{why}"),
    /// }
    /// ```
    pub fn open_best() -> Result<Self, GpuError> {
        let found = devices()?;
        let best = found.iter().filter(|info| info.is_supported()).max_by_key(|info| info.free);
        match best.or(found.first()) {
            Some(info) => {
                info.check()?;
                Self::open(info.ordinal)
            }
            None => Err(GpuError::NoDevice),
        }
    }

    /// What it is.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     assert!(device.info().is_supported());
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The driver's context.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     assert_eq!(device.context().ordinal(), device.info().ordinal);
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Bytes of memory that are free now.
    ///
    /// # Errors
    /// If the GPU does not answer.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     assert!(device.free()? <= device.info().memory);
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn free(&self) -> Result<usize, GpuError> {
        let doing = Doing::new(self.info.ordinal, "asking for its free memory");
        self.context.mem_get_info().map(|(free, _)| free).map_err(doing.failed())
    }

    /// Refuses what does not fit, before anything is allocated.
    ///
    /// # Errors
    /// [`GpuError::Memory`] if fewer than `needed` bytes are free.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     assert!(device.reserve("rows", usize::MAX).is_err());
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn reserve(&self, what: &'static str, needed: usize) -> Result<(), GpuError> {
        // What was freed in streams is free when they have come that far.
        let doing = Doing::new(self.info.ordinal, "waiting for it");
        self.context.synchronize().map_err(doing.failed())?;
        let free = self.free()?;
        if needed > free {
            return Err(GpuError::Memory { ordinal: self.info.ordinal, what, needed, free });
        }
        Ok(())
    }

    /// A new stream: what is put into it runs in order, beside other streams.
    ///
    /// # Errors
    /// If the driver makes none.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     let _stream = device.stream()?;
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn stream(&self) -> Result<Arc<CudaStream>, GpuError> {
        let doing = Doing::new(self.info.ordinal, "making a stream");
        self.context.new_stream().map_err(doing.failed())
    }

    /// Loads PTX: the driver compiles it for this GPU.
    ///
    /// # Errors
    /// If the GPU or its driver is too old, or the driver refuses the PTX.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     assert!(device.load("no PTX").is_err());
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn load(&self, ptx: &str) -> Result<Module, GpuError> {
        self.info.check()?;
        let doing = Doing::new(self.info.ordinal, "loading its kernels");
        let module = self.context.load_module(Ptx::from_src(ptx)).map_err(doing.failed())?;
        Ok(Module { module, ordinal: self.info.ordinal })
    }

    /// An event that measures time.
    ///
    /// # Errors
    /// If the driver makes none.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     let _start = device.timer()?;
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn timer(&self) -> Result<CudaEvent, GpuError> {
        let flags = cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
        let doing = Doing::new(self.info.ordinal, "making an event");
        self.context.new_event(Some(flags)).map_err(doing.failed())
    }

    /// What errors of this GPU say that it was doing.
    ///
    /// ```
    /// use metric_index::gpu::Device;
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     let _step = device.doing("adding rows");
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn doing(&self, what: &'static str) -> Doing {
        Doing::new(self.info.ordinal, what)
    }
}

/// Loaded kernels.
///
/// ```
/// use metric_index::gpu::{Device};
///
/// // Nothing where there is no GPU.
/// if let Ok(device) = Device::open_best() {
///     let module = device.load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry none() { ret; }")?;
///     let _kernel = module.kernel("none", 0)?;
/// }
/// # Ok::<(), metric_index::gpu::GpuError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Module {
    module: Arc<CudaModule>,
    ordinal: usize,
}

impl Module {
    /// The kernel of this name, allowed `shared` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// If there is no such kernel or the memory is more than the GPU has.
    ///
    /// ```
    /// use metric_index::gpu::{Device};
    ///
    /// // Nothing where there is no GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     let module = device.load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry none() { ret; }")?;
    ///     assert!(module.kernel("some", 0).is_err());
    /// }
    /// # Ok::<(), metric_index::gpu::GpuError>(())
    /// ```
    pub fn kernel(&self, name: &str, shared: usize) -> Result<CudaFunction, GpuError> {
        let doing = Doing::new(self.ordinal, "finding a kernel");
        let function = self.module.load_function(name).map_err(doing.failed())?;
        let bytes = i32::try_from(shared).unwrap_or(i32::MAX);
        if shared > 48 * 1024 {
            use cudarc::driver::sys::CUfunction_attribute_enum as Limit;
            let limit = Limit::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let doing = Doing::new(self.ordinal, "asking for shared memory");
            function.set_attribute(limit, bytes).map_err(doing.failed())?;
        }
        Ok(function)
    }
}

fn info(context: &Arc<CudaContext>, ordinal: usize) -> Result<DeviceInfo, DriverError> {
    let size = |attribute| {
        let value = context.attribute(attribute)?;
        Ok::<_, DriverError>(usize::try_from(value).unwrap_or(0))
    };
    let (free, memory) = context.mem_get_info()?;
    Ok(DeviceInfo {
        ordinal,
        name: context.name()?,
        capability: context.compute_capability()?,
        multiprocessors: size(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        threads: size(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        memory,
        free,
        shared_per_block: size(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_per_multiprocessor: size(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        shared_reserved: size(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
        texture_width: size(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH)?,
        driver: error::driver_version(),
    })
}
