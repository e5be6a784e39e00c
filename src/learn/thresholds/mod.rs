//! Learns the threshold of each label: the minimum score at which the label is predicted.
//!
//! * Input: the leave-one-out scores of held-out documents.
//! * Evaluation: five folds; the thresholds of a fold are learned from the other folds.
//! * Output: a threshold per label, by SCut, SCutFBR, smoothed SCut or RTCut, or by maximizing
//!   micro F1 plus macro F1.

use std::collections::VecDeque;

use super::held_out::FOLDS;
#[cfg(test)]
use crate::decide::decision::ThresholdRule;

pub(super) mod micromacro;

/// The scores of one label in all documents, and the number of its gold documents.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub(super) struct LabelScores {
    /// The scores in decreasing order, each with whether the label is gold in that document.
    pub(super) scores: Vec<(f64, bool)>,
    /// Number of documents in which the label is gold, including documents without a score.
    pub(super) gold: u32,
}

/// Counts of true positives, false positives and gold documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) tp: u64,
    pub(crate) fp: u64,
    pub(crate) gold: u64,
}

impl Tally {
    pub(crate) fn f1(self) -> f64 {
        // 2 tp + fp + fn, where fn = gold − tp.
        let whole = self.tp + self.fp + self.gold;
        if whole == 0 { 0.0 } else { 2.0 * self.tp as f64 / whole as f64 }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { tp: self.tp + other.tp, fp: self.fp + other.fp, gold: self.gold + other.gold }
    }

    /// Returns an upper bound on the tally if the label is predicted for at least `given`
    /// documents: all gold documents are found.
    fn ideal(self, given: u64) -> Self {
        Self { tp: self.gold, fp: given.saturating_sub(self.gold), gold: self.gold }
    }
}

/// The score of a label in a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) score: f64,
    /// The slot of the score in the vote table.
    pub(super) slot: u32,
    /// The fold of the document.
    pub(super) fold: u8,
    /// Whether the label is gold in the document.
    pub(super) gold: bool,
}

/// The fold that is held out; `None`: learning uses all documents.
pub(super) type HeldOutFold = Option<usize>;

/// For each fold, the number of its documents in which a label is gold.
pub(super) type FoldCounts = [u32; FOLDS];

/// Returns the number of gold documents of a label outside the held-out fold.
pub(super) fn count_outside(counts: &FoldCounts, held_out_fold: HeldOutFold) -> u32 {
    let held_out = held_out_fold.map_or(0, |fold| counts[fold]);
    counts.iter().sum::<u32>() - held_out
}

/// The scores of one label, sorted lazily.
///
/// A rule cuts the decreasing scores at some point, usually near the top. After n scores, F1 is at
/// most 2 gold / (n + gold). So most of a long list need not be sorted.
#[derive(Debug, Default)]
pub(super) struct RankedScores {
    /// The entries. The first `sorted` entries are the highest, in decreasing order.
    entries: Vec<Entry>,
    sorted: usize,
    gold: FoldCounts,
}

/// The best cut of a list.
#[derive(Debug, Clone, Copy)]
struct BestCut {
    /// The mean of the scores before and after the cut; `None`: the label is never predicted.
    threshold: Option<f64>,
    tally: Tally,
    value: f64,
}

impl BestCut {
    /// Takes the cut between the scores `last` and `next` if its value is higher than the best so
    /// far.
    fn consider(&mut self, tally: Tally, value: f64, last: f64, next: f64) {
        if value > self.value {
            let middle = f64::midpoint(last, next);
            let threshold = if middle > next { middle } else { last };
            *self = Self { threshold: Some(threshold), tally, value };
        }
    }
}

