//! GPU searches of Barrientos 2011, chapter 4, and of Barrientos et al. 2012, as published.
//!
//! A block of threads answers a query. Programs that need neighbors use [`GpuSearch`], which is
//! faster.
//!
//! * [`Searcher`] reproduces Barrientos 2011, chapter 4: algorithms 11 to 13, 15 and 16, and
//!   sections 4.2.1 and 4.3. The command is `metric-index bench thesis --device cuda`.
//! * [`OneStage`] and [`TwoStage`] reproduce Barrientos et al. 2012, section VII: several GPUs. The
//!   command is `metric-index bench multi-gpu --words FILE`.
//!
//! The searches support Euclidean distances of vectors, and edit distances of words of up to 255
//! characters from queries of up to 64. The points must fit into the memory of one GPU.
//!
//! [`GpuSearch`]: metric_index::gpu::GpuSearch

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, GpuError, Pinned};

use crate::gpu::{are_finite, zeros};
use metric_index::gpu::Alphabet;
use metric_index::index::{Index, ListOfClusters};
use metric_index::metric::{Formula, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Subset};
use metric_index::prune::Bounds;

mod columns;
mod launch;
mod one_stage;
mod two_stage;

pub use crate::gpu::TimedAnswers;
pub use columns::InColumns;
#[doc(hidden)]
pub use columns::{Columns, QueryFormat, Rows};
pub use one_stage::OneStage;
pub use two_stage::TwoStage;

use columns::WORD_BYTES;
use launch::{
    Batch, Clusters, ErrorBounds, HeapSearch, Kernels, Pruning, RangeResults, Segments, Space,
    VectorSpace, WordSpace, address,
};

/// Maximum number of queries per launch of a search that stores all distances.
const MAX_SORTED_QUERIES: u32 = 64;
/// Maximum number of queries per launch of a search with heaps.
const MAX_HEAP_QUERIES: u32 = 4096;
/// Bits of a key that hold the distance.
const DISTANCE_BITS: std::ops::Range<u32> = 32..64;

/// How a search excludes points.
///
/// ```
/// use metric_papers::barrientos::Method;
///
/// assert_ne!(Method::Brute, Method::Clusters);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Brute force: algorithm 11, and one heap per thread for nearest neighbors.
    Brute,
    /// Brute force that sorts all distances for nearest neighbors (section 4.2.1). The same as
    /// `Brute` for range queries.
    Sort,
    /// A List of Clusters: algorithms 12 and 15.
    Clusters,
    /// A List of Clusters with a decreasing radius (figure 4.3). The same as `Clusters` for range
    /// queries.
    ClustersDecreasing,
    /// A table of distances to pivots: algorithms 13 and 16.
    Pivots,
    /// A table of distances to pivots, where the threads of a warp share the pivots of a point. The
    /// same as `Pivots` for nearest neighbors.
    PivotsShared,
}

/// The radii of a search with an increasing radius; see [`learn_radii`].
///
/// ```
/// let radii = metric_papers::barrientos::Radii { first: 1.0, step: 1.0 };
/// assert!(radii.step > 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Radii {
    /// The radius of the first launch.
    pub first: f32,
    /// The increment of the radius until k neighbors are found.
    pub step: f32,
}

