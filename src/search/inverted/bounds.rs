//! Queries without their frequent terms, whose part of a similarity is bounded.
//!
//! Most postings of a query are those of its frequent terms, and these say the least. So the postings of the rare ones are added, and
//! the part of the frequent ones is at most the product of the query's length in these terms and the row's (Cauchy–Schwarz). A column
//! has the length of every row in the frequent terms, in fixed point and rounded up, for each of a few [`LEVEL_SHARES`] of rows that make
//! a term frequent. If the bounds leave too many rows of a block, the terms between one share and the next are added, too.
//!
//! With the notation of [`super`]: the sum of the added products is at least A s₁ − Σ r, and at most A s₁ + Σ (r + 1), for
//! their part s₁ of the similarity s. Weights are not negative, so s₁ ≤ s ≤ s₁ + |q₂| |x₂|. The first gives a threshold: k rows have
//! A s ≥ T − Σ (r + 1), if T is at most the k-th largest sum. These rows are scored by the formula, which gives a better one. Then all
//! rows whose bounds reach it are scored, those with the largest first, until no bound reaches the k-th best similarity found so far.
//! Exact similarities need no band of their own: only Σ r, and 0.1 for numbers rounded to `f32` and `f64`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::exact::{AHEAD, Exact, prefetch};
use super::fixed::Fixed;
use super::index::{Block, Index, LEVEL_SHARES};
use super::kernels::{Bounds, at_least, bound, group_maxima};
use super::{Engine, LEAST_GROUPS, MOST_GROUPS, State, Work, nth_largest};
use crate::search::{Neighbor, SearchError};

/// Scoring a row takes as long as adding so many postings.
const POSTINGS_PER_ROW: usize = 256;
/// So many rows of a column are added in the time of a posting.
const ROWS_PER_POSTING: usize = 16;
/// A stage without postings takes as long as so many.
const POSTINGS_PER_STAGE: usize = 2048;

/// Up to this stage, a block costs a query of a batch less than the head does.
const CHEAP_STAGES: usize = 2;
/// A query of a batch that needs a later stage in more than one of so many blocks is answered by the head.
const LATE: usize = 8;

/// Factors of terms that have postings only, and of the others.
type Halves<'a, T> = (&'a [(u32, T)], &'a [(u32, T)]);

/// The stages in which a query's terms are added, the rarest first.
#[derive(Debug)]
struct Plan<T> {
    /// The terms by stage, and what their weights are multiplied with.
    factors: Vec<(u32, T)>,
    /// So many have postings only, and no column of all rows' weights.
    rare: usize,
    /// The last one is that of all terms.
    stages: [Stage<T>; LEVEL_SHARES.len() + 1],
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
        factors.sort_unstable_by_key(|&(term, _)| (frequency(term), Reverse(term)));
        let rare = factors.partition_point(|&(term, _)| index.dense_column(term).is_none());
        let mut stages =
            [Stage { below: 0.1, above: 0.1, ..Stage::default() }; LEVEL_SHARES.len() + 1];
        let mut squares = [0.0; LEVEL_SHARES.len() + 1];
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
        (stages[0].terms > 0).then_some(Self { factors, rare, stages, scale: scaled.scale })
    }

    /// The terms that are added for a stage, beside those of the ones before `from`: those that have postings only, and the others.
    fn terms(&self, from: Option<usize>, to: usize) -> Halves<'_, T> {
        let start = from.map_or(0, |stage| self.stages[stage].terms);
        let end = self.stages[to].terms;
        let rare = self.rare.clamp(start, end);
        (&self.factors[start..rare], &self.factors[rare..end])
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

/// A query on its way through the blocks.
#[derive(Debug)]
struct Course<T> {
    /// Its place among the states.
    place: usize,
    plan: Plan<T>,
    best: Best,
    /// The stage to begin with: all but the first few blocks are like the one before.
    at: usize,
    /// In so many blocks it was not cheap.
    late: usize,
    /// Bounds do not help.
    is_lost: bool,
}

