//! Thresholds that maximize micro F1 plus macro F1.

use super::{HeldOutFold, REACH, RankedScores, STEPS, StepCounts, Tally, count_outside, threshold};

/// Returns the thresholds of all labels, for each weight. A weight above 0 uses
/// [`smoothed_thresholds`], and 0 uses [`greedy_thresholds`].
pub(in crate::learn) fn thresholds(
    labels: &mut [RankedScores],
    weights: &[f64],
    held_out_fold: HeldOutFold,
) -> Vec<Vec<Option<f64>>> {
    let mut curves = None;
    let of_weight = |&weight: &f64| {
        if weight > 0.0 {
            let curves = curves.get_or_insert_with(|| Curves::new(labels, held_out_fold));
            smoothed_thresholds(curves, weight)
        } else {
            greedy_thresholds(labels, held_out_fold)
        }
    };
    weights.iter().map(of_weight).collect()
}

/// Chooses thresholds from given scores as in Lin and Lin 2023, section 4.3. Visits labels by
/// decreasing frequency, then by number.
fn greedy_thresholds(labels: &mut [RankedScores], held_out_fold: HeldOutFold) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&label| {
        (std::cmp::Reverse(count_outside(&labels[label].gold, held_out_fold)), label)
    });
    let mut thresholds = vec![None; labels.len()];
    let mut so_far = Tally::default();
    for (seen, &label) in (1u32..).zip(&order) {
        let value = |tally: Tally| tally.f1() / f64::from(seen) + so_far.plus(tally).f1();
        let best = labels[label].best(held_out_fold, |_| 0.0, value);
        thresholds[label] = best.threshold;
        so_far = so_far.plus(best.tally);
    }
    thresholds
}

/// Maximum number of passes over all labels.
const MAX_SWEEPS: usize = 4;

/// Returns the thresholds that maximize micro F1 plus macro F1. Both are estimated with the tallies
/// of labels of similar frequency. Otherwise, the best threshold of a label with few documents
/// would be largely due to chance.
///
/// For a label with n documents, its own F1, true positives and false positives at a threshold have
/// weight n. Their mean over labels of similar frequency has weight `weight`, as in
/// [`super::scut_smoothed`]. Counts are divided by the number of documents of their label.
///
/// Every label starts with the threshold that maximizes its own F1. Then each label in turn, by
/// decreasing frequency, takes the best threshold for fixed thresholds of the other labels (cyclic
/// optimization, Fan and Lin 2007).
fn smoothed_thresholds(curves: &Curves, weight: f64) -> Vec<Option<f64>> {
    let labels: Vec<LabelCurve> = curves.smoothed_curves(weight);
    let mut steps: Vec<usize> = labels.iter().map(|label| highest(&label.f1, 0.0)).collect();
    let mut total = labels.iter().zip(&steps).fold([0.0; 2], |sum, (label, &step)| {
        let counts = label.counts(step);
        [sum[0] + counts[0], sum[1] + counts[1]]
    });
    let gold: f64 = curves.gold.iter().sum();
    let share = 1.0 / labels.len().max(1) as f64;
    for _ in 0..MAX_SWEEPS {
        let mut changed = false;
        for (label, step) in labels.iter().zip(&mut steps).rev() {
            let now = label.counts(*step);
            let others = [total[0] - now[0], total[1] - now[1]];
            let values = std::array::from_fn(|step| {
                let [tp, fp] = label.counts(step);
                share * label.f1[step] + f1([others[0] + tp, others[1] + fp], gold)
            });
            let best = highest(&values, f1(others, gold));
            changed |= best != *step;
            *step = best;
            let counts = label.counts(best);
            total = [others[0] + counts[0], others[1] + counts[1]];
        }
        if !changed {
            break;
        }
    }
    let mut thresholds = vec![None; labels.len()];
    for (&label, &step) in curves.order.iter().zip(&steps) {
        thresholds[label] = (step > 0).then(|| threshold(step));
    }
    thresholds
}

/// Returns the step of the first maximum above `min`, or 0 if there is none. Step 0 means that the
/// label is never predicted.
fn highest(values: &[f64; STEPS], min: f64) -> usize {
    let mut best = (0, min);
    for (step, &value) in values.iter().enumerate().skip(1) {
        if value > best.1 {
            best = (step, value);
        }
    }
    best.0
}

/// Returns F1, given the numbers of true positives, false positives and gold documents.
fn f1([tp, fp]: [f64; 2], gold: f64) -> f64 {
    let whole = tp + fp + gold;
    if whole > 0.0 { 2.0 * tp / whole } else { 0.0 }
}

