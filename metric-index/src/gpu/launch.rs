//! One Rust function per kernel of `kernels/`: the only place in this crate that launches them.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, DriverError, GpuError, Kernel,
    LaunchConfig,
};

/// Threads of most kernels; `SELECT_THREADS` of `select.cu`.
pub(super) const THREADS: u32 = 256;
/// Places of a block of `filter.cu`.
pub(super) const ROWS: u32 = 128;
/// To a multiple of this, queries are padded: the most of a block of `filter.cu`.
pub(super) const COLS: u32 = 128;
/// The greatest number of blocks in y.
const GRID_Y: u32 = 65_535;
/// Coordinates of a step of `filter.cu`.
pub(super) const TERMS: u32 = 32;
/// Bytes of a step, of a point or a query.
const STEP_BYTES: usize = 64;
/// The most places of a launch of `filter.cu`: the number of a place and a query are 32 bits.
const PLACES: u32 = 1 << 24;
/// An upper bound of the static shared memory of `filter.cu`, and what the driver keeps for a block, in bytes.
const FILTER_STATIC_BYTES: usize = 4_224 + 1_024;
/// Blocks of kernels that loop over points.
const LOOPING: u32 = 4096;

pub(super) type Launched = Result<(), DriverError>;

/// The kernels for vectors, loaded.
#[derive(Debug)]
pub(super) struct Kernels {
    spread: Kernel,
    prepare_points: Kernel,
    place_points: Kernel,
    measure_lengths: Kernel,
    prepare_queries: Kernel,
    prepare_scan: Kernel,
    /// By the number of queries of a block, rising; the last two of the same, with all their terms or with some.
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

/// `filter_8` to `filter_128_long`.
#[derive(Debug)]
struct Filter {
    kernel: Kernel,
    rows: u32,
    cols: u32,
    threads: u32,
    stages: usize,
    /// Blocks of a multiprocessor.
    blocks: usize,
}

impl Filter {
    /// Shared memory in bytes, with all terms of the queries or with some.
    fn shared(&self, steps: Option<u32>) -> usize {
        let of_queries = steps.map_or(self.stages, |steps| steps as usize) * self.cols as usize;
        (self.stages * self.rows as usize + of_queries) * STEP_BYTES
    }
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let most = device.info().shared_per_block;
        let prepare = device.load_packed(gpu_runtime::ptx!("prepare"))?;
        let filter = device.load_packed(gpu_runtime::ptx!("filter"))?;
        let scan = device.load_packed(gpu_runtime::ptx!("scan"))?;
        let select = device.load_packed(gpu_runtime::ptx!("select"))?;
        let gather = device.load_packed(gpu_runtime::ptx!("gather"))?;
        let filter = |name, (rows, cols), threads, stages, blocks| {
            let kernel = filter.kernel(name, most - FILTER_STATIC_BYTES)?;
            Ok::<_, GpuError>(Filter { kernel, rows, cols, threads, stages, blocks })
        };
        Ok(Self {
            spread: prepare.kernel("spread", 0)?,
            prepare_points: prepare.kernel("prepare_points", 0)?,
            place_points: prepare.kernel("place_points", 0)?,
            measure_lengths: prepare.kernel("measure_lengths", 0)?,
            prepare_queries: prepare.kernel("prepare_queries", 0)?,
            prepare_scan: prepare.kernel("prepare_scan", 0)?,
            filters: [
                filter("filter_8", (64, 8), 128, 10, 4)?,
                filter("filter_16", (64, 16), 128, 10, 4)?,
                filter("filter_32", (64, 32), 128, 8, 4)?,
                filter("filter_64", (128, 64), 256, 4, 2)?,
                filter("filter_128", (128, 128), 128, 3, 2)?,
                filter("filter_128_long", (128, 128), 128, 4, 2)?,
            ],
            shared_per_multiprocessor: device.info().shared_per_multiprocessor,
            multiprocessors: u32::try_from(device.info().multiprocessors).unwrap_or(1),
            manhattan: [scan.kernel("manhattan_4", 0)?, scan.kernel("manhattan_64", 0)?],
            chebyshev: [scan.kernel("chebyshev_4", 0)?, scan.kernel("chebyshev_64", 0)?],
            select: select.kernel("select", most - SELECT_STATIC_BYTES)?,
            measure_all: select.kernel("measure_all", 0)?,
            order: select.kernel("order", most - SELECT_STATIC_BYTES)?,
            gather: gather.kernel("gather", SORTED as usize * 8)?,
        })
    }
}

/// Neighbors of a range query that the GPU sorts.
pub(super) const SORTED: u32 = 4096;

/// An upper bound of the static shared memory of `select` and `order`, in bytes.
pub(super) const SELECT_STATIC_BYTES: usize = 1_280;

