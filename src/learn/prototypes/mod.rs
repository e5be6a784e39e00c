//! Learns label prototypes: one weight vector per label, as in a linear classifier.
//!
//! * Input: the unit rows of the documents outside each fold.
//! * Evaluation: the margins of the documents in the fold.
//! * Output: the parameters for learning prototypes from all documents ([`PrototypeLearning`]), and
//!   the share of prototypes in the scores.

use std::sync::Arc;

use super::held_out::{FOLDS, LeaveOneOut};
use super::votes::{
    Grid, GridResult, ROUND_ONE_KS, RuleSearch, Trial, VoteLearning, VoteTable, distinct,
    held_out_scores, thin_out,
};
use crate::decide::calibrate::line;
use crate::decide::vote::{
    PrototypeLearning, PrototypeTrainer, TrainingLabels, Vote, WarmStart, highest_margin,
    margins_to_scores, mix_scores,
};
use crate::rows::dense::VectorsView;
use crate::rows::matrix::{Csr, row};
use crate::threads::Threads;

/// The rows of a fold: all rows as documents, and the rows of the fold as queries.
#[derive(Debug)]
pub(super) struct FoldRows {
    /// The training rows.
    pub(super) documents: Arc<Csr>,
    /// The rows as queries.
    pub(super) queries: Arc<Csr>,
}

/// How precisely held-out documents are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// Single-label folds are split into parts.
    Full,
    /// Folds are not split, which is enough for comparing features.
    Quick,
}

/// The properties of a corpus that determine how prototypes are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CorpusKind {
    /// Whether documents can have several labels.
    pub(super) multi_label: bool,
    /// Whether documents are in chronological order.
    pub(super) is_chronological: bool,
}

/// The scores of all labels for held-out documents, from prototypes that were learned without them.
#[derive(Debug)]
pub(super) struct HeldOutPrototypes {
    /// The position in `folds` of the scores of each training document.
    position_of: Vec<Position>,
    /// The same positions for the documents that are held out again, when their near-duplicates are
    /// training documents. Empty if there are none.
    position_again: Vec<Position>,
    labels: usize,
    /// The scores of the documents of each fold, then those of the documents that are held out
    /// again. Each fold remains as it was computed: joining them would need twice the memory.
    folds: Vec<FoldScores>,
    learning: PrototypeLearning,
    /// Maximum number of prototype trainings that may run concurrently.
    concurrent: usize,
}

/// The scores of the documents of a fold.
#[derive(Debug)]
struct FoldScores {
    /// The margins of one document after the other, which are converted to scores.
    scores: Vec<f32>,
    /// The highest margin of each document.
    highest: Vec<Option<f32>>,
}

/// The position of a document's scores: the number of the fold, and of the document in it.
#[derive(Debug, Clone, Copy)]
struct Position {
    fold: u32,
    document: u32,
}

/// The position of a document without scores.
const NOWHERE: Position = Position { fold: u32::MAX, document: u32::MAX };

