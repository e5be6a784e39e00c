//! What became of every document, and intervals by resampling documents.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Prf, ratio};

/// The decisions of all documents: for each the labels that were right, wrong and missed.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// Where the decisions of each document end.
    ends: Vec<usize>,
    /// A label and what became of it, `label · 4 + kind`.
    decisions: Vec<u32>,
}

/// What became of a label of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Due and given.
    Right,
    /// Given and not due.
    Wrong,
    /// Due and not given.
    Missed,
}

const KINDS: [Kind; 3] = [Kind::Right, Kind::Wrong, Kind::Missed];

impl Outcomes {
    /// Takes the labels that a document has and those that it got.
    ///
    /// # Panics
    /// If a label is 2³⁰ or above.
    pub fn push(&mut self, due: &[u32], given: &[u32]) {
        let entry = |label: u32, kind: Kind| {
            assert!(label < 1 << 30, "fewer than 2^30 labels");
            label << 2 | kind as u32
        };
        for &label in given {
            let kind = if due.contains(&label) { Kind::Right } else { Kind::Wrong };
            self.decisions.push(entry(label, kind));
        }
        let missed = due.iter().filter(|label| !given.contains(label));
        self.decisions.extend(missed.map(|&label| entry(label, Kind::Missed)));
        self.ends.push(self.decisions.len());
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The decisions on a document.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn of(&self, document: usize) -> impl Iterator<Item = (u32, Kind)> {
        let start = document.checked_sub(1).map_or(0, |before| self.ends[before]);
        let decisions = &self.decisions[start..self.ends[document]];
        decisions.iter().map(|&entry| (entry >> 2, KINDS[(entry & 3) as usize]))
    }

    /// Whether a document got exactly its labels.
    pub fn is_exact(&self, document: usize) -> bool {
        self.of(document).all(|(_, kind)| kind == Kind::Right)
    }

    /// Which of the first `labels` labels are due or given anywhere.
    pub fn met(&self, labels: usize) -> Vec<bool> {
        let mut met = vec![false; labels];
        for &entry in &self.decisions {
            if let Some(met) = met.get_mut((entry >> 2) as usize) {
                *met = true;
            }
        }
        met
    }

    /// The headline figures of the documents of these numbers, over so many labels as `met` has;
    /// those of higher number count for the micro F1 only.
    ///
    /// A label that is [`met`](Self::met) in all documents but not in these tells nothing here and
    /// is left out of the macro F1: it would be 0 by chance.
    pub fn figures(&self, documents: impl Iterator<Item = usize>, met: &[bool]) -> Headline {
        let mut tallies = vec![[0u64; 3]; met.len()];
        let (mut sum, mut exact, mut count) = ([0u64; 3], 0u64, 0u64);
        for document in documents {
            let mut all_right = true;
            for (label, kind) in self.of(document) {
                all_right &= kind == Kind::Right;
                sum[kind as usize] += 1;
                if let Some(tally) = tallies.get_mut(label as usize) {
                    tally[kind as usize] += 1;
                }
            }
            exact += u64::from(all_right);
            count += 1;
        }
        let vanished = |(tally, &met): (&[u64; 3], &bool)| met && *tally == [0; 3];
        let counted = met.len() - tallies.iter().zip(met).filter(|&pair| vanished(pair)).count();
        let f1 = |[tp, fp, missed]: [u64; 3]| Prf::of(tp, fp, missed).f1;
        Headline {
            micro_f1: f1(sum),
            macro_f1: tallies.iter().copied().map(f1).sum::<f64>() / counted.max(1) as f64,
            accuracy: ratio(exact, count),
        }
    }

    /// 95 % intervals of the headline figures: documents are drawn anew, with replacement, many
    /// times, and the middle 95 % of the figures count (percentile bootstrap, Efron and
    /// Tibshirani 1993). The same seed gives the same intervals, whatever the threads.
    pub fn intervals(&self, labels: usize, seed: u64) -> Option<Intervals> {
        let replicates = replicates(self.decisions.len());
        if self.is_empty() {
            return None;
        }
        let met = self.met(labels);
        let figures = (0..replicates)
            .into_par_iter()
            .map(|replicate| self.figures(draws(self.len(), seed, replicate), &met))
            .collect::<Vec<Headline>>();
        let interval = |of: fn(&Headline) -> f64| middle(figures.iter().map(of).collect());
        Some(Intervals {
            level: LEVEL,
            replicates,
            seed,
            micro_f1: interval(|figures| figures.micro_f1),
            macro_f1: interval(|figures| figures.macro_f1),
            accuracy: interval(|figures| figures.accuracy),
        })
    }
}

/// The headline figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline {
    /// F1 over all decisions.
    pub micro_f1: f64,
    /// The mean of the labels' F1.
    pub macro_f1: f64,
    /// The share of documents that got exactly their labels.
    pub accuracy: f64,
}

