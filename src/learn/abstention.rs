//! Learns the confidence below which a model abstains.
//!
//! * Input: the scores of held-out documents under the chosen vote.
//! * Evaluation: five folds; the calibration and the decision of a fold are learned from the other
//!   folds.
//! * Output: a [`ConfidenceLimit`].

use std::collections::BTreeMap;

use super::held_out::FOLDS;
use super::held_out_scores::{HeldOutDocument, HeldOutScores};
use super::probabilities;
use crate::decide::calibrate::{Answer, ConfidenceLimit, Votes, confidence};
use crate::decide::decision::{Decision, decide};
use crate::decide::vote::TrainingLabels;

/// Learns the confidence limit with which a model reaches `target_error`, from held-out documents.
///
/// The predictions and confidences of each fold use parameters learned from the other folds:
/// `decisions` has one decision per fold, learned without that fold. `unknown` returns the share of
/// unknown terms of a document, from 0 to 1. If documents were held out twice, without and with
/// their near-duplicates, both results must reach the target, because new documents may or may not
/// have near-duplicates.
pub(super) fn learn(
    held_out: &HeldOutScores<'_>,
    decisions: &[Decision; FOLDS],
    among: TrainingLabels<'_>,
    target_error: f64,
    unknown: &dyn Fn(u32) -> f64,
) -> ConfidenceLimit {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    // The answers by document: held out without its near-duplicates, and with them.
    let mut answers: BTreeMap<u32, [Option<Answer>; 2]> = BTreeMap::new();
    let calibrations = probabilities::by_fold(&documents, among, unknown);
    for (fold, (decision, calibration)) in decisions.iter().zip(&calibrations).enumerate() {
        for HeldOutDocument { row, is_second_time, cluster, voters, scores, .. } in
            documents.iter().filter(|document| document.fold == fold)
        {
            let unknown = unknown(*row);
            let counted = Votes { scores, supporters: &[], voters: *voters, unknown };
            let mut known = Vec::new();
            calibration.probabilities(counted, scores.len(), &among, &mut known);
            let given = decide(scores, decision);
            let gold = among.labels(*row);
            let right = given.iter().filter(|label| gold.binary_search(label).is_ok()).count();
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let answer = Answer {
                confidence: confidence(&given, scores, &known),
                given: count(given.len()),
                right: count(right),
                cluster: *cluster,
            };
            answers.entry(*row).or_default()[usize::from(*is_second_time)] = Some(answer);
        }
    }
    let first: Vec<Answer> = answers.values().filter_map(|[first, _]| *first).collect();
    let last: Vec<Answer> =
        answers.values().filter_map(|[first, again]| again.or(*first)).collect();
    if answers.values().all(|[_, again]| again.is_none()) {
        return ConfidenceLimit::learn(target_error, &first);
    }
    // Both limits must hold.
    let limits = [first, last].map(|answers| ConfidenceLimit::one_of_two(target_error, &answers));
    let [first, last] = limits;
    match (first.confidence, last.confidence) {
        (Some(one), Some(other)) if one < other => last,
        (Some(_), None) => last,
        _ => first,
    }
}
