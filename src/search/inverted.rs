//! The CPU engine: an inverted index in blocks of rows, accumulators in cache, exact results.
//!
//! The training rows are cut into blocks. A block stores frequent terms densely and the others as
//! posting lists: for each term, the rows that contain it and their weights. For a batch of
//! queries, each query gets one `f32` accumulator per row of a block. The products of the frequent
//! terms are added first, a strip of rows at a time in registers, then the postings of the other
//! terms. Rows that may be among the best `k` are collected and finally rescored by the formula of
//! [`super`].
//!
//! # Why the results are exact
//!
//! Let s be the similarity of a row and a its accumulator: a sum of at most n nonzero products,
//! each product and each addition rounded to `f32`, so that |a − s| ≤ e with e = γₙ Σ|products|, γₙ
//! = n u / (1 − n u), u = 2⁻²⁴ (Higham 2002, §3.1), in whatever order the products are added.
//! Σ|products| is at most the product of the rows' lengths, and equals s if no weight is negative.
//! `Bound` takes the tighter of the two, with a margin for the rounding of the similarity. If T is
//! at most the k-th largest accumulator, at least k rows have s ≥ T − e. So every row in the result
//! has s ≥ T − e too, and its accumulator is at least T − 2e: all such rows are collected.
//!
//! A product below the normal range of `f32` has an additional error of up to half the smallest
//! subnormal number; additions there are exact. n times this error is added for a query whose
//! products can be that small.
//!
//! Where this does not hold, all similarities of the query are computed, and the [`Report`] counts
//! it. That happens if sums can leave the range of `f32`, or if the threshold is so low that a row
//! of similarity above 0 may have an accumulator of 0.
//!
//! The sums of rows that the request does not allow are cleared before rows are collected, so these
//! rows are neither returned nor raise the threshold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::exhaustive::{self, Allowed};
use super::lists::Slots;
use super::{
    Neighbor, NeighborLists, Queries, Report, Request, Search, SearchError, check_training,
    rounded, whole_or_none,
};
use crate::matrix::{Csr, CsrView, row};
use crate::threads::Threads;

mod block;
mod bound;

use block::{Block, Head, STRIP, SplitQuery, group_maxima};
use bound::{Bound, Range};

/// Rows per block: the 64 KiB of accumulators of a query fit a second-level cache.
const BLOCK_ROWS: usize = 16_384;
/// The largest number of rows that 16-bit row numbers can distinguish.
const MAX_BLOCK_ROWS: usize = 65_536;
/// Queries processed together per block: their accumulators fit a second-level cache.
const BATCH: usize = 16;
/// The number of groups of accumulators; the k-th largest group maximum is a threshold.
const GROUPS: usize = 512;

/// The engine with an inverted index.
#[derive(Debug)]
pub struct Inverted {
    training: Arc<Csr>,
    rows: u32,
    head: Head,
    blocks: Vec<Block>,
    range: Range,
    threads: Threads,
}

impl Inverted {
    /// Indexes training rows. The index takes about twelve bytes per non-zero, and four bytes per
    /// term for each block.
    ///
    /// # Errors
    /// If a weight is not finite.
    pub fn new(training: Arc<Csr>, threads: Threads) -> Result<Self, SearchError> {
        Self::with_block_rows(training, threads, BLOCK_ROWS)
    }

    /// Like [`new`](Self::new), with blocks of about `rows` rows, for testing and measuring block
    /// sizes.
    ///
    /// # Errors
    /// If a weight is not finite.
    #[doc(hidden)]
    pub fn with_block_rows(
        training: Arc<Csr>,
        threads: Threads,
        rows: usize,
    ) -> Result<Self, SearchError> {
        let view = training.view();
        let count = check_training(&view, &threads)?;
        let head = Head::new(&view);
        let cuts = cuts(&view, rows.clamp(1, MAX_BLOCK_ROWS));
        let blocks = threads.run(|| {
            cuts.par_windows(2).map(|cut| Block::new(&view, cut[0]..cut[1], &head)).collect()
        });
        let range = Range::of(&view);
        Ok(Self { rows: count, training, head, blocks, range, threads })
    }

    fn find(
        &self,
        queries: &Queries<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        queries.check_finite(&self.threads)?;
        let count = queries.rows.rows();
        found.reset(count, queries.k.min(self.training.rows()))?;
        let fell_back = AtomicU64::new(0);
        self.threads.run(|| {
            let batches = found.slots().par_chunks(BATCH).enumerate();
            batches.try_for_each_init(Work::default, |work, (batch, places)| {
                let slow = self.batch(queries, batch * BATCH, places, work)?;
                fell_back.fetch_add(slow, Ordering::Relaxed);
                Ok::<(), SearchError>(())
            })
        })?;
        let fell_back = fell_back.into_inner();
        Ok(Report { fast: count as u64 - fell_back, fell_back })
    }

