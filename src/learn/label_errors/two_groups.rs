//! The probability of an error, from two groups of numbers.

use serde::Serialize;

use crate::decide::outcomes::wilson;

/// An estimated number of errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ErrorRate {
    /// The number of labels that were checked.
    pub checked: u64,
    /// The estimated number of errors among them.
    pub errors: f64,
    /// The bounds of the 95 % confidence interval of `errors`.
    pub interval: [f64; 2],
}

/// A mixture of correct and wrong labels, described by their evidence, and samples of labels that
/// are wrong in different ways.
///
/// Let a share ε of the observed labels be wrong. With the densities r of correct labels and w of
/// wrong labels, the density of the observed labels is f = (1 − ε) r + ε w. The probability that a
/// label with evidence e is wrong is then ε w(e) / f(e), the *local false discovery rate* of the
/// two-groups model (Efron 2004) with the groups exchanged. With the distribution functions F and W
/// of f and w, ε is at most F(e) / W(e) for every e, because correct labels add to F only. The
/// smallest of these bounds is the estimate (as in Storey 2002). With several ways to be wrong,
/// each one is bounded by what the earlier ones leave of F.
#[derive(Debug)]
pub(super) struct TwoGroups {
    pub(super) rate: ErrorRate,
    /// Evidence, and the probability of an error there: increasing evidence, decreasing
    /// probability.
    curve: Vec<(f64, f64)>,
}

/// Labels that are wrong in one way.
struct Wrong {
    /// The evidence for them, in increasing order.
    values: Vec<f64>,
    /// The share of all observed labels that are wrong in this way.
    rate: f64,
}

impl Wrong {
    /// Returns the share of these labels with at most this evidence.
    fn share(&self, limit: f64) -> f64 {
        share_up_to(&self.values, limit)
    }
}

/// Minimum number of values per bin of the density ratio.
const PER_BIN: usize = 40;
/// Maximum number of bins.
const MAX_BINS: usize = 200;
/// The deciles of the wrong labels at which their rate is bounded. Correct labels loosen the bounds
/// at high deciles. Low deciles depend on the few drawn labels that are less plausible than those
/// of real errors.
const DECILES: [usize; 5] = [3, 4, 5, 6, 7];

impl TwoGroups {
    /// Compares `observed` values with the values of labels that are wrong in each of `ways`.
    /// `count` is the number of observed values, of which those that are not listed are above all
    /// others.
    pub(super) fn new(mut observed: Vec<f64>, count: u64, ways: Vec<Vec<f64>>) -> Self {
        observed.sort_by(f64::total_cmp);
        let total = count as f64;
        let listed = observed.len() as f64 / total.max(1.0);
        // Nothing is known about the values above the listed ones.
        let is_complete = observed.len() as u64 == count;
        let end = observed.last().copied().filter(|_| !is_complete).unwrap_or(f64::INFINITY);
        let mut rate = ErrorRate { checked: count, ..ErrorRate::default() };
        let mut known: Vec<Wrong> = Vec::new();
        for mut values in ways {
            values.sort_by(f64::total_cmp);
            if values.is_empty() || observed.is_empty() {
                continue;
            }
            let wrong = Wrong { values, rate: 0.0 };
            // Returns a bound of the rate, and the share of these labels that it is based on.
            let bound = |tenths: usize| {
                let limit = wrong.values[wrong.values.len() * tenths / 10].min(end);
                let of_earlier: f64 = known.iter().map(|way| way.rate * way.share(limit)).sum();
                let rest = listed * share_up_to(&observed, limit) - of_earlier;
                (rest.max(0.0), wrong.share(limit))
            };
            let bounds = DECILES.map(bound).into_iter().filter(|&(_, share)| share > 0.0);
            let smallest = bounds.min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
            let (rest, share) = smallest.unwrap_or((0.0, 1.0));
            let [low, high] = wilson(rest, total).map(|bound| (bound / share).min(1.0) * total);
            let wrong = Wrong { rate: (rest / share).min(1.0), ..wrong };
            rate.errors += wrong.rate * total;
            rate.interval = [rate.interval[0] + low, rate.interval[1] + high];
            known.push(wrong);
        }
        Self { rate, curve: error_curve(&observed, total, &known) }
    }

    /// Returns the probability that a label with this evidence is wrong.
    pub(super) fn probability(&self, evidence: f64) -> f64 {
        let next = self.curve.partition_point(|&(at, _)| at < evidence);
        match (next.checked_sub(1).map(|last| self.curve[last]), self.curve.get(next)) {
            (None, None) => 0.0,
            (Some((_, probability)), None) | (None, Some(&(_, probability))) => probability,
            (Some((start, from)), Some(&(end, to))) => {
                from + (to - from) * (evidence - start) / (end - start)
            }
        }
    }
}

/// Returns the share of sorted values up to a limit.
fn share_up_to(sorted: &[f64], limit: f64) -> f64 {
    sorted.partition_point(|&value| value <= limit) as f64 / sorted.len() as f64
}

