//! Converts rows of counts to rows of weights, on all threads.

use std::ops::Range;

use rayon::prelude::*;

use super::weighting::{Side, TermWeights, Weighting};
use crate::threads::Threads;

/// The number of rows per task.
const ROWS_PER_TASK: usize = 1_024;
/// The number of values per partial sum.
const VALUES_PER_SUM: usize = 1 << 16;

/// The arrays of a CSR matrix.
#[derive(Debug, Clone)]
pub(crate) struct RawRows {
    pub(crate) indptr: Vec<u64>,
    pub(crate) indices: Vec<u32>,
    pub(crate) data: Vec<f32>,
}

impl RawRows {
    /// Returns the mean number of terms per row, with repetitions.
    pub(crate) fn mean_length(&self, threads: &Threads) -> f64 {
        // The partial sums, and therefore the rounding, do not depend on the threads.
        let sums = || {
            self.data
                .par_chunks(VALUES_PER_SUM)
                .map(|chunk| chunk.iter().map(|&v| f64::from(v)).sum())
        };
        let sums: Vec<f64> = threads.run(|| sums().collect());
        let total: f64 = sums.iter().sum();
        let rows = self.indptr.len() - 1;
        if rows == 0 { 0.0 } else { total / rows as f64 }
    }

    /// Replaces the counts with weights, in place. Omits weights of 0.
    pub(crate) fn weigh(
        &mut self,
        weighting: &Weighting,
        side: Side,
        terms: TermWeights<'_>,
        threads: &Threads,
    ) {
        let Self { indptr, indices, data } = self;
        let mut ids = &mut **indices;
        let mut values = &mut **data;
        let mut chunks = Vec::new();
        let mut start = 0;
        for ends in indptr[1..].chunks_mut(ROWS_PER_TASK) {
            let end = range(0, ends[ends.len() - 1]).end;
            let ids = ids.split_off_mut(..end - start).expect("entries of the rows");
            let values = values.split_off_mut(..end - start).expect("one value per entry");
            chunks.push(RowChunk { start, ends, ids, values });
            start = end;
        }
        let weigh = |chunk: &mut RowChunk<'_>| chunk.weigh(weighting, side, terms);
        let kept: Vec<usize> = threads.run(|| chunks.par_iter_mut().map(weigh).collect());
        let mut ranges = Vec::new();
        let mut total_kept = 0;
        for (chunk, kept) in chunks.into_iter().zip(kept) {
            for end in chunk.ends {
                *end += total_kept as u64;
            }
            ranges.push(chunk.start..chunk.start + kept);
            total_kept += kept;
        }
        threads.run(|| {
            close_gaps(indices, &ranges);
            close_gaps(data, &ranges);
        });
    }
}

/// Consecutive rows.
struct RowChunk<'a> {
    /// The start of the entries of these rows.
    start: usize,
    /// The ends of the rows among all entries. After [`RowChunk::weigh`], the ends among the kept
    /// entries of this chunk.
    ends: &'a mut [u64],
    ids: &'a mut [u32],
    values: &'a mut [f32],
}

impl RowChunk<'_> {
    /// Computes the weights, moves the nonzero weights to the front, and updates the ends of the
    /// rows. Returns the number of weights.
    fn weigh(&mut self, weighting: &Weighting, side: Side, terms: TermWeights<'_>) -> usize {
        let Self { start: first, ends, ids, values } = self;
        let mut start = 0;
        let mut kept = 0;
        let mut scratch = Vec::new();
        for end in &mut **ends {
            let row = start..range(0, *end).end - *first;
            start = row.end;
            let ids_of_row = &mut ids[row.clone()];
            let counts = &mut values[row.clone()];
            let count = weighting.weigh(side, ids_of_row, counts, terms, &mut scratch);
            if kept < row.start {
                ids.copy_within(row.start..row.start + count, kept);
                values.copy_within(row.start..row.start + count, kept);
            }
            kept += count;
            *end = kept as u64;
        }
        kept
    }
}

/// Ranges of values that one thread moves, and their target range.
struct Block<'a> {
    ranges: &'a [Range<usize>],
    target: Range<usize>,
}

