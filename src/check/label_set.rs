//! Findings about the labels as a whole.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::learn::{HeldOutCorpus, LabelErrors};
use crate::random::Random;

/// Findings about the labels as a whole.
#[derive(Debug, Clone, Serialize)]
pub struct LabelSet {
    /// Labels with fewer than five documents, rarest first.
    pub rare: Vec<LabelCount>,
    /// Labels that only occur together.
    pub always_together: Vec<TogetherLabels>,
    /// Pairs of labels that held-out documents often confuse, most confused first.
    pub confused: Vec<ConfusedLabels>,
}

/// A label and its number of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelCount {
    /// The label.
    pub label: String,
    /// The number of documents with the label.
    pub documents: u64,
}

/// Labels that only occur together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TogetherLabels {
    /// The labels.
    pub labels: Vec<String>,
    /// The number of documents with these labels.
    pub documents: u64,
}

/// Two labels that held-out documents often confuse.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfusedLabels {
    /// The labels.
    pub labels: [String; 2],
    /// The number of documents with one of the labels for which the other is more probable than all
    /// other labels.
    pub confused: u64,
    /// This number divided by the number of documents with one of the labels.
    pub share: f64,
}

/// Minimum number of documents with some labels to report that they only occur together.
const MIN_TOGETHER: u64 = 5;
/// Minimum share of confused documents.
const MIN_SHARE: f64 = 0.15;
/// Minimum number of confused documents.
const MIN_CONFUSED: u64 = 5;

impl LabelSet {
    pub(super) fn of(corpus: &HeldOutCorpus) -> Self {
        let sizes = corpus.counts.label_sizes();
        // Labels with the same documents have the same sum of random numbers, one per document.
        let mut sums = vec![0u64; sizes.len()];
        for row in (0u32..).take(corpus.documents.len()) {
            let number = Random::new(row.into()).next_u64();
            for &label in corpus.labels(row) {
                sums[label as usize] = sums[label as usize].wrapping_add(number);
            }
        }
        let mut by_sum: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (label, &sum) in (0u32..).zip(&sums) {
            by_sum.entry(sum).or_default().push(label);
        }
        let name = |label: u32| corpus.label_names()[label as usize].clone();
        let names = |labels: [u32; 2]| labels.map(name);
        let size = |label: u32| u64::from(sizes[label as usize]);
        let mut rare: Vec<u32> = (0u32..)
            .take(sizes.len())
            .filter(|&label| size(label) < LabelErrors::MIN_DOCUMENTS.into())
            .collect();
        rare.sort_by_key(|&label| (size(label), label));
        let rare =
            rare.into_iter().map(|label| LabelCount { label: name(label), documents: size(label) });
        let always =
            by_sum.into_values().filter(|all| all.len() > 1 && size(all[0]) >= MIN_TOGETHER);
        let always_together = always.map(|labels| TogetherLabels {
            documents: size(labels[0]),
            labels: labels.into_iter().map(name).collect(),
        });
        let mut confused = Vec::new();
        for (labels, count) in confusions(corpus) {
            let share = count as f64 / (size(labels[0]) + size(labels[1])) as f64;
            if count >= MIN_CONFUSED && share >= MIN_SHARE {
                confused.push(ConfusedLabels { labels: names(labels), confused: count, share });
            }
        }
        confused.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.labels.cmp(&b.labels)));
        Self { rare: rare.collect(), always_together: always_together.collect(), confused }
    }
}

/// Counts, for each pair of labels, the documents with one of them for which the other is more
/// probable. There are no such pairs in multi-label mode, where labels do not compete.
fn confusions(corpus: &HeldOutCorpus) -> BTreeMap<[u32; 2], u64> {
    let mut counts = BTreeMap::new();
    for suspect in &corpus.rows.label_errors.suspects {
        if let (Some(given), Some(suggested)) = (suspect.given, suspect.suggested)
            && suspect.evidence < 0.0
        {
            *counts.entry([given.min(suggested), given.max(suggested)]).or_default() += 1;
        }
    }
    counts
}