/// Single-label folds are split into this many parts. Each part is evaluated with prototypes
/// trained on the other folds and the other parts, which is almost as much data as the final model
/// uses. This is not done for chronological corpora, where nearby documents must be excluded, or
/// for multi-label corpora, where the estimates were not too low.
const PARTS: usize = 4;
/// Maximum number of label-document pairs for splitting folds; more would take too long.
const MAX_PAIRS_IN_PARTS: usize = 1 << 20;
/// Number of parts for documents that are held out again. It is large enough for most of their
/// near-duplicates to be in other parts.
const PARTS_AGAIN: usize = 8;
/// Minimum share of documents with near-duplicates for holding documents out again; a smaller share
/// makes hardly any difference. Of the first names of benches/unseen.py, 7 % occur with both
/// labels. When they were held out only once, the expected accuracy was .02 too high.
const MIN_SHARE_AGAIN: f64 = 0.02;
/// The regularization costs that are tried on the first fold.
const COSTS: [f32; 3] = [0.25, 1.0, 4.0];
/// Maximum number of entries in all rows from which prototypes are learned concurrently; they take
/// about 0.5 GiB.
const MAX_ENTRIES: usize = 1 << 25;
/// Maximum number of label-document pairs of prototypes that are learned concurrently; their dual
/// variables take 32 MiB.
const MAX_CONCURRENT_PAIRS: usize = 1 << 23;
/// The folds after the first.
const OTHER_FOLDS: [usize; FOLDS - 1] = [1, 2, 3, 4];
/// Maximum number of label-term pairs, and of label-document pairs, for learning prototypes.
const MAX_WEIGHTS: usize = 1 << 28;
/// The factors that are tried for scaling margins before the softmax.
const SCALES: [f32; 12] = [0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0];
/// The shares of prototypes in the scores that are tried.
const SHARES: [f64; 7] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9];
/// Approximate maximum number of document-label pairs from which the multi-label link function is
/// learned. A pair takes 56 bytes.
const MAX_PAIRS: usize = 1 << 21;
/// Minimum k of the additional trial with many neighbors, which propose more labels.
const MANY_NEIGHBORS: usize = 50;

/// The assignment of documents to parts of folds. Part p of fold f has the number f + p ·
/// [`FOLDS`].
struct FoldParts<'a> {
    part_of: &'a [u8],
    parts: usize,
}

impl<'a> FoldParts<'a> {
    /// Returns the parts of a fold, with the elements of `rows` that belong to each part.
    fn of_fold(&self, fold: usize, rows: &[u32]) -> ScoredFold<'a> {
        let of_part = |part: usize| {
            let is_in = |row: u32| usize::from(self.part_of[row as usize]) == fold + part * FOLDS;
            rows.iter().copied().filter(|&row| is_in(row)).collect()
        };
        ScoredFold { fold, rows: (0..self.parts).map(of_part).collect(), part_of: self.part_of }
    }
}

/// A fold whose documents are scored, with its parts.
struct ScoredFold<'a> {
    fold: usize,
    /// The rows to score, by part.
    rows: Vec<Vec<u32>>,
    /// The part of each training document, as in [`FoldParts`].
    part_of: &'a [u8],
}

impl ScoredFold<'_> {
    /// Returns the rows in the order of the margins.
    fn all_rows(&self) -> Vec<u32> {
        self.rows.concat()
    }
}

/// Learns prototypes without the documents of each fold.
pub(super) struct PrototypeLearner<'a> {
    pub(super) labels: &'a TrainingLabels<'a>,
    pub(super) kind: CorpusKind,
    pub(super) precision: Precision,
    /// The factors of dense vectors to try, the preferred one first; 0 if there are no vectors.
    pub(super) vector_scales: &'a [f32],
    pub(super) threads: &'a Threads,
}

impl FoldRows {
    /// Returns the rows of a fold whose queries equal its documents.
    pub(super) fn of(rows: &Arc<Csr>) -> Self {
        Self { documents: Arc::clone(rows), queries: Arc::clone(rows) }
    }

    /// Appends dense vectors, multiplied by `scale`, to the rows. `is_query` returns whether a row
    /// is a query.
    pub(super) fn with_vectors(
        &self,
        vectors: &VectorsView<'_>,
        scale: f32,
        is_query: &dyn Fn(u32) -> bool,
    ) -> Self {
        let documents = Arc::new(vectors.append_to(&self.documents.view(), scale, &|_| true));
        if Arc::ptr_eq(&self.documents, &self.queries) {
            return Self::of(&documents);
        }
        let queries = vectors.append_to(&self.queries.view(), scale, is_query).into();
        Self { documents, queries }
    }
}

