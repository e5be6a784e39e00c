//! The 16-bit number types of the index, and the instructions that differ between `u16` and `i16`.

use std::fmt::Debug;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, __m512i, _mm256_mulhi_epi16, _mm256_mulhi_epu16, _mm512_adds_epi16, _mm512_adds_epu16,
    _mm512_cmpge_epi16_mask, _mm512_cmpge_epu16_mask, _mm512_mulhi_epi16, _mm512_mulhi_epu16,
};

use bytemuck::Pod;

/// A 16-bit number: `u16` or `i16`.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions that not every processor has")
)]
pub(in crate::search::inverted) trait Number:
    Pod + Ord + Default + Debug + Send + Sync
{
    const ONE: Self;

    fn bits(self) -> u16;
    fn from_bits(bits: u16) -> Self;
    /// The upper 16 bits of the product.
    fn times(self, factor: Self) -> Self;
    /// The wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// The saturating sum.
    fn saturating_plus(self, other: Self) -> Self;

    /// The upper 16 bits of the products.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn times_avx2(numbers: __m256i, factors: __m256i) -> __m256i;
    /// The upper 16 bits of the products.
    ///
    /// # Safety
    /// The processor must have AVX-512 with `avx512bw`. This also applies to the functions below.
    #[cfg(target_arch = "x86_64")]
    unsafe fn times_avx512(numbers: __m512i, factors: __m512i) -> __m512i;
    #[cfg(target_arch = "x86_64")]
    unsafe fn saturating_plus_avx512(numbers: __m512i, others: __m512i) -> __m512i;
    /// A mask with a bit set for each number that is at least the corresponding threshold.
    #[cfg(target_arch = "x86_64")]
    unsafe fn at_least_avx512(numbers: __m512i, threshold: __m512i) -> u32;
}

macro_rules! instructions {
    ($($name:ident = $instruction:ident($vector:ty) -> $result:ty;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn $name(numbers: $vector, others: $vector) -> $result {
            // SAFETY: the caller guarantees that the processor has the instruction.
            unsafe { $instruction(numbers, others) }
        }
    )*};
}

macro_rules! number {
    ($number:ident, $wide:ident, $($instructions:tt)*) => {
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "instructions that not every processor has")
        )]
        impl Number for $number {
            const ONE: Self = 1;

            #[inline(always)]
            fn bits(self) -> u16 {
                bytemuck::cast(self)
            }

            #[inline(always)]
            fn from_bits(bits: u16) -> Self {
                bytemuck::cast(bits)
            }

            #[inline(always)]
            fn times(self, factor: Self) -> Self {
                ($wide::from(self) * $wide::from(factor) >> 16) as $number
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn saturating_plus(self, other: Self) -> Self {
                self.saturating_add(other)
            }

            instructions! { $($instructions)* }
        }
    };
}

number! { u16, u32,
    times_avx2 = _mm256_mulhi_epu16(__m256i) -> __m256i;
    times_avx512 = _mm512_mulhi_epu16(__m512i) -> __m512i;
    saturating_plus_avx512 = _mm512_adds_epu16(__m512i) -> __m512i;
    at_least_avx512 = _mm512_cmpge_epu16_mask(__m512i) -> u32;
}
number! { i16, i32,
    times_avx2 = _mm256_mulhi_epi16(__m256i) -> __m256i;
    times_avx512 = _mm512_mulhi_epi16(__m512i) -> __m512i;
    saturating_plus_avx512 = _mm512_adds_epi16(__m512i) -> __m512i;
    at_least_avx512 = _mm512_cmpge_epi16_mask(__m512i) -> u32;
}

/// Returns a row's sum plus the product of its length and a factor. Rounds up and saturates.
#[inline(always)]
pub(in crate::search::inverted) fn bound<N: Number>(sum: N, length: N, factor: N) -> N {
    sum.saturating_plus(length.times(factor)).saturating_plus(N::ONE)
}
