//! The default CPU engine: an inverted index in blocks of rows, with 16-bit sums in cache and exact
//! results.
//!
//! The training rows are divided into blocks. A block stores the *postings* of each term: the rows
//! that contain it, with its weights in fixed point. The terms that many rows contain are the
//! *head*; a block also stores them row by row. Each query has a 16-bit sum for each row of a
//! block. For a batch of queries, the products of the head are added first. Each weight of a row is
//! multiplied by the factors of [`LANES`] queries at a time. Then the postings of each query's
//! other terms are added. Rows that may be among the best `k` are collected and finally rescored
//! with the exact similarity of [`super`].
//!
//! For small batches, and for large ones over many blocks, the engine adds the postings of rare
//! terms only and bounds the contribution of the rest (see [`bounds`]). If the bound does not prune
//! enough, a large batch falls back to the head. A small batch falls back to the postings of all
//! terms; the most frequent terms use columns of the weights of all rows instead.
//!
//! # Why the results are exact
//!
//! Let m be the largest absolute weight of a term in the training rows, and X the largest 16-bit
//! number. A training weight w becomes x = X w / m, rounded, but never to 0. A query weight q
//! becomes the factor f = q m A 65536 / X, rounded. A is chosen so that the largest possible sum
//! fits, with 2 to spare for each product. That sum is at most A Σ |q| m. It is also at most A
//! times the product of the query's length and the length of the longest row (Cauchy–Schwarz).
//!
//! The product x f / 65536 is rounded down. Because f and x are rounded, it differs from A q w by
//! at most r = |rounding error of f| + (|f| + 1) / 65536. Because the product is rounded, it
//! differs by up to 1 more. Products of postings and columns are 1 larger. The sum of a row
//! therefore lies between A s − l and A s + h, where s is its similarity. When two rows are
//! compared, h of one and l of the other matter. Their sum is at most Σ (1 + 2 r) over the terms of
//! the query. If a row has fewer terms than the query, Σ (2 + 2 r) over the largest number of terms
//! of a row is also a bound. The terms of the two rows differ, and only some products are 1 larger.
//! The smaller of the two bounds is the *band*.
//!
//! If T is at most the k-th largest sum, k rows have A s ≥ T − h. This also holds for every row of
//! the result, so its sum is at least T − h − l. All rows with such sums are collected. The band is
//! widened by 0.1, which covers the rounding of similarities to `f32` and of these numbers to
//! `f64`.
//!
//! Rows with a sum of 0 are not collected. This is correct if T is above the band. It is also
//! correct if all terms were added by postings and columns and no weight is negative. A row with a
//! common term then has a sum of at least 1. If neither holds for a query of a batch, the query is
//! answered again by postings. If that does not help, all similarities of the query are computed,
//! and the [`Report`] counts it as fallen back. This happens if weights are negative and the
//! threshold is within the band, or if there may be thousands of common terms. It also happens if
//! similarities may be below 1e-30 or above 1e37.
//!
//! The sums of rows that the request does not allow are cleared before rows are collected. These
//! rows are therefore not returned and do not raise the threshold.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::engine::{Search, check_training, clear_on_failure};
use super::lists::{NeighborLists, Slots};
use super::request::{Queries, Request, any_chunk};
use super::scratch::Scratch;
use super::{Neighbor, Report, SearchError};
use crate::rows::matrix::{Csr, CsrView, Row, row};
use crate::threads::Threads;

mod bounds;
mod fixed;
mod index;
mod kernels;
mod rescorer;

use fixed::{FixedPoint, ScaledQuery, WeightStats};
use index::{Block, Index, PostingList, stride};
use kernels::{LANES, count_at_least, for_each_at_least, group_maxima};
use rescorer::{PREFETCH_DISTANCE, Rescorer, prefetch};

