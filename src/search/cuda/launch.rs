//! Kernel launches. No other module of this crate launches kernels.

use std::ops::Range;

use gpu_runtime::{
    CudaSlice, CudaStream, CudaViewMut, DeviceRepr, GpuError, Grid, Kernel, KernelArguments, Lane,
    ValidAsZeroBits,
};

use super::kernels::{
    Accumulate, AllowRows, Base, BaseScatter, FusedSmall, GridLdg, GridTexture, Kernels, Prepare,
    QueryRows, Rescore, Select, Shared, TileRows, address,
};
use super::segment::{CsrRows, TextureRows};

/// Threads per warp.
pub(super) const WARP: u32 = 32;
/// Threads per block of `accumulate`.
pub(super) const ACCUMULATE_THREADS: u32 = 512;
/// Threads per block of `prepare`: one warp for each of four queries.
const PREPARE_THREADS: u32 = 128;
/// Threads per block of `rescore`.
const RESCORE_THREADS: u32 = 96;
/// Threads per block of `rescore_many`.
const RESCORE_MANY_THREADS: u32 = 256;
/// The largest k for which `rescore` is faster than `rescore_many`.
const RESCORE_K: u32 = 64;
/// Threads per block of `fused_small`.
pub(super) const FUSED_SMALL_THREADS: u32 = 1024;
/// Threads per block of `fused_medium`.
pub(super) const FUSED_MEDIUM_THREADS: u32 = 512;
/// Threads per block of `select`.
const SELECT_THREADS: u32 = 1024;
/// The maximum number of keys that `select` sorts.
pub(super) const SELECT_SORTED: u32 = 2048;
/// Maximum number of blocks in the y dimension of a grid.
const GRID_Y: u32 = 65_535;

/// A subset of the queries of a batch: `count` consecutive queries starting with `first`, or the
/// queries in a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuerySubset<'a> {
    pub(super) rows: QueryRows,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) list: Option<&'a CudaSlice<u32>>,
}

impl QuerySubset<'_> {
    fn list(&self, stream: &CudaStream) -> u64 {
        self.list.map_or(0, |list| address(stream, list))
    }
}

/// Queries as dense vectors of `terms` weights each.
#[derive(Debug)]
pub(super) struct DenseQueries<'a> {
    pub(super) values: &'a mut CudaSlice<f32>,
    pub(super) terms: usize,
}

/// The block size of the kernels of Bresler et al. 2011.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockShape {
    pub(super) threads: u32,
    /// Maximum number of a query's terms in dynamic shared memory.
    pub(super) terms: u32,
}

impl BlockShape {
    fn grid(self, blocks: u32) -> Grid {
        Grid::new(blocks, self.threads).with_shared_bytes(self.terms as usize * 8)
    }

    /// Divides rows into ranges that fit in a grid with one thread per row.
    fn row_ranges(self, rows: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let size = GRID_Y * self.threads;
        let range = move |first: u32| first..rows.end.min(first.saturating_add(size));
        (rows.start..rows.end).step_by(size as usize).map(range)
    }
}

/// Scores of queries: one value per query and row of a segment.
#[derive(Debug)]
pub(super) struct Scores<'a> {
    pub(super) values: &'a mut CudaSlice<f32>,
    /// The number of rows of the segment.
    pub(super) rows: u32,
    /// The index of the segment's first training row.
    pub(super) first_row: u32,
}

impl Scores<'_> {
    /// The scores of the query in slot `slot`.
    pub(super) fn slot(&mut self, slot: usize) -> CudaViewMut<'_, f32> {
        let rows = self.rows as usize;
        self.values.slice_mut(slot * rows..(slot + 1) * rows)
    }
}

/// The output of `select` and `fused`: up to `k` neighbors per query, and their number.
#[derive(Debug)]
pub(super) struct SelectedNeighbors<'a> {
    pub(super) keys: &'a mut CudaSlice<u64>,
    /// The first query's slot in `keys` and `counts`.
    pub(super) first_slot: usize,
    pub(super) counts: &'a mut CudaSlice<u32>,
}

