//! The operations with x86-64 vector instructions: AVX2 and AVX-512.
//!
//! The operations are inlined into [`run_avx2`] and [`run_avx512`], which enable the instructions.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
    _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64, _mm256_add_epi16,
    _mm256_cmpeq_epi16, _mm256_set1_epi16, _mm512_add_epi16, _mm512_mask_add_epi16,
    _mm512_set1_epi16, _mm512_test_epi16_mask,
};
use std::marker::PhantomData;

use super::number::Number;
use super::ops::{LANES, Loop, TILE, VectorOps};

/// Runs a loop with AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn run_avx2<L: Loop>(work: L) -> L::Output {
    work.run(Avx2(PhantomData))
}

/// Runs a loop with AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn run_avx512<L: Loop>(work: L) -> L::Output {
    work.run(Avx512(PhantomData))
}

/// Operations with AVX2: 16 numbers per register.
///
/// Only [`run_avx2`] creates a value.
#[derive(Debug, Clone, Copy)]
struct Avx2<N>(PhantomData<N>);

#[expect(unsafe_code, reason = "instructions that not every processor has")]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "they are unsafe for the same reason")]
impl<N: Number> VectorOps for Avx2<N> {
    type Number = N;
    type Lanes = [__m256i; LANES / 16];

    #[inline(always)]
    fn add_products(self, mut lanes: Self::Lanes, weight: N, factors: &[N; LANES]) -> Self::Lanes {
        // SAFETY: a value of this type exists only if the processor has AVX2.
        unsafe {
            let weight = _mm256_set1_epi16(bytemuck::cast(weight));
            let factors: Self::Lanes = bytemuck::cast(*factors);
            for (lane, factors) in lanes.iter_mut().zip(factors) {
                *lane = _mm256_add_epi16(*lane, N::times_avx2(weight, factors));
            }
        }
        lanes
    }

    #[inline(always)]
    fn add_products_and_ones(
        self,
        mut lanes: Self::Lanes,
        factor: N,
        weights: &[N; LANES],
    ) -> Self::Lanes {
        // SAFETY: a value of this type exists only if the processor has AVX2.
        unsafe {
            let zero = _mm256_set1_epi16(0);
            let one = _mm256_set1_epi16(1);
            let factor = _mm256_set1_epi16(bytemuck::cast(factor));
            let weights: Self::Lanes = bytemuck::cast(*weights);
            for (lane, weights) in lanes.iter_mut().zip(weights) {
                // -1 where the weight is 0.
                let minus_one = _mm256_cmpeq_epi16(weights, zero);
                let product = N::times_avx2(weights, factor);
                let increments = _mm256_add_epi16(product, _mm256_add_epi16(one, minus_one));
                *lane = _mm256_add_epi16(*lane, increments);
            }
        }
        lanes
    }
}

/// Operations with AVX-512: 32 numbers per register.
///
/// Only [`run_avx512`] creates a value.
#[derive(Debug, Clone, Copy)]
struct Avx512<N>(PhantomData<N>);

#[expect(unsafe_code, reason = "instructions that not every processor has")]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "they are unsafe for the same reason")]
impl<N: Number> VectorOps for Avx512<N> {
    type Number = N;
    type Lanes = [__m512i; LANES / 32];

    #[inline(always)]
    fn add_products(self, mut lanes: Self::Lanes, weight: N, factors: &[N; LANES]) -> Self::Lanes {
        // SAFETY: a value of this type exists only if the processor has AVX-512.
        unsafe {
            let weight = _mm512_set1_epi16(bytemuck::cast(weight));
            let factors: Self::Lanes = bytemuck::cast(*factors);
            for (lane, factors) in lanes.iter_mut().zip(factors) {
                *lane = _mm512_add_epi16(*lane, N::times_avx512(weight, factors));
            }
        }
        lanes
    }

