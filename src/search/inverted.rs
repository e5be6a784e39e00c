//! The CPU engine: an inverted index in blocks of rows, accumulators in cache, exact answers.
//!
//! The training rows are cut into blocks. A block holds, term by term, the rows that have the
//! term and their weights. For a query, the products of its weights are added up in one `f32` a
//! row of the block (the accumulators stay in the first-level cache), the rows that can be among
//! the best `k` are collected, and in the end scored again by the formula of [`super`].
//!
//! # Why the answer is exact
//!
//! Let s be the similarity of a row and a its accumulator: a sum of at most n products, each
//! product and each addition rounded to `f32`, so that |a − s| ≤ e with
//! e = γₙ Σ|products|, γₙ = n u / (1 − n u), u = 2⁻²⁴ (Higham 2002, §3.1). Σ|products| is at most
//! the product of the rows' lengths, and where no weight is negative it is s itself. `Bound`
//! takes the tighter one, with room for the rounding of the similarity. If T is at most the
//! k-th largest accumulator, at least k rows have s ≥ T − e, so a row of the answer has
//! s ≥ T − e too, and its accumulator is at least T − 2e: all such rows are collected.
//!
//! Where this does not hold — products that leave the range of `f32`, or a threshold so low
//! that a row of similarity above 0 may have an accumulator of 0 — the query takes the
//! exhaustive way.

use std::num::NonZeroUsize;

use rayon::prelude::*;

use super::{Neighbor, Queries, Search, SearchError, check_training, exhaustive, rounded};
use crate::matrix::{Csr, CsrView, row};
use crate::threads::Threads;

/// Rows of a block: 8,192 accumulators are 32 KiB, which a first-level cache holds.
const BLOCK_ROWS: usize = 8_192;
/// The most rows that 16-bit row numbers tell apart.
const MAX_BLOCK_ROWS: usize = 65_536;
/// Queries that go through a block together, while it is in the cache.
const BATCH: usize = 64;
/// Accumulators are watched in so many groups; the k-th largest group maximum is a threshold.
const GROUPS: usize = 512;

/// The engine with an inverted index.
#[derive(Debug)]
pub struct Inverted<'a> {
    training: CsrView<'a>,
    blocks: Vec<Block>,
    range: Range,
    longest_row: usize,
    threads: Threads,
}

/// The training rows from `first_row` on, by term.
#[derive(Debug)]
struct Block {
    first_row: u32,
    rows: usize,
    /// Term `t` has the postings `offsets[t]..offsets[t + 1]`.
    offsets: Vec<u32>,
    /// Row numbers, from the block's first row.
    posting_rows: Vec<u16>,
    posting_weights: Vec<f32>,
}

impl<'a> Inverted<'a> {
    /// Indexes training rows; the index takes six bytes a non-zero.
    ///
    /// # Errors
    /// If a weight is not finite.
    pub fn new(training: &'a Csr, threads: Threads) -> Result<Self, SearchError> {
        Self::with_block_rows(training, threads, BLOCK_ROWS)
    }

    /// The same with blocks of about `rows` rows, for tests and measurements of block sizes.
    ///
    /// # Errors
    /// If a weight is not finite.
    #[doc(hidden)]
    pub fn with_block_rows(
        training: &'a Csr,
        threads: Threads,
        rows: usize,
    ) -> Result<Self, SearchError> {
        let training = training.view();
        check_training(&training)?;
        let cuts = cuts(&training, rows.clamp(1, MAX_BLOCK_ROWS));
        let blocks = threads
            .run(|| cuts.par_windows(2).map(|cut| Block::new(&training, cut[0]..cut[1])).collect());
        let range = Range::of((0..training.rows()).map(|index| row(&training, index).1));
        let longest_row = (0..training.rows()).map(|i| row(&training, i).0.len()).max();
        Ok(Self { training, blocks, range, longest_row: longest_row.unwrap_or(0), threads })
    }