/// A batch for the fused kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct FusedBatch {
    pub(super) tile: TileRows,
    pub(super) queries: QueryRows,
    pub(super) allow: AllowRows,
    /// The number of queries, starting with the first of the batch.
    pub(super) count: u32,
    pub(super) k: u32,
    /// Capacity for candidates and neighbors per query: a power of two, at least 3 k.
    pub(super) capacity: u32,
    /// Whether this is the first tile, so that there are no earlier results.
    pub(super) is_first: bool,
    /// Whether this is the last tile, so that neighbors are written instead of keys.
    pub(super) is_last: bool,
    /// The number of blocks resident at once.
    pub(super) blocks: u32,
}

impl FusedBatch {
    /// The rank of the threshold among the maximum sums of `groups` groups of rows. For a small k,
    /// the rank is k. For a large k, about 1.3 k randomly distributed rows reach the threshold.
    fn rank(&self, groups: u32) -> u32 {
        if self.k <= groups / 2 {
            return self.k;
        }
        let groups = f64::from(groups);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to groups")]
        let rank = (groups * (1.0 - libm::exp(-1.3 * f64::from(self.k) / groups))) as u32;
        rank.clamp(1, self.k - 1)
    }

    /// Capacity for candidates per query.
    fn candidates(&self) -> u32 {
        self.capacity - self.k
    }
}

/// The buffers of the fused kernels, large enough for a batch.
#[derive(Debug)]
pub(super) struct FusedBuffers<'a> {
    pub(super) records: &'a mut CudaSlice<[u32; 4]>,
    pub(super) tasks: &'a mut CudaSlice<[u32; 2]>,
    pub(super) next_task: &'a mut CudaSlice<u32>,
    pub(super) candidates: &'a mut CudaSlice<u32>,
    pub(super) candidate_counts: &'a mut CudaSlice<u32>,
    /// The neighbors found in earlier tiles; after the launch, also in this tile.
    pub(super) keys: &'a mut CudaSlice<u64>,
    pub(super) counts: &'a mut CudaSlice<u32>,
    pub(super) status: &'a mut CudaSlice<u32>,
}

/// The dynamic shared memory of a block of `accumulate`, in bytes.
pub(super) fn accumulate_bytes(rows: u32) -> usize {
    rows.div_ceil(8) as usize * 16
}

/// The dynamic shared memory of a block of `fused_small`, in bytes.
pub(super) fn fused_small_bytes(rows: u32, capacity: u32) -> usize {
    rows.div_ceil(8) as usize * 16 + 24 * 1024 + capacity as usize * 8
}

/// The addresses to which `fused_small` writes.
///
/// They are in GPU memory or in pinned host memory. For few queries, writing to pinned memory is
/// faster than copying the results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs {
    /// `k` neighbors per query.
    pub(super) keys: u64,
    pub(super) counts: u64,
    pub(super) status: u64,
}

impl Outputs {
    /// Returns the addresses of pinned buffers. The caller must wait for the stream before it reads
    /// or frees them.
    pub(super) fn on_host(keys: &mut [u64], counts: &mut [u32], status: &mut [u32]) -> Self {
        // With unified addressing, the GPU accesses pinned memory at the host's addresses.
        Self {
            keys: keys.as_mut_ptr() as u64,
            counts: counts.as_mut_ptr() as u64,
            status: status.as_mut_ptr() as u64,
        }
    }
}

type LaunchResult = Result<(), GpuError>;

/// Launches kernels on the stream of a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) gpu: &'a Lane,
}

