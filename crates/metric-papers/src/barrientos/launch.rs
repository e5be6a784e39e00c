//! The launchers of `kernels/barrientos.cu` and `kernels/radix.cu`.

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, GpuError, Kernel, Launch};

pub(super) use crate::gpu::Launched;
use crate::gpu::config;

/// Keys of a block of `radix.cu`.
const RADIX_KEYS: u32 = 4096;
const RADIX_THREADS: u32 = 256;

/// The kernels of a space, loaded.
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
    /// The most shared memory of a block that is left to them.
    pub(super) shared: usize,
}

/// An upper bound of the static shared memory of these kernels, in bytes.
const STATIC_BYTES: usize = 64;

impl Kernels {
    /// `name` is `euclidean` or `edit`.
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

/// `VectorSpace` of kernels/spaces.cuh.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct VectorSpace {
    pub(super) columns: u64,
    pub(super) queries: u64,
    pub(super) count: u32,
    pub(super) dimension: u32,
}

/// `WordSpace` of kernels/spaces.cuh.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct WordSpace {
    pub(super) columns: u64,
    pub(super) lengths: u64,
    pub(super) queries: u64,
    pub(super) count: u32,
    pub(super) longest: u32,
}

/// `Clusters` of kernels/barrientos.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Clusters {
    pub(super) radii: u64,
    pub(super) ends: u64,
    pub(super) cluster_of: u64,
    pub(super) points: u64,
    pub(super) count: u32,
}

/// `Pivots` of kernels/barrientos.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Pivots {
    pub(super) numbers: u64,
    pub(super) distances: u64,
    pub(super) count: u32,
}

/// `Bounds` of kernels/spaces.cuh.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Errors {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

/// `Answers` of kernels/barrientos.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Found {
    pub(super) counts: u64,
    pub(super) neighbors: u64,
    pub(super) room: u32,
}

/// `HeapSearch` of kernels/barrientos.cu.
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

/// `Stage` of kernels/barrientos.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Stage {
    pub(super) queries: u64,
    pub(super) said: u64,
    pub(super) width: u32,
}

macro_rules! arguments {
    ($($name:ident: $fields:literal),*) => {$(
        #[expect(unsafe_code, reason = "a kernel's argument")]
        #[doc = $fields]
        // SAFETY: the fields are those of the kernel's structure, in order and in size.
        unsafe impl DeviceRepr for $name {}
    )*};
}

arguments!(
    VectorSpace: "two pointers and two u32",
    WordSpace: "three pointers and two u32",
    Clusters: "four pointers and a u32",
    Pivots: "two pointers and a u32",
    Errors: "two f64",
    Found: "two pointers and a u32",
    HeapSearch: "five pointers, two f32 and two u32",
    Stage: "two pointers and a u32"
);

/// The points and the queries of a launch.
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

    /// Bytes of shared memory of a query.
    pub(super) fn query_bytes(&self) -> usize {
        match self {
            Self::Vectors(space) => (space.dimension as usize * 4).next_multiple_of(16),
            Self::Words(_) => 256 * 8,
        }
    }
}

/// How points are excluded.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    Nothing,
    Clusters(Clusters),
    Pivots(Pivots),
    PivotsShared(Pivots),
    /// Nearest neighbors with a decreasing radius.
    ClustersDecreasing(Clusters),
}

impl By {
    /// Bytes of shared memory of a range query, without those of the query.
    pub(super) fn range_bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Clusters(clusters) | Self::ClustersDecreasing(clusters) => {
                clusters.count.div_ceil(32) as usize * 4
            }
            Self::Pivots(pivots) | Self::PivotsShared(pivots) => pivots.count as usize * 4,
        }
    }

    /// The same of a search with heaps.
    pub(super) fn heap_bytes(&self, k: u32, threads: u32) -> usize {
        let distances = match self {
            Self::Nothing => 0,
            Self::Clusters(clusters) | Self::ClustersDecreasing(clusters) => clusters.count,
            Self::Pivots(pivots) | Self::PivotsShared(pivots) => pivots.count,
        };
        32 * k as usize * 8 + (distances + threads) as usize * 4
    }
}

