//! The GPU engines.
//!
//! [`CudaEngine::Fused`] is the fast one: an inverted index in fixed point, candidates by a bound that
//! is proved in `kernels/fused.cuh`, scored again by the formula of [`super`]. The others are the
//! algorithms of Bresler et al. 2011, which compute every similarity and then select: a row of scores a
//! query. All return the same neighbors and the same bits as the engines on the CPU.
//!
//! Rows and queries of any number and length are taken. Where the fused kernels cannot answer a query
//! (too many candidates, as among equal documents; a negative weight; k above 1,200; more than 8,192
//! terms; weights near the ends of the range of f32), the GPU computes all its similarities. Training rows that do not fit the GPU's memory go through it part by part.
//! If the GPU runs out of memory the parts become smaller; if it fails, the CPU goes on.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::ScopedJoinHandle;

use metric_index::gpu::{Device, GpuError, Pool};
use rayon::prelude::*;

use super::lists::{NeighborLists, Out};
use super::{Inverted, Neighbor, Queries, Search, SearchError, check_training};
use crate::matrix::{Csr, CsrView};
use crate::threads::Threads;

mod batch;
mod lane;
mod launch;
mod part;
mod tile;

use batch::{room, share};
use lane::Lane;
use launch::{ACCUMULATE_STATIC_BYTES, ACCUMULATE_THREADS, Kernels, WARP};
use part::{Needs, Part};

/// Queries that go through the GPU together, so that copies of some run beside others' search.
const CHUNK: usize = 32_768;
/// Batches on their way at the same time.
const LANES: usize = 3;
/// Queries of the dense engines that are on the GPU together.
const DENSE_CHUNK: usize = 8_192;
/// The most entries of the queries of a chunk.
const CHUNK_ENTRIES: usize = 1 << 28;
/// The most neighbors that the fused kernel finds.
const FUSED_K: usize = 1_200;
/// The room of a fused block for candidates, in keys, for small k.
const FUSED_ROOM: u32 = 256;
/// The share of the free memory that is planned for.
const MEMORY_SHARE: f64 = 0.9;
/// How often a search is tried with less memory.
const TRIES: usize = 3;

/// Where the dense engines of the paper read training rows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridMemory {
    /// Texture objects, as in the paper.
    Texture,
    /// The read-only cache.
    ReadOnly,
}

/// An algorithm on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CudaEngine {
    /// The CSR kernel of Bell and Garland 2008: a dense query a launch.
    Base {
        /// Threads of a block, taken as whole warps.
        threads: u32,
    },
    /// Algorithm 2 of Bresler et al. 2011: a sparse query in shared memory a launch.
    Shared {
        /// Threads of a block.
        threads: u32,
    },
    /// Algorithm 3 of Bresler et al. 2011: a batch of queries a launch.
    Grid {
        /// Queries of a batch.
        documents: u32,
        /// Threads of a block.
        threads: u32,
        /// Where training rows are read from.
        memory: GridMemory,
    },
    /// The project's own: fixed-point sums over an inverted index.
    Fused,
}

impl CudaEngine {
    /// The same with sizes that a GPU can launch.
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

/// How the GPU is used. The defaults are right unless a limit is to be tried out.
#[derive(Debug, Clone, Copy)]
pub struct CudaOptions {
    /// The algorithm.
    pub engine: CudaEngine,
    /// Bytes of GPU memory that may be used; `None`: nine tenths of what is free.
    pub memory: Option<usize>,
    /// The most rows of a tile of the fused engine; `None`: as many as keep the GPU busiest.
    pub tile_rows: Option<usize>,
    /// The most texels of a texture; `None`: what the GPU allows.
    pub texture_width: Option<usize>,
    /// The most terms of a query that are in shared memory together; `None`: 4,096.
    pub query_terms: Option<u32>,
    /// Queries that go through the GPU together; `None`: 32,768.
    pub chunk: Option<usize>,
    /// The most queries that are searched by one kernel, which has less latency, instead of three;
    /// `None`: four times as many as there are places for its blocks.
    pub small_batch: Option<usize>,
    /// Whether the CPU goes on where the GPU fails.
    pub fall_back: bool,
}

impl CudaOptions {
    /// The defaults for an algorithm.
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

/// What is told of failures that are mended.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// A GPU engine over training rows.
pub struct Cuda<'a> {
    training: CsrView<'a>,
    matrix: &'a Csr,
    options: CudaOptions,
    device: Device,
    kernels: Kernels,
    /// Whether no training weight is negative.
    nonnegative: bool,
    loaded: RwLock<Arc<Loaded>>,
    lanes: Pool<Lane>,
    threads: Threads,
    /// The engine that goes on after a failure of the GPU.
    rescue: OnceLock<Inverted<'a>>,
    warn: Warn,
}

impl std::fmt::Debug for Cuda<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (engine, device) = (self.options.engine, self.device.info());
        f.debug_struct("Cuda")
            .field("engine", &engine)
            .field("device", device)
            .finish_non_exhaustive()
    }
}

