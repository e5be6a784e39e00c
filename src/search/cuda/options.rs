//! The algorithms of the GPU engines and their limits.

use super::bresler::GridMemory;
use super::launch::WARP;

/// A search algorithm on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CudaEngine {
    /// The CSR kernel of Bell and Garland 2008: one dense query per launch.
    Base {
        /// Threads per block, rounded to whole warps.
        threads: u32,
    },
    /// Algorithm 2 of Bresler et al. 2011: one sparse query in shared memory per launch.
    Shared {
        /// Threads per block.
        threads: u32,
    },
    /// Algorithm 3 of Bresler et al. 2011: a batch of queries per launch.
    Grid {
        /// Queries per batch.
        documents: u32,
        /// Threads per block.
        threads: u32,
        /// The memory path through which training rows are read.
        memory: GridMemory,
    },
    /// This project's algorithm: fixed-point sums over an inverted index.
    Fused,
}

impl CudaEngine {
    /// Clamps the sizes to what a GPU can launch.
    pub(super) fn clamped(self) -> Self {
        let size = |size: u32| size.clamp(1, 1_024);
        match self {
            Self::Base { threads } => Self::Base { threads: size(threads).next_multiple_of(WARP) },
            Self::Shared { threads } => Self::Shared { threads: size(threads) },
            Self::Grid { documents, threads, memory } => {
                Self::Grid { documents: size(documents), threads: size(threads), memory }
            }
            Self::Fused => Self::Fused,
        }
    }
}

/// Options of a GPU engine. Change the defaults only to test limits.
#[derive(Debug, Clone, Copy)]
pub struct CudaOptions {
    /// The algorithm.
    pub engine: CudaEngine,
    /// Maximum number of bytes of GPU memory to use; `None`: nine tenths of the free memory.
    pub memory: Option<usize>,
    /// Maximum number of rows per tile of the fused engine; `None`: the number that keeps the GPU
    /// busiest.
    pub tile_rows: Option<usize>,
    /// Maximum number of texels per texture; `None`: the limit of the GPU.
    pub texture_width: Option<usize>,
    /// Maximum number of a query's terms in shared memory at a time; `None`: 4,096.
    pub query_terms: Option<u32>,
    /// Number of queries sent to the GPU together; `None`: 32,768.
    pub chunk: Option<usize>,
    /// Maximum number of queries in a batch for which a single kernel replaces three, to reduce
    /// latency; `None`: four times the number of resident blocks.
    pub small_batch: Option<usize>,
    /// Whether the CPU takes over if the GPU fails.
    pub fall_back: bool,
}

impl CudaOptions {
    /// The default options for an algorithm.
    pub fn new(engine: CudaEngine) -> Self {
        Self {
            engine,
            memory: None,
            tile_rows: None,
            texture_width: None,
            query_terms: None,
            chunk: None,
            small_batch: None,
            fall_back: true,
        }
    }
}
