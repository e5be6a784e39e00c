//! Kernel launches for vectors, with one function per kernel.

use std::sync::Arc;

use gpu_runtime::{
    CudaEvent, CudaSlice, CudaStream, Device, DriverError, GpuError, Grid, Kernel, Pinned,
};

use super::arguments::{
    Candidate, FilterPart, Gather, MeasureAll, MeasureLengths, Order, PlacePoints, PointRows,
    PreparePoints, PrepareQueries, PrepareScan, QueryState, ScanPart, Select, Spread, Vectors,
};
use super::engine::GpuAnswers;
use crate::neighbor::Neighbor;

/// Number of threads per block of most kernels (`SELECT_THREADS` of `sort.cuh`).
pub(super) const THREADS: u32 = 256;
/// Number of positions per block of `filter.cu`.
pub(super) const ROWS: u32 = 128;
/// Maximum number of queries per block of `filter.cu`. Queries are padded to a multiple of this
/// number.
pub(super) const COLS: u32 = 128;
/// Maximum number of blocks in the y dimension of a grid.
const MAX_GRID_Y: u32 = 65_535;
/// Number of coordinates per step of `filter.cu`.
pub(super) const TERMS: u32 = 32;
/// Number of bytes of a point or a query per step.
const STEP_BYTES: usize = 64;
/// Maximum number of positions per launch of `filter.cu`, because a position and a query share 32
/// bits.
const MAX_POSITIONS: u32 = 1 << 24;
/// Upper bound on the bytes of shared memory per block that `filter.cu` allocates statically and
/// the driver reserves.
const FILTER_STATIC_BYTES: usize = 4_224 + 1_024;
/// Maximum number of blocks of kernels that loop over points.
const MAX_BLOCKS: u32 = 4096;

pub(super) type LaunchResult = Result<(), DriverError>;

/// The loaded kernels for vectors.
#[derive(Debug)]
pub(super) struct Kernels {
    spread: Kernel,
    prepare_points: Kernel,
    place_points: Kernel,
    measure_lengths: Kernel,
    prepare_queries: Kernel,
    prepare_scan: Kernel,
    /// The filters in ascending order of queries per block. The last two process the same number of
    /// queries: the first keeps all terms of its queries in shared memory, the second only some.
    filters: [Filter; 6],
    shared_per_multiprocessor: usize,
    multiprocessors: u32,
    manhattan: [Kernel; 2],
    chebyshev: [Kernel; 2],
    select: Kernel,
    measure_all: Kernel,
    order: Kernel,
    pub(super) gather: Kernel,
}

/// One of the kernels `filter_8` to `filter_128_long`.
#[derive(Debug)]
struct Filter {
    kernel: Kernel,
    rows: u32,
    cols: u32,
    threads: u32,
    stages: usize,
    /// Maximum number of blocks per multiprocessor.
    blocks: usize,
}

