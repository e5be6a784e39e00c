//! Label scores → labels.
//!
//! | rule | gives |
//! |---|---|
//! | [`Single`](Decision::Single) | the label of highest score |
//! | [`Multi`](Decision::Multi) | every label whose score reaches one threshold |
//! | [`PerLabel`](Decision::PerLabel) | every label whose score reaches its own threshold |
//! | [`First`](Decision::First) | the first n labels (RCut, Yang 2001) |
//! | [`LargestGap`](Decision::LargestGap) | the labels before the largest fall of the score (MCut, Largeron et al. 2012) |
//! | [`Proportional`](Decision::Proportional) | for each label the documents of highest score, in proportion to its training documents (PCut, Yang 2001): needs the whole batch |

use serde::{Deserialize, Serialize};

use crate::vote::LabelScore;

/// How many labels a document gets, and which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Decision {
    /// The label of highest score.
    Single,
    /// Every label whose share of the vote reaches a threshold.
    Multi {
        /// The threshold, from 0 to 1.
        threshold: f64,
        /// Whether a document may get no label where no share reaches the threshold; otherwise
        /// it gets the label of highest score.
        allow_none: bool,
    },
    /// Every label whose score reaches the label's own threshold.
    PerLabel {
        /// How the thresholds were learnt.
        rule: ThresholdRule,
        /// One a label; `None`: the label is never given, save to a document that must have one.
        thresholds: Vec<Option<f64>>,
        /// As in [`Decision::Multi`].
        allow_none: bool,
    },
    /// The labels of highest score, so many.
    First {
        /// How many.
        labels: usize,
    },
    /// The labels before the largest fall of the score from one to the next (the last one falls
    /// to 0).
    LargestGap,
    /// For each label the documents of highest score: as many as the label's share of the
    /// training documents times `factor` times the documents of the batch.
    Proportional {
        /// The factor.
        factor: f64,
        /// The share of the training documents that have the label, one a label.
        shares: Vec<f64>,
    },
}

/// How thresholds of labels are learnt from leave-one-out scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdRule {
    /// The threshold of best F1 of the label (SCut, Yang 2001).
    Scut,
    /// The same, but where the best F1 is under a limit (fbr) the highest score is the
    /// threshold (SCutFBR.1, Yang 2001).
    ScutFbr,
    /// The threshold where the label's F1, together with that of the labels of nearest frequency,
    /// is best: for labels of few documents, whose own best threshold is chance.
    ScutSmoothed,
    /// Labels by falling frequency; for each the threshold that maximizes the micro F1 so far
    /// plus the label's share of the macro F1 (`micromacro-freq`, Lin and Lin 2023).
    Micromacro,
    /// SCut on rank and score together: a label's value is score / 2 − rank, rank from 0
    /// (RTCut, Yang 2001).
    Rtcut,
}

impl ThresholdRule {
    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scut => "scut",
            Self::ScutFbr => "scut-fbr",
            Self::ScutSmoothed => "scut-smoothed",
            Self::Micromacro => "micromacro",
            Self::Rtcut => "rtcut",
        }
    }

    /// What is compared with the threshold of the label at `rank` (from 0).
    pub fn value(self, score: f64, rank: usize) -> f64 {
        match self {
            Self::Rtcut => score / 2.0 - rank as f64,
            Self::Scut | Self::ScutFbr | Self::ScutSmoothed | Self::Micromacro => score,
        }
    }
}

impl Decision {
    /// The threshold of [`Decision::Multi`] where none is given.
    pub const THRESHOLD: f64 = 0.4;

    /// Whether the labels of a document depend on the other documents.
    pub fn needs_batch(&self) -> bool {
        matches!(self, Self::Proportional { .. })
    }

    /// Whether a document may get several labels.
    pub fn is_multi(&self) -> bool {
        *self != Self::Single
    }

    /// The sentence that says what is wrong, for a model of so many labels.
    pub(crate) fn check(&self, labels: usize) -> Result<(), &'static str> {
        let share = |share: &f64| (0.0..=1.0).contains(share);
        match self {
            Self::Multi { threshold, .. } if !share(threshold) => {
                Err("the threshold is not from 0 to 1")
            }
            Self::PerLabel { thresholds, .. } if thresholds.len() != labels => {
                Err("not one threshold a label")
            }
            Self::First { labels: 0 } => Err("no label for any document"),
            Self::Proportional { shares, .. } if shares.len() != labels => {
                Err("not one share a label")
            }
            Self::Proportional { factor, shares }
                if !(factor.is_finite() && *factor >= 0.0 && shares.iter().all(share)) =>
            {
                Err("a share that is not from 0 to 1, or no factor")
            }
            _ => Ok(()),
        }
    }
}

