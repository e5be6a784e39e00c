//! Probabilities of models of version 3 and older: a rising curve per label, by isotonic regression
//! (Zadrozny and Elkan 2002).

use crate::rows::matrix::Array;

/// The curves of all labels.
#[derive(Debug, Clone)]
pub struct Curves {
    /// The curve of each label.
    pub(crate) of_label: Array<u32>,
    /// The points of curve `i` are `starts[i]..starts[i + 1]`.
    pub(crate) starts: Array<u64>,
    pub(crate) scores: Array<f64>,
    pub(crate) probabilities: Array<f64>,
}

impl Curves {
    /// The probability that a label with this score is right.
    ///
    /// # Panics
    /// If there is no such label.
    #[expect(clippy::cast_possible_truncation, reason = "bounds of slices in memory")]
    pub(super) fn probability(&self, label: u32, score: f64) -> f64 {
        let curve = self.of_label[label as usize] as usize;
        let points = self.starts[curve] as usize..self.starts[curve + 1] as usize;
        interpolate(&self.scores[points.clone()], &self.probabilities[points], score)
    }

    /// What is wrong, if anything, for a model with this number of labels.
    pub(super) fn check(&self, labels: usize) -> Result<(), &'static str> {
        let points = self.scores.len();
        let spans = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(points as u64))
            && self.starts.is_sorted();
        if !spans || self.probabilities.len() != points {
            return Err("bounds that do not span the points of the curves");
        }
        let count = self.starts.len() - 1;
        if self.of_label.len() != labels
            || self.of_label.iter().any(|&curve| curve as usize >= count)
        {
            return Err("not one curve a label, or one that is not there");
        }
        if self.probabilities.iter().any(|probability| !(0.0..=1.0).contains(probability)) {
            return Err("a probability that is not from 0 to 1");
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
        let rising = self.starts.windows(2).all(|bounds| {
            let curve = bounds[0] as usize..bounds[1] as usize;
            self.scores[curve.clone()].is_sorted_by(|a, b| a < b)
                && self.probabilities[curve].is_sorted()
        });
        if rising { Ok(()) } else { Err("a curve that falls") }
    }
}

/// The straight line between the points around `at`; before and after all points their values.
pub(super) fn interpolate(scores: &[f64], probabilities: &[f64], at: f64) -> f64 {
    let after = scores.partition_point(|&score| score < at);
    match (after.checked_sub(1), scores.get(after)) {
        (None, None) => 0.0,
        (None, Some(_)) => probabilities[0],
        (Some(before), None) => probabilities[before],
        (Some(before), Some(&next)) => {
            let share = (at - scores[before]) / (next - scores[before]);
            let (low, high) = (probabilities[before], probabilities[after]);
            (low + share * (high - low)).clamp(low, high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straight_lines_between_points() {
        let curves = Curves {
            of_label: vec![0, 0].into(),
            starts: vec![0, 3].into(),
            scores: vec![0.0, 0.4, 0.6].into(),
            probabilities: vec![0.0, 0.5, 1.0].into(),
        };
        assert_eq!(curves.check(2), Ok(()));
        assert!(curves.check(3).is_err());
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(curves.probability(1, 0.2), 0.25);
        close(curves.probability(0, 0.5), 0.75);
        close(curves.probability(0, 0.9), 1.0);
    }
}