/// Estimates radii from one hundredth of the points.
///
/// The first radius is the median distance to the k-th neighbor. The step is the difference between
/// the ninth decile of these distances and the median.
///
/// ```
/// use metric_papers::barrientos::learn_radii;
/// use metric_index::index::BruteForce;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// assert_eq!(learn_radii(&BruteForce::new(words, Edit)?, 1)?.first, 1.0);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
///
/// # Errors
/// If the distance between two points is undefined.
pub fn learn_radii<I: Index>(index: &I, k: usize) -> Result<Radii, metric_index::error::Error> {
    let points = index.points();
    let step = (points.len() / (points.len() / 100).clamp(1, 1000)).max(1);
    let sample = Subset::every(points, 0, step);
    let threads = std::thread::available_parallelism().unwrap_or(std::num::NonZero::<usize>::MIN);
    let mut radii = Vec::with_capacity(sample.len());
    // The first neighbor is the point itself.
    for found in &index.nearest_many(&sample, k.saturating_add(1), threads) {
        radii.extend(found?.last().map(|near| near.distance));
    }
    radii.sort_unstable_by(f32::total_cmp);
    let decile = |tenths: usize| radii.get(radii.len() * tenths / 10).copied().unwrap_or(0.0);
    let first = decile(5);
    let min_step = if first > 0.0 { first / 8.0 } else { 1.0 };
    Ok(Radii { first, step: (decile(9) - first).max(min_step) })
}

/// Points on a GPU, stored in the order in which a search scans them.
#[derive(Debug)]
pub struct Searcher {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    points: DevicePoints,
    count: u32,
    errors: ErrorBounds,
    threads: u32,
    clusters: Option<DeviceClusters>,
    pivots: Option<DevicePivots>,
}

/// Points in the memory of a GPU.
#[derive(Debug)]
enum DevicePoints {
    Vectors { columns: CudaSlice<f32>, dimension: u32 },
    Words { columns: CudaSlice<u8>, lengths: CudaSlice<u8>, longest: u32, alphabet: Box<Alphabet> },
}

/// A List of Clusters in the memory of a GPU.
#[derive(Debug)]
struct DeviceClusters {
    radii: CudaSlice<f32>,
    ends: CudaSlice<u32>,
    cluster_of: CudaSlice<u32>,
    points: CudaSlice<u32>,
    count: u32,
}

/// A table of distances to pivots in the memory of a GPU.
#[derive(Debug)]
struct DevicePivots {
    numbers: CudaSlice<u32>,
    distances: CudaSlice<f32>,
    count: u32,
}

/// The share of one GPU among several: every `gpus`-th item, from item `gpu` on.
#[derive(Debug, Clone, Copy)]
struct Share {
    gpu: usize,
    gpus: usize,
}

/// The order of points in a List of Clusters.
#[derive(Debug)]
struct ClusterLayout {
    /// The centers, then the buckets.
    order: Vec<u32>,
    radii: Vec<f32>,
    /// The end of each bucket, counted from the first bucket.
    ends: Vec<u32>,
}