/// In words, for reports.
impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = |allow_none: bool| if allow_none { ", perhaps none" } else { ", at least one" };
        match self {
            Self::Single => f.write_str("one label a document"),
            Self::Multi { threshold, allow_none } => {
                write!(f, "labels with at least {threshold} of the vote{}", one(*allow_none))
            }
            Self::PerLabel { rule, allow_none, .. } => {
                write!(f, "a threshold a label ({}){}", rule.name(), one(*allow_none))
            }
            Self::First { labels } => write!(f, "the first {labels} labels (rcut)"),
            Self::LargestGap => f.write_str("the labels before the largest gap (mcut)"),
            Self::Proportional { factor, .. } => {
                write!(f, "documents in proportion to the label's share (pcut), factor {factor}")
            }
        }
    }
}

/// The labels that `scores` (by falling score) stand for, best first.
///
/// [`Decision::Proportional`] decides whole batches: here it gives every label that has a score.
///
/// ```
/// use classify::decide::{Decision, decide};
/// use classify::vote::LabelScore;
///
/// let scores = [LabelScore { label: 7, score: 0.6 }, LabelScore { label: 2, score: 0.4 }];
/// assert_eq!(decide(&scores, &Decision::Single), [7]);
/// assert_eq!(decide(&scores, &Decision::Multi { threshold: 0.4, allow_none: false }), [7, 2]);
/// assert_eq!(decide(&scores, &Decision::Multi { threshold: 0.9, allow_none: false }), [7]);
/// assert_eq!(decide(&scores, &Decision::Multi { threshold: 0.9, allow_none: true }), [0; 0]);
/// assert_eq!(decide(&scores, &Decision::LargestGap), [7, 2]);
/// ```
pub fn decide(scores: &[LabelScore], decision: &Decision) -> Vec<u32> {
    let first = |count: usize| scores.iter().take(count).map(|score| score.label).collect();
    match decision {
        Decision::Single => first(1),
        &Decision::Multi { threshold, allow_none } => {
            let reached = scores.iter().take_while(|score| score.score >= threshold).count();
            first(if allow_none { reached } else { reached.max(1) })
        }
        Decision::PerLabel { rule, thresholds, allow_none } => {
            let reached = |(rank, score): (usize, &LabelScore)| {
                let threshold = thresholds.get(score.label as usize).copied().flatten()?;
                // A vote too small for a share is none.
                let reached = score.score > 0.0 && rule.value(score.score, rank) >= threshold;
                reached.then_some(score.label)
            };
            let labels: Vec<u32> = scores.iter().enumerate().filter_map(reached).collect();
            if labels.is_empty() && !allow_none { first(1) } else { labels }
        }
        &Decision::First { labels } => {
            first(scores.iter().take(labels).take_while(|score| score.score > 0.0).count())
        }
        Decision::LargestGap => first(before_largest_gap(scores.iter().map(|score| score.score))),
        Decision::Proportional { .. } => first(scores.len()),
    }
}

/// How sure a decision is: how far the best label's score is above its threshold, or where labels
/// are chosen by rank above the next label's score.
pub fn margin(scores: &[LabelScore], decision: &Decision) -> f64 {
    let Some(best) = scores.first() else { return 0.0 };
    let next = scores.get(1).map_or(0.0, |next| next.score);
    match decision {
        &Decision::Multi { threshold, .. } => best.score - threshold,
        // The values of RTCut are no scores.
        Decision::PerLabel { rule, thresholds, .. } if *rule != ThresholdRule::Rtcut => {
            let threshold = thresholds.get(best.label as usize).copied().flatten();
            best.score - threshold.unwrap_or(1.0)
        }
        Decision::Single
        | Decision::PerLabel { .. }
        | Decision::First { .. }
        | Decision::LargestGap
        | Decision::Proportional { .. } => best.score - next,
    }
}

