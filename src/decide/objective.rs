//! The objectives that tuning can maximize, and the metrics that it reports.

use serde::{Deserialize, Serialize};

use super::outcomes::Intervals;

/// The metric that tuning maximizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Micro F1: F1 over all decisions.
    #[default]
    MicroF1,
    /// Macro F1: the mean F1 over labels.
    MacroF1,
    /// Accuracy: the share of documents with exactly the correct labels.
    Accuracy,
    /// The mean of micro and macro F1.
    MicroMacro,
    /// Precision at 5: the mean share of correct labels among the five labels with the highest
    /// scores.
    #[serde(rename = "p@5")]
    PrecisionAt5,
    /// Top-3 accuracy: the share of documents with a correct label among the three labels with the
    /// highest scores.
    #[serde(rename = "top-3-accuracy")]
    Top3Accuracy,
}

impl Objective {
    /// Returns the value of the objective for the given metrics.
    pub fn of(self, metrics: Metrics) -> f64 {
        match self {
            Self::MicroF1 => metrics.micro_f1,
            Self::MacroF1 => metrics.macro_f1,
            Self::Accuracy => metrics.accuracy,
            Self::MicroMacro => f64::midpoint(metrics.micro_f1, metrics.macro_f1),
            Self::PrecisionAt5 | Self::Top3Accuracy => metrics.by_ranks.unwrap_or(0.0),
        }
    }

    /// Returns the value to maximize among decisions on the same ranking of labels. This is micro
    /// F1 if the objective does not depend on decisions.
    pub(crate) fn of_decision(self, metrics: Metrics) -> f64 {
        if self.best_labels().is_some() { metrics.micro_f1 } else { self.of(metrics) }
    }

    /// Returns the number of top-ranked labels on which the objective depends, if it depends on
    /// nothing else.
    pub(crate) fn best_labels(self) -> Option<usize> {
        match self {
            Self::PrecisionAt5 => Some(5),
            Self::Top3Accuracy => Some(3),
            Self::MicroF1 | Self::MacroF1 | Self::Accuracy | Self::MicroMacro => None,
        }
    }

    /// Returns the value of a ranking objective for a document with `right` correct labels among
    /// its top-ranked labels.
    pub(crate) fn of_ranking(self, right: usize) -> f64 {
        match self {
            Self::PrecisionAt5 => right as f64 / 5.0,
            _ => f64::from(u8::from(right > 0)),
        }
    }

    /// Returns the name of the objective, as used in options.
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

/// Metrics of the quality of decisions, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// F1 over all decisions.
    pub micro_f1: f64,
    /// The mean F1 over all labels of the training corpus.
    pub macro_f1: f64,
    /// The share of documents whose predicted labels are exactly the correct labels.
    pub accuracy: f64,
    /// Precision at 5 or top-3 accuracy, if one of them is the objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_ranks: Option<f64>,
}

/// Metrics expected on new documents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedMetrics {
    /// The metrics.
    #[serde(rename = "figures")]
    pub metrics: Metrics,
    /// 95 % confidence intervals of the metrics, from resampling the held-out documents.
    pub intervals: Option<Intervals>,
}