    fn batch(
        &self,
        queries: &Queries<'_>,
        first: usize,
        k: NonZeroUsize,
        work: &mut Work,
    ) -> Vec<Vec<Neighbor>> {
        let last = (first + BATCH).min(queries.rows.rows());
        let mut states: Vec<State<'_>> =
            (first..last).map(|query| State::new(self, queries, query, k)).collect();
        for block in &self.blocks {
            for state in states.iter_mut().filter(|state| state.bound.is_some()) {
                block.accumulate(state.query, &mut work.sums);
                state.collect(block, work);
            }
        }
        states.into_iter().map(|state| self.finish(state, k, work)).collect()
    }

    /// Scores the candidates of a query by the formula, or all rows if its bound did not hold.
    fn finish(&self, mut state: State<'_>, k: NonZeroUsize, work: &mut Work) -> Vec<Neighbor> {
        let Some(bound) = state.bound.filter(|bound| bound.holds(state.threshold)) else {
            return exhaustive::top_k(&self.training, state.query, k, state.excluded);
        };
        let cut = bound.cut(state.threshold);
        state.candidates.retain(|candidate| candidate.similarity >= cut);
        let (terms, weights) = state.query;
        work.query.resize(self.training.cols(), 0.0);
        for (&term, &weight) in terms.iter().zip(weights) {
            work.query[term as usize] = weight;
        }
        let mut neighbors = state.candidates;
        for candidate in &mut neighbors {
            let (terms, weights) = row(&self.training, candidate.row as usize);
            let mut sum = 0.0;
            for (&term, &weight) in terms.iter().zip(weights) {
                // A term that the query lacks adds 0, which changes no sum.
                sum += f64::from(work.query[term as usize]) * f64::from(weight);
            }
            candidate.similarity = rounded(sum);
        }
        for &term in terms {
            work.query[term as usize] = 0.0;
        }
        neighbors
            .retain(|neighbor| neighbor.similarity > 0.0 && Some(neighbor.row) != state.excluded);
        neighbors.sort_unstable();
        neighbors.truncate(k.get());
        neighbors
    }
}

impl Search for Inverted<'_> {
    fn top_k(
        &self,
        queries: Queries<'_>,
        k: NonZeroUsize,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        queries.check(self.training.cols())?;
        Ok(self.threads.run(|| {
            (0..queries.rows.rows().div_ceil(BATCH))
                .into_par_iter()
                .map_init(Work::default, |work, batch| self.batch(&queries, batch * BATCH, k, work))
                .flatten_iter()
                .collect()
        }))
    }
}

/// The first rows of the blocks, and the number of rows. Blocks grow beyond `block_rows` where
/// the offsets of many small blocks would take more room than the postings.
fn cuts(training: &CsrView<'_>, block_rows: usize) -> Vec<usize> {
    let rows = training.rows();
    let affordable = training.nnz() / (training.cols() + 1);
    let blocks =
        rows.div_ceil(block_rows).min(affordable.max(1)).max(rows.div_ceil(MAX_BLOCK_ROWS));
    let even = rows.div_ceil(blocks.max(1));
    let mut cuts = vec![0];
    let mut nonzeros = 0;
    for index in 0..rows {
        let length = row(training, index).0.len();
        let first = cuts.last().copied().unwrap_or(0);
        if index - first == even || nonzeros + length > u32::MAX as usize {
            cuts.push(index);
            nonzeros = 0;
        }
        nonzeros += length;
    }
    if rows > 0 {
        cuts.push(rows);
    }
    cuts
}

