//! The scores of held-out documents under the chosen vote. Decisions, probabilities and limits are
//! learned from them.

use std::collections::BTreeMap;

use super::held_out::{FOLDS, LeaveOneOut};
use super::prototypes::HeldOutPrototypes;
use super::votes::{RuleSearch, Trial, VoteLearning, VoteTable, held_out_scores};
use crate::decide::decision::{Decision, decide};
use crate::decide::objective::{ExpectedMetrics, Metrics, Objective};
use crate::decide::outcomes::Outcomes;
use crate::decide::vote::{LabelScore, TrainingLabels, Voters};
use crate::threads::Threads;

/// The vote that was chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChosenVote<'a> {
    pub(super) trial: Trial,
    /// How vote weights are learned, if they are.
    pub(super) learning: Option<VoteLearning>,
    /// The prototypes that may contribute to the scores.
    pub(super) prototypes: Option<&'a HeldOutPrototypes>,
}

/// Held-out documents with their label scores. If vote weights are learned, each fold uses weights
/// that are learned from the other folds.
#[derive(Debug)]
pub(super) struct HeldOutScores<'a> {
    table: VoteTable<'a>,
    trial: Trial,
    /// The score of each slot of the vote table, before label-size compensation.
    scores: Vec<f64>,
    factors: Vec<f64>,
}

/// A held-out document.
#[derive(Debug)]
pub(super) struct HeldOutDocument<'a> {
    /// Row number among the training documents.
    pub(super) row: u32,
    /// Fold number, below [`FOLDS`].
    pub(super) fold: usize,
    /// Whether the document is held out for the second time, with its near-duplicates as neighbors.
    pub(super) is_second_time: bool,
    /// Cluster number: the documents of a group, near-duplicates, and consecutive documents of a
    /// chronological corpus share a cluster.
    pub(super) cluster: u64,
    /// The neighbors that vote.
    pub(super) voters: Voters<'a>,
    /// The labels with votes, by decreasing score.
    pub(super) scores: Vec<LabelScore>,
}

impl<'a> HeldOutScores<'a> {
    /// Computes the scores under the chosen vote. Prototypes contribute if they have a share in it.
    pub(super) fn new(
        found: &'a LeaveOneOut,
        training: TrainingLabels<'a>,
        chosen: ChosenVote<'_>,
        threads: &Threads,
    ) -> Self {
        let ChosenVote { trial, learning, prototypes } = chosen;
        let table = VoteTable::new(found, training, threads);
        let mut scores = held_out_scores(&table, &trial, learning, threads);
        let mut factors = training.factors(trial.vote);
        let share = trial.vote.prototypes;
        if let Some(prototypes) = prototypes.filter(|_| share > 0.0) {
            prototypes.add_to(&table, share, &factors, &mut scores);
            factors.clear();
        }
        Self { table, trial, scores, factors }
    }

    /// Returns the decision of the trial and its metrics. The labels of each fold are predicted
    /// with parameters learned from the other folds.
    pub(super) fn decision(&self) -> (Decision, Metrics) {
        RuleSearch::new(&self.table).learn(&self.trial, &self.scores)
    }

    /// Returns one decision per fold, learned from the other folds.
    pub(super) fn decisions_by_fold(&self) -> [Decision; FOLDS] {
        RuleSearch::new(&self.table).learn_by_fold(&self.trial, &self.scores)
    }

    /// Returns the metrics expected on new documents. The labels of each fold are predicted with
    /// parameters learned from the other folds. If a document was held out twice, only the second
    /// time counts: new documents are assumed to have near-duplicates as often as the corpus does.
    /// Not valid for a decision on a whole batch.
    pub(super) fn expected(
        &self,
        decisions: &[Decision; FOLDS],
        among: &TrainingLabels<'_>,
        objective: Objective,
        threads: &Threads,
    ) -> ExpectedMetrics {
        let mut outcomes = Outcomes::default();
        let mut by_ranks = 0.0;
        let first = objective.best_labels();
        for HeldOutDocument { row, fold, scores, .. } in self.last_round().values() {
            let gold = among.labels(*row);
            let mut given = decide(scores, &decisions[*fold]);
            if scores.is_empty() && decisions[*fold] == Decision::Single {
                given.extend(among.most_frequent_label());
            }
            outcomes.push(gold, &given);
            let best = scores.iter().take(first.unwrap_or(0));
            let right = best.filter(|best| gold.binary_search(&best.label).is_ok()).count();
            by_ranks += objective.of_ranking(right);
        }
        let of_all = outcomes.metrics(0..outcomes.len(), among.sizes.len());
        let metrics = Metrics {
            micro_f1: of_all.micro_f1,
            macro_f1: of_all.macro_f1,
            accuracy: of_all.accuracy,
            by_ranks: first.map(|_| by_ranks / outcomes.len().max(1) as f64),
        };
        let intervals = threads.run(|| outcomes.intervals(among.sizes.len(), 0));
        ExpectedMetrics { metrics, intervals }
    }

    /// Returns the held-out documents by row. If a document was held out twice, it is that of the
    /// second time.
    pub(super) fn last_round(&self) -> BTreeMap<u32, HeldOutDocument<'_>> {
        self.documents().map(|document| (document.row, document)).collect()
    }

    /// Returns the held-out documents or, if there are very many labels, an evenly spaced sample.
    pub(super) fn documents(&self) -> impl ExactSizeIterator<Item = HeldOutDocument<'_>> + Clone {
        (0..self.table.documents()).map(|document| {
            let (row, voters) = self.table.get(document);
            HeldOutDocument {
                row,
                fold: self.table.fold(document),
                is_second_time: self.table.is_second_time(document),
                cluster: self.table.cluster(row),
                voters: voters.first(self.trial.k),
                scores: self.table.label_scores(document, &self.scores, &self.factors),
            }
        })
    }
}