/// For each label, the number of scores that reach each step.
struct Curves {
    /// The labels by increasing frequency, then by number.
    order: Vec<usize>,
    /// The counts by step of each label in `order`.
    step_counts: Vec<StepCounts>,
    /// The number of documents in which each label of `order` is gold.
    gold: Vec<f64>,
    /// Index in `order` of the first label that is gold in at least two documents.
    first_usable: usize,
}

impl Curves {
    fn new(labels: &[RankedScores], held_out_fold: HeldOutFold) -> Self {
        let documents: Vec<u32> =
            labels.iter().map(|label| count_outside(&label.gold, held_out_fold)).collect();
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|&label| (documents[label], label));
        Self {
            step_counts: order
                .iter()
                .map(|&label| *labels[label].step_counts(held_out_fold))
                .collect(),
            gold: order.iter().map(|&label| documents[label].into()).collect(),
            first_usable: order.partition_point(|&label| documents[label] < 2),
            order,
        }
    }

    /// Returns the smoothed F1 and counts of each label of `order`, at each step.
    fn smoothed_curves(&self, weight: f64) -> Vec<LabelCurve> {
        let mut mean = NeighborhoodMean::new(self);
        let curve = |(at, step_counts): (usize, &StepCounts)| {
            mean.move_to(at);
            let own = LabelCurve::own(step_counts, self.gold[at], 1.0);
            mean.mixed(&own, self.gold[at], weight)
        };
        self.step_counts.iter().enumerate().map(curve).collect()
    }
}

/// F1, true positives and false positives of a label at each step.
struct LabelCurve {
    f1: Box<[f64; STEPS]>,
    counts: Box<[[f64; 2]; STEPS]>,
}

impl LabelCurve {
    /// Computes F1, and the counts multiplied by `scale`.
    fn own(step_counts: &StepCounts, gold: f64, scale: f64) -> Self {
        let counts = step_counts.map(|(right, wrong)| [f64::from(right), f64::from(wrong)]);
        Self {
            f1: Box::new(counts.map(|counts| f1(counts, gold))),
            counts: Box::new(counts.map(|[tp, fp]| [tp * scale, fp * scale])),
        }
    }

    /// Returns the counts at a step, or zeros at step 0.
    fn counts(&self, step: usize) -> [f64; 2] {
        if step > 0 { self.counts[step] } else { [0.0; 2] }
    }
}

/// The mean curves of up to 21 labels of similar frequency with at least two documents each.
struct NeighborhoodMean<'c> {
    curves: &'c Curves,
    /// The labels that are averaged, as indices into `curves.order`.
    labels: std::ops::Range<usize>,
    /// The sum of F1, and of counts divided by the label's number of documents.
    sum: LabelCurve,
}

impl<'c> NeighborhoodMean<'c> {
    fn new(curves: &'c Curves) -> Self {
        let labels = curves.first_usable..curves.first_usable;
        let sum = LabelCurve { f1: Box::new([0.0; STEPS]), counts: Box::new([[0.0; 2]; STEPS]) };
        Self { curves, labels, sum }
    }

    /// Moves to the labels around a position in `curves.order`.
    fn move_to(&mut self, position: usize) {
        let first_usable = self.curves.first_usable;
        let end = self.curves.order.len();
        let last = end.saturating_sub(2 * REACH + 1).max(first_usable);
        let first = position.saturating_sub(REACH).clamp(first_usable, last);
        while self.labels.end < (first + 2 * REACH + 1).min(end) {
            self.add(self.labels.end, 1.0);
            self.labels.end += 1;
        }
        while self.labels.start < first {
            self.add(self.labels.start, -1.0);
            self.labels.start += 1;
        }
    }

    fn add(&mut self, label: usize, sign: f64) {
        let gold = self.curves.gold[label];
        let added = LabelCurve::own(&self.curves.step_counts[label], gold, 1.0 / gold);
        self.sum.f1.iter_mut().zip(added.f1.iter()).for_each(|(sum, f1)| *sum += sign * f1);
        for (sum, counts) in self.sum.counts.iter_mut().zip(added.counts.iter()) {
            *sum = [sum[0] + sign * counts[0], sum[1] + sign * counts[1]];
        }
    }

    /// Mixes the values of a label with this mean. A label with more documents (`gold`) relies more
    /// on its own values.
    fn mixed(&self, own: &LabelCurve, gold: f64, weight: f64) -> LabelCurve {
        let share = gold / (gold + weight);
        let other = (1.0 - share) / self.labels.len().max(1) as f64;
        let f1 = |step| share * own.f1[step] + other * self.sum.f1[step];
        let counts = |step: usize| {
            let count = |which: usize| {
                share * own.counts[step][which] + other * gold * self.sum.counts[step][which]
            };
            [count(0), count(1)]
        };
        LabelCurve {
            f1: Box::new(std::array::from_fn(f1)),
            counts: Box::new(std::array::from_fn(counts)),
        }
    }
}
