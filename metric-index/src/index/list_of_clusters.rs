//! List of Clusters (Chávez & Navarro 2005; Barrientos 2011, section 2.2.3.5, algorithms 6 and 7).

use std::ops::Range;

use rayon::prelude::*;

use super::{
    ClusterSize, PointBlocks, PointIndex, Probe, Progress, Space, Structure, Task, of_kind,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{DistinctNumbers, FileContents, Reader, StoreProblem, invalid, validate_ends};

#[derive(Debug, Clone, Copy)]
struct StoredCluster {
    center: u32,
    /// The distance from the center to the farthest point of the bucket. The points of later
    /// clusters are at least as far from the center.
    radius: f32,
    /// The end of the bucket, which begins where the previous bucket ends.
    end: u32,
}

/// A cluster of a [`ListOfClusters`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster<'a> {
    /// The center, which is not in the bucket.
    pub center: u32,
    /// The distance from the center to the farthest point of the bucket. The points of later
    /// clusters are at least as far from the center.
    pub radius: f32,
    /// The other points, nearest to the center first.
    pub bucket: &'a [u32],
}

/// A list of clusters. Each cluster has a center and the nearest points that no earlier cluster
/// contains. The next center is the point with the greatest sum of distances from all earlier
/// centers.
///
/// The distance from each point of a bucket to the center is stored, so that points can be excluded
/// without computing their distances. Barrientos 2011 computes the distances of the whole bucket.
///
/// ```
/// use metric_index::index::{ClusterSize, Index, ListOfClusters};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let list = ListOfClusters::build(words, Edit, ClusterSize::Points(2))?;
/// assert_eq!(list.clusters().len(), 2);
/// assert_eq!(list.within("casa", 1.0)?.len(), 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub type ListOfClusters<S, M> = PointIndex<S, M, Clusters<S>>;

/// The clusters of a [`ListOfClusters`].
#[derive(Debug, Clone)]
pub struct Clusters<S: Points> {
    buckets: Buckets,
    blocks: PointBlocks<S>,
}

/// Clusters in the order in which they are searched.
#[derive(Debug, Clone, Default)]
struct Buckets {
    clusters: Vec<StoredCluster>,
    /// The points of all buckets; within each bucket, nearest to the center first.
    points: Vec<u32>,
    /// The distance from each of these points to its center.
    from_center: Vec<f32>,
}

impl<S: Points, M: Metric<S::Point>> ListOfClusters<S, M> {
    /// Builds the list. Evaluates about n² / (2 · size) distances. The distances from a center are
    /// computed in parallel.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, if a distance from a center is not
    /// finite, or if the radius is negative or NaN.
    pub fn build(points: S, metric: M, size: ClusterSize) -> Result<Self, Error> {
        Self::build_with(points, metric, size, &Progress::none())
    }

    /// Returns the clusters, in the order in which they are searched.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = Cluster<'_>> {
        let Buckets { clusters, points, .. } = &self.structure.buckets;
        let mut start = 0;
        clusters.iter().map(move |&StoredCluster { center, radius, end }| {
            let bucket = &points[start as usize..end as usize];
            start = end;
            Cluster { center, radius, bucket }
        })
    }
}

impl Buckets {
    /// Adds the cluster of a center and removes its points from the remaining points.
    fn add<S: Points, M: Metric<S::Point>>(
        &mut self,
        space: &Space<S, M>,
        center: u32,
        size: ClusterSize,
        remaining: &mut Vec<RemainingPoint>,
    ) -> Result<(), Error> {
        let from = space.origin(center);
        let measured = remaining.par_iter_mut().with_min_len(256).map(|remaining| {
            let distance = from.to(remaining.point)?;
            remaining.distance_sum += f64::from(distance);
            Ok((distance, remaining.point))
        });
        let mut near: Vec<(f32, u32)> = measured.collect::<Result<_, Error>>()?;
        let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        match size {
            ClusterSize::Points(count) => {
                let count = count as usize;
                if count < near.len() {
                    near.select_nth_unstable_by(count, order);
                    near.truncate(count);
                }
            }
            ClusterSize::Radius(radius) => near.retain(|&(distance, _)| distance <= radius),
        }
        near.sort_unstable_by(order);
        let mut taken: Vec<u32> = near.iter().map(|&(_, point)| point).collect();
        taken.sort_unstable();
        remaining.retain(|remaining| taken.binary_search(&remaining.point).is_err());
        // An empty bucket does not constrain the distances of later points.
        let radius = near.last().map_or(0.0, |&(distance, _)| distance);
        self.points.extend(near.iter().map(|&(_, point)| point));
        self.from_center.extend(near.iter().map(|&(distance, _)| distance));
        let end = u32::try_from(self.points.len()).expect("fewer than 2^32 points");
        self.clusters.push(StoredCluster { center, radius, end });
        Ok(())
    }

    /// Returns the positions of a cluster's bucket.
    fn positions(&self, cluster: u32) -> Range<u32> {
        let cluster = cluster as usize;
        let start = cluster.checked_sub(1).map_or(0, |before| self.clusters[before].end);
        start..self.clusters[cluster].end
    }
}

