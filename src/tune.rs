//! Tuning: one leave-one-out search pays for every k, vote and decision.
//!
//! Each training document is classified by the others. Its neighbors are searched once, for the
//! largest k; every smaller k, every vote and every decision is a re-vote on the same lists
//! ([`revote`]). Vocabulary, document frequencies and term selection are those of all training
//! documents: what is left out is the document as a neighbor.
//!
//! Documents that nearly repeat others make leave-one-out figures too good and thresholds too
//! high: [`NearDuplicates`] are no neighbors of each other here.

use std::num::NonZeroUsize;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::calibrate::{Abstention, Calibration, Seen, Signals};
use crate::decide::{Decision, ThresholdRule, decide, margin};
use crate::threads::Threads;
use crate::vote::{Ballot, Electorate, LabelScore, Vote, vote_with};

mod features;
mod neighbors;
mod sweep;
mod thresholds;

pub use features::{FeatureError, Features, Free, Recount, Step, Trials, Weighted, tune_features};
pub use neighbors::{Exclusion, LeaveOneOut, NearDuplicates, near_limit, window};
pub use thresholds::{FOLDS, LabelScores, fold, thresholds};

use sweep::Sweep;

/// What tuning maximizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// F1 over all decisions.
    #[default]
    MicroF1,
    /// The mean of the labels' F1.
    MacroF1,
    /// The share of documents that got exactly their labels.
    Accuracy,
    /// The mean of micro and macro F1.
    MicroMacro,
}

impl Objective {
    /// The value of figures.
    pub fn of(self, figures: Figures) -> f64 {
        match self {
            Self::MicroF1 => figures.micro_f1,
            Self::MacroF1 => figures.macro_f1,
            Self::Accuracy => figures.accuracy,
            Self::MicroMacro => f64::midpoint(figures.micro_f1, figures.macro_f1),
        }
    }

    /// The name that `--objective` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MicroF1 => "micro-f1",
            Self::MacroF1 => "macro-f1",
            Self::Accuracy => "accuracy",
            Self::MicroMacro => "micro+macro",
        }
    }
}

/// How good decisions are.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// F1 over all decisions.
    pub micro_f1: f64,
    /// The mean of the F1 of all labels of the training corpus.
    pub macro_f1: f64,
    /// The share of documents that got exactly their labels.
    pub accuracy: f64,
}

/// A decision without the thresholds that it learns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Candidate {
    /// One label.
    Single,
    /// One threshold for all labels.
    Global {
        /// The threshold.
        threshold: f64,
        /// Whether a document may get no label.
        allow_none: bool,
    },
    /// A threshold a label.
    PerLabel {
        /// How they are learnt.
        #[serde(rename = "thresholds")]
        rule: ThresholdRule,
        /// The limit of SCutFBR, the weight of the other labels in smoothed SCut; 0 otherwise.
        parameter: f64,
        /// Whether a document may get no label.
        allow_none: bool,
    },
    /// The first labels.
    First {
        /// How many.
        labels: usize,
    },
    /// The labels before the largest gap.
    LargestGap,
    /// The first documents of each label.
    Proportional {
        /// How many, times the label's share of the training documents.
        factor: f64,
    },
}

/// A rule of decision: which [`Candidate`]s there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// One threshold for all labels.
    Threshold,
    /// [`ThresholdRule::Scut`].
    Scut,
    /// [`ThresholdRule::ScutFbr`].
    ScutFbr,
    /// [`ThresholdRule::ScutSmoothed`].
    ScutSmoothed,
    /// [`ThresholdRule::Rtcut`].
    Rtcut,
    /// [`ThresholdRule::Micromacro`].
    Micromacro,
    /// The first labels of each document.
    Rcut,
    /// The labels of each document before the largest gap.
    Mcut,
    /// The first documents of each label: for whole batches only.
    Pcut,
}

/// The rules that are tried: one, or all that can decide on a single document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules(pub Option<Rule>);

impl Rules {
    fn allow(self, rule: Rule) -> bool {
        self.0.map_or(rule != Rule::Pcut, |only| only == rule)
    }
}

