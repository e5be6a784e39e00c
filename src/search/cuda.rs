//! The GPU engines.
//!
//! [`CudaEngine::Fused`] is the default. It uses a fixed-point inverted index and selects
//! candidates by a bound that is proved in `kernels/fused.cuh`. Then it rescores them with the
//! exact similarity of [`super`]. The other engines are the algorithms of Bresler et al. 2011 (see
//! `bresler.rs`), which compute all similarities of a query and then select the best rows. All
//! engines return the same neighbors as the CPU engines, bit for bit.
//!
//! The number and length of rows and queries are unlimited. The fused kernels do not support k
//! above 1,200, negative weights, weights near the limits of `f32`, or more than 8,192 terms in a
//! query. They also fail if there are too many candidates, for example among identical documents.
//! In these cases, the GPU computes all similarities of the query. Training rows that do not fit in
//! GPU memory are streamed through it in segments. If the GPU runs out of memory, the segments
//! become smaller; if it fails, the CPU takes over. Both cases emit `tracing` warnings.

mod batch;
mod bresler;
mod engine;
mod failure;
mod kernels;
mod lane;
mod launch;
mod memory;
mod options;
mod segment;
mod several;
mod tile;

pub use bresler::GridMemory;
pub use engine::Cuda;
pub(super) use engine::load_kernels;
pub(super) use failure::DeviceFailure;
pub use options::{CudaEngine, CudaOptions};
pub use several::SeveralGpus;
