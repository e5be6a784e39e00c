//! Tuning: a single leave-one-out search serves every k, vote and decision.
//!
//! Each training document is classified by the others. Its neighbors are searched once, for the
//! largest k; every smaller k, every vote and every decision only re-votes on the same lists
//! ([`revote`]). Vocabulary, document frequencies and term selection are those of all training
//! documents: a document is left out only as a neighbor.
//!
//! Near-copies of documents make leave-one-out figures too good and thresholds too high, so
//! [`NearDuplicates`] are not neighbors of each other here.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::calibrate::{Answer, Calibration, ConfidenceLimit, Seen, Votes, confidence};
use crate::decide::{Decision, Rule, ThresholdRule, decide};
use crate::threads::Threads;
use crate::vote::{TrainingLabels, Vote, VoteWeight};

mod counted;
mod features;
mod folds;
mod foreign;
mod held_out;
mod learned_terms;
mod neighbors;
mod report;
mod grid_search;
mod prototypes;
mod thresholds;

pub use counted::{Counted, Features, Indexed, LeaveOutSearch, Weighted};
pub use features::{FeatureError, Free, Recount, Step, TrialSetup, Trials, tune_features};
pub use folds::{drawn, folds, hashes};
pub(crate) use foreign::{ByDocument, foreign_limit};
pub use foreign::{Foreign, WithoutLabels};
pub use grid_search::VoteLearning;
pub use held_out::{HeldOut, HeldOutDocument, learn_votes, learned_votes};
pub(crate) use learned_terms::learned_terms;
pub use neighbors::{Exclusion, LeaveOneOut, NearDuplicates, near_limit, nearest, reach, window};
pub use prototypes::{FoldRows, HeldOutPrototypes, try_prototypes};
pub use report::{Expected, TuningReport, TuningSummary};
pub use thresholds::{FOLDS, LabelScores, thresholds};

use grid_search::GridSearch;

/// The objective to maximize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Micro F1: F1 over all decisions.
    #[default]
    MicroF1,
    /// Macro F1: the mean of the labels' F1.
    MacroF1,
    /// Accuracy: the share of documents with exactly the right labels.
    Accuracy,
    /// The mean of micro and macro F1.
    MicroMacro,
    /// Precision at 5: the mean share of right labels among the five best.
    #[serde(rename = "p@5")]
    PrecisionAt5,
    /// Top-3 accuracy: the share of documents with a right label among the three best.
    #[serde(rename = "top-3-accuracy")]
    Top3Accuracy,
}

impl Objective {
    /// The objective's value for some figures.
    pub fn of(self, figures: Figures) -> f64 {
        match self {
            Self::MicroF1 => figures.micro_f1,
            Self::MacroF1 => figures.macro_f1,
            Self::Accuracy => figures.accuracy,
            Self::MicroMacro => f64::midpoint(figures.micro_f1, figures.macro_f1),
            Self::PrecisionAt5 | Self::Top3Accuracy => figures.by_ranks.unwrap_or(0.0),
        }
    }

    /// What to maximize among decisions on the same ranking of labels: micro F1 if the objective does not
    /// depend on decisions.
    pub(crate) fn of_decision(self, figures: Figures) -> f64 {
        if self.best_labels().is_some() { figures.micro_f1 } else { self.of(figures) }
    }

    /// The number of best labels that the objective looks at, if it depends on these alone.
    pub(crate) fn best_labels(self) -> Option<usize> {
        match self {
            Self::PrecisionAt5 => Some(5),
            Self::Top3Accuracy => Some(3),
            Self::MicroF1 | Self::MacroF1 | Self::Accuracy | Self::MicroMacro => None,
        }
    }

    /// The objective for a document with so many right labels among the best, if it depends on these alone.
    fn of_ranking(self, right: usize) -> f64 {
        match self {
            Self::PrecisionAt5 => right as f64 / 5.0,
            _ => f64::from(u8::from(right > 0)),
        }
    }

    /// The objective's name in `--objective`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MicroF1 => "micro-f1",
            Self::MacroF1 => "macro-f1",
            Self::Accuracy => "accuracy",
            Self::MicroMacro => "micro+macro",
            Self::PrecisionAt5 => "p@5",
            Self::Top3Accuracy => "top-3-accuracy",
        }
    }
}

/// The quality of decisions, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// F1 over all decisions.
    pub micro_f1: f64,
    /// The mean F1 of all labels of the training corpus.
    pub macro_f1: f64,
    /// The share of documents with exactly the right labels.
    pub accuracy: f64,
    /// Precision at 5 or top-3 accuracy, if one of them is the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_ranks: Option<f64>,
}