impl Candidate {
    /// Whether it is of the same kind: all but the one threshold for all labels is the same.
    pub fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Global { allow_none: a, .. }, Self::Global { allow_none: b, .. }) => a == b,
            _ => self == other,
        }
    }

    /// The rule that it follows.
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

/// One line of the table: settings and their leave-one-out figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trial {
    /// How many neighbors vote.
    pub k: usize,
    /// How much each vote counts.
    pub vote: Vote,
    /// How many labels a document gets.
    pub decision: Candidate,
    /// How good that is.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What is tried.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The numbers of neighbors, rising.
    pub ks: Vec<usize>,
    /// The votes.
    pub ballots: Vec<Ballot>,
    /// The exponents of the compensation for label sizes that single-label votes try; 0: none.
    pub compensations: Vec<f64>,
    /// Whether documents may get several labels.
    pub several: bool,
    /// The decisions for several labels.
    pub rules: Rules,
    /// What is maximized.
    pub objective: Objective,
}

/// The compensations that are tried.
const COMPENSATIONS: [f64; 4] = [0.0, 0.1, 0.25, 0.5];

impl Grid {
    /// The same with one vote only.
    #[must_use]
    pub fn with_vote(self, vote: Vote) -> Self {
        Self { ballots: vec![vote.ballot], compensations: vec![vote.compensation], ..self }
    }

    /// Every k up to `k_max` and every vote.
    pub fn full(k_max: NonZeroUsize, several: bool, objective: Objective) -> Self {
        let powers = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
        let mut ballots: Vec<Ballot> =
            powers.into_iter().map(|power| Ballot::Similarity { power }).collect();
        ballots.extend([Ballot::Uniform, Ballot::Rank]);
        ballots.extend([5.0, 10.0, 20.0].map(|beta| Ballot::Exp { beta }));
        let compensations = COMPENSATIONS.to_vec();
        Self {
            ks: (1..=k_max.get()).collect(),
            ballots,
            compensations,
            several,
            rules: Rules::default(),
            objective,
        }
    }

    /// A few k up to `k_max` and votes, for comparing features.
    pub fn coarse(k_max: NonZeroUsize, several: bool, objective: Objective) -> Self {
        let ks = [1, 3, 5, 10, 15, 20, 30, 45, 60, 85, 120, 160, 200];
        let ks = ks.into_iter().filter(|&k| k <= k_max.get()).collect();
        let powers = [1.0, 2.0, 4.0];
        let ballots = powers.into_iter().map(|power| Ballot::Similarity { power }).collect();
        Self {
            ks,
            ballots,
            compensations: COMPENSATIONS.to_vec(),
            several,
            rules: Rules::default(),
            objective,
        }
    }
}

/// The best of a grid, and all of it.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// The best settings.
    pub best: Trial,
    /// Their decision, with what it has learnt.
    pub decision: Decision,
    /// Everything that was tried, by vote, k and decision.
    pub trials: Vec<Trial>,
}

/// What a sweep of several labels may cost: numbers of neighbors times pairs of a document and a
/// label that its neighbors have.
const WORK: usize = 50_000_000;
/// So many numbers of neighbors are tried at least.
const FEWEST: usize = 12;

/// At most `most` of `ks`, the first and the last among them, in about equal ratios.
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