/// Number of rows per block: the sums of a query take 32 KiB, which fits in a first-level cache.
const BLOCK_ROWS: usize = 16_384;
/// Maximum number of rows of a block, limited by the 16-bit row numbers.
const MAX_BLOCK_ROWS: usize = 65_536;
/// Maximum number of batches of [`LANES`] queries that a thread answers at a time. All batches but
/// the first find the postings of a block in cache.
const MAX_BATCHES: usize = 4;
/// Minimum number of queries of a batch.
const MIN_BATCH: usize = 16;
/// Minimum number of blocks for which a batch tries bounds, provided there are at least `k` blocks.
/// The first block is more expensive; each further block then adds at most one neighbor on average.
const MIN_BOUNDED_BLOCKS: usize = 8;
/// Minimum number of groups of sums. The k-th largest of the group maxima is a threshold.
const MIN_GROUPS: usize = 512;
/// Maximum number of groups of sums.
const MAX_GROUPS: usize = 8192;

/// The engine with an inverted index.
#[derive(Debug)]
pub struct Inverted {
    training: Arc<Csr>,
    rows: u32,
    block_bounds: Vec<usize>,
    /// The index for nonnegative weights, present if no training weight is negative.
    unsigned: Option<Index<u16>>,
    /// The index for negative weights of the training rows or of a query, created when needed.
    signed: OnceLock<Index<i16>>,
    scratch: Scratch<Buffers<u16>>,
    signed_scratch: Scratch<Buffers<i16>>,
    threads: Threads,
}

impl Inverted {
    /// Creates an index of training rows.
    ///
    /// The index takes about six bytes per nonzero, twelve per row, and four per term and block.
    /// Each term in at least a fifth of the rows takes two more bytes per row. After the first
    /// query with a negative weight, the index takes twice as much memory.
    ///
    /// # Errors
    /// If a weight is not finite.
    pub fn new(training: Arc<Csr>, threads: Threads) -> Result<Self, SearchError> {
        Self::with_block_rows(training, threads, BLOCK_ROWS)
    }

    /// Like [`new`](Self::new), but with blocks of about `rows` rows, for tests and benchmarks.
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
        let block_bounds = block_bounds(&view, rows.clamp(1, MAX_BLOCK_ROWS));
        let stats = threads.run(|| weight_stats(&view));
        let (unsigned, signed) = if stats.has_negative {
            (None, OnceLock::from(threads.run(|| Index::new(&view, stats, &block_bounds))))
        } else {
            (Some(threads.run(|| Index::new(&view, stats, &block_bounds))), OnceLock::new())
        };
        Ok(Self {
            rows: count,
            training,
            block_bounds,
            unsigned,
            signed,
            scratch: Scratch::default(),
            signed_scratch: Scratch::default(),
            threads,
        })
    }

    fn find(
        &self,
        queries: &Queries<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        queries.check_finite(&self.threads)?;
        let is_negative = |chunk: &[f32]| chunk.iter().any(|&weight| weight < 0.0);
        let negative = || any_chunk(queries.rows.data(), &self.threads, is_negative);
        if let Some(index) = self.unsigned.as_ref().filter(|_| !negative()) {
            return self.find_in(index, &self.scratch, queries, found);
        }
        let view = self.training.view();
        if self.signed.get().is_none() {
            // `get_or_init` could deadlock: a thread that waits in it for other threads may run a
            // task that enters it again.
            let index =
                self.threads.run(|| Index::new(&view, weight_stats(&view), &self.block_bounds));
            // If another search has set the index first, keep that one.
            let _ = self.signed.set(index);
        }
        let index = self.signed.get().expect("set above");
        self.find_in(index, &self.signed_scratch, queries, found)
    }

    fn find_in<T: FixedPoint>(
        &self,
        index: &Index<T>,
        scratch: &Scratch<Buffers<T>>,
        queries: &Queries<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let count = queries.rows.rows();
        found.reset(count, queries.k.min(self.training.rows()))?;
        let batch = batch_size(count, self.threads.count());
        let engine = Searcher { index, training: self.training.view(), queries };
        if count <= batch {
            // Run on the calling thread: switching to another thread and back takes as long as a
            // query.
            engine.answer_batch(0, found.slots(), &mut scratch.take())?;
            return Ok(found.report());
        }
        self.threads.run(|| {
            let batches = found.slots().par_chunks(batch).enumerate();
            let buffers = || scratch.take();
            batches.try_for_each_init(buffers, |buffers, (number, slots)| {
                engine.answer_batch(number * batch, slots, buffers)
            })
        })?;
        Ok(found.report())
    }
}