/// A point that does not belong to a cluster yet.
struct RemainingPoint {
    point: u32,
    /// The sum of its distances from all centers so far.
    distance_sum: f64,
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for Clusters<S> {
    of_kind!(ListOfClusters(ClusterSize));

    fn build(
        space: &Space<S, M>,
        size: ClusterSize,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        if let ClusterSize::Radius(radius) = size
            && (radius.is_nan() || radius < 0.0)
        {
            return Err(Error::Radius { radius });
        }
        let mut buckets = Buckets::default();
        progress.begin(u64::from(space.count()));
        let mut remaining: Vec<RemainingPoint> =
            (0..space.count()).map(|point| RemainingPoint { point, distance_sum: 0.0 }).collect();
        loop {
            // Ties go to the first of equally far points.
            let by_sum = |&a: &usize, &b: &usize| {
                let sums = [a, b].map(|position| remaining[position].distance_sum);
                sums[0].total_cmp(&sums[1]).then(b.cmp(&a))
            };
            let Some(position) = (0..remaining.len()).max_by(by_sum) else { break };
            let before = remaining.len();
            let center = remaining.remove(position).point;
            buckets.add(space, center, size, &mut remaining)?;
            progress.add((before - remaining.len()) as u64);
        }
        let blocks = PointBlocks::new(space, &buckets.points);
        Ok(Self { buckets, blocks })
    }

    fn nodes(&self) -> usize {
        self.buckets.clusters.len()
    }

    fn blocks(&self, _: &Space<S, M>) -> Option<&dyn Blocks<S::Point>> {
        self.blocks.get()
    }

    /// `task.at` is 0 for the center. The points of the bucket are counted from 1.
    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let Task { mut region, mut at, mut bound, mut distance, .. } = task;
        let Buckets { clusters, points, from_center } = &self.buckets;
        let last = clusters.len() - 1;
        // Visit centers until a bucket must be searched.
        while at == 0 {
            if probe.is_exhausted() {
                tasks.push(Task::new(region, bound, 0.0));
                return;
            }
            let cluster = clusters[region as usize];
            distance = probe.visit(cluster.center);
            // The points of later clusters are outside this ball.
            bound = space.bounds.gap(cluster.radius, distance).max(bound);
            let is_last = region as usize == last;
            let is_end = bound > probe.radius();
            if space.bounds.gap(distance, cluster.radius) <= probe.radius() {
                // Search the bucket before later clusters, because its points shrink the radius.
                at = 1;
                if !is_last && !is_end {
                    tasks.push(Task::new(region + 1, bound, 0.0));
                }
            } else if is_last || is_end {
                return;
            } else {
                region += 1;
            }
        }
        let bucket = self.buckets.positions(region);
        let from_center = &from_center[bucket.start as usize..bucket.end as usize];
        let near = space.bounds.candidate_range(from_center, distance, probe.radius());
        let number = |index: usize| u32::try_from(index).expect("fewer than 2^32 points");
        let position = |index: usize| bucket.start + number(index);
        let start = position(near.start).max(bucket.start + at - 1);
        let end = position(near.end);
        let next = probe.visit_positions(start..end, points);
        if next < end {
            at = next - bucket.start + 1;
            tasks.push(Task { at, ..Task::new(region, 0.0, distance) });
        }
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let clusters = || self.buckets.clusters.iter();
        contents.computed("clusters.centers", clusters().map(|cluster| cluster.center));
        contents.computed("clusters.radii", clusters().map(|cluster| cluster.radius));
        contents.computed("clusters.ends", clusters().map(|cluster| u64::from(cluster.end)));
        contents.array("bucket.points", &self.buckets.points);
        contents.array("bucket.distances", &self.buckets.from_center);
    }

    fn read(file: &mut Reader, space: &Space<S, M>, _: ClusterSize) -> Result<Self, StoreProblem> {
        let centers = file.array::<u32>("clusters.centers")?;
        let radii = file.distances_of("clusters.radii", centers.len())?;
        let ends = file.array_of::<u64>("clusters.ends", centers.len())?;
        let points = file.array::<u32>("bucket.points")?.to_vec();
        let from_center = file.distances_of("bucket.distances", points.len())?.to_vec();
        let ends = validate_ends(&ends, points.len(), "clusters.ends")?;
        let mut start = 0;
        for &end in &ends {
            if !from_center[start..end].is_sorted() {
                let what = "the distances of a cluster are not in ascending order";
                return Err(invalid("bucket.distances", what));
            }
            start = end;
        }
        let mut distinct = DistinctNumbers::of("bucket.points", space.points.len());
        centers.iter().chain(&points).try_for_each(|&point| distinct.check(point))?;
        distinct.check_complete()?;
        let end = |end| u32::try_from(end).expect("at most the number of points");
        let clusters = centers.iter().zip(radii.iter()).zip(ends);
        let clusters =
            clusters.map(|((&center, &radius), at)| StoredCluster { center, radius, end: end(at) });
        let buckets = Buckets { clusters: clusters.collect(), points, from_center };
        let blocks = PointBlocks::new(space, &buckets.points);
        Ok(Self { buckets, blocks })
    }
}