impl Filter {
    /// Returns the number of bytes of shared memory for `steps` steps of the queries, or only for
    /// the steps in flight if `steps` is `None`.
    fn shared(&self, steps: Option<u32>) -> usize {
        let query_rows = steps.map_or(self.stages, |steps| steps as usize) * self.cols as usize;
        (self.stages * self.rows as usize + query_rows) * STEP_BYTES
    }
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let max_shared = device.info().shared_per_block;
        let prepare = device.load_packed(gpu_runtime::ptx!("prepare"))?;
        let filter = device.load_packed(gpu_runtime::ptx!("filter"))?;
        let scan = device.load_packed(gpu_runtime::ptx!("scan"))?;
        let select = device.load_packed(gpu_runtime::ptx!("select"))?;
        let gather = device.load_packed(gpu_runtime::ptx!("gather"))?;
        let filter = |name, block: BlockShape, threads, stages, blocks| {
            let BlockShape { rows, cols } = block;
            let kernel = filter.kernel(name, max_shared - FILTER_STATIC_BYTES)?;
            Ok::<_, GpuError>(Filter { kernel, rows, cols, threads, stages, blocks })
        };
        let block = |rows, cols| BlockShape { rows, cols };
        Ok(Self {
            spread: prepare.kernel("spread", 0)?,
            prepare_points: prepare.kernel("prepare_points", 0)?,
            place_points: prepare.kernel("place_points", 0)?,
            measure_lengths: prepare.kernel("measure_lengths", 0)?,
            prepare_queries: prepare.kernel("prepare_queries", 0)?,
            prepare_scan: prepare.kernel("prepare_scan", 0)?,
            filters: [
                filter("filter_8", block(64, 8), 128, 10, 4)?,
                filter("filter_16", block(64, 16), 128, 10, 4)?,
                filter("filter_32", block(64, 32), 128, 8, 4)?,
                filter("filter_64", block(128, 64), 256, 4, 2)?,
                filter("filter_128", block(128, 128), 128, 3, 2)?,
                filter("filter_128_long", block(128, 128), 128, 4, 2)?,
            ],
            shared_per_multiprocessor: device.info().shared_per_multiprocessor,
            multiprocessors: u32::try_from(device.info().multiprocessors).unwrap_or(1),
            manhattan: [scan.kernel("manhattan_4", 0)?, scan.kernel("manhattan_64", 0)?],
            chebyshev: [scan.kernel("chebyshev_4", 0)?, scan.kernel("chebyshev_64", 0)?],
            select: select.kernel("select", max_shared - SELECT_STATIC_BYTES)?,
            measure_all: select.kernel("measure_all", 0)?,
            order: select.kernel("order", max_shared - SELECT_STATIC_BYTES)?,
            gather: gather.kernel("gather", MAX_SORTED as usize * 8)?,
        })
    }
}

/// The numbers of positions and queries that a block of a filter compares.
struct BlockShape {
    rows: u32,
    cols: u32,
}

/// The number and dimension of some vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorShape {
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// Maximum number of neighbors of a range query that the GPU sorts.
pub(super) const MAX_SORTED: u32 = 4096;

/// Upper bound on the static shared memory of `select` and `order`, in bytes.
pub(super) const SELECT_STATIC_BYTES: usize = 1_280;

/// The 16-bit copy of the points that `filter.cu` reads.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) positions: CudaSlice<u16>,
    pub(super) squares: CudaSlice<f32>,
    pub(super) center: CudaSlice<f32>,
    /// The maximum rounding error and the maximum length.
    pub(super) greatest: CudaSlice<f32>,
    pub(super) scale: f64,
    /// Number of steps of [`TERMS`] coordinates.
    pub(super) steps: u32,
    pub(super) is_angular: bool,
}

/// The buffers of a batch of queries.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) values: CudaSlice<f32>,
    pub(super) halves: CudaSlice<u16>,
    pub(super) lengths: CudaSlice<f64>,
    pub(super) states: CudaSlice<QueryState>,
    pub(super) counts: CudaSlice<u32>,
    pub(super) candidates: CudaSlice<Candidate>,
    pub(super) neighbors: CudaSlice<u64>,
    /// Maximum number of candidates per query.
    pub(super) capacity: u32,
}

/// A range of positions to filter, and whether all of them are candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct PositionRange {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) all_are_candidates: bool,
}

/// Returns the grid of a kernel that loops over points, with eight points per block.
fn looping_grid(points: u32) -> Grid {
    Grid::new(points.div_ceil(8).clamp(1, MAX_BLOCKS), THREADS)
}

/// The copy of the points that `scan.cu` reads, and its metric: Manhattan or Chebyshev.
#[derive(Debug)]
pub(super) struct ScanPoints {
    pub(super) positions: CudaSlice<f32>,
    pub(super) is_manhattan: bool,
}

/// Parameters of `select`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection {
    pub(super) queries: u32,
    pub(super) k: u32,
    /// Number of candidates of each query, or 0 to use the batch's counts.
    pub(super) candidates: u32,
}

