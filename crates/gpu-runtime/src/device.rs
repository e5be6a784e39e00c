//! Detects and opens GPUs, and reports their properties.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError};
use cudarc::nvrtc::Ptx;

use crate::error::{self, GpuError, GpuStep};
use crate::kernel::kernel_parameters;
use crate::module::Module;
use crate::packed::unpack;

/// The lowest compute capability that the kernels support.
pub const MIN_CAPABILITY: (i32, i32) = (7, 5);
/// The lowest CUDA version that the driver must support. 12000 is CUDA 12.0, which needs driver 525
/// or newer.
pub const MIN_DRIVER: i32 = 12_000;

/// The properties of a GPU.
///
/// ```
/// use gpu_runtime::devices;
///
/// for info in devices().unwrap_or_default() {
///     println!("GPU {}: {}, {} bytes free", info.ordinal, info.name, info.free);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Index of the GPU in the driver's list, from 0.
    pub ordinal: usize,
    /// The GPU's name.
    pub name: String,
    /// Compute capability: major, minor.
    pub capability: (i32, i32),
    /// Number of multiprocessors.
    pub multiprocessors: usize,
    /// Maximum number of resident threads per multiprocessor.
    pub threads: usize,
    /// Total memory, in bytes.
    pub memory: usize,
    /// Free memory at the time of the query, in bytes.
    pub free: usize,
    /// Maximum shared memory that a block can request, in bytes.
    pub shared_per_block: usize,
    /// Shared memory per multiprocessor, in bytes.
    pub shared_per_multiprocessor: usize,
    /// Shared memory that the system reserves per block, in bytes.
    pub shared_reserved: usize,
    /// Maximum width of a one-dimensional texture over linear memory, in texels.
    pub texture_width: usize,
    /// The newest CUDA version that the driver supports: 12040 is 12.4.
    pub driver: i32,
}

impl DeviceInfo {
    /// Whether the GPU and its driver support the kernels.
    pub fn is_supported(&self) -> bool {
        self.check().is_ok()
    }

    /// Checks that the GPU and its driver support the kernels.
    ///
    /// # Errors
    /// Returns [`GpuError::TooOld`] or [`GpuError::OldDriver`].
    ///
    /// ```
    /// use gpu_runtime::devices;
    ///
    /// for info in devices().unwrap_or_default() {
    ///     if let Err(why) = info.check() {
    ///         println!("{}: {why}", info.name);
    ///     }
    /// }
    /// ```
    pub fn check(&self) -> Result<(), GpuError> {
        if self.capability < MIN_CAPABILITY {
            let name = self.name.clone();
            return Err(GpuError::TooOld { name, capability: self.capability });
        }
        if self.driver < MIN_DRIVER {
            return Err(GpuError::OldDriver { cuda: self.driver });
        }
        Ok(())
    }
}

/// Returns the properties of the GPUs that can be opened, in the driver's order.
///
/// # Errors
/// Returns [`GpuError::NoDriver`] if there is no driver, [`GpuError::NoDevice`] if the driver lists
/// no GPU, and [`GpuError::StaticBuild`] in a static binary. If no GPU can be opened, returns the
/// error of the first one: it may be in exclusive use, or its memory may be full.
///
/// ```
/// use gpu_runtime::{GpuError, devices};
///
/// match devices() {
///     Ok(found) => assert!(!found.is_empty()),
///     Err(why) => println!("no GPU: {why}"),
/// }
/// ```
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    Ok(open_all()?.into_iter().map(|device| device.info).collect())
}