impl Block<'_> {
    /// Returns a copy of the values after this block's target, which later blocks overwrite.
    fn copy_overwritten<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let overwritten = |range: &Range<usize>| range.start.max(self.target.end)..range.end;
        let mut copy = Vec::new();
        for range in self.ranges.iter().map(overwritten).filter(|range| !range.is_empty()) {
            copy.extend_from_slice(&values[range]);
        }
        copy
    }

    /// Moves the values that are within the target to the front of `target`, and appends
    /// `overwritten`.
    fn fill<T: Copy>(&self, target: &mut [T], overwritten: &[T]) {
        let Range { start, end } = self.target;
        let mut filled = 0;
        for range in self.ranges {
            let within = range.start.min(end) - start..range.end.min(end) - start;
            let length = within.len();
            target.copy_within(within, filled);
            filled += length;
        }
        target[filled..].copy_from_slice(overwritten);
    }
}

/// Keeps only the values in `ranges`, which are in increasing order.
///
/// Each thread moves one block of values within the array. Before that, it copies the values that
/// later blocks overwrite, which are few if the gaps are small.
fn close_gaps<T: Copy + Send + Sync>(values: &mut Vec<T>, ranges: &[Range<usize>]) {
    let ranges_per_thread = ranges.len().div_ceil(rayon::current_num_threads()).max(1);
    let mut end = 0;
    let block = |ranges| {
        let start = end;
        end += <[Range<usize>]>::iter(ranges).map(Range::len).sum::<usize>();
        Block { ranges, target: start..end }
    };
    let blocks: Vec<Block<'_>> = ranges.chunks(ranges_per_thread).map(block).collect();
    if ranges.last().is_some_and(|last| last.end > end) {
        let overwritten: Vec<Vec<T>> =
            blocks.par_iter().map(|block| block.copy_overwritten(values)).collect();
        let mut rest = &mut **values;
        let mut targets = Vec::new();
        for block in &blocks {
            let length = block.target.len();
            targets.push(rest.split_off_mut(..length).expect("not longer than before"));
        }
        (blocks, targets, overwritten)
            .into_par_iter()
            .for_each(|(block, target, overwritten)| block.fill(target, &overwritten));
    }
    values.truncate(end);
}

#[expect(clippy::cast_possible_truncation, reason = "bounds of a vector")]
fn range(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Tests fewer and more chunks than threads, and gaps of all sizes, including gaps so large
        /// that blocks move entirely into earlier blocks.
        #[test]
        fn gaps_are_closed(
            threads in 1usize..20,
            chunks in prop::collection::vec(
                (0usize..6, prop::sample::select(vec![0, 0, 0, 1, 2, 30])),
                0..150,
            ),
        ) {
            let mut ranges = Vec::new();
            let mut start = 0;
            for (kept, gap) in chunks {
                ranges.push(start..start + kept);
                start += kept + gap;
            }
            let mut values: Vec<usize> = (0..start).collect();
            let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
            threads.run(|| close_gaps(&mut values, &ranges));
            prop_assert!(values.into_iter().eq(ranges.into_iter().flatten()));
        }
    }

    /// Tests many chunks, with and without a term whose weight is 0.
    #[test]
    fn many_rows_are_weighted_like_single_rows() {
        let weighting = Weighting::default();
        let rows = 64 * ROWS_PER_TASK + 3 * ROWS_PER_TASK + 7;
        for dropped in [0, 1, 2] {
            let mut all = RawRows { indptr: vec![0], indices: vec![], data: vec![] };
            let mut expected = all.clone();
            let idf = [if dropped == 2 { 0.0 } else { 0.5 }, 2.0, 1.0];
            let terms = TermWeights { idf: &idf, mean_length: 1.0 };
            for row in 0..rows {
                let is_late = dropped == 1 && row >= rows / 2;
                let counts = [(0, if is_late { 0.0 } else { 1.0 }), (1, row as f32), (2, 3.0)];
                let counts = &counts[..row % 4 % 3 + usize::from(is_late)];
                let (mut ids, mut values): (Vec<u32>, Vec<f32>) = counts.iter().copied().unzip();
                all.indices.extend(&ids);
                all.data.extend(&values);
                all.indptr.push(all.indices.len() as u64);
                let kept =
                    weighting.weigh(Side::Document, &mut ids, &mut values, terms, &mut Vec::new());
                expected.indices.extend(&ids[..kept]);
                expected.data.extend(&values[..kept]);
                expected.indptr.push(expected.indices.len() as u64);
            }
            let threads = Threads::new(NonZeroUsize::new(3).unwrap()).unwrap();
            all.weigh(&weighting, Side::Document, terms, &threads);
            assert_eq!(all.indptr, expected.indptr, "{dropped}");
            assert_eq!(all.indices, expected.indices, "{dropped}");
            assert_eq!(all.data, expected.data, "{dropped}");
        }
    }
}
