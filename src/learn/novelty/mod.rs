//! Learns to detect documents that have none of the known labels (out-of-distribution detection).
//!
//! Labels are held out, fold by fold. Documents that have only held-out labels are novel with
//! respect to the other labels, and serve as examples of novel documents.
//!
//! * Input: leave-one-out neighbors of known documents, and neighbors of novel documents.
//! * Evaluation: folds of labels and folds of documents; the limit of a fold is learned from the
//!   other folds.
//! * Output: a novelty score ([`NoveltyScore`]) and its limit ([`NoveltyLimit`]).

use std::num::NonZeroUsize;

use super::held_out::{Exclusion, FOLDS, LeaveOneOut};
use super::prototypes::FoldRows;
use crate::decide::calibrate::{NoveltyEvidence, NoveltyLimit, NoveltyScore};
use crate::decide::vote::{PrototypeLearning, PrototypeTrainer, TopMargins, TrainingLabels};
use crate::rows::matrix::row;
use crate::search::RowSet;
use crate::threads::Threads;

/// Maximum number of novel documents per fold whose neighbors are found.
const MAX_NOVEL: usize = 1_000;
/// Minimum number of novel documents for learning.
const MIN_NOVEL: usize = 20;
/// Maximum number of known documents from which the score is learned.
const MAX_KNOWN: usize = 20_000;
/// Number of folds of known documents from which the score is learned; the other folds set the
/// limit.
const SCORE_FOLDS: usize = 2;

/// A fold of held-out labels: the documents without these labels, and the novel documents, which
/// have only these labels.
#[derive(Debug)]
pub(super) struct HeldOutLabels {
    /// The documents that have none of the held-out labels.
    pub(super) rows: RowSet,
    /// Documents that have only held-out labels, evenly spaced. Empty if no document in `rows` has
    /// a label.
    pub(super) novel: Vec<u32>,
}

impl HeldOutLabels {
    /// Assigns the labels to folds and holds out each fold in turn. Labels are assigned by
    /// decreasing size, each to the fold with the fewest documents so far.
    pub(super) fn by_fold(labels: &TrainingLabels<'_>) -> Vec<Self> {
        let mut by_size: Vec<u32> = (0u32..).take(labels.sizes.len()).collect();
        by_size.sort_by_key(|&label| (std::cmp::Reverse(labels.sizes[label as usize]), label));
        let mut fold_of = vec![0; by_size.len()];
        let mut documents = [0u64; FOLDS];
        for label in by_size {
            let fold = (0..FOLDS).min_by_key(|&fold| documents[fold]).unwrap_or(0);
            fold_of[label as usize] = fold;
            documents[fold] += u64::from(labels.sizes[label as usize]);
        }
        (0..FOLDS).map(|fold| Self::new(labels, &|label| fold_of[label as usize] == fold)).collect()
    }

    /// Returns the highest margins of the novel documents under prototypes of the other labels.
    pub(super) fn margins(
        &self,
        rows: &FoldRows,
        labels: &TrainingLabels<'_>,
        learning: PrototypeLearning,
        threads: &Threads,
    ) -> Vec<Option<TopMargins>> {
        let takes = |row| self.rows.contains(row);
        let documents = rows.documents.view();
        let trainer = PrototypeTrainer { rows: &documents, labels, learning, threads };
        let prototypes = trainer.learn(takes);
        let queries = rows.queries.view();
        let highest = |&index: &u32| {
            let (terms, weights) = row(&queries, index as usize);
            prototypes.top_margins(terms, weights)
        };
        self.novel.iter().map(highest).collect()
    }

    fn new(labels: &TrainingLabels<'_>, is_held_out: &dyn Fn(u32) -> bool) -> Self {
        let count = u32::try_from(labels.weights.len()).unwrap_or(u32::MAX);
        let is_novel = |row: u32| {
            let labels = labels.labels(row);
            !labels.is_empty() && labels.iter().all(|&label| is_held_out(label))
        };
        let is_kept = |row| !labels.labels(row).iter().any(|&label| is_held_out(label));
        let rows = RowSet::from_fn(count, is_kept);
        let all: Vec<u32> = (0..count).filter(|&row| is_novel(row)).collect();
        let has_known = (0..count).any(|row| rows.contains(row) && !labels.labels(row).is_empty());
        let step = all.len().div_ceil(MAX_NOVEL).max(1);
        let novel = all.into_iter().step_by(step).filter(|_| has_known).collect();
        Self { rows, novel }
    }
}

