//! Several GPUs, of which each first says what its share of the queries has to be compared with.

use gpu_runtime::{CudaSlice, Device, GpuError};

use super::launch::{self, Clusters, HeapSearch, Pivots, Space, Stage, Staged, address};
use super::{
    HEAPS_AT_ONCE, InColumns, Radii, RowsThere, Searcher, StoredPivots, Timed, copied, nearest_of,
};
use crate::gpu::{are_finite, together, zeros};
use metric_index::index::{Index, ListOfClusters};
use metric_index::metric::Metric;
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;

/// The *2-Stage* search of Barrientos 2012 (section VII-A). Clusters, or points with their pivots, are dealt to several GPUs, and every
/// GPU has all centers or pivots.
///
/// In the first stage each GPU compares its share of the queries with the centers, and tells the others which clusters have to be
/// searched, or how far the pivots are. In the second, it searches its points for every query.
#[derive(Debug)]
pub struct TwoStage {
    shares: Vec<Searcher>,
    /// The number of points.
    count: u32,
}

/// What the first stage of a GPU says of its queries.
#[derive(Debug)]
struct Said {
    queries: Vec<u32>,
    words: Vec<u32>,
}

/// The same, on a GPU.
#[derive(Debug)]
struct SaidThere {
    queries: CudaSlice<u32>,
    words: CudaSlice<u32>,
    count: u32,
}

impl TwoStage {
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
        let centers: Vec<u32> = list.clusters().map(|cluster| cluster.center).collect();
        let radii: Vec<f32> = list.clusters().map(|cluster| cluster.radius).collect();
        let mut shares = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            // All centers; then of its own clusters the center once more, so that the second stage finds it, and the bucket.
            let mut order = centers.clone();
            let mut ends = Vec::with_capacity(centers.len());
            for (number, cluster) in list.clusters().enumerate() {
                if number % devices.len() == gpu {
                    order.push(cluster.center);
                    order.extend_from_slice(cluster.bucket);
                }
                ends.push(u32::try_from(order.len() - centers.len()).expect("fewer than 2^32"));
            }
            let points = (list.points(), list.metric());
            let own = Searcher::of_clusters(device, points, &order, (&radii, &ends), threads)?;
            let Some(searcher) = own else { return Ok(None) };
            shares.push(searcher);
        }
        let count = u32::try_from(list.len()).expect("fewer than 2^32 points");
        Ok((!shares.is_empty()).then_some(Self { shares, count }))
    }

    /// An SSS-Index with these pivots on several GPUs. `None` as [`Searcher::pivots`], or without GPUs.
    ///
    /// # Errors
    /// If a GPU fails.
    ///
    /// # Panics
    /// As [`Searcher::pivots`].
    pub fn pivots<S: Points<Point: InColumns>, M: Metric<S::Point>>(
        devices: &[Device],
        (points, metric): (&S, &M),
        pivots: &[u32],
        threads: u32,
    ) -> Result<Option<Self>, GpuError> {
        let count = u32::try_from(points.len()).expect("fewer than 2^32 points");
        let mut shares = Vec::new();
        for (gpu, device) in (0..).zip(devices) {
            let own: Vec<u32> = (gpu..count).step_by(devices.len()).collect();
            let order: Vec<u32> = pivots.iter().chain(&own).copied().collect();
            let Some(mut searcher) = Searcher::upload(device, (points, metric), &order, threads)?
            else {
                return Ok(None);
            };
            let mut distances = Vec::with_capacity(pivots.len() * own.len());
            for &pivot in pivots {
                let pivot = points.point(pivot);
                distances.extend(own.iter().map(|&x| metric.distance(pivot, points.point(x))));
            }
            // After the pivots, point j is `numbers[j]`.
            searcher.pivots = Some(StoredPivots {
                count: u32::try_from(pivots.len()).expect("not more than points"),
                numbers: copied(device, &searcher.stream, &own)?,
                distances: copied(device, &searcher.stream, &distances)?,
            });
            shares.push(searcher);
        }
        Ok((!shares.is_empty()).then_some(Self { shares, count }))
    }

    /// As [`Searcher::range`]; the time is that of the slowest GPU in each stage.
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
    ) -> Result<Option<Timed>, GpuError> {
        let Some(shares) = self.asked(queries, |_| 0)? else { return Ok(None) };
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        if count == 0 {
            return Ok(Some((Vec::new(), 0.0)));
        }
        let all: Vec<u32> = (0..count).collect();
        let (said, first) = first_stage(&shares, &all, radius)?;
        let mut answers = vec![Vec::new(); queries.len()];
        let found = on_all(&shares, |share| share.range(count, radius, &said));
        let second = merge(found, &mut answers, usize::MAX)?;
        Ok(second.map(|second| (answers, first + second)))
    }

    /// As [`Searcher::nearest`]; the time is that of the slowest GPU in each stage. Both stages are done with the first radius, and
    /// again with a larger one for the queries that have found fewer than k; the step doubles each time.
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
        radii: Radii,
    ) -> Result<Option<Timed>, GpuError> {
        let k = k.min(self.count);
        let heap = |searcher: &Searcher| searcher.staged().heap_bytes(k, searcher.threads);
        let Some(shares) = self.asked(queries, heap)? else { return Ok(None) };
        if k == 0 {
            return Ok(Some((vec![Vec::new(); queries.len()], 0.0)));
        }
        let mut pending: Vec<u32> =
            (0..u32::try_from(queries.len()).expect("fewer than 2^32 queries")).collect();
        let mut answers = vec![Vec::new(); queries.len()];
        let (mut radius, mut step, mut seconds) = (radii.first, radii.step, 0.0);
        while !pending.is_empty() {
            let (said, time) = first_stage(&shares, &pending, radius)?;
            // In the order in which the GPUs had them.
            let order: Vec<u32> = said.iter().flat_map(|said| &said.queries).copied().collect();
            let mut found = vec![Vec::new(); order.len()];
            let of_all = on_all(&shares, |share| share.nearest(k, radius, &said));
            let Some(second) = merge(of_all, &mut found, k as usize)? else { return Ok(None) };
            seconds += time + second;
            pending.clear();
            for (query, found) in order.into_iter().zip(found) {
                if found.len() >= k as usize || radius.is_infinite() {
                    answers[query as usize] = found;
                } else {
                    pending.push(query);
                }
            }
            let next = radius + step;
            radius = if next > radius { next } else { f32::INFINITY };
            step *= 2.0;
        }
        Ok(Some((answers, seconds)))
    }

    /// The queries on every GPU. `None` if one of them is not taken, or shared memory is too small for them and `more` bytes.
    fn asked<Q: Points<Point: InColumns>>(
        &self,
        queries: &Q,
        more: impl Fn(&Searcher) -> usize,
    ) -> Result<Option<Vec<Asked<'_>>>, GpuError> {
        let mut shares = Vec::new();
        for searcher in &self.shares {
            let Some(rows) = searcher.rows(queries)? else { return Ok(None) };
            let (space, by) = (searcher.space(&rows, 0), searcher.staged());
            let bytes = space.query_bytes() + by.bytes().max(more(searcher));
            if bytes > searcher.kernels.shared {
                return Ok(None);
            }
            shares.push(Asked { searcher, space, by, _rows: rows });
        }
        Ok(Some(shares))
    }
}

