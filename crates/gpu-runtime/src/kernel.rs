//! Kernels, and launches whose arguments are checked against the kernel's parameters.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaStream, DeviceRepr, DriverError, LaunchArgs, LaunchConfig, PushKernelArg,
};

/// A loaded kernel and the sizes of its parameters.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(crate) function: CudaFunction,
    pub(crate) name: Arc<str>,
    pub(crate) parameters: Arc<[usize]>,
}

impl Kernel {
    /// Begins a launch on a stream.
    pub fn launch_on<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Launch<'a> {
        Launch { kernel: self, arguments: stream.launch_builder(&self.function), sizes: Vec::new() }
    }
}

/// A launch that collects its arguments.
#[must_use]
#[derive(Debug)]
pub struct Launch<'a> {
    kernel: &'a Kernel,
    arguments: LaunchArgs<'a>,
    sizes: Vec<usize>,
}

impl<'a> Launch<'a> {
    /// Adds an argument that is passed by value.
    pub fn value<T: DeviceRepr>(&mut self, value: &'a T) -> &mut Self {
        self.sizes.push(size_of::<T>());
        self.arguments.arg(value);
        self
    }

    /// Adds memory of the GPU, which is passed as its address.
    pub fn pointer<P>(&mut self, memory: P) -> &mut Self
    where
        LaunchArgs<'a>: PushKernelArg<P>,
    {
        self.sizes.push(size_of::<u64>());
        self.arguments.arg(memory);
        self
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Panics
    /// If the number or the sizes of the arguments are not those of the kernel's parameters.
    ///
    /// # Safety
    /// The arguments must mean what the kernel takes them for, in this order, and the memory must be large
    /// enough for what it reads and writes.
    #[expect(unsafe_code, reason = "a kernel does what it likes")]
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<(), DriverError> {
        let Kernel { name, parameters, .. } = self.kernel;
        assert_eq!(*self.sizes, **parameters, "sizes of the arguments of `{name}`, in bytes");
        #[expect(clippy::disallowed_methods, reason = "the one place where kernels are launched")]
        // SAFETY: the caller's promise.
        let launched = unsafe { self.arguments.launch(config) };
        launched.map(|_| ())
    }
}

/// The sizes of the parameters of every kernel in PTX, in bytes and in order.
///
/// ```
/// let ptx = ".visible .entry scale(\n.param .u64 scale_param_0,\n.param .f32 scale_param_1\n)\n{ ret; }\n\
///            .visible .entry none()\n{ ret; }";
/// let kernels = gpu_runtime::kernel_parameters(ptx);
/// assert_eq!(kernels["scale"], [8, 4]);
/// assert!(kernels["none"].is_empty());
/// ```
pub fn kernel_parameters(ptx: &str) -> HashMap<String, Vec<usize>> {
    let entries = ptx.split(".entry ").skip(1);
    let kernel = |entry: &str| {
        let (name, rest) = entry.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        let parameters = parameters.split(',').filter(|text| !text.trim().is_empty());
        Some((name.trim().to_owned(), parameters.map(size).collect::<Option<_>>()?))
    };
    entries.filter_map(kernel).collect()
}

/// The size of `.param .u32 name` or `.param .align 8 .b8 name[48]`.
fn size(parameter: &str) -> Option<usize> {
    if let Some((_, count)) = parameter.split_once('[') {
        return count.trim_end().strip_suffix(']')?.parse().ok();
    }
    let mut words = parameter.split_whitespace().skip(1);
    let bits = words.next()?.trim_start_matches(|c: char| !c.is_ascii_digit());
    bits.parse::<usize>().ok().map(|bits| bits / 8)
}
