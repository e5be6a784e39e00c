//! The operations of the inner loops, implemented for each instruction set.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::number::{Number, bound};

/// Number of sums, weights or factors that an operation handles at a time.
pub(in crate::search::inverted) const LANES: usize = 64;
/// Number of rows and columns of the tiles in which sums are transposed.
pub(super) const TILE: usize = 8;

/// Operations on [`LANES`] numbers in vector registers. The default implementations are plain loops
/// that the compiler vectorizes.
///
/// A value of an implementing type exists only if the processor has the instructions.
pub(in crate::search::inverted) trait VectorOps: Copy {
    type Number: Number;
    /// [`LANES`] numbers in vector registers.
    type Lanes: Pod;

    /// Adds `weight` times the factor of each lane.
    fn add_products(
        self,
        lanes: Self::Lanes,
        weight: Self::Number,
        factors: &[Self::Number; LANES],
    ) -> Self::Lanes;

    /// Adds `factor` times the weight of each lane, plus 1 where the weight is nonzero.
    fn add_products_and_ones(
        self,
        lanes: Self::Lanes,
        factor: Self::Number,
        weights: &[Self::Number; LANES],
    ) -> Self::Lanes;

    /// Returns a mask with a bit set for each number that is at least `threshold`.
    #[inline(always)]
    fn at_least(self, numbers: &[Self::Number; LANES], threshold: Self::Number) -> u64 {
        let mut has_any = false;
        for &number in numbers {
            has_any |= number >= threshold;
        }
        if !has_any {
            return 0;
        }
        let mut mask = 0;
        for (lane, &number) in numbers.iter().enumerate() {
            mask |= u64::from(number >= threshold) << lane;
        }
        mask
    }

    /// Returns a mask with a bit set for each row whose [`bound`] is at least `threshold`.
    #[inline(always)]
    fn bounds_at_least(
        self,
        sums: &[Self::Number; LANES],
        lengths: &[Self::Number; LANES],
        factor: Self::Number,
        threshold: Self::Number,
    ) -> u64 {
        let mut bounds = [Self::Number::default(); LANES];
        for ((to, &sum), &length) in bounds.iter_mut().zip(sums).zip(lengths) {
            *to = bound(sum, length, factor);
        }
        self.at_least(&bounds, threshold)
    }
}

/// The operations without explicit vector instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable<N>(pub(super) PhantomData<N>);

impl<N: Number> VectorOps for Portable<N> {
    type Number = N;
    type Lanes = [N; LANES];

    #[inline(always)]
    fn add_products(self, mut lanes: [N; LANES], weight: N, factors: &[N; LANES]) -> [N; LANES] {
        for (lane, &factor) in lanes.iter_mut().zip(factors) {
            *lane = lane.plus(weight.times(factor));
        }
        lanes
    }

    #[inline(always)]
    fn add_products_and_ones(
        self,
        mut lanes: [N; LANES],
        factor: N,
        weights: &[N; LANES],
    ) -> [N; LANES] {
        for (lane, &weight) in lanes.iter_mut().zip(weights) {
            let one = if weight == N::default() { N::default() } else { N::ONE };
            *lane = lane.plus(weight.times(factor)).plus(one);
        }
        lanes
    }
}

/// A loop that is compiled for each instruction set.
pub(in crate::search::inverted) trait Loop {
    type Number: Number;
    type Output;

    fn run<V: VectorOps<Number = Self::Number>>(self, ops: V) -> Self::Output;
}
