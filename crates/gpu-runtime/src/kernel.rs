//! Kernels, and launches that check their arguments against the kernel's parameters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaStream, DeviceRepr, DriverError, LaunchArgs, LaunchConfig, PushKernelArg,
};

/// A loaded kernel with the sizes of its parameters.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(crate) function: CudaFunction,
    pub(crate) name: Arc<str>,
    pub(crate) parameters: Arc<[usize]>,
}

impl Kernel {
    /// Launches the kernel on a stream, without waiting for it. Does nothing if the grid is empty.
    ///
    /// # Errors
    /// Fails if the driver rejects the launch.
    ///
    /// # Panics
    /// Panics if the arguments are declared for another kernel, or if their number or sizes differ
    /// from the kernel's parameters.
    ///
    /// # Safety
    /// The kernel must read and write only memory that the arguments and the grid give it.
    #[expect(unsafe_code, reason = "a kernel can access any memory")]
    pub unsafe fn launch<A: KernelArguments>(
        &self,
        stream: &Arc<CudaStream>,
        grid: Grid,
        mut arguments: A,
    ) -> Result<(), DriverError> {
        let names = A::SIGNATURE.kernels;
        assert!(names.contains(&&*self.name), "arguments of {names:?} for `{}`", self.name);
        if grid.is_empty() {
            return Ok(());
        }
        let mut launch = self.launch_on(stream);
        arguments.add_to(&mut launch);
        // SAFETY: guaranteed by the caller.
        unsafe { launch.launch(grid.into()) }
    }

    /// Begins a launch on a stream without declared arguments. Prefer [`Kernel::launch`].
    pub fn launch_on<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Launch<'a> {
        Launch { kernel: self, arguments: stream.launch_builder(&self.function), sizes: Vec::new() }
    }
}

/// The dimensions of a launch: blocks, threads per block and dynamic shared memory.
///
/// ```
/// use gpu_runtime::Grid;
///
/// let grid = Grid::new(132, 256).with_rows(2).with_shared_bytes(1 << 10);
/// assert_eq!(grid, Grid { blocks: 132, rows: 2, threads: 256, shared_bytes: 1024 });
/// assert!(Grid::new(0, 256).is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Number of blocks per row: `gridDim.x`.
    pub blocks: u32,
    /// Number of rows of blocks: `gridDim.y`.
    pub rows: u32,
    /// Number of threads per block: `blockDim.x`.
    pub threads: u32,
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: usize,
}

impl Grid {
    /// Creates a grid with one row of blocks, without dynamic shared memory.
    #[must_use]
    pub fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks, rows: 1, threads, shared_bytes: 0 }
    }

    /// Returns the same grid with `rows` rows of blocks.
    #[must_use]
    pub fn with_rows(self, rows: u32) -> Self {
        Self { rows, ..self }
    }

    /// Returns the same grid with dynamic shared memory for each block.
    #[must_use]
    pub fn with_shared_bytes(self, shared_bytes: usize) -> Self {
        Self { shared_bytes, ..self }
    }

    /// Whether the grid has no blocks or no threads.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0 || self.rows == 0 || self.threads == 0
    }
}

impl From<Grid> for LaunchConfig {
    fn from(grid: Grid) -> Self {
        Self {
            grid_dim: (grid.blocks, grid.rows, 1),
            block_dim: (grid.threads, 1, 1),
            shared_mem_bytes: u32::try_from(grid.shared_bytes)
                .expect("shared memory is smaller than 4 GiB"),
        }
    }
}

/// The names of the kernels that take the same arguments, and the sizes of the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// The names of the kernels.
    pub kernels: &'static [&'static str],
    /// The size of each argument in bytes, in the order of the arguments.
    pub sizes: &'static [usize],
}

/// Arguments of a kernel that are declared with [`kernel!`](crate::kernel!).
pub trait KernelArguments {
    /// The kernels that take these arguments.
    const SIGNATURE: Signature;

    /// Adds all arguments to a launch, in order.
    fn add_to<'a>(&'a mut self, launch: &mut Launch<'a>);
}