/// A candidate of a query (`Candidate` of kernels/candidates.cuh).
pub(super) type Candidate = u64;

/// What the kernels know of a query (`Query` of kernels/candidates.cuh).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct QueryState {
    threshold: f32,
    slack: f32,
    slope: f32,
    pub(super) status: u32,
}

#[expect(unsafe_code, reason = "copied from the GPU")]
// SAFETY: the fields are those of `Query`, in order and in size: three f32 and a u32.
unsafe impl DeviceRepr for QueryState {}

#[expect(unsafe_code, reason = "allocated as zeros")]
// SAFETY: four numbers, for which zeros are valid.
unsafe impl gpu_runtime::ValidAsZeroBits for QueryState {}

/// The vectors of a store on the GPU (`Points` of kernels/select.cu).
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
// SAFETY: the fields are those of `Points`, in order and in size: two pointers and four u32.
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

/// Vectors on the GPU, as given.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) values: CudaSlice<f32>,
    /// For angles.
    pub(super) lengths: Option<CudaSlice<f64>>,
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// The copy of the points that `filter.cu` reads.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) places: CudaSlice<u16>,
    pub(super) squares: CudaSlice<f32>,
    pub(super) center: CudaSlice<f32>,
    /// The greatest error of rounding, and the greatest length.
    pub(super) greatest: CudaSlice<f32>,
    pub(super) scale: f64,
    /// Steps of [`TERMS`] coordinates.
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
    /// The candidates for which a query has room.
    pub(super) room: u32,
}

/// Some places, and whether all of them are candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) all: bool,
}

pub(super) fn config(grid: (u32, u32), threads: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid.0, grid.1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: u32::try_from(shared).expect("shared memory is below 4 GiB"),
    }
}

/// `spread`: raises `greatest` to the greatest distance of a coordinate from the center.
pub(super) fn spread(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    points: &Vectors,
    center: &CudaSlice<f32>,
    is_angular: bool,
    greatest: &mut CudaSlice<f32>,
) -> Launched {
    let is_angular = u32::from(is_angular);
    let mut launch = kernels.spread.launch_on(stream);
    launch.pointer(&points.values).value(&points.count).value(&points.dimension);
    launch.pointer(center).value(&is_angular).pointer(greatest);
    #[expect(unsafe_code, reason = "the launcher of `spread`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `center` has a value for each dimension.
    unsafe {
        launch.launch(config((points.count.div_ceil(8).clamp(1, LOOPING), 1), THREADS, 0))
    }
}

/// `prepare_points`: the filter's copy of the points.
pub(super) fn prepare_points(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    points: &Vectors,
    step: u32,
    halves: &mut Halves,
) -> Launched {
    let is_angular = u32::from(halves.is_angular);
    let mut launch = kernels.prepare_points.launch_on(stream);
    launch.pointer(&points.values).value(&points.count).value(&points.dimension).value(&step);
    launch.pointer(&halves.center).value(&halves.scale).value(&is_angular);
    launch.pointer(&mut halves.places).pointer(&mut halves.squares).value(&halves.steps);
    launch.pointer(&mut halves.greatest);
    #[expect(unsafe_code, reason = "the launcher of `prepare_points`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `places` has `steps` times `TERMS` values for each point,
    // `squares` one, `greatest` two.
    unsafe {
        launch.launch(config((points.count.div_ceil(8).clamp(1, LOOPING), 1), THREADS, 0))
    }
}

/// `place_points`: the points in places.
pub(super) fn place_points(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    points: &Vectors,
    step: u32,
    places: &mut CudaSlice<f32>,
) -> Launched {
    let mut launch = kernels.place_points.launch_on(stream);
    launch.pointer(&points.values).value(&points.count).value(&points.dimension).value(&step);
    launch.pointer(places);
    #[expect(unsafe_code, reason = "the launcher of `place_points`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `places` is as large as the points.
    unsafe {
        launch.launch(config((points.count.div_ceil(8).clamp(1, LOOPING), 1), THREADS, 0))
    }
}

/// `measure_lengths`: the lengths of vectors.
pub(super) fn measure_lengths(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    values: &CudaSlice<f32>,
    (count, dimension): (u32, u32),
    lengths: &mut CudaSlice<f64>,
) -> Launched {
    let mut launch = kernels.measure_lengths.launch_on(stream);
    launch.pointer(values).value(&count).value(&dimension).pointer(lengths);
    #[expect(unsafe_code, reason = "the launcher of `measure_lengths`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are `count` vectors and lengths.
    unsafe {
        launch.launch(config((count.div_ceil(THREADS).clamp(1, LOOPING), 1), THREADS, 0))
    }
}

