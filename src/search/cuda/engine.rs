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
use super::segment::{self, GpuSegment, SegmentStructures};
use super::tile;
use crate::rows::matrix::{Csr, CsrView};
use crate::search::engine::{Search, check_training, clear_on_failure};
use crate::search::lists::{NeighborLists, Slots};
use crate::search::merge::{PartLists, merge};
use crate::search::request::{Queries, Request};
use crate::search::{Inverted, Report, RowMap, SearchError};
use crate::threads::Threads;

/// Maximum number of queries per batch. Copying one batch overlaps with searching others.
const MAX_BATCH_QUERIES: usize = 32_768;
/// Number of batches in flight.
pub(super) const LANES: usize = 4;
/// Maximum number of queries per batch if all similarities are computed.
const MAX_DENSE_BATCH_QUERIES: usize = 8_192;
/// Maximum number of entries of a batch of queries.
const MAX_BATCH_ENTRIES: usize = 1 << 28;
/// Fraction of the free GPU memory to use.
const MEMORY_FRACTION: f64 = 0.9;
/// Maximum number of times that a search is retried with less memory.
pub(super) const MAX_RETRIES: usize = 3;

/// A GPU engine over training rows.
pub struct Cuda {
    pub(super) training: Arc<Csr>,
    pub(super) count: u32,
    pub(super) options: CudaOptions,
    /// The GPU that the caller passed.
    device: Device,
    /// The same GPU without buffer tracking. Only this engine uses it.
    pub(super) untracked: Device,
    pub(super) kernels: Kernels,
    /// Whether all training weights are nonnegative.
    is_nonnegative: bool,
    loaded: RwLock<Arc<Loaded>>,
    pub(super) lanes: Pool<Lane>,
    pub(super) threads: Threads,
    /// The CPU engine that takes over after a GPU failure.
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

/// The training rows and the memory budget.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) rows: RowPlacement,
    /// Maximum number of bytes to use, including the rows.
    pub(super) budget: usize,
}

#[derive(Debug)]
pub(super) enum RowPlacement {
    /// All rows are on the GPU.
    Resident(Box<GpuSegment>),
    /// The rows are loaded segment by segment in each search.
    Streamed(Vec<Range<usize>>),
    /// The GPU failed, and the CPU has taken over.
    Failed(GpuError),
}

/// Loads the kernels of all engines onto a GPU. The GPU keeps them for later engines.
pub(in crate::search) fn load_kernels(device: &Device) -> Result<(), GpuError> {
    Kernels::load(device).map(|_| ())
}

