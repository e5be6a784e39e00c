//! Learns the probabilities of labels.
//!
//! * Learns from: the scores of held-out documents under the chosen vote.
//! * Estimates by: nothing of its own; [`abstention`](super::abstention) evaluates them by folds.
//! * Yields: a [`Calibration`] from scores to probabilities.

use super::held_out_scores::{HeldOutDocument, HeldOutScores};
use crate::decide::calibrate::{Calibration, CalibrationDocument};
use crate::decide::vote::TrainingLabels;

/// Maximum number of held-out documents from which probabilities are learned.
const MAX_DOCUMENTS: usize = 20_000;

/// Learns the probabilities of labels from held-out documents. `unknown` returns the share of
/// unknown terms of a document.
pub(super) fn learn(
    held_out: &HeldOutScores<'_>,
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
) -> Calibration {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    learn_without(&documents, among, unknown, None)
}

/// Learns the probabilities of labels from held-out documents, excluding `fold` if given. `unknown`
/// returns the share of unknown terms of a document.
pub(super) fn learn_without(
    documents: &[HeldOutDocument<'_>],
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
    fold: Option<usize>,
) -> Calibration {
    let step = documents.len().div_ceil(MAX_DOCUMENTS).max(1);
    let taken = documents.iter().step_by(step).filter(|seen| Some(seen.fold) != fold);
    let seen = taken.map(|HeldOutDocument { row, voters, scores, .. }| CalibrationDocument {
        scores: scores.clone(),
        voters: *voters,
        unknown: unknown(*row),
        gold: among.labels(*row),
    });
    Calibration::fit(seen, &among)
}