/// A decision, without the thresholds that it learns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Candidate {
    /// One label.
    Single,
    /// One threshold for all labels.
    Global {
        /// The threshold.
        threshold: f64,
        /// Whether a document may have no label.
        allow_none: bool,
    },
    /// One threshold per label.
    PerLabel {
        /// How the thresholds are learned.
        #[serde(rename = "thresholds")]
        rule: ThresholdRule,
        /// The limit of SCutFBR, or the weight of the other labels in smoothed SCut; otherwise 0.
        parameter: f64,
        /// Whether a document may have no label.
        allow_none: bool,
    },
    /// The best labels.
    First {
        /// The number of labels.
        labels: usize,
    },
    /// The labels before the largest gap.
    LargestGap,
    /// The best documents of each label.
    Proportional {
        /// The number of documents, relative to the label's share of the training documents.
        factor: f64,
    },
}

/// The rules to try: a single one, or all that can decide on a single document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules(pub Option<Rule>);

impl Rules {
    fn allow(self, rule: Rule) -> bool {
        self.0.map_or(rule != Rule::Pcut, |only| only == rule)
    }
}

impl Candidate {
    /// Whether two candidates are equal, ignoring the value of a single threshold for all labels.
    pub fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Global { allow_none: a, .. }, Self::Global { allow_none: b, .. }) => a == b,
            _ => self == other,
        }
    }

    /// The rule that the candidate follows.
    fn rules(self) -> Rules {
        Rules(match self {
            Self::Single => None,
            Self::Global { .. } => Some(Rule::Threshold),
            Self::PerLabel { rule, .. } => Some(rule.into()),
            Self::First { .. } => Some(Rule::Rcut),
            Self::LargestGap => Some(Rule::Mcut),
            Self::Proportional { .. } => Some(Rule::Pcut),
        })
    }
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = |allow_none: &bool| if *allow_none { "" } else { ", at least one" };
        match self {
            Self::Single => f.write_str("one label"),
            Self::Global { threshold, allow_none } => {
                write!(f, "threshold {threshold}{}", one(allow_none))
            }
            Self::PerLabel { rule, parameter, allow_none } if *parameter > 0.0 => {
                write!(f, "{} {parameter}{}", rule.name(), one(allow_none))
            }
            Self::PerLabel { rule, allow_none, .. } => {
                write!(f, "{}{}", rule.name(), one(allow_none))
            }
            Self::First { labels } => write!(f, "rcut {labels}"),
            Self::LargestGap => f.write_str("mcut"),
            Self::Proportional { factor } => write!(f, "pcut {factor}"),
        }
    }
}

/// A row of the results: settings and their leave-one-out figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trial {
    /// The number of neighbors that vote.
    pub k: usize,
    /// How votes are weighted.
    pub vote: Vote,
    /// How labels are chosen.
    pub decision: Candidate,
    /// The leave-one-out figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The settings to try.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The numbers of neighbors, increasing.
    pub ks: Vec<usize>,
    /// The votes.
    pub weights: Vec<VoteWeight>,
    /// The exponents γ of the label-size compensation that single-label votes try; 0: none.
    pub compensations: Vec<f64>,
    /// Whether documents may have several labels.
    pub several: bool,
    /// The decisions for several labels.
    pub rules: Rules,
    /// The objective to maximize.
    pub objective: Objective,
}

/// The exponents of the label-size compensation to try.
const COMPENSATIONS: [f64; 4] = [0.0, 0.1, 0.25, 0.5];

impl Grid {
    /// The same grid with a single vote.
    #[must_use]
    pub fn with_vote(self, vote: Vote) -> Self {
        Self { weights: vec![vote.weight], compensations: vec![vote.compensation], ..self }
    }

    /// Every k up to `k_max` (above 1,000 in steps of 1 %) and every vote.
    pub fn full(k_max: NonZeroUsize, several: bool, objective: Objective) -> Self {
        let powers = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
        let mut weights: Vec<VoteWeight> =
            powers.into_iter().map(|power| VoteWeight::Similarity { power }).collect();
        weights.extend([VoteWeight::Uniform, VoteWeight::Rank]);
        weights.extend([5.0, 10.0, 20.0].map(|beta| VoteWeight::Exp { beta }));
        let compensations = COMPENSATIONS.to_vec();
        Self {
            ks: numbers_up_to(k_max.get()),
            weights,
            compensations,
            several,
            rules: Rules::default(),
            objective,
        }
    }