impl RankedScores {
    /// Clears the list and starts another label; `gold` is its number of gold documents by fold.
    pub(super) fn reset(&mut self, gold: FoldCounts) {
        self.entries.clear();
        self.sorted = 0;
        self.gold = gold;
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Sorts at least `min_sorted` entries. The first call sorts about as many as a rule inspects.
    fn sort(&mut self, min_sorted: usize) {
        let rest = &mut self.entries[self.sorted..];
        let by_score = |a: &Entry, b: &Entry| b.score.total_cmp(&a.score);
        let gold = count_outside(&self.gold, None) as usize;
        let usual = if self.sorted == 0 { 16 + gold * 3 / 2 } else { self.sorted / 2 };
        let more = min_sorted.saturating_sub(self.sorted).max(usual);
        let rest = if more < rest.len() {
            // This also moves the next entry into its position, and all lower entries behind it.
            rest.select_nth_unstable_by(more, by_score);
            &mut rest[..=more]
        } else {
            rest
        };
        rest.sort_unstable_by(by_score);
        self.sorted += rest.len();
    }

    /// Returns the entry at a rank, counted from 0.
    fn entry(&mut self, rank: usize) -> Option<Entry> {
        while self.sorted <= rank && self.sorted < self.entries.len() {
            self.sort(rank + 1);
        }
        self.entries.get(rank).copied()
    }

    /// Returns the entries whose scores reach a threshold.
    pub(super) fn entries_reaching(&mut self, threshold: f64) -> &[Entry] {
        while self.sorted < self.entries.len()
            && self.entries[..self.sorted].last().is_none_or(|last| last.score >= threshold)
        {
            self.sort(self.sorted + 1);
        }
        let sorted = &self.entries[..self.sorted];
        &sorted[..sorted.partition_point(|entry| entry.score >= threshold)]
    }

    /// Returns the cut with the highest value; in a tie, the shortest. Equal scores are not
    /// separated. `floor` returns the score that is assumed to follow the last score.
    ///
    /// `value` must not decrease with true positives, nor increase with false positives.
    fn best(
        &mut self,
        held_out_fold: HeldOutFold,
        floor: Floor,
        value: impl Fn(Tally) -> f64,
    ) -> BestCut {
        let gold = count_outside(&self.gold, held_out_fold);
        let mut tally = Tally { gold: u64::from(gold), ..Tally::default() };
        let mut best = BestCut { threshold: None, tally, value: value(tally) };
        let held_out = held_out_fold.and_then(|fold| u8::try_from(fold).ok());
        let mut last: Option<f64> = None;
        let mut at = 0;
        while at < self.entries.len() {
            if at >= self.sorted {
                self.sort(at + 1);
            }
            for entry in &self.entries[at..self.sorted] {
                if Some(entry.fold) == held_out {
                    continue;
                }
                if let Some(last) = last.filter(|&last| entry.score < last) {
                    best.consider(tally, value(tally), last, entry.score);
                    // Every eight documents, stop if a longer cut cannot be better.
                    let given = tally.tp + tally.fp;
                    if given.is_multiple_of(8) && value(tally.ideal(given + 1)) < best.value {
                        return best;
                    }
                }
                if entry.gold {
                    tally.tp += 1;
                } else {
                    tally.fp += 1;
                }
                last = Some(entry.score);
            }
            at = self.sorted;
        }
        if let Some(last) = last {
            best.consider(tally, value(tally), last, floor(last));
        }
        best
    }

    /// Returns the highest score outside the held-out fold.
    fn top(&mut self, held_out_fold: HeldOutFold) -> Option<f64> {
        let entries = (0..).map_while(|at| self.entry(at));
        let mut others = entries.filter(|entry| Some(usize::from(entry.fold)) != held_out_fold);
        others.next().map(|entry| entry.score)
    }

    /// Returns the `count` highest scores; in a tie, the lowest slots.
    pub(super) fn first(&mut self, count: usize) -> &[Entry] {
        let taken = count.min(self.entries.len());
        let Some(last) = taken.checked_sub(1).and_then(|rank| self.entry(rank)) else {
            return &[];
        };
        let end = self.entries_reaching(last.score).len();
        let start = self.entries[..taken].partition_point(|entry| entry.score > last.score);
        self.entries[start..end].sort_unstable_by_key(|entry| entry.slot);
        &self.entries[..taken]
    }
}

#[cfg(test)]
impl From<&LabelScores> for RankedScores {
    fn from(label: &LabelScores) -> Self {
        let entry = |&(score, gold): &(f64, bool)| Entry { score, slot: 0, fold: 0, gold };
        let mut gold = FoldCounts::default();
        gold[0] = label.gold;
        Self { entries: label.scores.iter().map(entry).collect(), sorted: 0, gold }
    }
}

/// A function that returns the score assumed to follow the last score.
type Floor = fn(f64) -> f64;

/// For each label, the cut with the best F1.
///
/// [`ScutFbr`](crate::decide::decision::ThresholdRule::ScutFbr) replaces a cut whose F1 is below a
/// limit.
#[derive(Debug)]
pub(super) struct Cuts {
    labels: Vec<LabelCut>,
}

/// The cut of one label.
#[derive(Debug, Clone, Copy)]
struct LabelCut {
    /// The threshold with the best F1.
    threshold: Option<f64>,
    best_f1: f64,
    highest_score: Option<f64>,
}

impl Cuts {
    /// Finds the cut with the best F1 for each label.
    pub(super) fn scut(labels: &mut [RankedScores], held_out_fold: HeldOutFold) -> Self {
        let cut = |label: &mut RankedScores| {
            let best = label.best(held_out_fold, |_| 0.0, Tally::f1);
            LabelCut {
                threshold: best.threshold,
                best_f1: best.value,
                highest_score: label.top(held_out_fold),
            }
        };
        Self { labels: labels.iter_mut().map(cut).collect() }
    }

