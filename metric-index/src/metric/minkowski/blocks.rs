//! Vectors in blocks of 16, stored coordinate by coordinate: the first coordinates of all vectors,
//! then the second coordinates, and so on.
//!
//! A pass in `f32` determines which vectors may be within the radius. Their distances are then
//! computed in `f64`, as for single vectors.
//!
//! Let `u = 2⁻²⁴`. The relative error is at most `u` for a difference of two coordinates, and at
//! most `3u` for its square. It is at most slightly more than `(d + 3) u` for the sum of d squares
//! in any order (Higham 2002, section 3.1). Underflow adds less than `2⁻¹⁴⁸` per term. If the true
//! sum of squares is T, the computed sum is therefore at most `T (1 + γ) + d 2⁻¹⁴⁸`, with
//! `γ = (d + 8) 2⁻²³`. A vector is excluded if its sum is above this bound for the radius. Sums of
//! absolute values have fewer roundings, and the greatest difference has one rounding.

use std::ops::Range;

use multiversion::multiversion;

use super::super::{Blocks, Scan};
use super::lanes::{LANES as SUMS, join_lanes, max_or_nan, round_to_f32};

/// Number of vectors per block.
const LANES: usize = 16;
const LANES_U32: u32 = 16;

/// Number of coordinates between checks. A check abandons a block if none of its vectors can be
/// within the radius.
const COORDINATES_PER_CHECK: usize = 8;

/// The way in which the differences of coordinates are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combination {
    SumOfSquares,
    SumOfAbsolutes,
    Maximum,
}

/// Vectors of the same dimension.
#[derive(Debug)]
pub(super) struct VectorBlocks {
    combination: Combination,
    dimension: usize,
    /// Coordinate c of vector v is at `(v / 16 * dimension + c) * 16 + v % 16`.
    values: Vec<f32>,
}

impl VectorBlocks {
    /// Creates blocks of vectors. Returns `None` if the vectors differ in dimension or have no
    /// coordinates.
    pub(super) fn of(
        combination: Combination,
        vectors: &[&[f32]],
    ) -> Option<Box<dyn Blocks<[f32]>>> {
        let dimension = vectors.first()?.len();
        if dimension == 0 || vectors.iter().any(|vector| vector.len() != dimension) {
            return None;
        }
        let mut values = Vec::with_capacity(vectors.len().next_multiple_of(LANES) * dimension);
        for (number, vector) in vectors.iter().enumerate() {
            let lane = number % LANES;
            if lane == 0 {
                values.resize(values.len() + LANES * dimension, 0.0);
            }
            let start = values.len() - LANES * dimension;
            let lanes = values[start + lane..].iter_mut().step_by(LANES);
            for (to, &value) in lanes.zip(*vector) {
                *to = value;
            }
        }
        Some(Box::new(Self { combination, dimension, values }))
    }
}

impl Blocks<[f32]> for VectorBlocks {
    fn from<'a>(&'a self, query: &'a [f32]) -> Option<Box<dyn Scan + 'a>> {
        (query.len() == self.dimension)
            .then(|| Box::new(VectorScan { blocks: self, query }) as Box<_>)
    }
}

struct VectorScan<'a> {
    blocks: &'a VectorBlocks,
    query: &'a [f32],
}

impl Scan for VectorScan<'_> {
    fn within(&mut self, positions: Range<u32>, radius: f32, near: &mut Vec<(u32, f32)>) {
        let VectorBlocks { combination, dimension, ref values } = *self.blocks;
        let radius = Radius { exact: radius, max_sum: max_sum(combination, dimension, radius) };
        let scan = match combination {
            Combination::SumOfSquares => scan_squares,
            Combination::SumOfAbsolutes => scan_absolutes,
            Combination::Maximum => scan_max,
        };
        scan(values, self.query, positions, radius, near);
    }
}

/// A search radius for distances, and the corresponding limit for sums in `f32`.
#[derive(Clone, Copy)]
struct Radius {
    exact: f32,
    /// Upper bound on the sums of vectors within the radius.
    max_sum: f32,
}

