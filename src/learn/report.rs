//! The results of training and tuning.

use serde::Serialize;

use crate::decide::outcomes::Intervals;
use crate::model::{Model, TuningSummary};
use crate::stages::Stage;

use super::features::Step;
use super::options::TuneScope;
use super::votes::{Trial, VoteLearning};
use crate::decide::objective::{ExpectedMetrics, Metrics, Objective};

/// A trained model and the results of its tuning.
#[derive(Debug)]
pub struct TrainingResult {
    /// The model.
    pub model: Model,
    /// The results of tuning, if tuning was on.
    pub tuning: Option<TuningReport>,
    /// The duration of each stage.
    pub stages: Vec<Stage>,
}

impl TrainingResult {
    /// Sets the metrics that cross-validation found, in the report and in the model.
    pub(super) fn set_cross_validated(&mut self, expected: ExpectedMetrics) {
        if let Some(report) = &mut self.tuning {
            report.cross_validated = Some(expected);
            self.model.set_cross_validated(expected);
        }
    }
}

/// The results of tuning; serialized as JSON with the schema `classify.tuning/1`.
#[derive(Debug, Clone, Serialize)]
pub struct TuningReport {
    /// The name of the JSON schema.
    pub schema: &'static str,
    /// The scope of tuning.
    pub scope: TuneScope,
    /// The objective that was maximized.
    pub objective: Objective,
    /// Number of documents that were held out, one at a time.
    pub documents: u64,
    /// The cosine above which documents could not be neighbors of each other.
    pub near_duplicates_above: Option<f32>,
    /// Number of documents before and after each document that were held out with it when settings
    /// were compared.
    pub window: u32,
    /// Number of documents that have a near-duplicate.
    pub documents_with_near_duplicates: usize,
    /// The feature changes that were tried.
    pub features: Vec<Step>,
    /// The share of the votes that neighbors found by dense vectors cast, if the model has both
    /// terms and vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_share: Option<f64>,
    /// The best of `trials`.
    pub best: Trial,
    /// How the vote weights of `best` were learned, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<VoteLearning>,
    /// The metrics expected of `best` on new documents without near-duplicates.
    #[serde(rename = "figures")]
    pub metrics: Metrics,
    /// The 95 % intervals of `metrics`, from resampling the held-out documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// The metrics expected of `best` on new documents that have near-duplicates as often as the
    /// training documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_near_duplicates: Option<ExpectedMetrics>,
    /// The metrics expected on new documents, from cross-validation of the whole training. The
    /// other metrics are too high for a small corpus, because `best` was chosen by them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_validated: Option<ExpectedMetrics>,
    /// Whether terms that are selected or weighted by labels were evaluated on documents whose
    /// labels were not used. If `false`, the metrics are optimistic.
    pub nested: bool,
    /// All settings that were tried.
    pub trials: Vec<Trial>,
}

impl TuningReport {
    /// The name of the JSON schema.
    pub(crate) const SCHEMA: &'static str = "classify.tuning/1";

    /// Returns the part of the report that the model stores.
    pub fn summary(&self) -> TuningSummary {
        TuningSummary {
            objective: self.objective,
            metrics: self.metrics,
            intervals: self.intervals,
            with_near_duplicates: self.with_near_duplicates,
            cross_validated: self.cross_validated,
            nested: self.nested,
            documents: self.documents,
            near_duplicates_above: self.near_duplicates_above,
            by_k: self.by_k(),
        }
    }

    /// Returns the best metrics for each k with the chosen vote and kind of decision.
    fn by_k(&self) -> Vec<(usize, Metrics)> {
        let alike = self.trials.iter().filter(|trial| {
            trial.vote == self.best.vote && trial.decision.is_like(self.best.decision)
        });
        let mut by_k: Vec<(usize, Metrics)> = Vec::new();
        for trial in alike {
            let value = |metrics| self.objective.of(metrics);
            match by_k.iter_mut().find(|(k, _)| *k == trial.k) {
                Some((_, best)) if value(trial.metrics) > value(*best) => *best = trial.metrics,
                Some(_) => {}
                None => by_k.push((trial.k, trial.metrics)),
            }
        }
        by_k
    }
}
