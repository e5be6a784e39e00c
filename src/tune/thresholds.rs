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
    fn ideal(self, given: u64) -> Self {
        Self { tp: self.due, fp: given.saturating_sub(self.due), due: self.due }
    }
}

/// The left-out documents are cut into so many parts: thresholds that the other parts teach decide
/// on each part when settings are compared, since on what has taught them they look too good.
pub const FOLDS: usize = 5;

/// The part of a document, of so many: eight stretches each, since documents in order are alike.
///
/// ```
/// use classify::tune::{FOLDS, fold};
/// assert_eq!((fold(0, 400), fold(9, 400), fold(10, 400)), (0, 0, 1));
/// assert_eq!(fold(399, 400), FOLDS - 1);
/// ```
pub fn fold(document: usize, documents: usize) -> usize {
    document * FOLDS * 8 / documents.max(1) % FOLDS
}

/// A score of a label in a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) score: f64,
    /// Whose score it is.
    pub(super) slot: u32,
    /// The document's part.
    pub(super) fold: u8,
    /// Whether the label is due there.
    pub(super) due: bool,
}

/// Which documents teach: all, or all but those of one part.
pub(super) type Without = Option<usize>;

/// In how many documents of each part a label is due.
pub(super) type Due = [u32; FOLDS];

/// In how many of the documents that teach a label is due.
pub(super) fn due(parts: &Due, without: Without) -> u32 {
    let left_out = without.map_or(0, |fold| parts[fold]);
    parts.iter().sum::<u32>() - left_out
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
    due: Due,
}

/// Where a list is best cut.
#[derive(Debug, Clone, Copy)]
struct Best {
    /// Half-way between the scores before and after the cut; none: nothing is taken.
    threshold: Option<f64>,
    tally: Tally,
    value: f64,
}

impl Best {
    /// Takes a cut between two scores if its value is higher.
    fn consider(&mut self, tally: Tally, value: f64, (last, next): (f64, f64)) {
        if value > self.value {
            let middle = f64::midpoint(last, next);
            let threshold = if middle > next { middle } else { last };
            *self = Self { threshold: Some(threshold), tally, value };
        }
    }
}

