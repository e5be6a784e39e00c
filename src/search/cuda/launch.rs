//! Declares and launches the kernels of `kernels/`. No other module of this crate launches kernels.

use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, Device, DevicePtr, DeviceRepr, DriverError,
    GpuError, Grid, Kernel, Texture, kernel,
};

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
/// An upper bound on the static shared memory of `accumulate`, in bytes.
pub(super) const ACCUMULATE_STATIC_BYTES: usize = 5_760;
/// An upper bound on the static shared memory of `fused_small` and `fused_medium`, in bytes.
pub(super) const FUSED_SMALL_STATIC_BYTES: usize = 7_424;
/// Maximum number of blocks in the y dimension of a grid.
const GRID_Y: u32 = 65_535;

/// The loaded kernels. The driver compiles their PTX and caches the result.
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
    /// The rows in a buffer that begins with their bounds. The weights begin at word `vals`, and
    /// the columns at word `cols`. Columns have 16 bits if `narrow` is set, otherwise 32 bits.
    pub(super) fn new(
        stream: &CudaStream,
        words: &CudaSlice<u32>,
        vals: usize,
        cols: usize,
        narrow: bool,
    ) -> Self {
        let start = words.device_ptr(stream).0;
        let address = |word: usize| start + 4 * word as u64;
        Self { ptr: start, cols: address(cols), vals: address(vals), narrow: u32::from(narrow) }
    }
}

/// The rows that may be neighbors of the queries of a batch (`Allow` of kernels/common.cuh), as
/// addresses on the GPU. 0 means no restriction.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AllowRows {
    /// One bit per row: rows whose bit is set may be neighbors.
    pub(super) only: u64,
    /// A range of excluded rows per query.
    pub(super) ranges: u64,
    /// Bounds of lists of excluded rows: the list of query `q` is
    /// `lists[bounds[q]..bounds[q + 1]]`.
    pub(super) bounds: u64,
    pub(super) lists: u64,
    /// The group of each row. Rows of the query's own group are excluded.
    pub(super) of_rows: u64,
    /// The group of each query.
    pub(super) of_queries: u64,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `Allow`, in order and in size: six pointers.
unsafe impl DeviceRepr for AllowRows {}

impl AllowRows {
    fn is_all(&self) -> bool {
        self.only == 0 && self.ranges == 0 && self.bounds == 0 && self.of_rows == 0
    }

    /// The address of a word of a buffer; 0 for `None`.
    pub(super) fn pointer(stream: &CudaStream, words: &CudaSlice<u32>, at: Option<usize>) -> u64 {
        at.map_or(0, |word| words.device_ptr(stream).0 + 4 * word as u64)
    }
}

/// The training rows of a part on the GPU.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) count: u32,
    /// The first entry of each row, a multiple of four.
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

/// The position and size of a tile in a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileShape {
    /// The training row that is the part's first row.
    pub(super) part_row: u32,
    /// The first row of the tile, counted from the part's first row.
    pub(super) first: u32,
    /// The number of rows.
    pub(super) rows: u32,
    /// An upper bound on the Euclidean length of a row.
    pub(super) longest: f32,
    /// The number of columns of the training rows.
    pub(super) columns: usize,
}

impl TileRows {
    pub(super) fn new(stream: &CudaStream, lists: &Lists, part: &Rows, shape: TileShape) -> Self {
        let TileShape { part_row, first, rows, longest, columns } = shape;
        // This cannot overflow, because columns are 32-bit numbers.
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

/// A subset of the queries of a batch: `count` queries from `first` on, or those in a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuerySubset<'a> {
    pub(super) rows: QueryRows,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) list: Option<&'a CudaSlice<u32>>,
}

impl QuerySubset<'_> {
    fn list(&self, stream: &CudaStream) -> u64 {
        self.list.map_or(0, |list| list.device_ptr(stream).0)
    }
}

/// Queries as dense vectors of `terms` weights each.
#[derive(Debug)]
pub(super) struct DenseQueries<'a> {
    pub(super) values: &'a mut CudaSlice<f32>,
    pub(super) terms: usize,
}

/// The size of a block of the kernels of Bresler et al. 2011.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockShape {
    pub(super) threads: u32,
    /// The number of terms of a query that fit in the dynamic shared memory.
    pub(super) terms: u32,
}

