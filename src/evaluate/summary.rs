//! Computes metrics from tallies of decisions: the metrics of labels and their averages, the
//! metrics of hierarchy levels, and the most confused labels.

use std::collections::BTreeMap;

use super::part::HashMap;
use super::result::{Confusion, LabelCounts, LabelResult, LevelResult};
use crate::decide::outcomes::Prf;
use crate::text::hierarchy::Hierarchy;

/// The numbers of true positives, false positives and false negatives of a label.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LabelTally {
    pub(super) tp: u64,
    pub(super) fp: u64,
    pub(super) fnn: u64,
}

impl LabelTally {
    /// Returns the number of documents that have the label.
    pub(super) fn support(self) -> u64 {
        self.tp + self.fnn
    }

    pub(super) fn prf(self) -> Prf {
        Prf::of(self.tp, self.fp, self.fnn)
    }

    fn plus(self, other: Self) -> Self {
        Self { tp: self.tp + other.tp, fp: self.fp + other.fp, fnn: self.fnn + other.fnn }
    }
}

/// The metrics of labels and their averages.
pub(super) struct Summary {
    /// The sum of the tallies of all labels.
    pub(super) sum: LabelTally,
    pub(super) macro_all: Prf,
    pub(super) macro_present: Prf,
    pub(super) weighted: Prf,
    pub(super) labels: LabelCounts,
    /// The metrics of each label, ordered by name.
    pub(super) per_label: Vec<LabelResult>,
    pub(super) levels: Vec<LevelResult>,
}

/// The tallies of all labels, with their names.
pub(super) struct LabelTable<'a> {
    /// The names of the training labels, followed by the names of new labels.
    pub(super) names: &'a [String],
    /// For each training label, the number of training documents that have it.
    pub(super) train: &'a [u64],
    pub(super) tallies: &'a [LabelTally],
    pub(super) documents_with_unseen: u64,
    pub(super) hierarchy: &'a Hierarchy,
}

impl LabelTable<'_> {
    pub(super) fn summary(&self) -> Summary {
        let trained = self.train.len();
        let mut per_label: Vec<LabelResult> = Vec::with_capacity(self.names.len());
        let mut sum = LabelTally::default();
        let mut all = Prf::default();
        let mut present = Prf::default();
        let mut weighted = Prf::default();
        let mut present_labels = 0u64;
        let mut support_sum = 0u64;
        for (label, (name, &tally)) in self.names.iter().zip(self.tallies).enumerate() {
            let prf = tally.prf();
            let support = tally.support();
            sum = sum.plus(tally);
            if label < trained {
                all.add(prf, 1.0);
            }
            if support > 0 {
                present.add(prf, 1.0);
                weighted.add(prf, support as f64);
                present_labels += 1;
                support_sum += support;
            }
            per_label.push(LabelResult {
                label: name.clone(),
                train: self.train.get(label).copied().unwrap_or(0),
                support,
                predicted: tally.tp + tally.fp,
                true_positives: tally.tp,
                prf,
            });
        }
        per_label.sort_by(|a, b| a.label.cmp(&b.label));
        let mut unseen = self.names[trained..].to_vec();
        unseen.sort();
        Summary {
            sum,
            macro_all: all.divided(trained as f64),
            macro_present: present.divided(present_labels as f64),
            weighted: weighted.divided(support_sum as f64),
            labels: LabelCounts {
                train: trained as u64,
                test: present_labels,
                unseen,
                documents_with_unseen: self.documents_with_unseen,
            },
            levels: self.levels(&per_label),
            per_label,
        }
    }

    /// Returns the metrics of each level of the hierarchy.
    fn levels(&self, per_label: &[LabelResult]) -> Vec<LevelResult> {
        if self.hierarchy.is_empty() {
            return Vec::new();
        }
        let mut levels: BTreeMap<usize, Vec<&LabelResult>> = BTreeMap::new();
        for label in per_label {
            levels.entry(self.hierarchy.level(&label.label)).or_default().push(label);
        }
        levels.into_iter().map(|(level, labels)| level_result(level, &labels)).collect()
    }
}

/// Returns the confused pairs, ordered by decreasing count and then by name.
pub(super) fn confusions(
    names: &[String],
    confused: &HashMap<(Option<u32>, Option<u32>), u64>,
) -> Vec<Confusion> {
    let name =
        |label: Option<u32>| label.map(|label| names[label as usize].clone()).unwrap_or_default();
    let confusion = |(&(label, predicted), &count): (&(Option<u32>, Option<u32>), &u64)| {
        Confusion { label: name(label), predicted: name(predicted), count }
    };
    let mut pairs: Vec<Confusion> = confused.iter().map(confusion).collect();
    pairs.sort_by(|a, b| {
        b.count.cmp(&a.count).then_with(|| (&a.label, &a.predicted).cmp(&(&b.label, &b.predicted)))
    });
    pairs
}

fn level_result(level: usize, labels: &[&LabelResult]) -> LevelResult {
    let mut tp = 0;
    let mut predicted = 0;
    let mut support = 0;
    let mut mean = Prf::default();
    for label in labels {
        tp += label.true_positives;
        predicted += label.predicted;
        support += label.support;
        mean.add(label.prf, 1.0);
    }
    LevelResult {
        level,
        labels: labels.len(),
        micro: Prf::of(tp, predicted - tp, support - tp),
        macro_all: mean.divided(labels.len() as f64),
    }
}
