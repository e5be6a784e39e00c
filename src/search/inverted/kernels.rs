//! The SIMD inner loops, compiled for each instruction set.
//!
//! Each [`Loop`] is generic over its [`VectorOps`]. [`InstructionSet::best`] selects an instruction
//! set at run time, and [`InstructionSet::run`] runs the loop that was compiled for it.

#![expect(
    clippy::inline_always,
    reason = "a function that is not inlined is compiled without the target feature"
)]

use std::marker::PhantomData;

use bytemuck::Zeroable;

mod number;
mod ops;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use number::{Number, bound};
pub(super) use ops::LANES;
use ops::{Loop, Portable, TILE, VectorOps};

/// Number of rows whose sums are computed before they are written.
pub(super) const WINDOW: usize = 64;

/// An instruction set of this processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstructionSet(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// Returns the set with the widest registers that this processor has.
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

    /// Returns every set that this processor has. A set may occur twice.
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

    /// Runs a loop with the instructions of this set.
    #[inline(always)]
    fn run<L: Loop>(self, work: L) -> L::Output {
        match self.0 {
            Kind::Portable => work.run(Portable(PhantomData)),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "a function for processors with AVX2")]
            // SAFETY: a set of this kind exists only if the processor has it.
            Kind::Avx2 => unsafe { x86::run_avx2(work) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "a function for processors with AVX-512")]
            // SAFETY: a set of this kind exists only if the processor has it.
            Kind::Avx512 => unsafe { x86::run_avx512(work) },
        }
    }
}

/// The weights of the head terms, stored by row.
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

/// Sets the sum of each row and query to the sum of the products of their head terms, for up to
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
        InstructionSet::best().run(self);
    }
}

impl<N: Number> Loop for HeadProducts<'_, N> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<V: VectorOps<Number = N>>(self, ops: V) {
        let Self { head: Head { order, starts, entries }, factors, sums, stride } = self;
        let sums: &mut [u16] = bytemuck::cast_slice_mut(sums);
        let mut window = [[0; LANES]; WINDOW];
        for (first, order) in (0..).step_by(WINDOW).zip(order.chunks(WINDOW)) {
            for (position, &row) in (first..).zip(order) {
                let mut lanes = V::Lanes::zeroed();
                for &entry in &entries[starts[position] as usize..starts[position + 1] as usize] {
                    let weight = N::from_bits(weight_of(entry));
                    lanes = ops.add_products(lanes, weight, &factors[column_of(entry)]);
                }
                window[usize::from(row) % WINDOW] = bytemuck::cast(lanes);
            }
            for query in (0..LANES).step_by(TILE) {
                for row in (0..WINDOW).step_by(TILE) {
                    let mut tile = [[0; TILE]; TILE];
                    for (from, to) in window[row..row + TILE].iter().zip(&mut tile) {
                        to.copy_from_slice(&from[query..query + TILE]);
                    }
                    for (query, row_sums) in (query..).zip(transposed(tile)) {
                        sums[query * stride + first + row..][..TILE].copy_from_slice(&row_sums);
                    }
                }
            }
        }
    }
}

/// Adds the products of the columns of a query to the sums of rows, plus 1 for each nonzero weight.
pub(super) struct DenseProducts<'a, N> {
    /// For each group of [`LANES`] rows, their weights in column 0, then in column 1, and so on.
    pub(super) strips: &'a [[N; LANES]],
    pub(super) columns: usize,
    /// The columns of the query, each with its factor.
    pub(super) factors: &'a [(usize, N)],
    pub(super) sums: &'a mut [N],
}

impl<N: Number> DenseProducts<'_, N> {
    pub(super) fn add(self) {
        InstructionSet::best().run(self);
    }
}

impl<N: Number> Loop for DenseProducts<'_, N> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<V: VectorOps<Number = N>>(self, ops: V) {
        let Self { strips, columns, factors, sums } = self;
        for (strip, sums) in strips.chunks_exact(columns).zip(sums.chunks_mut(LANES)) {
            let mut buffer = [N::default(); LANES];
            buffer[..sums.len()].copy_from_slice(sums);
            let mut lanes: V::Lanes = bytemuck::cast(buffer);
            for &(column, factor) in factors {
                lanes = ops.add_products_and_ones(lanes, factor, &strip[column]);
            }
            let buffer: [N; LANES] = bytemuck::cast(lanes);
            sums.copy_from_slice(&buffer[..sums.len()]);
        }
    }
}

/// The sums, lengths and factor that the [`bound`] of each row depends on.
pub(super) struct Bounds<'a, N> {
    pub(super) sums: &'a [N],
    pub(super) lengths: &'a [N],
    pub(super) factor: N,
}

