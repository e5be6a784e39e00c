//! One Rust function per kernel of `kernels/`: the only place in this crate that launches them.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, DriverError, GpuError, Kernel,
    LaunchConfig, Texture,
};

/// Threads per warp.
pub(super) const WARP: u32 = 32;
/// Threads per block of `accumulate`.
pub(super) const ACCUMULATE_THREADS: u32 = 512;
/// Threads per block of `prepare`: four queries.
const PREPARE_THREADS: u32 = 128;
/// Threads per block of `rescore`.
const RESCORE_THREADS: u32 = 96;
/// Threads per block of `rescore_many`.
const RESCORE_MANY_THREADS: u32 = 256;
/// The largest k for which `rescore` is faster.
const RESCORE_K: u32 = 64;
/// Bits of a query's term table in `rescore` and `fused_small`.
const TABLE_PLACES: usize = 65_536;
/// Threads per block of `fused_small`.
pub(super) const FUSED_SMALL_THREADS: u32 = 1024;
/// Threads per block of `fused_medium`.
pub(super) const FUSED_MEDIUM_THREADS: u32 = 512;
/// Threads per block of `select`.
const SELECT_THREADS: u32 = 1024;
/// The maximum number of keys that `select` sorts.
pub(super) const SELECT_SORTED: u32 = 2048;
/// An upper bound of the static shared memory of `accumulate`, in bytes.
pub(super) const ACCUMULATE_STATIC_BYTES: usize = 5_760;
/// An upper bound of the static shared memory of `fused_small` and `fused_medium`, in bytes.
pub(super) const FUSED_SMALL_STATIC_BYTES: usize = 7_424;
/// The maximum number of blocks of a grid in y.
const GRID_Y: u32 = 65_535;

/// The kernels, loaded. The driver compiles their PTX and caches the result.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) base: Kernel,
    pub(super) base_scatter: Kernel,
    pub(super) shared: Kernel,
    pub(super) grid_texture: Kernel,
    pub(super) grid_ldg: Kernel,
    pub(super) select: Kernel,
    pub(super) prepare: Kernel,
    pub(super) accumulate: Kernel,
    pub(super) accumulate_filtered: Kernel,
    pub(super) rescore: Kernel,
    pub(super) rescore_many: Kernel,
    pub(super) fused_small: Kernel,
    pub(super) fused_small_filtered: Kernel,
    pub(super) fused_medium: Kernel,
    pub(super) fused_medium_filtered: Kernel,
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let info = device.info();
        let most = info.shared_per_block;
        let base = device.load_packed(gpu_runtime::ptx!("base"))?;
        let shared = device.load_packed(gpu_runtime::ptx!("shared"))?;
        let grid = device.load_packed(gpu_runtime::ptx!("grid"))?;
        let select = device.load_packed(gpu_runtime::ptx!("select"))?;
        let fused = device.load_packed(gpu_runtime::ptx!("fused"))?;
        let small = device.load_packed(gpu_runtime::ptx!("fused_small"))?;
        Ok(Self {
            base: base.kernel("base", 0)?,
            base_scatter: base.kernel("base_scatter", 0)?,
            shared: shared.kernel("shared", most)?,
            grid_texture: grid.kernel("grid_texture", most)?,
            grid_ldg: grid.kernel("grid_ldg", most)?,
            select: select.kernel("select", 0)?,
            prepare: fused.kernel("prepare", 0)?,
            accumulate: fused.kernel("accumulate", most - ACCUMULATE_STATIC_BYTES)?,
            accumulate_filtered: fused
                .kernel("accumulate_filtered", most - ACCUMULATE_STATIC_BYTES)?,
            rescore: fused.kernel("rescore", 0)?,
            rescore_many: fused.kernel("rescore_many", 0)?,
            fused_small: small.kernel("fused_small", most - FUSED_SMALL_STATIC_BYTES)?,
            fused_small_filtered: small
                .kernel("fused_small_filtered", most - FUSED_SMALL_STATIC_BYTES)?,
            fused_medium: small.kernel("fused_medium", most - FUSED_SMALL_STATIC_BYTES)?,
            fused_medium_filtered: small
                .kernel("fused_medium_filtered", most - FUSED_SMALL_STATIC_BYTES)?,
        })
    }
}