impl Searcher {
    /// What excludes points in two stages.
    fn staged(&self) -> Staged {
        match (&self.clusters, &self.pivots) {
            (Some(clusters), _) => Staged::Clusters(Clusters {
                radii: address(&self.stream, &clusters.radii),
                ends: address(&self.stream, &clusters.ends),
                cluster_of: address(&self.stream, &clusters.cluster_of),
                points: address(&self.stream, &clusters.points),
                count: clusters.count,
            }),
            (None, Some(pivots)) => Staged::Pivots(Pivots {
                numbers: address(&self.stream, &pivots.numbers),
                distances: address(&self.stream, &pivots.distances),
                count: pivots.count,
            }),
            (None, None) => unreachable!("both ways to make a `TwoStage` set one"),
        }
    }
}

/// A GPU with the queries on it.
#[derive(Debug)]
struct Asked<'a> {
    searcher: &'a Searcher,
    space: Space,
    by: Staged,
    /// What `space` points to.
    _rows: RowsThere,
}

impl Asked<'_> {
    fn excluding(&self) -> (&Space, &Staged, &launch::Errors) {
        (&self.space, &self.by, &self.searcher.errors)
    }

    /// The first stage of these queries.
    fn first_stage(&self, queries: Vec<u32>, radius: f32) -> Result<(Said, f64), GpuError> {
        let Searcher { device, stream, kernels, threads, .. } = self.searcher;
        let failed = device.doing("searching, first stage").failed();
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        if count == 0 {
            return Ok((Said { queries, words: Vec::new() }, 0.0));
        }
        let width = self.by.width();
        let doing = device.doing("allocating memory for the first stage");
        let length = count as usize * width as usize;
        // The driver does not take none.
        let words = zeros::<u32>(stream, length.max(1), doing)?;
        let numbers = copied(device, stream, &queries)?;
        let stage =
            Stage { queries: address(stream, &numbers), said: address(stream, &words), width };
        let (start, end) = (device.timer()?, device.timer()?);
        start.record(stream).map_err(&failed)?;
        let asked = (count, *threads, radius);
        launch::first_stage(kernels, stream, self.excluding(), asked, &stage).map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let mut words = stream.clone_dtoh(&words).map_err(&failed)?;
        words.truncate(length);
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok((Said { queries, words }, seconds))
    }

    /// Copies to this GPU what all have said.
    fn heard(&self, said: &[Said]) -> Result<Vec<SaidThere>, GpuError> {
        let Searcher { device, stream, .. } = self.searcher;
        let said = said.iter().filter(|said| !said.queries.is_empty());
        said.map(|said| {
            Ok(SaidThere {
                queries: copied(device, stream, &said.queries)?,
                words: copied(device, stream, &said.words)?,
                count: u32::try_from(said.queries.len()).expect("fewer than 2^32 queries"),
            })
        })
        .collect()
    }

    /// The part of a launch from query `first` on.
    fn stage(&self, said: &SaidThere, first: u32) -> Stage {
        let (stream, width) = (&self.searcher.stream, self.by.width());
        Stage {
            queries: address(stream, &said.queries) + 4 * u64::from(first),
            said: address(stream, &said.words) + 4 * u64::from(first) * u64::from(width),
            width,
        }
    }

    /// The second stage of range queries: a launch for each GPU's queries.
    fn range(&self, count: u32, radius: f32, said: &[Said]) -> Result<Option<Timed>, GpuError> {
        let Searcher { stream, kernels, threads, .. } = self.searcher;
        let said = self.heard(said)?;
        self.searcher.gathered(count, |found| {
            said.iter().try_for_each(|said| {
                let asked = (said.count, *threads, radius);
                let stage = self.stage(said, 0);
                launch::second_range(kernels, stream, self.excluding(), asked, (&stage, found))
            })
        })
    }

    /// The same of nearest neighbors within a radius.
    fn nearest(&self, k: u32, radius: f32, said: &[Said]) -> Result<Option<Timed>, GpuError> {
        let Searcher { device, stream, kernels, threads, .. } = self.searcher;
        let failed = device.doing("searching, second stage").failed();
        let said = self.heard(said)?;
        let count: u32 = said.iter().map(|said| said.count).sum();
        let at_once = count.min(HEAPS_AT_ONCE);
        let doing = device.doing("allocating memory for heaps");
        let per_block = *threads as usize * k as usize;
        let heaps = zeros::<u64>(stream, at_once as usize * per_block, doing)?;
        let neighbors = zeros::<u64>(stream, count as usize * k as usize, doing)?;
        let places = copied(device, stream, &(0..at_once).collect::<Vec<u32>>())?;
        let (start, end) = (device.timer()?, device.timer()?);
        start.record(stream).map_err(&failed)?;
        let mut done = 0;
        for said in &said {
            for first in (0..said.count).step_by(HEAPS_AT_ONCE as usize) {
                let some = HEAPS_AT_ONCE.min(said.count - first);
                let search = HeapSearch {
                    heaps: address(stream, &heaps),
                    queries: address(stream, &places),
                    neighbors: address(stream, &neighbors) + 8 * u64::from(done) * u64::from(k),
                    pending: 0,
                    pending_count: 0,
                    first: radius,
                    step: 0.0,
                    k,
                    launch: 1,
                };
                let (asked, stage) = ((some, *threads), self.stage(said, first));
                launch::second_nearest(kernels, stream, self.excluding(), asked, (&stage, &search))
                    .map_err(&failed)?;
                done += some;
            }
        }
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        let answers = || keys.chunks(k as usize).map(nearest_of).collect();
        Ok(are_finite(&keys).then(|| (answers(), seconds)))
    }
}

