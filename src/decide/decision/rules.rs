//! The decision rules and their application.

use serde::{Deserialize, Serialize};

use crate::decide::vote::LabelScore;

/// Returns the share of the documents with each label, given the number of documents per label.
pub(crate) fn label_shares(sizes: &[u32], documents: usize) -> Vec<f64> {
    sizes.iter().map(|&size| f64::from(size) / documents.max(1) as f64).collect()
}

/// A rule that chooses the labels of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Decision {
    /// The label with the highest score.
    Single,
    /// Every label whose score reaches one threshold.
    Multi {
        /// The threshold, from 0 to 1.
        threshold: f64,
        /// Whether a document may have no label if no score reaches the threshold. Otherwise it
        /// gets the label with the highest score.
        allow_none: bool,
    },
    /// Every label whose score reaches the label's own threshold.
    PerLabel {
        /// How the thresholds were learned.
        rule: ThresholdRule,
        /// One threshold per label. A label without a threshold is predicted only for documents
        /// that must have a label and reach no threshold.
        thresholds: Vec<Option<f64>>,
        /// Whether a document may have no label, as in [`Decision::Multi`].
        allow_none: bool,
    },
    /// The labels with the highest scores.
    First {
        /// The number of labels.
        labels: usize,
    },
    /// The labels before the largest drop in score between two consecutive labels. After the last
    /// label, the score drops to 0.
    LargestGap,
    /// For each label, the documents with the highest scores. Their number is the product of the
    /// label's share of the training documents, `factor`, and the number of documents in the batch.
    Proportional {
        /// The factor.
        factor: f64,
        /// The share of the training documents with each label.
        shares: Vec<f64>,
    },
}

/// A method for learning label thresholds from leave-one-out scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdRule {
    /// The threshold that maximizes the label's F1 (SCut, Yang 2001).
    Scut,
    /// Like SCut, but the highest score is the threshold if the best F1 is below a limit called fbr
    /// (SCutFBR.1, Yang 2001).
    ScutFbr,
    /// The threshold that maximizes F1 averaged with labels of similar frequency. This helps labels
    /// with few documents, whose own best threshold is largely noise.
    ScutSmoothed,
    /// Maximizes micro F1 plus macro F1, averaged with labels of similar frequency, by cyclic
    /// optimization (Fan and Lin 2007). Without averaging, processes labels by decreasing
    /// frequency. Each threshold then maximizes the micro F1 so far plus the label's share of the
    /// macro F1 (`micromacro-freq`, Lin and Lin 2023).
    Micromacro,
    /// SCut on rank and score combined: a label's value is score / 2 − rank, with rank counted from
    /// 0 (RTCut, Yang 2001).
    Rtcut,
}

impl ThresholdRule {
    /// Returns the name of the rule, as used in options and model files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scut => "scut",
            Self::ScutFbr => "scut-fbr",
            Self::ScutSmoothed => "scut-smoothed",
            Self::Micromacro => "micromacro",
            Self::Rtcut => "rtcut",
        }
    }

    /// Returns the value that is compared with the threshold of the label at `rank`, counted from
    /// 0.
    pub fn value(self, score: f64, rank: usize) -> f64 {
        match self {
            Self::Rtcut => score / 2.0 - rank as f64,
            Self::Scut | Self::ScutFbr | Self::ScutSmoothed | Self::Micromacro => score,
        }
    }
}

impl Decision {
    /// The default threshold of [`Decision::Multi`].
    pub const THRESHOLD: f64 = 0.4;

    /// Whether the labels of a document depend on the other documents.
    pub fn needs_batch(&self) -> bool {
        matches!(self, Self::Proportional { .. })
    }

    /// Whether a document may have several labels.
    pub fn is_multi(&self) -> bool {
        *self != Self::Single
    }

