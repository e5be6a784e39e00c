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
    /// Their 95 % intervals, unless documents are decided on together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// What to expect of documents that have near-duplicates as often as those of training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_near_duplicates: Option<Expected>,
    /// Whether everything that was learned from labels was learned without the documents that it was
    /// evaluated on. If not, the figures may be optimistic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nested: bool,
    /// The number of documents that the figures are based on.
    pub documents: u64,
    /// Documents with a higher cosine were not neighbors of each other.
    pub near_duplicates_above: Option<f32>,
    /// The best figures for each k with the chosen vote and kind of decision.
    pub by_k: Vec<(usize, Figures)>,
}
