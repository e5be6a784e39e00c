//! Launches the kernels for vectors: one function per kernel of `kernels/`, and no other launch
//! sites.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, DriverError, GpuError, Kernel,
    LaunchConfig,
};

/// Threads per block of most kernels; `SELECT_THREADS` of `select.cu`.
pub(super) const THREADS: u32 = 256;
/// Positions per block of `filter.cu`.
pub(super) const ROWS: u32 = 128;
/// Queries are padded to a multiple of this: the maximum number per block of `filter.cu`.
pub(super) const COLS: u32 = 128;
/// Maximum number of blocks in y.
const GRID_Y: u32 = 65_535;
/// Coordinates per step of `filter.cu`.
pub(super) const TERMS: u32 = 32;
/// Bytes per step of a point or a query.
const STEP_BYTES: usize = 64;
/// Maximum number of positions per launch of `filter.cu`: a position and a query share 32 bits.
const MAX_POSITIONS: u32 = 1 << 24;
/// Upper bound of the static shared memory of `filter.cu` and the driver's share per block, in
/// bytes.
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
    /// In ascending order of queries per block. The last two have the same number: one keeps all
    /// terms of its queries in shared memory, the other some.
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
    /// Shared memory in bytes: for `steps` steps of the queries, or only those in flight if `None`.
    fn shared(&self, steps: Option<u32>) -> usize {
        let of_queries = steps.map_or(self.stages, |steps| steps as usize) * self.cols as usize;
        (self.stages * self.rows as usize + of_queries) * STEP_BYTES
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
            gather: gather.kernel("gather", SORTED as usize * 8)?,
        })
    }
}

/// Positions and queries that a block of a filter compares.
struct BlockShape {
    rows: u32,
    cols: u32,
}

/// Number and dimension of some vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorShape {
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// Maximum number of neighbors of a range query that the GPU sorts.
pub(super) const SORTED: u32 = 4096;

/// Upper bound of the static shared memory of `select` and `order`, in bytes.
pub(super) const SELECT_STATIC_BYTES: usize = 1_280;

/// A candidate of a query (`Candidate` in kernels/candidates.cuh).
pub(super) type Candidate = u64;

/// The state of a query in the kernels (`Query` in kernels/candidates.cuh).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct QueryState {
    threshold: f32,
    slack: f32,
    slope: f32,
    pub(super) status: u32,
}

#[expect(unsafe_code, reason = "copied from the GPU")]
// SAFETY: the fields match those of `Query` in order and size: three f32 and a u32.
unsafe impl DeviceRepr for QueryState {}

#[expect(unsafe_code, reason = "allocated as zeros")]
// SAFETY: the struct has four numbers, for which zero bits are valid.
unsafe impl gpu_runtime::ValidAsZeroBits for QueryState {}

/// The vectors of a store on the GPU (`Points` in kernels/select.cu).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct PointRows {
    values: u64,
    lengths: u64,
    count: u32,
    dimension: u32,
    metric: u32,
    step: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match those of `Points` in order and size: two pointers and four u32.
unsafe impl DeviceRepr for PointRows {}

impl PointRows {
    pub(super) fn new(stream: &CudaStream, points: &Vectors, metric: u32, step: u32) -> Self {
        Self {
            values: points.values.device_ptr(stream).0,
            lengths: points.lengths.as_ref().map_or(0, |lengths| lengths.device_ptr(stream).0),
            count: points.count,
            dimension: points.dimension,
            metric,
            step,
        }
    }
}

/// Vectors on the GPU, unmodified.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) values: CudaSlice<f32>,
    /// The Euclidean lengths, for angles only.
    pub(super) lengths: Option<CudaSlice<f64>>,
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// The 16-bit copy of the points that `filter.cu` reads.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) positions: CudaSlice<u16>,
    pub(super) squares: CudaSlice<f32>,
    pub(super) center: CudaSlice<f32>,
    /// The maximum rounding error, and the maximum length.
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

/// A range of positions, and whether all of them are candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) all: bool,
}

/// Number of blocks of a launch in x and y.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) x: u32,
    pub(super) y: u32,
}

impl Grid {
    /// Blocks in x only.
    pub(super) fn line(x: u32) -> Self {
        Self { x, y: 1 }
    }
}

pub(super) fn config(grid: Grid, threads: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid.x, grid.y, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: u32::try_from(shared).expect("shared memory is below 4 GiB"),
    }
}

/// Number of blocks of a kernel that loops over points, eight per block.
fn looping_grid(points: u32) -> Grid {
    Grid::line(points.div_ceil(8).clamp(1, MAX_BLOCKS))
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
    /// Number of candidates of each query, or 0 if it is in the counts of the batch.
    pub(super) candidates: u32,
}

