//! The SIMD inner loops, compiled for each vector unit.
//!
//! Each [`Loop`] is generic over the [`Unit`] that it runs on. [`VectorUnit::best`] selects a unit
//! at run time, and [`VectorUnit::run`] runs the loop that was compiled for it.

#![expect(
    clippy::inline_always,
    reason = "a function that is not inlined is compiled without the target feature of the unit"
)]

use std::fmt::Debug;
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
use x86::Instructions;

/// An empty trait in place of the x86-64 instructions.
#[cfg(not(target_arch = "x86_64"))]
pub(super) trait Instructions {}

#[cfg(not(target_arch = "x86_64"))]
impl<T> Instructions for T {}

/// Number of sums, weights or factors that a unit handles at a time.
pub(super) const LANES: usize = 64;
/// Number of rows and columns of the tiles in which sums are transposed.
const TILE: usize = 8;
/// Number of rows whose sums are computed before they are written.
pub(super) const WINDOW: usize = 64;

/// A 16-bit number: `u16` or `i16`.
pub(super) trait Number: Pod + Ord + Default + Debug + Send + Sync + Instructions {
    const ONE: Self;

    fn bits(self) -> u16;
    fn of_bits(bits: u16) -> Self;
    /// The upper 16 bits of the product.
    fn times(self, factor: Self) -> Self;
    /// The wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// The saturating sum.
    fn saturating_plus(self, other: Self) -> Self;
}

macro_rules! number {
    ($number:ident, $wide:ident) => {
        impl Number for $number {
            const ONE: Self = 1;

            #[inline(always)]
            fn bits(self) -> u16 {
                bytemuck::cast(self)
            }

            #[inline(always)]
            fn of_bits(bits: u16) -> Self {
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
        }
    };
}

number!(u16, u32);
number!(i16, i32);

/// The operations of a vector unit on [`LANES`] numbers. The default
/// implementations are plain loops that the compiler vectorizes.
///
/// A unit is a value: it exists only where the processor has the instructions.
pub(super) trait Unit: Copy {
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

    /// Adds `factor` times the weight of each lane, and 1 where the weight is not 0.
    fn add_products_and_ones(
        self,
        lanes: Self::Lanes,
        factor: Self::Number,
        weights: &[Self::Number; LANES],
    ) -> Self::Lanes;

    /// Returns a mask with a bit set for each number that is at least `least`.
    #[inline(always)]
    fn at_least(self, numbers: &[Self::Number; LANES], least: Self::Number) -> u64 {
        let mut any = false;
        for &number in numbers {
            any |= number >= least;
        }
        if !any {
            return 0;
        }
        let mut mask = 0;
        for (at, &number) in numbers.iter().enumerate() {
            mask |= u64::from(number >= least) << at;
        }
        mask
    }

    /// Returns a mask with a bit set for each row whose [`bound`] is at least `least`.
    #[inline(always)]
    fn bounds_at_least(
        self,
        sums: &[Self::Number; LANES],
        lengths: &[Self::Number; LANES],
        factor: Self::Number,
        least: Self::Number,
    ) -> u64 {
        let mut bounds = [Self::Number::default(); LANES];
        for ((to, &sum), &length) in bounds.iter_mut().zip(sums).zip(lengths) {
            *to = bound(sum, length, factor);
        }
        self.at_least(&bounds, least)
    }
}

/// The unit without explicit vector instructions.
#[derive(Debug, Clone, Copy)]
struct Portable<N>(PhantomData<N>);

impl<N: Number> Unit for Portable<N> {
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

/// A loop that can run on every vector unit.
pub(super) trait Loop {
    type Number: Number;
    type Output;

    fn run<U: Unit<Number = Self::Number>>(self, unit: U) -> Self::Output;
}

/// A vector unit of this processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct VectorUnit(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl VectorUnit {
    /// Returns the widest unit that this processor has.
    #[inline(always)]
    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
                return Self(Kind::Avx512);
            }
            if is_x86_feature_detected!("avx2") {
                return Self(Kind::Avx2);
            }
        }
        Self(Kind::Portable)
    }

    /// Returns every unit that this processor has. A unit may occur twice.
    #[cfg(test)]
    fn all() -> impl Iterator<Item = Self> {
        let portable = std::iter::once(Self(Kind::Portable));
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2").then_some(Self(Kind::Avx2));
            portable.chain(avx2).chain([Self::best()])
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable
    }

    /// Runs a loop on this unit.
    #[inline(always)]
    fn run<L: Loop>(self, work: L) -> L::Output {
        match self.0 {
            Kind::Portable => work.run(Portable(PhantomData)),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "a function for processors with AVX2")]
            // SAFETY: there is a unit of this kind only if the processor has it.
            Kind::Avx2 => unsafe { x86::run_avx2(work) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
            // SAFETY: there is a unit of this kind only if the processor has it.
            Kind::Avx512 => unsafe { x86::run_avx512(work) },
        }
    }
}

