//! Prototypes of labels, learned from the documents outside each fold, and what they say about those in it.

use std::sync::Arc;

use super::grid_search::GridSearch;
use super::thresholds::FOLDS;
use super::{COARSE, Grid, LeaveOneOut, SLOTS, Trial, Tuned, VoteLearning, distinct, thinned};
use crate::decide::calibrate::line;
use crate::decide::vote::{
    HighestMargins, PrototypeLearning, Prototypes, Taught, TrainingLabels, Vote, link_prototypes,
};
use crate::rows::matrix::{Csr, row};
use crate::threads::Threads;

/// The rows of a fold: all as documents, and those of the fold as queries.
#[derive(Debug)]
pub struct FoldRows {
    /// The training rows.
    pub documents: Arc<Csr>,
    /// The rows as queries.
    pub queries: Arc<Csr>,
}

/// The scores of all labels for left-out documents, by prototypes that these did not teach.
#[derive(Debug)]
pub struct HeldOutPrototypes {
    /// The place of each training document; the largest number for others.
    places: Vec<u32>,
    /// The same of those left out again, with their near-duplicates among the teachers; empty if there are none.
    again: Vec<u32>,
    labels: usize,
    scores: Vec<f32>,
    highest: Vec<Option<HighestMargins>>,
    learning: PrototypeLearning,
    /// How many prototypes of all labels are learned side by side.
    at_once: usize,
}

/// If documents have one label each, each fold is judged in so many parts, each by prototypes that the other parts teach too: they
/// know nearly as much as those of the model. Not in the order of time, where what is nearby must not teach; nor for several labels,
/// where figures were not too low.
const PARTS: usize = 4;
/// Not with more pairs of a label and a document: it takes too long.
const MOST_PAIRS_IN_PARTS: usize = 1 << 20;
/// The same of documents that are left out again: so many parts, that most of their near-duplicates are in others.
const PARTS_AGAIN: usize = 8;
/// That is done if at least this share of the left-out documents has near-duplicates; fewer make no difference.
const SHARE_AGAIN: f64 = 0.1;
/// The costs that are tried on the first fold.
const COSTS: [f32; 3] = [0.25, 1.0, 4.0];
/// Prototypes are learned side by side as long as the rows that teach them have at most so many entries in total, which
/// take about half a GiB.
const ENTRIES: usize = 1 << 25;
/// The folds after the first.
const OTHER_FOLDS: [usize; FOLDS - 1] = [1, 2, 3, 4];
/// Prototypes are not tried with more pairs of a label and a term, or of a label and a document.
const MOST_WEIGHTS: usize = 1 << 28;
/// The numbers that margins are multiplied by before the softmax.
const SCALES: [f32; 12] = [0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0];
/// The shares of prototypes in the scores that are tried.
const SHARES: [f64; 7] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9];
/// Of several labels, at most so many pairs of a document and a label tell what margins mean.
const MOST_PAIRS: usize = 1 << 21;