impl<T: Fixed> Engine<'_, T> {
    /// The neighbors of queries; `None` for those that bounds do not help, or less than being in a batch would.
    pub(super) fn by_bounds(
        &self,
        states: &[State<'_, T>],
        is_batch: bool,
        stride: usize,
        work: &mut Work<T>,
    ) -> Result<Vec<Option<Vec<Neighbor>>>, SearchError> {
        let (columns, blocks) = (self.training.cols(), &self.index.blocks);
        let mut courses = Vec::with_capacity(states.len());
        for (place, state) in states.iter().enumerate() {
            work.exact.set(state.query, columns);
            if let Some(plan) = Plan::new(self.index, state, &work.exact) {
                let wanted = state.wanted.min(self.training.rows());
                let rows = BinaryHeap::with_capacity(wanted + 1);
                let best = Best { rows, wanted, least: 0.0 };
                courses.push(Course { place, plan, best, at: 0, late: 0, is_lost: false });
            }
            work.exact.clear(state.query);
        }
        work.sums.resize(work.sums.len().max(stride), T::default());
        // The place and the stage whose postings are on their way into the cache.
        let mut coming = None;
        for (number, block) in blocks.iter().enumerate() {
            for this in 0..courses.len() {
                self.queries.stop.check()?;
                let Course { place, plan, at, .. } = &courses[this];
                if coming != Some((*place, *at)) {
                    block.lists(plan.terms(None, *at).0, &mut work.next);
                }
                std::mem::swap(&mut work.lists, &mut work.next);
                let then = match courses.get(this + 1) {
                    Some(course) => Some((block, course)),
                    None => blocks.get(number + 1).zip(courses.first()),
                };
                coming = then.map(|(block, Course { place, plan, at, .. })| {
                    block.lists(plan.terms(None, *at).0, &mut work.next);
                    (*place, *at)
                });
                let state = &states[*place];
                work.exact.set(state.query, columns);
                self.add_in_stages((state, block, number), &mut courses[this], work);
                work.exact.clear(state.query);
            }
            courses.retain(|course| {
                !(course.is_lost || is_batch && course.late > blocks.len() / LATE)
            });
        }
        let mut found: Vec<_> = states.iter().map(|_| None).collect();
        for course in courses {
            found[course.place] = Some(course.best.rows.into_sorted_vec());
        }
        Ok(found)
    }

    /// Collects the best rows of a block. The postings of the first stage are on their way.
    fn add_in_stages(
        &self,
        (state, block, number): (&State<'_, T>, &Block<T>, usize),
        Course { plan, best, at, late, is_lost, .. }: &mut Course<T>,
        work: &mut Work<T>,
    ) {
        let Work { sums, dense, lists, maxima, exact, candidates, seen, marks, .. } = work;
        let blocks = self.index.blocks.len();
        let sums = &mut sums[..block.rows];
        seen.clear();
        sums.fill(T::default());
        candidates.clear();
        let mut added = None;
        loop {
            let (rare, frequent) = plan.terms(added, *at);
            if added.is_some() {
                block.lists(rare, lists);
            }
            dense.clear();
            dense.extend(
                frequent
                    .iter()
                    .filter_map(|&(term, factor)| Some((self.index.dense_column(term)?, factor))),
            );
            block.add_dense(self.index.dense, dense, sums);
            block.add(lists, sums);
            added = Some(*at);
            self.queries.allow.clear_denied(state.number, block.first_row, sums);
            let reached = &plan.stages[*at];
            if !best.is_full() {
                let groups = best.wanted.saturating_mul(4).clamp(LEAST_GROUPS, MOST_GROUPS);
                maxima.resize(groups, T::default());
                group_maxima(sums, maxima);
                let threshold = nth_largest(maxima, best.wanted);
                best.least = best.least.max(threshold.value() - reached.above);
                if threshold >= T::ONE {
                    self.score_first((block, sums, threshold), exact, seen, best, plan.scale);
                }
            }
            let least = (best.least - reached.below).floor();
            let Some(lengths) = block.lengths(*at) else {
                if least < 1.0 {
                    // Any row may be in the result.
                    *is_lost = true;
                    return;
                }
                at_least(sums, T::nearest(least), |local| {
                    candidates.push((sums[local], row_number(block, local)));
                });
                break;
            };
            if least >= 1.0 {
                let factor = reached.length;
                let bounds = Bounds { sums, lengths, factor };
                let count = bounds.mark_at_least(T::nearest(least), marks);
                // If blocks are alike, so many of its rows are among the best so far: they have to be scored anyway.
                let more = count.saturating_sub(best.wanted / (number + 1));
                if more * POSTINGS_PER_ROW <= reached.next / blocks + POSTINGS_PER_STAGE {
                    candidates.extend(marked(marks).map(|local| {
                        let bound = bound(sums[local], lengths[local], factor);
                        (bound, row_number(block, local))
                    }));
                    break;
                }
            }
            *at += 1;
        }
        let reached = &plan.stages[*at];
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.iter().take(AHEAD).for_each(|&(_, row)| prefetch(&self.training, row));
        for (place, &(sum, row)) in candidates.iter().enumerate() {
            if sum.value() < (best.least - reached.below).floor() {
                break;
            }
            if let Some(&(_, later)) = candidates.get(place + AHEAD) {
                prefetch(&self.training, later);
            }
            if self.queries.allow.allows(state.number, row) && seen.binary_search(&row).is_err() {
                best.push(exact.score(&self.training, row), plan.scale);
            }
        }
        *late += usize::from(*at > CHEAP_STAGES);
        // To begin with too few terms costs less than with too many.
        *at = if number == 0 { *at / 2 } else { at.saturating_sub(1) };
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
        at_least(sums, threshold, |local| {
            if seen.len() < 2 * best.wanted {
                seen.push(row_number(block, local));
            }
        });
        for &row in &*seen {
            best.push(exact.score(&self.training, row), scale);
        }
    }
}

/// The places of the bits that are set.
fn marked(marks: &[u64]) -> impl Iterator<Item = usize> {
    marks.iter().enumerate().filter(|&(_, &mask)| mask != 0).flat_map(|(number, &mask)| {
        (0..64).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| 64 * number + bit)
    })
}

fn row_number<T>(block: &Block<T>, local: usize) -> u32 {
    block.first_row + u32::try_from(local).expect("a block has at most 65,536 rows")
}
