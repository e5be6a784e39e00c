//! How sure the answers were, and whether they could be: reliability, coverage, thresholds.

use serde::Serialize;

use super::{DocumentCounts, Prf, ratio};
use crate::classifier::Prediction;

/// So many bins of equal width from 0 to 1.
const BINS: usize = 10;
/// So many points of coverage, and of the curve of thresholds.
const POINTS: usize = 20;
const STEPS: usize = 100;

/// Takes how sure the model was of its answers.
#[derive(Debug, Clone, Default)]
pub struct Confidences {
    /// For each label given its confidence and whether it was due.
    given: Vec<(f32, bool)>,
    /// For each document that got labels: the confidence in the first one, how many labels it
    /// got, and how many of them were right.
    documents: Vec<(f32, u32, u32)>,
    /// Right and wrong scores by hundredth.
    scores: Vec<(u64, u64)>,
    /// Whether confidences are probabilities; otherwise they are shares of the vote.
    calibrated: bool,
    may_abstain: bool,
}

/// Labels of about the same confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// Confidences from here,
    pub from: f64,
    /// up to here, which the last bin includes.
    pub to: f64,
    /// How many labels were given.
    pub count: u64,
    /// Their mean confidence: the probability, or of a model without calibration the share of
    /// the vote.
    pub confidence: f64,
    /// The share that was right.
    pub right: f64,
}

/// The surest part of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Coverage {
    /// The share of the documents.
    pub coverage: f64,
    /// The least confidence in it.
    pub confidence: f64,
    /// The share of right labels among those given.
    pub precision: f64,
}

/// A threshold for the share of the vote, for all labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The threshold.
    pub threshold: f64,
    /// Precision, recall and F1 over all decisions.
    #[serde(flatten)]
    pub prf: Prf,
}

/// The documents that got an answer of a model that may abstain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answered {
    /// Their share of the test documents.
    pub coverage: f64,
    /// The share of right labels among those given.
    pub precision: f64,
    /// The share of wrong ones.
    pub error: f64,
}

impl Confidences {
    /// Of a model that may abstain, or not.
    pub fn new(may_abstain: bool) -> Self {
        Self { may_abstain, ..Self::default() }
    }

    /// Takes a prediction and the labels that are due.
    pub fn add(&mut self, prediction: &Prediction, due: &[u32]) {
        self.calibrated |= !prediction.probabilities.is_empty();
        self.scores.resize(STEPS + 1, (0, 0));
        let mut first = None;
        let mut right = 0;
        for (at, score) in prediction.scores.iter().enumerate() {
            let is_due = due.contains(&score.label);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a score from 0 to 1"
            )]
            let step = ((score.score * STEPS as f64) as usize).min(STEPS);
            let (rights, wrongs) = &mut self.scores[step];
            *(if is_due { rights } else { wrongs }) += 1;
            if prediction.labels.contains(&score.label) {
                let confidence = prediction.probabilities.get(at).copied().unwrap_or(score.score);
                #[expect(clippy::cast_possible_truncation, reason = "bins are wide")]
                let confidence = confidence as f32;
                self.given.push((confidence, is_due));
                first = first.or(Some(confidence));
                right += u32::from(is_due);
            }
        }
        if let Some(first) = first {
            let given = u32::try_from(prediction.labels.len()).unwrap_or(u32::MAX);
            self.documents.push((first, given, right));
        }
    }

    /// Ten bins of the labels given.
    pub fn reliability(&self) -> Vec<Bin> {
        let mut bins = [(0u64, 0.0, 0u64); BINS];
        for &(confidence, right) in &self.given {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a confidence from 0 to 1"
            )]
            let bin = ((confidence * BINS as f32) as usize).min(BINS - 1);
            bins[bin].0 += 1;
            bins[bin].1 += f64::from(confidence);
            bins[bin].2 += u64::from(right);
        }
        let bin = |(at, &(count, sum, right)): (usize, &(u64, f64, u64))| Bin {
            from: at as f64 / BINS as f64,
            to: (at + 1) as f64 / BINS as f64,
            count,
            confidence: if count > 0 { sum / count as f64 } else { 0.0 },
            right: ratio(right, count),
        };
        bins.iter().enumerate().map(bin).collect()
    }

    /// The mean distance of confidence and share of right labels over the bins, by their counts.
    pub fn calibration_error(&self) -> Option<f64> {
        if !self.calibrated {
            return None;
        }
        let distance = |bin: &Bin| bin.count as f64 * (bin.confidence - bin.right).abs();
        let sum: f64 = self.reliability().iter().map(distance).sum();
        Some(sum / self.given.len().max(1) as f64)
    }

    /// The surest 5 %, 10 %, … of the documents that got labels.
    pub fn coverage(&self) -> Vec<Coverage> {
        let mut documents = self.documents.clone();
        documents.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut points = Vec::new();
        let (mut at, mut given, mut right) = (0, 0u64, 0u64);
        for point in 1..=POINTS {
            let end = (documents.len() * point).div_ceil(POINTS);
            while at < end {
                given += u64::from(documents[at].1);
                right += u64::from(documents[at].2);
                at += 1;
            }
            if end > 0 {
                points.push(Coverage {
                    coverage: point as f64 / POINTS as f64,
                    confidence: documents[end - 1].0.into(),
                    precision: ratio(right, given),
                });
            }
        }
        points
    }

    /// Micro precision and recall for every hundredth as one threshold; `due` labels are due.
    pub fn curve(&self, due: u64) -> Vec<Point> {
        let (mut right, mut wrong) = (0, 0);
        let mut points = Vec::new();
        for (step, &(rights, wrongs)) in self.scores.iter().enumerate().rev() {
            (right, wrong) = (right + rights, wrong + wrongs);
            let prf = Prf::of(right, wrong, due.saturating_sub(right));
            points.push(Point { threshold: step as f64 / STEPS as f64, prf });
        }
        points.reverse();
        points
    }

    /// How many got an answer, if the model may abstain.
    pub fn answered(&self, documents: &DocumentCounts) -> Option<Answered> {
        let right = self.documents.iter().map(|&(.., right)| u64::from(right)).sum();
        let given = self.documents.iter().map(|&(_, given, _)| u64::from(given)).sum();
        let precision = ratio(right, given);
        self.may_abstain.then(|| Answered {
            coverage: ratio(self.documents.len() as u64, documents.test),
            precision,
            error: if given > 0 { 1.0 - precision } else { 0.0 },
        })
    }
}
