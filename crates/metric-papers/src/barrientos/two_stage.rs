//! The 2-Stage search of Barrientos et al. 2012, section VII-A: the GPUs first exchange the
//! clusters or distances that each query needs.

use gpu_runtime::{CudaSlice, Device, GpuError, on_each};

use super::launch::{Batch, HeapSearch, Space, Stage, StagePruning, address};
use super::memory::{DevicePivots, DeviceQueries, upload};
use super::merge::merge_answers;
use super::method::Radii;
use super::{ClusterLayout, KernelPoint, MAX_HEAP_QUERIES, Searcher, TimedAnswers};
use crate::gpu::{are_finite, empty_lists, lists_of, zeros};
use metric_index::index::{Index, ListOfClusters};
use metric_index::lists::NeighborLists;
use metric_index::metric::Metric;
use metric_index::points::Points;

/// The *2-Stage* search of Barrientos et al. 2012 (section VII-A).
///
/// Clusters, or points with their pivots, are distributed over several GPUs. Every GPU has all
/// centers or pivots.
///
/// In the first stage, each GPU compares its share of the queries with the centers or pivots. The
/// output is the clusters to search, or the distances to the pivots. In the second stage, each GPU
/// searches its points for every query.
#[derive(Debug)]
pub struct TwoStage {
    shards: Vec<Searcher>,
    /// Number of points on all GPUs.
    count: u32,
}

/// The results of the first stage on one GPU.
#[derive(Debug)]
struct FirstStage {
    queries: Vec<u32>,
    /// For each query, one bit per cluster or one distance per pivot.
    words: Vec<u32>,
    /// The time in kernels, in seconds.
    seconds: f64,
}

/// The results of the first stage of one GPU, in the memory of another GPU.
#[derive(Debug)]
struct DeviceFirstStage {
    queries: CudaSlice<u32>,
    words: CudaSlice<u32>,
    count: u32,
}