impl Ladder {
    /// Empties the list, for a label that is due in so many documents.
    pub(super) fn reset(&mut self, due: Due) {
        self.entries.clear();
        self.sorted = 0;
        self.due = due;
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Sorts more, up to `least` entries and beyond: first about as many as a rule looks at.
    fn sort(&mut self, least: usize) {
        let rest = &mut self.entries[self.sorted..];
        let by_score = |a: &Entry, b: &Entry| b.score.total_cmp(&a.score);
        let due = due(&self.due, None) as usize;
        let usual = if self.sorted == 0 { 16 + due * 3 / 2 } else { self.sorted / 2 };
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

    /// The entry at a rank, from 0.
    fn entry(&mut self, rank: usize) -> Option<Entry> {
        while self.sorted <= rank && self.sorted < self.entries.len() {
            self.sort(rank + 1);
        }
        self.entries.get(rank).copied()
    }

    /// The entries of scores that reach a threshold.
    pub(super) fn reaching(&mut self, threshold: f64) -> &[Entry] {
        while self.sorted < self.entries.len()
            && self.entries[..self.sorted].last().is_none_or(|last| last.score >= threshold)
        {
            self.sort(self.sorted + 1);
        }
        let sorted = &self.entries[..self.sorted];
        &sorted[..sorted.partition_point(|entry| entry.score >= threshold)]
    }

    /// The cut of highest value, of equal ones the shortest. Equal scores are not cut apart;
    /// `floor` is what comes after the last one.
    ///
    /// A true positive more may not lower `value`, a false positive more may not raise it.
    fn best(&mut self, without: Without, floor: Floor, value: impl Fn(Tally) -> f64) -> Best {
        let due = due(&self.due, without);
        let mut tally = Tally { due: u64::from(due), ..Tally::default() };
        let mut best = Best { threshold: None, tally, value: value(tally) };
        let left_out = without.and_then(|fold| u8::try_from(fold).ok());
        let mut last: Option<f64> = None;
        let mut at = 0;
        while at < self.entries.len() {
            if at >= self.sorted {
                self.sort(at + 1);
            }
            for entry in &self.entries[at..self.sorted] {
                if Some(entry.fold) == left_out {
                    continue;
                }
                if let Some(last) = last.filter(|&last| entry.score < last) {
                    best.consider(tally, value(tally), (last, entry.score));
                    // Looked at now and then: nothing longer can be better.
                    let given = tally.tp + tally.fp;
                    if given.is_multiple_of(8) && value(tally.ideal(given + 1)) < best.value {
                        return best;
                    }
                }
                if entry.due {
                    tally.tp += 1;
                } else {
                    tally.fp += 1;
                }
                last = Some(entry.score);
            }
            at = self.sorted;
        }
        if let Some(last) = last {
            best.consider(tally, value(tally), (last, floor(last)));
        }
        best
    }

    /// The highest score.
    fn top(&mut self, without: Without) -> Option<f64> {
        let entries = (0..).map_while(|at| self.entry(at));
        let mut others = entries.filter(|entry| Some(usize::from(entry.fold)) != without);
        others.next().map(|entry| entry.score)
    }

    /// The `most` highest scores; of equal ones those of the lowest slots are taken.
    pub(super) fn first(&mut self, most: usize) -> &[Entry] {
        let taken = most.min(self.entries.len());
        let Some(last) = taken.checked_sub(1).and_then(|rank| self.entry(rank)) else {
            return &[];
        };
        let end = self.reaching(last.score).len();
        let start = self.entries[..taken].partition_point(|entry| entry.score > last.score);
        self.entries[start..end].sort_unstable_by_key(|entry| entry.slot);
        &self.entries[..taken]
    }
}

impl From<&LabelScores> for Ladder {
    fn from(label: &LabelScores) -> Self {
        let entry = |&(score, due): &(f64, bool)| Entry { score, slot: 0, fold: 0, due };
        let mut due = Due::default();
        due[0] = label.due;
        Self { entries: label.scores.iter().map(entry).collect(), sorted: 0, due }
    }
}

/// What comes after the last score.
type Floor = fn(f64) -> f64;

/// What [`ThresholdRule::ScutFbr`] takes for each label instead of a cut of lower F1 than its limit.
#[derive(Debug)]
pub(super) struct Cuts {
    /// The threshold of best F1, that F1, and the highest score.
    labels: Vec<(Option<f64>, f64, Option<f64>)>,
}

impl Cuts {
    /// The cuts of best F1 of labels.
    pub(super) fn scut(labels: &mut [Ladder], without: Without) -> Self {
        let cut = |label: &mut Ladder| {
            let best = label.best(without, |_| 0.0, Tally::f1);
            (best.threshold, best.value, label.top(without))
        };
        Self { labels: labels.iter_mut().map(cut).collect() }
    }

    /// The thresholds where those of a best F1 below `fbr` are replaced by the highest score.
    pub(super) fn with_fbr(&self, fbr: f64) -> Vec<Option<f64>> {
        let threshold = |&(best, f1, top)| if f1 < fbr { top } else { best };
        self.labels.iter().map(threshold).collect()
    }
}

/// RTCut: as SCut on values of rank and score, which are negative from the second rank on; those
/// of one rank are less than a half apart, those of two ranks more.
pub(super) fn rtcut(labels: &mut [Ladder], without: Without) -> Vec<Option<f64>> {
    let cut = |label: &mut Ladder| label.best(without, |last| last - 0.5, Tally::f1).threshold;
    labels.iter_mut().map(cut).collect()
}

/// Lin and Lin 2023, section 4.3, on given scores: labels by falling frequency, then by number.
pub(super) fn micromacro(labels: &mut [Ladder], without: Without) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&label| (std::cmp::Reverse(due(&labels[label].due, without)), label));
    let mut thresholds = vec![None; labels.len()];
    let mut so_far = Tally::default();
    for (seen, &label) in (1u32..).zip(&order) {
        let value = |tally: Tally| tally.f1() / f64::from(seen) + so_far.plus(tally).f1();
        let best = labels[label].best(without, |_| 0.0, value);
        thresholds[label] = best.threshold;
        so_far = so_far.plus(best.tally);
    }
    thresholds
}

