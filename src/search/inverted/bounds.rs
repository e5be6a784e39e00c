//! Search by rare terms only, with a bound on the contribution of the frequent terms.
//!
//! Most postings of a query belong to its frequent terms, which contribute the least to a
//! similarity. Therefore, the engine adds only the postings of the rare terms. The contribution of
//! the frequent terms is at most |q₂| |x₂|, the product of the lengths of the query and the row in
//! these terms (Cauchy–Schwarz). Several levels define which terms are frequent, each by a fraction
//! of the rows ([`LEVEL_FRACTIONS`]). For each level, a column contains the length of every row in
//! the frequent terms, in fixed point and rounded up. If the bounds leave too many candidates in a
//! block, the terms of the next level are added too.
//!
//! In the notation of [`super`], let s₁ be the contribution of the added products to the similarity
//! s. The sum of these products is at least A s₁ − Σ r and at most A s₁ + Σ (r + 1). Weights are
//! not negative, so s₁ ≤ s ≤ s₁ + |q₂| |x₂|. The first inequality gives a threshold: if T is at
//! most the k-th largest sum, k rows have A s ≥ T − Σ (r + 1). These rows are scored exactly, which
//! gives a higher threshold. Then the rows whose bounds reach that threshold are scored in
//! descending order of their bounds. Scoring ends when no bound reaches the k-th best similarity
//! found so far. Exact similarities need no band, only Σ r, and 0.1 for the rounding to `f32` and
//! `f64`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fixed::FixedPoint;
use super::index::{Block, Index, LEVEL_FRACTIONS};
use super::kernels::{Bounds, bound, for_each_at_least};
use super::rescorer::{PREFETCH_DISTANCE, Rescorer, prefetch};
use super::{Buffers, QueryState, Searcher, sum_threshold};
use crate::search::{Neighbor, SearchError};

/// Cost of scoring a row, in postings.
const POSTINGS_PER_ROW: usize = 256;
/// Number of rows of a column that take as long to add as one posting.
const ROWS_PER_POSTING: usize = 16;
/// Fixed cost of a stage, in postings.
const POSTINGS_PER_STAGE: usize = 2048;

/// The last stage at which bounds are faster than the head for a query of a batch.
const LAST_CHEAP_STAGE: usize = 2;
/// The head answers a query of a batch if more than one in this many blocks needs a later stage.
const LATE_BLOCKS: usize = 8;

/// The factors of the terms to add in a stage.
struct StageTerms<'a, T> {
    /// The factors of terms that have postings only.
    rare: &'a [(u32, T)],
    /// The factors of terms that also have a column of all rows' weights.
    dense: &'a [(u32, T)],
}

/// The stages in which a query's terms are added, rarest terms first.
#[derive(Debug)]
struct Plan<T> {
    /// The terms and their factors, sorted by stage.
    factors: Vec<(u32, T)>,
    /// Number of terms that have postings only, without a column of all rows' weights.
    rare: usize,
    /// The stages. After the last one, all terms have been added.
    stages: [Stage<T>; LEVEL_FRACTIONS.len() + 1],
    /// Factor that converts similarities to sums.
    scale: f64,
}

/// A stage of a plan, in which the rarest terms of a query have been added.
#[derive(Debug, Clone, Copy, Default)]
struct Stage<T> {
    /// Number of terms that have been added.
    terms: usize,
    /// Maximum amount by which the sum of these terms' products can be too small.
    max_underestimate: f64,
    /// Maximum amount by which the sum of these terms' products can be too large.
    max_overestimate: f64,
    /// Factor for the rows' lengths in the other terms.
    length: T,
    /// Cost of adding the terms of the next stage to all rows, in postings.
    next_cost: usize,
}

impl<T: FixedPoint> Plan<T> {
    /// Creates the plan of a query. Returns `None` if no term is rare, or if 16 bits are not enough
    /// for the query.
    fn new(index: &Index<T>, query: &QueryState<'_, T>, rescorer: &Rescorer) -> Option<Self> {
        let scaled = query.scaled.as_ref()?;
        if index.levels.is_empty() {
            return None;
        }
        let stats = &index.stats;
        let frequency = |term: u32| stats.frequencies[term as usize];
        let stage_of =
            |term: u32| index.levels.partition_point(|&min_rows| min_rows <= frequency(term));
        let mut factors = scaled.factors.clone();
        factors.sort_unstable_by_key(|&(term, _)| (frequency(term), Reverse(term)));
        let rare = factors.partition_point(|&(term, _)| index.dense_column(term).is_none());
        let mut stages =
            [Stage { max_underestimate: 0.1, max_overestimate: 0.1, ..Stage::default() };
                LEVEL_FRACTIONS.len() + 1];
        let mut squares = [0.0; LEVEL_FRACTIONS.len() + 1];
        for &(term, factor) in &factors {
            let first = stage_of(term);
            let weight = f64::from(rescorer.weight(term));
            let rounding = scaled.rounding(stats.largest[term as usize], factor, weight);
            for stage in &mut stages[first..] {
                stage.terms += 1;
                stage.max_underestimate += rounding;
                stage.max_overestimate += rounding + 1.0;
            }
            squares[..first].iter_mut().for_each(|sum| *sum += weight * weight);
            if let Some(before) = first.checked_sub(1) {
                stages[before].next_cost += match index.dense_column(term) {
                    Some(_) => index.rows() / ROWS_PER_POSTING,
                    None => frequency(term) as usize,
                };
            }
        }
        for (stage, squares) in stages.iter_mut().zip(squares) {
            let length = scaled.scale * squares.sqrt() * stats.length;
            let exact = (length * (65_536.0 / (T::MAX - 1.0)) * (1.0 + 1e-9)).ceil();
            if exact > T::MAX {
                return None;
            }
            stage.length = T::nearest(exact);
        }
        (stages[0].terms > 0).then_some(Self { factors, rare, stages, scale: scaled.scale })
    }