/// Launches the kernels for vectors on one stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) stream: &'a Arc<CudaStream>,
}

impl Launcher<'_> {
    /// Launches `spread`, which raises `greatest` to the maximum distance from a coordinate to the
    /// center.
    pub(super) fn spread(
        self,
        points: &Vectors,
        center: &CudaSlice<f32>,
        is_angular: bool,
        greatest: &mut CudaSlice<f32>,
    ) -> LaunchResult {
        let arguments = Spread {
            values: points.values.as_view(),
            count: points.count,
            dimension: points.dimension,
            center: center.as_view(),
            is_angular: u32::from(is_angular),
            greatest: greatest.as_view_mut(),
        };
        #[expect(unsafe_code, reason = "launches `spread`")]
        // SAFETY: `center` has one value per dimension.
        unsafe {
            self.kernels.spread.launch(self.stream, looping_grid(points.count), arguments)
        }
    }

    /// Launches `prepare_points`, which fills the copy of the points that the filter reads.
    pub(super) fn prepare_points(
        self,
        points: &Vectors,
        step: u32,
        halves: &mut Halves,
    ) -> LaunchResult {
        let arguments = PreparePoints {
            values: points.values.as_view(),
            count: points.count,
            dimension: points.dimension,
            step,
            center: halves.center.as_view(),
            scale: halves.scale,
            is_angular: u32::from(halves.is_angular),
            positions: halves.positions.as_view_mut(),
            squares: halves.squares.as_view_mut(),
            steps: halves.steps,
            greatest: halves.greatest.as_view_mut(),
        };
        #[expect(unsafe_code, reason = "launches `prepare_points`")]
        // SAFETY: per point, `positions` has `steps` times `TERMS` values and `squares` has one;
        // `greatest` has two.
        unsafe {
            self.kernels.prepare_points.launch(self.stream, looping_grid(points.count), arguments)
        }
    }

    /// Launches `place_points`, which copies the points in the order of their positions.
    pub(super) fn place_points(
        self,
        points: &Vectors,
        step: u32,
        positions: &mut CudaSlice<f32>,
    ) -> LaunchResult {
        let arguments = PlacePoints {
            values: points.values.as_view(),
            count: points.count,
            dimension: points.dimension,
            step,
            positions: positions.as_view_mut(),
        };
        #[expect(unsafe_code, reason = "launches `place_points`")]
        // SAFETY: `positions` is as large as the points.
        unsafe {
            self.kernels.place_points.launch(self.stream, looping_grid(points.count), arguments)
        }
    }

    /// Launches `measure_lengths`, which computes the Euclidean lengths of vectors.
    pub(super) fn measure_lengths(
        self,
        values: &CudaSlice<f32>,
        shape: VectorShape,
        lengths: &mut CudaSlice<f64>,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let arguments = MeasureLengths {
            values: values.as_view(),
            count,
            dimension,
            lengths: lengths.as_view_mut(),
        };
        let grid = Grid::new(count.div_ceil(THREADS).clamp(1, MAX_BLOCKS), THREADS);
        #[expect(unsafe_code, reason = "launches `measure_lengths`")]
        // SAFETY: there are `count` vectors and lengths.
        unsafe {
            self.kernels.measure_lengths.launch(self.stream, grid, arguments)
        }
    }

    /// Launches `prepare_queries`, which prepares the queries of a batch for `filter`. `radius` is
    /// the radius of range queries, or negative for nearest-neighbor queries.
    pub(super) fn prepare_queries(
        self,
        halves: &Halves,
        shape: VectorShape,
        radius: f32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let padded = count.next_multiple_of(COLS);
        let arguments = PrepareQueries {
            values: batch.values.as_view(),
            count,
            dimension,
            center: halves.center.as_view(),
            scale: halves.scale,
            is_angular: u32::from(halves.is_angular),
            greatest: halves.greatest.as_view(),
            radius,
            halves: batch.halves.as_view_mut(),
            steps: halves.steps,
            states: batch.states.as_view_mut(),
            counts: batch.counts.as_view_mut(),
        };
        #[expect(unsafe_code, reason = "launches `prepare_queries`")]
        // SAFETY: `halves` holds `padded` queries, the other buffers hold `count`.
        unsafe {
            self.kernels.prepare_queries.launch(self.stream, Grid::new(padded, 128), arguments)
        }
    }

    /// Launches `prepare_scan`, which prepares the queries of a batch for `scan`.
    pub(super) fn prepare_scan(
        self,
        shape: VectorShape,
        radius: f32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let arguments = PrepareScan {
            values: batch.values.as_view(),
            count,
            dimension,
            radius,
            states: batch.states.as_view_mut(),
            counts: batch.counts.as_view_mut(),
        };
        #[expect(unsafe_code, reason = "launches `prepare_scan`")]
        // SAFETY: the batch has `count` queries.
        unsafe {
            self.kernels.prepare_scan.launch(
                self.stream,
                Grid::new(count.div_ceil(128), 128),
                arguments,
            )
        }
    }
}

