//! Learns the probabilities of labels.
//!
//! * Input: the scores of held-out documents under the chosen vote.
//! * Evaluation: none here; [`abstention`](super::abstention) evaluates the probabilities in folds.
//! * Output: a [`Calibration`] from scores to probabilities.

use super::held_out::FOLDS;
use super::held_out_scores::{HeldOutDocument, HeldOutScores};
use crate::decide::calibrate::{Calibration, CalibrationDocument};
use crate::decide::vote::TrainingLabels;

/// Maximum number of held-out documents from which probabilities are learned.
const MAX_DOCUMENTS: usize = 20_000;

/// Learns the probabilities of labels from held-out documents. `unknown` returns the share of
/// unknown terms of a document, from 0 to 1.
pub(super) fn learn(
    held_out: &HeldOutScores<'_>,
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
) -> Calibration {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    learn_without(&documents, among, unknown, None)
}

/// Returns one calibration per fold, learned from the documents of the other folds. For `unknown`,
/// see [`learn`].
pub(super) fn by_fold(
    documents: &[HeldOutDocument<'_>],
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
) -> [Calibration; FOLDS] {
    std::array::from_fn(|fold| learn_without(documents, among, unknown, Some(fold)))
}

/// Learns the probabilities of labels from held-out documents, except the documents of
/// `excluded_fold` if it is given. `unknown` returns the share of unknown terms of a document, from
/// 0 to 1.
fn learn_without(
    documents: &[HeldOutDocument<'_>],
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
    excluded_fold: Option<usize>,
) -> Calibration {
    let step = documents.len().div_ceil(MAX_DOCUMENTS).max(1);
    let taken = documents.iter().step_by(step).filter(|seen| Some(seen.fold) != excluded_fold);
    let seen = taken.map(|HeldOutDocument { row, voters, scores, .. }| CalibrationDocument {
        scores: scores.clone(),
        voters: *voters,
        unknown: unknown(*row),
        gold: among.labels(*row),
    });
    Calibration::fit(seen, &among)
}