/// Launches the kernels for vectors on one stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) stream: &'a Arc<CudaStream>,
}

impl Launcher<'_> {
    /// `spread`: raises `greatest` to the maximum distance of a coordinate from the center.
    pub(super) fn spread(
        self,
        points: &Vectors,
        center: &CudaSlice<f32>,
        is_angular: bool,
        greatest: &mut CudaSlice<f32>,
    ) -> LaunchResult {
        let is_angular = u32::from(is_angular);
        let mut launch = self.kernels.spread.launch_on(self.stream);
        launch.pointer(&points.values).value(&points.count).value(&points.dimension);
        launch.pointer(center).value(&is_angular).pointer(greatest);
        #[expect(unsafe_code, reason = "the launcher of `spread`")]
        // SAFETY: the arguments match those of the kernel in order and type; `center` has one value
        // per dimension.
        unsafe {
            launch.launch(config(looping_grid(points.count), THREADS, 0))
        }
    }

    /// `prepare_points`: fills the filter's copy of the points.
    pub(super) fn prepare_points(
        self,
        points: &Vectors,
        step: u32,
        halves: &mut Halves,
    ) -> LaunchResult {
        let is_angular = u32::from(halves.is_angular);
        let mut launch = self.kernels.prepare_points.launch_on(self.stream);
        launch.pointer(&points.values).value(&points.count).value(&points.dimension).value(&step);
        launch.pointer(&halves.center).value(&halves.scale).value(&is_angular);
        launch.pointer(&mut halves.positions).pointer(&mut halves.squares).value(&halves.steps);
        launch.pointer(&mut halves.greatest);
        #[expect(unsafe_code, reason = "the launcher of `prepare_points`")]
        // SAFETY: the arguments match those of the kernel in order and type; per point, `positions`
        // has `steps` times `TERMS` values and `squares` has one; `greatest` has two.
        unsafe {
            launch.launch(config(looping_grid(points.count), THREADS, 0))
        }
    }

    /// `place_points`: copies the points in the order of their positions.
    pub(super) fn place_points(
        self,
        points: &Vectors,
        step: u32,
        positions: &mut CudaSlice<f32>,
    ) -> LaunchResult {
        let mut launch = self.kernels.place_points.launch_on(self.stream);
        launch.pointer(&points.values).value(&points.count).value(&points.dimension).value(&step);
        launch.pointer(positions);
        #[expect(unsafe_code, reason = "the launcher of `place_points`")]
        // SAFETY: the arguments match those of the kernel in order and type; `positions` is as
        // large as the points.
        unsafe {
            launch.launch(config(looping_grid(points.count), THREADS, 0))
        }
    }

    /// `measure_lengths`: computes the Euclidean lengths of vectors.
    pub(super) fn measure_lengths(
        self,
        values: &CudaSlice<f32>,
        shape: VectorShape,
        lengths: &mut CudaSlice<f64>,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let mut launch = self.kernels.measure_lengths.launch_on(self.stream);
        launch.pointer(values).value(&count).value(&dimension).pointer(lengths);
        let grid = Grid::line(count.div_ceil(THREADS).clamp(1, MAX_BLOCKS));
        #[expect(unsafe_code, reason = "the launcher of `measure_lengths`")]
        // SAFETY: the arguments match those of the kernel in order and type; there are `count`
        // vectors and lengths.
        unsafe {
            launch.launch(config(grid, THREADS, 0))
        }
    }

    /// `prepare_queries`: prepares the queries of a batch for `filter`. `radius` is that of range
    /// queries, or negative.
    pub(super) fn prepare_queries(
        self,
        halves: &Halves,
        shape: VectorShape,
        radius: f32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let is_angular = u32::from(halves.is_angular);
        let padded = count.next_multiple_of(COLS);
        let mut launch = self.kernels.prepare_queries.launch_on(self.stream);
        launch.pointer(&batch.values).value(&count).value(&dimension);
        launch.pointer(&halves.center).value(&halves.scale).value(&is_angular);
        launch.pointer(&halves.greatest).value(&radius);
        launch.pointer(&mut batch.halves).value(&halves.steps).pointer(&mut batch.states);
        launch.pointer(&mut batch.counts);
        #[expect(unsafe_code, reason = "the launcher of `prepare_queries`")]
        // SAFETY: the arguments match those of the kernel in order and type; `halves` holds
        // `padded` queries, the other buffers hold `count`.
        unsafe {
            launch.launch(config(Grid::line(padded), 128, 0))
        }
    }

    /// `prepare_scan`: prepares the queries of a batch for `scan`.
    pub(super) fn prepare_scan(
        self,
        shape: VectorShape,
        radius: f32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let mut launch = self.kernels.prepare_scan.launch_on(self.stream);
        launch.pointer(&batch.values).value(&count).value(&dimension).value(&radius);
        launch.pointer(&mut batch.states).pointer(&mut batch.counts);
        #[expect(unsafe_code, reason = "the launcher of `prepare_scan`")]
        // SAFETY: the arguments match those of the kernel in order and type; the batch has `count`
        // queries.
        unsafe {
            launch.launch(config(Grid::line(count.div_ceil(128)), 128, 0))
        }
    }
}