    /// A few values of k up to `k_max` and a few votes, for comparing features.
    pub fn coarse(k_max: NonZeroUsize, several: bool, objective: Objective) -> Self {
        let ks = [1, 3, 5, 10, 15, 20, 30, 45, 60, 85, 120, 160, 200];
        let ks = ks.into_iter().filter(|&k| k <= k_max.get()).collect();
        let powers = [1.0, 2.0, 4.0];
        let weights = powers.into_iter().map(|power| VoteWeight::Similarity { power }).collect();
        Self {
            ks,
            weights,
            compensations: COMPENSATIONS.to_vec(),
            several,
            rules: Rules::default(),
            objective,
        }
    }
}

/// All numbers up to 1,000, then in steps of about 1 %; the last is `most`.
fn numbers_up_to(most: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (1..=most.min(1_000)).collect();
    while let Some(&last) = numbers.last()
        && last < most
    {
        numbers.push(last.saturating_add(last / 100).min(most));
    }
    numbers
}

/// The values of `ks` (increasing) that give different results if no document has more than
/// `longest` neighbors: the first value that takes all of them is the last.
fn distinct(ks: &[usize], longest: usize) -> &[usize] {
    let end = ks.partition_point(|&k| k < longest) + 1;
    &ks[..end.min(ks.len())]
}

/// The best settings of a grid, and all results.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// The best settings.
    pub best: Trial,
    /// The decision of the best settings, with the thresholds that it learned.
    pub decision: Decision,
    /// All results, by vote, k and decision.
    pub trials: Vec<Trial>,
}

/// The number of values of k that the first round of [`tune_votes`] tries.
const COARSE: usize = 8;
/// The number of pairs of vote and rule that the second round tries.
const FINALISTS: usize = 6;
/// The number of values of k that the second round tries for each.
const REFINED: usize = 16;

/// At most `most` of `ks`, including the first and the last, in about equal ratios.
fn thinned(ks: &[usize], most: usize) -> Vec<usize> {
    let (Some(&first), Some(&last)) = (ks.first(), ks.last()) else { return Vec::new() };
    if ks.len() <= most {
        return ks.to_vec();
    }
    let ratio = libm::pow(last as f64 / first as f64, 1.0 / (most - 1) as f64);
    let mut left = vec![first];
    for &k in ks {
        let next = left[left.len() - 1] as f64 * ratio;
        if k == last || (k as f64 >= next && left.len() + 1 < most) {
            left.push(k);
        }
    }
    left
}

/// The values of k of a vote are shared by threads as long as these have at most so many scores of
/// labels in total, which take about 5 GiB.
const SLOTS: usize = 1 << 26;

/// A grid, and the votes of left-out documents on which it is evaluated.
struct Revoting<'a> {
    grid_search: GridSearch<'a>,
    grid: &'a Grid,
    /// The values of k that give different results.
    ks: &'a [usize],
    compensations: Vec<grid_search::Compensation>,
    threads: &'a Threads,
}

impl<'a> Revoting<'a> {
    fn new(
        found: &'a LeaveOneOut,
        among: TrainingLabels<'a>,
        grid: &'a Grid,
        threads: &'a Threads,
    ) -> Self {
        let grid_search = GridSearch::new(found, among, threads);
        let longest = (0..found.len()).map(|index| found.get(index).1.len()).max().unwrap_or(0);
        let compensations = grid_search.compensations(&grid.compensations);
        let ks = distinct(&grid.ks, longest);
        Self { grid_search, grid, ks, compensations, threads }
    }

    /// The trials of these votes, each for its values of k (increasing) and its rules; in their order.
    fn trials(&self, votes: &[(VoteWeight, Vec<usize>, Rules)]) -> Vec<Trial> {
        // Several threads share the values of k of one vote, if that takes little memory.
        let pieces = self.threads.count().div_ceil(votes.len().max(1));
        let pieces = pieces.min(SLOTS / self.grid_search.slots().max(1)).max(1);
        let tasks: Vec<(VoteWeight, &[usize], Rules)> = votes
            .iter()
            .flat_map(|&(weight, ref ks, rules)| {
                ks.chunks(ks.len().div_ceil(pieces).max(1)).map(move |ks| (weight, ks, rules))
            })
            .collect();
        let trials = self.threads.run(|| {
            tasks
                .par_iter()
                .map(|&(weight, ks, rules)| self.of_vote(weight, ks, rules))
                .collect::<Vec<_>>()
        });
        trials.into_iter().flatten().collect()
    }