/// Where the training rows are.
#[derive(Debug)]
struct Loaded {
    rows: Residence,
    /// Bytes that may be used, the rows included.
    budget: usize,
}

#[derive(Debug)]
enum Residence {
    /// All on the GPU.
    Resident(Box<Part>),
    /// Part by part, again for each search.
    Streamed(Vec<Range<usize>>),
    /// Not there any more: the GPU failed, and the CPU goes on.
    Gone(GpuError),
}

impl<'a> Cuda<'a> {
    /// Puts training rows on a GPU. Threads and documents of the paper's engines are taken as 1 to 1,024.
    ///
    /// # Errors
    /// If a weight is not finite, if the kernels cannot be loaded, or if the GPU fails later and
    /// `options.fall_back` is not set.
    pub fn new(
        training: &'a Csr,
        device: Device,
        options: CudaOptions,
        threads: Threads,
        warn: Warn,
    ) -> Result<Self, SearchError> {
        let view = training.view();
        check_training(&view, &threads)?;
        let kernels = Kernels::load(&device)?;
        let budget = match options.memory {
            Some(bytes) => bytes,
            None => share(device.free()?, MEMORY_SHARE),
        };
        let options = CudaOptions { engine: options.engine.clamped(), ..options };
        let nonnegative = view.data().iter().all(|&weight| weight >= 0.0);
        let mut engine = Self {
            training: view,
            matrix: training,
            options,
            device,
            kernels,
            nonnegative,
            loaded: RwLock::new(Arc::new(Loaded { rows: Residence::Streamed(Vec::new()), budget })),
            lanes: Pool::default(),
            threads,
            rescue: OnceLock::new(),
            warn,
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

    /// How the GPU is used.
    pub fn options(&self) -> &CudaOptions {
        &self.options
    }

    fn needs(&self) -> Needs {
        let info = self.device.info();
        let texture =
            matches!(self.options.engine, CudaEngine::Grid { memory: GridMemory::Texture, .. });
        let width = self.options.texture_width.unwrap_or(info.texture_width);
        let fused = self.options.engine == CudaEngine::Fused && self.nonnegative;
        Needs {
            texture_width: texture.then_some(width),
            tile_rows: fused.then(|| self.tile_rows()),
        }
    }

    /// Rows of a tile: so many that each multiprocessor is full of blocks.
    fn tile_rows(&self) -> usize {
        let info = self.device.info();
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
        if part::bytes(&self.training, &all, needs) <= most {
            let part = self.load_part(all)?;
            return Ok(Loaded { rows: Residence::Resident(Box::new(part)), budget });
        }
        let mut parts = vec![all];
        while let Some(at) = parts
            .iter()
            .position(|rows| rows.len() > 1 && part::bytes(&self.training, rows, needs) > most)
        {
            let rows = parts[at].clone();
            let middle = rows.start + rows.len() / 2;
            parts.splice(at..=at, [rows.start..middle, middle..rows.end]);
        }
        Ok(Loaded { rows: Residence::Streamed(parts), budget })
    }

    fn load_part(&self, rows: Range<usize>) -> Result<Part, GpuError> {
        let needs = self.needs();
        let bytes = part::bytes(&self.training, &rows, needs);
        self.device.reserve("the training rows", bytes)?;
        let stream = self.device.stream()?;
        Part::load(&self.device, &stream, &self.training, rows, needs, &self.threads)
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// After a failure: goes on with less memory if that can help, otherwise with the CPU.
    fn mend(&self, error: &GpuError) -> Result<(), SearchError> {
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

    /// Goes on with half the memory, or with what is free if that is less.
    fn shrink(&self, error: &GpuError) -> Result<(), GpuError> {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(loaded.rows, Residence::Gone(_)) {
            // Another thread has meanwhile handed over to the CPU.
            return Ok(());
        }
        let half = loaded.budget / 2;
        self.lanes.clear();
        // The rows leave the GPU before they are planned anew. Should that fail, who searches meanwhile
        // tries to load them whole.
        let all = || Residence::Streamed(std::iter::once(0..self.training.rows()).collect());
        *loaded = Arc::new(Loaded { rows: all(), budget: half });
        // Waits until what was freed is free.
        self.device.reserve("nothing", 0)?;
        let budget = half.min(share(self.device.free()?, MEMORY_SHARE));
        (self.warn)(&format!("{error}; going on with {} MiB of its memory", budget >> 20));
        *loaded = Arc::new(Loaded { rows: all(), budget });
        *loaded = Arc::new(self.load(budget)?);
        Ok(())
    }

    /// Goes on with the CPU.
    fn rescue_from(&self, error: &GpuError) -> Result<(), SearchError> {
        if !self.options.fall_back {
            return Err(error.clone().into());
        }
        if self.rescue.get().is_none() {
            (self.warn)(&format!("{error}; going on with the CPU"));
            let engine = Inverted::new(self.matrix, self.threads.clone())?;
            // Another thread may have been first: its engine is as good.
            let _ = self.rescue.set(engine);
            // The memory of the GPU is for others. Who searches there yet finds nothing, and looks again.
            self.lanes.clear();
            let gone = Loaded { rows: Residence::Gone(error.clone()), budget: 0 };
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(gone);
        }
        Ok(())
    }

    fn search(&self, queries: &Queries<'_>, k: usize, out: Out<'_>) -> Result<(), SearchError> {
        let loaded = self.loaded();
        let parts = match &loaded.rows {
            Residence::Resident(part) => {
                return self.search_part(part, loaded.budget, queries, k, out);
            }
            Residence::Streamed(parts) => parts,
            Residence::Gone(error) => return Err(error.clone().into()),
        };
        let mut found: Vec<Vec<Neighbor>> = vec![Vec::new(); queries.rows.rows()];
        let mut of_part = found.clone();
        for rows in parts {
            let part = self.load_part(rows.clone())?;
            self.search_part(&part, loaded.budget, queries, k, Out::Lists(&mut of_part))?;
            self.threads.run(|| {
                found.par_iter_mut().zip(&mut of_part).for_each(|(all, more)| {
                    all.append(more);
                    all.sort_unstable();
                    all.truncate(k);
                });
            });
        }
        out.put(found);
        Ok(())
    }

    /// Searches a part that is on the GPU, batch by batch.
    fn search_part(
        &self,
        part: &Part,
        budget: usize,
        queries: &Queries<'_>,
        k: usize,
        out: Out<'_>,
    ) -> Result<(), SearchError> {
        let k = k.min(part.rows.count as usize);
        if k == 0 {
            // No row to find; what the CPU refuses is refused all the same.
            return queries.check(self.training.cols(), &self.threads);
        }
        let chunks = self.chunks(part, budget, queries, k);
        let lanes = chunks.len().min(LANES);
        let mut rest = out;
        let mut work = Vec::new();
        for chunk in chunks {
            let (now, later) = rest.split_at(chunk.len());
            work.push((chunk, now));
            rest = later;
        }
        // The next piece of work is the last of the list.
        work.reverse();
        let work = Mutex::new(work);
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let drive = || {
            let mut lane = self.lanes.take(|| Lane::new(&self.device))?;
            while let Some((chunk, mut found)) = next() {
                self.search_chunk(part, &mut lane, queries, chunk, k, &mut found)?;
            }
            self.lanes.put(lane);
            Ok(())
        };
        if lanes <= 1 {
            return drive();
        }
        std::thread::scope(|scope| {
            let driven: Vec<_> = (0..lanes).map(|_| scope.spawn(drive)).collect();
            let ended = |thread: ScopedJoinHandle<'_, Result<(), SearchError>>| match thread.join()
            {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            // All are waited for; the first failure counts.
            driven.into_iter().map(ended).fold(Ok(()), Result::and)
        })
    }

    /// One batch: sends it, searches it, hands out what was found. Several lanes do so at a time, so that
    /// while one batch is searched, others are copied.
    fn search_chunk(
        &self,
        part: &Part,
        lane: &mut Lane,
        queries: &Queries<'_>,
        chunk: Range<usize>,
        k: usize,
        found: &mut Out<'_>,
    ) -> Result<(), SearchError> {
        let sent = self.threads.run(|| lane.send(queries, chunk))?;
        self.enqueue(part, lane, &sent, k)?;
        lane.fetch(sent.count, k, self.is_fused(part, k), found.pinned(k))?;
        Ok(self.finish(part, lane, &sent, k, found)?)
    }

    /// Queries that go together: as many as the memory allows.
    fn chunks(
        &self,
        part: &Part,
        budget: usize,
        queries: &Queries<'_>,
        k: usize,
    ) -> Vec<Range<usize>> {
        let (fused, lanes) = (self.is_fused(part, k), LANES);
        let most = self.options.chunk.unwrap_or(if fused { CHUNK } else { DENSE_CHUNK });
        // Three tenths of the budget for what is found, and one for the queries and scores.
        let bytes = k * 8 + room(k) as usize * 4 + 32;
        // An entry is a column, a weight, and up to three times the tasks that it makes in the mean.
        let tasks = part.tiles.iter().map(|tile| tile.cuts.mean).fold(0.0, f64::max);
        let affordable = (budget / 10 * 3 / lanes / bytes).max(1);
        let most = most.clamp(1, affordable);
        let entries = share(budget / 20 / lanes, 1.0 / (8.0 * (1.0 + 3.0 * tasks)));
        let entries = entries.clamp(1, CHUNK_ENTRIES);
        let indptr = queries.rows.indptr();
        let indptr = indptr.raw_storage();
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < queries.rows.rows() {
            let last = (start + most).min(queries.rows.rows());
            let fits = |&end: &u64| end - indptr[start] <= entries as u64;
            let end = start + indptr[start + 1..=last].partition_point(fits).max(1);
            chunks.push(start..end);
            start = end;
        }
        chunks
    }
}

impl Cuda<'_> {
    /// [`Search::top_k`] into lists that are used again: where millions of queries are searched, making a
    /// list for each takes longer than finding what is in it. After an error they hold part of the answers.
    ///
    /// # Errors
    /// If the queries do not fit the training rows, or the GPU fails and nothing may take its place.
    pub fn top_k_into(
        &self,
        queries: Queries<'_>,
        k: NonZeroUsize,
        lists: &mut NeighborLists,
    ) -> Result<(), SearchError> {
        let (count, most) = (queries.rows.rows(), k.get().min(self.training.rows()));
        // Without page-locked memory the copies take longer, no more.
        let _ = lists.reset_for(&self.device, count, most);
        self.search_or_mend(queries, k, &mut |this, queries, k| {
            this.search(queries, k, Out::of(lists))
        })?
        .map_or(Ok(()), |found| {
            Out::of(lists).put(found);
            Ok(())
        })
    }

    /// Searches; where the GPU fails, with less memory; where that fails, on the CPU: then the neighbors
    /// are returned.
    fn search_or_mend(
        &self,
        queries: Queries<'_>,
        k: NonZeroUsize,
        search: &mut dyn FnMut(&Self, &Queries<'_>, usize) -> Result<(), SearchError>,
    ) -> Result<Option<Vec<Vec<Neighbor>>>, SearchError> {
        queries.check_shape(self.training.cols())?;
        for attempt in 0..=TRIES {
            if let Some(engine) = self.rescue.get() {
                return engine.top_k(queries, k).map(Some);
            }
            match search(self, &queries, k.get()) {
                Ok(()) => return Ok(None),
                Err(SearchError::Gpu(error)) if attempt < TRIES => self.mend(&error)?,
                Err(SearchError::Gpu(error)) => self.rescue_from(&error)?,
                Err(error) => return Err(error),
            }
        }
        match self.rescue.get() {
            Some(engine) => engine.top_k(queries, k).map(Some),
            None => unreachable!("the last failure made the rescue or was returned"),
        }
    }
}

impl Search for Cuda<'_> {
    fn top_k(
        &self,
        queries: Queries<'_>,
        k: NonZeroUsize,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let mut found: Vec<Vec<Neighbor>> = vec![Vec::new(); queries.rows.rows()];
        let rescued = self.search_or_mend(queries, k, &mut |this, queries, k| {
            this.search(queries, k, Out::Lists(&mut found))
        })?;
        Ok(rescued.unwrap_or(found))
    }
}
