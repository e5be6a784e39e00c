//! Sparse Spatial Selection of pivots and centers.

use super::progress::Progress;
use super::space::Space;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::Points;

/// Chooses pivots by algorithm 3 of Barrientos 2011. The first point is a pivot, and so is each
/// point whose distance from all earlier pivots is at least `share` times the greatest distance.
pub(super) fn select_pivots<S: Points, M: Metric<S::Point>>(
    space: &Space<S, M>,
    candidates: &[u32],
    share: f32,
    progress: &Progress<'_>,
) -> Result<Vec<u32>, Error> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Share { share });
    }
    let Some((&first, others)) = candidates.split_first() else { return Ok(Vec::new()) };
    let farthest = |start: u32| -> Result<(f32, u32), Error> {
        let mut best = (0.0, start);
        let from = space.origin(start);
        for &point in candidates {
            let distance = from.to(point)?;
            if distance > best.0 {
                best = (distance, point);
            }
        }
        Ok(best)
    };
    let (greatest, _) = farthest(farthest(first)?.1)?;
    let min_distance = greatest * share;
    if greatest == 0.0 {
        // All points are equal.
        progress.add(candidates.len() as u64);
        return Ok(vec![first]);
    }
    let mut pivots = vec![space.origin(first)];
    progress.add(1);
    for &point in others {
        if pivots.iter().all(|pivot| pivot.is_separated(point, min_distance)) {
            pivots.push(space.origin(point));
        }
        progress.add(1);
    }
    Ok(pivots.iter().map(|pivot| pivot.number).collect())
}
