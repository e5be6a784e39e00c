//! SSS-Index (Pedreira & Brisaboa 2007; Barrientos 2011, section 2.2.3.3, algorithms 3 and 4).

use rayon::prelude::*;

use super::{Index, Probe, Task, between, check};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::Points;
use crate::prune::Bounds;

/// Which points are pivots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pivots {
    /// Each point that is at least this share (0 to 1; 0 makes every point a pivot) of the greatest distance away from all earlier pivots; around
    /// 0.4 in the literature. The greatest distance is estimated: of the point that is farthest from the
    /// first, from the one that is farthest from it.
    Spread(f32),
    /// So many, each the farthest from all earlier ones.
    Count(u32),
}

/// Points of a task.
const BLOCK: u32 = 512;

/// A table of the distances of all points from some of them, the pivots.
#[derive(Debug, Clone)]
pub struct SssIndex<S, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    pivots: Vec<u32>,
    /// The distances of point i from the pivots are `table[i * pivots ..]`.
    table: Vec<f32>,
}

impl<S: Points, M: Metric<S::Point>> SssIndex<S, M> {
    /// Chooses pivots and fills the table: n distances for each pivot.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself or none from a pivot, or the share is not 0 to 1.
    pub fn build(points: S, metric: M, pivots: Pivots) -> Result<Self, Error> {
        let count = check(&points, &metric)?;
        let all: Vec<u32> = (0..count).collect();
        let pivots = match pivots {
            Pivots::Spread(share) => spread(&points, &metric, &all, share)?,
            Pivots::Count(most) => farthest_first(&points, &metric, count, most)?,
        };
        let mut table = vec![0.0; all.len() * pivots.len()];
        table.par_chunks_mut(pivots.len().max(1)).zip(&all).with_min_len(64).try_for_each(
            |(row, &point)| {
                for (place, &pivot) in row.iter_mut().zip(&pivots) {
                    *place = between(&points, &metric, pivot, point)?;
                }
                Ok::<(), Error>(())
            },
        )?;
        Ok(Self { bounds: Bounds::of(&metric), points, metric, pivots, table })
    }

    /// The pivots.
    pub fn pivots(&self) -> &[u32] {
        &self.pivots
    }
}

/// Algorithm 3: the first point, and each that is at least `share` of the greatest distance away from all
/// earlier pivots.
pub(super) fn spread<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    among: &[u32],
    share: f32,
) -> Result<Vec<u32>, Error> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Share { share });
    }
    let Some(&first) = among.first() else { return Ok(Vec::new()) };
    let farthest = |from: u32| -> Result<(f32, u32), Error> {
        let mut best = (0.0, from);
        for &point in among {
            let distance = between(points, metric, from, point)?;
            if distance > best.0 {
                best = (distance, point);
            }
        }
        Ok(best)
    };
    let (greatest, _) = farthest(farthest(first)?.1)?;
    let apart = greatest * share;
    let mut pivots = vec![first];
    if greatest == 0.0 {
        // All are the same point.
        return Ok(pivots);
    }
    for &point in &among[1..] {
        let mut is_apart = true;
        for &pivot in &pivots {
            is_apart &= metric
                .distance_within(points.point(pivot), points.point(point), apart)
                .is_none_or(|d| d >= apart);
            if !is_apart {
                break;
            }
        }
        if is_apart {
            pivots.push(point);
        }
    }
    Ok(pivots)
}

fn farthest_first<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    count: u32,
    most: u32,
) -> Result<Vec<u32>, Error> {
    let mut nearest = vec![f32::INFINITY; count as usize];
    let mut pivots: Vec<u32> = Vec::new();
    while pivots.len() < most.min(count) as usize {
        let farther = |&a: &u32, &b: &u32| {
            nearest[a as usize].total_cmp(&nearest[b as usize]).then(b.cmp(&a))
        };
        let Some(pivot) = (0..count).filter(|point| !pivots.contains(point)).max_by(farther) else {
            break;
        };
        pivots.push(pivot);
        for point in 0..count {
            let distance = between(points, metric, pivot, point)?;
            nearest[point as usize] = nearest[point as usize].min(distance);
        }
    }
    Ok(pivots)
}

impl<S: Points, M: Metric<S::Point>> Index for SssIndex<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.points
    }

    fn metric(&self) -> &M {
        &self.metric
    }

    /// The distances from the pivots; a task a block of points.
    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]> {
        let distances = self.pivots.iter().map(|&pivot| probe.visit(pivot)).collect();
        #[expect(clippy::cast_possible_truncation, reason = "checked when it was built")]
        let blocks = (self.points.len() as u32).div_ceil(BLOCK);
        let task = |region| Task { region, at: 0, bound: 0.0, distance: 0.0 };
        tasks.extend((0..blocks).rev().map(task));
        distances
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        #[expect(clippy::cast_possible_truncation, reason = "checked when it was built")]
        let count = self.points.len() as u32;
        let start = task.region * BLOCK;
        // The radius may shrink within the block: then these exclude a little less than they could.
        let radius = probe.radius();
        let excluded: Vec<(f32, f32)> =
            shared.iter().map(|&own| self.bounds.excluded(own, radius)).collect();
        for at in task.at..BLOCK.min(count - start) {
            let point = start + at;
            let row = &self.table[point as usize * self.pivots.len()..][..self.pivots.len()];
            let is_excluded =
                |(&from, &(below, above)): (&f32, &(f32, f32))| from <= below || from >= above;
            // A pivot was offered when the search began; it is at distance 0 from itself, and then only.
            if row.iter().zip(&excluded).any(is_excluded) || self.is_pivot(point, row) {
                continue;
            }
            if probe.is_tired() {
                tasks.push(Task { at, ..task });
                return;
            }
            probe.visit_within(point);
        }
    }
}

impl<S: Points, M: Metric<S::Point>> SssIndex<S, M> {
    fn is_pivot(&self, point: u32, row: &[f32]) -> bool {
        row.contains(&0.0) && self.pivots.contains(&point)
    }
}