impl BlockShape {
    /// The dynamic shared memory, in bytes.
    fn shared_bytes(self) -> usize {
        self.terms as usize * 8
    }
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

/// Scores of queries: for each, one value per row of a part.
#[derive(Debug)]
pub(super) struct Scores<'a> {
    pub(super) values: &'a mut CudaSlice<f32>,
    /// The number of rows of the part.
    pub(super) rows: u32,
    /// The training row that is the part's first row.
    pub(super) first_row: u32,
}

impl Scores<'_> {
    /// The scores of the query in slot `at`.
    pub(super) fn of(&mut self, at: usize) -> CudaViewMut<'_, f32> {
        let rows = self.rows as usize;
        self.values.slice_mut(at * rows..(at + 1) * rows)
    }
}

/// The output of `select` and `fused`: `k` neighbors per query and their number.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) keys: &'a mut CudaSlice<u64>,
    /// The first query's slot in `keys` and `counts`.
    pub(super) at: usize,
    pub(super) counts: &'a mut CudaSlice<u32>,
}

/// A batch for the fused kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct FusedBatch {
    pub(super) queries: QueryRows,
    pub(super) allow: AllowRows,
    /// The number of queries, from the first of the batch on.
    pub(super) count: u32,
    pub(super) k: u32,
    /// The capacity for candidates and neighbors of a query: a power of two, at least 3 k.
    pub(super) room: u32,
    /// Whether this is the first tile: there are no earlier results.
    pub(super) fresh: bool,
    /// Whether this is the last tile: neighbors are written instead of keys.
    pub(super) last: bool,
    /// The number of blocks resident at once.
    pub(super) blocks: u32,
}

impl FusedBatch {
    /// The rank, among the maximum sums of `groups` groups of rows, of the sum that becomes the
    /// threshold. For a large k, about 1.3 k rows reach it if rows are spread at random; otherwise
    /// it is k.
    fn rank(&self, groups: u32) -> u32 {
        if self.k <= groups / 2 {
            return self.k;
        }
        let groups = f64::from(groups);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to groups")]
        let rank = (groups * (1.0 - libm::exp(-1.3 * f64::from(self.k) / groups))) as u32;
        rank.clamp(1, self.k - 1)
    }

    /// The capacity for candidates of a query.
    fn candidates(&self) -> u32 {
        self.room - self.k
    }
}

/// The intermediate buffers of the three fused kernels.
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
    /// The addresses of buffers in GPU memory.
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

    /// The addresses of pinned buffers. The caller waits for the stream before it reads or frees
    /// them.
    pub(super) fn on_host(keys: &mut [u64], counts: &mut [u32], status: &mut [u32]) -> Self {
        // With unified addressing, the GPU accesses pinned memory at the host's addresses.
        Self {
            keys: keys.as_mut_ptr() as u64,
            counts: counts.as_mut_ptr() as u64,
            status: status.as_mut_ptr() as u64,
        }
    }
}

