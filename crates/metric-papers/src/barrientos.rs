//! The searches of Barrientos 2011, chapter 4, as they stand there, for comparison: a block of threads answers a query. [`GpuSearch`] is
//! faster.
//!
//! They need a distance that [`GpuSearch`] takes (Euclidean distances of vectors, edit distances of words of up to 255 and queries of up
//! to 64 characters) and points that fit on one GPU.
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

pub use columns::InColumns;
#[doc(hidden)]
pub use columns::{Columns, Like, Rows};
pub use one_stage::OneStage;
pub use two_stage::TwoStage;

use columns::WORD_BYTES;
use launch::{By, Clusters, Errors, HeapSearch, Kernels, Space, VectorSpace, WordSpace, address};

/// The most queries of a launch of a search that keeps all distances.
const SORTED_AT_ONCE: u32 = 64;
/// The most queries of a launch of a search with heaps.
const HEAPS_AT_ONCE: u32 = 4096;

/// What excludes points.
///
/// ```
/// assert_ne!(metric_papers::barrientos::Method::Brute, metric_papers::barrientos::Method::Clusters);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Nothing: algorithm 11, and for nearest neighbors a heap for each thread.
    Brute,
    /// For nearest neighbors: all distances are sorted (section 4.2.1). For range queries the same as `Brute`.
    Sort,
    /// A List of Clusters: algorithms 12 and 15.
    Clusters,
    /// The same with a decreasing radius (figure 4.3). For range queries the same as `Clusters`.
    ClustersDecreasing,
    /// A table of the distances from pivots: algorithms 13 and 16.
    Pivots,
    /// The same with the pivots of a point shared by the threads of a warp. For nearest neighbors the same as `Pivots`.
    PivotsShared,
}

/// How a search with an increasing radius begins: see [`learn_radii`].
///
/// ```
/// let radii = metric_papers::barrientos::Radii { first: 1.0, step: 1.0 };
/// assert!(radii.step > 0.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Radii {
    /// The radius of the first launch.
    pub first: f32,
    /// What is added to it until k neighbors are found.
    pub step: f32,
}

/// Learns radii from a hundredth of the points: the first is the median of the distances of their k-th neighbors, the step
/// the difference between their ninth decile and that.
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
/// If a point has no distance from another.
pub fn learn_radii<I: Index>(index: &I, k: usize) -> Result<Radii, metric_index::error::Error> {
    let points = index.points();
    let step = (points.len() / (points.len() / 100).clamp(1, 1000)).max(1);
    let sample = Subset::every(points, 0, step);
    let threads = std::thread::available_parallelism().unwrap_or(std::num::NonZero::<usize>::MIN);
    let mut radii = Vec::with_capacity(sample.len());
    // The point itself is the first.
    for found in &index.nearest_many(&sample, k.saturating_add(1), threads) {
        radii.extend(found?.last().map(|near| near.distance));
    }
    radii.sort_unstable_by(f32::total_cmp);
    let share = |tenths: usize| radii.get(radii.len() * tenths / 10).copied().unwrap_or(0.0);
    let first = share(5);
    let least = if first > 0.0 { first / 8.0 } else { 1.0 };
    Ok(Radii { first, step: (share(9) - first).max(least) })
}

/// Points on a GPU, in the order of what excludes them.
#[derive(Debug)]
pub struct Searcher {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    points: Stored,
    count: u32,
    errors: Errors,
    threads: u32,
    clusters: Option<StoredClusters>,
    pivots: Option<StoredPivots>,
}

#[derive(Debug)]
enum Stored {
    Vectors { columns: CudaSlice<f32>, dimension: u32 },
    Words { columns: CudaSlice<u8>, lengths: CudaSlice<u8>, longest: u32, alphabet: Box<Alphabet> },
}

#[derive(Debug)]
struct StoredClusters {
    radii: CudaSlice<f32>,
    ends: CudaSlice<u32>,
    cluster_of: CudaSlice<u32>,
    points: CudaSlice<u32>,
    count: u32,
}

#[derive(Debug)]
struct StoredPivots {
    numbers: CudaSlice<u32>,
    distances: CudaSlice<f32>,
    count: u32,
}

/// The answers to queries, and the time of the kernels in seconds.
pub type Timed = (Vec<Vec<Neighbor>>, f64);

