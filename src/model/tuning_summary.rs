//! What a model keeps of the report of its tuning.

use serde::{Deserialize, Serialize};

use crate::decide::objective::{Expected, Figures, Objective};
use crate::decide::outcomes::Intervals;

/// A summary of tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningSummary {
    /// The objective that was maximized.
    pub objective: Objective,
    /// The leave-one-out figures of the chosen settings.
    pub figures: Figures,
    /// Their 95 % intervals (since version 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// What to expect of documents that have near-duplicates as often as those of training (since version 9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_near_duplicates: Option<Expected>,
    /// Whether everything that labels tell was told without the documents that were judged (since version
    /// 4). If not, figures may be too good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nested: bool,
    /// The number of documents that the figures are based on.
    pub documents: u64,
    /// Documents with a higher cosine were not neighbors of each other.
    pub near_duplicates_above: Option<f32>,
    /// The best figures for each k with the chosen vote and kind of decision.
    #[serde(default)]
    pub by_k: Vec<(usize, Figures)>,
}