kernel! {
    /// Writes queries into dense vectors, or clears them.
    struct BaseScatter<'a>: "base_scatter" {
        value queries: QueryRows,
        value first: u32,
        value terms: u64,
        value clear: u32,
        write dense: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores one dense query against all rows.
    struct Base<'a>: "base" {
        value rows: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        read cols: CudaView<'a, u32>,
        read vals: CudaView<'a, f32>,
        read dense: CudaView<'a, f32>,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores one sparse query against all rows.
    struct Shared<'a>: "shared" {
        value rows: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        read cols: CudaView<'a, u32>,
        read vals: CudaView<'a, f32>,
        value queries: QueryRows,
        value query: u32,
        value terms: u32,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores several queries against rows that are read through the read-only cache.
    struct GridLdg<'a>: "grid_ldg" {
        value rows: u32,
        value first_row: u32,
        value last_row: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        read cols: CudaView<'a, u32>,
        read vals: CudaView<'a, f32>,
        value queries: QueryRows,
        value first: u32,
        value list: u64,
        value terms: u32,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores several queries against rows that are read through textures.
    struct GridTexture<'a>: "grid_texture" {
        value rows: u32,
        value first_row: u32,
        value last_row: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        value cols: u64,
        value vals: u64,
        value origin: u64,
        value queries: QueryRows,
        value first: u32,
        value list: u64,
        value terms: u32,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Selects the k best rows of each query by their scores.
    struct Select<'a>: "select" {
        value rows: u32,
        value first_row: u32,
        write scores: CudaViewMut<'a, f32>,
        value first: u32,
        value list: u64,
        value allow: AllowRows,
        value k: u32,
        value sorted: u32,
        write keys: CudaViewMut<'a, u64>,
        write counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Splits the posting lists of the queries' terms into tasks.
    struct Prepare<'a>: "prepare" {
        value tile: TileRows,
        value queries: QueryRows,
        value first: u32,
        value count: u32,
        value fresh: u32,
        write records: CudaViewMut<'a, [u32; 4]>,
        write tasks: CudaViewMut<'a, [u32; 2]>,
        write next_task: CudaViewMut<'a, u32>,
        value task_room: u32,
        write status: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Adds the postings of each query, and keeps the candidates.
    struct Accumulate<'a>: "accumulate" {
        value tile: TileRows,
        value first: u32,
        value count: u32,
        value k: u32,
        value rank: u32,
        value room: u32,
        value fresh: u32,
        read records: CudaView<'a, [u32; 4]>,
        read tasks: CudaView<'a, [u32; 2]>,
        read keys: CudaView<'a, u64>,
        read counts: CudaView<'a, u32>,
        write candidates: CudaViewMut<'a, u32>,
        write candidate_counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Does the same as `Accumulate`, but only for allowed rows.
    struct AccumulateFiltered<'a>: "accumulate_filtered" {
        value tile: TileRows,
        value first: u32,
        value count: u32,
        value allow: AllowRows,
        value k: u32,
        value rank: u32,
        value room: u32,
        value fresh: u32,
        read records: CudaView<'a, [u32; 4]>,
        read tasks: CudaView<'a, [u32; 2]>,
        read keys: CudaView<'a, u64>,
        read counts: CudaView<'a, u32>,
        write candidates: CudaViewMut<'a, u32>,
        write candidate_counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Computes the similarities of the candidates, and keeps the k best.
    struct Rescore<'a>: "rescore" | "rescore_many" {
        value tile: TileRows,
        value queries: QueryRows,
        value first: u32,
        value k: u32,
        value room: u32,
        value fresh: u32,
        value last: u32,
        read candidates: CudaView<'a, u32>,
        read candidate_counts: CudaView<'a, u32>,
        write keys: CudaViewMut<'a, u64>,
        write counts: CudaViewMut<'a, u32>,
        write status: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Does the work of `Prepare`, `Accumulate` and `Rescore` in one kernel.
    struct FusedSmall: "fused_small" | "fused_medium" {
        value tile: TileRows,
        value queries: QueryRows,
        value k: u32,
        value rank: u32,
        value room: u32,
        value fresh: u32,
        value last: u32,
        value keys: u64,
        value counts: u64,
        value status: u64,
    }
}

kernel! {
    /// Does the same as `FusedSmall`, but only for allowed rows.
    struct FusedSmallFiltered: "fused_small_filtered" | "fused_medium_filtered" {
        value tile: TileRows,
        value queries: QueryRows,
        value allow: AllowRows,
        value k: u32,
        value rank: u32,
        value room: u32,
        value fresh: u32,
        value last: u32,
        value keys: u64,
        value counts: u64,
        value status: u64,
    }
}

type Launched = Result<(), DriverError>;

/// Launches kernels on a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) stream: &'a Arc<CudaStream>,
}