/// `prepare_queries`: the queries of a batch for `filter`; the radius of range queries, or a negative number.
pub(super) fn prepare_queries(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    halves: &Halves,
    (count, dimension): (u32, u32),
    radius: f32,
    batch: &mut Batch,
) -> Launched {
    let (is_angular, padded) = (u32::from(halves.is_angular), count.next_multiple_of(COLS));
    let mut launch = kernels.prepare_queries.launch_on(stream);
    launch.pointer(&batch.values).value(&count).value(&dimension);
    launch.pointer(&halves.center).value(&halves.scale).value(&is_angular);
    launch.pointer(&halves.greatest).value(&radius);
    launch.pointer(&mut batch.halves).value(&halves.steps).pointer(&mut batch.states);
    launch.pointer(&mut batch.counts);
    #[expect(unsafe_code, reason = "the launcher of `prepare_queries`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `halves` has room for `padded` queries, the other
    // buffers for `count`.
    unsafe {
        launch.launch(config((padded, 1), 128, 0))
    }
}

/// `prepare_scan`: the same for `scan`.
pub(super) fn prepare_scan(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (count, dimension): (u32, u32),
    radius: f32,
    batch: &mut Batch,
) -> Launched {
    let mut launch = kernels.prepare_scan.launch_on(stream);
    launch.pointer(&batch.values).value(&count).value(&dimension).value(&radius);
    launch.pointer(&mut batch.states).pointer(&mut batch.counts);
    #[expect(unsafe_code, reason = "the launcher of `prepare_scan`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the batch has `count` queries.
    unsafe {
        launch.launch(config((count.div_ceil(128), 1), 128, 0))
    }
}

/// Which filter answers some queries, and with how many blocks.
struct Chosen<'a> {
    filter: &'a Filter,
    /// Whether the shared memory has room for all terms of its queries.
    is_resident: bool,
    shared: usize,
    /// Blocks in x, each of other queries.
    columns: u32,
    /// Blocks in y, each of other places.
    rows: u32,
}

impl Kernels {
    fn chosen(&self, steps: u32, count: u32) -> Chosen<'_> {
        let blocks_of = |filter: &Filter, shared: usize| {
            (self.shared_per_multiprocessor / (shared + FILTER_STATIC_BYTES)).min(filter.blocks)
        };
        // Not at the cost of blocks.
        let fits = |filter: &Filter| blocks_of(filter, filter.shared(Some(steps))) == filter.blocks;
        let [narrower @ .., with_all, with_some] = &self.filters;
        let narrow = narrower.iter().find(|filter| count <= filter.cols);
        let filter = narrow.unwrap_or(if fits(with_all) { with_all } else { with_some });
        let is_resident = fits(filter);
        let shared = filter.shared(is_resident.then_some(steps));
        let blocks = u32::try_from(blocks_of(filter, shared)).expect("a few");
        let columns = count.div_ceil(filter.cols);
        let rows = (self.multiprocessors * blocks.max(1) / columns).max(1);
        Chosen { filter, is_resident, shared, columns, rows }
    }

    /// The places that the blocks of a filter of some queries look at in a step.
    pub(super) fn places_together(&self, steps: u32, count: u32) -> u32 {
        let chosen = self.chosen(steps, count);
        chosen.rows * chosen.filter.rows
    }
}

/// `filter_8` to `filter_128`: the candidates among some places, which begin at a multiple of [`ROWS`] if not all are candidates.
pub(super) fn filter(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    halves: &Halves,
    part: Part,
    count: u32,
    batch: &mut Batch,
) -> Launched {
    let steps = halves.steps;
    let Chosen { filter, is_resident, shared, columns, rows } = kernels.chosen(steps, count);
    let (all, resident, mut first) = (u32::from(part.all), u32::from(is_resident), part.first);
    while first < part.end {
        let end = part.end.min(first.saturating_add(PLACES));
        let mut launch = filter.kernel.launch_on(stream);
        launch.pointer(&halves.places).pointer(&halves.squares).value(&first).value(&end);
        launch.pointer(&batch.halves).pointer(&batch.states).pointer(&mut batch.counts);
        launch.value(&count).pointer(&mut batch.candidates).value(&batch.room);
        launch.value(&steps).value(&all).value(&resident);
        let grid = (columns, rows.min((end - first).div_ceil(filter.rows)));
        #[expect(unsafe_code, reason = "the launcher of `filter`")]
        // SAFETY: the arguments are those of the kernel, in order and type; places are padded to `ROWS`, queries to
        // `COLS`; if all places are candidates, there are at most `room` of them; the shared memory is what `resident`
        // says.
        unsafe {
            launch.launch(config(grid, filter.threads, shared))?;
        }
        first = end;
    }
    Ok(())
}