/// The settings of the search for the neighbors of novel documents.
#[derive(Clone, Copy)]
pub(super) struct NoveltySearch<'a> {
    /// The number of neighbors.
    pub(super) k: NonZeroUsize,
    pub(super) exclusion: Exclusion<'a>,
    /// The share of the votes that goes to neighbors found by dense vectors.
    pub(super) dense_share: f64,
    /// Returns the share of a document's terms that would be unknown if it were held out. Not
    /// called if the rows depend on the fold; the share is then recomputed.
    pub(super) unknown_share: &'a (dyn Fn(u32) -> f64 + Sync),
    /// How label prototypes are learned, if they contribute to the scores.
    pub(super) prototypes: Option<PrototypeLearning>,
}

/// Novel documents, with their neighbors among the documents with other labels.
#[derive(Debug, Default)]
pub(super) struct NovelDocuments {
    /// The documents with other labels.
    pub(super) rows: RowSet,
    /// The neighbors of the novel documents in `rows`.
    pub(super) found: LeaveOneOut,
    /// For each novel document, the share of its terms that are unknown.
    pub(super) unknown: Vec<f64>,
    /// For each novel document, its highest margins under prototypes of the other labels. Empty if
    /// there are no prototypes.
    pub(super) margins: Vec<Option<TopMargins>>,
}

/// Data about held-out documents in addition to their neighbors.
pub(super) struct DocumentEvidence<'a> {
    /// Returns the share of unknown terms of a document.
    pub(super) unknown_share: &'a (dyn Fn(u32) -> f64 + Sync),
    /// Returns the highest margins of a document under the prototypes.
    pub(super) margins: &'a dyn Fn(u32) -> Option<TopMargins>,
    /// Number of neighbors that vote.
    pub(super) k: NonZeroUsize,
}

/// A document and its fold.
#[derive(Clone, Copy)]
struct FoldDocument<'a> {
    fold: usize,
    shown: NoveltyEvidence<'a>,
}

/// Returns the documents in some folds.
fn documents_in<'a>(
    documents: &[FoldDocument<'a>],
    is_in: &dyn Fn(usize) -> bool,
) -> Vec<NoveltyEvidence<'a>> {
    let documents = documents.iter().filter(|document| is_in(document.fold));
    documents.map(|document| document.shown).collect()
}

/// The known and novel documents from which a novelty score and its limit are learned.
struct NoveltyLearner<'a> {
    known: Vec<FoldDocument<'a>>,
    novel: Vec<FoldDocument<'a>>,
    labels: &'a TrainingLabels<'a>,
    nearest: &'a dyn Fn(u32, Option<&NoveltyEvidence<'_>>) -> f32,
    target: f64,
}

impl NoveltyLearner<'_> {
    /// Learns the score from known documents and from the novel documents outside a fold.
    fn learn(&self, held_out_fold: Option<usize>) -> NoveltyScore {
        let known = documents_in(&self.known, &|fold| fold < SCORE_FOLDS);
        let novel = documents_in(&self.novel, &|fold| Some(fold) != held_out_fold);
        NoveltyScore::fit(&known, &novel, &self.nearest, self.labels)
    }

    /// Returns the novelty scores of the documents in some folds.
    fn scores(
        &self,
        score: &NoveltyScore,
        documents: &[FoldDocument<'_>],
        is_in: &dyn Fn(usize) -> bool,
    ) -> Vec<f64> {
        let of = |shown| score.of_held_out(shown, &self.nearest, self.labels);
        documents_in(documents, is_in).into_iter().map(of).collect()
    }

    /// Returns the limit learned from the known documents of some folds, with the share of
    /// `evaluated` above it.
    fn limit(
        &self,
        score: &NoveltyScore,
        is_in: &dyn Fn(usize) -> bool,
        evaluated: &[f64],
    ) -> NoveltyLimit {
        NoveltyLimit::learn(self.target, self.scores(score, &self.known, is_in), evaluated)
    }
}