/// The filter for a number of queries, and the shape of its launch.
struct FilterLaunch<'a> {
    filter: &'a Filter,
    /// Whether shared memory holds all terms of the queries of a block.
    is_resident: bool,
    shared: usize,
    /// Blocks in x, each for other queries.
    columns: u32,
    /// Blocks in y, each for other positions.
    rows: u32,
}

impl Kernels {
    fn filter_for(&self, steps: u32, count: u32) -> FilterLaunch<'_> {
        let blocks_of = |filter: &Filter, shared: usize| {
            (self.shared_per_multiprocessor / (shared + FILTER_STATIC_BYTES)).min(filter.blocks)
        };
        // All terms are kept in shared memory only if that does not reduce the number of blocks.
        let fits = |filter: &Filter| blocks_of(filter, filter.shared(Some(steps))) == filter.blocks;
        let [narrower @ .., resident, streaming] = &self.filters;
        let narrow = narrower.iter().find(|filter| count <= filter.cols);
        let filter = narrow.unwrap_or(if fits(resident) { resident } else { streaming });
        let is_resident = fits(filter);
        let shared = filter.shared(is_resident.then_some(steps));
        let blocks = u32::try_from(blocks_of(filter, shared)).expect("a few");
        let columns = count.div_ceil(filter.cols);
        let rows = (self.multiprocessors * blocks.max(1) / columns).max(1);
        FilterLaunch { filter, is_resident, shared, columns, rows }
    }

    /// Number of positions that the blocks of a filter scan per step, for `count` queries.
    pub(super) fn positions_per_step(&self, steps: u32, count: u32) -> u32 {
        let chosen = self.filter_for(steps, count);
        chosen.rows * chosen.filter.rows
    }
}