/// Opens the GPUs that the driver lists. Skips GPUs that cannot be opened, unless all of them fail.
fn open_all() -> Result<Vec<Device>, GpuError> {
    let mut opened = Vec::new();
    let mut first_error = None;
    for ordinal in 0..device_count()? {
        match Device::open(ordinal) {
            Ok(device) => opened.push(device),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok(opened),
    }
}

fn device_count() -> Result<usize, GpuError> {
    // A static program has no dynamic loader and must not load the driver's library.
    if cfg!(target_feature = "crt-static") {
        return Err(GpuError::StaticBuild);
    }
    #[expect(unsafe_code, reason = "cudarc's check for the driver's library is unsafe")]
    // SAFETY: loading the driver's library runs its initializers, which is allowed in any process.
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
/// use gpu_runtime::Device;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     println!("{}", device.info().name);
/// }
/// # Ok::<(), gpu_runtime::GpuError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    context: Arc<CudaContext>,
    info: DeviceInfo,
    /// The modules loaded from compressed PTX, by the address of the PTX in the program.
    modules: Arc<Mutex<HashMap<usize, Module>>>,
}

impl Device {
    /// Opens the GPU with this ordinal.
    ///
    /// # Errors
    /// Fails if there is no driver or no such GPU, or if the GPU does not respond.
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(GpuError::NoSuchDevice { ordinal, count });
        }
        let doing = GpuStep::new(ordinal, "opening it");
        let context = CudaContext::new(ordinal).map_err(doing.failed())?;
        let info = info(&context, ordinal).map_err(doing.failed())?;
        Ok(Self { context, info, modules: Arc::default() })
    }

    /// Opens the supported GPU with the most free memory.
    ///
    /// # Errors
    /// Fails if there is no supported GPU.
    ///
    /// ```
    /// use gpu_runtime::Device;
    ///
    /// match Device::open_best() {
    ///     Ok(device) => assert!(device.info().is_supported()),
    ///     Err(why) => println!("{why}"),
    /// }
    /// ```
    pub fn open_best() -> Result<Self, GpuError> {
        // Opening is slow, so the chosen GPU stays open.
        let mut opened = open_all()?;
        let rank = |device: &Self| (device.info.is_supported(), device.info.free);
        let best = (0..opened.len())
            .max_by_key(|&index| rank(&opened[index]))
            .ok_or(GpuError::NoDevice)?;
        let best = opened.swap_remove(best);
        best.info.check()?;
        Ok(best)
    }

    /// Returns the properties of the GPU at the time it was opened.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the driver's context.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns the number of bytes of GPU memory that are free now.
    ///
    /// # Errors
    /// Fails if the GPU does not respond.
    pub fn free(&self) -> Result<usize, GpuError> {
        let doing = GpuStep::new(self.info.ordinal, "querying its free memory");
        self.context.mem_get_info().map(|(free, _)| free).map_err(doing.failed())
    }

    /// Checks that at least `needed` bytes are free. `what` names the data in error messages.
    ///
    /// # Errors
    /// Returns [`GpuError::Memory`] if fewer than `needed` bytes are free.
    pub fn reserve(&self, what: &'static str, needed: usize) -> Result<(), GpuError> {
        // Memory that was freed on a stream becomes available when the stream has reached that
        // point.
        let doing = GpuStep::new(self.info.ordinal, "waiting for it");
        self.context.synchronize().map_err(doing.failed())?;
        let free = self.free()?;
        if needed > free {
            return Err(GpuError::Memory { ordinal: self.info.ordinal, what, needed, free });
        }
        Ok(())
    }

    /// Creates a stream. Its work runs in order, concurrently with other streams.
    ///
    /// # Errors
    /// Fails if the driver cannot create a stream.
    pub fn stream(&self) -> Result<Arc<CudaStream>, GpuError> {
        let doing = GpuStep::new(self.info.ordinal, "creating a stream");
        self.context.new_stream().map_err(doing.failed())
    }

    /// Opens this GPU again, without the events that synchronize a buffer between streams.
    ///
    /// These events cost time at each launch. The result shares memory and loaded kernels with
    /// `self`. Events still synchronize the buffers of `self`.
    ///
    /// # Errors
    /// Fails if the GPU does not respond.
    ///
    /// # Safety
    /// A buffer that is created through the result or its clones must be used only on the stream
    /// that created it. Another stream may use it only after `CudaStream::synchronize`. Do not pass
    /// the result to safe code that does not ensure this.
    ///
    /// ```
    /// use gpu_runtime::Device;
    ///
    /// // Does nothing without a GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     // SAFETY: no buffer is created.
    ///     let untracked = unsafe { device.untracked() }?;
    ///     assert!(!untracked.context().is_event_tracking());
    ///     assert!(device.context().is_event_tracking());
    /// }
    /// # Ok::<(), gpu_runtime::GpuError>(())
    /// ```
    #[expect(unsafe_code, reason = "the caller synchronizes its buffers")]
    pub unsafe fn untracked(&self) -> Result<Self, GpuError> {
        let doing = self.step("opening it again");
        let context = CudaContext::new(self.info.ordinal).map_err(doing.failed())?;
        // SAFETY: guaranteed by the caller. The context object is new, so there are no other
        // references.
        unsafe { context.disable_event_tracking() };
        Ok(Self { context, info: self.info.clone(), modules: Arc::clone(&self.modules) })
    }

    /// Disables the events that synchronize buffers, for this device and all its clones.
    ///
    /// Prefer [`Device::untracked`], which does not change a device that others may use.
    ///
    /// # Safety
    /// See [`Device::untracked`]. The condition applies to each buffer created from now on by this
    /// device or its clones.
    #[expect(unsafe_code, reason = "the caller synchronizes its buffers")]
    pub unsafe fn disable_event_tracking(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.context.disable_event_tracking() };
    }

    /// Loads PTX, which the driver compiles for this GPU.
    ///
    /// # Errors
    /// Fails if the GPU or its driver is too old, or if the driver rejects the PTX.
    ///
    /// ```
    /// use gpu_runtime::Device;
    ///
    /// // Does nothing without a GPU.
    /// if let Ok(device) = Device::open_best() {
    ///     assert!(device.load("no PTX").is_err());
    /// }
    /// # Ok::<(), gpu_runtime::GpuError>(())
    /// ```
    pub fn load(&self, ptx: &str) -> Result<Module, GpuError> {
        self.info.check()?;
        let doing = GpuStep::new(self.info.ordinal, "loading its kernels");
        let module = self.context.load_module(Ptx::from_src(ptx)).map_err(doing.failed())?;
        Ok(Module {
            loaded: module,
            ordinal: self.info.ordinal,
            parameters: kernel_parameters(ptx).into(),
        })
    }

    /// Loads gzip-compressed PTX. This device and its clones keep the module, so it is loaded only
    /// once.
    ///
    /// # Errors
    /// Fails if the GPU or its driver is too old, or if the driver rejects the PTX.
    ///
    /// # Panics
    /// Panics if the bytes, which are part of the program, are not gzip-compressed text.
    pub fn load_packed(&self, packed: &'static [u8]) -> Result<Module, GpuError> {
        let modules = || self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules().get(&packed.as_ptr().addr()) {
            return Ok(module.clone());
        }
        let module = self.load(&unpack(packed).expect("compressed by the build script"))?;
        modules().insert(packed.as_ptr().addr(), module.clone());
        Ok(module)
    }

    /// Creates an event for measuring time.
    ///
    /// # Errors
    /// Fails if the driver cannot create an event.
    pub fn timer(&self) -> Result<CudaEvent, GpuError> {
        let flags = cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
        let doing = GpuStep::new(self.info.ordinal, "creating an event");
        self.context.new_event(Some(flags)).map_err(doing.failed())
    }

    /// Returns a step of the work on this GPU, which error messages describe as `what`.
    pub fn step(&self, what: &'static str) -> GpuStep {
        GpuStep::new(self.info.ordinal, what)
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
