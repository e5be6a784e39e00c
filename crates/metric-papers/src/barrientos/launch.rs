//! Launches the kernels of `kernels/barrientos.cu` and `kernels/radix.cu`.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{
    CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, GpuError, Grid, Kernel, Launch,
};

pub(super) use crate::gpu::LaunchResult;

/// Keys per block in `radix.cu`.
const RADIX_KEYS: u32 = 4096;
/// Threads per block in `radix.cu`.
const RADIX_THREADS: u32 = 256;
/// Threads per block of `all_distances`.
const DISTANCE_THREADS: u32 = 256;

/// The loaded kernels for one kind of points.
#[derive(Debug)]
pub(super) struct Kernels {
    brute: Kernel,
    clusters: Kernel,
    pivots: Kernel,
    pivots_shared: Kernel,
    all_distances: Kernel,
    nearest_brute: Kernel,
    nearest_clusters: Kernel,
    nearest_clusters_decreasing: Kernel,
    nearest_pivots: Kernel,
    mark_clusters: Kernel,
    measure_pivots: Kernel,
    range_marked: Kernel,
    range_measured: Kernel,
    nearest_marked: Kernel,
    nearest_measured: Kernel,
    radix: Radix,
    /// Maximum dynamic shared memory per block, in bytes.
    pub(super) shared: usize,
}

/// Upper bound for the static shared memory of these kernels, in bytes.
const STATIC_BYTES: usize = 64;

impl Kernels {
    /// Loads the kernels for the distance `name`: `euclidean` or `edit`.
    pub(super) fn load(device: &Device, name: &str) -> Result<Self, GpuError> {
        let module = device.load_packed(gpu_runtime::ptx!("barrientos"))?;
        let shared = device.info().shared_per_block - STATIC_BYTES;
        let kernel = |kernel: &str| module.kernel(&format!("{kernel}_{name}"), shared);
        Ok(Self {
            brute: kernel("range_brute")?,
            clusters: kernel("range_clusters")?,
            pivots: kernel("range_pivots")?,
            pivots_shared: kernel("range_pivots_shared")?,
            all_distances: kernel("all_distances")?,
            nearest_brute: kernel("nearest_brute")?,
            nearest_clusters: kernel("nearest_clusters")?,
            nearest_clusters_decreasing: kernel("nearest_clusters_decreasing")?,
            nearest_pivots: kernel("nearest_pivots")?,
            mark_clusters: kernel("mark_clusters")?,
            measure_pivots: kernel("measure_pivots")?,
            range_marked: kernel("range_marked")?,
            range_measured: kernel("range_measured")?,
            nearest_marked: kernel("nearest_marked")?,
            nearest_measured: kernel("nearest_measured")?,
            radix: Radix::load(device)?,
            shared,
        })
    }
}

/// Vectors and queries on the GPU: `VectorSpace` of `kernels/spaces.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct VectorSpace {
    pub(super) columns: u64,
    pub(super) queries: u64,
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// Words and queries on the GPU: `WordSpace` of `kernels/spaces.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct WordSpace {
    pub(super) columns: u64,
    pub(super) lengths: u64,
    pub(super) queries: u64,
    pub(super) count: u32,
    pub(super) longest: u32,
}

/// A List of Clusters on the GPU: `Clusters` of `kernels/barrientos.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Clusters {
    pub(super) radii: u64,
    pub(super) ends: u64,
    pub(super) cluster_of: u64,
    pub(super) points: u64,
    pub(super) count: u32,
}

/// A table of pivots on the GPU: `Pivots` of `kernels/barrientos.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Pivots {
    pub(super) numbers: u64,
    pub(super) distances: u64,
    pub(super) count: u32,
}

/// Bounds for the rounding errors of distances: `Bounds` of `kernels/spaces.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct ErrorBounds {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

/// The results of range queries on the GPU: `Answers` of `kernels/barrientos.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct RangeResults {
    pub(super) counts: u64,
    pub(super) neighbors: u64,
    /// Maximum number of neighbors stored per query.
    pub(super) capacity: u32,
}

/// A nearest-neighbor search with heaps: `HeapSearch` of `kernels/barrientos.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct HeapSearch {
    pub(super) heaps: u64,
    pub(super) queries: u64,
    pub(super) neighbors: u64,
    pub(super) pending: u64,
    pub(super) pending_count: u64,
    pub(super) first: f32,
    pub(super) step: f32,
    pub(super) k: u32,
    pub(super) launch: u32,
}

/// Results of the first stage on the GPU: `Stage` of `kernels/barrientos.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Stage {
    pub(super) queries: u64,
    pub(super) words: u64,
    /// Number of words per query.
    pub(super) width: u32,
}