/// How many thresholds each doubling of the score has.
const PER_DOUBLING: u64 = 16;
/// The lowest threshold that is tried: 2⁻⁹.
const LOWEST: f64 = 1.0 / 512.0;
/// The thresholds that smoothed rules and the one threshold for all labels try: step 0 is what is
/// below the lowest of them.
pub(super) const STEPS: usize = 9 * 16 + 2;

/// The highest step that a score from 0 to 1 reaches.
pub(super) fn step(score: f64) -> usize {
    // The leading bits of a number above 0 rise with it: exponent, then four of the mantissa.
    let leading = |number: f64| number.to_bits() >> (52 - PER_DOUBLING.trailing_zeros());
    let steps = (leading(score) + 1).saturating_sub(leading(LOWEST));
    usize::try_from(steps).unwrap_or(STEPS).min(STEPS - 1)
}

/// The threshold of a step above 0.
pub(super) fn threshold(step: usize) -> f64 {
    let steps = (step.max(1) - 1) as u64;
    f64::from_bits(LOWEST.to_bits() + (steps << (52 - PER_DOUBLING.trailing_zeros())))
}

/// For each label and step how many scores reach it, right and wrong ones; by part.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// `[(fold · labels + label) · STEPS + step]`.
    counts: Vec<(u32, u32)>,
    /// The same of all parts.
    all: Vec<(u32, u32)>,
}

impl Histogram {
    pub(super) fn reset(&mut self, labels: usize) {
        self.all.clear();
        self.counts.clear();
        self.counts.resize(FOLDS * labels * STEPS, (0, 0));
    }

    pub(super) fn add(&mut self, label: usize, score: f64, fold: usize, due: bool) {
        let labels = self.counts.len() / (FOLDS * STEPS);
        let (right, wrong) = &mut self.counts[(fold * labels + label) * STEPS + step(score)];
        if due { *right += 1 } else { *wrong += 1 }
    }

    /// From here each step counts all scores that reach it; with `below`, all that do not.
    pub(super) fn cumulate(&mut self, below: bool) {
        for steps in self.counts.chunks_exact_mut(STEPS) {
            let mut sum = (0, 0);
            let add = |step: &mut (u32, u32)| {
                let with = (sum.0 + step.0, sum.1 + step.1);
                *step = if below { sum } else { with };
                sum = with;
            };
            if below {
                steps.iter_mut().for_each(add);
            } else {
                steps.iter_mut().rev().for_each(add);
            }
        }
        let part = self.counts.len() / FOLDS;
        self.all.extend_from_slice(&self.counts[..part]);
        for fold in self.counts[part..].chunks_exact(part.max(1)) {
            for (sum, count) in self.all.iter_mut().zip(fold) {
                *sum = (sum.0 + count.0, sum.1 + count.1);
            }
        }
    }

    /// The tally of a label at a step.
    pub(super) fn tally(&self, label: usize, step: usize, due: u32, without: Without) -> Tally {
        let at = label * STEPS + step;
        let (mut right, mut wrong) = self.all[at];
        if let Some(fold) = without {
            let part = self.counts[fold * self.all.len() + at];
            (right, wrong) = (right - part.0, wrong - part.1);
        }
        Tally { tp: right.into(), fp: wrong.into(), due: due.into() }
    }
}

/// So many labels before a label in the order of frequency, and after it, lend it their curves.
const REACH: usize = 10;

/// For each label F1 as a curve over thresholds, smoothed by the labels of nearest frequency.
///
/// The best threshold of a label of few documents is chance: these few decide. Labels of about
/// the same frequency have about the same scores, so that their mean curve tells where the
/// threshold lies. A label of n documents takes n times its own curve, and `weight` times the
/// mean of the curves of the labels around it that are due at least twice.
#[derive(Debug)]
pub(super) struct Curves {
    /// `[label · STEPS + step]`.
    own: Vec<f64>,
    around: Vec<f64>,
    due: Vec<u32>,
}

