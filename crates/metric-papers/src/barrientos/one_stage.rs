//! Several GPUs, of which each answers every query over its own points.

use gpu_runtime::{Device, GpuError};

use super::{InColumns, Method, Radii, Searcher, Timed};
use crate::gpu::together;
use metric_index::index::ListOfClusters;
use metric_index::metric::Metric;
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Subset};

/// The *1-Stage* search of Barrientos 2012 (section VII): clusters, or points with their pivots, are dealt to several GPUs, each
/// answers every query, and the answers are merged.
#[derive(Debug)]
pub struct OneStage {
    /// Searchers, and for those whose points are numbered anew the number of the first.
    shares: Vec<(Searcher, Option<u32>)>,
    /// Among how many the points are dealt; those without points are not there.
    step: u32,
}

impl OneStage {
    /// A List of Clusters on several GPUs. `None` as [`Searcher::clusters`], or without GPUs.
    ///
    /// # Errors
    /// If a GPU fails.
    ///
    /// # Panics
    /// As [`Searcher::brute`].
    pub fn clusters<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        devices: &[Device],
        list: &ListOfClusters<S, M>,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let clusters = list.clusters().len();
        let mut shares = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            if gpu > 0 && gpu >= clusters {
                // Fewer clusters than GPUs.
                break;
            }
            let share = (gpu, devices.len());
            let Some(searcher) = Searcher::share_of_clusters(device, list, threads, share)? else {
                return Ok(None);
            };
            shares.push((searcher, None));
        }
        let step = u32::try_from(devices.len()).expect("a few");
        Ok((!shares.is_empty()).then_some(Self { shares, step }))
    }

    /// An SSS-Index on several GPUs, each with so many pivots among its own points. `None` as [`Searcher::pivots`], or without GPUs.
    ///
    /// # Errors
    /// If a GPU fails.
    ///
    /// # Panics
    /// As [`Searcher::brute`].
    pub fn pivots<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        devices: &[Device],
        (points, metric): (&S, &M),
        pivots: u32,
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let mut shares = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            let share = Subset::every(points, gpu, devices.len());
            if gpu > 0 && share.is_empty() {
                break;
            }
            let most = u32::try_from(share.len()).expect("fewer than 2^32 points");
            let pivots: Vec<u32> = (0..pivots.min(most)).collect();
            let own = Searcher::pivots(device, (&share, metric), &pivots, threads)?;
            let Some(searcher) = own else { return Ok(None) };
            shares.push((searcher, Some(u32::try_from(gpu).expect("a few"))));
        }
        let step = u32::try_from(devices.len()).expect("a few");
        Ok((!shares.is_empty()).then_some(Self { shares, step }))
    }

    /// As [`Searcher::range`]; the time is that of the GPU that took longest.
    ///
    /// # Errors
    /// If a GPU fails.
    ///
    /// # Panics
    /// As [`Searcher::range`].
    pub fn range<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
        radius: f32,
        method: Method,
    ) -> Result<Option<Timed>, GpuError> {
        self.merged(usize::MAX, |searcher| searcher.range(queries, radius, method))
    }

    /// As [`Searcher::nearest`]; the time is that of the GPU that took longest.
    ///
    /// # Errors
    /// If a GPU fails.
    ///
    /// # Panics
    /// As [`Searcher::nearest`].
    pub fn nearest<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
        k: u32,
        method: Method,
        radii: Radii,
    ) -> Result<Option<Timed>, GpuError> {
        self.merged(k as usize, |searcher| searcher.nearest(queries, k, method, radii))
    }

    /// Asks all GPUs at the same time, and merges what they find.
    fn merged(
        &self,
        k: usize,
        ask: impl Fn(&Searcher) -> Result<Option<Timed>, GpuError> + Sync,
    ) -> Result<Option<Timed>, GpuError> {
        let found = together(&self.shares, |(searcher, _)| ask(searcher));
        let (mut all, mut slowest) = (Vec::new(), 0f64);
        for (found, (_, first)) in found.into_iter().zip(&self.shares) {
            let Some((answers, seconds)) = found? else { return Ok(None) };
            slowest = slowest.max(seconds);
            all.resize_with(answers.len(), Vec::new);
            for (all, answer) in all.iter_mut().zip(answers) {
                let number = |near: Neighbor| match first {
                    Some(first) => Neighbor { point: first + near.point * self.step, ..near },
                    None => near,
                };
                all.extend(answer.into_iter().map(number));
            }
        }
        for answer in &mut all {
            answer.sort_unstable();
            answer.truncate(k);
        }
        Ok(Some((all, slowest)))
    }
}