impl HeldOutPrototypes {
    /// Learns prototypes without each fold; `rows_of` returns its rows, which have the same terms in all folds. `None` if
    /// there are too many labels.
    ///
    /// # Errors
    /// Those of `rows_of`.
    ///
    /// # Panics
    /// Never: there are costs to try.
    pub fn learn<E: Send>(
        left_out: &LeaveOneOut,
        among: &TrainingLabels<'_>,
        (several, in_time_order): (bool, bool),
        rows_of: impl Fn(usize) -> Result<FoldRows, E> + Sync,
        threads: &Threads,
    ) -> Result<Option<Self>, E> {
        let labels = among.sizes.len();
        let pairs = labels.saturating_mul(among.weights.len());
        let whole = several || in_time_order || pairs > MOST_PAIRS_IN_PARTS;
        let parts = if whole { 1 } else { PARTS };
        let part_of = left_out.parts_of_folds(among, parts);
        let mut places = vec![u32::MAX; part_of.len()];
        for (place, &row) in (0u32..).zip(left_out.rows()) {
            places[row as usize] = place;
        }
        let most = labels.saturating_mul(left_out.len().max(1));
        if labels < 2 || most > MOST_WEIGHTS {
            return Ok(None);
        }
        let link = [1.0, if several { 0.0 } else { f32::NAN }];
        let mut learned = Self {
            places,
            again: Vec::new(),
            labels,
            scores: vec![0.0; labels * left_out.len()],
            highest: Vec::new(),
            learning: PrototypeLearning { cost: COSTS[0], link },
            at_once: 1,
        };
        // By part.
        let of_parts = |fold: usize| -> Vec<Vec<u32>> {
            let of_part = |part: usize| {
                let is_in = |row: u32| usize::from(part_of[row as usize]) == fold + part * FOLDS;
                left_out.rows().iter().copied().filter(|&row| is_in(row)).collect()
            };
            (0..parts).map(of_part).collect()
        };
        // The first fold tells the cost.
        let rows = rows_of(0)?;
        if labels.saturating_mul(rows.documents.cols()) > MOST_WEIGHTS {
            return Ok(None);
        }
        let of_fold = of_parts(0);
        let of_cost = |&cost: &f32| {
            let learning = PrototypeLearning { cost, link };
            let by = (0, &*of_fold, &*part_of);
            let judged = Judged::by_other_folds(&rows, among, by, learning, threads);
            let (_, loss) = linked(&judged.margins, &of_fold.concat(), among, several);
            (loss, judged)
        };
        learned.at_once = ENTRIES / rows.documents.nnz().max(1);
        let of_costs = threads.map_few(&COSTS, learned.at_once, of_cost);
        let best = of_costs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let mut judged = best.expect("there are costs").1;
        judged.by_other_parts(&rows, among, (0, &*of_fold, &*part_of), threads);
        drop(rows);
        learned.learning.cost = judged.learning.cost;
        learned.set(&of_fold.concat(), &judged.margins);
        let learning = judged.learning;
        let judge = |&fold: &usize| {
            let (rows, of_fold) = (rows_of(fold)?, of_parts(fold));
            let by = (fold, &*of_fold, &*part_of);
            let mut judged = Judged::by_other_folds(&rows, among, by, learning, threads);
            judged.by_other_parts(&rows, among, by, threads);
            Ok((of_fold.concat(), judged.margins))
        };
        for judged in threads.map_few(&OTHER_FOLDS, learned.at_once / parts, judge) {
            let (rows, margins) = judged?;
            learned.set(&rows, &margins);
        }
        learned.learning.link = linked(&learned.scores, left_out.rows(), among, several).0;
        let link = learned.learning.link;
        let link = if several { &link[..] } else { &link[..1] };
        let highest = |margins: &[f32]| HighestMargins::among(margins.to_vec(), link);
        learned.highest = learned.scores.chunks(labels).map(highest).collect();
        learned.scores.chunks_mut(labels).for_each(|margins| link_prototypes(margins, link));
        // Scores would fall where margins rise: there is nothing to learn from.
        Ok((link[0] > 0.0).then_some(learned))
    }

    /// Writes the margins of some left-out documents.
    fn set(&mut self, rows: &[u32], margins: &[f32]) {
        for (&row, margins) in rows.iter().zip(margins.chunks(self.labels)) {
            let start = self.places[row as usize] as usize * self.labels;
            self.scores[start..start + self.labels].copy_from_slice(margins);
        }
    }

    /// What prototypes say of documents that are left out again, with their near-duplicates: most of these teach now, as
    /// near-duplicates of new documents do. Nothing changes in the order of time, with too many pairs of a label and a
    /// document, or where few documents have near-duplicates. `left_out` are the documents from which these
    /// prototypes were learned, and `rows_of` returns the rows of one of their folds.
    ///
    /// # Errors
    /// Those of `rows_of`.
    pub fn learn_again<E: Send>(
        &mut self,
        (left_out, again): (&LeaveOneOut, &LeaveOneOut),
        among: &TrainingLabels<'_>,
        (several, in_time_order): (bool, bool),
        rows_of: impl Fn(usize) -> Result<FoldRows, E> + Sync,
        threads: &Threads,
    ) -> Result<(), E> {
        let pairs = self.labels.saturating_mul(among.weights.len());
        let few = (again.len() as f64) < SHARE_AGAIN * left_out.len() as f64;
        if in_time_order || few || pairs > MOST_PAIRS_IN_PARTS {
            return Ok(());
        }
        let part_of = again.parts_within(&left_out.folds(among), PARTS_AGAIN);
        let mut places = vec![u32::MAX; part_of.len()];
        let link = if several { &self.learning.link[..] } else { &self.learning.link[..1] };
        let judge = |&fold: &usize| {
            let rows = rows_of(fold)?;
            let of_part = |part: usize| -> Vec<u32> {
                let is_in = |row: u32| usize::from(part_of[row as usize]) == fold + part * FOLDS;
                again.rows().iter().copied().filter(|&row| is_in(row)).collect()
            };
            let of_parts: Vec<Vec<u32>> = (0..PARTS_AGAIN).map(of_part).collect();
            let by = (fold, &*of_parts, &*part_of);
            let mut judged = Judged::by_other_folds(&rows, among, by, self.learning, threads);
            judged.by_other_parts(&rows, among, by, threads);
            let mut scores = judged.margins;
            scores.chunks_mut(self.labels).for_each(|margins| link_prototypes(margins, link));
            Ok((of_parts.concat(), scores))
        };
        let all: [usize; FOLDS] = std::array::from_fn(|fold| fold);
        let mut new_scores = Vec::new();
        for judged in threads.map_few(&all, self.at_once / PARTS_AGAIN, judge) {
            let (rows, scores) = judged?;
            let first = (self.scores.len() + new_scores.len()) / self.labels;
            for (place, row) in (first..).zip(rows) {
                places[row as usize] = u32::try_from(place).unwrap_or(u32::MAX);
            }
            new_scores.extend(scores);
        }
        self.scores.extend(new_scores);
        self.again = places;
        Ok(())
    }