/// Algorithms 11 to 13. A block of `threads` a query.
pub(super) fn range(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (space, by, errors): (&Space, &By, &Errors),
    (queries, threads, radius): (u32, u32, f32),
    found: &Found,
) -> Launched {
    let kernel = match by {
        By::Nothing => &kernels.brute,
        By::Clusters(_) | By::ClustersDecreasing(_) => &kernels.clusters,
        By::Pivots(_) => &kernels.pivots,
        By::PivotsShared(_) => &kernels.pivots_shared,
    };
    let mut launch = kernel.launch_on(stream);
    space.push(&mut launch);
    match by {
        By::Nothing => {}
        By::Clusters(clusters) | By::ClustersDecreasing(clusters) => {
            launch.value(clusters).value(errors);
        }
        By::Pivots(pivots) | By::PivotsShared(pivots) => {
            launch.value(pivots).value(errors);
        }
    }
    launch.value(&radius).value(found);
    let shared = space.query_bytes() + by.range_bytes();
    #[expect(unsafe_code, reason = "the launcher of algorithms 11 to 13")]
    // SAFETY: the arguments are those of the kernel, in order and type; the addresses are of buffers of the caller that
    // are large enough, and shared memory has room for the query and what excludes.
    unsafe {
        launch.launch(config((queries, 1), threads, shared))
    }
}

/// Algorithms 15 and 16, and their rivals. A block of `threads` a query.
pub(super) fn nearest(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (space, by, errors): (&Space, &By, &Errors),
    (queries, threads): (u32, u32),
    search: &HeapSearch,
) -> Launched {
    let kernel = match by {
        By::Nothing => &kernels.nearest_brute,
        By::Clusters(_) => &kernels.nearest_clusters,
        By::ClustersDecreasing(_) => &kernels.nearest_clusters_decreasing,
        By::Pivots(_) | By::PivotsShared(_) => &kernels.nearest_pivots,
    };
    let mut launch = kernel.launch_on(stream);
    space.push(&mut launch);
    match by {
        By::Nothing => {}
        By::Clusters(clusters) | By::ClustersDecreasing(clusters) => {
            launch.value(clusters).value(errors);
        }
        By::Pivots(pivots) | By::PivotsShared(pivots) => {
            launch.value(pivots).value(errors);
        }
    }
    launch.value(search);
    let shared = space.query_bytes() + by.heap_bytes(search.k, threads);
    #[expect(unsafe_code, reason = "the launcher of algorithms 15 and 16")]
    // SAFETY: the arguments are those of the kernel, in order and type; the addresses are of buffers of the caller that
    // are large enough, and shared memory has room for the query, what excludes, and the heaps of a warp.
    unsafe {
        launch.launch(config((queries, 1), threads, shared))
    }
}

/// What excludes points in a search of two stages, with the words that the first stage says of a query.
#[derive(Debug, Clone, Copy)]
pub(super) enum Staged {
    Clusters(Clusters),
    Pivots(Pivots),
}

impl Staged {
    /// Words of 32 bits that the first stage says of a query.
    pub(super) fn width(&self) -> u32 {
        match self {
            Self::Clusters(clusters) => clusters.count.div_ceil(32),
            Self::Pivots(pivots) => pivots.count,
        }
    }

    /// Bytes of shared memory of a stage, without those of the query.
    pub(super) fn bytes(&self) -> usize {
        4 * self.width() as usize
    }

    /// The same of the second stage of a search with heaps.
    pub(super) fn heap_bytes(&self, k: u32, threads: u32) -> usize {
        match self {
            Self::Clusters(_) => By::Nothing.heap_bytes(k, threads),
            Self::Pivots(pivots) => By::Pivots(*pivots).heap_bytes(k, threads),
        }
    }
}

/// The first stage of Barrientos 2012, section VII-A. A block of `threads` a query.
pub(super) fn first_stage(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (space, by, errors): (&Space, &Staged, &Errors),
    (queries, threads, radius): (u32, u32, f32),
    stage: &Stage,
) -> Launched {
    let kernel = match by {
        Staged::Clusters(_) => &kernels.mark_clusters,
        Staged::Pivots(_) => &kernels.measure_pivots,
    };
    let mut launch = kernel.launch_on(stream);
    space.push(&mut launch);
    if let Staged::Clusters(clusters) = by {
        launch.value(clusters).value(errors).value(&radius);
    }
    launch.value(stage);
    let shared = space.query_bytes() + by.bytes();
    #[expect(unsafe_code, reason = "the launcher of a first stage")]
    // SAFETY: the arguments are those of the kernel, in order and type; the addresses are of buffers of the caller that
    // are large enough, and shared memory has room for the query and a bit for each cluster.
    unsafe {
        launch.launch(config((queries, 1), threads, shared))
    }
}

