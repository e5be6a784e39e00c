//! Checks whether a distance is a metric.

use super::Metric;
use crate::error::Error;
use crate::generate::Random;
use crate::points::Points;

/// Checks the axioms of a metric on a random sample of the points.
///
/// Each point must be at distance 0 from itself, distances must be symmetric, and all triples must
/// satisfy the triangle inequality. The checks allow for the rounding errors that the metric
/// declares. A distance that fails is not a metric, and indexes would give wrong answers with it. A
/// distance that passes may still fail on other points.
///
/// Evaluates up to `6 sample²` distances and compares `sample³ / 2` triples. A sample of 64 points
/// is a good choice.
///
/// # Errors
/// Fails if points of the sample violate an axiom, if a distance is not finite, or if the methods
/// of the metric disagree.
///
/// ```
/// use metric_index::metric::{Euclidean, Metric, check};
/// use metric_index::points::Vectors;
///
/// struct Squared;
///
/// impl Metric<[f32]> for Squared {
///     fn distance(&self, a: &[f32], b: &[f32]) -> f32 {
///         a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
///     }
///
///     fn relative_error(&self) -> f32 {
///         1e-5
///     }
/// }
///
/// let line: Vectors<f32> = (0..100u8).map(|x| [f32::from(x)]).collect();
/// assert!(check(&line, &Euclidean, 64, 0).is_ok());
/// assert!(check(&line, &Squared, 64, 0).is_err());
/// ```
pub fn check<S: Points, M: Metric<S::Point> + ?Sized>(
    points: &S,
    metric: &M,
    sample: usize,
    seed: u64,
) -> Result<(), Error> {
    let sample = Random::new(seed).sample(points.len(), sample);
    let count = sample.len();
    let mut distances = vec![0.0; count * count];
    for (row, &a) in sample.iter().enumerate() {
        let from = metric.distances_from(points.point(a));
        for (column, &b) in sample.iter().enumerate() {
            let x = points.point(a);
            let y = points.point(b);
            let distance = metric.distance(x, y);
            if a == b && distance != 0.0 {
                return Err(Error::NotItself { point: a, distance });
            }
            if !(0.0..f32::INFINITY).contains(&distance) {
                return Err(Error::NoDistance { point: b, distance });
            }
            let bits = |distance: Option<f32>| distance.map(f32::to_bits);
            let below = distance.next_down();
            let expected = Some(distance.to_bits());
            let mut agrees = bits(metric.distance_within(x, y, distance)) == expected
                && (distance == 0.0 || metric.distance_within(x, y, below).is_none());
            if let Some(from) = &from {
                agrees &= Some(from.to(y).to_bits()) == expected
                    && bits(from.to_within(y, distance)) == expected
                    && (distance == 0.0 || from.to_within(y, below).is_none());
            }
            if !agrees {
                return Err(Error::Contradiction { a, b, distance });
            }
            distances[row * count + column] = distance;
        }
    }
    let relative = f64::from(metric.relative_error());
    let absolute = f64::from(metric.absolute_error());
    // Upper bounds on the true distance given the computed distance, and on the computed distance
    // given the true distance.
    let max_true = |computed: f32| (f64::from(computed) + absolute) * (1.0 + 2.0 * relative);
    let max_computed = |exact: f64| (exact * (1.0 + relative) + absolute) * (1.0 + 1e-12);
    let between = |a: usize, b: usize| distances[a * count + b];
    for a in 0..count {
        for c in 0..a {
            let there = between(a, c);
            let back = between(c, a);
            if f64::from(there.max(back)) > max_computed(max_true(there.min(back))) {
                return Err(Error::Asymmetric { a: sample[a], b: sample[c], there, back });
            }
            for b in 0..count {
                let first = between(a, b);
                let second = between(b, c);
                if f64::from(there) > max_computed(max_true(first) + max_true(second)) {
                    let [a, b, c] = [a, b, c].map(|position| sample[position]);
                    return Err(Error::Triangle { a, b, c, direct: there, first, second });
                }
            }
        }
    }
    Ok(())
}