    /// Checks the values for a model with `labels` labels. The error names the first problem.
    pub(crate) fn check(&self, labels: usize) -> Result<(), &'static str> {
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        match self {
            Self::Multi { threshold, .. } if !is_share(threshold) => {
                Err("the threshold is not between 0 and 1")
            }
            Self::PerLabel { thresholds, .. } if thresholds.len() != labels => {
                Err("the number of thresholds differs from the number of labels")
            }
            Self::First { labels: 0 } => Err("the number of labels per document is 0"),
            Self::Proportional { shares, .. } if shares.len() != labels => {
                Err("the number of shares differs from the number of labels")
            }
            Self::Proportional { factor, shares }
                if !(factor.is_finite() && *factor >= 0.0 && shares.iter().all(is_share)) =>
            {
                Err("a share is not between 0 and 1, or the factor is invalid")
            }
            _ => Ok(()),
        }
    }
}

/// Describes the decision in words, for reports.
impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suffix =
            |allow_none: bool| if allow_none { ", possibly none" } else { ", at least one" };
        match self {
            Self::Single => f.write_str("one label per document"),
            Self::Multi { threshold, allow_none } => {
                write!(f, "labels with at least {threshold} of the vote{}", suffix(*allow_none))
            }
            Self::PerLabel { rule, allow_none, .. } => {
                write!(f, "a threshold per label ({}){}", rule.name(), suffix(*allow_none))
            }
            Self::First { labels } => write!(f, "the best {labels} labels (rcut)"),
            Self::LargestGap => f.write_str("the labels before the largest gap (mcut)"),
            Self::Proportional { factor, .. } => {
                write!(f, "documents in proportion to each label's share (pcut), factor {factor}")
            }
        }
    }
}

/// Returns the labels that `decision` chooses, best first. `scores` must be sorted by decreasing
/// score.
///
/// [`Decision::Proportional`] decides whole batches; here it returns every label with a score.
///
/// ```
/// use classify::decide::decision::{Decision, decide};
/// use classify::decide::vote::LabelScore;
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
                // A label with score 0 is never predicted.
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

/// Returns the number of scores before the largest drop. `scores` must be sorted in decreasing
/// order. In a tie, the first drop is used. The drop after the last score is the score itself.
pub(crate) fn before_largest_gap(scores: impl Iterator<Item = f64>) -> usize {
    let mut before = 0;
    let mut largest = f64::NEG_INFINITY;
    let mut last = None;
    let mut rank = 0;
    for score in scores.map(Some).chain([None]) {
        if let Some(last) = last {
            let gap = last - score.unwrap_or(0.0);
            if gap > largest {
                before = rank;
                largest = gap;
            }
        }
        if score.is_some() {
            rank += 1;
        }
        last = score;
    }
    before
}

