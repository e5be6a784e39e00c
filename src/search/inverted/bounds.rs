//! A few queries: without the frequent terms, whose part of a similarity is bounded.
//!
//! Most postings of a query are those of its frequent terms, and these say the least. So the postings of the rare ones are added, and
//! the part of the frequent ones is at most the product of the query's length in these terms and the row's (Cauchy–Schwarz). A column
//! has the length of every row in the frequent terms, in fixed point and rounded up, for each of a few [`SHARES`] of rows that make
//! a term frequent. If the bounds leave too many rows of a block, the terms between one share and the next are added, too.
//!
//! With the notation of [`super`]: the sum of the added products is at least A s₁ − Σ r, and at most A s₁ + Σ (r + 1), for
//! their part s₁ of the similarity s. Weights are not negative, so s₁ ≤ s ≤ s₁ + |q₂| |x₂|. The first gives a threshold: k rows have
//! A s ≥ T − Σ (r + 1), if T is at most the k-th largest sum. These rows are scored by the formula, which gives a better one. Then all
//! rows whose bounds reach it are scored, those with the largest first, until no bound reaches the k-th best similarity found so far.
//! Exact similarities need no band of their own: only Σ r, and 0.1 for numbers rounded to `f32` and `f64`.

use std::collections::BinaryHeap;

use super::exact::{AHEAD, Exact, prefetch};
use super::fixed::Fixed;
use super::index::{Block, Index};
use super::{Engine, LEAST_GROUPS, MOST_GROUPS, State, Work, nth_largest};
use crate::search::{Neighbor, SearchError};

/// A term may be frequent from these shares of the rows on.
pub(super) const SHARES: [f64; 5] = [0.02, 0.04, 0.08, 0.15, 0.3];
/// Scoring a row takes as long as adding so many postings.
const POSTINGS_PER_ROW: usize = 128;
/// So many rows of a column are added in the time of a posting.
const ROWS_PER_POSTING: usize = 16;
/// A stage without postings takes as long as so many.
const POSTINGS_PER_STAGE: usize = 2048;

/// The stages in which a query's terms are added, the rarest first.
#[derive(Debug)]
struct Plan<T> {
    /// The terms by stage, and what their weights are multiplied with.
    factors: Vec<(u32, T)>,
    /// The last one is that of all terms.
    stages: [Stage<T>; SHARES.len() + 1],
    /// What the similarity 1 becomes.
    scale: f64,
}

/// Some of a query's terms have been added.
#[derive(Debug, Clone, Copy, Default)]
struct Stage<T> {
    /// So many.
    terms: usize,
    /// The sum of their products may be too small by so much.
    below: f64,
    /// And too large.
    above: f64,
    /// What the rows' lengths in the other terms are multiplied with.
    length: T,
    /// What adding the next stage's terms to all rows takes, in postings.
    next: usize,
}

impl<T: Fixed> Plan<T> {
    /// `None` if no term is rare, or if the query does not fit.
    fn new(index: &Index<T>, state: &State<'_, T>, exact: &Exact) -> Option<Self> {
        let scaled = state.scaled.as_ref()?;
        if index.levels.is_empty() {
            return None;
        }
        let range = &index.range;
        let frequency = |term: u32| range.frequencies[term as usize];
        let stage_of = |term: u32| index.levels.partition_point(|&least| least <= frequency(term));
        let mut factors = scaled.factors.clone();
        factors.sort_unstable_by_key(|&(term, _)| (frequency(term), term));
        let mut stages = [Stage { below: 0.1, above: 0.1, ..Stage::default() }; SHARES.len() + 1];
        let mut squares = [0.0; SHARES.len() + 1];
        for &(term, factor) in &factors {
            let (first, weight) = (stage_of(term), f64::from(exact.weight(term)));
            let rounding = scaled.rounding(range, (term, factor), weight);
            for stage in &mut stages[first..] {
                stage.terms += 1;
                stage.below += rounding;
                stage.above += rounding + 1.0;
            }
            squares[..first].iter_mut().for_each(|sum| *sum += weight * weight);
            if let Some(before) = first.checked_sub(1) {
                stages[before].next += match index.dense_column(term) {
                    Some(_) => index.rows() / ROWS_PER_POSTING,
                    None => frequency(term) as usize,
                };
            }
        }
        for (stage, squares) in stages.iter_mut().zip(squares) {
            let length = scaled.scale * squares.sqrt() * range.length;
            let exact = (length * (65_536.0 / (T::MAX - 1.0)) * (1.0 + 1e-9)).ceil();
            if exact > T::MAX {
                return None;
            }
            stage.length = T::nearest(exact);
        }
        (stages[0].terms > 0).then_some(Self { factors, stages, scale: scaled.scale })
    }

    /// The terms that are added for a stage, beside those of the ones before `from`.
    fn terms(&self, from: Option<usize>, to: usize) -> &[(u32, T)] {
        let start = from.map_or(0, |stage| self.stages[stage].terms);
        &self.factors[start..self.stages[to].terms]
    }
}

/// The best rows so far.
#[derive(Debug)]
struct Best {
    rows: BinaryHeap<Neighbor>,
    wanted: usize,
    /// A times the least similarity that a row of the result may have, as far as known.
    least: f64,
}