    /// Answers the queries from `first` on, one per slot. Returns how many fell back.
    fn batch(
        &self,
        queries: &Queries<'_>,
        first: usize,
        mut places: Slots<'_>,
        work: &mut Work,
    ) -> Result<u64, SearchError> {
        let last = (first + BATCH).min(queries.rows.rows());
        let mut states: Vec<State<'_>> =
            (first..last).map(|query| State::new(self, queries, query)).collect();
        let most_rows = self.blocks.iter().map(|block| block.rows).max().unwrap_or(0);
        let stride = most_rows.next_multiple_of(STRIP);
        let mut sums = std::mem::take(&mut work.sums);
        sums.resize(BATCH * stride, 0.0);
        for block in &self.blocks {
            queries.stop.check()?;
            let split: Vec<&SplitQuery> = states.iter().map(|state| &state.split).collect();
            block.add_head(&split, &mut sums, stride);
            for (state, sums) in states.iter_mut().zip(sums.chunks_mut(stride)) {
                let sums = &mut sums[..block.rows];
                block.add_tail(&state.split, sums);
                queries.allow.clear_denied(state.number, block.first_row, sums);
                state.collect(block, sums, work);
            }
        }
        work.sums = sums;
        let mut fell_back = 0;
        for (place, state) in states.into_iter().enumerate() {
            queries.stop.check()?;
            let (number, query) = (state.number, state.query);
            if let Some(neighbors) = self.finish(state, work) {
                places.set(place, &neighbors);
                continue;
            }
            let allowed = Allowed { allow: &queries.allow, query: number };
            let training = self.training.view();
            places.set(place, &exhaustive::nearest(&training, query, queries.k, allowed));
            fell_back += 1;
        }
        Ok(fell_back)
    }

    /// Rescores the candidates of a query by the formula; `None` if its bound did not hold.
    fn finish(&self, mut state: State<'_>, work: &mut Work) -> Option<Vec<Neighbor>> {
        let bound = state.bound.filter(|bound| bound.holds(state.threshold))?;
        let training = self.training.view();
        let cut = bound.cut(state.threshold);
        state.candidates.retain(|candidate| candidate.similarity >= cut);
        let (terms, weights) = state.query;
        work.query.resize(training.cols(), 0.0);
        for (&term, &weight) in terms.iter().zip(weights) {
            work.query[term as usize] = weight;
        }
        let mut neighbors = state.candidates;
        for candidate in &mut neighbors {
            let (terms, weights) = row(&training, candidate.row as usize);
            let mut sum = 0.0;
            for (&term, &weight) in terms.iter().zip(weights) {
                // A term that the query lacks adds 0, which does not change the sum.
                sum += f64::from(work.query[term as usize]) * f64::from(weight);
            }
            candidate.similarity = rounded(sum);
        }
        for &term in terms {
            work.query[term as usize] = 0.0;
        }
        neighbors.retain(|neighbor| neighbor.similarity > 0.0);
        neighbors.sort_unstable();
        neighbors.truncate(state.wanted);
        Some(neighbors)
    }
}

impl Search for Inverted {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let mut sparse = None;
        let outcome = request
            .queries((self.rows, self.training.cols()), &mut sparse)
            .and_then(|queries| self.find(&queries, found));
        whole_or_none(outcome, found)
    }
}

/// The first row of each block, and the number of rows. Blocks grow beyond `block_rows` if the
/// offsets of many small blocks would take more memory than the postings.
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

/// The buffers of a thread.
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

/// The state of a query as it passes through the blocks.
struct State<'a> {
    /// Its number in the request.
    number: usize,
    query: (&'a [u32], &'a [f32]),
    split: SplitQuery,
    /// The number of rows to find.
    wanted: usize,
    /// Rows that may be in the result; `similarity` holds the accumulator until the end.
    candidates: Vec<Neighbor>,
    /// At most the `wanted`-th largest accumulator so far; 0 until there are that many.
    threshold: f32,
    /// `None`: all similarities must be computed.
    bound: Option<Bound>,
}

impl<'a> State<'a> {
    fn new(engine: &Inverted, queries: &Queries<'a>, number: usize) -> Self {
        let query = row(&queries.rows, number);
        let bound = Bound::new(&engine.range, query);
        let split = SplitQuery::new(query, &engine.head);
        let wanted = queries.k;
        Self { number, query, split, wanted, candidates: Vec::new(), threshold: 0.0, bound }
    }

    /// Collects the rows of a block that may be in the result.
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
                    let row = block.first_row
                        + u32::try_from(local).expect("a block has fewer than 2³² rows");
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

/// The `n`-th largest score, counted from 1; 0 if there are fewer.
fn nth_largest(scores: &mut [f32], n: usize) -> f32 {
    if n > scores.len() {
        return 0.0;
    }
    *scores.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a)).1
}
