//! The index: training rows in fixed point, stored by term; frequent terms are also stored by row.

use std::ops::Range;

use rayon::prelude::*;

use super::fixed::{FixedPoint, WeightStats};
use super::kernels::{DenseProducts, Head, HeadProducts, LANES, WINDOW};
use crate::rows::matrix::{CsrView, prefetch, row};

/// Minimum document frequency of a head term, as a fraction of the rows. For such a term,
/// multiplying its weights by the factors of all queries of a batch is faster than adding its
/// postings.
const MIN_HEAD_FRACTION: f64 = 0.02;
/// Maximum number of terms of the head, so that the factors of a batch fit in a second-level cache.
const MAX_HEAD_TERMS: usize = 1024;
/// Minimum document frequency of a term with a column of all rows' weights, as a fraction of the
/// rows.
const MIN_DENSE_FRACTION: f64 = 0.2;
/// Maximum number of these columns, so that a strip of them fits in a first-level cache.
const MAX_DENSE_TERMS: usize = 192;
/// For each level, the minimum document frequency of a frequent term, as a fraction of the rows. A
/// query can be answered by the rare terms of a level and a bound on the contribution of its
/// frequent terms.
pub(super) const LEVEL_FRACTIONS: [f64; 6] = [0.01, 0.02, 0.04, 0.08, 0.15, 0.3];
/// Marks a term that does not belong to the head.
const NO_COLUMN: u16 = u16::MAX;

/// An index of training rows, in blocks.
#[derive(Debug)]
pub(super) struct Index<T> {
    pub(super) stats: WeightStats,
    /// The column of each term in the head, or `NO_COLUMN`.
    column: Vec<u16>,
    pub(super) columns: usize,
    /// Number of columns that are stored for all rows: the first columns of the head.
    pub(super) dense: usize,
    /// For each level, the minimum document frequency of a frequent term. There are no levels if
    /// weights can be negative.
    pub(super) levels: Vec<u32>,
    pub(super) blocks: Vec<Block<T>>,
}

/// A block of consecutive training rows.
#[derive(Debug)]
pub(super) struct Block<T> {
    pub(super) first_row: u32,
    pub(super) rows: usize,
    /// Term `t` has the postings `offsets[t]..offsets[t + 1]`.
    offsets: Vec<u32>,
    /// Postings: the row within the block in the upper half, the weight in the lower half.
    postings: Vec<u32>,
    head: HeadRows,
    /// The columns of all rows' weights, in the layout of [`DenseProducts`].
    strips: Vec<[T; LANES]>,
    /// For each level, the rows' lengths in its frequent terms, as shares of the longest row's
    /// length, rounded up.
    lengths: Vec<Vec<T>>,
}

impl<T: FixedPoint> Index<T> {
    /// Creates an index of training rows, in the current thread pool.
    pub(super) fn new(training: &CsrView<'_>, stats: WeightStats, block_bounds: &[usize]) -> Self {
        let min_rows = (training.rows() as f64 * MIN_HEAD_FRACTION).max(1.0);
        let frequencies = &stats.frequencies;
        let mut head: Vec<usize> = (0..frequencies.len())
            .filter(|&term| f64::from(frequencies[term]) >= min_rows)
            .collect();
        head.sort_by_key(|&term| (std::cmp::Reverse(frequencies[term]), term));
        head.truncate(MAX_HEAD_TERMS);
        let mut column = vec![NO_COLUMN; frequencies.len()];
        for (number, &term) in (0..).zip(&head) {
            column[term] = number;
        }
        let columns = head.len();
        let min_rows = training.rows() as f64 * MIN_DENSE_FRACTION;
        let dense = head.partition_point(|&term| f64::from(frequencies[term]) >= min_rows);
        let dense = dense.min(MAX_DENSE_TERMS);
        let levels = levels::<T>(training.rows());
        let terms = (0..frequencies.len()).map(|term| TermLayout {
            scale: T::MAX / f64::from(stats.largest[term]),
            column: column[term],
            stage: levels.iter().map(|&min_rows| u8::from(min_rows <= frequencies[term])).sum(),
        });
        let layout =
            Layout { terms: terms.collect(), dense, levels: levels.len(), longest: stats.length };
        let block = |bounds: &[usize]| Block::new(training, &layout, bounds[0]..bounds[1]);
        let blocks: Vec<Block<T>> = block_bounds.par_windows(2).map(block).collect();
        Self { stats, column, columns, dense, levels, blocks }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    /// Returns the column of a term whose weights are stored for all rows.
    pub(super) fn dense_column(&self, term: u32) -> Option<usize> {
        self.column(term).filter(|&column| column < self.dense)
    }

    /// Separates terms that have postings only from terms that also have a column of all rows'
    /// weights.
    pub(super) fn split(
        &self,
        factors: &[(u32, T)],
        rare: &mut Vec<(u32, T)>,
        dense: &mut Vec<(usize, T)>,
    ) {
        rare.clear();
        dense.clear();
        for &(term, factor) in factors {
            match self.dense_column(term) {
                Some(column) => dense.push((column, factor)),
                None => rare.push((term, factor)),
            }
        }
    }

    /// Returns the column of a term of the head.
    pub(super) fn column(&self, term: u32) -> Option<usize> {
        Some(self.column[term as usize]).filter(|&column| column != NO_COLUMN).map(usize::from)
    }
}

/// Computes [`Index::levels`].
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "row numbers")]
fn levels<T: FixedPoint>(rows: usize) -> Vec<u32> {
    if T::IS_SIGNED {
        return Vec::new();
    }
    LEVEL_FRACTIONS.iter().map(|&fraction| (fraction * rows as f64).ceil() as u32).collect()
}