/// Returns the labels of every document of a batch, by decreasing score. `batch` contains each
/// document's scores, sorted by decreasing score.
///
/// ```
/// use classify::decide::decision::{Decision, decide_batch};
/// use classify::decide::vote::LabelScore;
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
    // Label, score and document, sorted by label, then by decreasing score, then by document.
    let mut all: Vec<(u32, f64, usize)> = Vec::new();
    for (document, scores) in batch.iter().enumerate() {
        all.extend(scores.as_ref().iter().map(|score| (score.label, score.score, document)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut given = vec![Vec::new(); batch.len()];
    for same_label in all.chunk_by(|a, b| a.0 == b.0) {
        let share = shares.get(same_label[0].0 as usize).copied().unwrap_or(0.0);
        let count = (share * factor * batch.len() as f64).round();
        let ranks = (0u32..).take_while(|&rank| f64::from(rank) < count);
        for (&(label, _, document), _) in same_label.iter().zip(ranks) {
            given[document].push(label);
        }
    }
    for (labels, scores) in given.iter_mut().zip(batch) {
        // Sort by decreasing score without looking up the rank of each label.
        labels.sort_unstable();
        let by_score = scores.as_ref().iter().map(|score| score.label);
        *labels = by_score.filter(|label| labels.binary_search(label).is_ok()).collect();
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
    fn rules_choose_the_expected_labels() {
        let descending = scores(&[0.7, 0.5, 0.1]);
        assert_eq!(decide(&descending, &Decision::First { labels: 2 }), [0, 1]);
        assert_eq!(decide(&descending, &Decision::LargestGap), [0, 1]);
        assert_eq!(decide(&[], &Decision::LargestGap), [0; 0]);
        let per_label = |rule, thresholds: [Option<f64>; 3], allow_none| Decision::PerLabel {
            rule,
            thresholds: thresholds.to_vec(),
            allow_none,
        };
        let scut = ThresholdRule::Scut;
        let decision = per_label(scut, [Some(0.8), None, Some(0.1)], true);
        assert_eq!(decide(&descending, &decision), [2]);
        let none = [Some(0.8), None, Some(0.2)];
        assert_eq!(decide(&descending, &per_label(scut, none, true)), [0; 0]);
        assert_eq!(decide(&descending, &per_label(scut, none, false)), [0]);
        // The values are 0.35, −0.75 and −1.95.
        let ranked = per_label(ThresholdRule::Rtcut, [Some(0.4), Some(-0.8), Some(-1.9)], true);
        assert_eq!(decide(&descending, &ranked), [1]);
    }

    #[test]
    fn invalid_decisions_are_detected() {
        let thresholds = Decision::PerLabel {
            rule: ThresholdRule::Scut,
            thresholds: vec![None],
            allow_none: true,
        };
        assert!(thresholds.check(1).is_ok() && thresholds.check(2).is_err());
        assert!(Decision::Multi { threshold: 1.5, allow_none: true }.check(0).is_err());
        assert!(Decision::First { labels: 0 }.check(3).is_err());
    }

    #[test]
    fn boundary_scores_reach_thresholds() {
        let descending = scores(&[0.7, 0.5, 0.1]);
        let multi = |threshold| Decision::Multi { threshold, allow_none: true };
        assert_eq!(decide(&descending, &multi(0.5)), [0, 1]);
        assert_eq!(decide(&descending, &multi(0.5f64.next_up())), [0]);
        // A score of 0 means no vote.
        let zero = scores(&[0.5, 0.0]);
        let thresholds = vec![Some(0.0), Some(0.0)];
        let decision =
            Decision::PerLabel { rule: ThresholdRule::Scut, thresholds, allow_none: true };
        assert_eq!(decide(&zero, &decision), [0]);
        assert_eq!(decide(&zero, &Decision::First { labels: 2 }), [0]);
        // In a tie, the first gap is taken.
        assert_eq!(decide(&scores(&[0.75, 0.5, 0.25]), &Decision::LargestGap), [0]);
    }

    /// The time is linear in the number of labels, and labels are sorted by score.
    #[test]
    fn batches_of_many_labels_take_linear_time() {
        let labels = 0..40_000u32;
        let scores: Vec<LabelScore> = labels
            .clone()
            .map(|label| LabelScore {
                label: label * 7 % 40_000,
                score: 1.0 / f64::from(label + 1),
            })
            .collect();
        let pcut = Decision::Proportional { factor: 1.0, shares: vec![1.0; 40_000] };
        let start = std::time::Instant::now();
        let given = decide_batch(&[scores], &pcut);
        assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
        assert!(given[0].iter().copied().eq(labels.map(|label| label * 7 % 40_000)));
    }

    /// Half of three documents is rounded to two.
    #[test]
    fn shares_of_a_batch_are_rounded() {
        let batch: Vec<Vec<LabelScore>> = [0.2, 0.9, 0.5].map(|score| scores(&[score])).to_vec();
        let pcut = |factor| Decision::Proportional { factor, shares: vec![0.5] };
        assert_eq!(decide_batch(&batch, &pcut(1.0)), [vec![], vec![0], vec![0]]);
        assert_eq!(decide_batch(&batch, &pcut(0.0)), [const { Vec::<u32>::new() }; 3]);
        for (factor, share) in [(-1.0, 0.5), (f64::NAN, 0.5), (f64::INFINITY, 0.5), (1.0, 1.5)] {
            let pcut = Decision::Proportional { factor, shares: vec![share] };
            assert!(pcut.check(1).is_err(), "{factor} {share}");
        }
        assert!(pcut(1.0).check(1).is_ok());
    }
}