impl Launcher<'_> {
    /// `filter_8` to `filter_128`: finds the candidates in a range of positions. Unless all of them
    /// are candidates, the range begins at a multiple of [`ROWS`].
    pub(super) fn filter(
        self,
        halves: &Halves,
        part: Part,
        count: u32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let steps = halves.steps;
        let FilterLaunch { filter, is_resident, shared, columns, rows } =
            self.kernels.filter_for(steps, count);
        let all = u32::from(part.all);
        let resident = u32::from(is_resident);
        let mut first = part.first;
        while first < part.end {
            let end = part.end.min(first.saturating_add(MAX_POSITIONS));
            let mut launch = filter.kernel.launch_on(self.stream);
            launch.pointer(&halves.positions).pointer(&halves.squares).value(&first).value(&end);
            launch.pointer(&batch.halves).pointer(&batch.states).pointer(&mut batch.counts);
            launch.value(&count).pointer(&mut batch.candidates).value(&batch.capacity);
            launch.value(&steps).value(&all).value(&resident);
            let grid = Grid { x: columns, y: rows.min((end - first).div_ceil(filter.rows)) };
            #[expect(unsafe_code, reason = "the launcher of `filter`")]
            // SAFETY: the arguments match those of the kernel in order and type; positions are
            // padded to `ROWS`, queries to `COLS`; if all positions are candidates, there are at
            // most `capacity` of them; the shared memory is as large as `resident` requires.
            unsafe {
                launch.launch(config(grid, filter.threads, shared))?;
            }
            first = end;
        }
        Ok(())
    }

    /// `manhattan_4` to `chebyshev_64`: like `filter`, with the distance itself.
    pub(super) fn scan(
        self,
        points: &ScanPoints,
        part: Part,
        shape: VectorShape,
        batch: &mut Batch,
    ) -> LaunchResult {
        let VectorShape { count, dimension } = shape;
        let kernels = self.kernels;
        let [few, many] = if points.is_manhattan { &kernels.manhattan } else { &kernels.chebyshev };
        let (rows, cols, threads, kernel) =
            if count <= 16 { (256, 4, 256, few) } else { (128, 64, 256, many) };
        let all = u32::from(part.all);
        let mut first = part.first;
        while first < part.end {
            let end = part.end.min(first.saturating_add(GRID_Y * rows));
            let mut launch = kernel.launch_on(self.stream);
            launch.pointer(&points.positions).value(&first).value(&end);
            launch.pointer(&batch.values).pointer(&batch.states).pointer(&mut batch.counts);
            launch.value(&count).pointer(&mut batch.candidates).value(&batch.capacity);
            launch.value(&dimension).value(&all);
            let grid = Grid { x: count.div_ceil(cols), y: (end - first).div_ceil(rows) };
            #[expect(unsafe_code, reason = "the launcher of `scan`")]
            // SAFETY: the arguments match those of the kernel in order and type; if all positions
            // are candidates, there are at most `capacity` of them.
            unsafe {
                launch.launch(config(grid, threads, 0))?;
            }
            first = end;
        }
        Ok(())
    }

    /// `select`: reduces the candidates of each query and lowers its threshold.
    pub(super) fn select(self, selection: Selection, batch: &mut Batch) -> LaunchResult {
        let Selection { queries, k, candidates } = selection;
        let mut launch = self.kernels.select.launch_on(self.stream);
        launch.pointer(&mut batch.states).pointer(&mut batch.counts).pointer(&mut batch.candidates);
        launch.value(&batch.capacity).value(&k).value(&candidates);
        #[expect(unsafe_code, reason = "the launcher of `select`")]
        // SAFETY: the arguments match those of the kernel in order and type; shared memory holds
        // `capacity` candidates.
        unsafe {
            launch.launch(config(Grid::line(queries), THREADS, batch.capacity as usize * 8))
        }
    }

    /// `measure_all`: replaces all candidates by their exact distances, in place.
    pub(super) fn measure_all(
        self,
        points: &PointRows,
        count: u32,
        batch: &mut Batch,
    ) -> LaunchResult {
        /// Maximum number of blocks per query.
        const BLOCKS: u32 = 16;
        /// `NEAR_TERMS` of `select.cu`.
        const NEAR_TERMS: u32 = 4096;
        /// `ANGULAR` of `exact.cuh`.
        const ANGULAR: u32 = 3;
        let blocks = (8 * self.kernels.multiprocessors / count.max(1)).clamp(1, BLOCKS);
        let mut launch = self.kernels.measure_all.launch_on(self.stream);
        launch.value(points).pointer(&batch.values).pointer(&batch.lengths);
        launch.pointer(&mut batch.states).pointer(&batch.counts).pointer(&mut batch.candidates);
        launch.value(&batch.capacity);
        let is_near = points.metric != ANGULAR && points.dimension <= NEAR_TERMS;
        let near = if is_near { points.dimension as usize } else { 0 };
        #[expect(unsafe_code, reason = "the launcher of `measure_all`")]
        // SAFETY: the arguments match those of the kernel in order and type; the batch has `count`
        // queries; shared memory holds the coordinates of a query.
        unsafe {
            launch.launch(config(Grid { x: count, y: blocks }, THREADS, near * 8))
        }
    }

    /// `order`: sorts the k nearest of the candidates measured by `measure_all`.
    pub(super) fn order(self, count: u32, k: u32, batch: &mut Batch) -> LaunchResult {
        let mut launch = self.kernels.order.launch_on(self.stream);
        launch.pointer(&batch.states).pointer(&batch.counts).pointer(&batch.candidates);
        launch.value(&batch.capacity).value(&k).pointer(&mut batch.neighbors);
        #[expect(unsafe_code, reason = "the launcher of `order`")]
        // SAFETY: the arguments match those of the kernel in order and type; shared memory holds
        // `capacity` keys, a power of two; `neighbors` holds k per query.
        unsafe {
            launch.launch(config(Grid::line(count), THREADS, batch.capacity as usize * 8))
        }
    }
}

/// The neighbors that the queries of a batch have found, on the GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundNeighbors {
    /// The address of the neighbors of the first query.
    pub(super) address: u64,
    /// Number of neighbors from one query's first to the next query's.
    pub(super) capacity: u32,
    pub(super) queries: u32,
}

/// `gather`: copies the neighbors of all queries into one array. Those of query q end at `ends[q]`;
/// up to [`SORTED`] of a query are sorted.
pub(super) fn gather(
    gather: &Kernel,
    stream: &Arc<CudaStream>,
    found: FoundNeighbors,
    ends: &CudaSlice<u32>,
    to: &mut CudaSlice<u64>,
) -> LaunchResult {
    let FoundNeighbors { address, capacity, queries } = found;
    let mut launch = gather.launch_on(stream);
    launch.value(&address).value(&capacity).pointer(ends).value(&SORTED).pointer(to);
    #[expect(unsafe_code, reason = "the launcher of `gather`")]
    // SAFETY: the arguments match those of the kernel in order and type; `address` is that of a
    // buffer of the caller with `capacity` neighbors per query, and `to` ends where the last query
    // does.
    unsafe {
        launch.launch(config(Grid::line(queries), THREADS, SORTED as usize * 8))
    }
}
