//! Thresholds of labels, learnt from leave-one-out scores.

use crate::decide::ThresholdRule;

/// The scores of one label: of every document that has one, by falling score, whether the label
/// is due; and in how many documents it is due, those without a score among them.
#[derive(Debug, Clone, Default)]
pub struct LabelScores {
    /// Scores above 0 and whether the label is due there, by falling score.
    pub scores: Vec<(f64, bool)>,
    /// In how many documents the label is due.
    pub due: u32,
}

/// True positives, false positives and false negatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) tp: u64,
    pub(crate) fp: u64,
    pub(crate) due: u64,
}

impl Tally {
    pub(crate) fn f1(self) -> f64 {
        // 2 tp + fp + fn, for fn = due − tp.
        let whole = self.tp + self.fp + self.due;
        if whole == 0 { 0.0 } else { 2.0 * self.tp as f64 / whole as f64 }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { tp: self.tp + other.tp, fp: self.fp + other.fp, due: self.due + other.due }
    }
}

impl LabelScores {
    /// Calls `cut` with the tally of every legal cut and the number of scores before it, from
    /// none to all. Equal scores are not cut apart.
    fn cuts(&self, mut cut: impl FnMut(usize, Tally)) {
        let mut tally = Tally { due: u64::from(self.due), ..Tally::default() };
        cut(0, tally);
        for (at, &(score, due)) in self.scores.iter().enumerate() {
            if due {
                tally.tp += 1;
            } else {
                tally.fp += 1;
            }
            if self.scores.get(at + 1).is_none_or(|&(next, _)| next < score) {
                cut(at + 1, tally);
            }
        }
    }

    /// The cut of highest value, of equal ones the shortest.
    fn best(&self, value: impl Fn(Tally) -> f64) -> (usize, Tally, f64) {
        let mut best = (0, Tally::default(), f64::NEG_INFINITY);
        self.cuts(|cut, tally| {
            let value = value(tally);
            if value > best.2 {
                best = (cut, tally, value);
            }
        });
        best
    }

    /// The threshold of a cut: half-way to the next score, or to `floor` after the last.
    fn threshold(&self, cut: usize, floor: f64) -> Option<f64> {
        let last = self.scores[cut.checked_sub(1)?].0;
        let next = self.scores.get(cut).map_or(floor, |&(score, _)| score);
        let middle = f64::midpoint(last, next);
        Some(if middle > next { middle } else { last })
    }
}

/// The threshold of every label by a rule; `None`: never. `fbr` is the limit of
/// [`ThresholdRule::ScutFbr`]; the scores of [`ThresholdRule::Rtcut`] are its values.
///
/// ```
/// use classify::decide::ThresholdRule;
/// use classify::tune::{LabelScores, thresholds};
///
/// let scores = vec![(0.9, true), (0.6, true), (0.4, false)];
/// let label = LabelScores { scores, due: 2 };
/// assert_eq!(thresholds(ThresholdRule::Scut, 0.0, &[label]), [Some(0.5)]);
/// ```
pub fn thresholds(rule: ThresholdRule, fbr: f64, labels: &[LabelScores]) -> Vec<Option<f64>> {
    match rule {
        ThresholdRule::Scut => {
            labels.iter().map(|label| label.threshold(label.best(Tally::f1).0, 0.0)).collect()
        }
        ThresholdRule::Rtcut => labels
            .iter()
            .map(|label| {
                let floor = label.scores.last().map_or(0.0, |&(value, _)| value - 1.0);
                label.threshold(label.best(Tally::f1).0, floor)
            })
            .collect(),
        ThresholdRule::ScutFbr => labels
            .iter()
            .map(|label| {
                let (cut, _, f1) = label.best(Tally::f1);
                if f1 < fbr {
                    label.scores.first().map(|&(score, _)| score)
                } else {
                    label.threshold(cut, 0.0)
                }
            })
            .collect(),
        ThresholdRule::Micromacro => micromacro(labels),
    }
}

/// Lin and Lin 2023, section 4.3, on given scores: labels by falling frequency, then by number.
fn micromacro(labels: &[LabelScores]) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&label| (std::cmp::Reverse(labels[label].due), label));
    let mut thresholds = vec![None; labels.len()];
    let mut so_far = Tally::default();
    for (seen, &label) in (1u32..).zip(&order) {
        let value = |tally: Tally| tally.f1() / f64::from(seen) + so_far.plus(tally).f1();
        let (cut, tally, _) = labels[label].best(value);
        thresholds[label] = labels[label].threshold(cut, 0.0);
        so_far = so_far.plus(tally);
    }
    thresholds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(scores: &[(f64, bool)], due: u32) -> LabelScores {
        LabelScores { scores: scores.to_vec(), due }
    }

    #[test]
    fn cuts_by_hand() {
        // F1 of cuts: 0, 2/4, 2/5, 4/6 (tied scores together), so all three.
        let tied = label(&[(0.9, true), (0.5, false), (0.5, true)], 3);
        assert_eq!(thresholds(ThresholdRule::Scut, 0.0, std::slice::from_ref(&tied)), [Some(0.25)]);
        let never = label(&[(0.9, false)], 4);
        assert_eq!(thresholds(ThresholdRule::Scut, 0.0, std::slice::from_ref(&never)), [None]);
        assert_eq!(
            thresholds(ThresholdRule::ScutFbr, 0.1, &[never, label(&[], 1)]),
            [Some(0.9), None]
        );
        let values = label(&[(0.4, true), (-0.8, true), (-2.0, false)], 2);
        assert_eq!(thresholds(ThresholdRule::Rtcut, 0.0, &[values]), [Some(-1.4)]);
    }

    /// Alone the rare label would be given six times to be right once; with the frequent label
    /// before it, that costs more micro F1 than it adds to the macro F1.
    #[test]
    fn micromacro_goes_by_frequency() {
        let frequent = label(&[(0.9, true), (0.8, true), (0.7, true), (0.2, false)], 3);
        let mut scores = vec![(0.6, false); 5];
        scores.push((0.3, true));
        let rare = label(&scores, 1);
        let alone = thresholds(ThresholdRule::Micromacro, 0.0, std::slice::from_ref(&rare));
        assert_eq!(alone, [Some(0.15)]);
        assert_eq!(
            thresholds(ThresholdRule::Micromacro, 0.0, &[rare, frequent]),
            [None, Some(f64::midpoint(0.7, 0.2))]
        );
    }
}