/// Declares the arguments of one or several kernels as a struct with one field per argument.
///
/// The fields are in the order of the kernel's parameters. A `value` field is passed by value. A
/// `read` field is memory that the kernel reads (a [`CudaView`](crate::CudaView)), and a `write`
/// field is memory that the kernel writes (a [`CudaViewMut`](crate::CudaViewMut)).
/// [`check_kernels`] compares the declarations with the PTX.
///
/// ```
/// use gpu_runtime::{CudaViewMut, KernelArguments, check_kernels, kernel};
///
/// kernel! {
///     /// Multiplies values by a factor.
///     struct Scale<'a>: "scale" | "scale_fast" {
///         value factor: f32,
///         write values: CudaViewMut<'a, f32>,
///     }
/// }
///
/// let ptx = "
///     .visible .entry scale(.param .f32 scale_param_0, .param .u64 scale_param_1) { ret; }
///     .visible .entry scale_fast(.param .f32 _0, .param .u64 _1) { ret; }";
/// assert_eq!(check_kernels(&[ptx], &[Scale::SIGNATURE]), Ok(()));
/// assert!(check_kernels(&[&ptx.replace("f32", "f64")], &[Scale::SIGNATURE]).is_err());
/// ```
#[macro_export]
macro_rules! kernel {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $arguments:ident $(<$lifetime:lifetime>)?: $($kernel:literal)|+ {
            $($kind:ident $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility struct $arguments $(<$lifetime>)? {
            $($visibility $field: $type,)*
        }

        impl $(<$lifetime>)? $crate::KernelArguments for $arguments $(<$lifetime>)? {
            const SIGNATURE: $crate::Signature = $crate::Signature {
                kernels: &[$($kernel),+],
                sizes: &[$($crate::kernel!(@size $kind $type)),*],
            };

            fn add_to<'launch>(&'launch mut self, launch: &mut $crate::Launch<'launch>) {
                $($crate::kernel!(@add $kind launch, self.$field);)*
            }
        }
    };
    (@size value $type:ty) => { size_of::<$type>() };
    (@size read $type:ty) => { size_of::<u64>() };
    (@size write $type:ty) => { size_of::<u64>() };
    (@add value $launch:ident, $field:expr) => { $launch.value(&$field) };
    (@add read $launch:ident, $field:expr) => { $launch.pointer(&$field) };
    (@add write $launch:ident, $field:expr) => { $launch.pointer(&mut $field) };
}

/// A kernel launch whose arguments are being added.
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

    /// Adds GPU memory, which is passed as an address.
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
    /// Fails if the driver rejects the launch.
    ///
    /// # Panics
    /// Panics if the number or sizes of the arguments differ from the kernel's parameters.
    ///
    /// # Safety
    /// The arguments must match the kernel's parameters in meaning and order. The kernel must read
    /// and write only memory that the arguments and `config` give it.
    #[expect(unsafe_code, reason = "a kernel can access any memory")]
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<(), DriverError> {
        let Kernel { name, parameters, .. } = self.kernel;
        assert_eq!(*self.sizes, **parameters, "sizes of the arguments of `{name}`, in bytes");
        #[expect(clippy::disallowed_methods, reason = "kernels are launched only here")]
        // SAFETY: guaranteed by the caller.
        let launched = unsafe { self.arguments.launch(config) };
        launched.map(|_| ())
    }
}

/// A mismatch between PTX and the declarations of its kernels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelMismatch {
    /// A declared kernel is in none of the modules.
    #[error("no module contains the kernel `{kernel}`")]
    Missing {
        /// Name of the kernel.
        kernel: String,
    },
    /// A kernel has no declaration, or more than one.
    #[error("the kernel `{kernel}` has {count} declarations, but needs exactly one")]
    Declarations {
        /// Name of the kernel.
        kernel: String,
        /// Number of declarations of the kernel.
        count: usize,
    },
    /// The declared arguments differ from the kernel's parameters.
    #[error("`{kernel}` has parameters of {parameters:?} bytes, but arguments of {arguments:?}")]
    Sizes {
        /// Name of the kernel.
        kernel: String,
        /// The sizes of the kernel's parameters, in bytes.
        parameters: Vec<usize>,
        /// The sizes of the declared arguments, in bytes.
        arguments: Vec<usize>,
    },
}