    /// The score of a label for a left-out document, for the first time or again; `None` if it had no prototype.
    pub(super) fn of(&self, (row, again): (u32, bool), label: u32) -> Option<f32> {
        let again = self.again.get(row as usize).copied().filter(|&at| again && at < u32::MAX);
        let place = again.unwrap_or(self.places[row as usize]) as usize;
        let score = self.scores.get(place * self.labels + label as usize).copied();
        score.filter(|score| score.is_finite())
    }

    /// The highest margins of a left-out document.
    pub(crate) fn highest(&self, row: u32) -> Option<HighestMargins> {
        self.highest.get(self.places[row as usize] as usize).copied().flatten()
    }

    /// How to learn from all documents.
    pub(crate) fn learning(&self) -> PrototypeLearning {
        self.learning
    }
}

/// The margins of the rows of a fold, part by part.
struct Judged {
    margins: Vec<f32>,
    learning: PrototypeLearning,
    /// How much the documents of other folds taught.
    taught: Option<Taught>,
}

/// A fold, the documents of its parts that are judged, and of each document the number of its fold plus [`FOLDS`] times that of its
/// part.
type Parts<'a> = (usize, &'a [Vec<u32>], &'a [u8]);

impl Judged {
    /// By prototypes that the documents of other folds teach.
    fn by_other_folds(
        rows: &FoldRows,
        among: &TrainingLabels<'_>,
        (fold, parts, part_of): Parts<'_>,
        learning: PrototypeLearning,
        threads: &Threads,
    ) -> Self {
        let (documents, queries) = (rows.documents.view(), rows.queries.view());
        let takes = |row: u32| usize::from(part_of[row as usize]) % FOLDS != fold;
        let (prototypes, taught) = if parts.len() > 1 {
            let (prototypes, taught) =
                Prototypes::learn_and_keep(&documents, among, takes, learning, threads);
            (prototypes, Some(taught))
        } else {
            (Prototypes::learn(&documents, among, takes, learning, threads), None)
        };
        let margins = |&at: &u32| prototypes.margins(row(&queries, at as usize));
        Self { margins: parts.iter().flatten().flat_map(margins).collect(), learning, taught }
    }

    /// By prototypes that the documents of other parts of the fold teach, too, if there are any.
    fn by_other_parts(
        &mut self,
        rows: &FoldRows,
        among: &TrainingLabels<'_>,
        (fold, parts, part_of): Parts<'_>,
        threads: &Threads,
    ) {
        let Some(taught) = &self.taught else { return };
        let (documents, queries) = (rows.documents.view(), rows.queries.view());
        let of_part = |&(part, rows): &(usize, &Vec<u32>)| {
            if rows.is_empty() {
                return Vec::new();
            }
            let takes = |row: u32| usize::from(part_of[row as usize]) != fold + part * FOLDS;
            let prototypes =
                Prototypes::learn_from(taught, &documents, among, takes, self.learning, threads);
            let margins = |&at: &u32| prototypes.margins(row(&queries, at as usize));
            rows.iter().flat_map(margins).collect()
        };
        let parts: Vec<(usize, &Vec<u32>)> = parts.iter().enumerate().collect();
        let at_once = ENTRIES / rows.documents.nnz().max(1);
        self.margins = threads.map_few(&parts, at_once, of_part).concat();
    }
}

