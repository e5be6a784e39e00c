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

    /// The best tally that `given` documents of these can have: nothing due is missed.
    fn ideal(self, given: usize) -> Self {
        Self { tp: self.due, fp: (given as u64).saturating_sub(self.due), due: self.due }
    }
}

/// A score of a label in a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) score: f64,
    /// Whether the label is due there.
    pub(super) due: bool,
    /// Whose score it is.
    pub(super) slot: u32,
}

/// The scores of one label, sorted as far as they have been looked at.
///
/// A rule cuts the falling scores somewhere. Few labels are cut deep: after n scores F1 is at
/// most 2 due / (n + due), so that most of a long list need not be sorted.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    /// The first `sorted` are the highest, falling.
    entries: Vec<Entry>,
    sorted: usize,
    due: u32,
}

/// Where a list is cut: so many scores are taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) taken: usize,
    tally: Tally,
    value: f64,
}

impl Ladder {
    /// Empties the list, for a label that is due in so many documents.
    pub(super) fn reset(&mut self, due: u32) {
        self.entries.clear();
        self.sorted = 0;
        self.due = due;
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The entries that a cut takes.
    pub(super) fn taken(&self, cut: usize) -> &[Entry] {
        &self.entries[..cut]
    }

    /// Sorts more, up to `least` entries and beyond: first about as many as a rule looks at.
    fn sort(&mut self, least: usize) {
        let rest = &mut self.entries[self.sorted..];
        let by_score = |a: &Entry, b: &Entry| b.score.total_cmp(&a.score);
        let usual = if self.sorted == 0 { 16 + self.due as usize * 3 / 2 } else { self.sorted / 2 };
        let more = least.saturating_sub(self.sorted).max(usual);
        let rest = if more < rest.len() {
            // Puts the next one in its place too, and everything lower behind it.
            rest.select_nth_unstable_by(more, by_score);
            &mut rest[..=more]
        } else {
            rest
        };
        rest.sort_unstable_by(by_score);
        self.sorted += rest.len();
    }

    /// The score at a rank, from 0.
    fn score(&mut self, rank: usize) -> Option<f64> {
        while self.sorted <= rank && self.sorted < self.entries.len() {
            self.sort(rank + 1);
        }
        self.entries.get(rank).map(|entry| entry.score)
    }

    /// The cut of highest value, of equal ones the shortest. Equal scores are not cut apart.
    ///
    /// `value` may not fall where a true positive takes the place of a false one, nor rise with a
    /// false positive more.
    fn best(&mut self, value: impl Fn(Tally) -> f64) -> Cut {
        let mut tally = Tally { due: u64::from(self.due), ..Tally::default() };
        let mut best = Cut { taken: 0, tally, value: value(tally) };
        let mut at = 0;
        while let Some(score) = self.score(at) {
            if self.entries[at].due {
                tally.tp += 1;
            } else {
                tally.fp += 1;
            }
            at += 1;
            if self.score(at).is_some_and(|next| next >= score) {
                continue;
            }
            let value_here = value(tally);
            if value_here > best.value {
                best = Cut { taken: at, tally, value: value_here };
            }
            // Worth a look now and then: nothing longer can be better.
            if at.is_multiple_of(16) && value(tally.ideal(at + 1)) <= best.value {
                break;
            }
        }
        best
    }

    /// The threshold of a cut: half-way to the next score, or after the last one to what `floor`
    /// makes of it.
    pub(super) fn threshold(&mut self, cut: usize, floor: impl Fn(f64) -> f64) -> Option<f64> {
        let last = self.entries[cut.checked_sub(1)?].score;
        let next = self.score(cut).unwrap_or_else(|| floor(last));
        let middle = f64::midpoint(last, next);
        Some(if middle > next { middle } else { last })
    }

    /// The cut after the scores that are equal to the highest.
    fn top(&mut self) -> usize {
        let Some(top) = self.score(0) else { return 0 };
        let mut taken = 1;
        while self.score(taken).is_some_and(|next| next >= top) {
            taken += 1;
        }
        taken
    }

    /// The cut after the `most` highest scores; of equal ones those of the lowest slots are taken.
    pub(super) fn first(&mut self, most: usize) -> usize {
        let taken = most.min(self.entries.len());
        let Some(last) = taken.checked_sub(1).and_then(|rank| self.score(rank)) else { return 0 };
        let mut end = taken;
        while self.score(end).is_some_and(|next| next >= last) {
            end += 1;
        }
        let start = self.entries[..taken].partition_point(|entry| entry.score > last);
        self.entries[start..end].sort_unstable_by_key(|entry| entry.slot);
        taken
    }
}

impl From<&LabelScores> for Ladder {
    fn from(label: &LabelScores) -> Self {
        let entry = |&(score, due): &(f64, bool)| Entry { score, due, slot: 0 };
        Self { entries: label.scores.iter().map(entry).collect(), sorted: 0, due: label.due }
    }
}

/// What comes after the lowest score: no score at all, or for RTCut, whose values are negative,
/// one rank lower.
pub(super) fn floor(rule: ThresholdRule) -> impl Fn(f64) -> f64 {
    move |last| if rule == ThresholdRule::Rtcut { last - 1.0 } else { 0.0 }
}

/// The cut of every label by a rule.
pub(super) fn cuts(rule: ThresholdRule, fbr: f64, labels: &mut [Ladder]) -> Vec<usize> {
    match rule {
        ThresholdRule::Scut | ThresholdRule::Rtcut => {
            labels.iter_mut().map(|label| label.best(Tally::f1).taken).collect()
        }
        ThresholdRule::ScutFbr => {
            let cut = |label: &mut Ladder| {
                let best = label.best(Tally::f1);
                if best.value < fbr { label.top() } else { best.taken }
            };
            labels.iter_mut().map(cut).collect()
        }
        ThresholdRule::Micromacro => micromacro(labels),
    }
}

/// Lin and Lin 2023, section 4.3, on given scores: labels by falling frequency, then by number.
fn micromacro(labels: &mut [Ladder]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&label| (std::cmp::Reverse(labels[label].due), label));
    let mut cuts = vec![0; labels.len()];
    let mut so_far = Tally::default();
    for (seen, &label) in (1u32..).zip(&order) {
        let value = |tally: Tally| tally.f1() / f64::from(seen) + so_far.plus(tally).f1();
        let best = labels[label].best(value);
        cuts[label] = best.taken;
        so_far = so_far.plus(best.tally);
    }
    cuts
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
    let mut ladders: Vec<Ladder> = labels.iter().map(Ladder::from).collect();
    learnt(rule, fbr, &mut ladders)
}

/// The same on lists that are not sorted yet.
pub(super) fn learnt(rule: ThresholdRule, fbr: f64, labels: &mut [Ladder]) -> Vec<Option<f64>> {
    let cuts = cuts(rule, fbr, labels);
    labels.iter_mut().zip(cuts).map(|(label, cut)| label.threshold(cut, floor(rule))).collect()
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
