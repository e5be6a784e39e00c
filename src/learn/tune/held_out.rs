//! Left-out documents with the scores of their labels under the chosen vote: what decisions,
//! probabilities and limits are learned from.

use std::collections::BTreeMap;

use super::grid_search::{Ballots, GridSearch, VoteLearning};
use super::neighbors::LeaveOneOut;
use super::thresholds::FOLDS;
use super::{Candidate, Grid, HeldOutPrototypes, Trial, Tuned};
use crate::decide::decision::{Decision, decide};
use crate::decide::objective::{Expected, Figures, Objective};
use crate::decide::outcomes::Outcomes;
use crate::decide::vote::{LabelScore, LearnedVotes, TrainingLabels, Vote, VoteWeight, Voters};
use crate::threads::Threads;

/// Left-out documents with the scores of their labels. If votes are learned, those of each fold are
/// learned from the other folds.
#[derive(Debug)]
pub struct HeldOut<'a> {
    grid_search: GridSearch<'a>,
    trial: Trial,
    /// The score of each slot, before the label-size compensation.
    scores: Vec<f64>,
    factors: Vec<f64>,
}

/// A left-out document.
#[derive(Debug)]
pub struct HeldOutDocument<'a> {
    /// Its number among the training documents.
    pub row: u32,
    /// Its fold, of [`FOLDS`].
    pub fold: usize,
    /// Whether it is left out for the second time, with its near-duplicates as neighbors.
    pub again: bool,
    /// Documents with the same number are of one group, or near-duplicates of each other; in the order of time, of one stretch.
    pub kin: u64,
    /// The neighbors that vote.
    pub voters: Voters<'a>,
    /// The labels with a vote, by decreasing score.
    pub scores: Vec<LabelScore>,
}

impl<'a> HeldOut<'a> {
    /// The votes of a trial, with learned worths if `learning` is given, and with prototypes if they are given
    /// and have a share.
    pub fn new(
        found: &'a LeaveOneOut,
        among: TrainingLabels<'a>,
        (trial, prototypes): (Trial, Option<&HeldOutPrototypes>),
        learning: Option<VoteLearning>,
        threads: &Threads,
    ) -> Self {
        let grid_search = GridSearch::new(found, among, threads);
        let mut scores = grid_search.held_out(&trial, learning, threads);
        let mut factors = among.factors(trial.vote);
        let share = trial.vote.prototypes;
        if let Some(prototypes) = prototypes.filter(|_| share > 0.0) {
            grid_search.join(prototypes, (share, &factors), &mut scores);
            factors.clear();
        }
        Self { grid_search, trial, scores, factors }
    }

    /// The decision of the trial, and its figures: each fold is decided with what the others teach.
    pub fn decision(&self) -> (Decision, Figures) {
        self.grid_search.learn(&self.trial, &self.scores)
    }

    /// For each fold, the decision that the other folds teach.
    pub fn decisions_by_fold(&self) -> [Decision; FOLDS] {
        self.grid_search.learn_by_fold(&self.trial, &self.scores)
    }

    /// What to expect of new documents: the figures of decisions that each fold's documents get by what the other folds
    /// teach, and the decisions. Of a document that was left out twice, the second time counts: new documents have
    /// near-duplicates where those of the corpus have them. Not for a decision that needs the batch.
    pub fn expected(
        &self,
        decisions: &[Decision; FOLDS],
        among: &TrainingLabels<'_>,
        objective: Objective,
        threads: &Threads,
    ) -> Expected {
        let mut last: BTreeMap<u32, HeldOutDocument<'_>> = BTreeMap::new();
        for document in self.documents() {
            last.insert(document.row, document);
        }
        let (mut outcomes, mut by_ranks) = (Outcomes::default(), 0.0);
        let first = objective.best_labels();
        for HeldOutDocument { row, fold, scores, .. } in last.values() {
            let gold = among.labels(*row);
            outcomes.push(gold, &decide(scores, &decisions[*fold]));
            let best = scores.iter().take(first.unwrap_or(0));
            let right = best.filter(|best| gold.binary_search(&best.label).is_ok()).count();
            by_ranks += objective.of_ranking(right);
        }
        let of_all = outcomes.figures(0..outcomes.len(), among.sizes.len());
        let figures = Figures {
            micro_f1: of_all.micro_f1,
            macro_f1: of_all.macro_f1,
            accuracy: of_all.accuracy,
            by_ranks: first.map(|_| by_ranks / outcomes.len().max(1) as f64),
        };
        let intervals = threads.run(|| outcomes.intervals(among.sizes.len(), 0));
        Expected { figures, intervals }
    }

    /// The documents. If there are very many labels, not all left-out documents, but evenly spaced
    /// ones.
    pub fn documents(&self) -> impl ExactSizeIterator<Item = HeldOutDocument<'_>> + Clone {
        (0..self.grid_search.documents()).map(|document| {
            let (row, voters) = self.grid_search.get(document);
            HeldOutDocument {
                row,
                fold: self.grid_search.fold(document),
                again: self.grid_search.is_again(document),
                kin: self.grid_search.kin(row),
                voters: voters.first(self.trial.k),
                scores: self.grid_search.label_scores(document, &self.scores, &self.factors),
            }
        })
    }
}