    fn of_vote(&self, weight: VoteWeight, ks: &[usize], rules: Rules) -> Vec<Trial> {
        let mut trials = Vec::new();
        let mut workspace = grid_search::Workspace::new(&self.grid_search);
        let objective = self.grid.objective;
        self.grid_search.run(weight, ks, |k, scores| {
            let first = trials.len();
            let mut push = |compensation, decision, figures| {
                let vote = Vote { compensation, ..weight.into() };
                trials.push(Trial { k, vote, decision, figures });
            };
            if self.grid.several {
                let found = &mut |candidate, figures| push(0.0, candidate, figures);
                self.grid_search.multi(scores, &mut workspace, rules, objective, found);
            } else {
                let found = &mut |compensation, figures| {
                    push(compensation, Candidate::Single, figures);
                };
                self.grid_search.single(scores, &self.compensations, found);
            }
            if self.grid.objective.best_labels().is_some() {
                for trial in &mut trials[first..] {
                    trial.figures.by_ranks =
                        self.grid_search.ranked_value(self.grid.objective, trial.vote, scores);
                }
            }
        });
        trials
    }

    /// Puts trials in order, by vote, k and decision, and learns the decision of the best.
    fn finish(&self, mut trials: Vec<Trial>) -> Tuned {
        let position = |trial: &Trial| {
            self.grid.weights.iter().position(|&weight| weight == trial.vote.weight)
        };
        trials.sort_by_key(|trial| (position(trial), trial.k));
        let best = self.best(&trials);
        let decision = self.decision(&best);
        Tuned { best, decision, trials }
    }

    fn decision(&self, trial: &Trial) -> Decision {
        let mut decision = Decision::Single;
        self.grid_search.run(trial.vote.weight, &[trial.k], |_, scores| {
            decision = self.grid_search.learn(trial, scores).0;
        });
        decision
    }

    /// The best trial; ties go to the smaller k, then to the first.
    fn best(&self, trials: &[Trial]) -> Trial {
        let objective = |trial: &Trial| {
            let objective = self.grid.objective;
            (objective.of(trial.figures), objective.of_decision(trial.figures))
        };
        let better = |best: Trial, next: &Trial| {
            let (old, new) = (objective(&best), objective(next));
            if new > old || (new >= old && next.k < best.k) { *next } else { best }
        };
        trials.iter().skip(1).fold(trials[0], better)
    }
}

/// Evaluates all of a grid on leave-one-out neighbors. `among` are the training documents. Values
/// of k above the longest neighbor list are skipped. If documents with very many labels would fill
/// the memory, fewer left-out documents are used, evenly spaced. Ties go to the smaller k, then to
/// the vote and the decision that come first.
///
/// # Panics
/// If the grid has no k or no votes.
pub fn revote(
    found: &LeaveOneOut,
    among: TrainingLabels<'_>,
    grid: &Grid,
    threads: &Threads,
) -> Tuned {
    let revoting = Revoting::new(found, among, grid, threads);
    let votes = grid.weights.iter().map(|&weight| (weight, revoting.ks.to_vec(), grid.rules));
    revoting.finish(revoting.trials(&votes.collect::<Vec<_>>()))
}

/// Finds the best settings of a grid, or nearly the best, without evaluating all of it:
///
/// 1. every vote and rule with up to 8 values of k, in about equal ratios;
/// 2. the six best pairs of vote and rule with up to 16 values of k around the best of each.
///
/// Neighboring settings differ by less than chance does, and the more settings are compared, the
/// more the best owes to chance. Otherwise as [`revote`].
///
/// # Panics
/// If the grid has no k or no votes.
pub fn tune_votes(
    found: &LeaveOneOut,
    among: TrainingLabels<'_>,
    grid: &Grid,
    threads: &Threads,
) -> Tuned {
    let revoting = Revoting::new(found, among, grid, threads);
    let ks = thinned(revoting.ks, COARSE);
    let votes = grid.weights.iter().map(|&weight| (weight, ks.clone(), grid.rules));
    let mut trials = revoting.trials(&votes.collect::<Vec<_>>());
    let around = |finalist: Trial| {
        let at = ks.partition_point(|&k| k < finalist.k);
        let around = ks[at.saturating_sub(1)]..=ks[(at + 1).min(ks.len() - 1)];
        let near: Vec<usize> = revoting.ks.iter().copied().filter(|k| around.contains(k)).collect();
        let refined = thinned(&near, REFINED).into_iter().filter(|k| !ks.contains(k)).collect();
        (finalist.vote.weight, refined, finalist.decision.rules())
    };
    let votes: Vec<_> = finalists(&trials, grid).into_iter().map(around).collect();
    trials.extend(revoting.trials(&votes));
    revoting.finish(trials)
}

