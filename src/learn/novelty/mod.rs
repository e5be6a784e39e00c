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
use crate::decide::calibrate::{Calibration, NoveltyEvidence, NoveltyLimit, NoveltyScore, Votes};
use crate::decide::vote::{
    LabelScore, LearnedVotes, Outcome, PrototypeLearning, PrototypeTrainer, TrainingLabels, Vote,
    Voters, vote_with,
};
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

    /// Describes the novel documents. `found` are their neighbors among `rows`, `unknown` are their
    /// shares of unknown terms, and `unit_rows` are the rows from which prototypes of the other
    /// labels are learned.
    pub(super) fn describe(
        &self,
        found: LeaveOneOut,
        unknown: &[f64],
        unit_rows: Option<&FoldRows>,
        search: &NoveltySearch<'_>,
        threads: &Threads,
    ) -> NovelDocuments {
        let NoveltySearch { k, voting, prototypes: learning, .. } = *search;
        let prototypes = learning.zip(unit_rows).map(|(learning, unit_rows)| {
            let rows = &unit_rows.documents.view();
            let trainer = PrototypeTrainer { rows, labels: &voting.labels, learning, threads };
            (trainer.learn(|row| self.rows.contains(row)), unit_rows.queries.view())
        });
        let factors = voting.labels.factors(voting.vote);
        let describe = |(index, &unknown_share): (usize, &f64)| {
            let (number, voters) = found.get(index);
            let voters = voters.first(k.get());
            let mut scores = voting.scores(voters, &factors);
            let mut margin = None;
            if let Some((prototypes, queries)) = &prototypes {
                let (terms, weights) = row(queries, number as usize);
                prototypes.mix_into(terms, weights, voting.vote.prototypes, &mut scores);
                margin = prototypes.highest_margin(terms, weights);
            }
            let outcome =
                Votes { scores: &scores, supporters: &[], voters, unknown: unknown_share };
            let probability = voting.calibration.top_label_probability(outcome, &voting.labels);
            DocumentEvidence { unknown_share, probability, margin }
        };
        let evidence = unknown.iter().enumerate().map(describe).collect();
        NovelDocuments { rows: self.rows.clone(), found, evidence }
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
    pub(super) voting: NoveltyVoting<'a>,
}

/// How the labels of novel documents are scored.
#[derive(Clone, Copy)]
pub(super) struct NoveltyVoting<'a> {
    pub(super) vote: Vote,
    /// The learned vote weights, if the vote uses them.
    pub(super) learned: Option<&'a LearnedVotes>,
    pub(super) calibration: &'a Calibration,
    pub(super) labels: TrainingLabels<'a>,
}

impl NoveltyVoting<'_> {
    /// Returns the labels of the voters by decreasing score, without prototypes. `factors` are
    /// those of the vote.
    fn scores(&self, voters: Voters<'_>, factors: &[f64]) -> Vec<LabelScore> {
        if let Some(learned) = self.learned {
            return learned.vote(voters, self.vote.weight, &self.labels);
        }
        let mut outcome = Outcome::default();
        vote_with(voters, self.vote.weight, factors, &self.labels, &mut outcome);
        outcome.scores
    }
}

/// Novel documents, with their neighbors among the documents with other labels.
#[derive(Debug, Default)]
pub(super) struct NovelDocuments {
    /// The documents with other labels.
    pub(super) rows: RowSet,
    /// The neighbors of the novel documents in `rows`.
    pub(super) found: LeaveOneOut,
    pub(super) evidence: Vec<DocumentEvidence>,
}

/// Data about a held-out document in addition to its neighbors; see [`NoveltyEvidence`].
#[derive(Debug, Clone, Copy)]
pub(super) struct DocumentEvidence {
    pub(super) unknown_share: f64,
    pub(super) probability: f64,
    pub(super) margin: Option<f32>,
}

impl DocumentEvidence {
    /// Returns the input of the novelty score of a training document.
    fn of<'a>(
        self,
        row: u32,
        voters: Voters<'a>,
        candidates: Option<&'a RowSet>,
    ) -> NoveltyEvidence<'a> {
        let Self { unknown_share, probability, margin } = self;
        NoveltyEvidence { voters, unknown_share, probability, margin, row: Some(row), candidates }
    }
}

/// A held-out document with known labels.
pub(super) struct KnownDocument<'a> {
    pub(super) row: u32,
    pub(super) fold: usize,
    /// The neighbors that vote.
    pub(super) voters: Voters<'a>,
    pub(super) evidence: DocumentEvidence,
}

/// The number of neighbors that vote, and the target share of known documents that are rejected.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoveltyOptions {
    pub(super) k: NonZeroUsize,
    pub(super) target: f64,
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
/// `known` are held-out documents, and `found` the neighbors of all of them. `novel` are the novel
/// documents of each fold of labels, and the k nearest neighbors vote. Some folds of the known
/// documents determine the score, and the other folds set the limit. The novel documents of each
/// fold are evaluated with a score learned from the other folds.
pub(super) fn learn(
    known: &[KnownDocument<'_>],
    found: &LeaveOneOut,
    novel: &[NovelDocuments],
    labels: &TrainingLabels<'_>,
    options: NoveltyOptions,
) -> Option<(NoveltyLimit, NoveltyScore)> {
    let NoveltyOptions { k, target } = options;
    let mut index_of = vec![None; labels.weights.len()];
    for index in 0..found.len() {
        index_of[found.get(index).0 as usize] = Some(index);
    }
    let nearest = |row: u32, query: Option<&NoveltyEvidence<'_>>| {
        let index = index_of.get(row as usize).copied().flatten();
        let takes = |row: u32| query.is_none_or(|query| query.is_candidate(row));
        index.map_or(0.0, |index| found.get(index).1.best_similarity_where(&takes))
    };
    let step = known.len().div_ceil(MAX_KNOWN).max(1);
    // A document without labels may or may not be novel.
    let has_labels = |document: &&KnownDocument<'_>| !labels.labels(document.row).is_empty();
    let known = known.iter().step_by(step).filter(has_labels).map(|document| {
        let &KnownDocument { row, fold, voters, evidence } = document;
        FoldDocument { fold, shown: evidence.of(row, voters, None) }
    });
    let mut shown_novel = Vec::new();
    for (fold, NovelDocuments { rows, found, evidence }) in novel.iter().enumerate() {
        for (index, evidence) in evidence.iter().enumerate() {
            let (row, voters) = found.get(index);
            let shown = evidence.of(row, voters.first(k.get()), Some(rows));
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
