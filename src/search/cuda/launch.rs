//! One Rust function a kernel of `kernels/`: the only place of this crate that launches them.

use std::sync::Arc;

use metric_index::gpu::{
    CudaFunction, CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, DriverError, GpuError,
    LaunchConfig, PushKernelArg, Texture,
};

/// Threads of a block of `fused`.
pub(super) const FUSED_THREADS: u32 = 512;
/// Threads of a block of `fused_small`.
const FUSED_SMALL_THREADS: u32 = 1024;
/// Threads of a block of `select`.
const SELECT_THREADS: u32 = 1024;
/// The most keys that `select` sorts.
pub(super) const SELECT_SORTED: u32 = 2048;
/// The room of a fused block that is not accumulators or keys (`TASK_BYTES` of the kernel).
pub(super) const FUSED_TASK_BYTES: usize = 6144;
/// At least the static shared memory of `fused` and `fused_small`.
pub(super) const FUSED_STATIC_BYTES: usize = 1280;
/// The most blocks of a grid in y.
const GRID_Y: u32 = 65_535;

/// The kernels, loaded. Each module when it is first needed: the driver compiles PTX.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) base: CudaFunction,
    pub(super) base_scatter: CudaFunction,
    pub(super) shared: CudaFunction,
    pub(super) grid_texture: CudaFunction,
    pub(super) grid_ldg: CudaFunction,
    pub(super) select: CudaFunction,
    pub(super) fused: CudaFunction,
    pub(super) fused_small: CudaFunction,
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let info = device.info();
        let most = info.shared_per_block;
        let base = device.load(include_str!("../../../kernels/ptx/base.ptx"))?;
        let shared = device.load(include_str!("../../../kernels/ptx/shared.ptx"))?;
        let grid = device.load(include_str!("../../../kernels/ptx/grid.ptx"))?;
        let select = device.load(include_str!("../../../kernels/ptx/select.ptx"))?;
        let fused = device.load(include_str!("../../../kernels/ptx/fused.ptx"))?;
        let fused_most = most - FUSED_STATIC_BYTES;
        Ok(Self {
            base: base.kernel("base", 0)?,
            base_scatter: base.kernel("base_scatter", 0)?,
            shared: shared.kernel("shared", most)?,
            grid_texture: grid.kernel("grid_texture", most)?,
            grid_ldg: grid.kernel("grid_ldg", most)?,
            select: select.kernel("select", 0)?,
            fused: fused.kernel("fused", fused_most)?,
            fused_small: fused.kernel("fused_small", fused_most)?,
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
    /// `cols` holds 16-bit columns if `narrow`, otherwise 32-bit ones.
    pub(super) fn new(
        stream: &CudaStream,
        ptr: &CudaSlice<u32>,
        cols: &CudaSlice<u8>,
        vals: &CudaSlice<f32>,
        narrow: bool,
    ) -> Self {
        Self {
            ptr: ptr.device_ptr(stream).0,
            cols: cols.device_ptr(stream).0,
            vals: vals.device_ptr(stream).0,
            narrow: u32::from(narrow),
        }
    }
}

/// The excluded row of each query of a batch on the GPU, if there are any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Excluded(u64);

impl Excluded {
    pub(super) fn new(stream: &CudaStream, rows: Option<&CudaSlice<u32>>) -> Self {
        Self(rows.map_or(0, |rows| rows.device_ptr(stream).0))
    }
}

/// The training rows of a part on the GPU.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) count: u32,
    pub(super) row_ptr: CudaSlice<u64>,
    pub(super) cols: CudaSlice<u32>,
    pub(super) vals: CudaSlice<f32>,
}

