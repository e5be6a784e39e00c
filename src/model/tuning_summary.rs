//! The results of tuning that a model stores.

use serde::{Deserialize, Serialize};

use crate::decide::objective::{ExpectedMetrics, Metrics, Objective};
use crate::decide::outcomes::Intervals;

/// A summary of tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningSummary {
    /// The objective that was maximized.
    pub objective: Objective,
    /// The leave-one-out metrics of the chosen settings.
    #[serde(rename = "figures")]
    pub metrics: Metrics,
    /// 95 % confidence intervals of the metrics, unless the decision depends on the whole batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// The expected metrics for new documents, if they have near-duplicates as often as training
    /// documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_near_duplicates: Option<ExpectedMetrics>,
    /// The expected metrics from cross-validation of the whole training, if the corpus is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_validated: Option<ExpectedMetrics>,
    /// Whether everything learned from labels was evaluated on documents that were not used to
    /// learn it. If not, the metrics may be optimistic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nested: bool,
    /// The number of documents on which the metrics are based.
    pub documents: u64,
    /// The cosine similarity above which two documents were excluded as each other's neighbors.
    pub near_duplicates_above: Option<f32>,
    /// The best metrics for each k with the chosen vote rule and kind of decision rule.
    pub by_k: Vec<(usize, Metrics)>,
}

/// Up to this number of documents, the best of many settings seems clearly better than it is.
const FEW_DOCUMENTS: u64 = 1_000;

impl TuningSummary {
    /// Whether the metrics are too high: the settings were chosen by them on few documents, and
    /// there is no estimate from cross-validation.
    pub fn is_optimistic(&self) -> bool {
        self.cross_validated.is_none() && self.documents <= FEW_DOCUMENTS
    }
}
