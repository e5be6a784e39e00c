//! Splits an oversized bucket of an [`Egnat`](super::Egnat), which becomes an inner node.

use rayon::prelude::*;

use crate::error::Error;
use crate::index::{EgnatOptions, Space};
use crate::metric::Metric;
use crate::points::Points;

/// Maximum number of centers per inner node.
pub(super) const MAX_ARITY: usize = 32;

/// A range of distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub(super) low: f32,
    pub(super) high: f32,
}

impl Interval {
    /// Extends the interval to contain `other`.
    pub(super) fn extend(&mut self, other: Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }
}

/// A point of a leaf.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketEntry {
    pub(super) point: u32,
    /// The distance from the center above the leaf.
    pub(super) from_center: f32,
}

impl BucketEntry {
    /// Creates an entry for a bucket without a center above it.
    pub(super) fn unassigned(point: u32) -> Self {
        Self { point, from_center: 0.0 }
    }
}

/// The contents of a new inner node: its centers, their table of ranges, and the other points,
/// grouped by nearest center.
pub(super) struct Split {
    pub(super) centers: Vec<u32>,
    pub(super) ranges: Vec<Interval>,
    pub(super) clusters: Vec<Vec<BucketEntry>>,
}

impl Split {
    /// Splits an oversized bucket. Returns `None` if the bucket is not too large, or if all its
    /// points are equal. Calls `on_assigned` with the number of points assigned to centers.
    pub(super) fn of<S: Points, M: Metric<S::Point>>(
        space: &Space<S, M>,
        bucket: &[BucketEntry],
        options: EgnatOptions,
        on_assigned: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<Self>, Error> {
        if bucket.len() <= options.bucket as usize {
            return Ok(None);
        }
        let centers = choose_centers(space, bucket, options.arity as usize)?;
        if centers.len() < 2 {
            return Ok(None);
        }
        let count = centers.len();
        let mut ranges = Vec::with_capacity(count * count);
        let from = space.origins(&centers);
        for from in &from {
            for &other in &centers {
                let distance = from.to(other)?;
                ranges.push(Interval { low: distance, high: distance });
            }
        }
        let parts: Result<Vec<_>, Error> = bucket
            .par_chunks(1024)
            .map(|entries| {
                let mut ranges = ranges.clone();
                let mut near: Vec<(usize, BucketEntry)> = Vec::with_capacity(entries.len());
                let others = entries.iter().filter(|entry| !centers.contains(&entry.point));
                for &BucketEntry { point, .. } in others {
                    let mut distances = [0.0; MAX_ARITY];
                    for (distance, from) in distances.iter_mut().zip(&from) {
                        *distance = from.to(point)?;
                    }
                    let nearest = nearest(&distances[..count]);
                    widen(&mut ranges, nearest, &distances[..count]);
                    near.push((nearest, BucketEntry { point, from_center: distances[nearest] }));
                }
                on_assigned(near.len());
                Ok((near, ranges))
            })
            .collect();
        let mut clusters = vec![Vec::new(); count];
        for (near, part) in parts? {
            for (center, entry) in near {
                clusters[center].push(entry);
            }
            for (range, part) in ranges.iter_mut().zip(part) {
                range.extend(part);
            }
        }
        Ok(Some(Self { centers, ranges, clusters }))
    }
}

/// Returns the position of the smallest distance. Ties go to the first position.
pub(super) fn nearest(distances: &[f32]) -> usize {
    let nearest = (0..distances.len()).min_by(|&a, &b| distances[a].total_cmp(&distances[b]));
    nearest.expect("an inner node has a center")
}

/// Extends the ranges in the column of a point's nearest center to contain the point's distances
/// from all centers.
pub(super) fn widen(ranges: &mut [Interval], column: usize, distances: &[f32]) {
    for (row, &distance) in distances.iter().enumerate() {
        ranges[row * distances.len() + column].extend(Interval { low: distance, high: distance });
    }
}

/// Chooses centers from a bucket: each is the candidate farthest from all earlier centers (Brin
/// 1995). There are three times as many candidates as centers. Returns one center if all points are
/// equal.
fn choose_centers<S: Points, M: Metric<S::Point>>(
    space: &Space<S, M>,
    bucket: &[BucketEntry],
    arity: usize,
) -> Result<Vec<u32>, Error> {
    let step = (bucket.len() / (3 * arity)).max(1);
    let first = bucket[0].point;
    let from_first = space.origin(first);
    let mut candidates: Vec<(u32, f32)> = Vec::new();
    for &BucketEntry { point, .. } in bucket.iter().step_by(step).take(3 * arity) {
        candidates.push((point, from_first.to(point)?));
    }
    if candidates.iter().all(|&(_, distance)| distance == 0.0) {
        for &BucketEntry { point, .. } in bucket {
            let distance = from_first.to(point)?;
            if distance > 0.0 {
                candidates.push((point, distance));
                break;
            }
        }
    }
    let mut centers = vec![first];
    while centers.len() < arity {
        // The order is reversed, so that the first of equally far points is chosen.
        let farthest = candidates.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some(&(center, _)) = farthest.filter(|&&(_, distance)| distance > 0.0) else { break };
        centers.push(center);
        let from = space.origin(center);
        for (point, distance) in &mut candidates {
            *distance = distance.min(from.to(*point)?);
        }
    }
    Ok(centers)
}