impl PrototypeLearner<'_> {
    /// Learns prototypes without the documents of each fold. `rows_of` returns the rows of a fold,
    /// with dense vectors multiplied by a factor; all folds have the same columns. `None` if there
    /// are too many labels.
    ///
    /// # Errors
    /// Returns the errors of `rows_of`.
    pub(super) fn learn<E: Send>(
        &self,
        held_out: &LeaveOneOut,
        rows_of: impl Fn(usize, f32) -> Result<FoldRows, E> + Sync,
    ) -> Result<Option<HeldOutPrototypes>, E> {
        let Self { labels: among, kind, precision, vector_scales, threads } = *self;
        let multi_label = kind.multi_label;
        let labels = among.sizes.len();
        let pairs = labels.saturating_mul(among.weights.len());
        let whole = precision == Precision::Quick
            || multi_label
            || kind.is_chronological
            || pairs > MAX_PAIRS_IN_PARTS;
        let parts = if whole { 1 } else { PARTS };
        let part_of = held_out.parts_of_folds(among, parts);
        let folds = FoldParts { part_of: &part_of, parts };
        let scores = labels.saturating_mul(held_out.len().max(1));
        if labels < 2 || scores > MAX_WEIGHTS {
            return Ok(None);
        }
        let link = [1.0, if multi_label { 0.0 } else { f32::NAN }];
        // The cost and the factor of vectors are chosen on the first fold.
        let [vector_scale, other_scales @ ..] = vector_scales else { return Ok(None) };
        let mut rows = rows_of(0, *vector_scale)?;
        if labels.saturating_mul(rows.documents.cols()) > MAX_WEIGHTS {
            return Ok(None);
        }
        let concurrent = self.max_concurrent(&rows);
        let first = folds.of_fold(0, held_out.rows());
        let evaluate = |rows: &FoldRows, cost: f32, vector_scale: f32| {
            let learning = PrototypeLearning { cost, link, vector_scale };
            let margins = self.by_other_folds(rows, &first, learning);
            let rows = first.all_rows();
            let of_rows = || rows.iter().copied().zip(margins.margins.chunks(labels));
            let (_, loss) = learn_link(of_rows, among, multi_label);
            (loss, margins)
        };
        let of_cost = |&cost: &f32| evaluate(&rows, cost, *vector_scale);
        let of_costs = threads.map_few(&COSTS, concurrent, of_cost);
        let best = of_costs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let (mut min_loss, mut margins) = best.expect("there are costs");
        let mut scale_of_rows = *vector_scale;
        for &vector_scale in other_scales {
            // Two sets of rows would need much memory.
            drop(rows);
            rows = rows_of(0, vector_scale)?;
            scale_of_rows = vector_scale;
            let (loss, found) = evaluate(&rows, margins.learning.cost, vector_scale);
            if loss < min_loss {
                (min_loss, margins) = (loss, found);
            }
        }
        if scale_of_rows.to_bits() != margins.learning.vector_scale.to_bits() {
            drop(rows);
            rows = rows_of(0, margins.learning.vector_scale)?;
        }
        self.by_other_parts(&mut margins, &rows, &first);
        drop(rows);
        let learning = margins.learning;
        let mut learned = HeldOutPrototypes {
            position_of: vec![NOWHERE; part_of.len()],
            position_again: Vec::new(),
            labels,
            folds: Vec::new(),
            learning,
            concurrent,
        };
        learned.push(&first.all_rows(), margins.margins);
        let score = |&fold: &usize| {
            let of_fold = folds.of_fold(fold, held_out.rows());
            if of_fold.all_rows().is_empty() {
                return Ok((Vec::new(), Vec::new()));
            }
            let rows = rows_of(fold, learning.vector_scale)?;
            let mut margins = self.by_other_folds(&rows, &of_fold, learning);
            self.by_other_parts(&mut margins, &rows, &of_fold);
            Ok((of_fold.all_rows(), margins.margins))
        };
        for scored in threads.map_few(&OTHER_FOLDS, concurrent / parts, score) {
            let (rows, margins) = scored?;
            learned.push(&rows, margins);
        }
        let of_rows = || held_out.rows().iter().map(|&row| (row, learned.margins(row)));
        let (link, _) = learn_link(of_rows, among, multi_label);
        learned.learning.link = link;
        let link = if multi_label { &link[..] } else { &link[..1] };
        for FoldScores { scores, highest } in &mut learned.folds {
            *highest = scores.chunks(labels).map(highest_margin).collect();
            scores.chunks_mut(labels).for_each(|margins| margins_to_scores(margins, link));
        }
        // With a negative slope, scores would decrease as margins increase, so there is nothing to
        // learn.
        Ok((link[0] > 0.0).then_some(learned))
    }

    /// Scores the documents of `again`, which are held out a second time. This time, prototypes are
    /// also learned from most of their near-duplicates, as they would be if new documents had
    /// near-duplicates.
    ///
    /// Does nothing for a chronological corpus, for too many label-document pairs, or if few
    /// documents have near-duplicates. `held_out` are the documents from which the prototypes were
    /// learned, and `rows_of` returns the rows of one of their folds.
    ///
    /// # Errors
    /// Returns the errors of `rows_of`.
    pub(super) fn learn_again<E: Send>(
        &self,
        prototypes: &mut HeldOutPrototypes,
        held_out: &LeaveOneOut,
        again: &LeaveOneOut,
        rows_of: impl Fn(usize, f32) -> Result<FoldRows, E> + Sync,
    ) -> Result<(), E> {
        let labels = prototypes.labels;
        let learning = prototypes.learning;
        let pairs = labels.saturating_mul(self.labels.weights.len());
        let are_few = (again.len() as f64) < MIN_SHARE_AGAIN * held_out.len() as f64;
        if self.kind.is_chronological || are_few || pairs > MAX_PAIRS_IN_PARTS {
            return Ok(());
        }
        let part_of = again.parts_within(&held_out.folds(self.labels), PARTS_AGAIN);
        let folds = FoldParts { part_of: &part_of, parts: PARTS_AGAIN };
        let mut position_again = vec![NOWHERE; part_of.len()];
        let link = if self.kind.multi_label { &learning.link[..] } else { &learning.link[..1] };
        let score = |&fold: &usize| {
            let rows = rows_of(fold, learning.vector_scale)?;
            let of_fold = folds.of_fold(fold, again.rows());
            let mut margins = self.by_other_folds(&rows, &of_fold, learning);
            self.by_other_parts(&mut margins, &rows, &of_fold);
            let mut scores = margins.margins;
            scores.chunks_mut(labels).for_each(|margins| margins_to_scores(margins, link));
            Ok((of_fold.all_rows(), scores))
        };
        let all: [usize; FOLDS] = std::array::from_fn(|fold| fold);
        for scored in self.threads.map_few(&all, prototypes.concurrent / PARTS_AGAIN, score) {
            let (rows, scores) = scored?;
            note_positions(&mut position_again, prototypes.folds.len(), &rows);
            prototypes.folds.push(FoldScores { scores, highest: Vec::new() });
        }
        prototypes.position_again = position_again;
        Ok(())
    }

    /// Returns the margins of a fold's documents under prototypes that are learned from the other
    /// folds.
    fn by_other_folds(
        &self,
        rows: &FoldRows,
        of_fold: &ScoredFold<'_>,
        learning: PrototypeLearning,
    ) -> FoldMargins {
        let Self { labels, threads, .. } = *self;
        let documents = rows.documents.view();
        let queries = rows.queries.view();
        let trainer = PrototypeTrainer { rows: &documents, labels, learning, threads };
        let takes = |row: u32| usize::from(of_fold.part_of[row as usize]) % FOLDS != of_fold.fold;
        if of_fold.rows.len() == 1 {
            let margins = trainer.margins(None, takes, &queries, &of_fold.all_rows());
            return FoldMargins { margins, learning, start: None };
        }
        let (prototypes, start) = trainer.learn_with_warm_start(takes);
        let margins = |&index: &u32| {
            let (terms, weights) = row(&queries, index as usize);
            prototypes.margins(terms, weights)
        };
        let margins = of_fold.rows.iter().flatten().flat_map(margins).collect();
        FoldMargins { margins, learning, start: Some(start) }
    }

    /// Replaces the margins with margins under prototypes that are also learned from the other
    /// parts of the fold, if the fold has several parts.
    fn by_other_parts(&self, margins: &mut FoldMargins, rows: &FoldRows, of_fold: &ScoredFold<'_>) {
        let Some(start) = &margins.start else { return };
        let Self { labels, threads, .. } = *self;
        let learning = margins.learning;
        let documents = rows.documents.view();
        let queries = rows.queries.view();
        let trainer = PrototypeTrainer { rows: &documents, labels, learning, threads };
        let of_part = |&(part, rows): &(usize, &Vec<u32>)| {
            if rows.is_empty() {
                return Vec::new();
            }
            let number = of_fold.fold + part * FOLDS;
            let takes = |row: u32| usize::from(of_fold.part_of[row as usize]) != number;
            trainer.margins(Some(start), takes, &queries, rows)
        };
        let parts: Vec<(usize, &Vec<u32>)> = of_fold.rows.iter().enumerate().collect();
        let concurrent = self.max_concurrent(rows);
        margins.margins = threads.map_few(&parts, concurrent, of_part).concat();
    }

    /// Returns the number of prototype trainings whose data fit in memory at the same time.
    fn max_concurrent(&self, rows: &FoldRows) -> usize {
        let pairs = self.labels.sizes.len().saturating_mul(self.labels.weights.len());
        (MAX_ENTRIES / rows.documents.nnz().max(1)).min(MAX_CONCURRENT_PAIRS / pairs.max(1))
    }
}