/// The weights of the frequent terms, stored by row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    /// The rows of each window, sorted by the number of entries, so that the processor can predict
    /// where a row ends.
    pub(super) order: &'a [u8],
    /// The entries of row `order[i]` are `entries[starts[i]..starts[i + 1]]`.
    pub(super) starts: &'a [u32],
    /// Each entry has its column in the upper 16 bits and its weight in the lower 16 bits.
    pub(super) entries: &'a [u32],
}

/// Sets the sum of each row and query to the sum of the products of their frequent terms, for up to
/// [`LANES`] queries.
pub(super) struct HeadProducts<'a, N> {
    pub(super) head: Head<'a>,
    /// The factors of each column, one per query.
    pub(super) factors: &'a [[N; LANES]],
    /// The sums of query `q` begin at `q * stride` and are padded to whole windows.
    pub(super) sums: &'a mut [N],
    pub(super) stride: usize,
}

impl<N: Number> HeadProducts<'_, N> {
    pub(super) fn compute(self) {
        VectorUnit::best().run(self);
    }
}

impl<N: Number> Loop for HeadProducts<'_, N> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<U: Unit<Number = N>>(self, unit: U) {
        let Self { head: Head { order, starts, entries }, factors, sums, stride } = self;
        let sums: &mut [u16] = bytemuck::cast_slice_mut(sums);
        let mut window = [[0; LANES]; WINDOW];
        for (first, order) in (0..).step_by(WINDOW).zip(order.chunks(WINDOW)) {
            for (at, &row) in (first..).zip(order) {
                let mut lanes = U::Lanes::zeroed();
                for &entry in &entries[starts[at] as usize..starts[at + 1] as usize] {
                    let weight = N::of_bits(weight_of(entry));
                    lanes = unit.add_products(lanes, weight, &factors[column_of(entry)]);
                }
                window[usize::from(row) % WINDOW] = bytemuck::cast(lanes);
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
}

/// Adds the products of the columns of a query to the sums of rows, and 1 for each weight that is
/// not 0.
pub(super) struct DenseProducts<'a, N> {
    /// For each [`LANES`] rows, their weights in column 0, in column 1, and so on.
    pub(super) strips: &'a [[N; LANES]],
    pub(super) columns: usize,
    /// The columns of the query, each with its factor.
    pub(super) factors: &'a [(usize, N)],
    pub(super) sums: &'a mut [N],
}

impl<N: Number> DenseProducts<'_, N> {
    pub(super) fn add(self) {
        VectorUnit::best().run(self);
    }
}

impl<N: Number> Loop for DenseProducts<'_, N> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<U: Unit<Number = N>>(self, unit: U) {
        let Self { strips, columns, factors, sums } = self;
        for (strip, sums) in strips.chunks_exact(columns).zip(sums.chunks_mut(LANES)) {
            let mut buffer = [N::default(); LANES];
            buffer[..sums.len()].copy_from_slice(sums);
            let mut lanes: U::Lanes = bytemuck::cast(buffer);
            for &(column, factor) in factors {
                lanes = unit.add_products_and_ones(lanes, factor, &strip[column]);
            }
            let buffer: [N; LANES] = bytemuck::cast(lanes);
            sums.copy_from_slice(&buffer[..sums.len()]);
        }
    }
}

/// Returns a row's sum plus the product of its length and a factor, rounded up; at most the largest
/// number.
#[inline(always)]
pub(super) fn bound<N: Number>(sum: N, length: N, factor: N) -> N {
    sum.saturating_plus(length.times(factor)).saturating_plus(N::ONE)
}

/// The sums, lengths and factor that the [`bound`] of each row depends on.
pub(super) struct Bounds<'a, N> {
    pub(super) sums: &'a [N],
    pub(super) lengths: &'a [N],
    pub(super) factor: N,
}

impl<N: Number> Bounds<'_, N> {
    /// Sets a bit of `marks` for each row whose bound is at least `least`, and returns their
    /// number.
    pub(super) fn mark_at_least(self, least: N, marks: &mut Vec<u64>) -> usize {
        VectorUnit::best().run(MarkBounds { bounds: self, least, marks })
    }
}