impl TwoStage {
    /// Distributes a List of Clusters over several GPUs.
    ///
    /// Returns `None` in the same cases as [`Searcher::clusters`], or if there are no GPUs.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    ///
    /// # Panics
    /// Panics like [`Searcher::brute`].
    pub fn clusters<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
        devices: &[Device],
        list: &ListOfClusters<S, M>,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let centers: Vec<u32> = list.clusters().map(|cluster| cluster.center).collect();
        let radii: Vec<f32> = list.clusters().map(|cluster| cluster.radius).collect();
        let mut shards = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            // All centers, followed by the clusters of this GPU. The second stage searches only
            // buckets, so each bucket repeats its center.
            let mut order = centers.clone();
            let mut ends = Vec::with_capacity(centers.len());
            for (number, cluster) in list.clusters().enumerate() {
                if number % devices.len() == gpu {
                    order.push(cluster.center);
                    order.extend_from_slice(cluster.bucket);
                }
                ends.push(u32::try_from(order.len() - centers.len()).expect("fewer than 2^32"));
            }
            let layout = ClusterLayout { order, radii: radii.clone(), ends };
            let Some(searcher) = Searcher::with_clusters(device, list, &layout, threads)? else {
                return Ok(None);
            };
            shards.push(searcher);
        }
        let count = u32::try_from(list.len()).expect("fewer than 2^32 points");
        Ok((!shards.is_empty()).then_some(Self { shards, count }))
    }

    /// Distributes the points of an SSS-Index with the given pivots over several GPUs.
    ///
    /// Returns `None` in the same cases as [`Searcher::pivots`], or if there are no GPUs.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    ///
    /// # Panics
    /// Panics like [`Searcher::pivots`].
    pub fn pivots<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
        devices: &[Device],
        points: &S,
        metric: &M,
        pivots: &[u32],
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let count = u32::try_from(points.len()).expect("fewer than 2^32 points");
        let mut shards = Vec::new();
        for (gpu, device) in (0..).zip(devices) {
            let shard_points: Vec<u32> = (gpu..count).step_by(devices.len()).collect();
            let order: Vec<u32> = pivots.iter().chain(&shard_points).copied().collect();
            let uploaded = Searcher::upload(device, points, metric, &order, threads)?;
            let Some(mut searcher) = uploaded else { return Ok(None) };
            let mut distances = Vec::with_capacity(pivots.len() * shard_points.len());
            for &pivot in pivots {
                let pivot = points.point(pivot);
                distances
                    .extend(shard_points.iter().map(|&x| metric.distance(pivot, points.point(x))));
            }
            // Point j after the pivots has the number `numbers[j]`.
            searcher.pivots = Some(DevicePivots {
                count: u32::try_from(pivots.len()).expect("not more than points"),
                numbers: upload(device, &searcher.stream, &shard_points)?,
                distances: upload(device, &searcher.stream, &distances)?,
            });
            shards.push(searcher);
        }
        Ok((!shards.is_empty()).then_some(Self { shards, count }))
    }

    /// Returns the same answers as [`Searcher::range`]. The time of each stage is the time of the
    /// slowest GPU.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    ///
    /// # Panics
    /// Panics like [`Searcher::range`].
    pub fn range<Q: Points<Point: KernelPoint>>(
        &self,
        queries: &Q,
        radius: f32,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let Some(searches) = self.searches(queries, |_| 0)? else { return Ok(None) };
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        if count == 0 {
            return Ok(Some(TimedAnswers::default()));
        }
        let all_queries: Vec<u32> = (0..count).collect();
        let stages = first_stages(&searches, &all_queries, radius)?;
        let answers = on_each(&searches, |search| search.range(count, radius, &stages));
        let answers = merge_answers(answers, usize::MAX, |_, near| near)?;
        let seconds = slowest(&stages);
        Ok(answers.map(|answers| TimedAnswers { seconds: seconds + answers.seconds, ..answers }))
    }

    /// Returns the same answers as [`Searcher::nearest`]. The time of each stage is the time of the
    /// slowest GPU.
    ///
    /// Both stages run with the first radius. They run again with a larger radius for the queries
    /// with fewer than k neighbors. The step doubles each time.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    ///
    /// # Panics
    /// Panics like [`Searcher::nearest`].
    pub fn nearest<Q: Points<Point: KernelPoint>>(
        &self,
        queries: &Q,
        k: u32,
        radii: Radii,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let k = k.min(self.count);
        let heap = |searcher: &Searcher| searcher.stage_pruning().heap_bytes(k, searcher.threads);
        let Some(searches) = self.searches(queries, heap)? else { return Ok(None) };
        if k == 0 {
            let answers = empty_lists(queries.len());
            return Ok(Some(TimedAnswers { answers, seconds: 0.0 }));
        }
        // The answers of each round, and the position of each query's answer.
        let mut rounds: Vec<NeighborLists> = Vec::new();
        let mut positions = vec![AnswerPosition::default(); queries.len()];
        let mut seconds = 0.0;
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let mut pending: Vec<u32> = (0..count).collect();
        let mut radius = radii.first;
        let mut step = radii.step;
        while !pending.is_empty() {
            let stages = first_stages(&searches, &pending, radius)?;
            // The order in which the second stage returns the queries.
            let order: Vec<u32> = stages.iter().flat_map(|stage| &stage.queries).copied().collect();
            let parts = on_each(&searches, |search| search.nearest(k, radius, &stages));
            let Some(merged) = merge_answers(parts, k as usize, |_, near| near)? else {
                return Ok(None);
            };
            seconds += slowest(&stages) + merged.seconds;
            pending.clear();
            for (position, (query, list)) in order.into_iter().zip(&merged.answers).enumerate() {
                if list.unwrap_or_default().len() >= k as usize || radius.is_infinite() {
                    positions[query as usize] = AnswerPosition { round: rounds.len(), position };
                } else {
                    pending.push(query);
                }
            }
            rounds.push(merged.answers);
            let next = radius + step;
            radius = if next > radius { next } else { f32::INFINITY };
            step *= 2.0;
        }
        let mut answers = NeighborLists::default();
        for AnswerPosition { round, position } in positions {
            answers.push(rounds[round].get(position));
        }
        Ok(Some(TimedAnswers { answers, seconds }))
    }

    /// Copies the queries to every GPU.
    ///
    /// Returns `None` if a query is not supported. Also returns `None` if shared memory is too
    /// small for a query and the bytes that `more` returns.
    fn searches<Q: Points<Point: KernelPoint>>(
        &self,
        queries: &Q,
        more: impl Fn(&Searcher) -> usize,
    ) -> Result<Option<Vec<ShardSearch<'_>>>, GpuError> {
        let mut searches = Vec::new();
        for searcher in &self.shards {
            let Some(rows) = searcher.rows(queries)? else { return Ok(None) };
            let space = searcher.space(&rows, 0);
            let pruning = searcher.stage_pruning();
            let bytes = space.query_bytes() + pruning.bytes().max(more(searcher));
            if bytes > searcher.kernels.shared {
                return Ok(None);
            }
            searches.push(ShardSearch { searcher, space, pruning, _rows: rows });
        }
        Ok(Some(searches))
    }
}