/// The query rows of a batch on the GPU (`Queries` of kernels/common.cuh).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct QueryRows {
    ptr: u64,
    cols: u64,
    vals: u64,
    narrow: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Queries`, in order and in size: three pointers and a u32.
unsafe impl DeviceRepr for QueryRows {}

impl QueryRows {
    /// The rows in a buffer: their bounds, from word `vals` on their weights, and from word `cols` on their
    /// columns, 16-bit if `narrow` is set, otherwise 32-bit.
    pub(super) fn new(
        stream: &CudaStream,
        words: &CudaSlice<u32>,
        (vals, cols): (usize, usize),
        narrow: bool,
    ) -> Self {
        let start = words.device_ptr(stream).0;
        let at = |word: usize| start + 4 * word as u64;
        Self { ptr: start, cols: at(cols), vals: at(vals), narrow: u32::from(narrow) }
    }
}

/// Which rows may be neighbors of the queries of a batch (`Allow` of kernels/common.cuh), as
/// addresses on the GPU; 0 means no restriction.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AllowRows {
    /// One bit per row: rows whose bit is set may be neighbors.
    pub(super) only: u64,
    /// A range of excluded rows per query.
    pub(super) ranges: u64,
    /// Lists of excluded rows: those of query `q` are `lists[bounds[q]..bounds[q + 1]]`.
    pub(super) bounds: u64,
    pub(super) lists: u64,
    /// Groups: rows of the query's own group are excluded.
    pub(super) of_rows: u64,
    pub(super) of_queries: u64,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Allow`, in order and in size: six pointers.
unsafe impl DeviceRepr for AllowRows {}

impl AllowRows {
    fn is_all(&self) -> bool {
        self.only == 0 && self.ranges == 0 && self.bounds == 0 && self.of_rows == 0
    }

    /// The address of a word of a buffer.
    pub(super) fn pointer(stream: &CudaStream, words: &CudaSlice<u32>, at: Option<usize>) -> u64 {
        at.map_or(0, |word| words.device_ptr(stream).0 + 4 * word as u64)
    }
}

/// The training rows of a part on the GPU.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) count: u32,
    /// Where rows begin, at multiples of four entries.
    pub(super) row_ptr: CudaSlice<u64>,
    pub(super) row_end: CudaSlice<u64>,
    pub(super) cols: CudaSlice<u32>,
    /// The same columns in 16 bits, for the fused engine, if the vocabulary is small enough.
    pub(super) narrow_cols: Option<CudaSlice<u16>>,
    pub(super) vals: CudaSlice<f32>,
}