    /// Returns the thresholds. If the best F1 of a label is below `fbr`, its threshold is its
    /// highest score.
    pub(super) fn with_fbr(&self, fbr: f64) -> Vec<Option<f64>> {
        let threshold =
            |cut: &LabelCut| if cut.best_f1 < fbr { cut.highest_score } else { cut.threshold };
        self.labels.iter().map(threshold).collect()
    }
}

/// Learns the thresholds of RTCut: SCut on values that combine rank and score, which are negative
/// from the second rank onward. Values of the same rank differ by less than 0.5, and values of
/// different ranks differ by more.
pub(super) fn rtcut(labels: &mut [RankedScores], held_out_fold: HeldOutFold) -> Vec<Option<f64>> {
    let cut = |label: &mut RankedScores| {
        label.best(held_out_fold, |last| last - 0.5, Tally::f1).threshold
    };
    labels.iter_mut().map(cut).collect()
}

/// Number of thresholds per doubling of the score.
const PER_DOUBLING: u64 = 16;
/// The lowest threshold that is tried: 2⁻⁹.
const LOWEST: f64 = 1.0 / 512.0;
/// Number of steps that the smoothed rules and the single-threshold rule try. Each step is a
/// threshold, except step 0, which represents all scores below the lowest threshold.
pub(super) const STEPS: usize = 9 * 16 + 2;

/// Returns the highest step that a score from 0 to 1 reaches.
pub(super) fn step(score: f64) -> usize {
    // The leading bits of a positive float (exponent and four bits of mantissa) increase with the
    // float.
    let leading = |number: f64| number.to_bits() >> (52 - PER_DOUBLING.trailing_zeros());
    let steps = (leading(score) + 1).saturating_sub(leading(LOWEST));
    usize::try_from(steps).unwrap_or(STEPS).min(STEPS - 1)
}

/// Returns the threshold of a step above 0.
pub(super) fn threshold(step: usize) -> f64 {
    let steps = (step.max(1) - 1) as u64;
    f64::from_bits(LOWEST.to_bits() + (steps << (52 - PER_DOUBLING.trailing_zeros())))
}

/// For each step, the number of gold documents and of other documents whose scores reach it.
pub(super) type StepCounts = [(u32, u32); STEPS];

impl RankedScores {
    /// Whether the label is gold in any scored document outside the held-out fold. If not, F1 is 0
    /// at every step.
    pub(super) fn has_correct_score(&self, held_out_fold: HeldOutFold) -> bool {
        let held_out = held_out_fold.and_then(|fold| u8::try_from(fold).ok());
        self.entries.iter().any(|entry| entry.gold && Some(entry.fold) != held_out)
    }

