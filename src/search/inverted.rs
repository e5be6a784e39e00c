//! The CPU engine: an inverted index in blocks of rows, accumulators in cache, exact answers.
//!
//! The training rows are cut into blocks. A block holds frequent terms densely and the others
//! as posting lists: for each term the rows that have it and their weights. For a batch of
//! queries, a block gives each query one `f32` accumulator a row: first the products of the
//! frequent terms, a strip of rows at a time in registers, then the postings of the others. The
//! rows that can be among the best `k` are collected, and in the end scored again by the formula
//! of [`super`].
//!
//! # Why the answer is exact
//!
//! Let s be the similarity of a row and a its accumulator: a sum of at most n products that are
//! not 0, each product and each addition rounded to `f32`, so that |a − s| ≤ e with
//! e = γₙ Σ|products|, γₙ = n u / (1 − n u), u = 2⁻²⁴ (Higham 2002, §3.1), in whatever order the
//! products are added. Σ|products| is at most the product of the rows' lengths, and where no
//! weight is negative it is s itself. `Bound` takes the tighter one, with room for the rounding
//! of the similarity. If T is at most the k-th largest accumulator, at least k rows have
//! s ≥ T − e, so a row of the answer has s ≥ T − e too, and its accumulator is at least T − 2e:
//! all such rows are collected.
//!
//! Where this does not hold — products that leave the range of `f32`, or a threshold so low
//! that a row of similarity above 0 may have an accumulator of 0 — the query takes the
//! exhaustive way.

use std::num::NonZeroUsize;

use rayon::prelude::*;

use super::{Neighbor, Queries, Search, SearchError, check_training, exhaustive, rounded};
use crate::matrix::{Csr, CsrView, row};
use crate::threads::Threads;

mod block;
mod bound;

use block::{Block, Head, STRIP, SplitQuery, group_maxima};
use bound::{Bound, Range};

/// Rows of a block: the 64 KiB of accumulators of a query stay in a second-level cache.
const BLOCK_ROWS: usize = 16_384;
/// The most rows that 16-bit row numbers tell apart.
const MAX_BLOCK_ROWS: usize = 65_536;
/// Queries that go through a block together: their accumulators fit a second-level cache.
const BATCH: usize = 16;
/// Accumulators are watched in so many groups; the k-th largest group maximum is a threshold.
const GROUPS: usize = 512;

/// The engine with an inverted index.
#[derive(Debug)]
pub struct Inverted<'a> {
    training: CsrView<'a>,
    head: Head,
    blocks: Vec<Block>,
    range: Range,
    longest_row: usize,
    threads: Threads,
}

impl<'a> Inverted<'a> {
    /// Indexes training rows; the index takes about twelve bytes a non-zero, and
    /// four bytes a term for each block.
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
        check_training(&training, &threads)?;
        let head = Head::new(&training);
        let cuts = cuts(&training, rows.clamp(1, MAX_BLOCK_ROWS));
        let blocks = threads.run(|| {
            cuts.par_windows(2).map(|cut| Block::new(&training, cut[0]..cut[1], &head)).collect()
        });
        let range = Range::of((0..training.rows()).map(|index| row(&training, index).1));
        let longest_row = (0..training.rows()).map(|i| row(&training, i).0.len()).max();
        Ok(Self { training, head, blocks, range, longest_row: longest_row.unwrap_or(0), threads })
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
        let most_rows = self.blocks.iter().map(|block| block.rows).max().unwrap_or(0);
        let stride = most_rows.next_multiple_of(STRIP);
        let mut sums = std::mem::take(&mut work.sums);
        sums.resize(BATCH * stride, 0.0);
        for block in &self.blocks {
            let split: Vec<&SplitQuery> = states.iter().map(|state| &state.split).collect();
            block.add_head(&split, &mut sums, stride);
            for (state, sums) in states.iter_mut().zip(sums.chunks_mut(stride)) {
                let sums = &mut sums[..block.rows];
                block.add_tail(&state.split, sums);
                state.collect(block, sums, work);
            }
        }
        work.sums = sums;
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
        queries.check(self.training.cols(), &self.threads)?;
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

/// Buffers of a thread.
struct Work {
    /// The accumulators of a batch in a block.
    sums: Vec<f32>,
    maxima: Box<[f32; GROUPS]>,
    /// The query as a dense row.
    query: Vec<f32>,
    scores: Vec<f32>,
}

impl Default for Work {
    fn default() -> Self {
        let maxima = Box::new([0.0; GROUPS]);
        Self { sums: Vec::new(), maxima, query: Vec::new(), scores: Vec::new() }
    }
}

/// A query on its way through the blocks.
struct State<'a> {
    query: (&'a [u32], &'a [f32]),
    split: SplitQuery,
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
        let bound = Bound::new(&engine.range, engine.longest_row, query.1);
        let wanted = k.get().saturating_add(usize::from(excluded.is_some()));
        let split = SplitQuery::new(query, &engine.head);
        Self { query, split, excluded, wanted, candidates: Vec::new(), threshold: 0.0, bound }
    }

    /// Takes the rows of a block that may be in the answer.
    fn collect(&mut self, block: &Block, sums: &[f32], work: &mut Work) {
        let Some(bound) = self.bound else { return };
        group_maxima(sums, &mut *work.maxima);
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
            for local in (group..sums.len()).step_by(GROUPS) {
                let sum = sums[local];
                if sum >= cut {
                    let row = block.first_row + u32::try_from(local).unwrap_or(0);
                    self.candidates.push(Neighbor { row, similarity: sum });
                }
            }
        }
        if self.candidates.len() >= self.wanted {
            work.scores.clear();
            work.scores.extend(self.candidates.iter().map(|candidate| candidate.similarity));
            self.threshold = self.threshold.max(nth_largest(&mut work.scores, self.wanted));
            let cut = bound.cut(self.threshold);
            self.candidates.retain(|candidate| candidate.similarity >= cut);
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
