//! Ranks the labels of documents by score, and counts correct and wrong predictions.

use super::table::{VoteTable, to_u32};
use crate::decide::objective::Metrics;
use crate::learn::thresholds::{FoldCounts, Tally, count_outside};

/// The numbers of correct and wrong predictions, for each label and each document.
pub(super) struct PredictionCounts<'s> {
    table: &'s VoteTable<'s>,
    tallies: Vec<Tally>,
    /// For each document, the numbers of correct and wrong labels predicted.
    documents: Vec<(u32, u32)>,
}

impl<'s> PredictionCounts<'s> {
    pub(super) fn new(table: &'s VoteTable<'s>) -> Self {
        let mut count = Self { table, tallies: Vec::new(), documents: Vec::new() };
        count.reset();
        count
    }

    /// Resets all counts.
    pub(super) fn reset(&mut self) {
        let tally = |gold: &FoldCounts| Tally {
            gold: count_outside(gold, None).into(),
            ..Tally::default()
        };
        self.tallies.clear();
        self.tallies.extend(self.table.gold_documents.iter().map(tally));
        self.documents.clear();
        self.documents.resize(self.table.sample.len(), (0, 0));
    }

    pub(super) fn predict_all(&mut self, slots: impl IntoIterator<Item = usize>) {
        for slot in slots {
            let tally = &mut self.tallies[self.table.labels[slot] as usize];
            let (right, wrong) = &mut self.documents[self.table.documents[slot] as usize];
            if self.table.gold[slot] {
                tally.tp += 1;
                *right += 1;
            } else {
                tally.fp += 1;
                *wrong += 1;
            }
        }
    }

    /// Predicts the most frequent label for a document without votes.
    pub(super) fn predict_prior(&mut self, document: usize) {
        let Some(label) = self.table.prior else { return };
        let (row, _) = self.table.get(document);
        let is_right = self.table.training.labels(row).binary_search(&label).is_ok();
        let tally = &mut self.tallies[label as usize];
        let (right, wrong) = &mut self.documents[document];
        if is_right {
            tally.tp += 1;
            *right += 1;
        } else {
            tally.fp += 1;
            *wrong += 1;
        }
    }

    /// Predicts the label with the highest score for every document without a prediction.
    pub(super) fn predict_top_for_rest(&mut self, ranking: &Ranking<'_>, scores: &[f64]) {
        for document in 0..self.documents.len() {
            if self.documents[document] == (0, 0) {
                self.predict_all(ranking.top(document, scores));
            }
        }
    }

    pub(super) fn metrics(&self) -> Metrics {
        let gold = &self.table.gold_labels;
        let exact = self
            .documents
            .iter()
            .zip(gold)
            .filter(|&(&(right, wrong), &gold)| wrong == 0 && right == gold);
        let sum = self.tallies.iter().fold(Tally::default(), |sum, &tally| sum.plus(tally));
        let labels = self.tallies.len().max(1) as f64;
        Metrics {
            micro_f1: sum.f1(),
            macro_f1: self.tallies.iter().map(|tally| tally.f1()).sum::<f64>() / labels,
            accuracy: exact.count() as f64 / self.documents.len().max(1) as f64,
            by_ranks: None,
        }
    }
}

/// Maximum length of a list that is sorted by insertion sort.
const MAX_INSERTED: usize = 256;

/// The slots of every document, sorted by decreasing score and then by slot.
pub(super) struct Ranking<'s> {
    table: &'s VoteTable<'s>,
    pub(super) slots: Vec<u32>,
}

impl<'s> Ranking<'s> {
    pub(super) fn new(table: &'s VoteTable<'s>) -> Self {
        Self { table, slots: (0..to_u32(table.labels.len())).collect() }
    }

    /// Sorts the slots of every document by `scores`. Successive values of k give nearly the same
    /// order, so short lists use insertion sort.
    pub(super) fn sort(&mut self, scores: &[f64]) {
        for document in 0..self.table.sample.len() {
            let slots = &mut self.slots[self.table.slots_of(document)];
            if slots.len() > MAX_INSERTED {
                let score = |slot: u32| scores[slot as usize];
                slots.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
                continue;
            }
            for end in 1..slots.len() {
                let slot = slots[end];
                let score = scores[slot as usize];
                let before = |other: u32| {
                    let other_score = scores[other as usize];
                    other_score > score || (other_score >= score && other < slot)
                };
                let mut at = end;
                while at > 0 && !before(slots[at - 1]) {
                    slots[at] = slots[at - 1];
                    at -= 1;
                }
                slots[at] = slot;
            }
        }
    }

    /// Returns the slots of a document.
    pub(super) fn of(&self, document: usize) -> impl Iterator<Item = usize> + Clone {
        self.slots[self.table.slots_of(document)].iter().map(|&slot| slot as usize)
    }

    /// Returns the slot of a document with the highest score. `None` if the document has no votes.
    pub(super) fn top(&self, document: usize, scores: &[f64]) -> Option<usize> {
        self.of(document).next().filter(|&slot| scores[slot] > 0.0)
    }
}
