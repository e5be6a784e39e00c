//! The GPU searches of Barrientos 2011, chapter 4, and of Barrientos et al. 2012, as published.
//!
//! One block of threads answers a query. Programs that only need neighbors should use
//! [`GpuSearch`], which is faster.
//!
//! * [`Searcher`] reproduces Barrientos 2011, chapter 4: algorithms 11 to 13, 15 and 16, and
//!   sections 4.2.1 and 4.3. The command is `metric-index bench thesis --device cuda`.
//! * [`OneStage`] and [`TwoStage`] reproduce Barrientos et al. 2012, section VII, for several GPUs.
//!   The command is `metric-index bench multi-gpu --words FILE`.
//!
//! The searches support Euclidean distances between vectors, and edit distances between words of up
//! to 255 characters and queries of up to 64 characters. The points must fit into the memory of one
//! GPU.
//!
//! [`GpuSearch`]: metric_index::gpu::GpuSearch

use std::sync::Arc;

use gpu_runtime::{CudaStream, Device, GpuError, Pinned};

use crate::gpu::{are_finite, empty_lists, lists_of, zeros};
use metric_index::index::{Index, ListOfClusters};
use metric_index::lists::NeighborLists;
use metric_index::metric::{Formula, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;
use metric_index::prune::Bounds;

mod columns;
mod launch;
mod memory;
mod merge;
mod method;
mod one_stage;
mod two_stage;

pub use crate::gpu::TimedAnswers;
pub use columns::KernelPoint;
#[doc(hidden)]
pub use columns::{Columns, QueryFormat, Rows};
pub use method::{Method, Radii, learn_radii};
pub use one_stage::OneStage;
pub use two_stage::TwoStage;

use columns::WORD_BYTES;
use launch::{
    Batch, ErrorBounds, HeapSearch, Kernels, Pruning, RangeResults, Segments, Space, VectorSpace,
    WordSpace, address,
};

use memory::{DeviceClusters, DevicePivots, DevicePoints, DeviceQueries, upload};

/// Maximum number of queries per launch of a search that stores all distances.
const MAX_SORTED_QUERIES: u32 = 64;
/// Maximum number of queries per launch of a search with heaps.
const MAX_HEAP_QUERIES: u32 = 4096;
/// The bits of a key that contain the distance.
const DISTANCE_BITS: std::ops::Range<u32> = 32..64;

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

/// The share of one of several GPUs: every `gpus`-th item, starting with item `gpu`.
#[derive(Debug, Clone, Copy)]
struct Share {
    gpu: usize,
    gpus: usize,
}

/// The order of points in a List of Clusters.
#[derive(Debug)]
struct ClusterLayout {
    /// The centers, followed by the buckets.
    order: Vec<u32>,
    radii: Vec<f32>,
    /// The end of each bucket, relative to the start of the first bucket.
    ends: Vec<u32>,
}

impl Searcher {
    /// Copies points to a GPU for a brute-force search.
    ///
    /// A block has `threads` threads, a multiple of 32 up to 1,024. Returns `None` if the points or
    /// the distance are not supported.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics if the number of threads is invalid.
    pub fn brute<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
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
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics like [`brute`](Self::brute).
    pub fn clusters<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
        device: &Device,
        list: &ListOfClusters<S, M>,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        Self::share_of_clusters(device, list, threads, Share { gpu: 0, gpus: 1 })
    }

    /// Copies a share of the clusters to a GPU.
    ///
    /// The clusters keep their order, because a cluster that contains the query's ball excludes all
    /// later clusters.
    fn share_of_clusters<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
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
            ends.push(u32::try_from(buckets.len()).expect("not more clusters than points"));
        }
        let order: Vec<u32> = centers.iter().chain(&buckets).copied().collect();
        Self::with_clusters(device, list, &ClusterLayout { order, radii, ends }, threads)
    }

    /// Copies clusters with the given layout to a GPU.
    fn with_clusters<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
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
            radii: upload(device, stream, radii)?,
            ends: upload(device, stream, ends)?,
            cluster_of: upload(device, stream, &cluster_of)?,
            points: upload(device, stream, order)?,
        });
        Ok(Some(searcher))
    }

    /// Copies points and the table of their distances to pivots to a GPU.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics like [`brute`](Self::brute), and if a pivot is not the number of a point.
    pub fn pivots<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
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
            let distance_to = |point| metric.distance(pivot, points.point(point));
            distances.extend((0..searcher.count).map(distance_to));
        }
        let device = &searcher.device;
        let stream = &searcher.stream;
        searcher.pivots = Some(DevicePivots {
            count: u32::try_from(pivots.len()).expect("not more than points"),
            numbers: upload(device, stream, pivots)?,
            distances: upload(device, stream, &distances)?,
        });
        Ok(Some(searcher))
    }

    /// Copies points in the given order to a GPU.
    fn upload<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
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
                DevicePoints::Vectors { columns: upload(device, &stream, &values)?, dimension }
            }
            Columns::Words { characters, lengths, longest, alphabet } => DevicePoints::Words {
                columns: upload(device, &stream, &characters)?,
                lengths: upload(device, &stream, &lengths)?,
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

    /// Returns the pruning of a method, or `None` if the required data was not copied to the GPU.
    fn pruning(&self, method: Method) -> Option<Pruning> {
        let clusters = || Some(self.clusters.as_ref()?.addresses(&self.stream));
        let pivots = || Some(self.pivots.as_ref()?.addresses(&self.stream));
        Some(match method {
            // Clusters change the order of the points.
            Method::Brute | Method::Sort if self.clusters.is_none() => Pruning::None,
            Method::Brute | Method::Sort => return None,
            Method::Clusters => Pruning::Clusters(clusters()?),
            Method::ClustersDecreasing => Pruning::ClustersDecreasing(clusters()?),
            Method::Pivots => Pruning::Pivots(pivots()?),
            Method::PivotsShared => Pruning::PivotsShared(pivots()?),
        })
    }

    /// Copies queries to the GPU. Returns `None` if a query is not supported.
    fn rows<Q: Points<Point: KernelPoint>>(
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
                Some(DeviceQueries::Vectors(upload(&self.device, &self.stream, &rows)?))
            }
            Some(Rows::Words(rows)) => {
                Some(DeviceQueries::Words(upload(&self.device, &self.stream, &rows)?))
            }
        })
    }

    /// Returns the points, and the queries from `first` on, in the form that kernels read.
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
    /// Returns `None` if a query is not supported, if a distance is infinite, or if shared memory
    /// is too small. Also returns `None` if the method needs clusters or pivots that were not
    /// copied to the GPU.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics if there are 2^32 queries or more.
    pub fn range<Q: Points<Point: KernelPoint>>(
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
            return Ok((count == 0).then(TimedAnswers::default));
        }
        let batch = self.batch(&space, &pruning, count);
        self.range_answers(count, |results| {
            self.kernels.range(&self.stream, &batch, radius, results)
        })
    }

    /// Returns a batch of queries for this GPU.
    fn batch<'a, P>(&'a self, space: &'a Space, pruning: &'a P, queries: u32) -> Batch<'a, P> {
        Batch { space, pruning, errors: &self.errors, queries, threads: self.threads }
    }

    /// Launches a range search for `count` queries and returns the sorted neighbors.
    ///
    /// Launches again with more memory if the neighbors do not fit.
    fn range_answers(
        &self,
        count: u32,
        launch: impl Fn(&RangeResults) -> launch::LaunchResult,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let failed = self.device.step("answering range queries").failed();
        let stream = &self.stream;
        let mut capacity = 1024u32.min(self.count.max(1));
        loop {
            let mut counts = zeros::<u32>(stream, count as usize, self.device.step("counting"))?;
            let doing = self.device.step("allocating memory for neighbors");
            let neighbors = zeros::<u64>(stream, count as usize * capacity as usize, doing)?;
            let start = self.device.timer()?;
            let end = self.device.timer()?;
            start.record(stream).map_err(&failed)?;
            stream.memset_zeros(&mut counts).map_err(&failed)?;
            let results = RangeResults {
                counts: address(stream, &counts),
                neighbors: address(stream, &neighbors),
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
            let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
            let lists = keys.chunks(capacity as usize).zip(&counts);
            let lists = lists.map(|(keys, &count)| &keys[..count as usize]);
            if !lists.clone().all(are_finite) {
                return Ok(None);
            }
            let mut answers = NeighborLists::default();
            let mut near = Vec::new();
            for keys in lists {
                near.clear();
                near.extend_from_slice(Neighbor::from_keys(keys));
                near.sort_unstable();
                answers.push(Ok(&near));
            }
            let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
            return Ok(Some(TimedAnswers { answers, seconds }));
        }
    }

    /// Returns the k nearest points of each query.
    ///
    /// Returns `None` in the same cases as [`range`](Self::range), or if k is too large for shared
    /// memory.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics if there are 2^32 queries or more.
    pub fn nearest<Q: Points<Point: KernelPoint>>(
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
            let answers = empty_lists(queries.len());
            return Ok(Some(TimedAnswers { answers, seconds: 0.0 }));
        }
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let max_queries =
            if method == Method::Sort { MAX_SORTED_QUERIES } else { MAX_HEAP_QUERIES };
        let mut answers = NeighborLists::default();
        let mut seconds = 0.0;
        for first in (0..count).step_by(max_queries as usize) {
            let space = self.space(&rows, first);
            let batch = self.batch(&space, &pruning, max_queries.min(count - first));
            let result = if method == Method::Sort {
                self.sort_distances(&batch, k)?
            } else {
                self.search_heaps(&batch, k, radii)?
            };
            seconds += result.seconds;
            if !are_finite(&result.keys) {
                return Ok(None);
            }
            answers.append(&lists_of(&result.keys, k));
        }
        Ok(Some(TimedAnswers { answers, seconds }))
    }

    /// Computes all distances and sorts them.
    fn sort_distances(&self, batch: &Batch<'_, Pruning>, k: u32) -> Result<TimedKeys, GpuError> {
        let failed = self.device.step("sorting distances").failed();
        let stream = &self.stream;
        let doing = self.device.step("allocating memory for distances");
        let queries = batch.queries as usize;
        let length = queries * self.count as usize;
        let mut keys = zeros::<u64>(stream, length, doing)?;
        let mut scratch = zeros::<u64>(stream, length, doing)?;
        let segments = Segments { length: self.count, count: batch.queries };
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        start.record(stream).map_err(&failed)?;
        self.kernels.all_distances(stream, batch.space, segments, &mut keys).map_err(&failed)?;
        // The points are in the order of their numbers and the sort is stable, so sorting by
        // distance suffices.
        self.kernels
            .sort(stream, segments, DISTANCE_BITS, &mut keys, &mut scratch)
            .map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let mut nearest = Vec::with_capacity(queries * k as usize);
        let mut pinned = Pinned::<u64>::new(&self.device);
        for query in 0..queries {
            let first = query * self.count as usize;
            let to = pinned.get(k as usize)?;
            stream.memcpy_dtoh(&keys.slice(first..first + k as usize), to).map_err(&failed)?;
            stream.synchronize().map_err(&failed)?;
            nearest.extend_from_slice(to);
        }
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(TimedKeys { keys: nearest, seconds })
    }

    /// Searches with heaps, in at most two launches.
    ///
    /// The first launch searches within the first radius for all queries. The second launch
    /// continues with larger radii for the queries that have fewer than k neighbors.
    fn search_heaps(
        &self,
        batch: &Batch<'_, Pruning>,
        k: u32,
        radii: Radii,
    ) -> Result<TimedKeys, GpuError> {
        let failed = self.device.step("searching with heaps").failed();
        let stream = &self.stream;
        let queries = batch.queries as usize;
        let doing = self.device.step("allocating memory for heaps");
        let per_block = self.threads as usize * k as usize;
        let heaps = zeros::<u64>(stream, queries * per_block, doing)?;
        let neighbors = zeros::<u64>(stream, queries * k as usize, doing)?;
        let numbers: Vec<u32> = (0..batch.queries).collect();
        let all_queries = upload(&self.device, stream, &numbers)?;
        let pending = zeros::<u32>(stream, queries, doing)?;
        let pending_count = zeros::<u32>(stream, 1, doing)?;
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        start.record(stream).map_err(&failed)?;
        let mut search = HeapSearch {
            heaps: address(stream, &heaps),
            queries: address(stream, &all_queries),
            neighbors: address(stream, &neighbors),
            pending: address(stream, &pending),
            pending_count: address(stream, &pending_count),
            first: radii.first,
            step: radii.step,
            k,
            launch: 0,
        };
        self.kernels.nearest(stream, batch, &search).map_err(&failed)?;
        let remaining = stream.clone_dtoh(&pending_count).map_err(&failed)?[0];
        if remaining > 0 {
            search.queries = address(stream, &pending);
            search.launch = 1;
            let next = radii.first + radii.step;
            search.first = if next > radii.first { next } else { f32::INFINITY };
            let rest = Batch { queries: remaining, ..*batch };
            self.kernels.nearest(stream, &rest, &search).map_err(&failed)?;
        }
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(TimedKeys { keys, seconds })
    }
}

/// The keys of the k nearest points of each query, and the time in kernels.
#[derive(Debug)]
struct TimedKeys {
    keys: Vec<u64>,
    seconds: f64,
}