/// The second stage of range queries. A block of `threads` a query.
pub(super) fn second_range(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (space, by, errors): (&Space, &Staged, &Errors),
    (queries, threads, radius): (u32, u32, f32),
    (stage, found): (&Stage, &Found),
) -> Launched {
    let kernel = match by {
        Staged::Clusters(_) => &kernels.range_marked,
        Staged::Pivots(_) => &kernels.range_measured,
    };
    let mut launch = kernel.launch_on(stream);
    space.push(&mut launch);
    match by {
        Staged::Clusters(clusters) => launch.value(clusters),
        Staged::Pivots(pivots) => launch.value(pivots).value(errors),
    };
    launch.value(stage).value(&radius).value(found);
    let shared = space.query_bytes() + by.bytes();
    #[expect(unsafe_code, reason = "the launcher of a second stage")]
    // SAFETY: the arguments are those of the kernel, in order and type; the addresses are of buffers of the caller that
    // are large enough, and shared memory has room for the query and its distances from the pivots.
    unsafe {
        launch.launch(config((queries, 1), threads, shared))
    }
}

/// The second stage of nearest neighbors within the radius `search.first`. A block of `threads` a query.
pub(super) fn second_nearest(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (space, by, errors): (&Space, &Staged, &Errors),
    (queries, threads): (u32, u32),
    (stage, search): (&Stage, &HeapSearch),
) -> Launched {
    let kernel = match by {
        Staged::Clusters(_) => &kernels.nearest_marked,
        Staged::Pivots(_) => &kernels.nearest_measured,
    };
    let mut launch = kernel.launch_on(stream);
    space.push(&mut launch);
    match by {
        Staged::Clusters(clusters) => launch.value(clusters),
        Staged::Pivots(pivots) => launch.value(pivots).value(errors),
    };
    launch.value(stage).value(search);
    let shared = space.query_bytes() + by.heap_bytes(search.k, threads);
    #[expect(unsafe_code, reason = "the launcher of a second stage")]
    // SAFETY: the arguments are those of the kernel, in order and type; the addresses are of buffers of the caller that
    // are large enough, and shared memory has room for the query, its distances from the pivots, and the heaps of a warp.
    unsafe {
        launch.launch(config((queries, 1), threads, shared))
    }
}

/// The distances of all points from `queries` queries, as keys.
pub(super) fn all_distances(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    space: &Space,
    (points, queries): (u32, u32),
    keys: &mut CudaSlice<u64>,
) -> Launched {
    let mut launch = kernels.all_distances.launch_on(stream);
    space.push(&mut launch);
    launch.pointer(keys);
    let blocks = points.div_ceil(256).clamp(1, 1024);
    #[expect(unsafe_code, reason = "the launcher of `all_distances`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there is a key for each query and point.
    unsafe {
        launch.launch(config((blocks, queries), 256, space.query_bytes()))
    }
}

/// The stable sort of `radix.cu`.
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

/// Sorts the keys of each of `segments` segments of the same length by the bits from `low` to `high`, eight at a time; both are
/// multiples of eight, and `(high - low) / 8` is even, so that the keys end where they began.
pub(super) fn sort(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    (length, segments): (u32, u32),
    (low, high): (u32, u32),
    keys: &mut CudaSlice<u64>,
    other: &mut CudaSlice<u64>,
) -> Launched {
    let blocks = length.div_ceil(RADIX_KEYS).max(1);
    let per_segment = 256 * blocks;
    let mut counts = stream.alloc_zeros::<u32>(per_segment as usize * segments as usize)?;
    let (mut from, mut to) = (keys, other);
    for shift in (low..high).step_by(8) {
        let mut launch = kernels.radix.count.launch_on(stream);
        launch.pointer(&*from).value(&length).value(&shift).pointer(&mut counts);
        #[expect(unsafe_code, reason = "the launcher of `radix_count`")]
        // SAFETY: the arguments are those of the kernel, in order and type; there are 256 counts for each block.
        unsafe {
            launch.launch(config((blocks, segments), RADIX_THREADS, 0))?;
        }
        let mut launch = kernels.radix.scan.launch_on(stream);
        launch.pointer(&mut counts).value(&per_segment);
        #[expect(unsafe_code, reason = "the launcher of `radix_scan`")]
        // SAFETY: as above.
        unsafe {
            launch.launch(config((segments, 1), RADIX_THREADS, 0))?;
        }
        let mut launch = kernels.radix.scatter.launch_on(stream);
        launch.pointer(&*from).value(&length).value(&shift).pointer(&counts).pointer(&mut *to);
        #[expect(unsafe_code, reason = "the launcher of `radix_scatter`")]
        // SAFETY: as above; `to` is as large as `from`.
        unsafe {
            launch.launch(config((blocks, segments), RADIX_THREADS, 0))?;
        }
        std::mem::swap(&mut from, &mut to);
    }
    Ok(())
}

/// The address of a buffer.
pub(super) fn address<T>(stream: &CudaStream, buffer: &CudaSlice<T>) -> u64 {
    buffer.device_ptr(stream).0
}