    /// Returns the terms to add for stage `to` if the terms of stage `from` have been added.
    fn terms(&self, from: Option<usize>, to: usize) -> StageTerms<'_, T> {
        let start = from.map_or(0, |stage| self.stages[stage].terms);
        let end = self.stages[to].terms;
        let rare = self.rare.clamp(start, end);
        StageTerms { rare: &self.factors[start..rare], dense: &self.factors[rare..end] }
    }
}

/// The best rows found for a query so far.
#[derive(Debug)]
struct BestRows {
    rows: BinaryHeap<Neighbor>,
    k: usize,
    /// Factor that converts similarities to sums.
    scale: f64,
    /// Best known lower bound on the scaled similarities of the rows in the result.
    min_scaled: f64,
}

impl BestRows {
    fn new(k: usize, scale: f64) -> Self {
        let rows = BinaryHeap::with_capacity(k + 1);
        Self { rows, k, scale, min_scaled: 0.0 }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.k
    }

    fn push(&mut self, neighbor: Neighbor) {
        if neighbor.similarity > 0.0 {
            self.rows.push(neighbor);
            if self.rows.len() > self.k {
                self.rows.pop();
            }
        }
        if let Some(last) = self.rows.peek().filter(|_| self.is_full()) {
            self.min_scaled = self.min_scaled.max(f64::from(last.similarity) * self.scale);
        }
    }
}

/// The state of a query while blocks are scanned.
#[derive(Debug)]
struct QueryProgress<T> {
    /// The query's position among the states.
    position: usize,
    plan: Plan<T>,
    best: BestRows,
    /// The stage to begin with. Most blocks need about the same stage as the previous block.
    stage: usize,
    /// Number of blocks that needed a stage after [`LAST_CHEAP_STAGE`].
    late_blocks: usize,
    /// Whether the bounds could not exclude any row of a block.
    is_unprunable: bool,
}

/// The sums of a block and the threshold above which they are large.
struct LargeSums<'a, T> {
    sums: &'a [T],
    threshold: T,
}

/// A query and the block that is being scanned for it.
struct BlockVisit<'a, T> {
    state: &'a QueryState<'a, T>,
    block: &'a Block<T>,
    /// The number of the block.
    number: usize,
}