/// Intervals of the headline figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// The share of resampled figures inside.
    pub level: f64,
    /// How often documents were drawn.
    pub replicates: u64,
    /// The seed of the draws.
    pub seed: u64,
    /// Lower and upper end for the micro F1.
    pub micro_f1: [f64; 2],
    /// The same for the macro F1 over the labels of training.
    pub macro_f1: [f64; 2],
    /// The same for the share of documents that got exactly their labels.
    pub accuracy: [f64; 2],
}

const LEVEL: f64 = 0.95;

/// How often so many decisions are drawn: a thousand times, less often where that takes long.
pub(super) fn replicates(decisions: usize) -> u64 {
    (400_000_000 / decisions.max(1) as u64).clamp(200, 1_000)
}

/// `count` documents of as many, drawn with replacement.
pub(super) fn draws(count: usize, seed: u64, replicate: u64) -> impl Iterator<Item = usize> {
    // SplitMix64 (Steele, Lea and Flood 2014), a stream a replicate.
    let mut state = mix(seed ^ mix(replicate.wrapping_add(0x9E37_79B9_7F4A_7C15)));
    (0..count).map(move |_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let wide = u128::from(mix(state)) * count as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    })
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The ends of the middle 95 % of values, with linear interpolation as numpy's `quantile`.
pub(super) fn middle(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let at = share * (values.len() - 1) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position in the list"
        )]
        let below = at as usize;
        let above = values[(below + 1).min(values.len() - 1)];
        values[below] + (at - below as f64) * (above - values[below])
    };
    [quantile((1.0 - LEVEL) / 2.0), quantile(f64::midpoint(1.0, LEVEL))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers 0 to 1,000: numpy.quantile gives 25 and 975; two values: 2.5 % and 97.5 % between.
    #[test]
    fn quantiles() {
        let [low, high] = middle((0..=1_000).rev().map(f64::from).collect());
        assert!((low - 25.0).abs() < 1e-9 && (high - 975.0).abs() < 1e-9);
        let [low, high] = middle(vec![1.0, 0.0]);
        assert!((low - 0.025).abs() < 1e-12 && (high - 0.975).abs() < 1e-12);
    }

    /// 400 documents, 300 right: the standard error is √(¾ · ¼ / 400) = 0.02165.
    #[test]
    fn intervals_are_those_of_a_share() {
        let mut outcomes = Outcomes::default();
        for document in 0..400u32 {
            let given = u32::from(document % 4 == 0);
            outcomes.push(&[0], &[given]);
        }
        let intervals = outcomes.intervals(2, 7).unwrap();
        let [low, high] = intervals.accuracy;
        assert!((low - (0.75 - 1.96 * 0.02165)).abs() < 0.006, "{low}");
        assert!((high - (0.75 + 1.96 * 0.02165)).abs() < 0.006, "{high}");
        // With one label a document, micro F1 is accuracy.
        assert_eq!(intervals.micro_f1.map(f64::to_bits), intervals.accuracy.map(f64::to_bits));
        assert_eq!(outcomes.intervals(2, 7).unwrap(), intervals);
        assert_ne!(outcomes.intervals(2, 8).unwrap(), intervals);
    }

    #[test]
    fn decisions_come_back() {
        let mut outcomes = Outcomes::default();
        outcomes.push(&[3, 5], &[5, 9]);
        outcomes.push(&[], &[]);
        let first: Vec<_> = outcomes.of(0).collect();
        assert_eq!(first, [(5, Kind::Right), (9, Kind::Wrong), (3, Kind::Missed)]);
        assert!(!outcomes.is_exact(0) && outcomes.is_exact(1));
        let figures = outcomes.figures(0..2, &outcomes.met(6));
        assert!((figures.micro_f1 - 0.5).abs() < 1e-12 && (figures.accuracy - 0.5).abs() < 1e-12);
        assert!((figures.macro_f1 - 1.0 / 6.0).abs() < 1e-12);
    }
}
