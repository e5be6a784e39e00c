//! The 1-Stage search of Barrientos et al. 2012, section VII: each GPU answers every query from its
//! share of the points.

use gpu_runtime::{Device, GpuError, on_each};

use super::merge::merge_answers;
use super::{KernelPoint, Method, Radii, Searcher, Share, TimedAnswers};
use metric_index::index::ListOfClusters;
use metric_index::metric::Metric;
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Subset};

/// The *1-Stage* search of Barrientos et al. 2012 (section VII).
///
/// Clusters, or points with their pivots, are distributed over several GPUs. Each GPU answers every
/// query, and the answers are merged.
#[derive(Debug)]
pub struct OneStage {
    shards: Vec<Shard>,
    /// Number of GPUs, including GPUs without points.
    gpus: u32,
}

/// The points of one GPU.
#[derive(Debug)]
struct Shard {
    searcher: Searcher,
    /// The number of the shard's first point among all points; its other points follow at intervals
    /// of `gpus`. `None` if the search returns numbers among all points.
    first: Option<u32>,
}

impl OneStage {
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
        let clusters = list.clusters().len();
        let mut shards = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            if gpu > 0 && gpu >= clusters {
                // There are fewer clusters than GPUs.
                break;
            }
            let share = Share { gpu, gpus: devices.len() };
            let Some(searcher) = Searcher::share_of_clusters(device, list, threads, share)? else {
                return Ok(None);
            };
            shards.push(Shard { searcher, first: None });
        }
        let gpus = u32::try_from(devices.len()).expect("fewer than 2^32 GPUs");
        Ok((!shards.is_empty()).then_some(Self { shards, gpus }))
    }

    /// Distributes points over several GPUs, each of which builds an SSS-Index with `pivots`
    /// pivots.
    ///
    /// Returns `None` in the same cases as [`Searcher::pivots`], or if there are no GPUs.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    ///
    /// # Panics
    /// Panics like [`Searcher::brute`].
    pub fn pivots<S: Points<Point: KernelPoint>, M: Metric<S::Point>>(
        devices: &[Device],
        points: &S,
        metric: &M,
        pivots: u32,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let mut shards = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            let share = Subset::every(points, gpu, devices.len());
            if gpu > 0 && share.is_empty() {
                break;
            }
            let count = u32::try_from(share.len()).expect("fewer than 2^32 points");
            let pivots: Vec<u32> = (0..pivots.min(count)).collect();
            let uploaded = Searcher::pivots(device, &share, metric, &pivots, threads)?;
            let Some(searcher) = uploaded else { return Ok(None) };
            let first = u32::try_from(gpu).expect("fewer than 2^32 GPUs");
            shards.push(Shard { searcher, first: Some(first) });
        }
        let gpus = u32::try_from(devices.len()).expect("fewer than 2^32 GPUs");
        Ok((!shards.is_empty()).then_some(Self { shards, gpus }))
    }

    /// Returns the same answers as [`Searcher::range`]. The time is the time of the slowest GPU.
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
        method: Method,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        self.search_all(usize::MAX, |searcher| searcher.range(queries, radius, method))
    }

    /// Returns the same answers as [`Searcher::nearest`]. The time is the time of the slowest GPU.
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
        method: Method,
        radii: Radii,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        self.search_all(k as usize, |searcher| searcher.nearest(queries, k, method, radii))
    }

    /// Searches on all GPUs concurrently and merges their answers.
    fn search_all(
        &self,
        k: usize,
        search: impl Fn(&Searcher) -> Result<Option<TimedAnswers>, GpuError> + Sync,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let answers = on_each(&self.shards, |shard| search(&shard.searcher));
        merge_answers(answers, k, |gpu, near| match self.shards[gpu].first {
            Some(first) => Neighbor { point: first + near.point * self.gpus, ..near },
            None => near,
        })
    }
}