/// What makes scores of the margins of documents with the least logarithmic loss, and this.
#[expect(clippy::cast_possible_truncation, reason = "parameters need no more")]
fn linked(
    margins: &[f32],
    rows: &[u32],
    among: &TrainingLabels<'_>,
    several: bool,
) -> ([f32; 2], f64) {
    let labels = among.sizes.len();
    let each = || rows.iter().zip(margins.chunks(labels));
    if several {
        let every = margins.len().div_ceil(MOST_PAIRS).max(1);
        let mut pairs: Vec<(f64, bool)> = Vec::new();
        for (&row, margins) in each().step_by(every) {
            let gold = among.labels(row);
            let pair =
                |(label, &margin): (u32, &f32)| (margin.into(), gold.binary_search(&label).is_ok());
            let known = (0u32..).zip(margins).filter(|(_, margin)| margin.is_finite());
            pairs.extend(known.map(pair));
        }
        let ([constant, slope], loss) = line(&pairs);
        return ([slope as f32, constant as f32], loss);
    }
    let loss = |scale: f32| {
        let mut sum = 0.0;
        let mut scores = Vec::with_capacity(labels);
        for (&row, margins) in each().filter(|&(&row, _)| !among.labels(row).is_empty()) {
            scores.clear();
            scores.extend_from_slice(margins);
            link_prototypes(&mut scores, &[scale]);
            let right =
                |&label: &u32| Some(scores[label as usize]).filter(|score| score.is_finite());
            let right: f32 = among.labels(row).iter().filter_map(right).sum();
            sum -= f64::from(libm::logf(right.max(1e-6)));
        }
        sum
    };
    let losses = SCALES.map(|scale| (loss(scale), scale));
    let best = losses.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are scales");
    ([best.1, f32::NAN], best.0)
}

/// Trials with prototypes, each with how the votes beside them are learned; best first. They have shares in the scores
/// of the best trial, of the best without learned votes, without factors of labels, and with many neighbors; and the
/// best of these is tried with other numbers of neighbors.
pub fn try_prototypes(
    found: &LeaveOneOut,
    among: TrainingLabels<'_>,
    (grid, tuned, learning): (&Grid, &Tuned, Option<VoteLearning>),
    prototypes: &HeldOutPrototypes,
    threads: &Threads,
) -> Vec<(Trial, Option<VoteLearning>)> {
    let value = |trial: &Trial| grid.objective.of(trial.figures);
    let best_of = |fits: &dyn Fn(&Trial) -> bool| {
        let plain = tuned.trials.iter().filter(|trial| !trial.vote.learned && fits(trial));
        plain.max_by(|a, b| value(a).total_cmp(&value(b)).then(b.k.cmp(&a.k))).copied()
    };
    let mut starts = vec![(tuned.best, learning)];
    let fits: [&dyn Fn(&Trial) -> bool; 3] =
        [&|_| true, &|trial| trial.vote.compensation <= 0.0, &|trial| {
            trial.vote.compensation <= 0.0 && trial.k >= MANY
        }];
    for fits in fits {
        let new = best_of(fits)
            .filter(|new| !starts.iter().any(|(old, _)| old.vote == new.vote && old.k == new.k));
        starts.extend(new.map(|trial| (trial, None)));
    }
    let grid_search = GridSearch::new(found, among, threads);
    let at_once = SLOTS / grid_search.slots().max(1);
    let try_out = |starts: &[(Trial, Option<VoteLearning>)], shares: &[f64]| {
        let scores = threads.map_few(starts, at_once, |(start, learning)| {
            let scores = grid_search.held_out(start, *learning, threads);
            (scores, grid_search.factors(start.vote))
        });
        let with_share = |start| shares.iter().map(move |&share| (start, share));
        let tasks: Vec<_> = starts.iter().zip(&scores).flat_map(with_share).collect();
        threads.map_few(&tasks, at_once, |&((&(start, learning), (scores, factors)), share)| {
            let vote = Vote { prototypes: share, ..start.vote };
            let mut scores = scores.clone();
            grid_search.join(prototypes, (share, factors), &mut scores);
            (grid_search.best(vote, start.k, &scores, grid), learning)
        })
    };
    let mut trials = try_out(&starts, &SHARES);
    let best = trials.iter().copied().max_by(|(a, _), (b, _)| value(a).total_cmp(&value(b)));
    // What votes are worth was learned for its number of neighbors.
    if let Some((best, None)) = best {
        let vote = Vote { prototypes: 0.0, ..best.vote };
        let longest = (0..found.len()).map(|index| found.get(index).1.len()).max().unwrap_or(0);
        let ks = thinned(distinct(&grid.ks, longest), COARSE);
        let others = ks.into_iter().filter(|&k| k != best.k);
        let starts: Vec<_> = others.map(|k| (Trial { k, vote, ..best }, None)).collect();
        trials.extend(try_out(&starts, &[best.vote.prototypes]));
    }
    trials.sort_by(|(a, _), (b, _)| value(b).total_cmp(&value(a)));
    trials
}