impl Best {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.wanted
    }

    fn push(&mut self, near: Neighbor, scale: f64) {
        if near.similarity > 0.0 {
            self.rows.push(near);
            if self.rows.len() > self.wanted {
                self.rows.pop();
            }
        }
        if let Some(last) = self.rows.peek().filter(|_| self.is_full()) {
            self.least = self.least.max(f64::from(last.similarity) * scale);
        }
    }
}

impl<T: Fixed> Engine<'_, T> {
    /// The neighbors of a query; `None` if bounds do not help.
    pub(super) fn by_bounds(
        &self,
        state: &State<'_, T>,
        stride: usize,
        work: &mut Work<T>,
    ) -> Result<Option<Vec<Neighbor>>, SearchError> {
        let wanted = state.wanted.min(self.training.rows());
        work.exact.set(state.query, self.training.cols());
        let found = match Plan::new(self.index, state, &work.exact) {
            Some(plan) => {
                let rows = BinaryHeap::with_capacity(wanted + 1);
                let mut best = Best { rows, wanted, least: 0.0 };
                let found = self.add_in_stages((state, &plan), stride, work, &mut best);
                found.map(|found| found.then(|| best.rows.into_sorted_vec()))
            }
            None => Ok(None),
        };
        work.exact.clear(state.query);
        found
    }

    /// Collects the best rows; `false` if bounds do not help.
    fn add_in_stages(
        &self,
        (state, plan): (&State<'_, T>, &Plan<T>),
        stride: usize,
        work: &mut Work<T>,
        best: &mut Best,
    ) -> Result<bool, SearchError> {
        let Work { sums, rare, dense, lists, maxima, exact, candidates, seen, .. } = work;
        sums.resize(sums.len().max(stride), T::default());
        let blocks = self.index.blocks.len();
        // All but the first few blocks are like the one before.
        let mut at = 0;
        for block in &self.index.blocks {
            self.queries.stop.check()?;
            let sums = &mut sums[..block.rows];
            seen.clear();
            sums.fill(T::default());
            let mut added = None;
            let bound = loop {
                self.index.split(plan.terms(added, at), rare, dense);
                block.lists(rare, lists);
                block.add_dense(self.index.dense, dense, sums);
                block.add(lists, sums);
                added = Some(at);
                self.queries.allow.clear_denied(state.number, block.first_row, sums);
                let reached = &plan.stages[at];
                if !best.is_full() {
                    let groups = best.wanted.saturating_mul(4).clamp(LEAST_GROUPS, MOST_GROUPS);
                    maxima.resize(groups, T::default());
                    T::group_maxima(sums, maxima);
                    let threshold = nth_largest(maxima, best.wanted);
                    best.least = best.least.max(threshold.value() - reached.above);
                    if threshold >= T::ONE {
                        self.score_first((block, sums, threshold), exact, seen, best, plan.scale);
                    }
                }
                let bound = (best.least - reached.below).floor();
                let Some(lengths) = block.lengths(at) else {
                    if bound < 1.0 {
                        // Any row may be in the result.
                        return Ok(false);
                    }
                    break bound;
                };
                if bound >= 1.0 {
                    let count = T::count_bounds(sums, lengths, reached.length, T::nearest(bound));
                    // Those wanted have to be scored anyway.
                    let more = count.saturating_sub(best.wanted);
                    if more * POSTINGS_PER_ROW <= reached.next / blocks + POSTINGS_PER_STAGE {
                        T::add_bounds(sums, lengths, reached.length);
                        break bound;
                    }
                }
                at += 1;
            };
            let reached = &plan.stages[at];
            candidates.clear();
            T::at_least(sums, T::nearest(bound), |local| {
                candidates.push((sums[local], row_number(block, local)));
            });
            candidates.sort_unstable_by(|a, b| b.cmp(a));
            candidates.iter().take(AHEAD).for_each(|&(_, row)| prefetch(&self.training, row));
            for (place, &(sum, row)) in candidates.iter().enumerate() {
                if sum.value() < (best.least - reached.below).floor() {
                    break;
                }
                if let Some(&(_, later)) = candidates.get(place + AHEAD) {
                    prefetch(&self.training, later);
                }
                if self.queries.allow.allows(state.number, row) && seen.binary_search(&row).is_err()
                {
                    best.push(exact.score(&self.training, row), plan.scale);
                }
            }
            at = at.saturating_sub(1);
        }
        Ok(true)
    }

    /// Scores the rows of a block with the largest sums, about as many as are wanted.
    fn score_first(
        &self,
        (block, sums, threshold): (&Block<T>, &[T], T),
        exact: &mut Exact,
        seen: &mut Vec<u32>,
        best: &mut Best,
        scale: f64,
    ) {
        if !seen.is_empty() {
            return;
        }
        T::at_least(sums, threshold, |local| {
            if seen.len() < 2 * best.wanted {
                seen.push(row_number(block, local));
            }
        });
        for &row in &*seen {
            best.push(exact.score(&self.training, row), scale);
        }
    }
}

fn row_number<T>(block: &Block<T>, local: usize) -> u32 {
    block.first_row + u32::try_from(local).expect("a block has at most 65,536 rows")
}