impl Launcher<'_> {
    /// `base_scatter`: writes `count` queries from `first` on into dense vectors, or clears them.
    pub(super) fn base_scatter(
        self,
        queries: QueryRows,
        first: u32,
        count: u32,
        dense: &mut DenseQueries<'_>,
        clear: bool,
    ) -> Launched {
        let arguments = BaseScatter {
            queries,
            first,
            terms: dense.terms as u64,
            clear: u32::from(clear),
            dense: dense.values.as_view_mut(),
        };
        let grid = Grid::new(count, 128);
        #[expect(unsafe_code, reason = "the launcher of `base_scatter`")]
        // SAFETY: the kernel writes `count` rows of `terms` values, which `dense` has.
        unsafe {
            self.kernels.base_scatter.launch(self.stream, grid, arguments)
        }
    }

    /// `base`: scores the dense query in slot `query` against all rows.
    /// `threads` is a multiple of the warp size.
    pub(super) fn base(
        self,
        rows: &Rows,
        dense: &DenseQueries<'_>,
        query: usize,
        scores: CudaViewMut<'_, f32>,
        threads: u32,
    ) -> Launched {
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
        #[expect(unsafe_code, reason = "the launcher of `base`")]
        // SAFETY: the kernel reads `terms` values of the query (columns are below that), and writes
        // one score per row, for which `scores` has room.
        unsafe {
            self.kernels.base.launch(self.stream, grid, arguments)
        }
    }

    /// `shared`: scores query `query` of a batch against all rows.
    pub(super) fn shared(
        self,
        rows: &Rows,
        queries: QueryRows,
        query: u32,
        scores: CudaViewMut<'_, f32>,
        shape: BlockShape,
    ) -> Launched {
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
        let grid = Grid::new(rows.count.div_ceil(shape.threads), shape.threads)
            .with_shared_bytes(shape.shared_bytes());
        #[expect(unsafe_code, reason = "the launcher of `shared`")]
        // SAFETY: the dynamic shared memory is `terms` times 8 bytes. The kernel writes one score
        // per row, for which `scores` has room.
        unsafe {
            self.kernels.shared.launch(self.stream, grid, arguments)
        }
    }

    /// `grid_ldg`: scores queries against all rows, which are read through the read-only cache.
    pub(super) fn grid_ldg(
        self,
        rows: &Rows,
        queries: QuerySubset<'_>,
        scores: &mut Scores<'_>,
        shape: BlockShape,
    ) -> Launched {
        let list = queries.list(self.stream);
        for first_row in (0..rows.count).step_by((GRID_Y * shape.threads) as usize) {
            let last_row = rows.count.min(first_row.saturating_add(GRID_Y * shape.threads));
            let arguments = GridLdg {
                rows: rows.count,
                first_row,
                last_row,
                row_ptr: rows.row_ptr.as_view(),
                row_end: rows.row_end.as_view(),
                cols: rows.cols.as_view(),
                vals: rows.vals.as_view(),
                queries: queries.rows,
                first: queries.first,
                list,
                terms: shape.terms,
                scores: scores.values.as_view_mut(),
            };
            let grid = Grid::new(queries.count, shape.threads)
                .with_rows((last_row - first_row).div_ceil(shape.threads))
                .with_shared_bytes(shape.shared_bytes());
            #[expect(unsafe_code, reason = "the launcher of `grid_ldg`")]
            // SAFETY: the dynamic shared memory is `terms` times 8 bytes. `scores` has `count` rows
            // of `rows.count` values.
            unsafe { self.kernels.grid_ldg.launch(self.stream, grid, arguments) }?;
        }
        Ok(())
    }

    /// `grid_texture`: scores queries against the rows of a texture.
    pub(super) fn grid_texture(
        self,
        rows: &Rows,
        texture: &TextureRows,
        queries: QuerySubset<'_>,
        scores: &mut Scores<'_>,
        shape: BlockShape,
    ) -> Launched {
        let list = queries.list(self.stream);
        let end = texture.last_row;
        for first_row in (texture.first_row..end).step_by((GRID_Y * shape.threads) as usize) {
            let last_row = end.min(first_row.saturating_add(GRID_Y * shape.threads));
            let arguments = GridTexture {
                rows: rows.count,
                first_row,
                last_row,
                row_ptr: rows.row_ptr.as_view(),
                row_end: rows.row_end.as_view(),
                cols: texture.cols.object(),
                vals: texture.vals.object(),
                origin: texture.origin,
                queries: queries.rows,
                first: queries.first,
                list,
                terms: shape.terms,
                scores: scores.values.as_view_mut(),
            };
            let grid = Grid::new(queries.count, shape.threads)
                .with_rows((last_row - first_row).div_ceil(shape.threads))
                .with_shared_bytes(shape.shared_bytes());
            #[expect(unsafe_code, reason = "the launcher of `grid_texture`")]
            // SAFETY: as for `grid_ldg`; the textures hold the entries of rows
            // `first_row..last_row` from `origin` on.
            unsafe { self.kernels.grid_texture.launch(self.stream, grid, arguments) }?;
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
        found: &mut Found<'_>,
    ) -> Launched {
        let first_slot = found.at;
        let last_slot = first_slot + queries.count as usize;
        let sorted = if k <= SELECT_SORTED { k.next_power_of_two().max(1024) } else { 1024 };
        let arguments = Select {
            rows: scores.rows,
            first_row: scores.first_row,
            scores: scores.values.as_view_mut(),
            first: queries.first,
            list: queries.list(self.stream),
            allow,
            k,
            sorted,
            keys: found.keys.slice_mut(first_slot * k as usize..last_slot * k as usize),
            counts: found.counts.slice_mut(first_slot..last_slot),
        };
        let grid = Grid::new(queries.count, SELECT_THREADS).with_shared_bytes(sorted as usize * 8);
        #[expect(unsafe_code, reason = "the launcher of `select`")]
        // SAFETY: the kernel reads `rows` scores, clears those of rows that are not allowed, and
        // writes at most `k` keys and one count per query. The shared memory holds `sorted` keys.
        unsafe {
            self.kernels.select.launch(self.stream, grid, arguments)
        }
    }

    /// `prepare`, `accumulate`, `rescore`: finds the k best of each query among a tile's rows and
    /// the earlier results. All buffers must be large enough for the batch.
    pub(super) fn fused(
        self,
        tile: &TileRows,
        batch: FusedBatch,
        between: &mut Between<'_>,
        found: &mut Found<'_>,
        status: &mut CudaSlice<u32>,
    ) -> Launched {
        if batch.count == 0 || tile.rows == 0 {
            return Ok(());
        }
        self.stream.memset_zeros(between.next_task)?;
        self.prepare(tile, batch, between, status)?;
        self.accumulate(tile, batch, between, found)?;
        self.rescore(tile, batch, between, found, status)
    }

    fn prepare(
        self,
        tile: &TileRows,
        batch: FusedBatch,
        between: &mut Between<'_>,
        status: &mut CudaSlice<u32>,
    ) -> Launched {
        let task_room = u32::try_from(between.tasks.len()).unwrap_or(u32::MAX);
        let arguments = Prepare {
            tile: *tile,
            queries: batch.queries,
            first: 0,
            count: batch.count,
            fresh: u32::from(batch.fresh),
            records: between.records.as_view_mut(),
            tasks: between.tasks.as_view_mut(),
            next_task: between.next_task.as_view_mut(),
            task_room,
            status: status.as_view_mut(),
        };
        let grid = Grid::new(batch.count.div_ceil(PREPARE_THREADS / WARP), PREPARE_THREADS);
        #[expect(unsafe_code, reason = "the launcher of `prepare`")]
        // SAFETY: the kernel writes `count` records and statuses and at most `task_room` tasks.
        unsafe {
            self.kernels.prepare.launch(self.stream, grid, arguments)
        }
    }

    fn accumulate(
        self,
        tile: &TileRows,
        batch: FusedBatch,
        between: &mut Between<'_>,
        found: &Found<'_>,
    ) -> Launched {
        let grid = Grid::new(batch.count.min(batch.blocks), ACCUMULATE_THREADS)
            .with_shared_bytes(accumulate_bytes(tile.rows));
        let arguments = Accumulate {
            tile: *tile,
            first: 0,
            count: batch.count,
            k: batch.k,
            rank: batch.rank(ACCUMULATE_THREADS),
            room: batch.candidates(),
            fresh: u32::from(batch.fresh),
            records: between.records.as_view(),
            tasks: between.tasks.as_view(),
            keys: found.keys.as_view(),
            counts: found.counts.as_view(),
            candidates: between.candidates.as_view_mut(),
            candidate_counts: between.candidate_counts.as_view_mut(),
        };
        if batch.allow.is_all() {
            #[expect(unsafe_code, reason = "the launcher of `accumulate`")]
            // SAFETY: the shared memory holds one sum per row. The kernel writes at most `room`
            // candidates per query, and their count.
            return unsafe { self.kernels.accumulate.launch(self.stream, grid, arguments) };
        }
        let arguments = AccumulateFiltered {
            tile: arguments.tile,
            first: arguments.first,
            count: arguments.count,
            allow: batch.allow,
            k: arguments.k,
            rank: arguments.rank,
            room: arguments.room,
            fresh: arguments.fresh,
            records: arguments.records,
            tasks: arguments.tasks,
            keys: arguments.keys,
            counts: arguments.counts,
            candidates: arguments.candidates,
            candidate_counts: arguments.candidate_counts,
        };
        #[expect(unsafe_code, reason = "the launcher of `accumulate_filtered`")]
        // SAFETY: as for `accumulate`.
        unsafe {
            self.kernels.accumulate_filtered.launch(self.stream, grid, arguments)
        }
    }

    fn rescore(
        self,
        tile: &TileRows,
        batch: FusedBatch,
        between: &Between<'_>,
        found: &mut Found<'_>,
        status: &mut CudaSlice<u32>,
    ) -> Launched {
        let (kernel, threads) = match batch.k {
            0..=RESCORE_K => (&self.kernels.rescore, RESCORE_THREADS),
            _ => (&self.kernels.rescore_many, RESCORE_MANY_THREADS),
        };
        let arguments = Rescore {
            tile: *tile,
            queries: batch.queries,
            first: 0,
            k: batch.k,
            room: batch.candidates(),
            fresh: u32::from(batch.fresh),
            last: u32::from(batch.last),
            candidates: between.candidates.as_view(),
            candidate_counts: between.candidate_counts.as_view(),
            keys: found.keys.as_view_mut(),
            counts: found.counts.as_view_mut(),
            status: status.as_view_mut(),
        };
        let grid = Grid::new(batch.count, threads).with_shared_bytes(batch.room as usize * 8);
        #[expect(unsafe_code, reason = "the launcher of `rescore`")]
        // SAFETY: the shared memory has `batch.room` keys. The kernel writes at most `k` keys per
        // query, a count and a status.
        unsafe {
            kernel.launch(self.stream, grid, arguments)
        }
    }

    /// `fused_small`, `fused_medium`: the work of `fused` in one kernel, with one block of
    /// `threads` per query. The memory of `outputs` must be large enough for the batch.
    pub(super) fn fused_small(
        self,
        tile: &TileRows,
        batch: FusedBatch,
        threads: u32,
        outputs: Outputs,
    ) -> Launched {
        if tile.rows == 0 {
            return Ok(());
        }
        let is_medium = threads == FUSED_MEDIUM_THREADS;
        let grid = Grid::new(batch.count, threads)
            .with_shared_bytes(fused_small_bytes(tile.rows, batch.room));
        let arguments = FusedSmall {
            tile: *tile,
            queries: batch.queries,
            k: batch.k,
            rank: batch.rank(threads),
            room: batch.room,
            fresh: u32::from(batch.fresh),
            last: u32::from(batch.last),
            keys: outputs.keys,
            counts: outputs.counts,
            status: outputs.status,
        };
        if batch.allow.is_all() {
            let kernel =
                if is_medium { &self.kernels.fused_medium } else { &self.kernels.fused_small };
            #[expect(unsafe_code, reason = "the launcher of `fused_small`")]
            // SAFETY: the outputs have `k` keys, a count and a status per query. The kernel's
            // comment states the shared memory that it needs.
            return unsafe { kernel.launch(self.stream, grid, arguments) };
        }
        let kernel = if is_medium {
            &self.kernels.fused_medium_filtered
        } else {
            &self.kernels.fused_small_filtered
        };
        let arguments = FusedSmallFiltered {
            tile: arguments.tile,
            queries: arguments.queries,
            allow: batch.allow,
            k: arguments.k,
            rank: arguments.rank,
            room: arguments.room,
            fresh: arguments.fresh,
            last: arguments.last,
            keys: arguments.keys,
            counts: arguments.counts,
            status: arguments.status,
        };
        #[expect(unsafe_code, reason = "the launcher of `fused_small_filtered`")]
        // SAFETY: as for `fused_small`.
        unsafe {
            kernel.launch(self.stream, grid, arguments)
        }
    }
}

