//! Finds the best k, vote and decision. All of them reuse the same neighbors.

use super::grid::{Candidate, Grid, Rules, Trial, distinct, thin_out};
use super::rules::{Compensation, RuleSearch, ranked_value};
use super::table::VoteTable;
use crate::decide::vote::{TrainingLabels, Vote, VoteWeight};
use crate::learn::held_out::LeaveOneOut;
use crate::threads::Threads;

/// The best settings of a grid, and all results.
#[derive(Debug, Clone)]
pub(crate) struct GridResult {
    /// The best settings.
    pub(crate) best: Trial,
    /// All results, ordered by vote, k and decision.
    pub(crate) trials: Vec<Trial>,
}

/// Number of values of k that the first round of [`search_grid`] tries.
pub(in crate::learn) const ROUND_ONE_KS: usize = 8;
/// Number of pairs of vote and rule that are tried in the second round.
const FINALISTS: usize = 6;
/// Number of values of k that the second round tries for each pair.
const ROUND_TWO_KS: usize = 16;

/// Settings that are evaluated together: one vote, values of k (increasing), and rules.
struct Task {
    weight: VoteWeight,
    ks: Vec<usize>,
    rules: Rules,
}

/// Evaluates the settings of a grid on the votes of held-out documents.
struct GridEvaluation<'a> {
    table: VoteTable<'a>,
    grid: &'a Grid,
    /// The values of k that give different results.
    ks: &'a [usize],
    compensations: Vec<Compensation>,
    threads: &'a Threads,
}

impl<'a> GridEvaluation<'a> {
    fn new(
        found: &'a LeaveOneOut,
        training: TrainingLabels<'a>,
        grid: &'a Grid,
        threads: &'a Threads,
    ) -> Self {
        let table = VoteTable::new(found, training, threads);
        let compensations = Compensation::all(&table, &grid.compensations);
        let ks = distinct(&grid.ks, found.longest());
        Self { table, grid, ks, compensations, threads }
    }

    /// Returns the trials of the given tasks, in order.
    fn trials(&self, tasks: &[Task]) -> Vec<Trial> {
        // Several threads share the values of k of one vote.
        let max_concurrent = self.table.max_concurrent(self.threads);
        let chunks_per_task = max_concurrent.div_ceil(tasks.len().max(1));
        let chunks: Vec<(&Task, &[usize])> = tasks
            .iter()
            .flat_map(|task| {
                let size = task.ks.len().div_ceil(chunks_per_task).max(1);
                task.ks.chunks(size).map(move |ks| (task, ks))
            })
            .collect();
        let evaluate = |&(task, ks): &(&Task, &[usize])| self.evaluate(task.weight, ks, task.rules);
        self.threads.map_few(&chunks, max_concurrent, evaluate).concat()
    }

    /// Returns the trials of one vote.
    fn evaluate(&self, weight: VoteWeight, ks: &[usize], rules: Rules) -> Vec<Trial> {
        let mut trials = Vec::new();
        let mut search = RuleSearch::new(&self.table);
        let objective = self.grid.objective;
        self.table.vote(weight, ks, |k, scores| {
            let first = trials.len();
            let mut push = |compensation, decision, metrics| {
                let vote = Vote { compensation, ..weight.into() };
                trials.push(Trial { k, vote, decision, metrics });
            };
            if self.grid.multi_label {
                let found = &mut |candidate, metrics| push(0.0, candidate, metrics);
                search.evaluate_multi_label(scores, rules, objective, found);
            } else {
                let found = &mut |compensation, metrics| {
                    push(compensation, Candidate::Single, metrics);
                };
                search.evaluate_single_label(scores, &self.compensations, found);
            }
            if objective.best_labels().is_some() {
                for trial in &mut trials[first..] {
                    let value = ranked_value(&self.table, objective, trial.vote, scores);
                    trial.metrics.by_ranks = value;
                }
            }
        });
        trials
    }

    /// Sorts trials by vote, k and decision, and finds the best.
    fn finish(&self, mut trials: Vec<Trial>) -> GridResult {
        let position = |trial: &Trial| {
            self.grid.weights.iter().position(|&weight| weight == trial.vote.weight)
        };
        trials.sort_by_key(|trial| (position(trial), trial.k));
        let best = self.best(&trials);
        GridResult { best, trials }
    }

