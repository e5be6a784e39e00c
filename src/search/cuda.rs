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

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use gpu_runtime::{Device, GpuError, Pool};

use super::lists::{NeighborLists, Slots};
use super::merge::{PartLists, merge};
use super::{
    Inverted, Neighbor, Queries, Report, Request, RowMap, Search, SearchError, check_training,
    whole_or_none,
};
use crate::rows::matrix::{Csr, CsrView};
use crate::threads::Threads;

mod batch;
mod bresler;
mod lane;
mod launch;
mod part;
mod several;
mod tile;

use batch::{room, share};
pub use bresler::GridMemory;
use lane::{Lane, Sent};
use launch::{ACCUMULATE_STATIC_BYTES, ACCUMULATE_THREADS, Kernels, WARP};
use part::{Needs, Part};
pub use several::SeveralGpus;

/// Queries sent to the GPU together, so that copies of some overlap with the search of others.
const CHUNK: usize = 32_768;
/// The number of batches in flight.
const LANES: usize = 4;
/// Queries of the dense engines on the GPU at a time.
const DENSE_CHUNK: usize = 8_192;
/// The maximum number of entries of a chunk of queries.
const CHUNK_ENTRIES: usize = 1 << 28;
/// The largest k that the fused kernel supports.
const FUSED_K: usize = 1_200;
/// The number of candidate keys that a fused block can hold, for small k.
const FUSED_ROOM: u32 = 256;
/// The share of the free memory to use.
const MEMORY_SHARE: f64 = 0.9;
/// How many times a search is tried with less memory.
const TRIES: usize = 3;

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
        /// Where training rows are read from.
        memory: GridMemory,
    },
    /// This project's algorithm: fixed-point sums over an inverted index.
    Fused,
}

impl CudaEngine {
    /// Clamps the sizes to what a GPU can launch.
    fn clamped(self) -> Self {
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

/// How to use the GPU. Change the defaults only to test limits.
#[derive(Debug, Clone, Copy)]
pub struct CudaOptions {
    /// The algorithm.
    pub engine: CudaEngine,
    /// Bytes of GPU memory to use at most; `None`: nine tenths of the free memory.
    pub memory: Option<usize>,
    /// The maximum rows per tile of the fused engine; `None`: the number that keeps the GPU
    /// busiest.
    pub tile_rows: Option<usize>,
    /// The maximum texels per texture; `None`: the GPU's limit.
    pub texture_width: Option<usize>,
    /// The maximum terms of a query in shared memory at a time; `None`: 4,096.
    pub query_terms: Option<u32>,
    /// Queries sent to the GPU together; `None`: 32,768.
    pub chunk: Option<usize>,
    /// The largest batch searched by a single kernel, which has less latency than three; `None`:
    /// four times the number of resident blocks.
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

/// Why a search on the GPU ended.
#[derive(Debug)]
pub(super) enum Failed {
    /// The GPU failed.
    Gpu(GpuError),
    /// The search was rejected or stopped.
    Search(SearchError),
}

impl From<GpuError> for Failed {
    fn from(error: GpuError) -> Self {
        Self::Gpu(error)
    }
}

impl From<SearchError> for Failed {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}

impl From<Failed> for SearchError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Gpu(error) => Self::Engine(Arc::new(error)),
            Failed::Search(error) => error,
        }
    }
}

/// A GPU engine over training rows.
pub struct Cuda {
    training: Arc<Csr>,
    count: u32,
    options: CudaOptions,
    /// The GPU as the caller gave it.
    device: Device,
    /// The same GPU without the tracking of buffers. Only this engine uses it.
    untracked: Device,
    kernels: Kernels,
    /// Whether all training weights are nonnegative.
    nonnegative: bool,
    loaded: RwLock<Arc<Loaded>>,
    lanes: Pool<Lane>,
    threads: Threads,
    /// The engine that takes over after a GPU failure.
    rescue: OnceLock<Inverted>,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda")
            .field("engine", &self.options.engine)
            .field("device", self.device.info())
            .finish_non_exhaustive()
    }
}

/// Where the training rows are stored.
#[derive(Debug)]
struct Loaded {
    rows: Residence,
    /// Bytes that may be used, including the rows.
    budget: usize,
}

#[derive(Debug)]
enum Residence {
    /// All rows are on the GPU.
    Resident(Box<Part>),
    /// The rows are loaded part by part for each search.
    Streamed(Vec<Range<usize>>),
    /// The GPU failed, and the CPU has taken over.
    Gone(GpuError),
}

