//! Label scores → labels.

use serde::{Deserialize, Serialize};

use crate::vote::LabelScore;

/// How many labels a document gets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
}

impl Decision {
    /// The threshold of [`Decision::Multi`] where none is given.
    pub const THRESHOLD: f64 = 0.4;
}

/// The labels that `scores` (by falling score) stand for, best first.
///
/// ```
/// use classify::decide::{Decision, decide};
/// use classify::vote::LabelScore;
///
/// let scores = [LabelScore { label: 7, score: 0.6 }, LabelScore { label: 2, score: 0.4 }];
/// assert_eq!(decide(&scores, Decision::Single), [7]);
/// assert_eq!(decide(&scores, Decision::Multi { threshold: 0.4, allow_none: false }), [7, 2]);
/// assert_eq!(decide(&scores, Decision::Multi { threshold: 0.9, allow_none: false }), [7]);
/// assert_eq!(decide(&scores, Decision::Multi { threshold: 0.9, allow_none: true }), [0; 0]);
/// ```
pub fn decide(scores: &[LabelScore], decision: Decision) -> Vec<u32> {
    let count = match decision {
        Decision::Single => 1,
        Decision::Multi { threshold, allow_none } => {
            let reached = scores.iter().take_while(|score| score.score >= threshold).count();
            if allow_none { reached } else { reached.max(1) }
        }
    };
    scores.iter().take(count).map(|score| score.label).collect()
}
