//! The algorithms of Bresler et al. 2011, for comparison: `--engine base`, `shared` and `grid`.
//!
//! They follow Algorithm 1 (section 5) of the paper. It computes the similarities of a query to all
//! training rows, as a product of sparse matrices in CSR form, and selects the k largest. They
//! differ in how they compute the product (Algorithm 2 is in section 5.1, Algorithm 3 in section
//! 5.2):
//!
//! | engine | paper | kernel | description |
//! |---|---|---|---|
//! | `base` | section 5 | `kernels/base.cu` | dense query, one warp per row (Bell, Garland 2008) |
//! | `shared` | Algorithm 2 | `kernels/shared.cu` | query in shared memory, one thread per row |
//! | `grid` | Algorithm 3 | `kernels/grid.cu` | a batch of queries, rows read from textures |
//!
//! The sequential algorithm that the paper compares against, `BaseCSR`, is
//! [`Exhaustive`](crate::search::Exhaustive). The paper measures 32, 64, 128 and 256 threads per
//! block and queries per grid (section 6.2). Unlike the paper, the engines select the k largest on
//! the GPU (`kernels/select.cu`) and accept rows and queries of any length. They add in `f64` to
//! return the same neighbors as every other engine.
//!
//! On a current GPU, [`CudaEngine::Fused`](super::CudaEngine::Fused) is much faster. If its own
//! kernels cannot answer a query, it computes all similarities of the query with a kernel of
//! `grid`.

/// The GPU memory path through which the engine `grid` reads training rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridMemory {
    /// Texture objects, as in the paper.
    Texture,
    /// The read-only cache.
    ReadOnly,
}