    /// Returns the best trial; in a tie, the smallest k, then the first trial.
    fn best(&self, trials: &[Trial]) -> Trial {
        let objective = |trial: &Trial| {
            let objective = self.grid.objective;
            (objective.of(trial.metrics), objective.of_decision(trial.metrics))
        };
        let better = |best: Trial, next: &Trial| {
            let old = objective(&best);
            let new = objective(next);
            if new > old || (new >= old && next.k < best.k) { *next } else { best }
        };
        trials.iter().skip(1).fold(trials[0], better)
    }
}

/// Evaluates all settings of a grid on leave-one-out neighbors.
///
/// Values of k above the longest neighbor list are skipped. If documents with very many labels
/// would exhaust the memory, fewer held-out documents are used, evenly spaced. In a tie, the
/// smaller k wins, then the vote and the decision that come first.
///
/// # Panics
/// Panics if the grid has no k or no votes.
pub(crate) fn evaluate_grid(
    found: &LeaveOneOut,
    training: TrainingLabels<'_>,
    grid: &Grid,
    threads: &Threads,
) -> GridResult {
    let evaluation = GridEvaluation::new(found, training, grid, threads);
    let task = |&weight| Task { weight, ks: evaluation.ks.to_vec(), rules: grid.rules };
    let tasks: Vec<Task> = grid.weights.iter().map(task).collect();
    evaluation.finish(evaluation.trials(&tasks))
}

/// Finds the best settings of a grid, or nearly the best, in two rounds instead of evaluating all
/// of the grid:
///
/// 1. Every vote and rule with up to 8 values of k, in about equal ratios.
/// 2. The six best pairs of vote and rule, with up to 16 values of k around the best k of each.
///
/// The differences between neighboring settings are within noise, and the best of more settings is
/// more often best by chance. In all other respects, the search is like [`evaluate_grid`].
///
/// # Panics
/// Panics if the grid has no k or no votes.
pub(crate) fn search_grid(
    found: &LeaveOneOut,
    training: TrainingLabels<'_>,
    grid: &Grid,
    threads: &Threads,
) -> GridResult {
    let evaluation = GridEvaluation::new(found, training, grid, threads);
    let ks = thin_out(evaluation.ks, ROUND_ONE_KS);
    let task = |&weight| Task { weight, ks: ks.clone(), rules: grid.rules };
    let tasks: Vec<Task> = grid.weights.iter().map(task).collect();
    let mut trials = evaluation.trials(&tasks);
    let around = |finalist: Trial| {
        let index = ks.partition_point(|&k| k < finalist.k);
        let around = ks[index.saturating_sub(1)]..=ks[(index + 1).min(ks.len() - 1)];
        let near: Vec<usize> =
            evaluation.ks.iter().copied().filter(|k| around.contains(k)).collect();
        let refined = thin_out(&near, ROUND_TWO_KS).into_iter().filter(|k| !ks.contains(k));
        let rules = finalist.decision.rules();
        Task { weight: finalist.vote.weight, ks: refined.collect(), rules }
    };
    let tasks: Vec<Task> = finalists(&trials, grid).into_iter().map(around).collect();
    trials.extend(evaluation.trials(&tasks));
    evaluation.finish(trials)
}

/// Returns the best trial of each of the best pairs of vote and rule.
fn finalists(trials: &[Trial], grid: &Grid) -> Vec<Trial> {
    let mut order: Vec<&Trial> = trials.iter().collect();
    let value = |trial: &Trial| grid.objective.of(trial.metrics);
    order.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.k.cmp(&b.k)));
    let mut finalists: Vec<Trial> = Vec::new();
    for trial in order {
        let alike = |other: &Trial| {
            other.vote.weight == trial.vote.weight
                && other.decision.rules() == trial.decision.rules()
        };
        if finalists.len() < FINALISTS && !finalists.iter().any(alike) {
            finalists.push(*trial);
        }
    }
    finalists
}