impl Searcher {
    /// Copies points to a GPU for a search by brute force.
    ///
    /// A block has `threads` threads, a multiple of 32 up to 1,024. Returns `None` if the points or
    /// the distance are unsupported.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If the number of threads is invalid.
    pub fn brute<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        points: &S,
        metric: &M,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let Ok(count) = u32::try_from(points.len()) else { return Ok(None) };
        let order: Vec<u32> = (0..count).collect();
        Self::upload(device, points, metric, &order, threads)
    }

    /// Copies a List of Clusters to a GPU.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// As [`brute`](Self::brute).
    pub fn clusters<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        list: &ListOfClusters<S, M>,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        Self::share_of_clusters(device, list, threads, Share { gpu: 0, gpus: 1 })
    }

    /// Copies a share of the clusters to a GPU.
    ///
    /// The clusters keep their order: one that contains the query's ball still excludes the later
    /// ones.
    fn share_of_clusters<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        list: &ListOfClusters<S, M>,
        threads: u32,
        share: Share,
    ) -> Result<Option<Self>, GpuError> {
        let mut centers = Vec::new();
        let mut radii = Vec::new();
        let mut ends = Vec::new();
        let mut buckets = Vec::new();
        for cluster in list.clusters().skip(share.gpu).step_by(share.gpus) {
            centers.push(cluster.center);
            radii.push(cluster.radius);
            buckets.extend_from_slice(cluster.bucket);
            ends.push(u32::try_from(buckets.len()).expect("not more than points"));
        }
        let order: Vec<u32> = centers.iter().chain(&buckets).copied().collect();
        Self::with_clusters(device, list, &ClusterLayout { order, radii, ends }, threads)
    }

    /// Copies clusters in a given layout to a GPU.
    fn with_clusters<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        list: &ListOfClusters<S, M>,
        layout: &ClusterLayout,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let ClusterLayout { order, radii, ends } = layout;
        let uploaded = Self::upload(device, list.points(), list.metric(), order, threads)?;
        let Some(mut searcher) = uploaded else { return Ok(None) };
        let mut cluster_of = Vec::with_capacity(order.len() - radii.len());
        let mut start = 0;
        for (cluster, &end) in (0u32..).zip(ends) {
            cluster_of.extend((start..end).map(|_| cluster));
            start = end;
        }
        let device = &searcher.device;
        let stream = &searcher.stream;
        searcher.clusters = Some(DeviceClusters {
            count: u32::try_from(radii.len()).expect("not more than points"),
            radii: copied(device, stream, radii)?,
            ends: copied(device, stream, ends)?,
            cluster_of: copied(device, stream, &cluster_of)?,
            points: copied(device, stream, order)?,
        });
        Ok(Some(searcher))
    }

    /// Copies points, and a table of their distances to pivots, to a GPU.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// As [`brute`](Self::brute), or if a pivot is not the number of a point.
    pub fn pivots<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        points: &S,
        metric: &M,
        pivots: &[u32],
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let Some(mut searcher) = Self::brute(device, points, metric, threads)? else {
            return Ok(None);
        };
        let mut distances = Vec::with_capacity(pivots.len() * points.len());
        for &pivot in pivots {
            let pivot = points.point(pivot);
            let of = |point| metric.distance(pivot, points.point(point));
            distances.extend((0..searcher.count).map(of));
        }
        let device = &searcher.device;
        let stream = &searcher.stream;
        searcher.pivots = Some(DevicePivots {
            count: u32::try_from(pivots.len()).expect("not more than points"),
            numbers: copied(device, stream, pivots)?,
            distances: copied(device, stream, &distances)?,
        });
        Ok(Some(searcher))
    }

    /// Copies points to a GPU in a given order.
    fn upload<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        points: &S,
        metric: &M,
        order: &[u32],
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        assert!(threads.is_multiple_of(32) && (32..=1024).contains(&threads), "{threads} threads");
        let name = match metric.formula() {
            Some(Formula::Euclidean) => "euclidean",
            Some(Formula::Edit) => "edit",
            _ => return Ok(None),
        };
        let Some(columns) = S::Point::columns(points, order) else { return Ok(None) };
        let stream = device.stream()?;
        let points = match columns {
            Columns::Vectors { values, dimension } => {
                DevicePoints::Vectors { columns: copied(device, &stream, &values)?, dimension }
            }
            Columns::Words { characters, lengths, longest, alphabet } => DevicePoints::Words {
                columns: copied(device, &stream, &characters)?,
                lengths: copied(device, &stream, &lengths)?,
                longest,
                alphabet,
            },
        };
        let bounds = Bounds::of(metric);
        let errors =
            ErrorBounds { relative: bounds.relative_error(), absolute: bounds.absolute_error() };
        Ok(Some(Self {
            kernels: Kernels::load(device, name)?,
            device: device.clone(),
            stream,
            points,
            count: u32::try_from(order.len()).expect("not more than points"),
            errors,
            threads,
            clusters: None,
            pivots: None,
        }))
    }

    /// How a method excludes points; `None` if that was not uploaded.
    fn pruning(&self, method: Method) -> Option<Pruning> {
        let clusters = || {
            let clusters = self.clusters.as_ref()?;
            Some(Clusters {
                radii: address(&self.stream, &clusters.radii),
                ends: address(&self.stream, &clusters.ends),
                cluster_of: address(&self.stream, &clusters.cluster_of),
                points: address(&self.stream, &clusters.points),
                count: clusters.count,
            })
        };
        let pivots = || {
            let pivots = self.pivots.as_ref()?;
            Some(launch::Pivots {
                numbers: address(&self.stream, &pivots.numbers),
                distances: address(&self.stream, &pivots.distances),
                count: pivots.count,
            })
        };
        Some(match method {
            // The points of clusters are in another order.
            Method::Brute | Method::Sort if self.clusters.is_none() => Pruning::None,
            Method::Brute | Method::Sort => return None,
            Method::Clusters => Pruning::Clusters(clusters()?),
            Method::ClustersDecreasing => Pruning::ClustersDecreasing(clusters()?),
            Method::Pivots => Pruning::Pivots(pivots()?),
            Method::PivotsShared => Pruning::PivotsShared(pivots()?),
        })
    }

    /// Copies queries to the GPU.
    fn rows<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
    ) -> Result<Option<DeviceQueries>, GpuError> {
        let format = match &self.points {
            DevicePoints::Vectors { dimension, .. } => QueryFormat::Vectors(*dimension),
            DevicePoints::Words { alphabet, .. } => QueryFormat::Words(alphabet),
        };
        Ok(match Q::Point::rows(queries, &format) {
            None => None,
            Some(Rows::Vectors(rows)) => {
                Some(DeviceQueries::Vectors(copied(&self.device, &self.stream, &rows)?))
            }
            Some(Rows::Words(rows)) => {
                Some(DeviceQueries::Words(copied(&self.device, &self.stream, &rows)?))
            }
        })
    }

    /// The points, and the queries from `first` on, as kernels read them.
    fn space(&self, rows: &DeviceQueries, first: u32) -> Space {
        match (&self.points, rows) {
            (DevicePoints::Vectors { columns, dimension }, DeviceQueries::Vectors(rows)) => {
                let before = 4 * u64::from(first) * u64::from(*dimension);
                Space::Vectors(VectorSpace {
                    columns: address(&self.stream, columns),
                    queries: address(&self.stream, rows) + before,
                    count: self.count,
                    dimension: *dimension,
                })
            }
            (DevicePoints::Words { columns, lengths, longest, .. }, DeviceQueries::Words(rows)) => {
                Space::Words(WordSpace {
                    columns: address(&self.stream, columns),
                    lengths: address(&self.stream, lengths),
                    queries: address(&self.stream, rows) + u64::from(first) * WORD_BYTES as u64,
                    count: self.count,
                    longest: *longest,
                })
            }
            _ => unreachable!("`rows` copies queries in the format of the points"),
        }
    }

    /// Returns the points within a radius of each query.
    ///
    /// Returns `None` if a query is unsupported, or the method needs clusters or pivots that were
    /// not uploaded.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If there are 2^32 queries or more.
    pub fn range<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
        radius: f32,
        method: Method,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let Some(pruning) = self.pruning(method) else { return Ok(None) };
        let Some(rows) = self.rows(queries)? else { return Ok(None) };
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let space = self.space(&rows, 0);
        if space.query_bytes() + pruning.range_bytes() > self.kernels.shared || count == 0 {
            return Ok((count == 0).then_some(TimedAnswers { answers: Vec::new(), seconds: 0.0 }));
        }
        let batch = self.batch(&space, &pruning, count);
        self.range_answers(count, |results| {
            self.kernels.range(&self.stream, &batch, radius, results)
        })
    }

    /// A batch of queries on this GPU.
    fn batch<'a, P>(&'a self, space: &'a Space, pruning: &'a P, queries: u32) -> Batch<'a, P> {
        Batch { space, pruning, errors: &self.errors, queries, threads: self.threads }
    }

    /// Returns the sorted neighbors that a launch finds for `count` queries.
    ///
    /// Launches again with more memory if there are more neighbors than fit.
    fn range_answers(
        &self,
        count: u32,
        launch: impl Fn(&RangeResults) -> launch::LaunchResult,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let failed = self.device.doing("answering range queries").failed();
        let stream = &self.stream;
        let mut capacity = 1024u32.min(self.count.max(1));
        loop {
            let mut counts = zeros::<u32>(stream, count as usize, self.device.doing("counting"))?;
            let doing = self.device.doing("allocating memory for neighbors");
            let found = zeros::<u64>(stream, count as usize * capacity as usize, doing)?;
            let start = self.device.timer()?;
            let end = self.device.timer()?;
            start.record(stream).map_err(&failed)?;
            stream.memset_zeros(&mut counts).map_err(&failed)?;
            let results = RangeResults {
                counts: address(stream, &counts),
                neighbors: address(stream, &found),
                capacity,
            };
            launch(&results).map_err(&failed)?;
            end.record(stream).map_err(&failed)?;
            let counts = stream.clone_dtoh(&counts).map_err(&failed)?;
            let max_count = counts.iter().copied().max().unwrap_or(0);
            if max_count > capacity {
                capacity = max_count;
                continue;
            }
            let keys = stream.clone_dtoh(&found).map_err(&failed)?;
            let lists = keys.chunks(capacity as usize).zip(&counts);
            let lists = lists.map(|(keys, &count)| &keys[..count as usize]);
            if !lists.clone().all(are_finite) {
                return Ok(None);
            }
            let mut answers = Vec::with_capacity(count as usize);
            for keys in lists {
                let mut near = Neighbor::from_keys(keys).to_vec();
                near.sort_unstable();
                answers.push(near);
            }
            let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
            return Ok(Some(TimedAnswers { answers, seconds }));
        }
    }

    /// Returns the k nearest points of each query.
    ///
    /// Returns `None` as [`range`](Self::range), or if k is too large for shared memory.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If there are 2^32 queries or more.
    pub fn nearest<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
        k: u32,
        method: Method,
        radii: Radii,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let Some(pruning) = self.pruning(method) else { return Ok(None) };
        let Some(rows) = self.rows(queries)? else { return Ok(None) };
        let k = k.min(self.count);
        let shared = self.space(&rows, 0).query_bytes() + pruning.heap_bytes(k, self.threads);
        if shared > self.kernels.shared {
            return Ok(None);
        }
        if k == 0 {
            let answers = vec![Vec::new(); queries.len()];
            return Ok(Some(TimedAnswers { answers, seconds: 0.0 }));
        }
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let max_queries =
            if method == Method::Sort { MAX_SORTED_QUERIES } else { MAX_HEAP_QUERIES };
        let mut answers = Vec::with_capacity(queries.len());
        let mut seconds = 0.0;
        for first in (0..count).step_by(max_queries as usize) {
            let space = self.space(&rows, first);
            let batch = self.batch(&space, &pruning, max_queries.min(count - first));
            let found = if method == Method::Sort {
                self.sort_distances(&batch, k)?
            } else {
                self.search_heaps(&batch, k, radii)?
            };
            seconds += found.seconds;
            if !are_finite(&found.keys) {
                return Ok(None);
            }
            answers.extend(found.keys.chunks(k as usize).map(neighbors_of));
        }
        Ok(Some(TimedAnswers { answers, seconds }))
    }

    /// Computes all distances, and sorts them.
    fn sort_distances(&self, batch: &Batch<'_, Pruning>, k: u32) -> Result<TimedKeys, GpuError> {
        let failed = self.device.doing("sorting distances").failed();
        let stream = &self.stream;
        let doing = self.device.doing("allocating memory for distances");
        let queries = batch.queries as usize;
        let length = queries * self.count as usize;
        let mut keys = zeros::<u64>(stream, length, doing)?;
        let mut scratch = zeros::<u64>(stream, length, doing)?;
        let segments = Segments { length: self.count, count: batch.queries };
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        start.record(stream).map_err(&failed)?;
        self.kernels.all_distances(stream, batch.space, segments, &mut keys).map_err(&failed)?;
        // The points are in order and the sort is stable, so sorting by distance suffices.
        self.kernels
            .sort(stream, segments, DISTANCE_BITS, &mut keys, &mut scratch)
            .map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let mut nearest = Vec::with_capacity(queries * k as usize);
        let mut pinned = Pinned::<u64>::new(&self.device);
        for query in 0..queries {
            let from = query * self.count as usize;
            let to = pinned.get(k as usize)?;
            stream.memcpy_dtoh(&keys.slice(from..from + k as usize), to).map_err(&failed)?;
            stream.synchronize().map_err(&failed)?;
            nearest.extend_from_slice(to);
        }
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(TimedKeys { keys: nearest, seconds })
    }

    /// Searches with heaps, in two launches.
    ///
    /// The first launch searches for all queries within the first radius. The second launch goes on
    /// for the queries that found fewer than k neighbors.
    fn search_heaps(
        &self,
        batch: &Batch<'_, Pruning>,
        k: u32,
        radii: Radii,
    ) -> Result<TimedKeys, GpuError> {
        let failed = self.device.doing("searching with heaps").failed();
        let stream = &self.stream;
        let queries = batch.queries as usize;
        let doing = self.device.doing("allocating memory for heaps");
        let per_block = self.threads as usize * k as usize;
        let heaps = zeros::<u64>(stream, queries * per_block, doing)?;
        let neighbors = zeros::<u64>(stream, queries * k as usize, doing)?;
        let numbers: Vec<u32> = (0..batch.queries).collect();
        let all = copied(&self.device, stream, &numbers)?;
        let pending = zeros::<u32>(stream, queries, doing)?;
        let pending_count = zeros::<u32>(stream, 1, doing)?;
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        start.record(stream).map_err(&failed)?;
        let mut search = HeapSearch {
            heaps: address(stream, &heaps),
            queries: address(stream, &all),
            neighbors: address(stream, &neighbors),
            pending: address(stream, &pending),
            pending_count: address(stream, &pending_count),
            first: radii.first,
            step: radii.step,
            k,
            launch: 0,
        };
        self.kernels.nearest(stream, batch, &search).map_err(&failed)?;
        let left = stream.clone_dtoh(&pending_count).map_err(&failed)?[0];
        if left > 0 {
            search.queries = address(stream, &pending);
            search.launch = 1;
            let next = radii.first + radii.step;
            search.first = if next > radii.first { next } else { f32::INFINITY };
            let rest = Batch { queries: left, ..*batch };
            self.kernels.nearest(stream, &rest, &search).map_err(&failed)?;
        }
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(TimedKeys { keys, seconds })
    }
}

/// Keys of the k nearest points of each query, and the time in kernels.
#[derive(Debug)]
struct TimedKeys {
    keys: Vec<u64>,
    seconds: f64,
}

/// The neighbors of a query, whose list may end with keys that mean "no neighbor".
fn neighbors_of(keys: &[u64]) -> Vec<Neighbor> {
    let found = keys.iter().position(|&key| key == u64::MAX).unwrap_or(keys.len());
    Neighbor::from_keys(&keys[..found]).to_vec()
}

/// Queries in the memory of a GPU.
#[derive(Debug)]
enum DeviceQueries {
    Vectors(CudaSlice<f32>),
    Words(CudaSlice<u8>),
}

/// Copies values to a GPU, or one default value if there are none: the driver rejects empty copies.
fn copied<T: gpu_runtime::DeviceRepr + Default + Copy>(
    device: &Device,
    stream: &Arc<CudaStream>,
    values: &[T],
) -> Result<CudaSlice<T>, GpuError> {
    let failed = device.doing("copying points to it").failed();
    if values.is_empty() {
        return stream.clone_htod(&[T::default()]).map_err(failed);
    }
    stream.clone_htod(values).map_err(failed)
}
