//! The inner loops, for the vector units that a processor has.

#![expect(
    clippy::inline_always,
    reason = "a call would cost as much as the work, or lack the processor's features"
)]

use multiversion::multiversion;

/// Queries whose products with a row are added at a time.
pub(super) const LANES: usize = 64;
/// Rows and queries whose sums change places at a time.
const TILE: usize = 8;
/// Rows whose sums are made before they are written.
pub(super) const WINDOW: usize = 64;
/// Sums that are compared at a time.
const MASKED: usize = 64;

/// The frequent terms of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    /// For each row of a window, which of them it is: those with similar numbers of entries stand together, so that a processor
    /// foresees where they end.
    pub(super) order: &'a [u8],
    /// The entries of the row that stands at `i` are `entries[starts[i]..starts[i + 1]]`.
    pub(super) starts: &'a [u32],
    /// A column in the upper half, a weight in the lower.
    pub(super) entries: &'a [u32],
}

macro_rules! kernels {
    ($number:ident, $wide:ident, $multiply_avx2:ident, $multiply_avx512:ident, $at_least_avx512:ident, $add_avx512:ident) => {
        pub(super) mod $number {
            use super::*;

            /// Sets the sums of up to `LANES` queries to the products of the frequent terms of each row. `factors[c]` has those of
            /// column `c` for each query. The sums of query `q` begin at `q · stride`, and there is room for whole windows.
            pub(in super::super) fn head_products(
                head: Head<'_>,
                factors: &[[$number; LANES]],
                sums: &mut [$number],
                stride: usize,
            ) {
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512bw") {
                        #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
                        // SAFETY: checked.
                        unsafe {
                            return head_avx512(head, factors, sums, stride);
                        }
                    }
                    if is_x86_feature_detected!("avx2") {
                        #[expect(unsafe_code, reason = "a function for processors with AVX2")]
                        // SAFETY: checked.
                        unsafe {
                            return head_avx2(head, factors, sums, stride);
                        }
                    }
                }
                head_portable(head, factors, sums, stride);
            }

            /// With NEON, or whatever the compiler makes of it.
            pub(super) fn head_portable(
                head: Head<'_>,
                factors: &[[$number; LANES]],
                sums: &mut [$number],
                stride: usize,
            ) {
                let of_row = |entries: &[u32]| {
                    let mut lanes = [0 as $number; LANES];
                    for &entry in entries {
                        let weight = $wide::from(bytemuck::cast::<u16, $number>(weight_of(entry)));
                        for (lane, &factor) in lanes.iter_mut().zip(&factors[column_of(entry)]) {
                            let product = (weight * $wide::from(factor) >> 16) as $number;
                            *lane = lane.wrapping_add(product);
                        }
                    }
                    bytemuck::cast(lanes)
                };
                windows(head, of_row, bytemuck::cast_slice_mut(sums), stride);
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            pub(super) fn head_avx2(
                head: Head<'_>,
                factors: &[[$number; LANES]],
                sums: &mut [$number],
                stride: usize,
            ) {
                use std::arch::x86_64::{
                    __m256i, _mm256_add_epi16, _mm256_set1_epi16, $multiply_avx2,
                };
                let of_row = |entries: &[u32]| {
                    let mut lanes = [_mm256_set1_epi16(0); LANES / 16];
                    for &entry in entries {
                        let weight = _mm256_set1_epi16(bytemuck::cast(weight_of(entry)));
                        let column: [__m256i; LANES / 16] =
                            bytemuck::cast(factors[column_of(entry)]);
                        for (lane, factor) in lanes.iter_mut().zip(column) {
                            *lane = _mm256_add_epi16(*lane, $multiply_avx2(weight, factor));
                        }
                    }
                    bytemuck::cast(lanes)
                };
                windows(head, of_row, bytemuck::cast_slice_mut(sums), stride);
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw")]
            pub(super) fn head_avx512(
                head: Head<'_>,
                factors: &[[$number; LANES]],
                sums: &mut [$number],
                stride: usize,
            ) {
                use std::arch::x86_64::{
                    __m512i, _mm512_add_epi16, _mm512_set1_epi16, $multiply_avx512,
                };
                let of_row = |entries: &[u32]| {
                    let mut lanes = [_mm512_set1_epi16(0); LANES / 32];
                    for &entry in entries {
                        let weight = _mm512_set1_epi16(bytemuck::cast(weight_of(entry)));
                        let column: [__m512i; LANES / 32] =
                            bytemuck::cast(factors[column_of(entry)]);
                        for (lane, factor) in lanes.iter_mut().zip(column) {
                            *lane = _mm512_add_epi16(*lane, $multiply_avx512(weight, factor));
                        }
                    }
                    bytemuck::cast(lanes)
                };
                windows(head, of_row, bytemuck::cast_slice_mut(sums), stride);
            }

            /// Adds the products of the columns that a query has to the sums of rows, and 1 for each weight that is not 0. A strip is
            /// `LANES` rows: their weights in column 0, in column 1, …
            pub(in super::super) fn dense_products(
                strips: &[[$number; LANES]],
                columns: usize,
                factors: &[(usize, $number)],
                sums: &mut [$number],
            ) {
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512bw") {
                        #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
                        // SAFETY: checked.
                        unsafe {
                            return dense_avx512(strips, columns, factors, sums);
                        }
                    }
                    if is_x86_feature_detected!("avx2") {
                        #[expect(unsafe_code, reason = "a function for processors with AVX2")]
                        // SAFETY: checked.
                        unsafe {
                            return dense_avx2(strips, columns, factors, sums);
                        }
                    }
                }
                dense_portable(strips, columns, factors, sums);
            }

            /// With NEON, or whatever the compiler makes of it.
            pub(super) fn dense_portable(
                strips: &[[$number; LANES]],
                columns: usize,
                factors: &[(usize, $number)],
                sums: &mut [$number],
            ) {
                for (strip, sums) in strips.chunks_exact(columns).zip(sums.chunks_mut(LANES)) {
                    let mut lanes = [0 as $number; LANES];
                    lanes[..sums.len()].copy_from_slice(sums);
                    for &(column, factor) in factors {
                        for (lane, &weight) in lanes.iter_mut().zip(&strip[column]) {
                            let product =
                                ($wide::from(weight) * $wide::from(factor) >> 16) as $number;
                            *lane =
                                lane.wrapping_add(product).wrapping_add($number::from(weight != 0));
                        }
                    }
                    sums.copy_from_slice(&lanes[..sums.len()]);
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            pub(super) fn dense_avx2(
                strips: &[[$number; LANES]],
                columns: usize,
                factors: &[(usize, $number)],
                sums: &mut [$number],
            ) {
                use std::arch::x86_64::{
                    __m256i, _mm256_add_epi16, _mm256_cmpeq_epi16, _mm256_set1_epi16,
                    $multiply_avx2,
                };
                let (zero, one) = (_mm256_set1_epi16(0), _mm256_set1_epi16(1));
                for (strip, sums) in strips.chunks_exact(columns).zip(sums.chunks_mut(LANES)) {
                    let mut lanes = [0 as $number; LANES];
                    lanes[..sums.len()].copy_from_slice(sums);
                    let mut lanes: [__m256i; LANES / 16] = bytemuck::cast(lanes);
                    for &(column, factor) in factors {
                        let factor = _mm256_set1_epi16(bytemuck::cast(factor));
                        let weights: [__m256i; LANES / 16] = bytemuck::cast(strip[column]);
                        for (lane, weights) in lanes.iter_mut().zip(weights) {
                            // -1 where there is no weight.
                            let none = _mm256_cmpeq_epi16(weights, zero);
                            let product = $multiply_avx2(weights, factor);
                            let more = _mm256_add_epi16(product, _mm256_add_epi16(one, none));
                            *lane = _mm256_add_epi16(*lane, more);
                        }
                    }
                    let lanes: [$number; LANES] = bytemuck::cast(lanes);
                    sums.copy_from_slice(&lanes[..sums.len()]);
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw")]
            pub(super) fn dense_avx512(
                strips: &[[$number; LANES]],
                columns: usize,
                factors: &[(usize, $number)],
                sums: &mut [$number],
            ) {
                use std::arch::x86_64::{
                    __m512i, _mm512_add_epi16, _mm512_mask_add_epi16, _mm512_set1_epi16,
                    _mm512_test_epi16_mask, $multiply_avx512,
                };
                let one = _mm512_set1_epi16(1);
                for (strip, sums) in strips.chunks_exact(columns).zip(sums.chunks_mut(LANES)) {
                    let mut lanes = [0 as $number; LANES];
                    lanes[..sums.len()].copy_from_slice(sums);
                    let mut lanes: [__m512i; LANES / 32] = bytemuck::cast(lanes);
                    for &(column, factor) in factors {
                        let factor = _mm512_set1_epi16(bytemuck::cast(factor));
                        let weights: [__m512i; LANES / 32] = bytemuck::cast(strip[column]);
                        for (lane, weights) in lanes.iter_mut().zip(weights) {
                            let some = _mm512_test_epi16_mask(weights, weights);
                            *lane = _mm512_add_epi16(*lane, $multiply_avx512(weights, factor));
                            *lane = _mm512_mask_add_epi16(*lane, some, *lane, one);
                        }
                    }
                    let lanes: [$number; LANES] = bytemuck::cast(lanes);
                    sums.copy_from_slice(&lanes[..sums.len()]);
                }
            }

            /// A row's sum and the product of its length and a factor, rounded up; at most the largest number.
            #[inline(always)]
            pub(in super::super) fn bound(
                sum: $number,
                length: $number,
                factor: $number,
            ) -> $number {
                let product = ($wide::from(length) * $wide::from(factor) >> 16) as $number;
                sum.saturating_add(product).saturating_add(1)
            }

            /// Sets a bit of `marks` for each row whose [`bound`] is at least `least`. Returns how many there are.
            pub(in super::super) fn mark_bounds(
                sums: &[$number],
                (lengths, factor): (&[$number], $number),
                least: $number,
                marks: &mut Vec<u64>,
            ) -> usize {
                let whole = sums.len() / MASKED * MASKED;
                let ((sums, last), (lengths, last_lengths)) =
                    (sums.split_at(whole), lengths.split_at(whole));
                marks.clear();
                mark_whole(sums, (lengths, factor), least, marks);
                if !last.is_empty() {
                    // A bound is above 0.
                    let mut bounds = [0; MASKED];
                    for ((to, &sum), &length) in bounds.iter_mut().zip(last).zip(last_lengths) {
                        *to = bound(sum, length, factor);
                    }
                    marks.push(mask_portable(&bounds, least.max(1)));
                }
                marks.iter().map(|mask| mask.count_ones() as usize).sum()
            }

            /// The same, of whole masks.
            fn mark_whole(
                sums: &[$number],
                (lengths, factor): (&[$number], $number),
                least: $number,
                marks: &mut Vec<u64>,
            ) {
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx512bw") {
                    #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
                    // SAFETY: checked.
                    unsafe {
                        return mark_avx512(sums, (lengths, factor), least, marks);
                    }
                }
                mark_portable(sums, (lengths, factor), least, marks);
            }

            #[multiversion(targets("x86_64+avx2", "aarch64+neon"))]
            pub(super) fn mark_portable(
                sums: &[$number],
                (lengths, factor): (&[$number], $number),
                least: $number,
                marks: &mut Vec<u64>,
            ) {
                let (sums, lengths) =
                    (sums.as_chunks::<MASKED>().0, lengths.as_chunks::<MASKED>().0);
                for (sums, lengths) in sums.iter().zip(lengths) {
                    let mut bounds = [0; MASKED];
                    for ((to, &sum), &length) in bounds.iter_mut().zip(sums).zip(lengths) {
                        *to = bound(sum, length, factor);
                    }
                    marks.push(mask_portable(&bounds, least));
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw")]
            fn mark_avx512(
                sums: &[$number],
                (lengths, factor): (&[$number], $number),
                least: $number,
                marks: &mut Vec<u64>,
            ) {
                use std::arch::x86_64::{
                    __m512i, _mm512_set1_epi16, $add_avx512, $at_least_avx512, $multiply_avx512,
                };
                let (factor, least) = (
                    _mm512_set1_epi16(bytemuck::cast(factor)),
                    _mm512_set1_epi16(bytemuck::cast(least)),
                );
                let one = _mm512_set1_epi16(1);
                let mask = |sums: __m512i, lengths: __m512i| {
                    let more = $add_avx512(sums, $multiply_avx512(lengths, factor));
                    u64::from($at_least_avx512($add_avx512(more, one), least))
                };
                let (sums, lengths) =
                    (sums.as_chunks::<MASKED>().0, lengths.as_chunks::<MASKED>().0);
                marks.extend(sums.iter().zip(lengths).map(|(sums, lengths)| {
                    let sums: [__m512i; 2] = bytemuck::cast(*sums);
                    let lengths: [__m512i; 2] = bytemuck::cast(*lengths);
                    mask(sums[0], lengths[0]) | mask(sums[1], lengths[1]) << 32
                }));
            }

            /// `maxima[g]` = the maximum of 0 and the sums g, g + G, g + 2 G, … of G groups.
            #[multiversion(targets(
                "x86_64+avx512f+avx512bw+avx512vl",
                "x86_64+avx2",
                "aarch64+neon"
            ))]
            pub(in super::super) fn group_maxima(sums: &[$number], maxima: &mut [$number]) {
                maxima.fill(0);
                for chunk in sums.chunks(maxima.len()) {
                    for (max, &sum) in maxima.iter_mut().zip(chunk) {
                        *max = if sum > *max { sum } else { *max };
                    }
                }
            }

            /// Calls `found` with the place of each sum that is at least `least`, in order.
            pub(in super::super) fn at_least(
                sums: &[$number],
                least: $number,
                mut found: impl FnMut(usize),
            ) {
                let mut report = |first: usize, mut mask: u64| {
                    while mask != 0 {
                        found(first + mask.trailing_zeros() as usize);
                        mask &= mask - 1;
                    }
                };
                let (whole, rest) = sums.as_chunks::<MASKED>();
                #[cfg(target_arch = "x86_64")]
                let has_avx512 = is_x86_feature_detected!("avx512bw");
                #[cfg(not(target_arch = "x86_64"))]
                let has_avx512 = false;
                for (number, sums) in whole.iter().enumerate() {
                    let mask = if has_avx512 {
                        #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
                        // SAFETY: this processor has AVX-512.
                        unsafe {
                            mask_avx512(sums, least)
                        }
                    } else {
                        mask_portable(sums, least)
                    };
                    report(number * MASKED, mask);
                }
                let last = |mask, (at, &sum)| mask | u64::from(sum >= least) << at;
                report(whole.len() * MASKED, rest.iter().enumerate().fold(0, last));
            }

            /// A bit for each sum that is at least `least`.
            #[multiversion(targets("x86_64+avx2", "aarch64+neon"))]
            pub(super) fn mask_portable(sums: &[$number; MASKED], least: $number) -> u64 {
                let mut any = false;
                for &sum in sums {
                    any |= sum >= least;
                }
                if !any {
                    return 0;
                }
                let mut mask = 0;
                for (at, &sum) in sums.iter().enumerate() {
                    mask |= u64::from(sum >= least) << at;
                }
                mask
            }

            /// Does the same as `mask_portable`, with AVX-512.
            ///
            /// # Safety
            /// The processor must have the instructions `avx512f` and `avx512bw`.
            #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
            #[inline(always)]
            unsafe fn mask_avx512(sums: &[$number; MASKED], least: $number) -> u64 {
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{__m512i, _mm512_set1_epi16, $at_least_avx512};
                    #[target_feature(enable = "avx512f,avx512bw")]
                    #[inline]
                    fn mask(sums: &[$number; MASKED], least: $number) -> u64 {
                        let [low, high]: [__m512i; 2] = bytemuck::cast(*sums);
                        let least = _mm512_set1_epi16(bytemuck::cast(least));
                        u64::from($at_least_avx512(low, least))
                            | u64::from($at_least_avx512(high, least)) << 32
                    }
                    // SAFETY: the caller's promise.
                    unsafe { mask(sums, least) }
                }
                #[cfg(not(target_arch = "x86_64"))]
                mask_portable(sums, least)
            }

            /// How many values are at least `least`.
            #[multiversion(targets(
                "x86_64+avx512f+avx512bw+avx512vl",
                "x86_64+avx2",
                "aarch64+neon"
            ))]
            pub(in super::super) fn count_at_least(values: &[$number], least: $number) -> usize {
                let mut all = 0;
                for chunk in values.chunks(1 << 15) {
                    // As wide as the values, and no overflow in a chunk.
                    let mut count = 0u16;
                    for &value in chunk {
                        count += u16::from(value >= least);
                    }
                    all += usize::from(count);
                }
                all
            }
        }
    };
}