/// Loads the kernels of all engines onto a GPU, which keeps them.
pub(super) fn load_kernels(device: &Device) -> Result<(), GpuError> {
    Kernels::load(device).map(|_| ())
}

impl Cuda {
    /// Loads training rows onto a GPU. Threads and documents of the paper's engines are clamped to
    /// 1 to 1,024.
    ///
    /// # Errors
    /// If a weight is not finite, if the kernels cannot be loaded, or if the GPU fails and
    /// `options.fall_back` is not set.
    pub fn new(
        training: Arc<Csr>,
        device: Device,
        options: CudaOptions,
        threads: Threads,
    ) -> Result<Self, SearchError> {
        Ok(Self::make(training, device, options, threads)?)
    }

    pub(super) fn make(
        training: Arc<Csr>,
        device: Device,
        options: CudaOptions,
        threads: Threads,
    ) -> Result<Self, Failed> {
        let view = training.view();
        let count = check_training(&view, &threads)?;
        #[expect(unsafe_code, reason = "each buffer is used on one stream, or after a wait")]
        // SAFETY: the device stays private to this engine. Rows are loaded on a stream that is
        // waited for. Buffers of a lane are used on its stream only, and a lane waits when it is
        // dropped.
        let untracked = unsafe { device.untracked() }?;
        let kernels = Kernels::load(&untracked)?;
        let budget = match options.memory {
            Some(bytes) => bytes,
            None => share(untracked.free()?, MEMORY_SHARE),
        };
        let options = CudaOptions { engine: options.engine.clamped(), ..options };
        let nonnegative = view.data().iter().all(|&weight| weight >= 0.0);
        let mut engine = Self {
            training,
            count,
            options,
            device,
            untracked,
            kernels,
            nonnegative,
            loaded: RwLock::new(Arc::new(Loaded { rows: Residence::Streamed(Vec::new()), budget })),
            lanes: Pool::default(),
            threads,
            rescue: OnceLock::new(),
        };
        match engine.load(budget) {
            Ok(loaded) => engine.loaded = RwLock::new(Arc::new(loaded)),
            Err(error) => engine.mend(&error)?,
        }
        Ok(engine)
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The options in use.
    pub fn options(&self) -> &CudaOptions {
        &self.options
    }

    fn training(&self) -> CsrView<'_> {
        self.training.view()
    }

    fn needs(&self) -> Needs {
        let info = self.untracked.info();
        let texture =
            matches!(self.options.engine, CudaEngine::Grid { memory: GridMemory::Texture, .. });
        let width = self.options.texture_width.unwrap_or(info.texture_width);
        let fused = self.options.engine == CudaEngine::Fused && self.nonnegative;
        Needs {
            texture_width: texture.then_some(width),
            tile_rows: fused.then(|| self.tile_rows()),
        }
    }

    /// Rows per tile: enough to fill each multiprocessor with blocks.
    fn tile_rows(&self) -> usize {
        let info = self.untracked.info();
        let blocks = (info.threads / ACCUMULATE_THREADS as usize).max(1);
        let shared = info.shared_per_multiprocessor / blocks - info.shared_reserved;
        let most = (shared.min(info.shared_per_block) - ACCUMULATE_STATIC_BYTES) / 16 * 8;
        let most = most.min(tile::MOST_ROWS);
        self.options.tile_rows.map_or(most, |rows| rows.clamp(1, most))
    }

    /// Loads the rows whole if they take at most six tenths of the budget, otherwise plans parts.
    fn load(&self, budget: usize) -> Result<Loaded, GpuError> {
        let needs = self.needs();
        let all = 0..self.training.rows();
        let most = share(budget, 0.6);
        if part::bytes(&self.training(), &all, needs) <= most {
            let part = self.load_part(all)?;
            return Ok(Loaded { rows: Residence::Resident(Box::new(part)), budget });
        }
        let mut parts = vec![all];
        while let Some(at) = parts
            .iter()
            .position(|rows| rows.len() > 1 && part::bytes(&self.training(), rows, needs) > most)
        {
            let rows = parts[at].clone();
            let middle = rows.start + rows.len() / 2;
            parts.splice(at..=at, [rows.start..middle, middle..rows.end]);
        }
        Ok(Loaded { rows: Residence::Streamed(parts), budget })
    }