impl Block {
    fn new(training: &CsrView<'_>, rows: std::ops::Range<usize>) -> Self {
        let narrow = |n: usize| u32::try_from(n).expect("blocks are cut below 2^32 postings");
        let mut offsets = vec![0u32; training.cols() + 1];
        for index in rows.clone() {
            for &term in row(training, index).0 {
                offsets[term as usize + 1] += 1;
            }
        }
        for term in 1..offsets.len() {
            offsets[term] += offsets[term - 1];
        }
        let postings = offsets.last().map_or(0, |&end| end as usize);
        let mut posting_rows = vec![0u16; postings];
        let mut posting_weights = vec![0f32; postings];
        let mut next = offsets.clone();
        for (local, index) in (0..=u16::MAX).zip(rows.clone()) {
            let (terms, weights) = row(training, index);
            for (&term, &weight) in terms.iter().zip(weights) {
                let at = next[term as usize] as usize;
                posting_rows[at] = local;
                posting_weights[at] = weight;
                next[term as usize] += 1;
            }
        }
        Self {
            first_row: narrow(rows.start),
            rows: rows.len(),
            offsets,
            posting_rows,
            posting_weights,
        }
    }

    /// Adds the products of the query with every row to the row's accumulator.
    fn accumulate(&self, (terms, weights): (&[u32], &[f32]), sums: &mut Sums) {
        for (&term, &weight) in terms.iter().zip(weights) {
            let postings =
                self.offsets[term as usize] as usize..self.offsets[term as usize + 1] as usize;
            let rows = &self.posting_rows[postings.clone()];
            for (&row, &posting) in rows.iter().zip(&self.posting_weights[postings]) {
                sums[usize::from(row)] += weight * posting;
            }
        }
    }
}

/// One accumulator for every number that a `u16` can be: indexing needs no check.
type Sums = [f32; MAX_BLOCK_ROWS];

/// Buffers of a thread.
struct Work {
    sums: Box<Sums>,
    maxima: Box<[f32; GROUPS]>,
    /// The query as a dense row.
    query: Vec<f32>,
    scores: Vec<f32>,
}

impl Default for Work {
    fn default() -> Self {
        let sums = vec![0.0; MAX_BLOCK_ROWS].try_into().expect("as long as the array");
        Self { sums, maxima: Box::new([0.0; GROUPS]), query: Vec::new(), scores: Vec::new() }
    }
}

/// A query on its way through the blocks.
struct State<'a> {
    query: (&'a [u32], &'a [f32]),
    excluded: Option<u32>,
    /// How many rows must be found so that `k` are left when the excluded one is taken out.
    wanted: usize,
    /// Rows that may be in the answer; `similarity` is the accumulator until the end.
    candidates: Vec<Neighbor>,
    /// At most the `wanted`-th largest accumulator so far; 0 before so many are known.
    threshold: f32,
    /// `None`: the query takes the exhaustive way.
    bound: Option<Bound>,
}

impl<'a> State<'a> {
    fn new(engine: &Inverted<'_>, queries: &Queries<'a>, query: usize, k: NonZeroUsize) -> Self {
        let excluded = queries.excluded(query);
        let query = row(queries.rows, query);
        let bound = Bound::new(engine, query.1);
        let wanted = k.get().saturating_add(usize::from(excluded.is_some()));
        Self { query, excluded, wanted, candidates: Vec::new(), threshold: 0.0, bound }
    }

    /// Takes the rows of a block that may be in the answer and sets the accumulators back to 0.
    fn collect(&mut self, block: &Block, work: &mut Work) {
        let Some(bound) = self.bound else { return };
        let sums = &mut work.sums[..block.rows];
        group_maxima(sums, &mut work.maxima);
        if self.threshold == 0.0 && self.wanted <= GROUPS {
            work.scores.clear();
            work.scores.extend_from_slice(&*work.maxima);
            self.threshold = nth_largest(&mut work.scores, self.wanted);
        }
        let cut = bound.cut(self.threshold).max(f32::MIN_POSITIVE);
        for group in 0..GROUPS {
            if work.maxima[group] < cut {
                continue;
            }
            let mut local = group;
            while let Some(&sum) = sums.get(local) {
                if sum >= cut {
                    let row = block.first_row + u32::try_from(local).unwrap_or(0);
                    self.candidates.push(Neighbor { row, similarity: sum });
                }
                local += GROUPS;
            }
        }
        sums.fill(0.0);
        if self.candidates.len() >= self.wanted {
            work.scores.clear();
            work.scores.extend(self.candidates.iter().map(|candidate| candidate.similarity));
            self.threshold = self.threshold.max(nth_largest(&mut work.scores, self.wanted));
            let cut = bound.cut(self.threshold);
            self.candidates.retain(|candidate| candidate.similarity >= cut);
        }
    }
}

