//! Measures the reliability of confidences, the precision at each coverage, and metrics by
//! threshold.

use rayon::prelude::*;
use serde::Serialize;

use super::result::DocumentCounts;
use crate::classifier::RawPrediction;
use crate::decide::outcomes::{LabelSet, Prf, ratio};

/// Number of reliability bins, of equal width from 0 to 1.
const BINS: usize = 10;
/// Number of points of the coverage curve.
const POINTS: usize = 20;
/// Number of steps of the threshold curve. Its thresholds are `0 / STEPS` to `STEPS / STEPS`.
const STEPS: usize = 100;

/// The threshold of each step of the curve.
const THRESHOLDS: [f64; STEPS + 1] = {
    let mut thresholds = [0.0; STEPS + 1];
    let mut step = 0;
    while step <= STEPS {
        thresholds[step] = step as f64 / STEPS as f64;
        step += 1;
    }
    thresholds
};

/// Returns the highest step whose threshold a score reaches, compared as in
/// [`decide`](crate::decide::decision::decide): `score >= threshold`. Returns 0 if it reaches no
/// threshold.
fn step(score: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let guess = ((score * STEPS as f64) as usize).min(STEPS);
    // The product and the threshold are rounded, so the step can be one too low or too high.
    if guess < STEPS && score >= THRESHOLDS[guess + 1] {
        guess + 1
    } else if guess > 0 && score < THRESHOLDS[guess] {
        guess - 1
    } else {
        guess
    }
}

/// Collects the confidences of predictions.
#[derive(Debug, Clone, Default)]
pub(super) struct Confidences {
    /// The confidence of each predicted label, and whether the label is correct.
    predicted: Vec<(f32, bool)>,
    /// The documents with predicted labels.
    documents: Vec<Answer>,
    /// For each [`step`], the numbers of correct and wrong labels with a score at that step.
    scores: Vec<StepCounts>,
    /// Whether confidences are probabilities; otherwise they are shares of the vote.
    is_calibrated: bool,
    may_abstain: bool,
}

/// The numbers of correct and wrong labels.
#[derive(Debug, Clone, Copy, Default)]
struct StepCounts {
    right: u64,
    wrong: u64,
}

/// A document with predicted labels.
#[derive(Debug, Clone, Copy)]
struct Answer {
    /// The confidence in the labels; without calibration, the score of the best label.
    confidence: f32,
    /// Number of predicted labels.
    predicted: u32,
    /// Number of correct labels.
    right: u32,
}

/// The predicted labels in one interval of confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// The lowest confidence of the bin.
    pub from: f64,
    /// The upper end of the bin, which only the last bin includes.
    pub to: f64,
    /// Number of predicted labels.
    pub count: u64,
    /// Mean confidence of the labels: the probability or, without calibration, the share of the
    /// vote.
    pub confidence: f64,
    /// The share of the labels that are correct.
    pub right: f64,
}

/// The metrics of the documents with the most confident predictions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Coverage {
    /// The share of these documents among the documents with predicted labels, from 0 to 1.
    pub coverage: f64,
    /// The lowest confidence among these documents.
    pub confidence: f64,
    /// The share of correct labels among the predicted labels.
    pub precision: f64,
}

/// The metrics at one value of a single threshold on the share of the vote.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The threshold.
    pub threshold: f64,
    /// Precision, recall and F1 over all decisions.
    #[serde(flatten)]
    pub prf: Prf,
}

/// The documents for which a model that may abstain predicts labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AnsweredDocuments {
    /// The share of these documents among the test documents, from 0 to 1.
    pub coverage: f64,
    /// The share of correct labels among the predicted labels.
    pub precision: f64,
    /// The share of wrong labels among the predicted labels.
    pub error: f64,
}

impl Confidences {
    /// Creates an empty collection. `may_abstain` is whether the model may abstain.
    pub(super) fn new(may_abstain: bool) -> Self {
        Self { may_abstain, ..Self::default() }
    }

    /// Adds the confidences of later documents.
    pub(super) fn append(&mut self, other: Self) {
        self.predicted.extend(other.predicted);
        self.documents.extend(other.documents);
        self.scores.resize(STEPS + 1, StepCounts::default());
        for (sum, counts) in self.scores.iter_mut().zip(other.scores) {
            sum.right += counts.right;
            sum.wrong += counts.wrong;
        }
        self.is_calibrated |= other.is_calibrated;
    }

    /// Adds the prediction for a document. `expected` are the labels of the document.
    pub(super) fn add(
        &mut self,
        prediction: &RawPrediction,
        expected: &LabelSet,
        predicted: &LabelSet,
    ) {
        self.is_calibrated |= !prediction.probabilities.is_empty();
        self.scores.resize(STEPS + 1, StepCounts::default());
        let mut first = None;
        let mut right = 0;
        for (rank, score) in prediction.scores.iter().enumerate() {
            let is_right = expected.contains(score.label);
            let counts = &mut self.scores[step(score.score)];
            counts.right += u64::from(is_right);
            counts.wrong += u64::from(!is_right);
            if predicted.contains(score.label) {
                let confidence = prediction.probabilities.get(rank).copied().unwrap_or(score.score);
                #[expect(clippy::cast_possible_truncation, reason = "bins are wide")]
                let confidence = confidence as f32;
                self.predicted.push((confidence, is_right));
                first = first.or(Some(confidence));
                right += u32::from(is_right);
            }
        }
        if let Some(first) = first {
            #[expect(clippy::cast_possible_truncation, reason = "bins are wide")]
            let confidence = prediction.confidence.map_or(first, |confidence| confidence as f32);
            let predicted = u32::try_from(predicted.len()).expect("label numbers are u32");
            self.documents.push(Answer { confidence, predicted, right });
        }
    }