/// Asks all GPUs at the same time.
fn on_all<'a, R: Send>(
    shares: &'a [Asked<'a>],
    ask: impl Fn(&'a Asked<'a>) -> Result<R, GpuError> + Sync,
) -> Vec<Result<R, GpuError>> {
    together(shares, ask)
}

/// The first stage of queries, dealt to the GPUs, and the time of the slowest.
fn first_stage(
    shares: &[Asked<'_>],
    queries: &[u32],
    radius: f32,
) -> Result<(Vec<Said>, f64), GpuError> {
    let numbered: Vec<_> = shares.iter().enumerate().collect();
    let said = together(&numbered, |&(gpu, share)| {
        let own = queries.iter().skip(gpu).step_by(shares.len());
        share.first_stage(own.copied().collect(), radius)
    });
    let (mut all, mut slowest) = (Vec::new(), 0f64);
    for said in said {
        let (said, seconds) = said?;
        slowest = slowest.max(seconds);
        all.push(said);
    }
    Ok((all, slowest))
}

/// Adds what the GPUs have found to the answers, k at most for each; gives the time of the slowest.
fn merge(
    found: Vec<Result<Option<Timed>, GpuError>>,
    answers: &mut [Vec<Neighbor>],
    k: usize,
) -> Result<Option<f64>, GpuError> {
    let mut slowest = 0f64;
    for found in found {
        let Some((found, seconds)) = found? else { return Ok(None) };
        slowest = slowest.max(seconds);
        for (answer, found) in answers.iter_mut().zip(found) {
            answer.extend(found);
        }
    }
    for answer in answers {
        answer.sort_unstable();
        answer.truncate(k);
    }
    Ok(Some(slowest))
}