impl<T: FixedPoint> Searcher<'_, T> {
    /// Finds the neighbors of queries by bounds. Returns `None` for a query if bounds do not prune
    /// enough, or if the head answers it faster.
    pub(super) fn search_by_bounds(
        &self,
        states: &[QueryState<'_, T>],
        is_batch: bool,
        stride: usize,
        buffers: &mut Buffers<T>,
    ) -> Result<Vec<Option<Vec<Neighbor>>>, SearchError> {
        let columns = self.training.cols();
        let blocks = &self.index.blocks;
        let mut queries = Vec::with_capacity(states.len());
        for (position, state) in states.iter().enumerate() {
            buffers.rescorer.set(state.query, columns);
            if let Some(plan) = Plan::new(self.index, state, &buffers.rescorer) {
                queries.push(QueryProgress {
                    position,
                    best: BestRows::new(state.k.min(self.training.rows()), plan.scale),
                    plan,
                    stage: 0,
                    late_blocks: 0,
                    is_unprunable: false,
                });
            }
            buffers.rescorer.clear(state.query);
        }
        buffers.sums.resize(buffers.sums.len().max(stride), T::default());
        // The position and the stage of the query whose postings are being prefetched.
        let mut prefetched = None;
        for (number, block) in blocks.iter().enumerate() {
            for index in 0..queries.len() {
                self.queries.stop.check()?;
                let QueryProgress { position, plan, stage, .. } = &queries[index];
                if prefetched != Some((*position, *stage)) {
                    block.find_lists(plan.terms(None, *stage).rare, &mut buffers.next);
                }
                std::mem::swap(&mut buffers.lists, &mut buffers.next);
                let next = match queries.get(index + 1) {
                    Some(query) => Some((block, query)),
                    None => blocks.get(number + 1).zip(queries.first()),
                };
                prefetched = next.map(|(block, QueryProgress { position, plan, stage, .. })| {
                    block.find_lists(plan.terms(None, *stage).rare, &mut buffers.next);
                    (*position, *stage)
                });
                let state = &states[*position];
                buffers.rescorer.set(state.query, columns);
                self.add_in_stages(
                    &BlockVisit { state, block, number },
                    &mut queries[index],
                    buffers,
                );
                buffers.rescorer.clear(state.query);
            }
            queries.retain(|query| {
                let is_late = is_batch && query.late_blocks > blocks.len() / LATE_BLOCKS;
                !(query.is_unprunable || is_late)
            });
        }
        let mut found: Vec<_> = states.iter().map(|_| None).collect();
        for query in queries {
            found[query.position] = Some(query.best.rows.into_sorted_vec());
        }
        Ok(found)
    }

    /// Collects the best rows of a block. `buffers.lists` must contain the postings for
    /// `query.stage`.
    fn add_in_stages(
        &self,
        visit: &BlockVisit<'_, T>,
        query: &mut QueryProgress<T>,
        buffers: &mut Buffers<T>,
    ) {
        let &BlockVisit { state, block, number } = visit;
        let QueryProgress { plan, best, stage, late_blocks, is_unprunable, .. } = query;
        let Buffers { sums, dense, lists, maxima, rescorer, candidates, seen, marks, .. } = buffers;
        let blocks = self.index.blocks.len();
        let sums = &mut sums[..block.rows];
        seen.clear();
        sums.fill(T::default());
        candidates.clear();
        let mut added = None;
        loop {
            let terms = plan.terms(added, *stage);
            if added.is_some() {
                block.find_lists(terms.rare, lists);
            }
            let column = |&(term, factor)| Some((self.index.dense_column(term)?, factor));
            dense.clear();
            dense.extend(terms.dense.iter().filter_map(column));
            block.add_dense(self.index.dense, dense, sums);
            block.add(lists, sums);
            added = Some(*stage);
            self.queries.allow.clear_denied(state.number, block.first_row, sums);
            let current = &plan.stages[*stage];
            if !best.is_full() {
                let threshold = sum_threshold(sums, best.k, maxima);
                best.min_scaled = best.min_scaled.max(threshold.value() - current.max_overestimate);
                if threshold >= T::ONE {
                    self.score_first(visit, &LargeSums { sums, threshold }, rescorer, seen, best);
                }
            }
            let min_sum = (best.min_scaled - current.max_underestimate).floor();
            let Some(lengths) = block.lengths(*stage) else {
                if min_sum < 1.0 {
                    // Any row may be in the result.
                    *is_unprunable = true;
                    return;
                }
                for_each_at_least(sums, T::nearest(min_sum), |local| {
                    candidates.push((sums[local], block.row_number(local)));
                });
                break;
            };
            if min_sum >= 1.0 {
                let factor = current.length;
                let bounds = Bounds { sums, lengths, factor };
                let count = bounds.mark_at_least(T::nearest(min_sum), marks);
                // Do not count the rows of the result that this block is expected to contain: they
                // must be scored anyway.
                let excess = count.saturating_sub(best.k / (number + 1));
                if excess * POSTINGS_PER_ROW <= current.next_cost / blocks + POSTINGS_PER_STAGE {
                    candidates.extend(set_bits(marks).map(|local| {
                        let bound = bound(sums[local], lengths[local], factor);
                        (bound, block.row_number(local))
                    }));
                    break;
                }
            }
            *stage += 1;
        }
        let current = &plan.stages[*stage];
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates
            .iter()
            .take(PREFETCH_DISTANCE)
            .for_each(|&(_, row)| prefetch(&self.training, row));
        for (position, &(sum, row)) in candidates.iter().enumerate() {
            if sum.value() < (best.min_scaled - current.max_underestimate).floor() {
                break;
            }
            if let Some(&(_, later)) = candidates.get(position + PREFETCH_DISTANCE) {
                prefetch(&self.training, later);
            }
            if self.queries.allow.allows(state.number, row) && seen.binary_search(&row).is_err() {
                best.push(rescorer.score(&self.training, row));
            }
        }
        *late_blocks += usize::from(*stage > LAST_CHEAP_STAGE);
        // Begin the next block with fewer terms: starting with too few costs less than starting
        // with too many.
        *stage = if number == 0 { *stage / 2 } else { stage.saturating_sub(1) };
    }

    /// Scores the rows with the largest sums of a block, at most 2 `k` rows.
    fn score_first(
        &self,
        visit: &BlockVisit<'_, T>,
        largest: &LargeSums<'_, T>,
        rescorer: &mut Rescorer,
        seen: &mut Vec<u32>,
        best: &mut BestRows,
    ) {
        if !seen.is_empty() {
            return;
        }
        for_each_at_least(largest.sums, largest.threshold, |local| {
            if seen.len() < 2 * best.k {
                seen.push(visit.block.row_number(local));
            }
        });
        for &row in &*seen {
            best.push(rescorer.score(&self.training, row));
        }
    }
}

/// Iterates over the positions of the set bits.
fn set_bits(marks: &[u64]) -> impl Iterator<Item = usize> {
    marks.iter().enumerate().filter(|&(_, &mask)| mask != 0).flat_map(|(number, &mask)| {
        (0..64).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| 64 * number + bit)
    })
}