/// The filter for a number of queries, and the shape of its launch.
struct FilterLaunch<'a> {
    filter: &'a Filter,
    /// Whether shared memory holds all terms of the queries of a block.
    is_resident: bool,
    shared: usize,
    /// Number of blocks in the x dimension, each for different queries.
    columns: u32,
    /// Number of blocks in the y dimension, each for different positions.
    rows: u32,
}

impl Kernels {
    fn filter_for(&self, steps: u32, count: u32) -> FilterLaunch<'_> {
        let blocks_of = |filter: &Filter, shared: usize| {
            (self.shared_per_multiprocessor / (shared + FILTER_STATIC_BYTES)).min(filter.blocks)
        };
        // Keep all terms in shared memory only if that does not reduce the number of blocks.
        let fits = |filter: &Filter| blocks_of(filter, filter.shared(Some(steps))) == filter.blocks;
        let [narrower @ .., resident, streaming] = &self.filters;
        let narrow = narrower.iter().find(|filter| count <= filter.cols);
        let filter = narrow.unwrap_or(if fits(resident) { resident } else { streaming });
        let is_resident = fits(filter);
        let shared = filter.shared(is_resident.then_some(steps));
        let blocks = u32::try_from(blocks_of(filter, shared)).expect("at most `filter.blocks`");
        let columns = count.div_ceil(filter.cols);
        let rows = (self.multiprocessors * blocks.max(1) / columns).max(1);
        FilterLaunch { filter, is_resident, shared, columns, rows }
    }

    /// Returns the number of positions that the blocks of a filter scan per step, for `count`
    /// queries.
    pub(super) fn positions_per_step(&self, steps: u32, count: u32) -> u32 {
        let chosen = self.filter_for(steps, count);
        chosen.rows * chosen.filter.rows
    }
}

