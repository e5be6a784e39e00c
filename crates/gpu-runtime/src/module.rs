//! Loaded PTX modules.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::CudaModule;

use crate::error::{GpuError, GpuStep};
use crate::kernel::Kernel;

/// A PTX module that is loaded on a GPU.
///
/// ```
/// use gpu_runtime::Device;
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let header = ".version 7.0\n.target sm_75\n.address_size 64\n";
///     let module = device.load(&format!("{header}.visible .entry none() {{ ret; }}"))?;
///     let _kernel = module.kernel("none", 0)?;
/// }
/// # Ok::<(), gpu_runtime::GpuError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) loaded: Arc<CudaModule>,
    pub(crate) ordinal: usize,
    /// For each kernel, the sizes of its parameters in bytes.
    pub(crate) parameters: Arc<HashMap<String, Vec<usize>>>,
}

impl Module {
    /// Returns the kernel with this name. A block may use up to `shared` bytes of dynamic shared
    /// memory.
    ///
    /// # Errors
    /// Fails if the module has no such kernel, or if the GPU has less shared memory.
    pub fn kernel(&self, name: &str, shared: usize) -> Result<Kernel, GpuError> {
        let doing = GpuStep::new(self.ordinal, "finding a kernel");
        let function = self.loaded.load_function(name).map_err(doing.failed())?;
        let bytes = i32::try_from(shared).unwrap_or(i32::MAX);
        if shared > 48 * 1024 {
            use cudarc::driver::sys::CUfunction_attribute_enum as Limit;
            let limit = Limit::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let doing = GpuStep::new(self.ordinal, "requesting shared memory");
            function.set_attribute(limit, bytes).map_err(doing.failed())?;
        }
        let parameters = self.parameters.get(name).cloned().unwrap_or_default();
        Ok(Kernel { function, name: name.into(), parameters: parameters.into() })
    }
}