struct MarkBounds<'a, N> {
    bounds: Bounds<'a, N>,
    least: N,
    marks: &'a mut Vec<u64>,
}

impl<N: Number> Loop for MarkBounds<'_, N> {
    type Number = N;
    type Output = usize;

    #[inline(always)]
    fn run<U: Unit<Number = N>>(self, unit: U) -> usize {
        let Self { bounds: Bounds { sums, lengths, factor }, least, marks } = self;
        let (sums, last_sums) = sums.as_chunks::<LANES>();
        let (lengths, last_lengths) = lengths.as_chunks::<LANES>();
        marks.clear();
        for (sums, lengths) in sums.iter().zip(lengths) {
            marks.push(unit.bounds_at_least(sums, lengths, factor, least));
        }
        if !last_sums.is_empty() {
            let mut bounds = [N::default(); LANES];
            for ((to, &sum), &length) in bounds.iter_mut().zip(last_sums).zip(last_lengths) {
                *to = bound(sum, length, factor);
            }
            // Padding lanes have the bound 0, so they are not marked.
            marks.push(unit.at_least(&bounds, least.max(N::ONE)));
        }
        marks.iter().map(|mask| mask.count_ones() as usize).sum()
    }
}

/// Sets `maxima[g]` to the maximum of 0 and the sums g, g + G, g + 2 G, … of G groups.
pub(super) fn group_maxima<N: Number>(sums: &[N], maxima: &mut [N]) {
    VectorUnit::best().run(GroupMaxima { sums, maxima });
}

struct GroupMaxima<'a, N> {
    sums: &'a [N],
    maxima: &'a mut [N],
}

impl<N: Number> Loop for GroupMaxima<'_, N> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<U: Unit<Number = N>>(self, _: U) {
        let Self { sums, maxima } = self;
        maxima.fill(N::default());
        for chunk in sums.chunks(maxima.len()) {
            for (max, &sum) in maxima.iter_mut().zip(chunk) {
                *max = if sum > *max { sum } else { *max };
            }
        }
    }
}

/// Calls `found` with the position of each sum that is at least `least`, in order.
pub(super) fn at_least<N: Number>(sums: &[N], least: N, found: impl FnMut(usize)) {
    VectorUnit::best().run(AtLeast { sums, least, found });
}

struct AtLeast<'a, N, F> {
    sums: &'a [N],
    least: N,
    found: F,
}

impl<N: Number, F: FnMut(usize)> Loop for AtLeast<'_, N, F> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<U: Unit<Number = N>>(self, unit: U) {
        let Self { sums, least, mut found } = self;
        let (whole, rest) = sums.as_chunks::<LANES>();
        for (number, sums) in whole.iter().enumerate() {
            let mut mask = unit.at_least(sums, least);
            while mask != 0 {
                found(number * LANES + mask.trailing_zeros() as usize);
                mask &= mask - 1;
            }
        }
        for (at, &sum) in rest.iter().enumerate() {
            if sum >= least {
                found(whole.len() * LANES + at);
            }
        }
    }
}

/// Returns how many values are at least `least`.
pub(super) fn count_at_least<N: Number>(values: &[N], least: N) -> usize {
    VectorUnit::best().run(CountAtLeast { values, least })
}

struct CountAtLeast<'a, N> {
    values: &'a [N],
    least: N,
}

impl<N: Number> Loop for CountAtLeast<'_, N> {
    type Number = N;
    type Output = usize;

    #[inline(always)]
    fn run<U: Unit<Number = N>>(self, _: U) -> usize {
        let mut all = 0;
        for chunk in self.values.chunks(1 << 15) {
            // A counter as wide as the values vectorizes best. A chunk is too short to overflow it.
            let mut count = 0u16;
            for &value in chunk {
                count += u16::from(value >= self.least);
            }
            all += usize::from(count);
        }
        all
    }
}

/// Returns the column of an entry of the head.
#[inline(always)]
fn column_of(entry: u32) -> usize {
    (entry >> 16) as usize
}

/// Returns the bits of an entry's weight.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
fn weight_of(entry: u32) -> u16 {
    entry as u16
}

#[cfg(target_arch = "x86_64")]
use x86::transposed;

/// Swaps rows and columns.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn transposed(rows: [[u16; TILE]; TILE]) -> [[u16; TILE]; TILE] {
    std::array::from_fn(|column| rows.map(|row| row[column]))
}

#[cfg(test)]
mod tests;