macro_rules! arguments {
    ($($name:ident: $fields:literal),*) => {$(
        #[expect(unsafe_code, reason = "a kernel's argument")]
        #[doc = $fields]
        // SAFETY: the fields have the order and sizes of the kernel's structure.
        unsafe impl DeviceRepr for $name {}
    )*};
}

arguments!(
    VectorSpace: "two pointers and two u32",
    WordSpace: "three pointers and two u32",
    Clusters: "four pointers and a u32",
    Pivots: "two pointers and a u32",
    ErrorBounds: "two f64",
    RangeResults: "two pointers and a u32",
    HeapSearch: "five pointers, two f32 and two u32",
    Stage: "two pointers and a u32"
);

/// The points and queries of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Space {
    Vectors(VectorSpace),
    Words(WordSpace),
}

impl Space {
    fn push<'a>(&'a self, launch: &mut Launch<'a>) {
        match self {
            Self::Vectors(space) => launch.value(space),
            Self::Words(space) => launch.value(space),
        };
    }

    /// Returns the shared memory for a query, in bytes.
    pub(super) fn query_bytes(&self) -> usize {
        match self {
            Self::Vectors(space) => (space.dimension as usize * 4).next_multiple_of(16),
            Self::Words(_) => 256 * 8,
        }
    }
}

/// The data with which a search excludes points.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pruning {
    None,
    Clusters(Clusters),
    Pivots(Pivots),
    PivotsShared(Pivots),
    /// Clusters, with a decreasing radius for nearest neighbors.
    ClustersDecreasing(Clusters),
}

impl Pruning {
    /// Returns the shared memory of a range query in bytes, without the query itself.
    pub(super) fn range_bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Clusters(clusters) | Self::ClustersDecreasing(clusters) => {
                clusters.count.div_ceil(32) as usize * 4
            }
            Self::Pivots(pivots) | Self::PivotsShared(pivots) => pivots.count as usize * 4,
        }
    }

    /// Returns the shared memory of a search with heaps in bytes, without the query itself.
    pub(super) fn heap_bytes(&self, k: u32, threads: u32) -> usize {
        let distances = match self {
            Self::None => 0,
            Self::Clusters(clusters) | Self::ClustersDecreasing(clusters) => clusters.count,
            Self::Pivots(pivots) | Self::PivotsShared(pivots) => pivots.count,
        };
        32 * k as usize * 8 + (distances + threads) as usize * 4
    }

    fn push<'a>(&'a self, errors: &'a ErrorBounds, launch: &mut Launch<'a>) {
        match self {
            Self::None => {}
            Self::Clusters(clusters) | Self::ClustersDecreasing(clusters) => {
                launch.value(clusters).value(errors);
            }
            Self::Pivots(pivots) | Self::PivotsShared(pivots) => {
                launch.value(pivots).value(errors);
            }
        }
    }
}

/// The data with which a 2-Stage search excludes points.
#[derive(Debug, Clone, Copy)]
pub(super) enum StagePruning {
    Clusters(Clusters),
    Pivots(Pivots),
}

impl StagePruning {
    /// Returns the number of 32-bit words that the first stage computes per query.
    pub(super) fn width(&self) -> u32 {
        match self {
            Self::Clusters(clusters) => clusters.count.div_ceil(32),
            Self::Pivots(pivots) => pivots.count,
        }
    }

    /// Returns the shared memory of a stage in bytes, without the query itself.
    pub(super) fn bytes(&self) -> usize {
        4 * self.width() as usize
    }

    /// Returns the shared memory of the second stage with heaps in bytes, without the query itself.
    pub(super) fn heap_bytes(&self, k: u32, threads: u32) -> usize {
        match self {
            Self::Clusters(_) => Pruning::None.heap_bytes(k, threads),
            Self::Pivots(pivots) => Pruning::Pivots(*pivots).heap_bytes(k, threads),
        }
    }

    fn push<'a>(&'a self, errors: &'a ErrorBounds, launch: &mut Launch<'a>) {
        match self {
            Self::Clusters(clusters) => launch.value(clusters),
            Self::Pivots(pivots) => launch.value(pivots).value(errors),
        };
    }
}

/// The queries of a launch, with their pruning. One block answers each query.
#[derive(Debug)]
pub(super) struct Batch<'a, P> {
    pub(super) space: &'a Space,
    pub(super) pruning: &'a P,
    pub(super) errors: &'a ErrorBounds,
    /// Number of queries, which is also the number of blocks.
    pub(super) queries: u32,
    /// Number of threads per block.
    pub(super) threads: u32,
}