impl Searcher {
    /// Returns the pruning of a 2-Stage search.
    fn stage_pruning(&self) -> StagePruning {
        match (&self.clusters, &self.pivots) {
            (Some(clusters), _) => StagePruning::Clusters(clusters.addresses(&self.stream)),
            (None, Some(pivots)) => StagePruning::Pivots(pivots.addresses(&self.stream)),
            (None, None) => unreachable!("both constructors of `TwoStage` set one"),
        }
    }
}

/// The position of the answer to a query.
#[derive(Debug, Clone, Copy, Default)]
struct AnswerPosition {
    round: usize,
    position: usize,
}

/// A search on one GPU for queries in its memory.
#[derive(Debug)]
struct ShardSearch<'a> {
    searcher: &'a Searcher,
    space: Space,
    pruning: StagePruning,
    /// Owns the memory to which `space` points.
    _rows: DeviceQueries,
}

impl ShardSearch<'_> {
    fn batch(&self, queries: u32) -> Batch<'_, StagePruning> {
        self.searcher.batch(&self.space, &self.pruning, queries)
    }

    /// Runs the first stage for some queries.
    fn first_stage(&self, queries: Vec<u32>, radius: f32) -> Result<FirstStage, GpuError> {
        let Searcher { device, stream, kernels, .. } = self.searcher;
        let failed = device.step("searching, first stage").failed();
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        if count == 0 {
            return Ok(FirstStage { queries, words: Vec::new(), seconds: 0.0 });
        }
        let width = self.pruning.width();
        let doing = device.step("allocating memory for the first stage");
        let length = count as usize * width as usize;
        // The driver rejects empty allocations.
        let words = zeros::<u32>(stream, length.max(1), doing)?;
        let numbers = upload(device, stream, &queries)?;
        let stage =
            Stage { queries: address(stream, &numbers), words: address(stream, &words), width };
        let start = device.timer()?;
        let end = device.timer()?;
        start.record(stream).map_err(&failed)?;
        kernels.first_stage(stream, &self.batch(count), radius, &stage).map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let mut words = stream.clone_dtoh(&words).map_err(&failed)?;
        words.truncate(length);
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(FirstStage { queries, words, seconds })
    }

    /// Copies the results of all first stages to this GPU.
    fn copy_stages(&self, stages: &[FirstStage]) -> Result<Vec<DeviceFirstStage>, GpuError> {
        let Searcher { device, stream, .. } = self.searcher;
        let stages = stages.iter().filter(|stage| !stage.queries.is_empty());
        stages
            .map(|stage| {
                Ok(DeviceFirstStage {
                    queries: upload(device, stream, &stage.queries)?,
                    words: upload(device, stream, &stage.words)?,
                    count: u32::try_from(stage.queries.len()).expect("fewer than 2^32 queries"),
                })
            })
            .collect()
    }

    /// Returns the results of a first stage, from query `first` on, in the form that kernels read.
    fn stage(&self, stage: &DeviceFirstStage, first: u32) -> Stage {
        let stream = &self.searcher.stream;
        let width = self.pruning.width();
        Stage {
            queries: address(stream, &stage.queries) + 4 * u64::from(first),
            words: address(stream, &stage.words) + 4 * u64::from(first) * u64::from(width),
            width,
        }
    }

    /// Runs the second stage of range queries, with one launch per first stage.
    fn range(
        &self,
        count: u32,
        radius: f32,
        stages: &[FirstStage],
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let Searcher { stream, kernels, .. } = self.searcher;
        let stages = self.copy_stages(stages)?;
        self.searcher.range_answers(count, |results| {
            stages.iter().try_for_each(|stage| {
                let batch = self.batch(stage.count);
                kernels.second_range(stream, &batch, radius, &self.stage(stage, 0), results)
            })
        })
    }

    /// Runs the second stage of nearest-neighbor queries within a radius.
    fn nearest(
        &self,
        k: u32,
        radius: f32,
        stages: &[FirstStage],
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let Searcher { device, stream, kernels, threads, .. } = self.searcher;
        let failed = device.step("searching, second stage").failed();
        let stages = self.copy_stages(stages)?;
        let count: u32 = stages.iter().map(|stage| stage.count).sum();
        let max_queries = count.min(MAX_HEAP_QUERIES);
        let doing = device.step("allocating memory for heaps");
        let per_block = *threads as usize * k as usize;
        let heaps = zeros::<u64>(stream, max_queries as usize * per_block, doing)?;
        let neighbors = zeros::<u64>(stream, count as usize * k as usize, doing)?;
        let positions = upload(device, stream, &(0..max_queries).collect::<Vec<u32>>())?;
        let start = device.timer()?;
        let end = device.timer()?;
        start.record(stream).map_err(&failed)?;
        let mut done = 0;
        for stage in &stages {
            for first in (0..stage.count).step_by(MAX_HEAP_QUERIES as usize) {
                let batch = self.batch(MAX_HEAP_QUERIES.min(stage.count - first));
                let search = HeapSearch {
                    heaps: address(stream, &heaps),
                    queries: address(stream, &positions),
                    neighbors: address(stream, &neighbors) + 8 * u64::from(done) * u64::from(k),
                    pending: 0,
                    pending_count: 0,
                    first: radius,
                    step: 0.0,
                    k,
                    launch: 1,
                };
                kernels
                    .second_nearest(stream, &batch, &self.stage(stage, first), &search)
                    .map_err(&failed)?;
                done += batch.queries;
            }
        }
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        if !are_finite(&keys) {
            return Ok(None);
        }
        Ok(Some(TimedAnswers { answers: lists_of(&keys, k), seconds }))
    }
}

/// Distributes queries over the GPUs, and runs the first stage on all of them concurrently.
fn first_stages(
    searches: &[ShardSearch<'_>],
    queries: &[u32],
    radius: f32,
) -> Result<Vec<FirstStage>, GpuError> {
    let numbered: Vec<_> = searches.iter().enumerate().collect();
    let stages = on_each(&numbered, |&(gpu, search)| {
        let share = queries.iter().skip(gpu).step_by(searches.len());
        search.first_stage(share.copied().collect(), radius)
    });
    stages.into_iter().collect()
}

/// Returns the time of the slowest GPU in the first stage.
fn slowest(stages: &[FirstStage]) -> f64 {
    stages.iter().map(|stage| stage.seconds).fold(0.0, f64::max)
}