/// `maxima[g]` = the largest of 0 and of the accumulators g, g + 512, g + 1024, …
fn group_maxima(sums: &[f32], maxima: &mut [f32; GROUPS]) {
    maxima.fill(0.0);
    for chunk in sums.chunks(GROUPS) {
        for (max, &sum) in maxima.iter_mut().zip(chunk) {
            *max = if sum > *max { sum } else { *max };
        }
    }
}

/// The `n`-th largest score, from 1; 0 if there are fewer.
fn nth_largest(scores: &mut [f32], n: usize) -> f32 {
    if n > scores.len() {
        return 0.0;
    }
    *scores.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
}

/// What the weights of rows say about the range of products.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// The largest Euclidean length of a row.
    length: f64,
    /// The least absolute value of a weight that is not 0.
    least: f64,
    negative: bool,
}

impl Range {
    fn of<'a>(rows: impl Iterator<Item = &'a [f32]>) -> Self {
        let mut range = Self { length: 0.0, least: f64::INFINITY, negative: false };
        for weights in rows {
            let mut squares = 0.0;
            for &weight in weights {
                let size = f64::from(weight.abs());
                squares += size * size;
                if weight != 0.0 {
                    range.least = range.least.min(size);
                }
                range.negative |= weight < 0.0;
            }
            range.length = range.length.max(squares.sqrt());
        }
        range
    }
}

/// How far an accumulator can be from the similarity.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// Largest |accumulator − similarity|.
    absolute: f64,
    /// Largest |accumulator − similarity| / similarity; `None` where weights may be negative.
    relative: Option<f64>,
}

impl Bound {
    /// The bound for a query, or `None` where products leave the normal range of `f32`.
    fn new(engine: &Inverted<'_>, weights: &[f32]) -> Option<Self> {
        const UNIT_ROUNDOFF: f64 = 1.0 / 16_777_216.0;
        let query = Range::of(std::iter::once(weights));
        let largest = query.length * engine.range.length;
        let least = query.least * engine.range.least;
        // One rounding for a product, one for each addition; two more for the similarity's own.
        let roundings = (weights.len().min(engine.longest_row) + 4) as f64 * UNIT_ROUNDOFF;
        if largest > 1e37 || least < 1e-37 || roundings > 0.01 {
            return None;
        }
        let gamma = roundings / (1.0 - roundings);
        let negative = query.negative || engine.range.negative;
        Some(Self { absolute: gamma * largest, relative: (!negative).then_some(gamma) })
    }

    /// The least accumulator that a row of the answer can have. Rounded down.
    fn cut(&self, threshold: f32) -> f32 {
        let threshold = f64::from(threshold);
        let mut cut = threshold - 2.0 * self.absolute;
        if let Some(relative) = self.relative {
            cut = cut.max(threshold * (1.0 - 2.5 * relative));
        }
        #[expect(clippy::cast_possible_truncation, reason = "made smaller right after")]
        let narrow = cut as f32;
        narrow - narrow.abs() * f32::EPSILON
    }

    /// Whether every row of the answer has an accumulator above 0: products of one sign do not
    /// cancel, others only where the threshold is above the error.
    fn holds(&self, threshold: f32) -> bool {
        self.relative.is_some() || self.cut(threshold) > 0.0
    }
}