impl HeldOutPrototypes {
    /// Adds the margins of the documents of a fold.
    fn push(&mut self, rows: &[u32], margins: Vec<f32>) {
        note_positions(&mut self.position_of, self.folds.len(), rows);
        self.folds.push(FoldScores { scores: margins, highest: Vec::new() });
    }

    /// Returns the scores at a position. Before the link function is applied, these are the
    /// margins.
    fn scores_at(&self, Position { fold, document }: Position) -> &[f32] {
        let start = document as usize * self.labels;
        self.folds.get(fold as usize).map_or(&[], |fold| &fold.scores[start..start + self.labels])
    }

    /// Returns the margins of a document before the link function is applied.
    fn margins(&self, row: u32) -> &[f32] {
        self.scores_at(self.position_of[row as usize])
    }

    /// Returns the score of a label for a held-out document. If `is_second_time`, this is the score
    /// from the second round, if there is one. `None` if the label had no prototype.
    pub(super) fn score(&self, row: u32, is_second_time: bool, label: u32) -> Option<f32> {
        let second = self.position_again.get(row as usize).copied();
        let second = second.filter(|&at| is_second_time && at.fold < NOWHERE.fold);
        let scores = self.scores_at(second.unwrap_or(self.position_of[row as usize]));
        scores.get(label as usize).copied().filter(|score| score.is_finite())
    }