    /// Returns the predicted labels in ten bins of confidence.
    pub(super) fn reliability(&self) -> Vec<Bin> {
        let mut counts = [0u64; BINS];
        let mut sums = [0.0; BINS];
        let mut rights = [0u64; BINS];
        for &(confidence, right) in &self.predicted {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a confidence is from 0 to 1"
            )]
            let bin = ((confidence * BINS as f32) as usize).min(BINS - 1);
            counts[bin] += 1;
            sums[bin] += f64::from(confidence);
            rights[bin] += u64::from(right);
        }
        let bin = |bin: usize| Bin {
            from: bin as f64 / BINS as f64,
            to: (bin + 1) as f64 / BINS as f64,
            count: counts[bin],
            confidence: if counts[bin] > 0 { sums[bin] / counts[bin] as f64 } else { 0.0 },
            right: ratio(rights[bin], counts[bin]),
        };
        (0..BINS).map(bin).collect()
    }

    /// Returns the expected calibration error: the mean distance between confidence and share of
    /// correct labels over the bins, weighted by their counts. `None` without calibration.
    pub(super) fn calibration_error(&self, bins: &[Bin]) -> Option<f64> {
        if !self.is_calibrated {
            return None;
        }
        let distance = |bin: &Bin| bin.count as f64 * (bin.confidence - bin.right).abs();
        let sum: f64 = bins.iter().map(distance).sum();
        Some(sum / self.predicted.len().max(1) as f64)
    }

    /// Returns the metrics of the most confident 5 %, 10 %, … of the documents with predicted
    /// labels.
    pub(super) fn coverage(&self) -> Vec<Coverage> {
        let mut documents = self.documents.clone();
        documents.par_sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        let mut points = Vec::new();
        let mut taken = 0;
        let mut predicted = 0;
        let mut right = 0;
        for point in 1..=POINTS {
            let end = (documents.len() * point).div_ceil(POINTS);
            while taken < end {
                predicted += u64::from(documents[taken].predicted);
                right += u64::from(documents[taken].right);
                taken += 1;
            }
            if end > 0 {
                points.push(Coverage {
                    coverage: point as f64 / POINTS as f64,
                    confidence: documents[end - 1].confidence.into(),
                    precision: ratio(right, predicted),
                });
            }
        }
        points
    }

    /// Returns micro precision, recall and F1 at the thresholds 0, 0.01, …, 1. `support` is the
    /// total number of labels of the documents.
    pub(super) fn curve(&self, support: u64) -> Vec<Point> {
        let mut right = 0;
        let mut wrong = 0;
        let mut points = Vec::new();
        for (step, counts) in self.scores.iter().enumerate().rev() {
            right += counts.right;
            wrong += counts.wrong;
            let prf = Prf::of(right, wrong, support.saturating_sub(right));
            points.push(Point { threshold: THRESHOLDS[step], prf });
        }
        points.reverse();
        points
    }

    /// Returns the metrics of the documents with predicted labels, if the model may abstain.
    pub(super) fn answered(&self, documents: &DocumentCounts) -> Option<AnsweredDocuments> {
        let right = self.documents.iter().map(|answer| u64::from(answer.right)).sum();
        let predicted = self.documents.iter().map(|answer| u64::from(answer.predicted)).sum();
        let precision = ratio(right, predicted);
        self.may_abstain.then(|| AnsweredDocuments {
            coverage: ratio(self.documents.len() as u64, documents.test),
            precision,
            error: if predicted > 0 { 1.0 - precision } else { 0.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::vote::LabelScore;

    /// The step of a score is the number of thresholds above 0 that the score reaches. The
    /// reference compares with each threshold, because rounding matters: `(0.29 * 100.0) as usize`
    /// is 28.
    #[test]
    fn steps_match_the_reached_thresholds() {
        let by_comparison =
            |score: f64| (1..=STEPS).filter(|&step| score >= THRESHOLDS[step]).count();
        for at in 0..=STEPS {
            let exact = at as f64 / 100.0;
            assert_eq!(step(exact), at, "{exact}");
            for score in [exact.next_down(), exact, exact.next_up(), exact + 0.005] {
                assert_eq!(step(score), by_comparison(score), "{score}");
            }
        }
        for number in 0..20_000 {
            let score = crate::random::unit(5, number) * 1.01;
            assert_eq!(step(score), by_comparison(score), "{score}");
            // Shares of a vote are ratios of small integers.
            let share = (number % 141) as f64 / (1 + number / 141) as f64;
            assert_eq!(step(share), by_comparison(share), "{share}");
        }
        assert_eq!([-1.0, f64::NAN, f64::INFINITY].map(step), [0, 0, STEPS]);
    }

    /// The scored labels, the predicted labels and the correct labels of a document.
    type Row = (&'static [(u32, f64)], &'static [u32], &'static [u32]);

    fn collected(may_abstain: bool, is_calibrated: bool, rows: &[Row]) -> Confidences {
        let mut confidences = Confidences::new(may_abstain);
        for (scores, predicted, expected) in rows {
            let scores = scores.iter();
            let scores: Vec<LabelScore> =
                scores.map(|&(label, score)| LabelScore { label, score }).collect();
            // Probabilities exceed scores by 0.25.
            let probabilities = scores.iter().filter(|_| is_calibrated).map(|s| s.score + 0.25);
            let prediction = RawPrediction {
                by_vectors: Vec::new(),
                labels: predicted.to_vec(),
                probabilities: probabilities.collect(),
                scores,
                neighbors: Vec::new(),
                confidence: None,
                reason: None,
                unknown_terms: 0,
            };
            confidences.add(&prediction, &LabelSet::new(*expected), &LabelSet::new(*predicted));
        }
        confidences
    }

    /// Four documents: one correct, one with a correct and a wrong label, one wrong, and one
    /// without a prediction.
    const ROWS: [Row; 4] = [
        (&[(0, 1.0), (1, 0.0)], &[0], &[0]),
        (&[(0, 0.5), (1, 0.5)], &[0, 1], &[1]),
        (&[(1, 0.75), (0, 0.25)], &[1], &[0]),
        (&[(1, 0.25)], &[], &[0]),
    ];

    #[test]
    fn reliability_by_hand() {
        let confidences = collected(false, false, &ROWS);
        let bins = confidences.reliability();
        let counts: Vec<u64> = bins.iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [0, 0, 0, 0, 0, 2, 0, 1, 0, 1]);
        let values = |bin: usize| (bins[bin].confidence, bins[bin].right);
        assert_eq!(
            [values(0), values(5), values(7), values(9)],
            [(0.0, 0.0), (0.5, 0.5), (0.75, 0.0), (1.0, 1.0)]
        );
        assert_eq!((bins[5].from, bins[9].to), (0.5, 1.0));
        assert_eq!(confidences.calibration_error(&bins), None);
        // Confidences: 1.25 (correct), 1.0 (wrong), and 0.75 twice (one of them correct). (|1.125 −
        // .5| · 2 + |.75 − .5| · 2) / 4.
        let confidences = collected(false, true, &ROWS);
        let error = confidences.calibration_error(&confidences.reliability()).unwrap();
        assert!((error - 0.4375).abs() < 1e-12, "{error}");
    }

    #[test]
    fn coverage_by_hand() {
        let points = collected(false, false, &ROWS).coverage();
        assert_eq!(points.len(), POINTS);
        // Three documents have labels, so the first third is one document.
        let values = |index: usize| (points[index].confidence, points[index].precision);
        assert_eq!([values(0), values(5), values(6)], [(1.0, 1.0), (1.0, 1.0), (0.75, 0.5)]);
        assert_eq!(values(19), (0.5, 0.5));
        assert_eq!((points[0].coverage, points[19].coverage), (0.05, 1.0));
        assert!(collected(false, false, &[]).coverage().is_empty());
        // The confidence of a document is the confidence of its best label.
        let rows: [Row; 1] = [(&[(0, 0.75), (1, 0.25)], &[0, 1], &[0])];
        let point = collected(false, false, &rows).coverage()[0];
        assert_eq!((point.confidence, point.precision), (0.75, 0.5));
    }

    #[test]
    fn curve_by_hand() {
        // The scores of correct labels are 1, .5 and .25; of wrong labels 0, .5, .75 and .25.
        let points = collected(false, false, &ROWS).curve(4);
        let values = |step: usize| (points[step].prf.precision, points[step].prf.recall);
        assert_eq!([values(0), values(25)], [(3.0 / 7.0, 0.75), (0.5, 0.75)]);
        assert_eq!([values(26), values(50)], [(0.5, 0.5); 2]);
        assert_eq!([values(51), values(76), values(100)], [(0.5, 0.25), (1.0, 0.25), (1.0, 0.25)]);
        assert_eq!(points.len(), 101);
    }

    #[test]
    fn answered_by_hand() {
        let documents = DocumentCounts { test: 4, ..DocumentCounts::default() };
        assert_eq!(collected(false, false, &ROWS).answered(&documents), None);
        let answered = collected(true, false, &ROWS).answered(&documents).unwrap();
        assert_eq!(answered, AnsweredDocuments { coverage: 0.75, precision: 0.5, error: 0.5 });
        let nothing = collected(true, false, &ROWS[3..]).answered(&documents).unwrap();
        assert_eq!(nothing, AnsweredDocuments { coverage: 0.0, precision: 0.0, error: 0.0 });
    }
}