/// Returns an upper bound on the `f32` sums of vectors within the radius.
#[expect(clippy::cast_possible_truncation, reason = "rounded up")]
fn max_sum(combination: Combination, dimension: usize, radius: f32) -> f32 {
    if radius < 0.0 {
        return -1.0;
    }
    // An upper bound on the true distance, because the radius, the root and the sum in `f64` are
    // rounded.
    let radius = f64::from(radius.next_up()) * (1.0 + 1e-9);
    let terms = (dimension + 8) as f64;
    let exact = match combination {
        Combination::SumOfSquares => radius * radius,
        Combination::SumOfAbsolutes | Combination::Maximum => radius,
    };
    let underflow = f64::from(f32::from_bits(2));
    let bound = exact * (1.0 + terms * f64::from(f32::EPSILON)) + terms * underflow;
    // Sums near the limit of `f32` may have overflowed.
    if bound < 1e38 { (bound as f32).next_up() } else { f32::INFINITY }
}

/// Defines a function that scans the blocks of a range of positions.
macro_rules! scan {
    ($name:ident, |$difference:ident| $term:expr, $combine:expr, $combine_f32:expr) => {
        #[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2+fma", "aarch64+neon"))]
        fn $name(
            values: &[f32],
            query: &[f32],
            positions: Range<u32>,
            radius: Radius,
            near: &mut Vec<(u32, f32)>,
        ) {
            let combine: fn(f64, f64) -> f64 = $combine;
            let combine_f32: fn(f32, f32) -> f32 = $combine_f32;
            let size = query.len() * LANES;
            let Radius { exact: radius, max_sum } = radius;
            for block in positions.start / LANES_U32..positions.end.div_ceil(LANES_U32) {
                let block_values = &values[block as usize * size..][..size];
                let mut sums = [0.0f32; LANES];
                let (rows, _) = block_values.as_chunks::<LANES>();
                // One bit per vector that may be within the radius.
                let mut candidates = u32::from(max_sum.is_infinite()) * u32::MAX;
                if candidates == 0 {
                    for (rows, query) in
                        rows.chunks(COORDINATES_PER_CHECK).zip(query.chunks(COORDINATES_PER_CHECK))
                    {
                        for (row, &q) in rows.iter().zip(query) {
                            for (sum, &x) in sums.iter_mut().zip(row) {
                                let $difference = q - x;
                                *sum = combine_f32(*sum, $term);
                            }
                        }
                        candidates = 0;
                        for (lane, &sum) in sums.iter().enumerate() {
                            candidates |= u32::from(sum <= max_sum) << lane;
                        }
                        if candidates == 0 {
                            break;
                        }
                    }
                }
                let first = block * LANES_U32;
                while candidates != 0 {
                    let lane = candidates.trailing_zeros();
                    candidates &= candidates - 1;
                    let position = first + lane;
                    if lane >= LANES_U32 || !positions.contains(&position) {
                        continue;
                    }
                    // The operations and their order are the same as for single vectors.
                    let mut exact = [0.0f64; SUMS];
                    let (by_eight, rest) = rows.as_chunks::<SUMS>();
                    let (query_by_eight, query_rest) = query.as_chunks::<SUMS>();
                    for (rows, query) in by_eight.iter().zip(query_by_eight) {
                        for ((sum, row), &q) in exact.iter_mut().zip(rows).zip(query) {
                            let $difference = f64::from(q) - f64::from(row[lane as usize]);
                            *sum = combine(*sum, $term);
                        }
                    }
                    for ((sum, row), &q) in exact.iter_mut().zip(rest).zip(query_rest) {
                        let $difference = f64::from(q) - f64::from(row[lane as usize]);
                        *sum = combine(*sum, $term);
                    }
                    let distance = to_distance!($name, join_lanes(exact, combine));
                    if distance <= radius {
                        near.push((position, distance));
                    }
                }
            }
        }
    };
}

/// Converts a sum to a distance.
macro_rules! to_distance {
    (scan_squares, $sum:expr) => {
        round_to_f32($sum.sqrt())
    };
    ($other:ident, $sum:expr) => {
        round_to_f32($sum)
    };
}

scan!(scan_squares, |d| d * d, |x, y| x + y, |x, y| x + y);
scan!(scan_absolutes, |d| d.abs(), |x, y| x + y, |x, y| x + y);
scan!(scan_max, |d| d.abs(), max_or_nan, |x, y| if x >= y { x } else { y });