/// The best trial of each of the best pairs of vote and rule.
fn finalists(trials: &[Trial], grid: &Grid) -> Vec<Trial> {
    let mut order: Vec<&Trial> = trials.iter().collect();
    let value = |trial: &Trial| grid.objective.of(trial.figures);
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

/// The largest number of left-out documents from which probabilities are learned.
const MOST_SEEN: usize = 20_000;

/// Learns the probabilities of labels from left-out documents, without those of a fold if given.
/// `unknown` returns the share of unknown terms of a document.
fn probabilities(
    documents: &[HeldOutDocument<'_>],
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
    without: Option<usize>,
) -> Calibration {
    let every = documents.len().div_ceil(MOST_SEEN).max(1);
    let taken = documents.iter().step_by(every).filter(|seen| Some(seen.fold) != without);
    let seen = taken.map(|HeldOutDocument { row, voters, scores, .. }| Seen {
        scores: scores.clone(),
        voters: *voters,
        unknown: unknown(*row),
        gold: among.labels(*row),
    });
    Calibration::fit(seen, &among)
}

/// Learns the probabilities of labels from left-out documents. `unknown` returns the share of unknown
/// terms of a document.
pub fn calibrate(
    held_out: &HeldOut<'_>,
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
) -> Calibration {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    probabilities(&documents, among, unknown, None)
}

/// Learns when a model must abstain to reach a target error, from left-out documents: those of each
/// fold are decided, and their confidence told, by what the other folds teach. `unknown` returns the
/// share of unknown terms of a document, and `decisions` are what the folds outside each teach. If documents
/// were left out twice, without their near-duplicates and with them, the target is reached both ways: new documents may or may not have near-duplicates.
pub fn abstention(
    held_out: &HeldOut<'_>,
    decisions: &[Decision; FOLDS],
    among: TrainingLabels<'_>,
    target_error: f64,
    unknown: &dyn Fn(u32) -> f64,
) -> ConfidenceLimit {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    // By document, left out for the first and the second time.
    let mut answers: BTreeMap<u32, [Option<Answer>; 2]> = BTreeMap::new();
    for (fold, decision) in decisions.iter().enumerate() {
        let calibration = probabilities(&documents, among, unknown, Some(fold));
        for HeldOutDocument { row, again, kin, voters, scores, .. } in
            documents.iter().filter(|document| document.fold == fold)
        {
            let (voters, unknown) = (*voters, unknown(*row));
            let counted = Votes { scores, supporters: &[], voters, unknown };
            let mut known = Vec::new();
            calibration.probabilities(counted, scores.len(), &among, &mut known);
            let given = decide(scores, decision);
            let gold = among.labels(*row);
            let right = given.iter().filter(|label| gold.binary_search(label).is_ok()).count();
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let answer = Answer {
                confidence: confidence(&given, scores, &known),
                given: count(given.len()),
                right: count(right),
                cluster: *kin,
            };
            answers.entry(*row).or_default()[usize::from(*again)] = Some(answer);
        }
    }
    let first: Vec<Answer> = answers.values().filter_map(|[first, _]| *first).collect();
    let last: Vec<Answer> =
        answers.values().filter_map(|[first, again]| again.or(*first)).collect();
    if answers.values().all(|[_, again]| again.is_none()) {
        return ConfidenceLimit::learn(target_error, &first);
    }
    // Neither of the two limits may fail.
    let limits = [first, last].map(|answers| ConfidenceLimit::one_of_two(target_error, &answers));
    let [first, last] = limits;
    match (first.confidence, last.confidence) {
        (Some(one), Some(other)) if one < other => last,
        (Some(_), None) => last,
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_neighbors() {
        assert_eq!(numbers_up_to(3), [1, 2, 3]);
        assert_eq!(
            numbers_up_to(1_015),
            [&(1..=1_000).collect::<Vec<_>>()[..], &[1_010, 1_015]].concat()
        );
        let all = numbers_up_to(usize::MAX);
        assert!(all.len() < 6_000 && all.is_sorted_by(|a, b| a < b));
        assert_eq!(all.last(), Some(&usize::MAX));
        let ks = [1, 5, 10, 20];
        assert_eq!(distinct(&ks, 0), [1]);
        assert_eq!(distinct(&ks, 5), [1, 5]);
        assert_eq!(distinct(&ks, 6), [1, 5, 10]);
        assert_eq!(distinct(&ks, 99), ks);
        assert_eq!(distinct(&[], 3), [0; 0]);
        let k_max = NonZeroUsize::MAX;
        assert_eq!(Grid::coarse(k_max, true, Objective::MicroF1).ks.last(), Some(&200));
    }
}