/// A tile of the fused engine (`Tile` of kernels/fused.cuh).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TileRows {
    lists: u64,
    postings: u64,
    row_ptr: u64,
    row_end: u64,
    cols: u64,
    narrow_cols: u64,
    vals: u64,
    longest: f32,
    rows: u32,
    first_row: u32,
    shift: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Tile`, in order and in size: seven pointers, f32, three u32.
unsafe impl DeviceRepr for TileRows {}

/// The posting lists of a tile on the GPU.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) lists: CudaSlice<[u32; 4]>,
    pub(super) postings: CudaSlice<u32>,
}

impl TileRows {
    /// The tile of the rows `first..first + rows` of a part whose first row is `part_row`.
    pub(super) fn new(
        stream: &CudaStream,
        lists: &Lists,
        part: &Rows,
        (part_row, first, rows): (u32, u32, u32),
        (longest, columns): (f32, usize),
    ) -> Self {
        // Columns are 32-bit numbers.
        let places = columns.div_ceil(TABLE_PLACES).next_power_of_two();
        Self {
            lists: lists.lists.device_ptr(stream).0,
            postings: lists.postings.device_ptr(stream).0,
            row_ptr: part.row_ptr.device_ptr(stream).0 + 8 * u64::from(first),
            row_end: part.row_end.device_ptr(stream).0 + 8 * u64::from(first),
            cols: part.cols.device_ptr(stream).0,
            narrow_cols: part.narrow_cols.as_ref().map_or(0, |cols| cols.device_ptr(stream).0),
            vals: part.vals.device_ptr(stream).0,
            longest,
            rows,
            first_row: part_row + first,
            shift: places.trailing_zeros(),
        }
    }

    pub(super) fn rows(&self) -> u32 {
        self.rows
    }
}

/// Which queries of a batch: `count` from `first` on, or those in a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Which<'a> {
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) list: Option<&'a CudaSlice<u32>>,
}

impl Which<'_> {
    fn pointer(&self, stream: &CudaStream) -> u64 {
        self.list.map_or(0, |list| list.device_ptr(stream).0)
    }
}

fn config(grid: (u32, u32), threads: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid.0, grid.1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: u32::try_from(shared).expect("shared memory is below 4 GiB"),
    }
}

type Launched = Result<(), DriverError>;

/// `base_scatter`: writes queries into dense vectors, or clears them.
pub(super) fn base_scatter(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    queries: &QueryRows,
    (first, count): (u32, u32),
    (terms, clear): (usize, bool),
    dense: &mut CudaSlice<f32>,
) -> Launched {
    if count == 0 {
        return Ok(());
    }
    let (terms, clear) = (terms as u64, u32::from(clear));
    let mut launch = kernels.base_scatter.launch_on(stream);
    launch.value(queries).value(&first).value(&terms).value(&clear).pointer(dense);
    #[expect(unsafe_code, reason = "the launcher of `base_scatter`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it writes `count` rows of
    // `terms` values, which `dense` has.
    unsafe {
        launch.launch(config((count, 1), 128, 0))
    }
}

/// `base`: one dense query, `dense[query * terms..]`, against all rows; the scores go to row `at`.
/// `threads` is a multiple of the warp size.
pub(super) fn base(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    rows: &Rows,
    dense: &CudaSlice<f32>,
    (query, at, terms): (usize, usize, usize),
    scores: &mut CudaSlice<f32>,
    threads: u32,
) -> Launched {
    if rows.count == 0 {
        return Ok(());
    }
    let count = rows.count as usize;
    let dense = dense.slice(query * terms..(query + 1) * terms);
    let mut scores = scores.slice_mut(at * count..(at + 1) * count);
    let mut launch = kernels.base.launch_on(stream);
    launch
        .value(&rows.count)
        .pointer(&rows.row_ptr)
        .pointer(&rows.row_end)
        .pointer(&rows.cols)
        .pointer(&rows.vals);
    launch.pointer(&dense).pointer(&mut scores);
    #[expect(unsafe_code, reason = "the launcher of `base`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it reads `terms` values of
    // the query (columns are below that) and writes one score per row.
    unsafe {
        launch.launch(config((rows.count.div_ceil(threads / WARP), 1), threads, 0))
    }
}

/// `shared`: query `first + at` against all rows, into the scores of row `at`.
pub(super) fn shared(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    rows: &Rows,
    queries: &QueryRows,
    (first, at): (u32, usize),
    scores: &mut CudaSlice<f32>,
    (threads, room): (u32, u32),
) -> Launched {
    if rows.count == 0 {
        return Ok(());
    }
    let count = rows.count as usize;
    let query = first + u32::try_from(at).expect("batches are small");
    let mut scores = scores.slice_mut(at * count..(at + 1) * count);
    let mut launch = kernels.shared.launch_on(stream);
    launch
        .value(&rows.count)
        .pointer(&rows.row_ptr)
        .pointer(&rows.row_end)
        .pointer(&rows.cols)
        .pointer(&rows.vals);
    launch.value(queries).value(&query).value(&room).pointer(&mut scores);
    let config = config((rows.count.div_ceil(threads), 1), threads, room as usize * 8);
    #[expect(unsafe_code, reason = "the launcher of `shared`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the dynamic shared memory
    // is `room` terms of 8 bytes; it writes one score per row.
    unsafe {
        launch.launch(config)
    }
}

/// `grid_ldg`: a batch of queries against all rows, through the read-only cache.
pub(super) fn grid_ldg(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    rows: &Rows,
    queries: &QueryRows,
    which: Which<'_>,
    scores: &mut CudaSlice<f32>,
    (threads, room): (u32, u32),
) -> Launched {
    let list = which.pointer(stream);
    for first_row in (0..rows.count).step_by((GRID_Y * threads) as usize) {
        let last_row = rows.count.min(first_row.saturating_add(GRID_Y * threads));
        if which.count == 0 {
            break;
        }
        let mut launch = kernels.grid_ldg.launch_on(stream);
        launch.value(&rows.count).value(&first_row).value(&last_row);
        launch.pointer(&rows.row_ptr).pointer(&rows.row_end);
        launch.pointer(&rows.cols).pointer(&rows.vals);
        launch.value(queries).value(&which.first).value(&list).value(&room).pointer(&mut *scores);
        let grid = (which.count, (last_row - first_row).div_ceil(threads));
        #[expect(unsafe_code, reason = "the launcher of `grid_ldg`")]
        // SAFETY: the arguments are those of the kernel, in order and type; the dynamic shared
        // memory is `room` terms of 8 bytes; `scores` has `count` rows of `rows.count` values.
        unsafe { launch.launch(config(grid, threads, room as usize * 8)) }?;
    }
    Ok(())
}

/// Textures of a part's columns and values, over the same rows.
#[derive(Debug)]
pub(super) struct TextureRows {
    pub(super) cols: Texture,
    pub(super) vals: Texture,
    /// The entry of the first texel.
    pub(super) origin: u64,
    pub(super) first_row: u32,
    pub(super) last_row: u32,
}

/// `grid_texture`: a batch of queries against the rows of a texture.
#[expect(clippy::too_many_arguments, reason = "the kernel's")]
pub(super) fn grid_texture(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    rows: &Rows,
    texture: &TextureRows,
    queries: &QueryRows,
    which: Which<'_>,
    scores: &mut CudaSlice<f32>,
    (threads, room): (u32, u32),
) -> Launched {
    let list = which.pointer(stream);
    let (cols, vals) = (texture.cols.object(), texture.vals.object());
    for first_row in (texture.first_row..texture.last_row).step_by((GRID_Y * threads) as usize) {
        let last_row = texture.last_row.min(first_row.saturating_add(GRID_Y * threads));
        if which.count == 0 {
            break;
        }
        let mut launch = kernels.grid_texture.launch_on(stream);
        launch.value(&rows.count).value(&first_row).value(&last_row);
        launch.pointer(&rows.row_ptr).pointer(&rows.row_end);
        launch.value(&cols).value(&vals).value(&texture.origin);
        launch.value(queries).value(&which.first).value(&list).value(&room).pointer(&mut *scores);
        let grid = (which.count, (last_row - first_row).div_ceil(threads));
        #[expect(unsafe_code, reason = "the launcher of `grid_texture`")]
        // SAFETY: the arguments are those of the kernel, in order and type; the textures hold the
        // entries of rows first_row..last_row from `origin` on; `scores` as for `grid_ldg`.
        unsafe { launch.launch(config(grid, threads, room as usize * 8)) }?;
    }
    Ok(())
}

/// The output of `select` and `fused`: `k` neighbors per query and their number.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) keys: &'a mut CudaSlice<u64>,
    /// The first query's slot in `keys` and `counts`.
    pub(super) at: usize,
    pub(super) counts: &'a mut CudaSlice<u32>,
}

/// `select`: the k best of each row of scores.
#[expect(clippy::too_many_arguments, reason = "the kernel's")]
pub(super) fn select(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (rows, first_row): (u32, u32),
    scores: &mut CudaSlice<f32>,
    which: Which<'_>,
    allow: AllowRows,
    k: u32,
    found: &mut Found<'_>,
) -> Launched {
    if which.count == 0 {
        return Ok(());
    }
    let list = which.pointer(stream);
    let (count, places) = (which.count as usize, k as usize);
    let sorted = if k <= SELECT_SORTED { k.next_power_of_two().max(1024) } else { 1024 };
    let mut keys = found.keys.slice_mut(found.at * places..(found.at + count) * places);
    let mut counts = found.counts.slice_mut(found.at..found.at + count);
    let mut launch = kernels.select.launch_on(stream);
    launch.value(&rows).value(&first_row).pointer(&mut *scores).value(&which.first).value(&list);
    launch.value(&allow).value(&k).value(&sorted).pointer(&mut keys).pointer(&mut counts);
    let config = config((which.count, 1), SELECT_THREADS, sorted as usize * 8);
    #[expect(unsafe_code, reason = "the launcher of `select`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it reads `rows` scores,
    // clears those of rows that are not allowed, and writes at most `k` keys and one count per
    // query; the shared memory holds `sorted` keys.
    unsafe {
        launch.launch(config)
    }
}

/// The parameters of the fused kernels other than their data.
#[derive(Debug, Clone, Copy)]
pub(super) struct FusedShape {
    /// The number of queries, from the first of the batch on.
    pub(super) count: u32,
    pub(super) k: u32,
    /// The capacity for candidates and neighbors of a query: a power of two, at least 3 k.
    pub(super) room: u32,
    /// Whether nothing has been found yet.
    pub(super) fresh: bool,
    /// Whether this is the last tile: neighbors are written instead of keys.
    pub(super) last: bool,
    /// The number of blocks resident at once.
    pub(super) blocks: u32,
}

impl FusedShape {
    /// The rank of a threshold among the maximum sums of `groups` groups of rows: k, or for a large
    /// k the rank that about 1.3 k rows would reach if rows were spread at random.
    fn rank(&self, groups: u32) -> u32 {
        if self.k <= groups / 2 {
            return self.k;
        }
        let (groups, k) = (f64::from(groups), f64::from(self.k));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to groups")]
        let rank = (groups * (1.0 - libm::exp(-1.3 * k / groups))) as u32;
        rank.clamp(1, self.k - 1)
    }

    /// The capacity for candidates of a query.
    fn candidates(&self) -> u32 {
        self.room - self.k
    }
}

/// The buffers that the three fused kernels pass on to each other.
#[derive(Debug)]
pub(super) struct Between<'a> {
    pub(super) records: &'a mut CudaSlice<[u32; 4]>,
    pub(super) tasks: &'a mut CudaSlice<[u32; 2]>,
    pub(super) next_task: &'a mut CudaSlice<u32>,
    pub(super) candidates: &'a mut CudaSlice<u32>,
    pub(super) candidate_counts: &'a mut CudaSlice<u32>,
}

/// The dynamic shared memory of a block of `accumulate`, in bytes.
pub(super) fn accumulate_bytes(rows: u32) -> usize {
    rows.div_ceil(8) as usize * 16
}

/// The dynamic shared memory of a block of `fused_small`, in bytes.
pub(super) fn fused_small_bytes(rows: u32, room: u32) -> usize {
    rows.div_ceil(8) as usize * 16 + 24 * 1024 + room as usize * 8
}

/// `prepare`, `accumulate`, `rescore`: the k best of each query among a tile's rows and the earlier
/// results. The buffers of `between` and `found` must be large enough for the shape.
#[expect(clippy::too_many_arguments, reason = "the kernels'")]
pub(super) fn fused(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    tile: &TileRows,
    queries: &QueryRows,
    allow: AllowRows,
    shape: FusedShape,
    between: &mut Between<'_>,
    found: &mut Found<'_>,
    status: &mut CudaSlice<u32>,
) -> Launched {
    let FusedShape { count, k, .. } = shape;
    if count == 0 || tile.rows == 0 {
        return Ok(());
    }
    let (first, fresh) = (0u32, u32::from(shape.fresh));
    let task_room = u32::try_from(between.tasks.len()).unwrap_or(u32::MAX);
    stream.memset_zeros(between.next_task)?;
    let mut launch = kernels.prepare.launch_on(stream);
    launch.value(tile).value(queries).value(&first).value(&count).value(&fresh);
    launch.pointer(&mut *between.records).pointer(&mut *between.tasks);
    launch.pointer(&mut *between.next_task).value(&task_room).pointer(&mut *status);
    let grid = (count.div_ceil(PREPARE_THREADS / 32), 1);
    #[expect(unsafe_code, reason = "the launcher of `prepare`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it writes `count` records and
    // statuses and at most `task_room` tasks.
    unsafe { launch.launch(config(grid, PREPARE_THREADS, 0)) }?;

    let (rank, room) = (shape.rank(ACCUMULATE_THREADS), shape.candidates());
    let kernel = if allow.is_all() { &kernels.accumulate } else { &kernels.accumulate_filtered };
    let mut launch = kernel.launch_on(stream);
    launch.value(tile).value(&first).value(&count);
    if !allow.is_all() {
        launch.value(&allow);
    }
    launch.value(&k).value(&rank).value(&room).value(&fresh);
    launch
        .pointer(&*between.records)
        .pointer(&*between.tasks)
        .pointer(&*found.keys)
        .pointer(&*found.counts);
    launch.pointer(&mut *between.candidates).pointer(&mut *between.candidate_counts);
    let grid = (count.min(shape.blocks), 1);
    let accumulate = config(grid, ACCUMULATE_THREADS, accumulate_bytes(tile.rows));
    #[expect(unsafe_code, reason = "the launcher of `accumulate`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the shared memory holds one
    // sum per row; it writes at most `room` candidates per query, and their count.
    unsafe { launch.launch(accumulate) }?;

    let (kernel, threads) = match k {
        0..=RESCORE_K => (&kernels.rescore, RESCORE_THREADS),
        _ => (&kernels.rescore_many, RESCORE_MANY_THREADS),
    };
    let mut launch = kernel.launch_on(stream);
    let last = u32::from(shape.last);
    launch.value(tile).value(queries).value(&first).value(&k).value(&room);
    launch.value(&fresh).value(&last);
    launch.pointer(&*between.candidates).pointer(&*between.candidate_counts);
    launch.pointer(&mut *found.keys).pointer(&mut *found.counts).pointer(&mut *status);
    let rescore = config((count, 1), threads, shape.room as usize * 8);
    #[expect(unsafe_code, reason = "the launcher of `rescore`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `room + k` keys fit the
    // shared memory; it writes at most `k` keys per query, a count and a status.
    unsafe {
        launch.launch(rescore)
    }
}

/// Where `fused_small` writes, as addresses: in memory of the GPU, or in pinned memory of the host, which costs less
/// than copies where there are few queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs {
    /// `k` neighbors per query.
    pub(super) keys: u64,
    pub(super) counts: u64,
    pub(super) status: u64,
}

impl Outputs {
    /// Buffers of the GPU.
    pub(super) fn on_device(
        stream: &CudaStream,
        keys: &CudaSlice<u64>,
        counts: &CudaSlice<u32>,
        status: &CudaSlice<u32>,
    ) -> Self {
        Self {
            keys: keys.device_ptr(stream).0,
            counts: counts.device_ptr(stream).0,
            status: status.device_ptr(stream).0,
        }
    }

    /// Pinned memory. The caller waits for the stream before it reads or frees it.
    pub(super) fn on_host(keys: &mut [u64], counts: &mut [u32], status: &mut [u32]) -> Self {
        // One address space: the GPU reaches pinned memory at the host's addresses.
        Self {
            keys: keys.as_mut_ptr() as u64,
            counts: counts.as_mut_ptr() as u64,
            status: status.as_mut_ptr() as u64,
        }
    }
}

/// `fused_small`, `fused_medium`: the same in one kernel, with one block of `threads` per query. The places of
/// `outputs` must be large enough for the shape.
pub(super) fn fused_small(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    tile: &TileRows,
    queries: &QueryRows,
    allow: AllowRows,
    (shape, threads): (FusedShape, u32),
    outputs: Outputs,
) -> Launched {
    let FusedShape { count, k, room, .. } = shape;
    let kernel = match (threads, allow.is_all()) {
        (FUSED_MEDIUM_THREADS, true) => &kernels.fused_medium,
        (FUSED_MEDIUM_THREADS, false) => &kernels.fused_medium_filtered,
        (_, true) => &kernels.fused_small,
        (_, false) => &kernels.fused_small_filtered,
    };
    let rank = shape.rank(threads);
    if count == 0 || tile.rows == 0 {
        return Ok(());
    }
    let (fresh, last) = (u32::from(shape.fresh), u32::from(shape.last));
    let mut launch = kernel.launch_on(stream);
    launch.value(tile).value(queries);
    if !allow.is_all() {
        launch.value(&allow);
    }
    launch.value(&k).value(&rank).value(&room).value(&fresh).value(&last);
    launch.value(&outputs.keys).value(&outputs.counts).value(&outputs.status);
    let bytes = fused_small_bytes(tile.rows, room);
    let config = config((count, 1), threads, bytes);
    #[expect(unsafe_code, reason = "the launcher of `fused_small`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `k` keys, a count and a
    // status per query; the kernel's comment states the shared memory that it needs.
    unsafe {
        launch.launch(config)
    }
}

#[cfg(test)]
mod tests {
    /// What the program includes is the file that `kernels/compile` wrote.
    #[test]
    fn packed_kernels() {
        let text = gpu_runtime::unpack(gpu_runtime::ptx!("fused")).unwrap();
        assert_eq!(text, include_str!("../../../kernels/ptx/fused.ptx"));
    }
}