/// Returns the probability of an error at increasing values of the evidence, which decreases.
fn error_curve(observed: &[f64], total: f64, ways: &[Wrong]) -> Vec<(f64, f64)> {
    // Each value with its share of the observed labels and of the wrong labels.
    let of_observed = observed.iter().map(|&value| (value, [1.0 / total, 0.0]));
    let of_wrong = ways.iter().flat_map(|way| {
        let share = way.rate / way.values.len() as f64;
        way.values.iter().map(move |&value| (value, [0.0, share]))
    });
    let mut pooled: Vec<(f64, [f64; 2])> = of_observed.chain(of_wrong).collect();
    pooled.sort_by(|a, b| a.0.total_cmp(&b.0));
    let size = pooled.len().div_ceil(MAX_BINS).max(PER_BIN);
    let mut bins: Vec<Bin> = Vec::new();
    for chunk in pooled.chunks(size) {
        let sum = |of: usize| chunk.iter().map(|(_, shares)| shares[of]).sum::<f64>();
        let mean = chunk.iter().map(|(value, _)| value / chunk.len() as f64).sum();
        let mut bin = Bin { centers: vec![mean], observed: sum(0), wrong: sum(1) };
        // Pool adjacent violators: the share of wrong labels must not increase.
        let violates =
            |last: &mut Bin, bin: &Bin| last.wrong * bin.observed <= bin.wrong * last.observed;
        while let Some(last) = bins.pop_if(|last| violates(last, &bin)) {
            bin = Bin {
                centers: [last.centers, bin.centers].concat(),
                observed: last.observed + bin.observed,
                wrong: last.wrong + bin.wrong,
            };
        }
        bins.push(bin);
    }
    let points = bins.iter().flat_map(|bin| {
        let is_certain = bin.wrong >= bin.observed;
        let probability = if is_certain { 1.0 } else { bin.wrong / bin.observed };
        bin.centers.iter().map(move |&center| (center, probability))
    });
    let mut curve: Vec<(f64, f64)> = points.collect();
    curve.dedup_by(|next, kept| next.0 <= kept.0);
    curve
}

/// A range of evidence.
struct Bin {
    /// The mean evidence of each bin that was pooled.
    centers: Vec<f64>,
    /// The share of all observed labels that lies here.
    observed: f64,
    /// The number of wrong labels that are expected here, divided by the number of observed labels.
    wrong: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Returns the sum of four uniform numbers around `mean`.
    fn value(random: &mut Random, mean: f64) -> f64 {
        mean - 4.0 + (0..4).map(|_| 2.0 * random.unit()).sum::<f64>()
    }

    #[test]
    fn the_rate_and_the_probabilities_are_those_of_the_mixture() {
        let mut random = Random::new(3);
        for share in [0.0, 0.05, 0.3] {
            let mut observed = Vec::new();
            for _ in 0..20_000 {
                let is_wrong = random.unit() < share;
                observed.push((value(&mut random, if is_wrong { -2.0 } else { 3.0 }), is_wrong));
            }
            let wrong = (0..20_000).map(|_| value(&mut random, -2.0)).collect();
            let values = observed.iter().map(|&(value, _)| value).collect();
            let groups = TwoGroups::new(values, 20_000, vec![wrong]);
            let errors = share * 20_000.0;
            let found = groups.rate.errors;
            assert!((found - errors).abs() < 40.0 + errors / 10.0, "{share}: {found}");
            let [low, high] = groups.rate.interval;
            assert!(low <= found && found <= high);
            // Among labels with similar probabilities, the share of errors is this probability.
            for bin in 0..5 {
                let range = f64::from(bin) / 5.0..=f64::from(bin + 1) / 5.0;
                let inside = observed.iter().map(|&(value, is_wrong)| {
                    (groups.probability(value), f64::from(u8::from(is_wrong)))
                });
                let inside: Vec<_> = inside.filter(|(p, _)| range.contains(p)).collect();
                let expected: f64 = inside.iter().map(|(p, _)| p).sum();
                let errors: f64 = inside.iter().map(|(_, is_wrong)| is_wrong).sum();
                let tolerance = 0.1 * inside.len() as f64 + 10.0;
                assert!(
                    (expected - errors).abs() < tolerance,
                    "{share} {bin}: {expected} {errors}"
                );
            }
        }
    }

    #[test]
    fn probabilities_decrease_with_evidence() {
        let mut random = Random::new(4);
        let observed: Vec<f64> = (0..500).map(|_| value(&mut random, 1.0)).collect();
        let wrong = (0..500).map(|_| value(&mut random, 0.0)).collect();
        let groups = TwoGroups::new(observed, 500, vec![wrong]);
        let points: Vec<f64> =
            (-80..80).map(|at| groups.probability(f64::from(at) / 10.0)).collect();
        assert!(points.is_sorted_by(|a, b| a >= b), "{points:?}");
        assert!(points.iter().all(|point| (0.0..=1.0).contains(point)));
    }

    #[test]
    fn nothing_is_suspected_without_values() {
        let groups = TwoGroups::new(Vec::new(), 0, vec![vec![1.0]]);
        assert!(groups.probability(0.0) <= 0.0);
        assert_eq!(groups.rate, ErrorRate::default());
    }
}
