//! Trials of learned vote weights.

use super::grid::{Candidate, Grid, Trial};
use super::rules::RuleSearch;
use super::search::GridResult;
use super::table::VoteTable;
use super::weights::{VoteLearning, VoteSetup, VoteWeightLearner};
use crate::decide::vote::{LearnedVotes, TrainingLabels, Vote, VoteWeight};
use crate::learn::held_out::LeaveOneOut;
use crate::threads::Threads;

/// Returns the score of each slot under the votes of a trial, before label-size compensation. The
/// votes have learned weights if `learning` is given.
pub(in crate::learn) fn held_out_scores(
    table: &VoteTable<'_>,
    trial: &Trial,
    learning: Option<VoteLearning>,
    threads: &Threads,
) -> Vec<f64> {
    let mut scores = Vec::new();
    match learning {
        Some(learning) => {
            if let Some(learner) = VoteWeightLearner::new(table, setup_of(trial, learning), None) {
                let steps = [learning.steps];
                scores = learner.held_out(learning.penalty, &steps, threads).remove(0);
            }
        }
        None => table.vote(trial.vote.weight, &[trial.k], |_, found| scores = found.to_vec()),
    }
    scores.resize(table.slots(), 0.0);
    scores
}

/// Returns the setup of a trial.
fn setup_of(trial: &Trial, learning: VoteLearning) -> VoteSetup {
    VoteSetup {
        weight: trial.vote.weight,
        k: trial.k,
        multi_label: trial.decision != Candidate::Single,
        others: learning.others,
    }
}

/// The numbers of steps after which learned vote weights are evaluated.
const STEPS: [usize; 3] = [5, 15, 30];
/// Maximum number of labels for which vote weights are learned.
const MAX_LABELS: usize = 10_000;
/// Maximum number of products per step, with votes for own labels only.
const MAX_PRODUCTS: usize = 1 << 27;
/// Maximum number of products per step, with votes for the labels of nearby documents as well.
const MAX_PRODUCTS_OF_OTHERS: usize = 12_000_000;
/// The penalty that is tried with every k.
const FIRST_PENALTY: f32 = 1.0;
/// The penalty that is tried with the best k.
const SECOND_PENALTY: f32 = 0.3;
/// The penalty for votes for the labels of nearby documents.
const PENALTY_OF_OTHERS: f32 = 0.1;
/// The vote with which weights for the labels of nearby documents are learned.
const VOTE_OF_OTHERS: VoteWeight = VoteWeight::Similarity { power: 2.0 };

/// Tries vote weights with a few settings around the best of a grid: its k, then twice that k and
/// all neighbors, as long as the result improves. Returns the trials, best first. If the grid has a
/// single k or a single vote, no other is tried.
pub(in crate::learn) fn try_vote_weights(
    found: &LeaveOneOut,
    training: TrainingLabels<'_>,
    grid: &Grid,
    tuned: &GridResult,
    threads: &Threads,
) -> Vec<(Trial, VoteLearning)> {
    let table = VoteTable::new(found, training, threads);
    let value = |(trial, _): &(Trial, VoteLearning)| grid.objective.of(trial.metrics);
    let longest = found.longest();
    if longest == 0 || !(1..=MAX_LABELS).contains(&training.sizes.len()) {
        return Vec::new();
    }
    let mut ks = vec![tuned.best.k];
    if let [.., max] = grid.ks[..]
        && grid.ks.len() > 1
    {
        ks.extend([2 * tuned.best.k, longest].map(|k| k.min(max)));
    }
    ks.sort_unstable();
    // Similar values of k give similar results.
    ks.dedup_by(|next, before| 2 * *next < 3 * *before);
    let mut tried: Vec<(Trial, VoteLearning)> = Vec::new();
    let mut try_out = |weight, k, others, penalty| {
        let max_products = Some(if others { MAX_PRODUCTS_OF_OTHERS } else { MAX_PRODUCTS });
        let setup = VoteSetup { weight, k, multi_label: grid.multi_label, others };
        let Some(learner) = VoteWeightLearner::new(&table, setup, max_products) else {
            return f64::NEG_INFINITY;
        };
        let mut best: Option<(Trial, VoteLearning)> = None;
        let held_out = learner.held_out(penalty, &STEPS, threads);
        for (scores, steps) in held_out.iter().zip(STEPS) {
            let vote = Vote { learned: true, ..weight.into() };
            let trial = RuleSearch::new(&table).best(vote, k, scores, grid);
            let next = (trial, VoteLearning { others, penalty, steps });
            if best.as_ref().is_none_or(|best| value(&next) > value(best)) {
                best = Some(next);
            }
        }
        let reached = best.as_ref().map_or(f64::NEG_INFINITY, value);
        tried.extend(best);
        reached
    };
    let weight = tuned.best.vote.weight;
    let mut best_value = f64::NEG_INFINITY;
    let mut best_k = ks[0];
    for &k in &ks {
        let reached = try_out(weight, k, false, FIRST_PENALTY);
        if reached <= best_value {
            break;
        }
        best_value = reached;
        best_k = k;
    }
    try_out(weight, best_k, false, SECOND_PENALTY);
    let others = if grid.weights.len() > 1 { VOTE_OF_OTHERS } else { weight };
    try_out(others, ks[ks.len() - 1], true, PENALTY_OF_OTHERS);
    tried.sort_by(|a, b| value(b).total_cmp(&value(a)));
    tried
}

/// Learns the vote weights of all training documents with the settings of a trial.
pub(in crate::learn) fn learn(
    found: &LeaveOneOut,
    training: TrainingLabels<'_>,
    trial: &Trial,
    learning: VoteLearning,
    threads: &Threads,
) -> Option<LearnedVotes> {
    let table = VoteTable::new(found, training, threads);
    let learner = VoteWeightLearner::new(&table, setup_of(trial, learning), None)?;
    Some(learner.learn_from_all(learning, threads))
}