impl Cuda {
    /// Loads training rows onto a GPU. The numbers of threads and documents of `options.engine` are
    /// clamped to between 1 and 1,024.
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
        // SAFETY: the device stays private to this engine. The code that loads rows waits for its
        // stream. Buffers of a lane are used only on its stream, and a lane waits when it is
        // dropped.
        let untracked = unsafe { device.untracked() }?;
        let kernels = Kernels::load(&untracked)?;
        let budget = match options.memory {
            Some(bytes) => bytes,
            None => fraction_of(untracked.free()?, MEMORY_FRACTION),
        };
        let options = CudaOptions { engine: options.engine.clamped(), ..options };
        let is_nonnegative = view.data().iter().all(|&weight| weight >= 0.0);
        let mut engine = Self {
            training,
            count,
            options,
            device,
            untracked,
            kernels,
            is_nonnegative,
            loaded: RwLock::new(Arc::new(Loaded {
                rows: RowPlacement::Streamed(Vec::new()),
                budget,
            })),
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

    pub(super) fn structures(&self) -> SegmentStructures {
        let info = self.untracked.info();
        let uses_textures =
            matches!(self.options.engine, CudaEngine::Grid { memory: GridMemory::Texture, .. });
        let width = self.options.texture_width.unwrap_or(info.texture_width);
        let is_fused = self.options.engine == CudaEngine::Fused && self.is_nonnegative;
        SegmentStructures {
            texture_width: uses_textures.then_some(width),
            tile_rows: is_fused.then(|| self.tile_rows()),
        }
    }

    /// Returns the number of rows per tile that fills each multiprocessor with blocks.
    fn tile_rows(&self) -> usize {
        let info = self.untracked.info();
        let blocks = (info.threads / ACCUMULATE_THREADS as usize).max(1);
        let shared = info.shared_per_multiprocessor / blocks - info.shared_reserved;
        let limit = (shared.min(info.shared_per_block) - ACCUMULATE_STATIC_BYTES) / 16 * 8;
        let limit = limit.min(tile::MAX_TILE_ROWS);
        self.options.tile_rows.map_or(limit, |rows| rows.clamp(1, limit))
    }

    /// Loads all rows if they take at most six tenths of the budget. Otherwise, plans the segments
    /// to stream.
    fn load(&self, budget: usize) -> Result<Loaded, GpuError> {
        let structures = self.structures();
        let all = 0..self.training.rows();
        let limit = fraction_of(budget, 0.6);
        if segment::byte_size(&self.training(), &all, structures) <= limit {
            let segment = self.load_segment(all)?;
            return Ok(Loaded { rows: RowPlacement::Resident(Box::new(segment)), budget });
        }
        let mut segments = vec![all];
        while let Some(index) = segments.iter().position(|rows| {
            rows.len() > 1 && segment::byte_size(&self.training(), rows, structures) > limit
        }) {
            let rows = segments[index].clone();
            let middle = rows.start + rows.len() / 2;
            segments.splice(index..=index, [rows.start..middle, middle..rows.end]);
        }
        Ok(Loaded { rows: RowPlacement::Streamed(segments), budget })
    }

    fn load_segment(&self, rows: Range<usize>) -> Result<GpuSegment, GpuError> {
        let structures = self.structures();
        let bytes = segment::byte_size(&self.training(), &rows, structures);
        self.untracked.reserve("the training rows", bytes)?;
        GpuSegment::load(&self.untracked, &self.training(), rows, structures, &self.threads)
    }

    pub(super) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Recovers from a failure: continues with less memory if that can help, otherwise on the CPU.
    fn recover(&self, error: &GpuError) -> Result<(), DeviceFailure> {
        let mut error = error.clone();
        if self.cpu_engine.get().is_some() {
            return Ok(());
        }
        for _ in 0..MAX_RETRIES {
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

    /// Halves the memory budget, or reduces it to the free memory if that is less.
    pub(super) fn shrink(&self, error: &GpuError) -> Result<(), GpuError> {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(loaded.rows, RowPlacement::Failed(_)) {
            // Another thread has already switched to the CPU.
            return Ok(());
        }
        let half = loaded.budget / 2;
        self.lanes.clear();
        // Release the rows before planning again. If planning fails, concurrent searches try to
        // load all rows.
        let all = || RowPlacement::Streamed(std::iter::once(0..self.training.rows()).collect());
        *loaded = Arc::new(Loaded { rows: all(), budget: half });
        // Wait until the memory is actually free.
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
            // If another thread has set an engine first, it is equivalent.
            let _ = self.cpu_engine.set(engine);
            // Free the GPU memory for other uses. Concurrent searches then fail and are retried on
            // the CPU.
            self.lanes.clear();
            let failed = Loaded { rows: RowPlacement::Failed(error.clone()), budget: 0 };
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(failed);
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
        let segments = match &loaded.rows {
            RowPlacement::Resident(segment) => {
                found.reset_pinned(count, k, &self.untracked)?;
                self.search_segment(segment, loaded.budget, queries, found.slots())?;
                return Ok(found.report());
            }
            RowPlacement::Streamed(segments) => segments,
            RowPlacement::Failed(error) => return Err(error.clone().into()),
        };
        let mut best = NeighborLists::default();
        best.reset(count, 0)?;
        let mut segment_lists = NeighborLists::default();
        for rows in segments {
            let segment = self.load_segment(rows.clone())?;
            segment_lists.reset(count, k.min(rows.len()))?;
            self.search_segment(&segment, loaded.budget, queries, segment_lists.slots())?;
            found.reset(count, k)?;
            // Each segment already uses the row numbers of the whole collection.
            let lists =
                [&best, &segment_lists].map(|lists| PartLists { lists, rows: &RowMap::From(0) });
            merge(&lists, &self.threads, found.slots());
            std::mem::swap(found, &mut best);
        }
        std::mem::swap(found, &mut best);
        Ok(found.report())
    }

    /// Searches a segment that is on the GPU, batch by batch.
    fn search_segment(
        &self,
        segment: &GpuSegment,
        budget: usize,
        queries: &Queries<'_>,
        slots: Slots<'_>,
    ) -> Result<(), DeviceFailure> {
        let k = queries.k.min(segment.rows.count as usize);
        if k == 0 {
            // There are no rows to find, but invalid requests must fail as they do on the CPU.
            return Ok(queries.check_finite(&self.threads)?);
        }
        let mut chunks = self.chunks(segment, budget, queries, k).into_iter();
        let mut rest = Some(slots);
        self.search_batches(segment, queries, k, || {
            let chunk = chunks.next()?;
            let (current, remaining) = rest.take()?.split_at(chunk.len());
            rest = Some(remaining);
            Some((chunk, current))
        })
    }

    /// Searches the batches that `next` returns. Copying some batches overlaps with searching
    /// others. One thread is enough to keep the GPU busy, which leaves the other threads free for
    /// the copies.
    pub(super) fn search_batches<'a>(
        &self,
        segment: &GpuSegment,
        queries: &Queries<'_>,
        k: usize,
        mut next: impl FnMut() -> Option<(Range<usize>, Slots<'a>)>,
    ) -> Result<(), DeviceFailure> {
        // A lane waits for its work when it is dropped.
        let mut in_flight: VecDeque<(Lane, UploadedQueries, Slots<'a>)> = VecDeque::new();
        let finish = |(mut lane, uploaded, mut found): (Lane, UploadedQueries, Slots<'a>)| {
            self.finish(segment, &mut lane, &uploaded, k, &mut found)?;
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
            self.enqueue_with_copies(segment, &mut lane, &uploaded, k, found.pinned(k))?;
            in_flight.push_back((lane, uploaded, found));
        }
        while let Some(batch) = in_flight.pop_front() {
            self.lanes.put(finish(batch)?);
        }
        Ok(())
    }

    /// Divides the queries into batches, as large as the memory allows.
    pub(super) fn chunks(
        &self,
        segment: &GpuSegment,
        budget: usize,
        queries: &Queries<'_>,
        k: usize,
    ) -> Vec<Range<usize>> {
        let chunk =
            if self.is_fused(segment, k) { MAX_BATCH_QUERIES } else { MAX_DENSE_BATCH_QUERIES };
        let max_queries = self.options.chunk.unwrap_or(chunk);
        // Results may use three tenths of the budget; queries and scores may use one tenth.
        let bytes = k * 8 + candidate_capacity(k) as usize * 4 + 32;
        // An entry takes a column, a weight, and up to three times the mean number of tasks per
        // entry.
        let tasks = segment.tiles.iter().map(|tile| tile.tasks.mean).fold(0.0, f64::max);
        let memory_limit = (budget / 10 * 3 / LANES / bytes).max(1);
        let max_queries = max_queries.clamp(1, memory_limit);
        let entries = fraction_of(budget / 20 / LANES, 1.0 / (8.0 * (1.0 + 3.0 * tasks)));
        let entries = entries.clamp(1, MAX_BATCH_ENTRIES);
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

    /// Searches on the GPU. After a failure, retries with less memory, then on the CPU.
    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let mut sparse = None;
        let queries = request.queries(self.count, self.training.cols(), &mut sparse);
        let queries = clear_on_failure(queries, found)?;
        for attempt in 0..=MAX_RETRIES {
            if let Some(engine) = self.cpu_engine.get() {
                return search_on_cpu(engine, request, found);
            }
            let recovered = match self.find(&queries, found) {
                Ok(report) => return Ok(report),
                Err(DeviceFailure::Gpu(error)) if attempt < MAX_RETRIES => self.recover(&error),
                Err(DeviceFailure::Gpu(error)) => self.switch_to_cpu(&error),
                Err(failed) => Err(failed),
            };
            clear_on_failure(recovered.map_err(SearchError::from), found)?;
        }
        match self.cpu_engine.get() {
            Some(engine) => search_on_cpu(engine, request, found),
            None => unreachable!("the last failure either switched to the CPU or was returned"),
        }
    }
}

/// Searches on the CPU. The report counts no query as answered by the GPU's fast path.
fn search_on_cpu(
    engine: &Inverted,
    request: &Request<'_>,
    found: &mut NeighborLists,
) -> Result<Report, SearchError> {
    let _ = engine.search(request, found)?;
    found.mark_all_fell_back();
    Ok(found.report())
}