impl Curves {
    pub(super) fn new(histogram: &Histogram, parts: &[Due], without: Without) -> Self {
        let due: Vec<u32> = parts.iter().map(|parts| due(parts, without)).collect();
        let mut own = vec![0.0; due.len() * STEPS];
        for (label, curve) in own.chunks_exact_mut(STEPS).enumerate() {
            for (step, f1) in curve.iter_mut().enumerate() {
                *f1 = histogram.tally(label, step, due[label], without).f1();
            }
        }
        let mut order: Vec<usize> = (0..due.len()).collect();
        order.sort_by_key(|&label| (due[label], label));
        let usable: Vec<usize> = order.iter().copied().filter(|&label| due[label] > 1).collect();
        let mut around = vec![0.0; own.len()];
        for &label in &order {
            let at = usable.partition_point(|&other| (due[other], other) < (due[label], label));
            let first = at.saturating_sub(REACH).min(usable.len().saturating_sub(2 * REACH + 1));
            let near = &usable[first..(first + 2 * REACH + 1).min(usable.len())];
            let mean = &mut around[label * STEPS..(label + 1) * STEPS];
            for &other in near {
                let curve = &own[other * STEPS..(other + 1) * STEPS];
                mean.iter_mut().zip(curve).for_each(|(mean, f1)| *mean += f1);
            }
            for mean in mean {
                *mean /= near.len().max(1) as f64;
            }
        }
        Self { own, around, due }
    }

    /// The thresholds where the curves are highest, of equal ones the lowest.
    pub(super) fn thresholds(&self, weight: f64) -> Vec<Option<f64>> {
        let best = |label: usize| {
            let curve = label * STEPS..(label + 1) * STEPS;
            let due = f64::from(self.due[label]);
            let values = self.own[curve.clone()].iter().zip(&self.around[curve]);
            let values = values.map(|(own, around)| due * own + weight * around);
            let mut best = (None, 0.0);
            for (step, value) in values.enumerate().skip(1) {
                if value > best.1 {
                    best = (Some(threshold(step)), value);
                }
            }
            best.0
        };
        (0..self.due.len()).map(best).collect()
    }
}

/// The threshold of every label by a rule; `None`: never. `parameter` is the limit of
/// [`ThresholdRule::ScutFbr`] or the weight of [`ThresholdRule::ScutSmoothed`]; the scores of
/// [`ThresholdRule::Rtcut`] are its values.
///
/// ```
/// use classify::decide::ThresholdRule;
/// use classify::tune::{LabelScores, thresholds};
///
/// let scores = vec![(0.9, true), (0.6, true), (0.4, false)];
/// let label = LabelScores { scores, due: 2 };
/// assert_eq!(thresholds(ThresholdRule::Scut, 0.0, &[label]), [Some(0.5)]);
/// ```
pub fn thresholds(rule: ThresholdRule, parameter: f64, labels: &[LabelScores]) -> Vec<Option<f64>> {
    let mut ladders: Vec<Ladder> = labels.iter().map(Ladder::from).collect();
    match rule {
        ThresholdRule::Scut => Cuts::scut(&mut ladders, None).with_fbr(0.0),
        ThresholdRule::ScutFbr => Cuts::scut(&mut ladders, None).with_fbr(parameter),
        ThresholdRule::Rtcut => rtcut(&mut ladders, None),
        ThresholdRule::Micromacro => micromacro(&mut ladders, None),
        ThresholdRule::ScutSmoothed => {
            let mut histogram = Histogram::default();
            histogram.reset(labels.len());
            for (label, scores) in labels.iter().enumerate() {
                scores.scores.iter().for_each(|&(score, due)| histogram.add(label, score, 0, due));
            }
            histogram.cumulate(false);
            let parts: Vec<Due> = ladders.iter().map(|ladder| ladder.due).collect();
            Curves::new(&histogram, &parts, None).thresholds(parameter)
        }
    }
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