/// `manhattan_4` to `chebyshev_64`: the same with the distance itself.
pub(super) fn scan(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (places, is_manhattan): (&CudaSlice<f32>, bool),
    part: Part,
    (count, dimension): (u32, u32),
    batch: &mut Batch,
) -> Launched {
    let [few, many] = if is_manhattan { &kernels.manhattan } else { &kernels.chebyshev };
    let (rows, cols, threads, kernel) =
        if count <= 16 { (256, 4, 256, few) } else { (128, 64, 256, many) };
    let (all, mut first) = (u32::from(part.all), part.first);
    while first < part.end {
        let end = part.end.min(first.saturating_add(GRID_Y * rows));
        let mut launch = kernel.launch_on(stream);
        launch.pointer(places).value(&first).value(&end);
        launch.pointer(&batch.values).pointer(&batch.states).pointer(&mut batch.counts);
        launch.value(&count).pointer(&mut batch.candidates).value(&batch.room);
        launch.value(&dimension).value(&all);
        let grid = (count.div_ceil(cols), (end - first).div_ceil(rows));
        #[expect(unsafe_code, reason = "the launcher of `scan`")]
        // SAFETY: the arguments are those of the kernel, in order and type; if all places are candidates, there are at
        // most `room` of them.
        unsafe {
            launch.launch(config(grid, threads, 0))?;
        }
        first = end;
    }
    Ok(())
}

/// `select`: fewer candidates. `given` is the number of candidates of each query, or 0.
pub(super) fn select(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (count, k, given): (u32, u32, u32),
    batch: &mut Batch,
) -> Launched {
    let mut launch = kernels.select.launch_on(stream);
    launch.pointer(&mut batch.states).pointer(&mut batch.counts).pointer(&mut batch.candidates);
    launch.value(&batch.room).value(&k).value(&given);
    #[expect(unsafe_code, reason = "the launcher of `select`")]
    // SAFETY: the arguments are those of the kernel, in order and type; shared memory has `room` candidates.
    unsafe {
        launch.launch(config((count, 1), THREADS, batch.room as usize * 8))
    }
}

/// `measure_all`: the exact distances of all candidates, in their places.
pub(super) fn measure_all(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    points: &PointRows,
    count: u32,
    batch: &mut Batch,
) -> Launched {
    /// Blocks of a query where there are few.
    const BLOCKS: u32 = 16;
    /// `NEAR_TERMS` of `select.cu`.
    const NEAR_TERMS: u32 = 4096;
    /// `ANGULAR` of `exact.cuh`.
    const ANGULAR: u32 = 3;
    let blocks = (8 * kernels.multiprocessors / count.max(1)).clamp(1, BLOCKS);
    let mut launch = kernels.measure_all.launch_on(stream);
    launch.value(points).pointer(&batch.values).pointer(&batch.lengths);
    launch.pointer(&mut batch.states).pointer(&batch.counts).pointer(&mut batch.candidates);
    launch.value(&batch.room);
    let is_near = points.metric != ANGULAR && points.dimension <= NEAR_TERMS;
    let near = if is_near { points.dimension as usize } else { 0 };
    #[expect(unsafe_code, reason = "the launcher of `measure_all`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the batch has `count` queries; shared memory has room
    // for a query's coordinates.
    unsafe {
        launch.launch(config((count, blocks), THREADS, near * 8))
    }
}

/// `order`: the k nearest of what `measure_all` gives.
pub(super) fn order(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (count, k): (u32, u32),
    batch: &mut Batch,
) -> Launched {
    let mut launch = kernels.order.launch_on(stream);
    launch.pointer(&batch.states).pointer(&batch.counts).pointer(&batch.candidates);
    launch.value(&batch.room).value(&k).pointer(&mut batch.neighbors);
    #[expect(unsafe_code, reason = "the launcher of `order`")]
    // SAFETY: the arguments are those of the kernel, in order and type; shared memory has `room` keys, a power of two, and
    // `neighbors` k for each query.
    unsafe {
        launch.launch(config((count, 1), THREADS, batch.room as usize * 8))
    }
}

/// `gather`: the neighbors of queries, which have room from the address `found` on, one after another; those of query q end at `ends[q]`. Up to [`SORTED`] of a query are
/// sorted.
pub(super) fn gather(
    gather: &Kernel,
    stream: &Arc<CudaStream>,
    (found, room): (u64, u32),
    ends: &CudaSlice<u32>,
    count: u32,
    to: &mut CudaSlice<u64>,
) -> Launched {
    let mut launch = gather.launch_on(stream);
    launch.value(&found).value(&room).pointer(ends).value(&SORTED).pointer(to);
    #[expect(unsafe_code, reason = "the launcher of `gather`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `found` is the address of what the caller's
    // buffer holds, and `to` ends where the last query does.
    unsafe {
        launch.launch(config((count, 1), THREADS, SORTED as usize * 8))
    }
}