    /// Counts the scores that reach each step, among the documents outside the held-out fold.
    pub(super) fn step_counts(&self, held_out_fold: HeldOutFold) -> Box<StepCounts> {
        let held_out = held_out_fold.and_then(|fold| u8::try_from(fold).ok());
        let mut reached = Box::new([(0, 0); STEPS]);
        for entry in self.entries.iter().filter(|entry| Some(entry.fold) != held_out) {
            let (right, wrong) = &mut reached[step(entry.score)];
            if entry.gold { *right += 1 } else { *wrong += 1 }
        }
        cumulate(reached.iter_mut().rev());
        reached
    }

    /// Returns all entries, in any order.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// Replaces counts with their cumulative sums.
pub(super) fn cumulate<'c, N: Copy + Default + std::ops::Add<Output = N> + 'c>(
    counts: impl Iterator<Item = &'c mut (N, N)>,
) {
    let mut sum = (N::default(), N::default());
    for count in counts {
        sum = (sum.0 + count.0, sum.1 + count.1);
        *count = sum;
    }
}

/// Number of labels on each side, in the order of frequency, whose curves are averaged.
const REACH: usize = 10;

/// The F1 at each step.
type Curve = [f64; STEPS];

/// Returns, for each weight, the thresholds at which the smoothed F1 curves are highest; in a tie,
/// the lowest.
///
/// The best threshold of a label with few documents is largely due to chance. Labels of similar
/// frequency have similar scores, so their mean curve indicates the threshold. For a label with n
/// documents, its own curve has weight n. The mean curve of the labels of similar frequency with at
/// least two documents has weight `weight`.
///
/// Only the curves of one neighborhood are in memory at a time. Labels without a scored gold
/// document share one search per neighborhood.
pub(super) fn scut_smoothed(
    labels: &[RankedScores],
    weights: &[f64],
    held_out_fold: HeldOutFold,
) -> Vec<Vec<Option<f64>>> {
    let documents: Vec<u32> =
        labels.iter().map(|label| count_outside(&label.gold, held_out_fold)).collect();
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&label| (documents[label], label));
    let usable: Vec<usize> = order.iter().copied().filter(|&label| documents[label] > 1).collect();
    let mut thresholds = vec![vec![None; labels.len()]; weights.len()];
    let mut neighborhood = Neighborhood::new(labels, &documents, &usable, held_out_fold);
    let mut usable_before = 0;
    for &label in &order {
        neighborhood.move_to(usable_before);
        usable_before += usize::from(documents[label] > 1);
        let own = curve(&labels[label], documents[label], held_out_fold);
        for (thresholds, &weight) in thresholds.iter_mut().zip(weights) {
            thresholds[label] = match &own {
                Some(own) => highest(
                    own.iter()
                        .zip(neighborhood.mean.iter())
                        .map(|(own, mean)| f64::from(documents[label]) * own + weight * mean),
                ),
                None => neighborhood.highest(weight),
            };
        }
    }
    thresholds
}

/// Returns the F1 of a label at each step; `None`: F1 is 0 at every step.
fn curve(label: &RankedScores, documents: u32, held_out_fold: HeldOutFold) -> Option<Box<Curve>> {
    if !label.has_correct_score(held_out_fold) {
        return None;
    }
    let gold = documents.into();
    let step_counts = label.step_counts(held_out_fold);
    Some(Box::new(step_counts.map(|(tp, fp)| Tally { tp: tp.into(), fp: fp.into(), gold }.f1())))
}

/// Returns the threshold at the first maximum; `None` if no value above step 0 is positive.
fn highest(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut best = (None, 0.0);
    for (step, value) in values.enumerate().skip(1) {
        if value > best.1 {
            best = (Some(threshold(step)), value);
        }
    }
    best.0
}

/// The mean F1 curve of up to 21 labels of similar frequency.
struct Neighborhood<'l> {
    labels: &'l [RankedScores],
    documents: &'l [u32],
    /// The labels with at least two documents, in the order of frequency.
    usable: &'l [usize],
    held_out_fold: HeldOutFold,
    /// The curves of `usable[first..first + curves.len()]`.
    curves: VecDeque<Option<Box<Curve>>>,
    first: usize,
    mean: Box<Curve>,
    /// Cached thresholds for labels without a curve of their own: each weight with the threshold at
    /// the maximum of the mean curve.
    highest: Vec<(f64, Option<f64>)>,
}