#[cfg(test)]
mod tests {
    use gpu_runtime::{KernelArguments, check_kernels, ptx, unpack};

    use super::*;

    /// The included PTX is the file that `kernels/compile` wrote.
    #[test]
    fn packed_kernels() {
        let text = unpack(ptx!("fused")).unwrap();
        assert_eq!(text, include_str!("../../../kernels/ptx/fused.ptx"));
    }

    #[test]
    fn declarations_agree_with_the_ptx() {
        let modules = [
            ptx!("base").as_slice(),
            ptx!("shared").as_slice(),
            ptx!("grid").as_slice(),
            ptx!("select").as_slice(),
            ptx!("fused").as_slice(),
            ptx!("fused_small").as_slice(),
        ];
        let modules: Vec<String> = modules.iter().map(|packed| unpack(packed).unwrap()).collect();
        let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
        let declared = [
            BaseScatter::SIGNATURE,
            Base::SIGNATURE,
            Shared::SIGNATURE,
            GridLdg::SIGNATURE,
            GridTexture::SIGNATURE,
            Select::SIGNATURE,
            Prepare::SIGNATURE,
            Accumulate::SIGNATURE,
            AccumulateFiltered::SIGNATURE,
            Rescore::SIGNATURE,
            FusedSmall::SIGNATURE,
            FusedSmallFiltered::SIGNATURE,
        ];
        assert_eq!(check_kernels(&modules, &declared), Ok(()));
    }
}