/// The layout of the rows in blocks.
#[derive(Debug)]
struct Layout {
    terms: Vec<TermLayout>,
    /// Number of columns that are stored for all rows.
    dense: usize,
    /// Number of levels at which terms can be frequent.
    levels: usize,
    /// The length of the longest row.
    longest: f64,
}

/// The layout of a term's entries in blocks.
#[derive(Debug, Clone, Copy)]
struct TermLayout {
    /// Factor that converts weights to fixed point.
    scale: f64,
    /// The column in the head, or `NO_COLUMN`.
    column: u16,
    /// The number of levels at which the term is frequent.
    stage: u8,
}

impl TermLayout {
    /// Returns a training weight in fixed point, with an error below 1. The result is 0 only if the
    /// weight is 0.
    fn weight<T: FixedPoint>(&self, weight: f32) -> T {
        if weight == 0.0 {
            return T::default();
        }
        let exact = f64::from(weight) * self.scale;
        T::nearest(if exact.abs() < 1.0 { exact.signum() } else { exact })
    }
}

/// The owned form of [`Head`].
#[derive(Debug)]
struct HeadRows {
    order: Vec<u8>,
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl HeadRows {
    /// Adds a window of rows. Their entries are stored consecutively, and each row's entries end at
    /// its position in `ends`.
    fn push(&mut self, ends: &[usize], entries: &[u32]) {
        let start =
            |position: u8| position.checked_sub(1).map_or(0, |before| ends[usize::from(before)]);
        let lengths = (0u8..).zip(ends).map(|(position, &end)| (end - start(position), position));
        let mut window: Vec<(usize, u8)> = lengths.collect();
        window.sort_unstable();
        for (length, position) in window {
            self.order.push(position);
            self.entries.extend_from_slice(&entries[start(position)..start(position) + length]);
            self.starts.push(narrow(self.entries.len()));
        }
    }

    fn view(&self) -> Head<'_> {
        Head { order: &self.order, starts: &self.starts, entries: &self.entries }
    }
}

/// Converts a position in a block to `u32`.
fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("blocks have fewer than 2^32 postings")
}

impl<T: FixedPoint> Block<T> {
    fn new(training: &CsrView<'_>, layout: &Layout, rows: Range<usize>) -> Self {
        let Layout { terms: layouts, dense, levels, longest } = layout;
        let dense = *dense;
        let mut offsets = vec![0u32; training.cols() + 1];
        for index in rows.clone() {
            for &term in row(training, index).0 {
                offsets[term as usize + 1] += 1;
            }
        }
        for term in 1..offsets.len() {
            offsets[term] += offsets[term - 1];
        }
        let mut postings = vec![0u32; offsets.last().map_or(0, |&end| end as usize)];
        let mut strips = vec![[T::default(); LANES]; rows.len().div_ceil(LANES) * dense];
        let mut lengths: Vec<Vec<T>> =
            (0..*levels).map(|_| Vec::with_capacity(rows.len())).collect();
        let mut head = HeadRows { order: Vec::new(), starts: vec![0], entries: Vec::new() };
        let mut next = offsets.clone();
        // The head entries of a window of rows, their number, and where each row ends.
        let mut head_entries = Vec::new();
        let mut count = 0;
        let mut ends = Vec::new();
        for (local, index) in (0..=u32::from(u16::MAX)).zip(rows.clone()) {
            let (terms, weights) = row(training, index);
            if head_entries.len() < count + terms.len() + 1 {
                head_entries.resize(count + terms.len() + 1, 0);
            }
            // One sum of squares for each number of levels. Four copies are used in turn, so that
            // an addition does not wait for the previous one.
            let mut squares = [[0.0; LEVEL_FRACTIONS.len() + 1]; 4];
            for (entry, (&term, &weight)) in terms.iter().zip(weights).enumerate() {
                let term_layout = &layouts[term as usize];
                let fixed: T = term_layout.weight(weight);
                squares[entry % 4][usize::from(term_layout.stage)] +=
                    f64::from(weight) * f64::from(weight);
                let next = &mut next[term as usize];
                postings[*next as usize] = local << 16 | u32::from(fixed.bits());
                *next += 1;
                // Branchless: the branch would be unpredictable.
                head_entries[count] = u32::from(term_layout.column) << 16 | u32::from(fixed.bits());
                count += usize::from(term_layout.column != NO_COLUMN);
                let column = usize::from(term_layout.column);
                if column < dense {
                    let local = local as usize;
                    strips[local / LANES * dense + column][local % LANES] = fixed;
                }
            }
            ends.push(count);
            if ends.len() == WINDOW || index + 1 == rows.end {
                head.push(&ends, &head_entries);
                ends.clear();
                count = 0;
            }
            let mut square = 0.0;
            for (level, lengths) in lengths.iter_mut().enumerate().rev() {
                square += squares.iter().map(|squares| squares[level + 1]).sum::<f64>();
                lengths.push(relative_length(square, *longest));
            }
        }
        Self {
            first_row: narrow(rows.start),
            rows: rows.len(),
            offsets,
            postings,
            head,
            strips,
            lengths,
        }
    }

