//! The triangle inequality for rounded distances. This module contains the bounds of all indexes.
//!
//! Let `t` be a true distance and `c` the computed distance. Then `|c − t| ≤ e t + a`, where `e`
//! and `a` are the relative and absolute errors of the metric. Hence
//! `(c − a)(1 − e) ≤ t ≤ (c + a)(1 + 2e)`, for e up to a half.
//!
//! The triangle inequality `t(q, x) ≥ |t(p, q) − t(p, x)|` then gives a lower bound on the
//! *computed* distance between q and x. The bound is computed in `f64`, whose rounding is included
//! in `e`, and rounded down to `f32`. A point whose bound is above the radius cannot be in the
//! answer. A point whose bound equals the radius can be in the answer, because balls are closed.

use std::ops::Range;

use crate::metric::Metric;

/// Upper bound on the relative rounding error of a few operations in `f64`.
const ROUNDING: f64 = 1e-14;

/// Bounds on the computed distances of a metric, which include its rounding errors.
///
/// ```
/// use metric_index::metric::Edit;
/// use metric_index::prune::Bounds;
///
/// let bounds = Bounds::of::<str>(&Edit);
/// // If two words have distances 5 and 3 from a third word, the distance between them is above 1.
/// assert!(bounds.gap(5.0, 3.0) > 1.0);
/// assert!(bounds.outside(1.0, 4.0, 9.0) > 2.0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    relative: f64,
    absolute: f64,
}

impl Bounds {
    /// Creates the bounds for a metric from its maximum errors.
    pub fn of<P: ?Sized>(metric: &impl Metric<P>) -> Self {
        Self {
            relative: f64::from(metric.relative_error()) + ROUNDING,
            absolute: f64::from(metric.absolute_error()),
        }
    }

    /// Returns the maximum relative error of a computed distance, including the rounding of these
    /// bounds.
    pub fn relative_error(self) -> f64 {
        self.relative
    }

    /// Returns the maximum absolute error of a computed distance.
    pub fn absolute_error(self) -> f64 {
        self.absolute
    }

    /// Returns a lower bound on the distance between two points. One of them is at least `far` from
    /// a third point, and the other is at most `near` from it.
    #[expect(clippy::cast_possible_truncation, reason = "rounded down below")]
    pub fn gap(self, far: f32, near: f32) -> f32 {
        let far = f64::from(far);
        let near = f64::from(near);
        let true_gap = (far - self.absolute) * (1.0 - self.relative)
            - (near + self.absolute) * (1.0 + 2.0 * self.relative);
        let bound = true_gap * (1.0 - self.relative) - self.absolute;
        if bound <= 0.0 {
            return 0.0;
        }
        let rounded = bound as f32;
        if f64::from(rounded) > bound { rounded.next_down() } else { rounded }
    }

    /// Returns a bound like [`gap`](Self::gap) if only the difference between the distances from
    /// the third point is known. The difference is at least `difference`, and neither distance is
    /// above `greatest`.
    #[expect(clippy::cast_possible_truncation, reason = "rounded down below")]
    pub(crate) fn gap_of(self, difference: f32, greatest: f32) -> f32 {
        let Self { relative: e, absolute: a } = self;
        let error = 3.0 * e * f64::from(greatest) + a * (2.0 + e);
        // The difference may have been rounded, or may have overflowed when it was scaled.
        let difference = difference.min(greatest).next_down();
        let bound = (f64::from(difference) - error) * (1.0 - e) - a;
        if bound <= 0.0 {
            return 0.0;
        }
        let rounded = bound as f32;
        if f64::from(rounded) > bound { rounded.next_down() } else { rounded }
    }

    /// Returns the margin for the difference between two distances from a third point, both at most
    /// `greatest`. If the difference exceeds the margin, [`gap`](Self::gap) is above the radius.
    pub(crate) fn margin(self, radius: f32, greatest: f32) -> f64 {
        let Self { relative: e, absolute: a } = self;
        // The gap is rounded down, so it must reach the next `f32` above the radius.
        let radius = f64::from(radius.next_up());
        let error = 3.0 * e * f64::from(greatest) + a * (2.0 + e);
        ((radius + a) / (1.0 - e) + error) * (1.0 + 2.0 * ROUNDING)
    }

    /// Returns the range of points that are not excluded from the ball around a query. `from_third`
    /// contains the distances from the points to a third point in ascending order. `distance` is
    /// the query's distance from the third point.
    pub(crate) fn candidate_range(
        self,
        from_third: &[f32],
        distance: f32,
        radius: f32,
    ) -> Range<usize> {
        let greatest = from_third.last().copied().unwrap_or(0.0).max(distance);
        let margin = self.margin(radius, greatest);
        let low = f64::from(distance) - margin;
        let high = f64::from(distance) + margin;
        let start = from_third.partition_point(|&from| f64::from(from) < low);
        start..from_third.partition_point(|&from| f64::from(from) <= high).max(start)
    }