/// How many of falling scores stand before the largest fall, the first of equal ones; the last
/// score falls to 0.
pub(crate) fn before_largest_gap(scores: impl Iterator<Item = f64>) -> usize {
    // How many there are before the largest fall, the fall, the last score and its rank.
    let (mut before, mut largest, mut last, mut rank) = (0, f64::NEG_INFINITY, None, 0);
    for score in scores.map(Some).chain([None]) {
        if let Some(last) = last {
            let fall = last - score.unwrap_or(0.0);
            if fall > largest {
                (before, largest) = (rank, fall);
            }
        }
        if score.is_some() {
            rank += 1;
        }
        last = score;
    }
    before
}

/// The labels of every document of a batch, each by falling score. `batch` holds each document's
/// scores, by falling score.
///
/// ```
/// use classify::decide::{Decision, decide_batch};
/// use classify::vote::LabelScore;
///
/// let score = |label, score| LabelScore { label, score };
/// let batch = [vec![score(0, 0.9), score(1, 0.1)], vec![score(0, 0.8), score(1, 0.2)]];
/// // Half of the training documents have label 0, half have label 1.
/// let pcut = Decision::Proportional { factor: 1.0, shares: vec![0.5, 0.5] };
/// assert_eq!(decide_batch(&batch, &pcut), [[0], [1]]);
/// ```
pub fn decide_batch<S: AsRef<[LabelScore]>>(batch: &[S], decision: &Decision) -> Vec<Vec<u32>> {
    let Decision::Proportional { factor, shares } = decision else {
        return batch.iter().map(|scores| decide(scores.as_ref(), decision)).collect();
    };
    // (label, score, document), best documents first, equal scores by document.
    let mut all: Vec<(u32, f64, usize)> = Vec::new();
    for (document, scores) in batch.iter().enumerate() {
        all.extend(scores.as_ref().iter().map(|score| (score.label, score.score, document)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut given = vec![Vec::new(); batch.len()];
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let share = shares.get(same[0].0 as usize).copied().unwrap_or(0.0);
        let count = (share * factor * batch.len() as f64).round();
        let most = (0u32..).take_while(|&taken| f64::from(taken) < count);
        for (&(label, _, document), _) in same.iter().zip(most) {
            given[document].push(label);
        }
    }
    for (labels, scores) in given.iter_mut().zip(batch) {
        let rank = |label: &u32| scores.as_ref().iter().position(|score| score.label == *label);
        labels.sort_by_key(rank);
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<LabelScore> {
        (0..).zip(values).map(|(label, &score)| LabelScore { label, score }).collect()
    }

    #[test]
    fn every_rule_by_hand() {
        let falling = scores(&[0.7, 0.5, 0.1]);
        assert_eq!(decide(&falling, &Decision::First { labels: 2 }), [0, 1]);
        assert_eq!(decide(&falling, &Decision::LargestGap), [0, 1]);
        assert_eq!(decide(&[], &Decision::LargestGap), [0; 0]);
        let per_label = |rule, thresholds: [Option<f64>; 3], allow_none| Decision::PerLabel {
            rule,
            thresholds: thresholds.to_vec(),
            allow_none,
        };
        let scut = ThresholdRule::Scut;
        let own = per_label(scut, [Some(0.8), None, Some(0.1)], true);
        assert_eq!(decide(&falling, &own), [2]);
        let none = [Some(0.8), None, Some(0.2)];
        assert_eq!(decide(&falling, &per_label(scut, none, true)), [0; 0]);
        assert_eq!(decide(&falling, &per_label(scut, none, false)), [0]);
        // Values 0.35, −0.75, −1.95.
        let ranked = per_label(ThresholdRule::Rtcut, [Some(0.4), Some(-0.8), Some(-1.9)], true);
        assert_eq!(decide(&falling, &ranked), [1]);
    }

    #[test]
    fn checks() {
        let thresholds = Decision::PerLabel {
            rule: ThresholdRule::Scut,
            thresholds: vec![None],
            allow_none: true,
        };
        assert!(thresholds.check(1).is_ok() && thresholds.check(2).is_err());
        assert!(Decision::Multi { threshold: 1.5, allow_none: true }.check(0).is_err());
        assert!(Decision::First { labels: 0 }.check(3).is_err());
    }
}