impl Launcher<'_> {
    /// Launches a filter kernel, which finds the candidates in a range of positions. Unless all of
    /// them are candidates, the range must begin at a multiple of [`ROWS`].
    pub(super) fn filter(
        self,
        halves: &Halves,
        part: PositionRange,
        count: u32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let steps = halves.steps;
        let FilterLaunch { filter, is_resident, shared, columns, rows } =
            self.kernels.filter_for(steps, count);
        let mut first = part.first;
        while first < part.end {
            let end = part.end.min(first.saturating_add(MAX_POSITIONS));
            let arguments = FilterPart {
                positions: halves.positions.as_view(),
                squares: halves.squares.as_view(),
                first,
                end,
                halves: batch.halves.as_view(),
                states: batch.states.as_view(),
                counts: batch.counts.as_view_mut(),
                count,
                candidates: batch.candidates.as_view_mut(),
                capacity: batch.capacity,
                steps,
                all: u32::from(part.all_are_candidates),
                resident: u32::from(is_resident),
            };
            let grid = Grid::new(columns, filter.threads)
                .with_rows(rows.min((end - first).div_ceil(filter.rows)))
                .with_shared_bytes(shared);
            #[expect(unsafe_code, reason = "launches `filter`")]
            // SAFETY: positions are padded to `ROWS`, and queries are padded to `COLS`. If all
            // positions are candidates, there are at most `capacity` of them. The shared memory is
            // as large as `resident` requires.
            unsafe {
                filter.kernel.launch(self.stream, grid, arguments)?;
            }
            first = end;
        }
        Ok(())
    }

    /// Launches a Manhattan or Chebyshev kernel, which finds the candidates by exact distances.
    pub(super) fn scan(
        self,
        points: &ScanPoints,
        part: PositionRange,
        shape: VectorShape,
        batch: &mut Batch,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let kernels = self.kernels;
        let [few, many] = if points.is_manhattan { &kernels.manhattan } else { &kernels.chebyshev };
        let (rows, cols, threads, kernel) =
            if count <= 16 { (256, 4, 256, few) } else { (128, 64, 256, many) };
        let mut first = part.first;
        while first < part.end {
            let end = part.end.min(first.saturating_add(MAX_GRID_Y * rows));
            let arguments = ScanPart {
                positions: points.positions.as_view(),
                first,
                end,
                values: batch.values.as_view(),
                states: batch.states.as_view(),
                counts: batch.counts.as_view_mut(),
                count,
                candidates: batch.candidates.as_view_mut(),
                capacity: batch.capacity,
                dimension,
                all: u32::from(part.all_are_candidates),
            };
            let grid =
                Grid::new(count.div_ceil(cols), threads).with_rows((end - first).div_ceil(rows));
            #[expect(unsafe_code, reason = "launches `scan`")]
            // SAFETY: if all positions are candidates, there are at most `capacity` of them.
            unsafe {
                kernel.launch(self.stream, grid, arguments)?;
            }
            first = end;
        }
        Ok(())
    }

    /// Launches `select`, which reduces the candidates of each query and lowers its threshold.
    pub(super) fn select(self, selection: Selection, batch: &mut Batch) -> LaunchResult {
        let Selection { queries, k, candidates } = selection;
        let arguments = Select {
            states: batch.states.as_view_mut(),
            counts: batch.counts.as_view_mut(),
            candidates: batch.candidates.as_view_mut(),
            capacity: batch.capacity,
            k,
            fixed_count: candidates,
        };
        let grid = Grid::new(queries, THREADS).with_shared_bytes(batch.capacity as usize * 8);
        #[expect(unsafe_code, reason = "launches `select`")]
        // SAFETY: shared memory holds `capacity` candidates.
        unsafe {
            self.kernels.select.launch(self.stream, grid, arguments)
        }
    }

    /// Launches `measure_all`, which replaces all candidates with their exact distances, in place.
    pub(super) fn measure_all(
        self,
        points: &PointRows,
        count: u32,
        batch: &mut Batch,
    ) -> LaunchResult {
        /// Maximum number of blocks per query.
        const MAX_BLOCKS_PER_QUERY: u32 = 16;
        /// Equal to `MAX_CACHED_DIMENSION` of `select.cu`.
        const MAX_CACHED_DIMENSION: u32 = 4096;
        /// Equal to `ANGULAR` of `exact.cuh`.
        const ANGULAR: u32 = 3;
        let blocks =
            (8 * self.kernels.multiprocessors / count.max(1)).clamp(1, MAX_BLOCKS_PER_QUERY);
        let arguments = MeasureAll {
            points: *points,
            values: batch.values.as_view(),
            lengths: batch.lengths.as_view(),
            states: batch.states.as_view_mut(),
            counts: batch.counts.as_view(),
            candidates: batch.candidates.as_view_mut(),
            capacity: batch.capacity,
        };
        let is_cached = points.metric != ANGULAR && points.dimension <= MAX_CACHED_DIMENSION;
        let cached = if is_cached { points.dimension as usize } else { 0 };
        let grid = Grid::new(count, THREADS).with_rows(blocks).with_shared_bytes(cached * 8);
        #[expect(unsafe_code, reason = "launches `measure_all`")]
        // SAFETY: the batch has `count` queries; shared memory holds the coordinates of a query.
        unsafe {
            self.kernels.measure_all.launch(self.stream, grid, arguments)
        }
    }

    /// Launches `order`, which sorts the k nearest candidates, as measured by `measure_all`.
    pub(super) fn order(self, count: u32, k: u32, batch: &mut Batch) -> LaunchResult {
        let arguments = Order {
            states: batch.states.as_view(),
            counts: batch.counts.as_view(),
            candidates: batch.candidates.as_view(),
            capacity: batch.capacity,
            k,
            neighbors: batch.neighbors.as_view_mut(),
        };
        let grid = Grid::new(count, THREADS).with_shared_bytes(batch.capacity as usize * 8);
        #[expect(unsafe_code, reason = "launches `order`")]
        // SAFETY: shared memory holds `capacity` keys, a power of two; `neighbors` holds k per
        // query.
        unsafe {
            self.kernels.order.launch(self.stream, grid, arguments)
        }
    }
}