impl<'l> Neighborhood<'l> {
    /// Creates the neighborhood of the rarest labels.
    fn new(
        labels: &'l [RankedScores],
        documents: &'l [u32],
        usable: &'l [usize],
        held_out_fold: HeldOutFold,
    ) -> Self {
        let mut neighborhood = Self {
            labels,
            documents,
            usable,
            held_out_fold,
            curves: VecDeque::new(),
            first: 0,
            mean: Box::new([0.0; STEPS]),
            highest: Vec::new(),
        };
        neighborhood.refill();
        neighborhood
    }

    /// Moves to the labels around a position in the order of frequency.
    fn move_to(&mut self, position: usize) {
        let last = self.usable.len().saturating_sub(2 * REACH + 1);
        let first = position.saturating_sub(REACH).min(last);
        if first != self.first {
            self.curves.drain(..(first - self.first).min(self.curves.len()));
            self.first = first;
            self.refill();
        }
    }

    fn refill(&mut self) {
        let end = (self.first + 2 * REACH + 1).min(self.usable.len());
        for &label in &self.usable[self.first + self.curves.len()..end] {
            self.curves.push_back(curve(
                &self.labels[label],
                self.documents[label],
                self.held_out_fold,
            ));
        }
        self.mean.fill(0.0);
        for curve in self.curves.iter().flatten() {
            self.mean.iter_mut().zip(curve.iter()).for_each(|(mean, f1)| *mean += f1);
        }
        let count = self.curves.len().max(1) as f64;
        self.mean.iter_mut().for_each(|mean| *mean /= count);
        self.highest.clear();
    }

    /// Returns the threshold for a label without a curve of its own, at the maximum of the mean
    /// curve.
    fn highest(&mut self, weight: f64) -> Option<f64> {
        let known = self.highest.iter().find(|known| known.0.to_bits() == weight.to_bits());
        if let Some(&(_, threshold)) = known {
            return threshold;
        }
        let threshold = highest(self.mean.iter().map(|mean| weight * mean));
        self.highest.push((weight, threshold));
        threshold
    }
}

/// Returns the threshold of every label under a rule; `None`: the label is never predicted.
///
/// For [`ThresholdRule::ScutFbr`], `parameter` is the limit. For [`ThresholdRule::ScutSmoothed`]
/// and [`ThresholdRule::Micromacro`], it is the weight of labels of similar frequency; 0 disables
/// smoothing. For [`ThresholdRule::Rtcut`], the scores must be values that combine rank and score.
#[cfg(test)]
pub(super) fn thresholds(
    rule: ThresholdRule,
    parameter: f64,
    labels: &[LabelScores],
) -> Vec<Option<f64>> {
    let mut score_rankings: Vec<RankedScores> = labels.iter().map(RankedScores::from).collect();
    match rule {
        ThresholdRule::Scut => Cuts::scut(&mut score_rankings, None).with_fbr(0.0),
        ThresholdRule::ScutFbr => Cuts::scut(&mut score_rankings, None).with_fbr(parameter),
        ThresholdRule::Rtcut => rtcut(&mut score_rankings, None),
        ThresholdRule::Micromacro => {
            micromacro::thresholds(&mut score_rankings, &[parameter], None).remove(0)
        }
        ThresholdRule::ScutSmoothed => scut_smoothed(&score_rankings, &[parameter], None).remove(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(scores: &[(f64, bool)], gold: u32) -> LabelScores {
        LabelScores { scores: scores.to_vec(), gold }
    }

    #[test]
    fn cuts_by_hand() {
        // F1 of the cuts is 0, 2/4 and 4/6. The tied scores are taken together, so all three are
        // taken.
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

    /// With its own best threshold, the rare label would be predicted six times and be correct
    /// once. That would cost more micro F1 of all labels than it adds to macro F1.
    #[test]
    fn micromacro_visits_labels_by_frequency() {
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