    fn load_part(&self, rows: Range<usize>) -> Result<Part, GpuError> {
        let needs = self.needs();
        let bytes = part::bytes(&self.training(), &rows, needs);
        self.untracked.reserve("the training rows", bytes)?;
        let stream = self.untracked.stream()?;
        Part::load(&self.untracked, &stream, &self.training(), rows, needs, &self.threads)
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// After a failure: continues with less memory if that can help, otherwise on the CPU.
    fn mend(&self, error: &GpuError) -> Result<(), Failed> {
        let mut error = error.clone();
        if self.rescue.get().is_some() {
            return Ok(());
        }
        for _ in 0..TRIES {
            if !error.is_out_of_memory() {
                break;
            }
            match self.shrink(&error) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
        self.rescue_from(&error)
    }

    /// Continues with half the memory, or with the free memory if that is less.
    fn shrink(&self, error: &GpuError) -> Result<(), GpuError> {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(loaded.rows, Residence::Gone(_)) {
            // Another thread has already switched to the CPU.
            return Ok(());
        }
        let half = loaded.budget / 2;
        self.lanes.clear();
        // Release the rows before planning anew. If planning fails, concurrent searches try to load
        // all rows.
        let all = || Residence::Streamed(std::iter::once(0..self.training.rows()).collect());
        *loaded = Arc::new(Loaded { rows: all(), budget: half });
        // Wait until the memory has actually been freed.
        self.untracked.reserve("nothing", 0)?;
        let budget = half.min(share(self.untracked.free()?, MEMORY_SHARE));
        tracing::warn!("{error}; continuing with {} MiB of its memory", budget >> 20);
        *loaded = Arc::new(Loaded { rows: all(), budget });
        *loaded = Arc::new(self.load(budget)?);
        Ok(())
    }

    /// Switches to the CPU.
    fn rescue_from(&self, error: &GpuError) -> Result<(), Failed> {
        if !self.options.fall_back {
            return Err(error.clone().into());
        }
        if self.rescue.get().is_none() {
            tracing::warn!("{error}; continuing on the CPU");
            let engine = Inverted::new(Arc::clone(&self.training), self.threads.clone())?;
            // Another thread may have been first; its engine is equivalent.
            let _ = self.rescue.set(engine);
            // Free the GPU's memory for others. Concurrent searches then find it gone and check
            // again.
            self.lanes.clear();
            let gone = Loaded { rows: Residence::Gone(error.clone()), budget: 0 };
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(gone);
        }
        Ok(())
    }

    fn find(&self, queries: &Queries<'_>, found: &mut NeighborLists) -> Result<Report, Failed> {
        let count = queries.rows.rows();
        let k = queries.k.min(self.training.rows());
        let loaded = self.loaded();
        let parts = match &loaded.rows {
            Residence::Resident(part) => {
                found.reset_pinned(count, k, &self.untracked)?;
                self.search_part(part, loaded.budget, queries, found.slots())?;
                return Ok(found.report());
            }
            Residence::Streamed(parts) => parts,
            Residence::Gone(error) => return Err(error.clone().into()),
        };
        let mut best = NeighborLists::default();
        best.reset(count, 0)?;
        let mut of_part = NeighborLists::default();
        for rows in parts {
            let part = self.load_part(rows.clone())?;
            of_part.reset(count, k.min(rows.len()))?;
            self.search_part(&part, loaded.budget, queries, of_part.slots())?;
            found.reset(count, k)?;
            // The rows of a part are numbered as in the whole.
            let lists = [&best, &of_part].map(|lists| PartLists { lists, rows: &RowMap::From(0) });
            merge(&lists, &self.threads, found.slots());
            std::mem::swap(found, &mut best);
        }
        std::mem::swap(found, &mut best);
        Ok(found.report())
    }

    /// Searches a part that is on the GPU, batch by batch.
    fn search_part(
        &self,
        part: &Part,
        budget: usize,
        queries: &Queries<'_>,
        places: Slots<'_>,
    ) -> Result<(), Failed> {
        let k = queries.k.min(part.rows.count as usize);
        if k == 0 {
            // There are no rows to find, but invalid requests must still fail as on the CPU.
            return Ok(queries.check_finite(&self.threads)?);
        }
        let mut chunks = self.chunks(part, budget, queries, k).into_iter();
        let mut rest = Some(places);
        self.drive(part, queries, k, || {
            let chunk = chunks.next()?;
            let (now, later) = rest.take()?.split_at(chunk.len());
            rest = Some(later);
            Some((chunk, now))
        })
    }

    /// Searches the batches that `next` returns. Some are searched while others are copied. One
    /// thread is enough to stay ahead of the GPU, and leaves the other threads to the copies.
    fn drive<'a>(
        &self,
        part: &Part,
        queries: &Queries<'_>,
        k: usize,
        mut next: impl FnMut() -> Option<(Range<usize>, Slots<'a>)>,
    ) -> Result<(), Failed> {
        // A lane that is dropped waits.
        let mut in_flight: VecDeque<(Lane, Sent, Slots<'a>)> = VecDeque::new();
        let finish = |(mut lane, sent, mut found): (Lane, Sent, Slots<'a>)| {
            self.finish(part, &mut lane, &sent, k, &mut found)?;
            Ok::<Lane, GpuError>(lane)
        };
        while let Some((chunk, mut found)) = next() {
            queries.stop.check()?;
            let earliest = if in_flight.len() == LANES { in_flight.pop_front() } else { None };
            let mut lane = match earliest {
                Some(batch) => finish(batch)?,
                None => self.lanes.take(|| Lane::new(&self.untracked))?,
            };
            let sent = lane.send(queries, chunk, &self.threads)?;
            self.enqueue_with_copies(part, &mut lane, &sent, k, found.pinned(k))?;
            in_flight.push_back((lane, sent, found));
        }
        while let Some(batch) = in_flight.pop_front() {
            self.lanes.put(finish(batch)?);
        }
        Ok(())
    }

    /// How many queries to process together: as many as the memory allows.
    fn chunks(
        &self,
        part: &Part,
        budget: usize,
        queries: &Queries<'_>,
        k: usize,
    ) -> Vec<Range<usize>> {
        let chunk = if self.is_fused(part, k) { CHUNK } else { DENSE_CHUNK };
        let max_queries = self.options.chunk.unwrap_or(chunk);
        // Three tenths of the budget for the results, and one tenth for the queries and scores.
        let bytes = k * 8 + room(k) as usize * 4 + 32;
        // An entry is a column, a weight, and up to three times the mean number of its tasks.
        let tasks = part.tiles.iter().map(|tile| tile.cuts.mean).fold(0.0, f64::max);
        let affordable = (budget / 10 * 3 / LANES / bytes).max(1);
        let max_queries = max_queries.clamp(1, affordable);
        let entries = share(budget / 20 / LANES, 1.0 / (8.0 * (1.0 + 3.0 * tasks)));
        let entries = entries.clamp(1, CHUNK_ENTRIES);
        let indptr = queries.rows.indptr();
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < queries.rows.rows() {
            let last = (start + max_queries).min(queries.rows.rows());
            let fits = |&end: &u64| end - indptr[start] <= entries as u64;
            let end = start + indptr[start + 1..=last].partition_point(fits).max(1);
            chunks.push(start..end);
            start = end;
        }
        chunks
    }
}

impl Search for Cuda {
    fn rows(&self) -> u32 {
        self.count
    }

    /// Searches; if the GPU fails, retries with less memory, then on the CPU.
    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let mut sparse = None;
        let queries = request.queries(self.count, self.training.cols(), &mut sparse);
        let queries = whole_or_none(queries, found)?;
        for attempt in 0..=TRIES {
            if let Some(engine) = self.rescue.get() {
                return on_cpu(engine, request, found);
            }
            let mended = match self.find(&queries, found) {
                Ok(report) => return Ok(report),
                Err(Failed::Gpu(error)) if attempt < TRIES => self.mend(&error),
                Err(Failed::Gpu(error)) => self.rescue_from(&error),
                Err(failed) => Err(failed),
            };
            whole_or_none(mended.map_err(SearchError::from), found)?;
        }
        match self.rescue.get() {
            Some(engine) => on_cpu(engine, request, found),
            None => unreachable!("the last failure switched to the CPU or was returned"),
        }
    }
}

/// Searches on the CPU; no query counts as answered by the GPU's fast path.
fn on_cpu(
    engine: &Inverted,
    request: &Request<'_>,
    found: &mut NeighborLists,
) -> Result<Report, SearchError> {
    let _ = engine.search(request, found)?;
    found.mark_all_fell_back();
    Ok(found.report())
}
