//! Estimates of the properties of a metric space, from a sample of distances.

use crate::collector::{Collector, Nearest};
use crate::error::Error;
use crate::generate::Random;
use crate::metric::Metric;
use crate::neighbor::Neighbor;
use crate::points::Points;

/// Estimates the intrinsic dimension `μ² / 2σ²` of a space (Chávez, Navarro, Baeza-Yates &
/// Marroquín 2001; Barrientos 2011, section 2.2.2).
///
/// `μ` and `σ²` are the mean and the variance of the distances in `pairs` random pairs of different
/// points. The higher the dimension, the more alike distances are, and the fewer points an index
/// can exclude. The dimension is infinite if all distances are equal.
///
/// # Errors
/// Fails if there are fewer than two points, a distance is not finite, or `pairs` is below 2.
///
/// ```
/// use metric_index::estimate::intrinsic_dimension;
/// use metric_index::metric::Euclidean;
/// use metric_index::points::Vectors;
///
/// let line = Vectors::new((0..1_000u16).map(f32::from).collect(), 1)?;
/// let dimension = intrinsic_dimension(&line, &Euclidean, 10_000, 0)?;
/// assert!((dimension - 1.0).abs() < 0.05);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub fn intrinsic_dimension<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    pairs: usize,
    seed: u64,
) -> Result<f64, Error> {
    let count = points.len();
    if count < 2 {
        return Err(Error::TooFew { count, expected: 2 });
    }
    if pairs < 2 {
        let value = u32::try_from(pairs).unwrap_or(0);
        return Err(Error::Option { option: "pairs", value, expected: "2 or more" });
    }
    let mut random = Random::new(seed);
    let mut mean = 0.0;
    let mut squares = 0.0;
    for pair in 0..pairs {
        let a = random.below(count);
        let b = (a + 1 + random.below(count - 1)) % count;
        let distance = f64::from(distance(points, metric, number(a), number(b))?);
        // The method of Welford (1962) avoids the difference of two large sums.
        let from_mean = distance - mean;
        mean += from_mean / (pair + 1) as f64;
        squares += from_mean * (distance - mean);
    }
    let variance = squares / (pairs - 1) as f64;
    Ok(mean * mean / (2.0 * variance))
}

/// Estimates the radius within which a query finds the fraction `share` of the points on average.
///
/// The radius is the `share` quantile of the distances between `queries` random points and all
/// other points.
///
/// # Errors
/// Fails if there are fewer than two points, a distance is not finite, the share is not between 0
/// and 1, or `queries` is 0.
///
/// ```
/// use metric_index::estimate::radius_for_share;
/// use metric_index::metric::Euclidean;
/// use metric_index::points::Vectors;
///
/// let line = Vectors::new((0..1_000u16).map(f32::from).collect(), 1)?;
/// let radius = radius_for_share(&line, &Euclidean, 0.01, 100, 0)?;
/// assert!((4.0..7.0).contains(&radius), "most points have ten others within 5");
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub fn radius_for_share<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    share: f32,
    queries: usize,
    seed: u64,
) -> Result<f32, Error> {
    let count = points.len();
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Share { share });
    }
    if count < 2 {
        return Err(Error::TooFew { count, expected: 2 });
    }
    let sample = Random::new(seed).sample(count, queries);
    if sample.is_empty() {
        return Err(Error::Option { option: "queries", value: 0, expected: "1 or more" });
    }
    // Collects as many of the smallest distances as should lie within the radius.
    let mut smallest = Nearest::new(share_of(share, (count - 1) * sample.len()).max(1));
    for &query in &sample {
        for point in (0..number(count)).filter(|&point| point != query) {
            let distance = distance(points, metric, query, point)?;
            smallest.offer(Neighbor { point, distance });
        }
    }
    Ok(smallest.into_sorted().last().map_or(0.0, |last| last.distance))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a usize")]
fn share_of(share: f32, total: usize) -> usize {
    (f64::from(share) * total as f64).round() as usize
}

fn distance<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    a: u32,
    b: u32,
) -> Result<f32, Error> {
    let distance = metric.distance(points.point(a), points.point(b));
    if (0.0..f32::INFINITY).contains(&distance) {
        Ok(distance)
    } else {
        Err(Error::NoDistance { point: b, distance })
    }
}

fn number(point: usize) -> u32 {
    u32::try_from(point).expect("fewer than 2^32 points")
}