    /// Multiplies the voting scores by the factors of labels, and adds the scores of prototypes
    /// with the given `share`.
    pub(super) fn add_to(
        &self,
        table: &VoteTable<'_>,
        share: f64,
        factors: &[f64],
        scores: &mut [f64],
    ) {
        for document in 0..table.documents() {
            let (row, _) = table.get(document);
            let is_second_time = table.is_second_time(document);
            for slot in table.slots_of(document) {
                if scores[slot] > 0.0 {
                    let votes = scores[slot] * table.factor(factors, slot);
                    let prototype = self.score(row, is_second_time, table.label(slot));
                    scores[slot] = mix_scores(votes, prototype, share);
                }
            }
        }
    }

    /// Returns the highest margin of a held-out document.
    pub(super) fn highest_margin(&self, row: u32) -> Option<f32> {
        let Position { fold, document } = self.position_of[row as usize];
        self.folds.get(fold as usize)?.highest.get(document as usize).copied().flatten()
    }

    /// Returns the parameters for learning prototypes from all documents.
    pub(super) fn learning(&self) -> PrototypeLearning {
        self.learning
    }
}

/// The margins of the rows of a fold, one part after the other.
struct FoldMargins {
    margins: Vec<f32>,
    learning: PrototypeLearning,
    /// The solution for the other folds, used as a warm start when learning from more documents.
    start: Option<WarmStart>,
}

