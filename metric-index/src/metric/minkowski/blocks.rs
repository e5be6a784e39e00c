//! Vectors in blocks of 16: the first coordinates of all, then the second, and so on.
//!
//! A pass in `f32` finds out which of the eight may be within the radius; those are measured in `f64`, as single
//! vectors are. With `u = 2⁻²⁴`, a difference of two coordinates is wrong by at most `u` relatively, its square by `3u`
//! and the sum of d squares by `(d + 3) u` and a little, in whatever order (Higham 2002, section 3.1). What underflows
//! is below `2⁻¹⁴⁸` for each term. So a true sum of squares T has a computed one of at most `T (1 + γ) + d 2⁻¹⁴⁸`,
//! with `γ = (d + 8) 2⁻²³`, and one above that of the radius excludes the vector. Sums of absolute values have fewer
//! roundings, and the greatest difference has one.

use std::ops::Range;

use multiversion::multiversion;

use super::super::{Blocks, Scan};
use super::{LANES as SUMS, greater, joined, rounded};

/// Vectors of a block.
const LANES: usize = 16;
const LANES_U32: u32 = 16;

/// Coordinates after which a block is left if none of its vectors can be near any more.
const STRETCH: usize = 8;

/// What is added up, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    Squares,
    Absolutes,
    Greatest,
}

/// Vectors of the same dimension.
#[derive(Debug)]
pub(super) struct VectorBlocks {
    sum: Sum,
    dimension: usize,
    /// Coordinate c of vector v is at `(v / 16 * dimension + c) * 16 + v % 16`.
    values: Vec<f32>,
}

impl VectorBlocks {
    /// None if the vectors are of several dimensions, or of none.
    pub(super) fn of(sum: Sum, vectors: &[&[f32]]) -> Option<Box<dyn Blocks<[f32]>>> {
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
            for (place, &value) in values[start + lane..].iter_mut().step_by(LANES).zip(*vector) {
                *place = value;
            }
        }
        Some(Box::new(Self { sum, dimension, values }))
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
    fn within(&mut self, places: Range<u32>, radius: f32, near: &mut Vec<(u32, f32)>) {
        let VectorBlocks { sum, dimension, ref values } = *self.blocks;
        let most = most(sum, dimension, radius);
        let scan = match sum {
            Sum::Squares => scan_squares,
            Sum::Absolutes => scan_absolutes,
            Sum::Greatest => scan_greatest,
        };
        scan(values, self.query, places, most, radius, near);
    }
}

/// The sum in `f32` that no vector within the radius exceeds.
#[expect(clippy::cast_possible_truncation, reason = "rounded up")]
fn most(sum: Sum, dimension: usize, radius: f32) -> f32 {
    if radius < 0.0 {
        return -1.0;
    }
    // The computed distance is at most the radius, which is rounded, as the root and the sum in `f64` are.
    let radius = f64::from(radius.next_up()) * (1.0 + 1e-9);
    let terms = (dimension + 8) as f64;
    let exact = match sum {
        Sum::Squares => radius * radius,
        Sum::Absolutes | Sum::Greatest => radius,
    };
    let most =
        exact * (1.0 + terms * f64::from(f32::EPSILON)) + terms * f64::from(f32::from_bits(2));
    // Sums near the end of the range may have become infinite.
    if most < 1e38 { (most as f32).next_up() } else { f32::INFINITY }
}

/// The pass over the blocks of some places.
macro_rules! scan {
    ($name:ident, |$difference:ident| $term:expr, $combine:expr, $combine_f32:expr) => {
        #[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2+fma", "aarch64+neon"))]
        fn $name(
            values: &[f32],
            query: &[f32],
            places: Range<u32>,
            most: f32,
            radius: f32,
            near: &mut Vec<(u32, f32)>,
        ) {
            let combine: fn(f64, f64) -> f64 = $combine;
            let combine_f32: fn(f32, f32) -> f32 = $combine_f32;
            let size = query.len() * LANES;
            for block in places.start / LANES_U32..places.end.div_ceil(LANES_U32) {
                let block_values = &values[block as usize * size..][..size];
                let mut sums = [0.0f32; LANES];
                let (rows, _) = block_values.as_chunks::<LANES>();
                let mut left = u32::from(most.is_infinite()) * u32::MAX;
                if left == 0 {
                    for (rows, query) in rows.chunks(STRETCH).zip(query.chunks(STRETCH)) {
                        for (row, &q) in rows.iter().zip(query) {
                            for (sum, &x) in sums.iter_mut().zip(row) {
                                let $difference = q - x;
                                *sum = combine_f32(*sum, $term);
                            }
                        }
                        left = 0;
                        for (lane, &sum) in sums.iter().enumerate() {
                            left |= u32::from(sum <= most) << lane;
                        }
                        if left == 0 {
                            break;
                        }
                    }
                }
                let first = block * LANES_U32;
                while left != 0 {
                    let lane = left.trailing_zeros();
                    left &= left - 1;
                    let place = first + lane;
                    if lane >= LANES_U32 || !places.contains(&place) {
                        continue;
                    }
                    // The same operations in the same order as for single vectors.
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
                    let distance = finish!($name, joined(exact, combine));
                    if distance <= radius {
                        near.push((place, distance));
                    }
                }
            }
        }
    };
}

/// The distance of a sum.
macro_rules! finish {
    (scan_squares, $sum:expr) => {
        rounded($sum.sqrt())
    };
    ($other:ident, $sum:expr) => {
        rounded($sum)
    };
}

scan!(scan_squares, |d| d * d, |x, y| x + y, |x, y| x + y);
scan!(scan_absolutes, |d| d.abs(), |x, y| x + y, |x, y| x + y);
scan!(scan_greatest, |d| d.abs(), greater, |x, y| if x >= y { x } else { y });
