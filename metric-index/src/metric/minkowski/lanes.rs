//! Sums in eight lanes, which are finally added pairwise.

/// Number of lanes.
pub(super) const LANES: usize = 8;

#[inline]
pub(super) fn join_lanes<T: Copy>(l: [T; LANES], combine: fn(T, T) -> T) -> T {
    let four = [combine(l[0], l[4]), combine(l[1], l[5]), combine(l[2], l[6]), combine(l[3], l[7])];
    combine(combine(four[0], four[2]), combine(four[1], four[3]))
}

/// Returns the greater value, or NaN if either value is NaN.
pub(super) fn max_or_nan(x: f64, y: f64) -> f64 {
    if x >= y || x.is_nan() { x } else { y }
}

#[expect(clippy::cast_possible_truncation, reason = "the only rounding to f32")]
pub(super) fn round_to_f32(distance: f64) -> f32 {
    distance as f32
}