/// Writes the positions of the documents `rows` of a fold.
fn note_positions(positions: &mut [Position], fold: usize, rows: &[u32]) {
    let fold = u32::try_from(fold).expect("few folds");
    for (document, &row) in (0u32..).zip(rows) {
        positions[row as usize] = Position { fold, document };
    }
}

/// Returns the link function from margins to scores with the lowest log loss, and this loss.
/// `documents` returns the rows of documents with their margins.
#[expect(clippy::cast_possible_truncation, reason = "parameters need no more")]
fn learn_link<'a, I: Iterator<Item = (u32, &'a [f32])>>(
    documents: impl Fn() -> I,
    among: &TrainingLabels<'_>,
    multi_label: bool,
) -> ([f32; 2], f64) {
    let labels = among.sizes.len();
    if multi_label {
        let count = documents().count();
        let every = (count * labels).div_ceil(MAX_PAIRS).max(1);
        let mut pairs: Vec<(f64, bool)> = Vec::with_capacity(count.div_ceil(every) * labels);
        for (row, margins) in documents().step_by(every) {
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
        for (row, margins) in documents().filter(|&(row, _)| !among.labels(row).is_empty()) {
            scores.clear();
            scores.extend_from_slice(margins);
            margins_to_scores(&mut scores, &[scale]);
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

/// Trials that combine prototypes and neighbors.
pub(super) struct PrototypeTrials<'a> {
    pub(super) found: &'a LeaveOneOut,
    pub(super) labels: TrainingLabels<'a>,
    pub(super) grid: &'a Grid,
    pub(super) prototypes: &'a HeldOutPrototypes,
    pub(super) threads: &'a Threads,
}

impl PrototypeTrials<'_> {
    /// Tries prototypes with the best settings so far. Also tries them with the best settings
    /// without learned vote weights, without label-size compensation, and with many neighbors. Then
    /// tries the best of these with other numbers of neighbors. Returns the trials, best first,
    /// each with the learning of its vote weights.
    pub(super) fn run(
        &self,
        tuned: &GridResult,
        learning: Option<VoteLearning>,
    ) -> Vec<(Trial, Option<VoteLearning>)> {
        let Self { found, labels, grid, threads, .. } = *self;
        let value = |trial: &Trial| grid.objective.of(trial.metrics);
        let best_of = |fits: &dyn Fn(&Trial) -> bool| {
            let plain = tuned.trials.iter().filter(|trial| !trial.vote.learned && fits(trial));
            plain.max_by(|a, b| value(a).total_cmp(&value(b)).then(b.k.cmp(&a.k))).copied()
        };
        let mut starts = vec![(tuned.best, learning)];
        let fits: [&dyn Fn(&Trial) -> bool; 3] =
            [&|_| true, &|trial| trial.vote.compensation <= 0.0, &|trial| {
                trial.vote.compensation <= 0.0 && trial.k >= MANY_NEIGHBORS
            }];
        for fits in fits {
            let new = best_of(fits).filter(|new| {
                !starts.iter().any(|(old, _)| old.vote == new.vote && old.k == new.k)
            });
            starts.extend(new.map(|trial| (trial, None)));
        }
        let table = VoteTable::new(found, labels, threads);
        let mut trials = self.try_shares(&table, &starts, &SHARES);
        let best = trials.iter().copied().max_by(|(a, _), (b, _)| value(a).total_cmp(&value(b)));
        // Learned vote weights are specific to one number of neighbors.
        if let Some((best, None)) = best {
            let vote = Vote { prototypes: 0.0, ..best.vote };
            let ks = thin_out(distinct(&grid.ks, found.longest()), ROUND_ONE_KS);
            let others = ks.into_iter().filter(|&k| k != best.k);
            let starts: Vec<_> = others.map(|k| (Trial { k, vote, ..best }, None)).collect();
            trials.extend(self.try_shares(&table, &starts, &[best.vote.prototypes]));
        }
        trials.sort_by(|(a, _), (b, _)| value(b).total_cmp(&value(a)));
        trials
    }

    /// Tries the shares of prototypes with each of the given settings.
    fn try_shares(
        &self,
        table: &VoteTable<'_>,
        starts: &[(Trial, Option<VoteLearning>)],
        shares: &[f64],
    ) -> Vec<(Trial, Option<VoteLearning>)> {
        let Self { grid, prototypes, threads, .. } = *self;
        let concurrent = table.max_concurrent(threads);
        let try_start = |&(start, learning): &(Trial, Option<VoteLearning>)| {
            let votes = held_out_scores(table, &start, learning, threads);
            let factors = table.factors(start.vote);
            let try_share = |&share: &f64| {
                let vote = Vote { prototypes: share, ..start.vote };
                let mut scores = votes.clone();
                prototypes.add_to(table, share, &factors, &mut scores);
                (RuleSearch::new(table).best(vote, start.k, &scores, grid), learning)
            };
            threads.map_few(shares, concurrent.div_ceil(starts.len()), try_share)
        };
        threads.map_few(starts, concurrent, try_start).concat()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::learn::held_out::{Exclusion, SearchableRows, near_duplicates};
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;
    use crate::search::Exhaustive;

    /// Labels are random, but near-duplicates share them. So only near-duplicates reveal the
    /// labels.
    #[test]
    fn near_duplicates_train_again() {
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
        let view = SearchableRows { engine: &engine, queries: rows.view().into() };
        let near = near_duplicates(view, &all, 0.5).unwrap();
        let search = |of: &[u32], near| {
            let exclusion = Exclusion { near, ..Exclusion::default() };
            let k = NonZeroUsize::new(5).unwrap();
            LeaveOneOut::search(view, of, k, exclusion, &|_| ()).unwrap()
        };
        let first = search(&all, Some(&near));
        let rows_of = |_, _| {
            Ok::<_, ()>(FoldRows { documents: Arc::clone(&rows), queries: Arc::clone(&rows) })
        };
        let kind = CorpusKind { multi_label: false, is_chronological: false };
        let learner = PrototypeLearner {
            labels: &among,
            kind,
            precision: Precision::Full,
            vector_scales: &[0.0],
            threads: &threads,
        };
        let right = |prototypes: &HeldOutPrototypes, is_second_time: bool| {
            let is_right = |&&row: &&u32| {
                let [own, other] = [0, 1].map(|flip| labels[row as usize] ^ flip);
                prototypes.score(row, is_second_time, own)
                    > prototypes.score(row, is_second_time, other)
            };
            all.iter().filter(is_right).count() as f64 / f64::from(count)
        };
        for (held_out_again, is_rescored) in [(count, true), (count / 60, false)] {
            let mut prototypes = learner.learn(&first, rows_of).unwrap().unwrap();
            let again = search(&all[..held_out_again as usize], None);
            learner.learn_again(&mut prototypes, &first, &again, rows_of).unwrap();
            let one = right(&prototypes, false);
            let other = right(&prototypes, true);
            assert!(one < 0.65, "{one}");
            // For an eighth of the documents, the near-duplicate is in the same part.
            let is_same = other.to_bits() == one.to_bits();
            assert!(if is_rescored { other > 0.8 } else { is_same }, "{other}");
        }
        let mut prototypes = learner.learn(&first, rows_of).unwrap().unwrap();
        let again = search(&all, None);
        let kind = CorpusKind { is_chronological: true, ..kind };
        let learner = PrototypeLearner { kind, ..learner };
        learner.learn_again(&mut prototypes, &first, &again, rows_of).unwrap();
        assert!(prototypes.position_again.is_empty(), "nearby documents must be excluded");
    }
}