    /// Returns an upper bound on the distance between two points whose distances from a third point
    /// are at most `first` and `second`.
    #[expect(clippy::cast_possible_truncation, reason = "rounded up below")]
    pub fn reach(self, first: f32, second: f32) -> f32 {
        let Self { relative: e, absolute: a } = self;
        let sum = (f64::from(first) + a + f64::from(second) + a) * (1.0 + 2.0 * e);
        let bound = sum * (1.0 + 2.0 * e) + a;
        let rounded = bound as f32;
        if f64::from(rounded) < bound { rounded.next_up() } else { rounded }
    }

    /// Returns the distances from a pivot that exclude a point, if the query's distance from the
    /// pivot is `distance`. [`gap`](Self::gap) is above the radius for distances up to the first
    /// value and for distances of at least the second value. It may also be above the radius for
    /// distances just inside these limits.
    #[expect(clippy::cast_possible_truncation, reason = "the rounded values are checked")]
    pub(crate) fn exclusion_limits(self, distance: f32, radius: f32) -> (f32, f32) {
        let Self { relative: e, absolute: a } = self;
        // The gap is rounded down, so it must reach the next `f32` above the radius.
        let d = f64::from(distance);
        let r = f64::from(radius.next_up());
        let true_gap = (r + a) / (1.0 - e);
        let below = (((d - a) * (1.0 - e) - true_gap) / (1.0 + 2.0 * e) - a) as f32;
        let above = ((true_gap + (d + a) * (1.0 + 2.0 * e)) / (1.0 - e) + a) as f32;
        let below = below.next_down().next_down();
        let above = above.next_up().next_up();
        (
            if below >= 0.0 && self.gap(distance, below) > radius { below } else { -1.0 },
            if self.gap(above, distance) > radius { above } else { f32::INFINITY },
        )
    }