/// Returns the number of queries that a thread answers at a time: a multiple of [`LANES`], as large
/// as possible while all threads finish at about the same time, or fewer than [`LANES`] for few
/// queries.
fn batch_size(queries: usize, threads: usize) -> usize {
    let per_thread = queries.div_ceil(threads);
    if per_thread <= LANES {
        return per_thread.max(1);
    }
    let rounds = |lanes: &usize| queries.div_ceil(lanes * LANES).div_ceil(threads) * lanes;
    (1..=MAX_BATCHES).rev().min_by_key(rounds).unwrap_or(1) * LANES
}

/// Computes the properties of all weights, in the current thread pool.
fn weight_stats(training: &CsrView<'_>) -> WeightStats {
    // Each chunk needs a vector over all terms, so chunks are large.
    let rows = training.rows();
    let chunks =
        (training.nnz() / (4 * training.cols() + 1)).clamp(1, rayon::current_num_threads());
    let size = rows.div_ceil(chunks).max(1);
    let chunks = (0..rows.div_ceil(size).max(1)).into_par_iter();
    let chunk_stats =
        |chunk: usize| WeightStats::new(training, chunk * size..((chunk + 1) * size).min(rows));
    chunks.map(chunk_stats).reduce_with(|a, b| a.join(&b)).expect("at least one chunk")
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
            .queries(self.rows, self.training.cols(), &mut sparse)
            .and_then(|queries| self.find(&queries, found));
        clear_on_failure(outcome, found)
    }
}

/// Returns the first row of each block, followed by the number of rows. Blocks are larger than
/// `block_rows` if the offsets of many small blocks would take more memory than the postings.
fn block_bounds(training: &CsrView<'_>, block_rows: usize) -> Vec<usize> {
    let rows = training.rows();
    let max_blocks = training.nnz() / (training.cols() + 1);
    let blocks =
        rows.div_ceil(block_rows).min(max_blocks.max(1)).max(rows.div_ceil(MAX_BLOCK_ROWS));
    let rows_per_block = rows.div_ceil(blocks.max(1));
    let mut block_bounds = vec![0];
    let mut nonzeros = 0;
    for index in 0..rows {
        let length = row(training, index).0.len();
        let first = block_bounds.last().copied().unwrap_or(0);
        if index - first == rows_per_block || nonzeros + length > u32::MAX as usize {
            block_bounds.push(index);
            nonzeros = 0;
        }
        nonzeros += length;
    }
    if rows > 0 {
        block_bounds.push(rows);
    }
    block_bounds
}

/// The buffers of a search thread.
#[derive(Debug, Default)]
struct Buffers<T> {
    /// The sums of a batch in a block.
    sums: Vec<T>,
    /// The factors of the head terms.
    factors: Vec<[T; LANES]>,
    /// The factors of a query's terms that do not have a column.
    rare: Vec<(u32, T)>,
    /// The column and factor of each query term that has a column.
    dense: Vec<(usize, T)>,
    /// The postings of a query in a block.
    lists: Vec<PostingList<T>>,
    /// The postings of the next query.
    next: Vec<PostingList<T>>,
    maxima: Vec<T>,
    scores: Vec<T>,
    /// The rows of a block that may be in the result, with bounds.
    candidates: Vec<(T, u32)>,
    /// The rows of a block that have been scored.
    seen: Vec<u32>,
    /// A bitmap of the rows of a block.
    marks: Vec<u64>,
    rescorer: Rescorer,
}

/// A query and the candidates found so far.
struct QueryState<'a, T> {
    /// The query's number in the request.
    number: usize,
    query: Row<'a>,
    /// The query in fixed point; `None` if 16 bits are not enough.
    scaled: Option<ScaledQuery<T>>,
    /// The number of rows to find.
    k: usize,
    /// Sums and numbers of the rows that may be in the result.
    candidates: Vec<(T, u32)>,
    /// A lower bound on the `k`-th largest sum so far; 0 until there are that many.
    threshold: T,
}

