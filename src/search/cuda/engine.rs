//! The engine of one GPU: where the training rows are stored, and what happens after a failure.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use gpu_runtime::{Device, GpuError, Pool};

use super::bresler::GridMemory;
use super::failure::DeviceFailure;
use super::kernels::{ACCUMULATE_STATIC_BYTES, Kernels};
use super::lane::{Lane, UploadedQueries};
use super::launch::ACCUMULATE_THREADS;
use super::memory::{candidate_capacity, fraction_of};
use super::options::{CudaEngine, CudaOptions};
use super::part::{self, Part, PartStructures};
use super::tile;
use crate::rows::matrix::{Csr, CsrView};
use crate::search::engine::{Search, check_training, whole_or_none};
use crate::search::lists::{NeighborLists, Slots};
use crate::search::merge::{PartLists, merge};
use crate::search::request::{Queries, Request};
use crate::search::{Inverted, Report, RowMap, SearchError};
use crate::threads::Threads;

/// Maximum number of queries per batch. Copies of a batch overlap with the search of others.
const CHUNK: usize = 32_768;
/// The number of batches in flight.
pub(super) const LANES: usize = 4;
/// Queries of the dense engines on the GPU at a time.
const DENSE_CHUNK: usize = 8_192;
/// The maximum number of entries of a chunk of queries.
const CHUNK_ENTRIES: usize = 1 << 28;
/// The fraction of the free memory to use.
const MEMORY_FRACTION: f64 = 0.9;
/// How many times a search is tried with less memory.
pub(super) const TRIES: usize = 3;

/// A GPU engine over training rows.
pub struct Cuda {
    pub(super) training: Arc<Csr>,
    pub(super) count: u32,
    pub(super) options: CudaOptions,
    /// The GPU as the caller gave it.
    device: Device,
    /// The same GPU without the tracking of buffers. Only this engine uses it.
    pub(super) untracked: Device,
    pub(super) kernels: Kernels,
    /// Whether all training weights are nonnegative.
    nonnegative: bool,
    loaded: RwLock<Arc<Loaded>>,
    pub(super) lanes: Pool<Lane>,
    pub(super) threads: Threads,
    /// The engine that takes over after a GPU failure.
    cpu_engine: OnceLock<Inverted>,
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
pub(super) struct Loaded {
    pub(super) rows: Residence,
    /// Bytes that may be used, including the rows.
    pub(super) budget: usize,
}

#[derive(Debug)]
pub(super) enum Residence {
    /// All rows are on the GPU.
    Resident(Box<Part>),
    /// The rows are loaded part by part for each search.
    Streamed(Vec<Range<usize>>),
    /// The GPU failed, and the CPU has taken over.
    Gone(GpuError),
}

/// Loads the kernels of all engines onto a GPU, which keeps them.
pub(in crate::search) fn load_kernels(device: &Device) -> Result<(), GpuError> {
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
    ) -> Result<Self, DeviceFailure> {
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
            None => fraction_of(untracked.free()?, MEMORY_FRACTION),
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
            cpu_engine: OnceLock::new(),
        };
        match engine.load(budget) {
            Ok(loaded) => engine.loaded = RwLock::new(Arc::new(loaded)),
            Err(error) => engine.recover(&error)?,
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

    pub(super) fn training(&self) -> CsrView<'_> {
        self.training.view()
    }

    pub(super) fn structures(&self) -> PartStructures {
        let info = self.untracked.info();
        let texture =
            matches!(self.options.engine, CudaEngine::Grid { memory: GridMemory::Texture, .. });
        let width = self.options.texture_width.unwrap_or(info.texture_width);
        let fused = self.options.engine == CudaEngine::Fused && self.nonnegative;
        PartStructures {
            texture_width: texture.then_some(width),
            tile_rows: fused.then(|| self.tile_rows()),
        }
    }

    /// Rows per tile: enough to fill each multiprocessor with blocks.
    fn tile_rows(&self) -> usize {
        let info = self.untracked.info();
        let blocks = (info.threads / ACCUMULATE_THREADS as usize).max(1);
        let shared = info.shared_per_multiprocessor / blocks - info.shared_reserved;
        let limit = (shared.min(info.shared_per_block) - ACCUMULATE_STATIC_BYTES) / 16 * 8;
        let limit = limit.min(tile::MAX_TILE_ROWS);
        self.options.tile_rows.map_or(limit, |rows| rows.clamp(1, limit))
    }

    /// Loads all rows if they take at most six tenths of the budget, otherwise plans parts.
    fn load(&self, budget: usize) -> Result<Loaded, GpuError> {
        let structures = self.structures();
        let all = 0..self.training.rows();
        let limit = fraction_of(budget, 0.6);
        if part::bytes(&self.training(), &all, structures) <= limit {
            let part = self.load_part(all)?;
            return Ok(Loaded { rows: Residence::Resident(Box::new(part)), budget });
        }
        let mut parts = vec![all];
        while let Some(at) = parts.iter().position(|rows| {
            rows.len() > 1 && part::bytes(&self.training(), rows, structures) > limit
        }) {
            let rows = parts[at].clone();
            let middle = rows.start + rows.len() / 2;
            parts.splice(at..=at, [rows.start..middle, middle..rows.end]);
        }
        Ok(Loaded { rows: Residence::Streamed(parts), budget })
    }