/// The neighbors that the queries of a batch found, on the GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundNeighbors {
    /// The address of the neighbors of the first query.
    pub(super) address: u64,
    /// Stride between the lists of consecutive queries, in neighbors.
    pub(super) capacity: u32,
    pub(super) queries: u32,
}

/// Copies the lists of a batch from the GPU to the host.
pub(super) struct Gatherer<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) gpu: &'a gpu_runtime::Lane,
    pub(super) host: &'a mut Pinned<u64>,
}

impl Gatherer<'_> {
    /// Adds the lists of all queries to the answers in one array, and returns the array's start.
    /// Each list is sorted. The list of query q ends at `ends[q]`. Records the event `end` after
    /// the kernel.
    pub(super) fn add_lists(
        self,
        found: FoundNeighbors,
        ends: &[u32],
        end: &CudaEvent,
        answers: &mut GpuAnswers,
    ) -> Result<usize, GpuError> {
        let stream = self.gpu.stream();
        let failed = self.gpu.device().step("copying neighbors from it").failed();
        let length = ends.last().copied().unwrap_or(0) as usize;
        let device_ends = stream.clone_htod(ends).map_err(&failed)?;
        let mut gathered = stream.alloc_zeros(length.max(1)).map_err(&failed)?;
        self.gather(found, &device_ends, &mut gathered).map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let keys = self.host.get(length.max(1))?;
        stream.memcpy_dtoh(&gathered, keys).map_err(&failed)?;
        stream.synchronize().map_err(&failed)?;
        let first = answers.add_array(Neighbor::from_keys(&keys[..length]));
        let mut start = first;
        for &end in ends {
            let end = first + end as usize;
            if end - start > MAX_SORTED as usize {
                answers.neighbors_mut(start..end).sort_unstable();
            }
            start = end;
        }
        Ok(first)
    }

    /// Launches `gather`, which copies the neighbors of all queries into one array. Lists of up to
    /// [`MAX_SORTED`] neighbors are sorted.
    fn gather(
        &self,
        found: FoundNeighbors,
        ends: &CudaSlice<u32>,
        to: &mut CudaSlice<u64>,
    ) -> LaunchResult {
        let FoundNeighbors { address, capacity, queries } = found;
        let arguments = Gather {
            address,
            capacity,
            ends: ends.as_view(),
            max_sorted: MAX_SORTED,
            to: to.as_view_mut(),
        };
        let grid = Grid::new(queries, THREADS).with_shared_bytes(MAX_SORTED as usize * 8);
        #[expect(unsafe_code, reason = "launches `gather`")]
        // SAFETY: `address` points to a buffer of the caller with `capacity` neighbors per query,
        // and `to` ends where the last list ends.
        unsafe {
            self.kernel.launch(self.gpu.stream(), grid, arguments)
        }
    }
}
