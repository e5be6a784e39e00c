//! Access to NVIDIA GPUs, which are detected at run time.
//!
//! Neither a GPU nor its driver is needed to build or start a program. The driver's library is
//! loaded when a GPU is requested, and its absence is reported as a [`GpuError`].
//!
//! | items | contents |
//! |---|---|
//! | [`Device`], [`devices`], [`DeviceInfo`] | GPUs and their properties |
//! | [`Lane`], [`DeviceBuffer`], [`Pinned`], [`Pool`] | a stream, and memory that grows |
//! | [`kernel!`], [`Kernel`], [`Grid`], [`check_kernels`] | kernels and their typed launches |
//! | [`Module`], [`ptx!`], [`Texture`] | PTX modules and textures |
//! | [`deal()`], [`on_each`] | distribution of work over several GPUs, some of which may fail |
//!
//! ```
//! use gpu_runtime::{GpuError, devices};
//!
//! match devices() {
//!     Ok(found) => assert!(!found.is_empty()),
//!     Err(GpuError::NoDriver) => println!("no driver"),
//!     Err(error) => println!("{error}"),
//! }
//! ```

mod buffer;
mod deal;
mod device;
mod error;
mod kernel;
mod lane;
mod module;
mod packed;
mod pool;
mod texture;

pub use buffer::{DeviceBuffer, Pinned};
pub use cudarc::driver::{
    CudaEvent, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr, DriverError,
    LaunchConfig, ValidAsZeroBits,
};
pub use deal::{CompletedTask, DealOutcome, Failure, deal, on_each};
pub use device::{Device, DeviceInfo, MIN_CAPABILITY, MIN_DRIVER, devices};
pub use error::{GpuError, GpuStep};
pub use kernel::{
    Grid, Kernel, KernelArguments, KernelMismatch, Launch, Signature, check_kernels,
    kernel_parameters,
};
pub use lane::Lane;
pub use module::Module;
pub use packed::unpack;
pub use pool::Pool;
pub use texture::{Texel, Texture};