    /// Returns a lower bound on the distances between a query and the points whose distances from a
    /// pivot are between `low` and `high`. `distance` is the query's distance from the pivot.
    pub fn outside(self, distance: f32, low: f32, high: f32) -> f32 {
        self.gap(distance, high).max(self.gap(low, distance))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_possible_truncation, reason = "rounds to the nearest `f32`")]

    use super::*;
    use crate::metric::{Angular, Edit, Euclidean};

    /// A metric with the maximum permitted relative error, less accurate than all metrics of this
    /// crate.
    struct RoughMetric;

    impl Metric<f32> for RoughMetric {
        fn distance(&self, a: &f32, b: &f32) -> f32 {
            (a - b).abs()
        }

        fn relative_error(&self) -> f32 {
            0.1
        }

        fn absolute_error(&self) -> f32 {
            0.5
        }
    }

    /// The bounds of a metric without errors.
    const EXACT: Bounds = Bounds { relative: ROUNDING, absolute: 0.0 };

    /// Returns pairs of numbers. The first number is at least as large as the second.
    fn pairs() -> impl Iterator<Item = (f64, f64)> {
        let far = [0.0, 1e-30, 0.3, 1.0, 1.7, 10.0, 77.7, 1_234.5, 1e30];
        let shares = [0.0, 0.1, 1.0 / 3.0, 0.77, 0.999, 1.0];
        far.into_iter().flat_map(move |far| shares.map(|share| (far, far * share)))
    }

    /// Returns the bounds of a metric, and its declared errors.
    fn bounds_of<P: ?Sized>(metric: &impl Metric<P>) -> (Bounds, f64, f64) {
        let relative = metric.relative_error();
        let absolute = metric.absolute_error();
        (Bounds::of(metric), f64::from(relative), f64::from(absolute))
    }

    /// Returns the two `f32` around `x`.
    fn adjacent_floats(x: f64) -> [f32; 2] {
        let near = x as f32;
        if f64::from(near) < x { [near, near.next_up()] } else { [near.next_down(), near] }
    }

    /// The true distances differ as much as the triangle inequality permits, and the computed
    /// distances have the maximum error.
    #[test]
    fn bounds_hold_at_the_worst_errors() {
        let metrics = [
            bounds_of(&RoughMetric),
            (Bounds { relative: 0.1, absolute: 0.0 }, 0.1, 0.0),
            (EXACT, 0.0, 0.0),
            bounds_of::<[f32]>(&Angular),
            bounds_of::<[f32]>(&Euclidean),
        ];
        for (bounds, e, a) in metrics {
            let lowest = |t: f64| t * (1.0 - e) - a;
            let highest = |t: f64| t * (1.0 + e) + a;
            for (far, near) in pairs() {
                let case = format!("{far} and {near}, {bounds:?}");
                // The third distance is between the difference and the sum of the other two.
                let measured_far = adjacent_floats(highest(far))[0];
                let measured_near = adjacent_floats(lowest(near))[1];
                if measured_near >= 0.0 {
                    let gap = bounds.gap(measured_far, measured_near);
                    assert!(gap.to_bits() == 0 || f64::from(gap) <= lowest(far - near), "{case}");
                    let gap = bounds.gap_of(measured_far - measured_near, measured_far);
                    assert!(gap.to_bits() == 0 || f64::from(gap) <= lowest(far - near), "{case}");
                }
                let low = adjacent_floats(lowest(far))[1];
                let high = adjacent_floats(lowest(near))[1];
                if low >= 0.0 && high >= 0.0 {
                    assert!(f64::from(bounds.reach(low, high)) >= highest(far + near), "{case}");
                }
            }
        }
        // Equal distances from the third point exclude nothing, regardless of their values.
        assert_eq!(Bounds::of(&RoughMetric).gap_of(0.0, 5.0).to_bits(), 0);
    }

    /// Distances that differ by more than the margin exclude a point.
    #[test]
    fn distances_beyond_the_margin_exclude_points() {
        let words = Bounds::of::<str>(&Edit);
        let plane = Bounds::of::<[f32]>(&Euclidean);
        let rough = Bounds { relative: 0.1, absolute: 0.5 };
        for bounds in [words, plane, EXACT, rough, Bounds { absolute: 0.0, ..rough }] {
            for (far, near) in pairs() {
                let radius = (far - near) as f32 / 2.0;
                let far = far as f32;
                let margin = bounds.margin(radius, far);
                assert!(margin.is_finite());
                let mut near = (f64::from(far) - margin) as f32;
                while f64::from(far) - f64::from(near) <= margin {
                    near = near.next_down();
                }
                assert!(near < 0.0 || bounds.gap(far, near) > radius, "{far} {near} {radius}");
            }
        }
    }

    #[test]
    fn bounds_are_tight() {
        let words = Bounds::of::<str>(&Edit);
        assert!(words.gap(5.0, 3.0) > 1.0 && words.gap(5.0, 3.0) <= 2.0);
        assert_eq!(words.gap(3.0, 5.0).to_bits(), 0);
        assert!(words.outside(1.0, 4.0, 9.0) > 2.0 && words.outside(9.0, 0.0, 4.0) > 4.0);
        let plane = Bounds::of::<[f32]>(&Euclidean);
        for (far, near) in [(1e-40, 0.0), (1.0, 1.0 - f32::EPSILON), (3e38, 1e38), (0.3, 0.1)] {
            assert!(plane.gap(far, near) <= far - near);
        }
        for bounds in [words, plane] {
            for distance in [0.0, 1e-3, 1.0, 2.0, 3.0, 77.7, 1e30] {
                for radius in [0.0, 1e-3, 1.0, 2.0, 77.0, f32::MAX, f32::INFINITY] {
                    let (below, above) = bounds.exclusion_limits(distance, radius);
                    assert!(below < 0.0 || bounds.outside(distance, below, below) > radius);
                    assert!(above.is_infinite() || bounds.outside(distance, above, above) > radius);
                    // Points slightly closer to the query are not excluded.
                    if distance < 100.0 && (1.0..100.0).contains(&radius) {
                        for from in [below + 1e-3, above - 1e-3] {
                            assert!(from < 0.0 || bounds.outside(distance, from, from) <= radius);
                        }
                        assert!(above.is_finite() && (below >= 0.0) == (distance > radius + 1e-3));
                    }
                }
            }
        }
        // `gap_of` has less information than `gap`, so its bound is slightly lower.
        for bounds in [words, plane] {
            for far in [1e-30f32, 0.1, 1.0, 2.0, 3.5, 77.7, 1e30] {
                for near in [0.0, far / 3.0, far * 0.999, far.next_down(), far] {
                    let gap = bounds.gap(far, near);
                    let bound = bounds.gap_of(far - near, far);
                    assert!(
                        bound <= gap && bound >= gap - far * 1e-6,
                        "{bound} {gap} {far} {near}"
                    );
                    for radius in [0.0, 1e-3, 1.0, 2.0, 1e20, f32::INFINITY] {
                        if f64::from(far) - f64::from(near) > bounds.margin(radius, far) {
                            assert!(gap > radius, "{gap} {radius}");
                        }
                        assert!(
                            bounds.margin(radius, far)
                                <= f64::from(radius) * 1.001 + f64::from(far) * 1e-5 + 1e-37
                        );
                    }
                }
            }
        }
        // `reach` and `gap` are inverse up to rounding.
        for (first, second) in [(0.0, 0.0), (1.0, 2.0), (1e-40, 1e30), (f32::MAX, f32::MAX)] {
            let reach = plane.reach(first, second);
            assert!(reach >= first + second && plane.gap(reach, second) >= first);
            assert!(words.reach(first, second) >= first + second);
        }
        assert!(plane.reach(1.0, 2.0) < 3.000_01 && words.reach(1.0, 2.0) < 3.000_01);
        // The query is nearer to the pivot than the ring, or farther away.
        assert!(words.outside(1.0, 4.0, 9.0) <= 3.0 && words.outside(9.0, 0.0, 4.0) <= 5.0);
        assert_eq!(words.outside(5.0, 4.0, 9.0).to_bits(), 0);
        // An infinite distance excludes no points at a finite distance.
        assert_eq!(plane.gap(1.0, f32::INFINITY).to_bits(), 0);
    }
}