impl<N: Number> Bounds<'_, N> {
    /// Sets a bit of `marks` for each row whose bound is at least `threshold`, and returns the
    /// number of these rows.
    pub(super) fn mark_at_least(self, threshold: N, marks: &mut Vec<u64>) -> usize {
        InstructionSet::best().run(MarkBounds { bounds: self, threshold, marks })
    }
}

struct MarkBounds<'a, N> {
    bounds: Bounds<'a, N>,
    threshold: N,
    marks: &'a mut Vec<u64>,
}

impl<N: Number> Loop for MarkBounds<'_, N> {
    type Number = N;
    type Output = usize;

    #[inline(always)]
    fn run<V: VectorOps<Number = N>>(self, ops: V) -> usize {
        let Self { bounds: Bounds { sums, lengths, factor }, threshold, marks } = self;
        let (sums, last_sums) = sums.as_chunks::<LANES>();
        let (lengths, last_lengths) = lengths.as_chunks::<LANES>();
        marks.clear();
        for (sums, lengths) in sums.iter().zip(lengths) {
            marks.push(ops.bounds_at_least(sums, lengths, factor, threshold));
        }
        if !last_sums.is_empty() {
            let mut bounds = [N::default(); LANES];
            for ((to, &sum), &length) in bounds.iter_mut().zip(last_sums).zip(last_lengths) {
                *to = bound(sum, length, factor);
            }
            // Padding lanes have the bound 0. A threshold of at least 1 keeps them unmarked.
            marks.push(ops.at_least(&bounds, threshold.max(N::ONE)));
        }
        marks.iter().map(|mask| mask.count_ones() as usize).sum()
    }
}

/// Sets `maxima[g]` to the maximum of 0 and the sums g, g + G, g + 2 G, …, where G is the number of
/// groups.
pub(super) fn group_maxima<N: Number>(sums: &[N], maxima: &mut [N]) {
    InstructionSet::best().run(GroupMaxima { sums, maxima });
}

struct GroupMaxima<'a, N> {
    sums: &'a [N],
    maxima: &'a mut [N],
}

impl<N: Number> Loop for GroupMaxima<'_, N> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<V: VectorOps<Number = N>>(self, _: V) {
        let Self { sums, maxima } = self;
        maxima.fill(N::default());
        for chunk in sums.chunks(maxima.len()) {
            for (max, &sum) in maxima.iter_mut().zip(chunk) {
                *max = if sum > *max { sum } else { *max };
            }
        }
    }
}

/// Calls `found` with the position of each sum that is at least `threshold`, in order.
pub(super) fn for_each_at_least<N: Number>(sums: &[N], threshold: N, found: impl FnMut(usize)) {
    InstructionSet::best().run(ForEachAtLeast { sums, threshold, found });
}

struct ForEachAtLeast<'a, N, F> {
    sums: &'a [N],
    threshold: N,
    found: F,
}

impl<N: Number, F: FnMut(usize)> Loop for ForEachAtLeast<'_, N, F> {
    type Number = N;
    type Output = ();

    #[inline(always)]
    fn run<V: VectorOps<Number = N>>(self, ops: V) {
        let Self { sums, threshold, mut found } = self;
        let (whole, rest) = sums.as_chunks::<LANES>();
        for (number, sums) in whole.iter().enumerate() {
            let mut mask = ops.at_least(sums, threshold);
            while mask != 0 {
                found(number * LANES + mask.trailing_zeros() as usize);
                mask &= mask - 1;
            }
        }
        for (index, &sum) in rest.iter().enumerate() {
            if sum >= threshold {
                found(whole.len() * LANES + index);
            }
        }
    }
}

/// Returns the number of values that are at least `threshold`.
pub(super) fn count_at_least<N: Number>(values: &[N], threshold: N) -> usize {
    InstructionSet::best().run(CountAtLeast { values, threshold })
}

struct CountAtLeast<'a, N> {
    values: &'a [N],
    threshold: N,
}

impl<N: Number> Loop for CountAtLeast<'_, N> {
    type Number = N;
    type Output = usize;

    #[inline(always)]
    fn run<V: VectorOps<Number = N>>(self, _: V) -> usize {
        let mut all = 0;
        for chunk in self.values.chunks(1 << 15) {
            // A counter as wide as the values vectorizes best. A chunk is too short to overflow it.
            let mut count = 0u16;
            for &value in chunk {
                count += u16::from(value >= self.threshold);
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

/// Transposes a tile.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn transposed(rows: [[u16; TILE]; TILE]) -> [[u16; TILE]; TILE] {
    std::array::from_fn(|column| rows.map(|row| row[column]))
}

#[cfg(test)]
mod tests;