/// Checks that the kernels of PTX modules match their declarations. Does not need a GPU.
///
/// # Errors
/// Returns the first mismatch.
pub fn check_kernels(modules: &[&str], declared: &[Signature]) -> Result<(), KernelMismatch> {
    let mut checked = HashSet::new();
    for (kernel, parameters) in modules.iter().flat_map(|ptx| kernel_parameters(ptx)) {
        let mut signatures =
            declared.iter().filter(|signature| signature.kernels.contains(&&*kernel));
        let Some(signature) = signatures.next() else {
            return Err(KernelMismatch::Declarations { kernel, count: 0 });
        };
        let others = signatures.count();
        if others > 0 {
            return Err(KernelMismatch::Declarations { kernel, count: 1 + others });
        }
        if signature.sizes != parameters {
            let arguments = signature.sizes.to_vec();
            return Err(KernelMismatch::Sizes { kernel, parameters, arguments });
        }
        checked.insert(kernel);
    }
    let mut names = declared.iter().flat_map(|signature| signature.kernels);
    match names.find(|&&name| !checked.contains(name)) {
        Some(&kernel) => Err(KernelMismatch::Missing { kernel: kernel.to_owned() }),
        None => Ok(()),
    }
}

/// Parses PTX and returns the sizes of each kernel's parameters, in bytes and in the order of the
/// parameters.
///
/// ```
/// let ptx = ".visible .entry scale(\n.param .u64 scale_param_0,\n.param .f32 scale_param_1\n)\n\
///            { ret; }\n.visible .entry none()\n{ ret; }";
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
        Some((name.trim().to_owned(), parameters.map(parameter_size).collect::<Option<_>>()?))
    };
    entries.filter_map(kernel).collect()
}

/// Returns the size in bytes of a parameter such as `.param .u32 name` or
/// `.param .align 8 .b8 name[48]`.
fn parameter_size(parameter: &str) -> Option<usize> {
    if let Some((_, count)) = parameter.split_once('[') {
        return count.trim_end().strip_suffix(']')?.parse().ok();
    }
    let mut words = parameter.split_whitespace().skip(1);
    let bits = words.next()?.trim_start_matches(|c: char| !c.is_ascii_digit());
    bits.parse::<usize>().ok().map(|bits| bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CudaView;

    crate::kernel! {
        /// The arguments of two kernels.
        struct Scale<'a>: "scale" | "scale_fast" {
            value factor: f32,
            read values: CudaView<'a, f32>,
        }
    }

    crate::kernel! {
        /// The argument of a kernel.
        struct Count: "count" {
            value count: u32,
        }
    }

    const SCALE: &str = ".visible .entry scale(.param .f32 a, .param .u64 b) { ret; }";
    const FAST: &str = ".visible .entry scale_fast(.param .f32 a, .param .u64 b) { ret; }";
    const COUNT: &str = ".visible .entry count(.param .u32 a) { ret; }";

    #[test]
    fn declarations_are_compared_with_ptx() {
        let declared = [Scale::SIGNATURE, Count::SIGNATURE];
        assert_eq!(check_kernels(&[SCALE, FAST, COUNT], &declared), Ok(()));
        let missing = KernelMismatch::Missing { kernel: "scale_fast".into() };
        assert_eq!(check_kernels(&[SCALE, COUNT], &declared), Err(missing));
        let undeclared = KernelMismatch::Declarations { kernel: "count".into(), count: 0 };
        assert_eq!(check_kernels(&[COUNT], &declared[..1]), Err(undeclared));
        let twice = KernelMismatch::Declarations { kernel: "count".into(), count: 2 };
        assert_eq!(check_kernels(&[COUNT], &[declared[1]; 2]), Err(twice));
        let swapped = SCALE.replace(".f32 a, .param .u64 b", ".u64 a, .param .f32 b");
        let sizes = KernelMismatch::Sizes {
            kernel: "scale".into(),
            parameters: vec![8, 4],
            arguments: vec![4, 8],
        };
        assert_eq!(check_kernels(&[&swapped], &declared), Err(sizes));
    }
}
