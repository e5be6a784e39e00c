//! Search for the training rows most similar to each query row.
//!
//! **Input**: training rows and query rows of [`crate::rows`]. **Output**: [`NeighborLists`], a
//! sorted list of neighbors for each query. Read `request.rs` first, then `exhaustive.rs`, the
//! simplest engine, then `inverted.rs`, the default on the CPU.
//!
//! An engine implements [`Search`]: it takes a [`Request`] (queries, k, the [allowed](Allow) rows,
//! a [`Stop`]), fills [`NeighborLists`] and returns a [`Report`]. Engines own their rows, so they
//! can be stored in a struct and shared between threads.
//!
//! | engine | rows | description | file |
//! |---|---|---|---|
//! | [`Exhaustive`] | sparse | computes all similarities; the reference | `exhaustive.rs` |
//! | [`Inverted`] | sparse | an inverted index with 16-bit sums, on the CPU | `inverted.rs` |
//! | [`Cuda`], [`SeveralGpus`] | sparse | several algorithms for NVIDIA GPUs | `cuda.rs` |
//! | [`Dense`] | dense | an index of `metric-index`, on the CPU or on GPUs | `dense.rs` |
//! | [`Composite`] | any | several engines over parts of the rows, used as one | `composite.rs` |
//!
//! [`Engines`] creates engines for the device that the user chose ([`DeviceChoice`]).
//!
//! # The similarity
//!
//! The similarity of two sparse rows is an `f32`. The products of the weights of their common terms
//! are exact in `f64`. They are added in `f64` in order of term id, and the sum is rounded once to
//! `f32` (at most `f32::MAX`). For rows of length 1, it is the cosine, formula (2) of Bresler et
//! al. 2011. The similarity of dense rows is a function of their distance
//! ([`Kernel`](crate::rows::dense::Kernel)). All engines return the same similarities, bit for bit.
//!
//! Only rows with a similarity above 0 are neighbors. Neighbors are sorted by similarity,
//! descending, then by row, ascending.

mod allow;
mod composite;
mod cuda;
mod dense;
mod device;
mod engine;
mod engines;
mod error;
mod exhaustive;
mod inverted;
mod lists;
mod merge;
mod neighbor;
mod report;
mod request;
mod row_map;
mod scratch;
mod stop;

pub use crate::rows::dense::VectorsView;
pub use allow::{Allow, RowLists, RowRange, RowSet};
pub use composite::{Composite, Part, Segment};
pub use cuda::{Cuda, CudaEngine, CudaOptions, GridMemory, SeveralGpus};
pub use dense::{Dense, DenseIndex, learn_scale};
pub use device::{DeviceChoice, DeviceError};
pub use engine::Search;
pub use engines::{EngineKind, Engines};
pub use error::SearchError;
pub use exhaustive::Exhaustive;
pub use inverted::Inverted;
pub use lists::NeighborLists;
pub use neighbor::Neighbor;
pub use report::Report;
pub use request::{QueryRows, Request};
pub use row_map::RowMap;
pub(crate) use stop::NEVER;
pub use stop::Stop;
