//! The settings that tuning tries: the number of neighbors, the vote and the decision.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::decide::decision::{Rule, ThresholdRule};
use crate::decide::objective::{Metrics, Objective};
use crate::decide::vote::{Vote, VoteWeight};

/// A decision, without its learned thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Candidate {
    /// The label with the highest score.
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
        /// The limit of SCutFBR, or the weight of labels of similar frequency in the smoothed
        /// rules; otherwise 0.
        parameter: f64,
        /// Whether a document may have no label.
        allow_none: bool,
    },
    /// A fixed number of labels, by decreasing score.
    First {
        /// The number of labels.
        labels: usize,
    },
    /// The labels before the largest gap.
    LargestGap,
    /// The documents with the highest scores for each label.
    Proportional {
        /// The ratio of the share of documents that get a label to the label's share of the
        /// training documents.
        factor: f64,
    },
}

/// The decision rules to try: a single rule, or all rules that decide on each document separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::learn) struct Rules(pub(in crate::learn) Option<Rule>);

impl Rules {
    pub(super) fn allow(self, rule: Rule) -> bool {
        self.0.map_or(rule != Rule::Pcut, |only| only == rule)
    }
}

impl Candidate {
    /// Whether two candidates are equal, ignoring the value of a global threshold.
    pub(crate) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Global { allow_none: a, .. }, Self::Global { allow_none: b, .. }) => a == b,
            _ => self == other,
        }
    }

    /// Returns the rule of the candidate.
    pub(super) fn rules(self) -> Rules {
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

/// Settings and their leave-one-out metrics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trial {
    /// The number of neighbors that vote.
    pub k: usize,
    /// How votes are weighted.
    pub vote: Vote,
    /// How labels are chosen.
    pub decision: Candidate,
    /// The leave-one-out metrics.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// The settings to try.
#[derive(Debug, Clone)]
pub(in crate::learn) struct Grid {
    /// The numbers of neighbors, in increasing order.
    pub ks: Vec<usize>,
    /// The vote weightings.
    pub weights: Vec<VoteWeight>,
    /// The exponents γ of the label-size compensation that single-label votes try; 0: no
    /// compensation.
    pub compensations: Vec<f64>,
    /// Whether documents may have several labels.
    pub multi_label: bool,
    /// The rules of multi-label decisions.
    pub rules: Rules,
    /// The objective to maximize.
    pub objective: Objective,
}

/// The exponents of the label-size compensation to try.
const COMPENSATIONS: [f64; 4] = [0.0, 0.1, 0.25, 0.5];

impl Grid {
    /// Returns the same grid with a single vote.
    #[must_use]
    pub(crate) fn with_vote(self, vote: Vote) -> Self {
        Self { weights: vec![vote.weight], compensations: vec![vote.compensation], ..self }
    }

    /// Returns a grid of every vote and every k up to `k_max`; above 1,000, k increases in steps of
    /// 1 %.
    pub(crate) fn full(k_max: NonZeroUsize, multi_label: bool, objective: Objective) -> Self {
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
            multi_label,
            rules: Rules::default(),
            objective,
        }
    }

    /// Returns a grid of a few values of k up to `k_max` and a few votes, for comparing features.
    pub(crate) fn coarse(k_max: NonZeroUsize, multi_label: bool, objective: Objective) -> Self {
        let ks = [1, 3, 5, 10, 15, 20, 30, 45, 60, 85, 120, 160, 200];
        let ks = ks.into_iter().filter(|&k| k <= k_max.get()).collect();
        let powers = [1.0, 2.0, 4.0];
        let weights = powers.into_iter().map(|power| VoteWeight::Similarity { power }).collect();
        Self {
            ks,
            weights,
            compensations: COMPENSATIONS.to_vec(),
            multi_label,
            rules: Rules::default(),
            objective,
        }
    }
}

/// Returns all numbers up to 1,000, then numbers in steps of about 1 %; the last is `max`.
fn numbers_up_to(max: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (1..=max.min(1_000)).collect();
    while let Some(&last) = numbers.last()
        && last < max
    {
        numbers.push(last.saturating_add(last / 100).min(max));
    }
    numbers
}

/// Returns the values of `ks` (increasing) that give different results if no document has more than
/// `longest` neighbors. The last of them is the first value that is not below `longest`.
pub(in crate::learn) fn distinct(ks: &[usize], longest: usize) -> &[usize] {
    let end = ks.partition_point(|&k| k < longest) + 1;
    &ks[..end.min(ks.len())]
}

/// Returns at most `max_count` of `ks`, including the first and the last, in about equal ratios.
pub(in crate::learn) fn thin_out(ks: &[usize], max_count: usize) -> Vec<usize> {
    let Some(&first) = ks.first() else { return Vec::new() };
    let last = ks[ks.len() - 1];
    if ks.len() <= max_count {
        return ks.to_vec();
    }
    let ratio = libm::pow(last as f64 / first as f64, 1.0 / (max_count - 1) as f64);
    let mut left = vec![first];
    for &k in ks {
        let next = left[left.len() - 1] as f64 * ratio;
        if k == last || (k as f64 >= next && left.len() + 1 < max_count) {
            left.push(k);
        }
    }
    left
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