    fn load_part(&self, rows: Range<usize>) -> Result<Part, GpuError> {
        let structures = self.structures();
        let bytes = part::bytes(&self.training(), &rows, structures);
        self.untracked.reserve("the training rows", bytes)?;
        Part::load(&self.untracked, &self.training(), rows, structures, &self.threads)
    }

    pub(super) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// After a failure: continues with less memory if that can help, otherwise on the CPU.
    fn recover(&self, error: &GpuError) -> Result<(), DeviceFailure> {
        let mut error = error.clone();
        if self.cpu_engine.get().is_some() {
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
        self.switch_to_cpu(&error)
    }

    /// Continues with half the memory, or with the free memory if that is less.
    pub(super) fn shrink(&self, error: &GpuError) -> Result<(), GpuError> {
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
        let budget = half.min(fraction_of(self.untracked.free()?, MEMORY_FRACTION));
        tracing::warn!("{error}; continuing with {} MiB of its memory", budget >> 20);
        *loaded = Arc::new(Loaded { rows: all(), budget });
        *loaded = Arc::new(self.load(budget)?);
        Ok(())
    }

    /// Switches to the CPU.
    fn switch_to_cpu(&self, error: &GpuError) -> Result<(), DeviceFailure> {
        if !self.options.fall_back {
            return Err(error.clone().into());
        }
        if self.cpu_engine.get().is_none() {
            tracing::warn!("{error}; continuing on the CPU");
            let engine = Inverted::new(Arc::clone(&self.training), self.threads.clone())?;
            // Another thread may have been first; its engine is equivalent.
            let _ = self.cpu_engine.set(engine);
            // Free the GPU's memory for others. Concurrent searches then find it gone and check
            // again.
            self.lanes.clear();
            let gone = Loaded { rows: Residence::Gone(error.clone()), budget: 0 };
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(gone);
        }
        Ok(())
    }

    fn find(
        &self,
        queries: &Queries<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, DeviceFailure> {
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
        slots: Slots<'_>,
    ) -> Result<(), DeviceFailure> {
        let k = queries.k.min(part.rows.count as usize);
        if k == 0 {
            // There are no rows to find, but invalid requests must still fail as on the CPU.
            return Ok(queries.check_finite(&self.threads)?);
        }
        let mut chunks = self.chunks(part, budget, queries, k).into_iter();
        let mut rest = Some(slots);
        self.drive(part, queries, k, || {
            let chunk = chunks.next()?;
            let (now, later) = rest.take()?.split_at(chunk.len());
            rest = Some(later);
            Some((chunk, now))
        })
    }

    /// Searches the batches that `next` returns. Some are searched while others are copied. One
    /// thread is enough to stay ahead of the GPU, and leaves the other threads to the copies.
    pub(super) fn drive<'a>(
        &self,
        part: &Part,
        queries: &Queries<'_>,
        k: usize,
        mut next: impl FnMut() -> Option<(Range<usize>, Slots<'a>)>,
    ) -> Result<(), DeviceFailure> {
        // A lane that is dropped waits.
        let mut in_flight: VecDeque<(Lane, UploadedQueries, Slots<'a>)> = VecDeque::new();
        let finish = |(mut lane, uploaded, mut found): (Lane, UploadedQueries, Slots<'a>)| {
            self.finish(part, &mut lane, &uploaded, k, &mut found)?;
            Ok::<Lane, GpuError>(lane)
        };
        while let Some((chunk, mut found)) = next() {
            queries.stop.check()?;
            let earliest = if in_flight.len() == LANES { in_flight.pop_front() } else { None };
            let mut lane = match earliest {
                Some(batch) => finish(batch)?,
                None => self.lanes.take(|| Lane::new(&self.untracked))?,
            };
            let uploaded = lane.send(queries, chunk, &self.threads)?;
            self.enqueue_with_copies(part, &mut lane, &uploaded, k, found.pinned(k))?;
            in_flight.push_back((lane, uploaded, found));
        }
        while let Some(batch) = in_flight.pop_front() {
            self.lanes.put(finish(batch)?);
        }
        Ok(())
    }

    /// How many queries to process together: as many as the memory allows.
    pub(super) fn chunks(
        &self,
        part: &Part,
        budget: usize,
        queries: &Queries<'_>,
        k: usize,
    ) -> Vec<Range<usize>> {
        let chunk = if self.is_fused(part, k) { CHUNK } else { DENSE_CHUNK };
        let max_queries = self.options.chunk.unwrap_or(chunk);
        // Three tenths of the budget for the results, and one tenth for the queries and scores.
        let bytes = k * 8 + candidate_capacity(k) as usize * 4 + 32;
        // An entry is a column, a weight, and up to three times the mean number of its tasks.
        let tasks = part.tiles.iter().map(|tile| tile.tasks.mean).fold(0.0, f64::max);
        let affordable = (budget / 10 * 3 / LANES / bytes).max(1);
        let max_queries = max_queries.clamp(1, affordable);
        let entries = fraction_of(budget / 20 / LANES, 1.0 / (8.0 * (1.0 + 3.0 * tasks)));
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
            if let Some(engine) = self.cpu_engine.get() {
                return on_cpu(engine, request, found);
            }
            let recovered = match self.find(&queries, found) {
                Ok(report) => return Ok(report),
                Err(DeviceFailure::Gpu(error)) if attempt < TRIES => self.recover(&error),
                Err(DeviceFailure::Gpu(error)) => self.switch_to_cpu(&error),
                Err(failed) => Err(failed),
            };
            whole_or_none(recovered.map_err(SearchError::from), found)?;
        }
        match self.cpu_engine.get() {
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