impl<'a, T: FixedPoint> QueryState<'a, T> {
    fn new(index: &Index<T>, queries: &Queries<'a>, number: usize) -> Self {
        let query = row(&queries.rows, number);
        let scaled = ScaledQuery::new(&index.stats, query, |term| index.column(term).is_some());
        let k = queries.k;
        Self { number, query, scaled, k, candidates: Vec::new(), threshold: T::default() }
    }

    /// The factors of the terms that do not belong to the head.
    fn tail(&self) -> &[(u32, T)] {
        self.scaled.as_ref().map_or(&[], |scaled| &scaled.factors[..scaled.tail])
    }

    /// Whether no row of the result can have been excluded because of a sum of 0.
    fn is_complete(&self, used_postings: bool) -> bool {
        let Some(scaled) = &self.scaled else { return false };
        used_postings && !T::IS_SIGNED
            || scaled.factors.is_empty()
            || scaled.min_sum(self.threshold) >= T::ONE
    }

    /// Collects the rows of a block that may be in the result.
    fn collect(&mut self, block: &Block<T>, sums: &[T], maxima: &mut Vec<T>, scores: &mut Vec<T>) {
        let Some(scaled) = &self.scaled else { return };
        if self.threshold == T::default() {
            self.threshold = sum_threshold(sums, self.k, maxima);
        }
        let old_count = self.candidates.len();
        for_each_at_least(sums, scaled.min_sum(self.threshold).max(T::ONE), |local| {
            self.candidates.push((sums[local], block.row_number(local)));
        });
        if self.candidates.len() > old_count && self.candidates.len() >= self.k {
            scores.clear();
            scores.extend(self.candidates.iter().map(|&(sum, _)| sum));
            self.threshold = self.threshold.max(nth_largest(scores, self.k));
            let min_sum = scaled.min_sum(self.threshold);
            self.candidates.retain(|&(sum, _)| sum >= min_sum);
        }
    }
}

/// Returns a lower bound on the `k`-th largest sum, computed from the maxima of groups of
/// sums.
fn sum_threshold<T: FixedPoint>(sums: &[T], k: usize, maxima: &mut Vec<T>) -> T {
    maxima.resize(k.saturating_mul(4).clamp(MIN_GROUPS, MAX_GROUPS), T::default());
    group_maxima(sums, maxima);
    nth_largest(maxima, k)
}