impl Launcher<'_> {
    /// Launches a kernel. Every caller states what the kernel writes and why the memory is large
    /// enough.
    fn launch<A: KernelArguments>(self, kernel: &Kernel, grid: Grid, arguments: A) -> LaunchResult {
        #[expect(unsafe_code, reason = "the only launch in this crate")]
        // SAFETY: only the functions below call this function. Each passes as much memory as the
        // kernel's comment in `kernels/` requires.
        let launched = unsafe { kernel.launch(self.gpu.stream(), grid, arguments) };
        launched.map_err(self.gpu.device().step("launching a kernel").failed())
    }

    /// Fills a buffer with zeros.
    pub(super) fn clear<T: DeviceRepr + ValidAsZeroBits>(
        self,
        buffer: &mut CudaSlice<T>,
    ) -> LaunchResult {
        let cleared = self.gpu.stream().memset_zeros(buffer);
        cleared.map_err(self.gpu.device().step("clearing a buffer").failed())
    }

    /// `base_scatter`: writes `count` queries, starting with `first`, into dense vectors, or clears
    /// them.
    pub(super) fn base_scatter(
        self,
        queries: QueryRows,
        first: u32,
        count: u32,
        dense: &mut DenseQueries<'_>,
        clear: bool,
    ) -> LaunchResult {
        // The kernel writes `count` rows of `terms` values; `dense` has as many.
        let arguments = BaseScatter {
            queries,
            first,
            terms: dense.terms as u64,
            clear: u32::from(clear),
            dense: dense.values.as_view_mut(),
        };
        self.launch(&self.kernels.base_scatter, Grid::new(count, 128), arguments)
    }

    /// `base`: scores the dense query in slot `query` against all rows. `threads` must be a
    /// multiple of the warp size.
    pub(super) fn base(
        self,
        rows: &CsrRows,
        dense: &DenseQueries<'_>,
        query: usize,
        scores: CudaViewMut<'_, f32>,
        threads: u32,
    ) -> LaunchResult {
        // The kernel reads at most `terms` values of the query, because all columns are below
        // `terms`. It writes one score per row; `scores` has as many.
        let arguments = Base {
            rows: rows.count,
            row_ptr: rows.row_ptr.as_view(),
            row_end: rows.row_end.as_view(),
            cols: rows.cols.as_view(),
            vals: rows.vals.as_view(),
            dense: dense.values.slice(query * dense.terms..(query + 1) * dense.terms),
            scores,
        };
        let grid = Grid::new(rows.count.div_ceil(threads / WARP), threads);
        self.launch(&self.kernels.base, grid, arguments)
    }

    /// `shared`: scores query `query` of a batch against all rows.
    pub(super) fn shared(
        self,
        rows: &CsrRows,
        queries: QueryRows,
        query: u32,
        scores: CudaViewMut<'_, f32>,
        shape: BlockShape,
    ) -> LaunchResult {
        // The dynamic shared memory is `terms` times 8 bytes. The kernel writes one score per row;
        // `scores` has as many.
        let arguments = Shared {
            rows: rows.count,
            row_ptr: rows.row_ptr.as_view(),
            row_end: rows.row_end.as_view(),
            cols: rows.cols.as_view(),
            vals: rows.vals.as_view(),
            queries,
            query,
            terms: shape.terms,
            scores,
        };
        let grid = shape.grid(rows.count.div_ceil(shape.threads));
        self.launch(&self.kernels.shared, grid, arguments)
    }

    /// `grid_ldg`: scores queries against all rows, which are read through the read-only cache.
    pub(super) fn grid_ldg(
        self,
        rows: &CsrRows,
        queries: QuerySubset<'_>,
        scores: &mut Scores<'_>,
        shape: BlockShape,
    ) -> LaunchResult {
        // The dynamic shared memory is `terms` times 8 bytes. `scores` has `count` rows of
        // `rows.count` values.
        for range in shape.row_ranges(0..rows.count) {
            let arguments = GridLdg {
                rows: rows.count,
                first_row: range.start,
                last_row: range.end,
                row_ptr: rows.row_ptr.as_view(),
                row_end: rows.row_end.as_view(),
                cols: rows.cols.as_view(),
                vals: rows.vals.as_view(),
                queries: queries.rows,
                first: queries.first,
                list: queries.list(self.gpu.stream()),
                terms: shape.terms,
                scores: scores.values.as_view_mut(),
            };
            let blocks = (range.end - range.start).div_ceil(shape.threads);
            let grid = shape.grid(queries.count).with_rows(blocks);
            self.launch(&self.kernels.grid_ldg, grid, arguments)?;
        }
        Ok(())
    }

    /// `grid_texture`: scores queries against the rows of a texture.
    pub(super) fn grid_texture(
        self,
        rows: &CsrRows,
        texture: &TextureRows,
        queries: QuerySubset<'_>,
        scores: &mut Scores<'_>,
        shape: BlockShape,
    ) -> LaunchResult {
        // The memory is the same as for `grid_ldg`. The textures hold the entries of their rows
        // from `origin` on.
        for range in shape.row_ranges(texture.first_row..texture.end_row) {
            let arguments = GridTexture {
                rows: rows.count,
                first_row: range.start,
                last_row: range.end,
                row_ptr: rows.row_ptr.as_view(),
                row_end: rows.row_end.as_view(),
                cols: texture.cols.object(),
                vals: texture.vals.object(),
                origin: texture.origin,
                queries: queries.rows,
                first: queries.first,
                list: queries.list(self.gpu.stream()),
                terms: shape.terms,
                scores: scores.values.as_view_mut(),
            };
            let blocks = (range.end - range.start).div_ceil(shape.threads);
            let grid = shape.grid(queries.count).with_rows(blocks);
            self.launch(&self.kernels.grid_texture, grid, arguments)?;
        }
        Ok(())
    }

    /// `select`: selects the k best of each row of scores.
    pub(super) fn select(
        self,
        scores: &mut Scores<'_>,
        queries: QuerySubset<'_>,
        allow: AllowRows,
        k: u32,
        found: &mut SelectedNeighbors<'_>,
    ) -> LaunchResult {
        let first_slot = found.first_slot;
        let last_slot = first_slot + queries.count as usize;
        let sorted = if k <= SELECT_SORTED { k.next_power_of_two().max(1024) } else { 1024 };
        // The kernel reads `rows` scores, clears the scores of rows that are not allowed, and
        // writes at most `k` keys and one count per query. The shared memory has space for `sorted`
        // keys.
        let arguments = Select {
            rows: scores.rows,
            first_row: scores.first_row,
            scores: scores.values.as_view_mut(),
            first: queries.first,
            list: queries.list(self.gpu.stream()),
            allow,
            k,
            sorted,
            keys: found.keys.slice_mut(first_slot * k as usize..last_slot * k as usize),
            counts: found.counts.slice_mut(first_slot..last_slot),
        };
        let grid = Grid::new(queries.count, SELECT_THREADS).with_shared_bytes(sorted as usize * 8);
        self.launch(&self.kernels.select, grid, arguments)
    }

    /// `prepare`, `accumulate`, `rescore`: finds the k best of each query among a tile's rows and
    /// the earlier results.
    pub(super) fn fused(self, batch: FusedBatch, buffers: &mut FusedBuffers<'_>) -> LaunchResult {
        if batch.count == 0 || batch.tile.rows == 0 {
            return Ok(());
        }
        self.clear(buffers.next_task)?;
        self.prepare(batch, buffers)?;
        self.accumulate(batch, buffers)?;
        self.rescore(batch, buffers)
    }

    fn prepare(self, batch: FusedBatch, buffers: &mut FusedBuffers<'_>) -> LaunchResult {
        // The kernel writes `count` records and statuses and at most `task_capacity` tasks.
        let arguments = Prepare {
            tile: batch.tile,
            queries: batch.queries,
            first: 0,
            count: batch.count,
            fresh: u32::from(batch.is_first),
            task_capacity: u32::try_from(buffers.tasks.len()).unwrap_or(u32::MAX),
            records: buffers.records.as_view_mut(),
            tasks: buffers.tasks.as_view_mut(),
            next_task: buffers.next_task.as_view_mut(),
            status: buffers.status.as_view_mut(),
        };
        let grid = Grid::new(batch.count.div_ceil(PREPARE_THREADS / WARP), PREPARE_THREADS);
        self.launch(&self.kernels.prepare, grid, arguments)
    }

    fn accumulate(self, batch: FusedBatch, buffers: &mut FusedBuffers<'_>) -> LaunchResult {
        let grid = Grid::new(batch.count.min(batch.blocks), ACCUMULATE_THREADS)
            .with_shared_bytes(accumulate_bytes(batch.tile.rows));
        // The shared memory has space for one sum per row. The kernel writes at most `capacity`
        // candidates per query, and their count.
        let arguments = Accumulate {
            tile: batch.tile,
            first: 0,
            count: batch.count,
            k: batch.k,
            rank: batch.rank(ACCUMULATE_THREADS),
            capacity: batch.candidates(),
            fresh: u32::from(batch.is_first),
            records: buffers.records.as_view(),
            tasks: buffers.tasks.as_view(),
            keys: buffers.keys.as_view(),
            counts: buffers.counts.as_view(),
            candidates: buffers.candidates.as_view_mut(),
            candidate_counts: buffers.candidate_counts.as_view_mut(),
        };
        if batch.allow.is_unrestricted() {
            return self.launch(&self.kernels.accumulate, grid, arguments);
        }
        self.launch(&self.kernels.accumulate_filtered, grid, arguments.filtered(batch.allow))
    }

    fn rescore(self, batch: FusedBatch, buffers: &mut FusedBuffers<'_>) -> LaunchResult {
        let (kernel, threads) = match batch.k {
            0..=RESCORE_K => (&self.kernels.rescore, RESCORE_THREADS),
            _ => (&self.kernels.rescore_many, RESCORE_MANY_THREADS),
        };
        // The shared memory has space for `batch.capacity` keys. The kernel writes at most `k` keys
        // per query, a count and a status.
        let arguments = Rescore {
            tile: batch.tile,
            queries: batch.queries,
            first: 0,
            k: batch.k,
            capacity: batch.candidates(),
            fresh: u32::from(batch.is_first),
            last: u32::from(batch.is_last),
            candidates: buffers.candidates.as_view(),
            candidate_counts: buffers.candidate_counts.as_view(),
            keys: buffers.keys.as_view_mut(),
            counts: buffers.counts.as_view_mut(),
            status: buffers.status.as_view_mut(),
        };
        let grid = Grid::new(batch.count, threads).with_shared_bytes(batch.capacity as usize * 8);
        self.launch(kernel, grid, arguments)
    }

    /// `fused_small`, `fused_medium`: the work of `fused` in one kernel, with one block of
    /// `threads` per query. `outputs` must be large enough for the batch.
    pub(super) fn fused_small(
        self,
        batch: FusedBatch,
        threads: u32,
        outputs: Outputs,
    ) -> LaunchResult {
        if batch.tile.rows == 0 {
            return Ok(());
        }
        let grid = Grid::new(batch.count, threads)
            .with_shared_bytes(fused_small_bytes(batch.tile.rows, batch.capacity));
        // The outputs have space for `k` keys, a count and a status per query.
        let arguments = FusedSmall {
            tile: batch.tile,
            queries: batch.queries,
            k: batch.k,
            rank: batch.rank(threads),
            capacity: batch.capacity,
            fresh: u32::from(batch.is_first),
            last: u32::from(batch.is_last),
            keys: outputs.keys,
            counts: outputs.counts,
            status: outputs.status,
        };
        let Kernels { fused_small, fused_medium, .. } = self.kernels;
        let Kernels { fused_small_filtered, fused_medium_filtered, .. } = self.kernels;
        let is_medium = threads == FUSED_MEDIUM_THREADS;
        if batch.allow.is_unrestricted() {
            let kernel = if is_medium { fused_medium } else { fused_small };
            return self.launch(kernel, grid, arguments);
        }
        let kernel = if is_medium { fused_medium_filtered } else { fused_small_filtered };
        self.launch(kernel, grid, arguments.filtered(batch.allow))
    }
}
