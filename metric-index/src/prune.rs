//! The triangle inequality on rounded distances: every bound of every index, in one place.
//!
//! A computed distance `c` of a true one `t` has `|c − t| ≤ e t + a`, with the errors `e` and `a` of the
//! metric. So `(c − a)(1 − e) ≤ t ≤ (c + a)(1 + 2e)`, for e up to a half. From `t(q, x) ≥ t(p, far) −
//! t(p, near)` follows a value that the *computed* distance of q and x cannot fall below. It is computed in
//! `f64`, whose rounding goes into `e`, and rounded down to `f32`. A point whose bound is above the radius
//! cannot be in the answer; one whose bound equals it can: balls are closed.

use crate::metric::Metric;

/// More than what a few operations in `f64` change relatively.
const ROUNDING: f64 = 1e-14;

/// The errors of a metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    relative: f64,
    absolute: f64,
}

impl Bounds {
    pub(crate) fn of<P: ?Sized>(metric: &impl Metric<P>) -> Self {
        Self {
            relative: f64::from(metric.relative_error()) + ROUNDING,
            absolute: f64::from(metric.absolute_error()),
        }
    }

    /// What the distance of two points is at least, one of which is `far` from a third point, or farther, the
    /// other `near` to it, or nearer.
    #[expect(clippy::cast_possible_truncation, reason = "rounded down below")]
    pub(crate) fn gap(self, far: f32, near: f32) -> f32 {
        let (far, near) = (f64::from(far), f64::from(near));
        let apart = (far - self.absolute) * (1.0 - self.relative)
            - (near + self.absolute) * (1.0 + 2.0 * self.relative);
        let least = apart * (1.0 - self.relative) - self.absolute;
        if least <= 0.0 {
            return 0.0;
        }
        let rounded = least as f32;
        if f64::from(rounded) > least { rounded.next_down() } else { rounded }
    }

    /// What the distance of a query is at least to points whose distances from a pivot are `low` to `high`.
    /// The query's is `distance`.
    pub(crate) fn outside(self, distance: f32, low: f32, high: f32) -> f32 {
        self.gap(distance, high).max(self.gap(low, distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Edit, Euclidean};

    #[test]
    fn bounds_are_below_and_near() {
        let words = Bounds::of::<str>(&Edit);
        assert!(words.gap(5.0, 3.0) > 1.0 && words.gap(5.0, 3.0) <= 2.0);
        assert_eq!(words.gap(3.0, 5.0).to_bits(), 0);
        assert!(words.outside(1.0, 4.0, 9.0) > 2.0 && words.outside(9.0, 0.0, 4.0) > 4.0);
        let plane = Bounds::of::<[f32]>(&Euclidean);
        for (far, near) in [(1e-40, 0.0), (1.0, 1.0 - f32::EPSILON), (3e38, 1e38), (0.3, 0.1)] {
            assert!(plane.gap(far, near) <= far - near);
        }
        // A bound of infinity excludes nothing that is not infinitely far.
        assert_eq!(plane.gap(1.0, f32::INFINITY).to_bits(), 0);
    }
}
