//! Logistic regression with an offset per group, fitted by Newton's method.
#![expect(clippy::needless_range_loop, reason = "several vectors and a matrix share an index")]

use crate::rows::symmetric::cholesky;

/// The values of a scored label and whether the label was correct.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation<const VALUES: usize> {
    /// The values; the first is the constant 1.
    pub(super) values: [f64; VALUES],
    pub(super) group: u32,
    pub(super) is_right: bool,
}

impl<const VALUES: usize> Observation<VALUES> {
    /// Returns the first two derivatives of the logarithmic loss with respect to the log odds, at
    /// `z`.
    fn derivatives(&self, z: f64) -> (f64, f64) {
        let probability = logistic(z);
        (probability - f64::from(u8::from(self.is_right)), probability * (1.0 - probability))
    }
}

/// The ridge penalty of calibrations.
const RIDGE: f64 = 1.0;
/// Prior variance of the offsets, which keeps the offset of a group with few observations close to
/// 0.
const OFFSET_VARIANCE: f64 = 0.25;
/// Maximum number of iterations. Newton's method usually needs fewer.
const MAX_ITERATIONS: usize = 25;

pub(super) fn logistic(z: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-z))
}

pub(super) fn dot<const VALUES: usize>(weights: &[f64; VALUES], values: &[f64; VALUES]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

/// Fits the weights of the values. `ridge` is the penalty on the weights of standardized values.
pub(super) fn fit_weights<const VALUES: usize>(
    observations: &[Observation<VALUES>],
    ridge: f64,
) -> [f64; VALUES] {
    let standardizer = Standardizer::new(observations);
    standardizer.undo(fit(observations, &standardizer.standardize_all(observations), ridge))
}

/// Fits the log odds as a linear function of one value. Returns the constant and the slope, and the
/// logarithmic loss.
pub(crate) fn line(values: &[(f64, bool)]) -> ([f64; 2], f64) {
    let observation =
        |&(value, is_right): &(f64, bool)| Observation { values: [1.0, value], group: 0, is_right };
    let observations: Vec<Observation<2>> = values.iter().map(observation).collect();
    let found = fit_weights(&observations, RIDGE);
    let loss = |observation: &Observation<2>| {
        let probability = logistic(dot(&found, &observation.values));
        let likelihood = if observation.is_right { probability } else { 1.0 - probability };
        -libm::log(likelihood.max(1e-12))
    };
    (found, observations.iter().map(loss).sum())
}

/// Fits the weights of the values, then an offset for each group with these weights fixed.
pub(super) fn fit_weights_and_offsets<const VALUES: usize>(
    observations: &[Observation<VALUES>],
    groups: usize,
) -> ([f64; VALUES], Vec<f64>) {
    let standardizer = Standardizer::new(observations);
    let all = standardizer.standardize_all(observations);
    let weights = fit(observations, &all, RIDGE);
    let mut offsets = vec![0.0; groups];
    for _ in 0..MAX_ITERATIONS / 3 {
        let mut by_group = vec![(0.0, 0.0); groups];
        for (observation, values) in observations.iter().zip(&all) {
            let group = observation.group as usize;
            let z = dot(&weights, values) + offsets[group];
            let (slope, curve) = observation.derivatives(z);
            by_group[group].0 += slope;
            by_group[group].1 += curve;
        }
        for (offset, (slope, curve)) in offsets.iter_mut().zip(by_group) {
            let step: f64 = (slope + *offset / OFFSET_VARIANCE) / (curve + 1.0 / OFFSET_VARIANCE);
            *offset -= step.clamp(-2.0, 2.0);
        }
    }
    (standardizer.undo(weights), offsets)
}

/// The means and standard deviations of values.
struct Standardizer<const VALUES: usize> {
    means: [f64; VALUES],
    deviations: [f64; VALUES],
}

impl<const VALUES: usize> Standardizer<VALUES> {
    fn new(observations: &[Observation<VALUES>]) -> Self {
        let count = observations.len().max(1) as f64;
        let mut means = [0.0; VALUES];
        let mut deviations = [0.0; VALUES];
        for observation in observations {
            for index in 1..VALUES {
                means[index] += observation.values[index] / count;
            }
        }
        for observation in observations {
            for index in 1..VALUES {
                let deviation = observation.values[index] - means[index];
                deviations[index] += deviation * deviation / count;
            }
        }
        Self { means, deviations: deviations.map(|variance: f64| libm::sqrt(variance)) }
    }

    /// Standardizes values to mean 0 and standard deviation 1.
    fn standardize(&self, values: &[f64; VALUES]) -> [f64; VALUES] {
        std::array::from_fn(|index| match self.deviations[index] {
            _ if index == 0 => 1.0,
            deviation if deviation > 1e-9 => (values[index] - self.means[index]) / deviation,
            _ => 0.0,
        })
    }

    fn standardize_all(&self, observations: &[Observation<VALUES>]) -> Vec<[f64; VALUES]> {
        observations.iter().map(|observation| self.standardize(&observation.values)).collect()
    }

    /// Converts weights of standardized values to weights of the original values.
    fn undo(&self, weights: [f64; VALUES]) -> [f64; VALUES] {
        let mut original = [0.0; VALUES];
        original[0] = weights[0];
        for index in 1..VALUES {
            if self.deviations[index] > 1e-9 {
                original[index] = weights[index] / self.deviations[index];
                original[0] -= original[index] * self.means[index];
            }
        }
        original
    }
}

/// Fits weights to the standardized values of the observations. The constant is not penalized.
fn fit<const VALUES: usize>(
    observations: &[Observation<VALUES>],
    standardized: &[[f64; VALUES]],
    ridge: f64,
) -> [f64; VALUES] {
    let mut weights = [0.0; VALUES];
    for _ in 0..MAX_ITERATIONS {
        let mut gradient = [0.0; VALUES];
        let mut curvature = [[0.0; VALUES]; VALUES];
        for (observation, values) in observations.iter().zip(standardized) {
            let (slope, curve) = observation.derivatives(dot(&weights, values));
            for index in 0..VALUES {
                gradient[index] += slope * values[index];
                for other in 0..=index {
                    curvature[index][other] += curve * values[index] * values[other];
                }
            }
        }
        for index in 1..VALUES {
            gradient[index] += ridge * weights[index];
            curvature[index][index] += ridge;
        }
        // Keeps the matrix positive definite if there are no observations.
        curvature[0][0] += 1e-6;
        let step = solve(curvature, gradient);
        let mut largest = 0.0f64;
        for index in 0..VALUES {
            // Far from the optimum, a full Newton step may be too long.
            let step = step[index].clamp(-4.0, 4.0);
            weights[index] -= step;
            largest = largest.max(step.abs());
        }
        if largest < 1e-6 {
            break;
        }
    }
    weights
}

/// Solves a positive definite system by Cholesky decomposition. Only the lower triangle of the
/// matrix is read.
fn solve<const VALUES: usize>(
    mut matrix: [[f64; VALUES]; VALUES],
    mut rhs: [f64; VALUES],
) -> [f64; VALUES] {
    cholesky(matrix.as_flattened_mut(), VALUES, |_, pivot| pivot.max(1e-12));
    for index in 0..VALUES {
        let sum: f64 = (0..index).map(|k| matrix[index][k] * rhs[k]).sum();
        rhs[index] = (rhs[index] - sum) / matrix[index][index];
    }
    for index in (0..VALUES).rev() {
        let sum: f64 = (index + 1..VALUES).map(|k| matrix[k][index] * rhs[k]).sum();
        rhs[index] = (rhs[index] - sum) / matrix[index][index];
    }
    rhs
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: usize = 11;

    #[test]
    fn fitting_recovers_the_generating_weights() {
        let mut random = crate::random::Random::new(3);
        let mut truth = [0.0; VALUES];
        truth[..3].copy_from_slice(&[-0.5, 2.0, -1.0]);
        let observations: Vec<Observation<VALUES>> = (0..40_000)
            .map(|index| {
                let mut values = [0.0; VALUES];
                values[0] = 1.0;
                values[1] = random.unit() * 4.0 - 2.0;
                values[2] = random.unit() * 3.0;
                // This value never varies, so it must have no effect.
                values[3] = 7.0;
                let group = index % 3;
                let offset = if group == 2 { 0.8 } else { 0.0 };
                let is_right = random.unit() < logistic(dot(&truth, &values) + offset);
                Observation { values, group, is_right }
            })
            .collect();
        let (weights, offsets) = fit_weights_and_offsets(&observations, 4);
        let close =
            |a: f64, b: f64| assert!((a - b).abs() < 0.15, "{a} {b} {weights:?} {offsets:?}");
        close(weights[1], 2.0);
        close(weights[2], -1.0);
        close(weights[3], 0.0);
        close(weights[0] + offsets[0], -0.5);
        close(weights[0] + offsets[2], 0.3);
        assert!(offsets[3].abs() < 1e-12);
        let (nothing, _) = fit_weights_and_offsets::<VALUES>(&[], 1);
        assert!(nothing.iter().all(|weight| weight.is_finite()));
    }
}