/// So many neighbors are many: they propose more labels.
const MANY: usize = 50;

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::learn::tune::{Exclusion, NearDuplicates};
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;
    use crate::search::Exhaustive;

    /// Labels are random, but near-duplicates have the same: only they tell it.
    #[test]
    fn near_duplicates_teach_those_left_out_again() {
        const PAIRS: u32 = 150;
        let mut random = Random::new(5);
        let mut rows = CsrBuilder::default();
        let mut labels: Vec<u32> = Vec::new();
        for pair in 0..PAIRS {
            let mut terms: Vec<u32> =
                (0..8).map(|_| 2 + u32::try_from(random.below(3_000)).unwrap()).collect();
            terms.sort_unstable();
            terms.dedup();
            for copy in 0..2 {
                let weight = 1.0 / (1.0 + terms.len() as f32).sqrt();
                rows.push_row([copy].iter().chain(&terms).map(|&term| (term, weight)));
                labels.push(u32::try_from(random.below(1 << 20)).unwrap() % 2);
                labels[(2 * pair + copy) as usize] = labels[2 * pair as usize];
            }
        }
        let rows = Arc::new(rows.build(3_002));
        let count = 2 * PAIRS;
        let indptr: Vec<u64> = (0..=u64::from(count)).collect();
        let weights = vec![1.0; count as usize];
        let sizes = [0, 1].map(|label| labels.iter().filter(|&&of| of == label).count());
        let sizes = sizes.map(|size| u32::try_from(size).unwrap());
        let among =
            TrainingLabels { indptr: &indptr, indices: &labels, weights: &weights, sizes: &sizes };
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        let engine = Exhaustive::new(Arc::clone(&rows), threads.clone()).unwrap();
        let all: Vec<u32> = (0..count).collect();
        let near = NearDuplicates::search(&engine, rows.view(), &all, 0.5).unwrap();
        let search = |of: &[u32], near| {
            let exclusion = Exclusion { near, ..Exclusion::default() };
            let k = NonZeroUsize::new(5).unwrap();
            LeaveOneOut::search(&engine, rows.view(), of, k, exclusion, &|_| ()).unwrap()
        };
        let first = search(&all, Some(&near));
        let rows_of = |_| {
            let (documents, queries) = (Arc::clone(&rows), Arc::clone(&rows));
            Ok::<_, ()>(FoldRows { documents, queries })
        };
        let kind = (false, false);
        let right = |prototypes: &HeldOutPrototypes, again: bool| {
            let is_right = |&&row: &&u32| {
                let [own, other] = [0, 1].map(|flip| labels[row as usize] ^ flip);
                prototypes.of((row, again), own) > prototypes.of((row, again), other)
            };
            all.iter().filter(is_right).count() as f64 / f64::from(count)
        };
        for (most, told) in [(count, true), (count / 20, false)] {
            let learned = HeldOutPrototypes::learn(&first, &among, kind, rows_of, &threads);
            let mut prototypes = learned.unwrap().unwrap();
            let again = search(&all[..most as usize], None);
            prototypes.learn_again((&first, &again), &among, kind, rows_of, &threads).unwrap();
            let (one, other) = (right(&prototypes, false), right(&prototypes, true));
            assert!(one < 0.65, "{one}");
            // An eighth has its near-duplicate in its own part.
            assert!(if told { other > 0.8 } else { other.to_bits() == one.to_bits() }, "{other}");
        }
        let mut prototypes =
            HeldOutPrototypes::learn(&first, &among, kind, rows_of, &threads).unwrap().unwrap();
        let again = search(&all, None);
        prototypes.learn_again((&first, &again), &among, (false, true), rows_of, &threads).unwrap();
        assert!(prototypes.again.is_empty(), "what is nearby in time does not teach");
    }
}
