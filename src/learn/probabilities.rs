//! Learns the probabilities of labels, and when to abstain.
//!
//! * Learns from: the scores of held-out documents under the chosen vote.
//! * Estimates by: five folds; the answers of a fold are evaluated with what is learned from the
//!   others.
//! * Yields: a [`Calibration`] from scores to probabilities, and a [`ConfidenceLimit`].

use std::collections::BTreeMap;

use super::held_out::FOLDS;
use super::held_out_scores::{HeldOutDocument, HeldOutScores};
use crate::decide::calibrate::{Answer, Calibration, ConfidenceLimit, Seen, Votes, confidence};
use crate::decide::decision::{Decision, decide};
use crate::decide::vote::TrainingLabels;

/// Maximum number of held-out documents from which probabilities are learned.
const MAX_DOCUMENTS: usize = 20_000;

/// Learns the probabilities of labels from held-out documents, without those of a fold if given.
/// `unknown` returns the share of unknown terms of a document.
fn probabilities(
    documents: &[HeldOutDocument<'_>],
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
    without: Option<usize>,
) -> Calibration {
    let step = documents.len().div_ceil(MAX_DOCUMENTS).max(1);
    let taken = documents.iter().step_by(step).filter(|seen| Some(seen.fold) != without);
    let seen = taken.map(|HeldOutDocument { row, voters, scores, .. }| Seen {
        scores: scores.clone(),
        voters: *voters,
        unknown: unknown(*row),
        gold: among.labels(*row),
    });
    Calibration::fit(seen, &among)
}

/// Learns the probabilities of labels from held-out documents. `unknown` returns the share of
/// unknown terms of a document.
pub(super) fn learn_probabilities(
    held_out: &HeldOutScores<'_>,
    among: TrainingLabels<'_>,
    unknown: &dyn Fn(u32) -> f64,
) -> Calibration {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    probabilities(&documents, among, unknown, None)
}

/// Learns when a model must abstain to reach a target error, from held-out documents.
///
/// The documents of each fold are decided, and their confidence computed, by what is learned from
/// the other folds: `decisions` are those learned without each fold. `unknown` returns the share of
/// unknown terms of a document. If documents were held out twice, without and with their
/// near-duplicates, the target is reached both ways: new documents may or may not have
/// near-duplicates.
pub(super) fn learn_abstention(
    held_out: &HeldOutScores<'_>,
    decisions: &[Decision; FOLDS],
    among: TrainingLabels<'_>,
    target_error: f64,
    unknown: &dyn Fn(u32) -> f64,
) -> ConfidenceLimit {
    let documents: Vec<HeldOutDocument<'_>> = held_out.documents().collect();
    // By document, held out for the first and the second time.
    let mut answers: BTreeMap<u32, [Option<Answer>; 2]> = BTreeMap::new();
    for (fold, decision) in decisions.iter().enumerate() {
        let calibration = probabilities(&documents, among, unknown, Some(fold));
        for HeldOutDocument { row, again, cluster, voters, scores, .. } in
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
            answers.entry(*row).or_default()[usize::from(*again)] = Some(answer);
        }
    }
    let first: Vec<Answer> = answers.values().filter_map(|[first, _]| *first).collect();
    let last: Vec<Answer> =
        answers.values().filter_map(|[first, again]| again.or(*first)).collect();
    if answers.values().all(|[_, again]| again.is_none()) {
        return ConfidenceLimit::learn(target_error, &first);
    }
    // Neither of the two limits may fail.
    let limits = [first, last].map(|answers| ConfidenceLimit::one_of_two(target_error, &answers));
    let [first, last] = limits;
    match (first.confidence, last.confidence) {
        (Some(one), Some(other)) if one < other => last,
        (Some(_), None) => last,
        _ => first,
    }
}