/// Tries a grid on leave-one-out neighbors. `among` are the training documents. Where many labels
/// make that long, fewer k are tried, in about equal ratios. Of equal values
/// the smaller k wins, then the vote and the decision that come first.
///
/// # Panics
/// If the grid has no k or no vote.
pub fn revote(found: &LeaveOneOut, among: Electorate<'_>, grid: &Grid, threads: &Threads) -> Tuned {
    let sweep = Sweep::new(found, among);
    let most = if grid.several { WORK / sweep.len().max(1) } else { usize::MAX };
    let ks = thinned(&grid.ks, most.max(FEWEST));
    let objective = |figures: Figures| grid.objective.of(figures);
    let by_ballot = |&ballot: &Ballot| {
        let mut trials = Vec::new();
        let mut room = sweep::Room::new(&sweep);
        sweep.run(ballot, &ks, |k, scores| {
            let mut push = |compensation, decision, figures| {
                let vote = Vote { ballot, compensation };
                trials.push(Trial { k, vote, decision, figures });
            };
            if grid.several {
                sweep.multi(
                    scores,
                    &mut room,
                    grid.rules,
                    &objective,
                    &mut |candidate, figures| {
                        push(0.0, candidate, figures);
                    },
                );
            } else {
                sweep.single(scores, &grid.compensations, &mut |compensation, figures| {
                    push(compensation, Candidate::Single, figures);
                });
            }
        });
        trials
    };
    let trials: Vec<Trial> = threads
        .run(|| grid.ballots.par_iter().map(by_ballot).collect::<Vec<_>>())
        .into_iter()
        .flatten()
        .collect();
    let better = |best: Trial, next: &Trial| {
        let (old, new) = (objective(best.figures), objective(next.figures));
        if new > old || (new >= old && next.k < best.k) { *next } else { best }
    };
    let best = trials.iter().skip(1).fold(trials[0], better);
    let (decision, _) = sweep.learn(&best);
    Tuned { best, decision, trials }
}

/// What the decision of a trial learns from other neighbors than it was chosen on, and its figures
/// there.
pub fn learn(found: &LeaveOneOut, among: Electorate<'_>, trial: &Trial) -> (Decision, Figures) {
    Sweep::new(found, among).learn(trial)
}

/// What the decision of a trial learns from the documents of the other parts, for each part: what
/// its figures come from.
pub fn learn_by_fold(
    found: &LeaveOneOut,
    among: Electorate<'_>,
    trial: &Trial,
) -> [Decision; FOLDS] {
    Sweep::new(found, among).learn_by_fold(trial)
}

/// The curves from scores to probabilities that left-out documents teach.
pub fn calibrate(found: &LeaveOneOut, among: Electorate<'_>, trial: &Trial) -> Calibration {
    let factors = among.factors(trial.vote);
    let mut labels: Vec<Vec<Seen>> = vec![Vec::new(); among.sizes.len()];
    let mut due_without_vote = vec![0.0; labels.len()];
    for index in 0..found.len() {
        let (row, neighbors) = found.get(index);
        let due = among.labels(row);
        let neighbors = &neighbors[..neighbors.len().min(trial.k)];
        for &label in due {
            due_without_vote[label as usize] += 1.0;
        }
        for LabelScore { label, score } in vote_with(neighbors, trial.vote.ballot, &factors, &among)
        {
            let right = if due.contains(&label) { 1.0 } else { 0.0 };
            labels[label as usize].push(Seen { score, count: 1.0, right });
            due_without_vote[label as usize] -= right;
        }
    }
    for (seen, right) in labels.iter_mut().zip(due_without_vote) {
        let count = (found.len() - seen.len()) as f64;
        seen.push(Seen { score: 0.0, count, right });
    }
    Calibration::fit(labels)
}

/// When a model may abstain for a target share of wrong labels, from left-out documents.
/// `unknown` tells the share of unknown terms of a document.
pub fn abstention(
    found: &LeaveOneOut,
    among: Electorate<'_>,
    trial: &Trial,
    target_error: f64,
    unknown: &dyn Fn(u32) -> f64,
) -> Abstention {
    let factors = among.factors(trial.vote);
    let decisions = learn_by_fold(found, among, trial);
    let mut documents = Vec::with_capacity(found.len());
    for index in 0..found.len() {
        let (row, neighbors) = found.get(index);
        let neighbors = &neighbors[..neighbors.len().min(trial.k)];
        let scores = vote_with(neighbors, trial.vote.ballot, &factors, &among);
        let best = neighbors.first().map_or(0.0, |neighbor| neighbor.similarity);
        let decision = &decisions[fold(index, found.len())];
        let given = decide(&scores, decision);
        let right = given.iter().filter(|label| among.labels(row).contains(label)).count();
        let signals =
            Signals { similarity: best, margin: margin(&scores, decision), unknown: unknown(row) };
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        documents.push((signals, count(given.len()), count(right)));
    }
    Abstention::learn(target_error, &documents)
}