impl GridSearch<'_> {
    /// The score of each slot by the votes of a trial, with learned worths if `learning` is given, before the label-size
    /// compensation.
    pub(super) fn held_out(
        &self,
        trial: &Trial,
        learning: Option<VoteLearning>,
        threads: &Threads,
    ) -> Vec<f64> {
        let mut scores = Vec::new();
        match learning {
            Some(learning) => {
                let by = (trial.vote.weight, trial.k);
                let several = trial.decision != Candidate::Single;
                if let Some(ballots) = Ballots::new(self, by, several, learning.others, None) {
                    let steps = [learning.steps];
                    scores = ballots.held_out(learning.penalty, &steps, threads).remove(0);
                }
            }
            None => self.run(trial.vote.weight, &[trial.k], |_, found| scores = found.to_vec()),
        }
        // Without a value of k or with too many worths there are no scores.
        scores.resize(self.slots(), 0.0);
        scores
    }
}

/// The numbers of steps after which learned votes are judged.
const STEPS: [usize; 3] = [5, 15, 30];
/// Votes are learned for at most this many labels.
const MOST_LABELS: usize = 10_000;
/// A step may multiply so many worths, all in all, with votes for own labels only and with others.
const MOST_PRODUCTS: usize = 1 << 27;
const MOST_PRODUCTS_OF_OTHERS: usize = 12_000_000;
/// The weights of the penalty: the first is tried with every k, the others with the best k.
const PENALTIES: [f32; 2] = [1.0, 0.3];
/// The same for votes for labels of others.
const PENALTY_OF_OTHERS: f32 = 0.1;
/// The vote of which worths for labels of others are learned.
const VOTE_OF_OTHERS: VoteWeight = VoteWeight::Similarity { power: 2.0 };

/// Learned votes for a few settings around the best of a grid: its k, twice that, and all neighbors, as long as more of them are
/// better; best first. A grid with a single k or vote keeps it.
pub fn learn_votes(
    found: &LeaveOneOut,
    among: TrainingLabels<'_>,
    grid: &Grid,
    tuned: &Tuned,
    threads: &Threads,
) -> Vec<(Trial, VoteLearning)> {
    let grid_search = GridSearch::new(found, among, threads);
    let value = |(trial, _): &(Trial, VoteLearning)| grid.objective.of(trial.figures);
    let longest = (0..found.len()).map(|index| found.get(index).1.len()).max().unwrap_or(0);
    if longest == 0 || !(1..=MOST_LABELS).contains(&among.sizes.len()) {
        return Vec::new();
    }
    let mut ks = vec![tuned.best.k];
    if let [.., most] = grid.ks[..]
        && grid.ks.len() > 1
    {
        ks.extend([2 * tuned.best.k, longest].map(|k| k.min(most)));
    }
    ks.sort_unstable();
    // Values that are close to each other give about the same.
    ks.dedup_by(|next, before| 2 * *next < 3 * *before);
    let mut tried: Vec<(Trial, VoteLearning)> = Vec::new();
    let mut try_out = |weight, k, others, penalty| {
        let most = Some(if others { MOST_PRODUCTS_OF_OTHERS } else { MOST_PRODUCTS });
        let by = (weight, k);
        let Some(ballots) = Ballots::new(&grid_search, by, grid.several, others, most) else {
            return f64::NEG_INFINITY;
        };
        let mut best: Option<(Trial, VoteLearning)> = None;
        let held_out = ballots.held_out(penalty, &STEPS, threads);
        for (scores, steps) in held_out.iter().zip(STEPS) {
            let vote = Vote { learned: true, ..weight.into() };
            let trial = grid_search.best(vote, k, scores, grid);
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
    let mut best = (f64::NEG_INFINITY, ks[0]);
    for &k in &ks {
        let reached = try_out(weight, k, false, PENALTIES[0]);
        if reached <= best.0 {
            break;
        }
        best = (reached, k);
    }
    for &penalty in &PENALTIES[1..] {
        try_out(weight, best.1, false, penalty);
    }
    let others = if grid.weights.len() > 1 { VOTE_OF_OTHERS } else { weight };
    try_out(others, ks[ks.len() - 1], true, PENALTY_OF_OTHERS);
    tried.sort_by(|a, b| value(b).total_cmp(&value(a)));
    tried
}

/// What the votes of all training documents are worth, learned as in a trial.
pub fn learned_votes(
    found: &LeaveOneOut,
    among: TrainingLabels<'_>,
    trial: &Trial,
    learning: VoteLearning,
    threads: &Threads,
) -> Option<LearnedVotes> {
    let grid_search = GridSearch::new(found, among, threads);
    let several = trial.decision != Candidate::Single;
    let by = (trial.vote.weight, trial.k);
    let ballots = Ballots::new(&grid_search, by, several, learning.others, None)?;
    Some(ballots.learned(learning, threads))
}