/// Learns the novelty score, and the limit above which a document is rejected. `None` if there are
/// too few novel documents to learn from.
///
/// `found` are the neighbors of all training documents, held out one at a time. `novel` are the
/// novel documents of each fold of labels. Some folds of the known documents determine the score,
/// and the other folds set the limit. The novel documents of each fold are evaluated with a score
/// learned from the other folds.
pub(super) fn learn(
    found: &LeaveOneOut,
    novel: &[NovelDocuments],
    labels: &TrainingLabels<'_>,
    target: f64,
    evidence: &DocumentEvidence<'_>,
) -> Option<(NoveltyLimit, NoveltyScore)> {
    let k = evidence.k.get();
    let mut index_of = vec![None; labels.weights.len()];
    for index in 0..found.len() {
        index_of[found.get(index).0 as usize] = Some(index);
    }
    let nearest = |row: u32, query: Option<&NoveltyEvidence<'_>>| {
        let index = index_of.get(row as usize).copied().flatten();
        let takes = |row: u32| query.is_none_or(|query| query.is_candidate(row));
        index.map_or(0.0, |index| found.get(index).1.best_similarity_where(&takes))
    };
    let folds = found.folds(labels);
    let step = found.len().div_ceil(MAX_KNOWN).max(1);
    let known = (0..found.len()).step_by(step).map(|index| found.get(index));
    // A document without labels may or may not be novel.
    let known = known.filter(|&(row, _)| !labels.labels(row).is_empty()).map(|(row, voters)| {
        let unknown = (evidence.unknown_share)(row);
        let margins = (evidence.margins)(row);
        let voters = voters.first(k);
        let shown = NoveltyEvidence {
            voters,
            unknown_share: unknown,
            margins,
            row: Some(row),
            candidates: None,
        };
        FoldDocument { fold: usize::from(folds[row as usize]), shown }
    });
    let mut shown_novel = Vec::new();
    for (fold, NovelDocuments { rows, found, unknown, margins }) in novel.iter().enumerate() {
        for index in 0..found.len() {
            let (row, voters) = found.get(index);
            let voters = voters.first(k);
            let unknown = unknown[index];
            let margins = margins.get(index).copied().flatten();
            let shown = NoveltyEvidence {
                voters,
                unknown_share: unknown,
                margins,
                row: Some(row),
                candidates: Some(rows),
            };
            shown_novel.push(FoldDocument { fold, shown });
        }
    }
    let learner = NoveltyLearner {
        known: known.collect(),
        novel: shown_novel,
        labels,
        nearest: &nearest,
        target,
    };
    if learner.novel.len() < MIN_NOVEL {
        return None;
    }
    let sets_limit = |fold: usize| fold >= SCORE_FOLDS;
    let score = learner.learn(None);
    // The share of known documents that are rejected is estimated on a fold that did not set the
    // limit.
    let last = learner.scores(&score, &learner.known, &|fold| fold == FOLDS - 1);
    let without_last = |fold| sets_limit(fold) && fold != FOLDS - 1;
    let of_known = learner.limit(&score, &without_last, &last);
    let mut refused = 0.0;
    for fold in 0..FOLDS {
        let fold_score = learner.learn(Some(fold));
        let scores = learner.scores(&fold_score, &learner.novel, &|of| of == fold);
        let limit = learner.limit(&fold_score, &sets_limit, &scores);
        refused += limit.novel_refused * scores.len() as f64;
    }
    let limit = NoveltyLimit {
        known_refused: of_known.novel_refused,
        novel_refused: refused / learner.novel.len() as f64,
        novel_documents: learner.novel.len() as u64,
        ..learner.limit(&score, &sets_limit, &[])
    };
    Some((limit, score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_held_out_in_folds() {
        // Seven documents; the last one has two labels.
        let indptr: Vec<u64> = (0..7).chain([8]).collect();
        let indices = [0u32, 1, 2, 3, 4, 5, 0, 5];
        let among = TrainingLabels {
            indptr: &indptr,
            indices: &indices,
            weights: &[1.0; 7],
            sizes: &[2, 1, 1, 1, 1, 2],
        };
        let folds = HeldOutLabels::by_fold(&among);
        assert_eq!(folds.len(), FOLDS);
        let all: Vec<u32> = folds.iter().flat_map(|fold| fold.novel.iter().copied()).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            [0, 1, 2, 3, 4, 5],
            "the document with labels of two folds is not novel"
        );
        for HeldOutLabels { rows, novel } in &folds {
            assert!(novel.iter().all(|&row| !rows.contains(row)));
        }
        // If the only label is held out, no known document remains.
        let one = TrainingLabels { indptr: &[0, 1], indices: &[0], weights: &[1.0], sizes: &[1] };
        assert!(HeldOutLabels::by_fold(&one).iter().all(|fold| fold.novel.is_empty()));
    }
}