/// Returns the `n`-th largest value, counted from 1; 0 if fewer are above 0.
fn nth_largest<T: FixedPoint>(values: &[T], n: usize) -> T {
    let mut low = 0;
    let mut high = T::nearest(T::MAX).bits();
    while low < high {
        let middle = high - (high - low) / 2;
        if count_at_least(values, T::from_bits(middle)) >= n {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    T::from_bits(low)
}

/// An index with its training rows, and the queries to answer.
#[derive(Debug)]
struct Searcher<'a, T> {
    index: &'a Index<T>,
    training: CsrView<'a>,
    queries: &'a Queries<'a>,
}

impl<'a, T: FixedPoint> Searcher<'a, T> {
    /// Answers one query per slot, starting with query `first`.
    fn answer_batch(
        &self,
        first: usize,
        mut slots: Slots<'_>,
        buffers: &mut Buffers<T>,
    ) -> Result<(), SearchError> {
        let end = first + slots.len();
        let state = |query| QueryState::new(self.index, self.queries, query);
        let mut states: Vec<QueryState<'_, T>> = (first..end).map(state).collect();
        let rows = self.index.blocks.iter().map(|block| block.rows).max().unwrap_or(0);
        let stride = stride(rows);
        let blocks = self.index.blocks.len();
        let is_batch = states.len() >= MIN_BATCH;
        if !is_batch || blocks >= MIN_BOUNDED_BLOCKS.max(self.queries.k) {
            let mut found = self.search_by_bounds(&states, is_batch, stride, buffers)?.into_iter();
            states.retain(|state| match found.next().flatten() {
                Some(neighbors) => {
                    slots.set(state.number - first, &neighbors);
                    false
                }
                None => true,
            });
        }
        let is_batch = states.len() >= MIN_BATCH;
        if is_batch {
            self.collect_by_head(&mut states, stride, buffers)?;
        }
        for state in &mut states {
            self.queries.stop.check()?;
            let is_done = is_batch && state.is_complete(false);
            if !is_done {
                self.collect_by_postings(state, stride, buffers)?;
            }
            let neighbors = if is_done || state.is_complete(true) {
                self.rescore(state, buffers)
            } else {
                slots.mark_fell_back(state.number - first);
                self.rescore_all(state, buffers)
            };
            slots.set(state.number - first, &neighbors);
        }
        Ok(())
    }

    /// Collects the candidates of a batch, starting with the products of the head.
    fn collect_by_head(
        &self,
        states: &mut [QueryState<'a, T>],
        stride: usize,
        buffers: &mut Buffers<T>,
    ) -> Result<(), SearchError> {
        let Buffers { sums, factors, lists, next, maxima, scores, .. } = buffers;
        let columns = self.index.columns;
        factors.clear();
        factors.resize(columns * states.len().div_ceil(LANES), [T::default(); LANES]);
        for (query, state) in states.iter().enumerate() {
            let factors = &mut factors[query / LANES * columns..];
            let head = state.scaled.iter().flat_map(|scaled| &scaled.factors[scaled.tail..]);
            for &(term, factor) in head {
                let column = self.index.column(term).expect("a term of the head");
                factors[column][query % LANES] = factor;
            }
        }
        sums.resize(LANES * stride, T::default());
        for block in &self.index.blocks {
            self.queries.stop.check()?;
            block.find_lists(states.first().map_or(&[], QueryState::tail), lists);
            for query in 0..states.len() {
                if query % LANES == 0 {
                    let factors = &factors[query / LANES * columns..][..columns];
                    block.set_head(factors, sums, stride);
                }
                // Prefetch the next query's postings while adding this query's.
                block.find_lists(states.get(query + 1).map_or(&[], QueryState::tail), next);
                let sums = &mut sums[query % LANES * stride..][..block.rows];
                let state = &mut states[query];
                block.add(lists, sums);
                std::mem::swap(lists, next);
                self.queries.allow.clear_denied(state.number, block.first_row, sums);
                state.collect(block, sums, maxima, scores);
            }
        }
        Ok(())
    }

    /// Collects the candidates of one query by postings and columns.
    fn collect_by_postings(
        &self,
        state: &mut QueryState<'a, T>,
        stride: usize,
        buffers: &mut Buffers<T>,
    ) -> Result<(), SearchError> {
        let Buffers { sums, rare, dense, lists, maxima, scores, .. } = buffers;
        sums.resize(sums.len().max(stride), T::default());
        state.threshold = T::default();
        state.candidates.clear();
        let factors = state.scaled.as_ref().map_or(&[][..], |scaled| &scaled.factors);
        self.index.split(factors, rare, dense);
        for block in &self.index.blocks {
            self.queries.stop.check()?;
            let sums = &mut sums[..block.rows];
            block.find_lists(rare, lists);
            sums.fill(T::default());
            block.add_dense(self.index.dense, dense, sums);
            block.add(lists, sums);
            self.queries.allow.clear_denied(state.number, block.first_row, sums);
            state.collect(block, sums, maxima, scores);
        }
        Ok(())
    }

    /// Returns the nearest candidates, with exact similarities.
    fn rescore(&self, state: &QueryState<'a, T>, buffers: &mut Buffers<T>) -> Vec<Neighbor> {
        let candidates = &state.candidates;
        candidates
            .iter()
            .take(PREFETCH_DISTANCE)
            .for_each(|&(_, row)| prefetch(&self.training, row));
        let rows = candidates.iter().enumerate().map(|(index, &(_, row))| {
            if let Some(&(_, later)) = candidates.get(index + PREFETCH_DISTANCE) {
                prefetch(&self.training, later);
            }
            row
        });
        self.nearest(state, rows, buffers)
    }

    /// Returns the nearest of all allowed rows, with exact similarities.
    fn rescore_all(&self, state: &QueryState<'a, T>, buffers: &mut Buffers<T>) -> Vec<Neighbor> {
        let allow = &self.queries.allow;
        let rows = (0..).zip(0..self.training.rows()).map(|(row, _)| row);
        self.nearest(state, rows.filter(|&row| allow.allows(state.number, row)), buffers)
    }

    fn nearest(
        &self,
        state: &QueryState<'a, T>,
        rows: impl Iterator<Item = u32>,
        buffers: &mut Buffers<T>,
    ) -> Vec<Neighbor> {
        let rescorer = &mut buffers.rescorer;
        rescorer.set(state.query, self.training.cols());
        let scored = rows.map(|number| rescorer.score(&self.training, number));
        let mut neighbors: Vec<_> = scored.filter(|row| row.similarity > 0.0).collect();
        rescorer.clear(state.query);
        neighbors.sort_unstable();
        neighbors.truncate(state.k);
        neighbors
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;

    #[test]
    fn threads_share_queries_evenly() {
        let sizes = [(0, 4), (3, 4), (256, 4), (257, 4), (2_048, 1), (2_048, 16), (5_000, 16)];
        let expected = [1, 1, 64, 128, 256, 128, 64];
        assert_eq!(sizes.map(|(queries, threads)| batch_size(queries, threads)), expected);
    }

    /// Search by bounds returns exact results, and it answers at least half of the queries.
    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and positive"
    )]
    fn bounds_prune_if_term_frequencies_follow_natural_language() {
        const TERMS: u32 = 5_000;
        let mut random = Random::new(1);
        let mut builder = CsrBuilder::default();
        let mut weights = vec![0.0f32; TERMS as usize];
        for row in 0..8_000 {
            weights.fill(0.0);
            for word in 0..60 {
                // Words follow Zipf's law, and frequent terms have smaller weights. Most words
                // belong to one of fifty subjects.
                let rank = match word % 3 {
                    0 | 1 => f64::from(100 + 40 * (row % 50)) + 40.0 * random.unit(),
                    _ => libm::pow(f64::from(TERMS), random.unit()),
                };
                weights[rank as usize - 1] = libm::log1p(rank) as f32;
            }
            let length = weights.iter().map(|weight| weight * weight).sum::<f32>().sqrt();
            let row = (0..TERMS).zip(weights.iter().map(|weight| weight / length));
            builder.push_row(row.filter(|&(_, weight)| weight > 0.0));
        }
        let training = Arc::new(builder.build(TERMS as usize));
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        for (block_rows, is_batch, min_answered) in [(2_000, false, 150), (500, true, 100)] {
            let engine =
                Inverted::with_block_rows(Arc::clone(&training), threads.clone(), block_rows)
                    .unwrap();
            let index = engine.unsigned.as_ref().unwrap();
            let request = Request::new(&*training, NonZeroUsize::new(10).unwrap());
            let mut none = None;
            let queries = request.queries(engine.rows, training.cols(), &mut none).unwrap();
            let engine = Searcher { index, training: training.view(), queries: &queries };
            let mut buffers = Buffers::default();
            let states: Vec<_> =
                (0..200).map(|number| QueryState::new(index, &queries, number)).collect();
            let found = engine
                .search_by_bounds(&states, is_batch, stride(block_rows), &mut buffers)
                .unwrap();
            for (state, bounded) in states.iter().zip(&found) {
                let all = engine.rescore_all(state, &mut buffers);
                assert!(bounded.as_ref().is_none_or(|bounded| *bounded == all), "{}", state.number);
            }
            let answered = found.iter().flatten().count();
            assert!(answered >= min_answered, "{answered} of 200 in blocks of {block_rows}");
        }
    }
}
