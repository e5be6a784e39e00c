//! The GPU engines.
//!
//! [`CudaEngine::Fused`] is the fast one: an inverted index in fixed point, candidates selected by
//! a bound that is proved in `kernels/fused.cuh` and rescored by the formula of [`super`]. The
//! others are the algorithms of Bresler et al. 2011 (see `bresler.rs`), which compute every
//! similarity and then select: one row of scores per query. All return the same neighbors, bit for
//! bit, as the CPU engines.
//!
//! Rows and queries may have any number and length. If the fused kernels cannot answer a query (too
//! many candidates, as among equal documents; a negative weight; k above 1,200; more than 8,192
//! terms; weights near the ends of the range of f32), the GPU computes all its similarities.
//! Training rows that do not fit the GPU's memory are streamed through it in parts. If the GPU runs
//! out of memory, the parts become smaller; if it fails, the CPU takes over. Both emit `tracing`
//! warnings.

mod batch;
mod bresler;
mod engine;
mod failure;
mod kernels;
mod lane;
mod launch;
mod memory;
mod options;
mod part;
mod several;
mod tile;

pub use bresler::GridMemory;
pub use engine::Cuda;
pub(super) use engine::load_kernels;
pub(super) use failure::DeviceFailure;
pub use options::{CudaEngine, CudaOptions};
pub use several::SeveralGpus;