kernels!(
    u16,
    u32,
    _mm256_mulhi_epu16,
    _mm512_mulhi_epu16,
    _mm512_cmpge_epu16_mask,
    _mm512_adds_epu16
);
kernels!(
    i16,
    i32,
    _mm256_mulhi_epi16,
    _mm512_mulhi_epi16,
    _mm512_cmpge_epi16_mask,
    _mm512_adds_epi16
);

/// The column of an entry of the head.
#[inline(always)]
fn column_of(entry: u32) -> usize {
    (entry >> 16) as usize
}

/// The bits of its weight.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
fn weight_of(entry: u32) -> u16 {
    entry as u16
}

/// Writes the sums of each row, which `of_row` makes for all queries, to where those of each query are.
#[inline(always)]
fn windows(
    Head { starts, entries, order }: Head<'_>,
    of_row: impl Fn(&[u32]) -> [u16; LANES],
    sums: &mut [u16],
    stride: usize,
) {
    let mut window = [[0; LANES]; WINDOW];
    for (first, order) in (0..).step_by(WINDOW).zip(order.chunks(WINDOW)) {
        for (at, &place) in (first..).zip(order) {
            let own = &entries[starts[at] as usize..starts[at + 1] as usize];
            window[usize::from(place) % WINDOW] = of_row(own);
        }
        for query in (0..LANES).step_by(TILE) {
            for row in (0..WINDOW).step_by(TILE) {
                let mut tile = [[0; TILE]; TILE];
                for (from, to) in window[row..row + TILE].iter().zip(&mut tile) {
                    to.copy_from_slice(&from[query..query + TILE]);
                }
                for (query, own) in (query..).zip(transposed(tile)) {
                    sums[query * stride + first + row..][..TILE].copy_from_slice(&own);
                }
            }
        }
    }
}

/// Rows become columns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transposed(rows: [[u16; TILE]; TILE]) -> [[u16; TILE]; TILE] {
    use std::arch::x86_64::{
        __m128i, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi16,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Pairs of 16, 32 and 64 bits are brought together.
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
    // SAFETY: every x86-64 processor has it.
    let columns = unsafe { columns(rows.map(bytemuck::cast)) };
    columns.map(bytemuck::cast)
}

/// Rows become columns.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn transposed(rows: [[u16; TILE]; TILE]) -> [[u16; TILE]; TILE] {
    std::array::from_fn(|column| rows.map(|row| row[column]))
}

#[cfg(test)]
mod tests;