    /// Returns the number of the row at a position of the block.
    pub(super) fn row_number(&self, local: usize) -> u32 {
        self.first_row + u32::try_from(local).expect("a block has at most 65,536 rows")
    }

    /// Returns the rows' lengths in the frequent terms of a level, as shares of the longest row's
    /// length. They are scaled so that a share of 1 is slightly below the largest number. Returns
    /// `None` above the last level, which has no frequent terms.
    pub(super) fn lengths(&self, level: usize) -> Option<&[T]> {
        self.lengths.get(level).map(Vec::as_slice)
    }

    /// Sets the sums of each query to the products of the head.
    pub(super) fn set_head(&self, factors: &[[T; LANES]], sums: &mut [T], stride: usize) {
        HeadProducts { head: self.head.view(), factors, sums, stride }.compute();
    }

    /// Adds the products of the given columns to the sums of a query, plus 1 for each nonzero
    /// weight.
    pub(super) fn add_dense(&self, columns: usize, factors: &[(usize, T)], sums: &mut [T]) {
        if !factors.is_empty() {
            DenseProducts { strips: &self.strips, columns, factors, sums }.add();
        }
    }

    /// Finds and prefetches the postings of the given terms.
    pub(super) fn find_lists(&self, factors: &[(u32, T)], lists: &mut Vec<PostingList<T>>) {
        lists.clear();
        lists.extend(factors.iter().map(|&(term, factor)| {
            let term = term as usize;
            let start = self.offsets[term];
            let end = self.offsets[term + 1];
            // The hardware prefetches the rest of a long list.
            for line in (start..end.min(start + 512)).step_by(16) {
                prefetch(&self.postings, line as usize);
            }
            PostingList { start, end, factor }
        }));
    }

    /// Adds the products of the given lists, plus 1 for each posting. If no weight is negative, a
    /// row with one of their terms then has a sum above 0.
    pub(super) fn add(&self, lists: &[PostingList<T>], sums: &mut [T]) {
        assert!(sums.len() >= self.rows, "a sum for each row");
        for &PostingList { start, end, factor } in lists {
            #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
            for &posting in &self.postings[start as usize..end as usize] {
                let product = T::from_bits(posting as u16).times(factor).plus(T::ONE);
                #[expect(unsafe_code, reason = "bounds checks take a quarter of the time")]
                // SAFETY: `new` created the postings from rows of the block, and each row has a
                // sum.
                let sum = unsafe { sums.get_unchecked_mut((posting >> 16) as usize) };
                *sum = sum.plus(product);
            }
        }
    }
}

/// Returns a length, given its square, as a share of the longest row's length (see
/// [`Block::lengths`]).
fn relative_length<T: FixedPoint>(square: f64, longest: f64) -> T {
    let share = if longest > 0.0 { square.sqrt() / longest } else { 0.0 };
    // The factor 1 + 1e-9 covers the rounding of `f64`.
    T::nearest((share * (T::MAX - 1.0) * (1.0 + 1e-9)).ceil())
}

/// The postings of a term in a block, and the factor of its weights.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostingList<T> {
    start: u32,
    end: u32,
    factor: T,
}

/// Returns the distance between the sums of consecutive queries, for blocks of up to `rows` rows.
/// It is a multiple of the window size plus a cache line. This prevents the sums of one row for all
/// queries from competing for the same cache set.
pub(super) fn stride(rows: usize) -> usize {
    rows.next_multiple_of(WINDOW) + 32
}