impl<P> Batch<'_, P> {
    /// Returns a grid of one block per query, with shared memory for the query and `pruning_bytes`
    /// more bytes.
    fn grid(&self, pruning_bytes: usize) -> Grid {
        Grid::new(self.queries, self.threads)
            .with_shared_bytes(self.space.query_bytes() + pruning_bytes)
    }
}

impl Kernels {
    /// Enqueues range queries by algorithms 11 to 13.
    pub(super) fn range(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch<'_, Pruning>,
        radius: f32,
        results: &RangeResults,
    ) -> LaunchResult {
        let kernel = match batch.pruning {
            Pruning::None => &self.brute,
            Pruning::Clusters(_) | Pruning::ClustersDecreasing(_) => &self.clusters,
            Pruning::Pivots(_) => &self.pivots,
            Pruning::PivotsShared(_) => &self.pivots_shared,
        };
        let mut launch = kernel.launch_on(stream);
        batch.space.push(&mut launch);
        batch.pruning.push(batch.errors, &mut launch);
        launch.value(&radius).value(results);
        let grid = batch.grid(batch.pruning.range_bytes());
        #[expect(unsafe_code, reason = "the launcher of algorithms 11 to 13")]
        // SAFETY: the arguments match the kernel's parameters in order and type. The addresses
        // point at sufficiently large buffers of the caller. The grid has shared memory for the
        // query and the pruning.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues nearest-neighbor queries by algorithm 15 or 16, or by an alternative to them.
    pub(super) fn nearest(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch<'_, Pruning>,
        search: &HeapSearch,
    ) -> LaunchResult {
        let kernel = match batch.pruning {
            Pruning::None => &self.nearest_brute,
            Pruning::Clusters(_) => &self.nearest_clusters,
            Pruning::ClustersDecreasing(_) => &self.nearest_clusters_decreasing,
            Pruning::Pivots(_) | Pruning::PivotsShared(_) => &self.nearest_pivots,
        };
        let mut launch = kernel.launch_on(stream);
        batch.space.push(&mut launch);
        batch.pruning.push(batch.errors, &mut launch);
        launch.value(search);
        let grid = batch.grid(batch.pruning.heap_bytes(search.k, batch.threads));
        #[expect(unsafe_code, reason = "the launcher of algorithms 15 and 16")]
        // SAFETY: the arguments match the kernel's parameters in order and type. The addresses
        // point at sufficiently large buffers of the caller. The grid has shared memory for the
        // query, the pruning, and the heaps of a warp.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues the first stage of Barrientos 2012, section VII-A.
    pub(super) fn first_stage(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch<'_, StagePruning>,
        radius: f32,
        stage: &Stage,
    ) -> LaunchResult {
        let kernel = match batch.pruning {
            StagePruning::Clusters(_) => &self.mark_clusters,
            StagePruning::Pivots(_) => &self.measure_pivots,
        };
        let mut launch = kernel.launch_on(stream);
        batch.space.push(&mut launch);
        if let StagePruning::Clusters(clusters) = batch.pruning {
            launch.value(clusters).value(batch.errors).value(&radius);
        }
        launch.value(stage);
        let grid = batch.grid(batch.pruning.bytes());
        #[expect(unsafe_code, reason = "the launcher of a first stage")]
        // SAFETY: the arguments match the kernel's parameters in order and type. The addresses
        // point at sufficiently large buffers of the caller. The grid has shared memory for the
        // query and one bit per cluster.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues the second stage of range queries.
    pub(super) fn second_range(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch<'_, StagePruning>,
        radius: f32,
        stage: &Stage,
        results: &RangeResults,
    ) -> LaunchResult {
        let kernel = match batch.pruning {
            StagePruning::Clusters(_) => &self.range_marked,
            StagePruning::Pivots(_) => &self.range_measured,
        };
        let mut launch = kernel.launch_on(stream);
        batch.space.push(&mut launch);
        batch.pruning.push(batch.errors, &mut launch);
        launch.value(stage).value(&radius).value(results);
        let grid = batch.grid(batch.pruning.bytes());
        #[expect(unsafe_code, reason = "the launcher of a second stage")]
        // SAFETY: the arguments match the kernel's parameters in order and type. The addresses
        // point at sufficiently large buffers of the caller. The grid has shared memory for the
        // query and its distances to the pivots.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues the second stage of nearest-neighbor queries within the radius `search.first`.
    pub(super) fn second_nearest(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch<'_, StagePruning>,
        stage: &Stage,
        search: &HeapSearch,
    ) -> LaunchResult {
        let kernel = match batch.pruning {
            StagePruning::Clusters(_) => &self.nearest_marked,
            StagePruning::Pivots(_) => &self.nearest_measured,
        };
        let mut launch = kernel.launch_on(stream);
        batch.space.push(&mut launch);
        batch.pruning.push(batch.errors, &mut launch);
        launch.value(stage).value(search);
        let grid = batch.grid(batch.pruning.heap_bytes(search.k, batch.threads));
        #[expect(unsafe_code, reason = "the launcher of a second stage")]
        // SAFETY: the arguments match the kernel's parameters in order and type. The addresses
        // point at sufficiently large buffers of the caller. The grid has shared memory for the
        // query, its distances to the pivots, and the heaps of a warp.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues the computation of all distances between points and queries, as keys.
    ///
    /// Each query is a segment with one key per point.
    pub(super) fn all_distances(
        &self,
        stream: &Arc<CudaStream>,
        space: &Space,
        segments: Segments,
        keys: &mut CudaSlice<u64>,
    ) -> LaunchResult {
        let mut launch = self.all_distances.launch_on(stream);
        space.push(&mut launch);
        launch.pointer(keys);
        let blocks = segments.length.div_ceil(DISTANCE_THREADS).clamp(1, 1024);
        let grid = Grid::new(blocks, DISTANCE_THREADS)
            .with_rows(segments.count)
            .with_shared_bytes(space.query_bytes());
        #[expect(unsafe_code, reason = "the launcher of `all_distances`")]
        // SAFETY: the arguments match the kernel's parameters in order and type. There is one key
        // for each query and point.
        unsafe {
            launch.launch(grid.into())
        }
    }

    /// Enqueues a sort of each segment's keys by some of their bits.
    ///
    /// The sort processes eight bits per pass. Both ends of `bits` are multiples of eight, and the
    /// number of passes is even, so the sorted keys end up in `keys`.
    pub(super) fn sort(
        &self,
        stream: &Arc<CudaStream>,
        segments: Segments,
        bits: Range<u32>,
        keys: &mut CudaSlice<u64>,
        scratch: &mut CudaSlice<u64>,
    ) -> LaunchResult {
        let Segments { length, count } = segments;
        let blocks = length.div_ceil(RADIX_KEYS).max(1);
        let per_segment = 256 * blocks;
        let mut counts = stream.alloc_zeros::<u32>(per_segment as usize * count as usize)?;
        let all_blocks = Grid::new(blocks, RADIX_THREADS).with_rows(count);
        let mut from = keys;
        let mut to = scratch;
        for shift in bits.step_by(8) {
            let mut launch = self.radix.count.launch_on(stream);
            launch.pointer(&*from).value(&length).value(&shift).pointer(&mut counts);
            #[expect(unsafe_code, reason = "the launcher of `radix_count`")]
            // SAFETY: the arguments match the kernel's parameters in order and type. There are 256
            // counts for each block.
            unsafe {
                launch.launch(all_blocks.into())?;
            }
            let mut launch = self.radix.scan.launch_on(stream);
            launch.pointer(&mut counts).value(&per_segment);
            #[expect(unsafe_code, reason = "the launcher of `radix_scan`")]
            // SAFETY: as above.
            unsafe {
                launch.launch(Grid::new(count, RADIX_THREADS).into())?;
            }
            let mut launch = self.radix.scatter.launch_on(stream);
            launch.pointer(&*from).value(&length).value(&shift).pointer(&counts).pointer(&mut *to);
            #[expect(unsafe_code, reason = "the launcher of `radix_scatter`")]
            // SAFETY: as above; `to` is as large as `from`.
            unsafe {
                launch.launch(all_blocks.into())?;
            }
            std::mem::swap(&mut from, &mut to);
        }
        Ok(())
    }
}

/// Keys in segments of the same length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segments {
    pub(super) length: u32,
    pub(super) count: u32,
}

/// The kernels of the stable sort in `radix.cu`.
#[derive(Debug)]
struct Radix {
    count: Kernel,
    scan: Kernel,
    scatter: Kernel,
}

impl Radix {
    fn load(device: &Device) -> Result<Self, GpuError> {
        let module = device.load_packed(gpu_runtime::ptx!("radix"))?;
        Ok(Self {
            count: module.kernel("radix_count", 0)?,
            scan: module.kernel("radix_scan", 0)?,
            scatter: module.kernel("radix_scatter", 0)?,
        })
    }
}

/// Returns the address of a buffer.
pub(super) fn address<T>(stream: &CudaStream, buffer: &CudaSlice<T>) -> u64 {
    buffer.device_ptr(stream).0
}