impl Searcher {
    /// Points without anything that excludes them; `None` if they are not taken. A block has `threads` threads, a multiple of 32 up
    /// to 1,024.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If the number of threads is none of those.
    pub fn brute<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        points: &S,
        metric: &M,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let Ok(count) = u32::try_from(points.len()) else { return Ok(None) };
        let order: Vec<u32> = (0..count).collect();
        Self::upload(device, (points, metric), &order, threads)
    }

    /// The points of a List of Clusters.
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
        Self::share_of_clusters(device, list, threads, (0, 1))
    }

    /// The clusters `first`, `first + step`, … of a List of Clusters: those of a GPU of several, in their order, so that a cluster that
    /// holds the query's ball still excludes the later ones.
    fn share_of_clusters<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        list: &ListOfClusters<S, M>,
        threads: u32,
        (first, step): (usize, usize),
    ) -> Result<Option<Self>, GpuError> {
        let (mut centers, mut radii, mut ends, mut bucket) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for cluster in list.clusters().skip(first).step_by(step) {
            centers.push(cluster.center);
            radii.push(cluster.radius);
            bucket.extend_from_slice(cluster.bucket);
            ends.push(u32::try_from(bucket.len()).expect("not more than points"));
        }
        let order: Vec<u32> = centers.iter().chain(&bucket).copied().collect();
        Self::of_clusters(device, (list.points(), list.metric()), &order, (&radii, &ends), threads)
    }

    /// Clusters of given radii: `order` has their centers, then their buckets, which end at `ends`.
    fn of_clusters<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        points: (&S, &M),
        order: &[u32],
        (radii, ends): (&[f32], &[u32]),
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let Some(mut searcher) = Self::upload(device, points, order, threads)? else {
            return Ok(None);
        };
        let mut cluster_of = Vec::with_capacity(order.len() - radii.len());
        let mut start = 0;
        for (cluster, &end) in (0u32..).zip(ends) {
            cluster_of.extend((start..end).map(|_| cluster));
            start = end;
        }
        let (device, stream) = (&searcher.device, &searcher.stream);
        searcher.clusters = Some(StoredClusters {
            count: u32::try_from(radii.len()).expect("not more than points"),
            radii: copied(device, stream, radii)?,
            ends: copied(device, stream, ends)?,
            cluster_of: copied(device, stream, &cluster_of)?,
            points: copied(device, stream, order)?,
        });
        Ok(Some(searcher))
    }

    /// Points and a table of their distances from some of them.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// As [`brute`](Self::brute), or if a pivot is no point.
    pub fn pivots<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        (points, metric): (&S, &M),
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
        let (device, stream) = (&searcher.device, &searcher.stream);
        searcher.pivots = Some(StoredPivots {
            count: u32::try_from(pivots.len()).expect("not more than points"),
            numbers: copied(device, stream, pivots)?,
            distances: copied(device, stream, &distances)?,
        });
        Ok(Some(searcher))
    }

    fn upload<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        device: &Device,
        (points, metric): (&S, &M),
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
                Stored::Vectors { columns: copied(device, &stream, &values)?, dimension }
            }
            Columns::Words { characters, lengths, longest, alphabet } => Stored::Words {
                columns: copied(device, &stream, &characters)?,
                lengths: copied(device, &stream, &lengths)?,
                longest,
                alphabet,
            },
        };
        let bounds = Bounds::of(metric);
        let (relative, absolute) = (bounds.relative_error(), bounds.absolute_error());
        Ok(Some(Self {
            kernels: Kernels::load(device, name)?,
            device: device.clone(),
            stream,
            points,
            count: u32::try_from(order.len()).expect("not more than points"),
            errors: Errors { relative, absolute },
            threads,
            clusters: None,
            pivots: None,
        }))
    }

    fn by(&self, method: Method) -> Option<By> {
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
            Method::Brute | Method::Sort if self.clusters.is_none() => By::Nothing,
            Method::Brute | Method::Sort => return None,
            Method::Clusters => By::Clusters(clusters()?),
            Method::ClustersDecreasing => By::ClustersDecreasing(clusters()?),
            Method::Pivots => By::Pivots(pivots()?),
            Method::PivotsShared => By::PivotsShared(pivots()?),
        })
    }

    /// Copies queries to the GPU.
    fn rows<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
    ) -> Result<Option<RowsThere>, GpuError> {
        let like = match &self.points {
            Stored::Vectors { dimension, .. } => Like::Vectors(*dimension),
            Stored::Words { alphabet, .. } => Like::Words(alphabet),
        };
        Ok(match Q::Point::rows(queries, &like) {
            None => None,
            Some(Rows::Vectors(rows)) => {
                Some(RowsThere::Vectors(copied(&self.device, &self.stream, &rows)?))
            }
            Some(Rows::Words(rows)) => {
                Some(RowsThere::Words(copied(&self.device, &self.stream, &rows)?))
            }
        })
    }

    /// The points, and the queries from `first` on.
    fn space(&self, rows: &RowsThere, first: u32) -> Space {
        match (&self.points, rows) {
            (Stored::Vectors { columns, dimension }, RowsThere::Vectors(rows)) => {
                let before = 4 * u64::from(first) * u64::from(*dimension);
                Space::Vectors(VectorSpace {
                    columns: address(&self.stream, columns),
                    queries: address(&self.stream, rows) + before,
                    count: self.count,
                    dimension: *dimension,
                })
            }
            (Stored::Words { columns, lengths, longest, .. }, RowsThere::Words(rows)) => {
                Space::Words(WordSpace {
                    columns: address(&self.stream, columns),
                    lengths: address(&self.stream, lengths),
                    queries: address(&self.stream, rows) + u64::from(first) * WORD_BYTES as u64,
                    count: self.count,
                    longest: *longest,
                })
            }
            _ => unreachable!("`rows` makes queries like the points"),
        }
    }

    /// The points within a radius of each query. `None` if the method needs what was not uploaded, or a query is not taken.
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
    ) -> Result<Option<Timed>, GpuError> {
        let (Some(by), Some(rows)) = (self.by(method), self.rows(queries)?) else {
            return Ok(None);
        };
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let space = self.space(&rows, 0);
        if space.query_bytes() + by.range_bytes() > self.kernels.shared || count == 0 {
            return Ok((count == 0).then(|| (Vec::new(), 0.0)));
        }
        let asked = (count, self.threads, radius);
        self.gathered(count, |there| {
            let by = (&space, &by, &self.errors);
            launch::range(&self.kernels, &self.stream, by, asked, there)
        })
    }

    /// The neighbors that a launch reports for so many queries, sorted. It is launched again with more room if there are more.
    fn gathered(
        &self,
        count: u32,
        launch: impl Fn(&launch::Found) -> launch::Launched,
    ) -> Result<Option<Timed>, GpuError> {
        let (failed, stream) =
            (self.device.doing("answering range queries").failed(), &self.stream);
        let mut room = 1024u32.min(self.count.max(1));
        loop {
            let mut counts = zeros::<u32>(stream, count as usize, self.device.doing("counting"))?;
            let doing = self.device.doing("allocating memory for neighbors");
            let found = zeros::<u64>(stream, count as usize * room as usize, doing)?;
            let (start, end) = (self.device.timer()?, self.device.timer()?);
            start.record(stream).map_err(&failed)?;
            stream.memset_zeros(&mut counts).map_err(&failed)?;
            let there = launch::Found {
                counts: address(stream, &counts),
                neighbors: address(stream, &found),
                room,
            };
            launch(&there).map_err(&failed)?;
            end.record(stream).map_err(&failed)?;
            let counts = stream.clone_dtoh(&counts).map_err(&failed)?;
            let most = counts.iter().copied().max().unwrap_or(0);
            if most > room {
                room = most;
                continue;
            }
            let keys = stream.clone_dtoh(&found).map_err(&failed)?;
            let own = keys.chunks(room as usize).zip(&counts);
            if !own.clone().all(|(keys, &count)| are_finite(&keys[..count as usize])) {
                return Ok(None);
            }
            let answer = |(keys, &count): (&[u64], &u32)| {
                let mut near = Neighbor::from_keys(&keys[..count as usize]).to_vec();
                near.sort_unstable();
                near
            };
            let answers = own.map(answer).collect();
            let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
            return Ok(Some((answers, seconds)));
        }
    }

    /// The k nearest points of each query. `None` as [`range`](Self::range), or if k is too large for shared memory.
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
    ) -> Result<Option<Timed>, GpuError> {
        let (Some(by), Some(rows)) = (self.by(method), self.rows(queries)?) else {
            return Ok(None);
        };
        let k = k.min(self.count);
        let shared = self.space(&rows, 0).query_bytes() + by.heap_bytes(k, self.threads);
        if shared > self.kernels.shared {
            return Ok(None);
        }
        if k == 0 {
            return Ok(Some((vec![Vec::new(); queries.len()], 0.0)));
        }
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let at_once = if method == Method::Sort { SORTED_AT_ONCE } else { HEAPS_AT_ONCE };
        let (mut answers, mut seconds) = (Vec::with_capacity(queries.len()), 0.0);
        for first in (0..count).step_by(at_once as usize) {
            let space = self.space(&rows, first);
            let some = at_once.min(count - first);
            let (keys, time) = if method == Method::Sort {
                self.sorted(&space, some, k)?
            } else {
                self.by_heaps(&space, &by, some, k, radii)?
            };
            seconds += time;
            if !are_finite(&keys) {
                return Ok(None);
            }
            answers.extend(keys.chunks(k as usize).map(nearest_of));
        }
        Ok(Some((answers, seconds)))
    }

    /// All distances, sorted.
    fn sorted(&self, space: &Space, queries: u32, k: u32) -> Result<(Vec<u64>, f64), GpuError> {
        let (failed, stream) = (self.device.doing("sorting distances").failed(), &self.stream);
        let doing = self.device.doing("allocating memory for distances");
        let length = queries as usize * self.count as usize;
        let mut keys = zeros::<u64>(stream, length, doing)?;
        let mut other = zeros::<u64>(stream, length, doing)?;
        let (start, end) = (self.device.timer()?, self.device.timer()?);
        start.record(stream).map_err(&failed)?;
        launch::all_distances(&self.kernels, stream, space, (self.count, queries), &mut keys)
            .map_err(&failed)?;
        // The points are in order, and the sort is stable: by distance is enough.
        let segments = (self.count, queries);
        launch::sort(&self.kernels, stream, segments, (32, 64), &mut keys, &mut other)
            .map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let mut nearest = Vec::with_capacity(queries as usize * k as usize);
        let mut pinned = Pinned::<u64>::new(&self.device);
        for query in 0..queries as usize {
            let from = query * self.count as usize;
            let to = pinned.get(k as usize)?;
            stream.memcpy_dtoh(&keys.slice(from..from + k as usize), to).map_err(&failed)?;
            stream.synchronize().map_err(&failed)?;
            nearest.extend_from_slice(to);
        }
        Ok((nearest, f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3))
    }

    /// Two launches: all queries with the first radius, then those that have found fewer than k.
    fn by_heaps(
        &self,
        space: &Space,
        by: &By,
        queries: u32,
        k: u32,
        radii: Radii,
    ) -> Result<(Vec<u64>, f64), GpuError> {
        let (failed, stream) = (self.device.doing("searching with heaps").failed(), &self.stream);
        let doing = self.device.doing("allocating memory for heaps");
        let per_block = self.threads as usize * k as usize;
        let heaps = zeros::<u64>(stream, queries as usize * per_block, doing)?;
        let neighbors = zeros::<u64>(stream, queries as usize * k as usize, doing)?;
        let numbers: Vec<u32> = (0..queries).collect();
        let all = copied(&self.device, stream, &numbers)?;
        let pending = zeros::<u32>(stream, queries as usize, doing)?;
        let pending_count = zeros::<u32>(stream, 1, doing)?;
        let (start, end) = (self.device.timer()?, self.device.timer()?);
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
        let asked = (space, by, &self.errors);
        launch::nearest(&self.kernels, stream, asked, (queries, self.threads), &search)
            .map_err(&failed)?;
        let left = stream.clone_dtoh(&pending_count).map_err(&failed)?[0];
        if left > 0 {
            search.queries = address(stream, &pending);
            search.launch = 1;
            let next = radii.first + radii.step;
            search.first = if next > radii.first { next } else { f32::INFINITY };
            launch::nearest(&self.kernels, stream, asked, (left, self.threads), &search)
                .map_err(&failed)?;
        }
        end.record(stream).map_err(&failed)?;
        let nearest = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        Ok((nearest, f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3))
    }
}

/// The neighbors before the keys that stand for none.
fn nearest_of(keys: &[u64]) -> Vec<Neighbor> {
    let found = keys.iter().position(|&key| key == u64::MAX).unwrap_or(keys.len());
    Neighbor::from_keys(&keys[..found]).to_vec()
}

/// Queries on the GPU.
#[derive(Debug)]
enum RowsThere {
    Vectors(CudaSlice<f32>),
    Words(CudaSlice<u8>),
}

/// Copies values; the driver does not take none.
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