/// A tile of `fused` (`Tile` of kernels/fused.cu).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TileRows {
    list_ptr: u64,
    list_max: u64,
    postings: u64,
    row_ptr: u64,
    cols: u64,
    vals: u64,
    longest: f64,
    rows: u32,
    first_row: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Tile`, in order and in size: six pointers, f64, two u32.
unsafe impl DeviceRepr for TileRows {}

/// The lists of a tile on the GPU.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) ptr: CudaSlice<u32>,
    pub(super) max: CudaSlice<f32>,
    pub(super) postings: CudaSlice<u32>,
}

impl TileRows {
    /// The tile of the rows `first..first + rows` of a part whose first row is `part_row`.
    pub(super) fn new(
        stream: &CudaStream,
        lists: &Lists,
        part: &Rows,
        (part_row, first, rows): (u32, u32, u32),
        longest: f64,
    ) -> Self {
        Self {
            list_ptr: lists.ptr.device_ptr(stream).0,
            list_max: lists.max.device_ptr(stream).0,
            postings: lists.postings.device_ptr(stream).0,
            row_ptr: part.row_ptr.device_ptr(stream).0 + 8 * u64::from(first),
            cols: part.cols.device_ptr(stream).0,
            vals: part.vals.device_ptr(stream).0,
            longest,
            rows,
            first_row: part_row + first,
        }
    }

    pub(super) fn rows(&self) -> u32 {
        self.rows
    }
}

/// Which queries of a batch: `count` from `first` on, or those that a list names.
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
    let mut launch = stream.launch_builder(&kernels.base_scatter);
    launch.arg(queries).arg(&first).arg(&terms).arg(&clear).arg(dense);
    #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `base_scatter`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it writes `count` rows of
    // `terms` values, which `dense` has.
    unsafe { launch.launch(config((count, 1), 128, 0)) }.map(|_| ())
}

/// `base`: one dense query, `dense[query * terms..]`, against all rows; the scores go to row `at`.
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
    let mut launch = stream.launch_builder(&kernels.base);
    launch.arg(&rows.count).arg(&rows.row_ptr).arg(&rows.cols).arg(&rows.vals);
    launch.arg(&dense).arg(&mut scores);
    #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `base`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it reads `terms` values of
    // the query (columns are below it) and writes one score a row.
    unsafe { launch.launch(config((rows.count.div_ceil(threads), 1), threads, 0)) }.map(|_| ())
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
    let mut launch = stream.launch_builder(&kernels.shared);
    launch.arg(&rows.count).arg(&rows.row_ptr).arg(&rows.cols).arg(&rows.vals);
    launch.arg(queries).arg(&query).arg(&room).arg(&mut scores);
    let config = config((rows.count.div_ceil(threads), 1), threads, room as usize * 8);
    #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `shared`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the dynamic shared memory
    // is `room` terms of 8 bytes; it writes one score a row.
    unsafe { launch.launch(config) }.map(|_| ())
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
        let mut launch = stream.launch_builder(&kernels.grid_ldg);
        launch.arg(&rows.count).arg(&first_row).arg(&last_row).arg(&rows.row_ptr);
        launch.arg(&rows.cols).arg(&rows.vals);
        launch.arg(queries).arg(&which.first).arg(&list).arg(&room).arg(&mut *scores);
        let grid = (which.count, (last_row - first_row).div_ceil(threads));
        #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `grid_ldg`")]
        // SAFETY: the arguments are those of the kernel, in order and type; the dynamic shared
        // memory is `room` terms of 8 bytes; `scores` has `count` rows of `rows.count` values.
        unsafe { launch.launch(config(grid, threads, room as usize * 8)) }?;
    }
    Ok(())
}

/// A texture of a part's columns and one of its values, over the same rows.
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
        let mut launch = stream.launch_builder(&kernels.grid_texture);
        launch.arg(&rows.count).arg(&first_row).arg(&last_row).arg(&rows.row_ptr);
        launch.arg(&cols).arg(&vals).arg(&texture.origin);
        launch.arg(queries).arg(&which.first).arg(&list).arg(&room).arg(&mut *scores);
        let grid = (which.count, (last_row - first_row).div_ceil(threads));
        #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `grid_texture`")]
        // SAFETY: the arguments are those of the kernel, in order and type; the textures hold the
        // entries of rows first_row..last_row from `origin` on; `scores` as for `grid_ldg`.
        unsafe { launch.launch(config(grid, threads, room as usize * 8)) }?;
    }
    Ok(())
}

/// What `select` and `fused` write: `k` neighbor keys a query and how many are there.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) keys: &'a mut CudaSlice<u64>,
    /// The first query's place in `keys` and `counts`.
    pub(super) at: usize,
    pub(super) counts: &'a mut CudaSlice<u32>,
}

/// `select`: the k best of each row of scores.
pub(super) fn select(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (rows, first_row): (u32, u32),
    scores: &CudaSlice<f32>,
    which: Which<'_>,
    excluded: Excluded,
    k: u32,
    found: &mut Found<'_>,
) -> Launched {
    if which.count == 0 {
        return Ok(());
    }
    let list = which.pointer(stream);
    let excluded = excluded.0;
    let (count, places) = (which.count as usize, k as usize);
    let sorted = if k <= SELECT_SORTED { k.next_power_of_two().max(1024) } else { 1024 };
    let mut keys = found.keys.slice_mut(found.at * places..(found.at + count) * places);
    let mut counts = found.counts.slice_mut(found.at..found.at + count);
    let mut launch = stream.launch_builder(&kernels.select);
    launch.arg(&rows).arg(&first_row).arg(scores).arg(&which.first).arg(&list);
    launch.arg(&excluded).arg(&k).arg(&sorted).arg(&mut keys).arg(&mut counts);
    let config = config((which.count, 1), SELECT_THREADS, sorted as usize * 8);
    #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `select`")]
    // SAFETY: the arguments are those of the kernel, in order and type; it reads `rows` scores and
    // writes at most `k` keys and one count a query; `sorted` keys of shared memory.
    unsafe { launch.launch(config) }.map(|_| ())
}

/// How `fused` is launched.
#[derive(Debug, Clone, Copy)]
pub(super) struct FusedShape {
    /// Blocks that are resident at once.
    pub(super) blocks: u32,
    /// The kernel of one large block a query.
    pub(super) small: bool,
    /// Keys in shared memory, a power of two, at least 2 k.
    pub(super) room: u32,
    /// Whether nothing was found yet.
    pub(super) fresh: bool,
}

/// The dynamic shared memory of a fused block.
pub(super) fn fused_bytes(rows: u32, room: u32) -> usize {
    rows.div_ceil(8) as usize * 16 + FUSED_TASK_BYTES + room as usize * 8
}

/// `fused`, `fused_small`: the k best of each query among a tile's rows and what was found before.
#[expect(clippy::too_many_arguments, reason = "the kernel's")]
pub(super) fn fused(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    tile: &TileRows,
    queries: &QueryRows,
    (first, count): (u32, u32),
    excluded: Excluded,
    k: u32,
    shape: FusedShape,
    found: &mut Found<'_>,
    status: &mut CudaSlice<u32>,
) -> Launched {
    if count == 0 || tile.rows == 0 {
        return Ok(());
    }
    let excluded = excluded.0;
    let (length, places) = (count as usize, k as usize);
    let mut keys = found.keys.slice_mut(found.at * places..(found.at + length) * places);
    let mut counts = found.counts.slice_mut(found.at..found.at + length);
    let mut status = status.slice_mut(found.at..found.at + length);
    let (kernel, threads) = if shape.small {
        (&kernels.fused_small, FUSED_SMALL_THREADS)
    } else {
        (&kernels.fused, FUSED_THREADS)
    };
    let fresh = u32::from(shape.fresh);
    let mut launch = stream.launch_builder(kernel);
    launch.arg(tile).arg(queries).arg(&first).arg(&count).arg(&excluded);
    launch.arg(&k).arg(&shape.room).arg(&fresh);
    launch.arg(&mut keys).arg(&mut counts).arg(&mut status);
    let shared = fused_bytes(tile.rows, shape.room);
    #[expect(unsafe_code, clippy::disallowed_methods, reason = "the launcher of `fused`")]
    // SAFETY: the arguments are those of the kernel, in order and type; `k` keys, a count and a
    // status a query; the shared memory is what the kernel's comment says.
    unsafe { launch.launch(config((count.min(shape.blocks), 1), threads, shared)) }.map(|_| ())
}