    #[inline(always)]
    fn add_products_and_ones(
        self,
        mut lanes: Self::Lanes,
        factor: N,
        weights: &[N; LANES],
    ) -> Self::Lanes {
        // SAFETY: a value of this type exists only if the processor has AVX-512.
        unsafe {
            let one = _mm512_set1_epi16(1);
            let factor = _mm512_set1_epi16(bytemuck::cast(factor));
            let weights: Self::Lanes = bytemuck::cast(*weights);
            for (lane, weights) in lanes.iter_mut().zip(weights) {
                let nonzero = _mm512_test_epi16_mask(weights, weights);
                *lane = _mm512_add_epi16(*lane, N::times_avx512(weights, factor));
                *lane = _mm512_mask_add_epi16(*lane, nonzero, *lane, one);
            }
        }
        lanes
    }

    #[inline(always)]
    fn at_least(self, numbers: &[N; LANES], threshold: N) -> u64 {
        // SAFETY: a value of this type exists only if the processor has AVX-512.
        unsafe {
            let [low, high]: Self::Lanes = bytemuck::cast(*numbers);
            let threshold = _mm512_set1_epi16(bytemuck::cast(threshold));
            let low = u64::from(N::at_least_avx512(low, threshold));
            low | u64::from(N::at_least_avx512(high, threshold)) << 32
        }
    }

    #[inline(always)]
    fn bounds_at_least(
        self,
        sums: &[N; LANES],
        lengths: &[N; LANES],
        factor: N,
        threshold: N,
    ) -> u64 {
        // SAFETY: a value of this type exists only if the processor has AVX-512.
        unsafe {
            let factor = _mm512_set1_epi16(bytemuck::cast(factor));
            let threshold = _mm512_set1_epi16(bytemuck::cast(threshold));
            let one = _mm512_set1_epi16(1);
            let sums: Self::Lanes = bytemuck::cast(*sums);
            let lengths: Self::Lanes = bytemuck::cast(*lengths);
            let mut mask = 0;
            for half in (0..LANES / 32).rev() {
                let products = N::times_avx512(lengths[half], factor);
                let bounds = N::saturating_plus_avx512(sums[half], products);
                let bounds = N::saturating_plus_avx512(bounds, one);
                mask = mask << 32 | u64::from(N::at_least_avx512(bounds, threshold));
            }
            mask
        }
    }
}

/// Transposes a tile.
#[inline(always)]
pub(super) fn transposed(rows: [[u16; TILE]; TILE]) -> [[u16; TILE]; TILE] {
    /// Interleaves elements of 16, then 32, then 64 bits.
    #[target_feature(enable = "sse2")]
    #[inline]
    fn columns(r: [__m128i; TILE]) -> [__m128i; TILE] {
        let a = [
            _mm_unpacklo_epi16(r[0], r[1]),
            _mm_unpacklo_epi16(r[2], r[3]),
            _mm_unpacklo_epi16(r[4], r[5]),
            _mm_unpacklo_epi16(r[6], r[7]),
            _mm_unpackhi_epi16(r[0], r[1]),
            _mm_unpackhi_epi16(r[2], r[3]),
            _mm_unpackhi_epi16(r[4], r[5]),
            _mm_unpackhi_epi16(r[6], r[7]),
        ];
        let b = [
            _mm_unpacklo_epi32(a[0], a[1]),
            _mm_unpacklo_epi32(a[2], a[3]),
            _mm_unpackhi_epi32(a[0], a[1]),
            _mm_unpackhi_epi32(a[2], a[3]),
            _mm_unpacklo_epi32(a[4], a[5]),
            _mm_unpacklo_epi32(a[6], a[7]),
            _mm_unpackhi_epi32(a[4], a[5]),
            _mm_unpackhi_epi32(a[6], a[7]),
        ];
        [
            _mm_unpacklo_epi64(b[0], b[1]),
            _mm_unpackhi_epi64(b[0], b[1]),
            _mm_unpacklo_epi64(b[2], b[3]),
            _mm_unpackhi_epi64(b[2], b[3]),
            _mm_unpacklo_epi64(b[4], b[5]),
            _mm_unpackhi_epi64(b[4], b[5]),
            _mm_unpacklo_epi64(b[6], b[7]),
            _mm_unpackhi_epi64(b[6], b[7]),
        ]
    }

    #[expect(unsafe_code, reason = "a function for processors with SSE2")]
    // SAFETY: every x86-64 processor has SSE2.
    let columns = unsafe { columns(rows.map(bytemuck::cast)) };
    columns.map(bytemuck::cast)
}
