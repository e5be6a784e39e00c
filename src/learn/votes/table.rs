//! The votes of held-out documents, arranged so that every k and every vote can be evaluated from
//! one search.

use super::sample::sample_documents;
use crate::decide::vote::{LabelScore, TrainingLabels, Vote, VoteWeight, Voters, label_score};
use crate::learn::held_out::LeaveOneOut;
use crate::learn::thresholds::FoldCounts;
use crate::threads::Threads;

/// Maximum number of slots whose scores are evaluated concurrently. A slot takes up to 60 bytes.
const MAX_CONCURRENT_SLOTS: usize = 1 << 25;

/// The votes of held-out documents. A *slot* is a pair of a document and a label of one of its
/// neighbors.
#[derive(Debug)]
pub(in crate::learn) struct VoteTable<'a> {
    found: &'a LeaveOneOut,
    /// The documents to evaluate, as indices into `found`.
    pub(super) sample: Vec<usize>,
    pub(super) training: TrainingLabels<'a>,
    /// For each neighbor, the slots of its labels, concatenated.
    votes: Vec<u32>,
    /// The slots of document `i` are `slots[i]..slots[i + 1]`, ordered by the rank of the best
    /// neighbor, then by label. In a tie of scores, the first slot wins.
    pub(super) slots: Vec<u32>,
    /// The label of each slot.
    pub(super) labels: Vec<u32>,
    /// The document of each slot.
    pub(super) documents: Vec<u32>,
    /// Whether the label of each slot is gold.
    pub(super) gold: Vec<bool>,
    /// For each label, the number of gold documents by fold.
    pub(super) gold_documents: Vec<FoldCounts>,
    /// The fold of each document.
    pub(super) folds: Vec<u8>,
    /// The number of gold labels of each document.
    pub(super) gold_labels: Vec<u32>,
    /// The label that a document without votes gets if every document must have one label and the
    /// model does not abstain: the label with the most training documents.
    pub(super) prior: Option<u32>,
}

/// The votes and slots of some documents; the fields are the same as in [`VoteTable`].
struct Segment {
    votes: Vec<u32>,
    slots: Vec<u32>,
    labels: Vec<u32>,
    documents: Vec<u32>,
    gold: Vec<bool>,
}

impl Segment {
    /// Builds the segment of the documents with these indices into `found`.
    fn new(found: &LeaveOneOut, training: &TrainingLabels<'_>, sample: &[usize]) -> Self {
        let mut votes = Vec::new();
        let mut slots = vec![0];
        let mut labels = Vec::new();
        let mut documents = Vec::new();
        let mut gold = Vec::new();
        let mut slot_of = vec![u32::MAX; training.sizes.len()];
        for (document, &index) in sample.iter().enumerate() {
            let (row, neighbors) = found.get(index);
            let own = training.labels(row);
            let first = labels.len();
            for (_, _, neighbor) in neighbors.ranked() {
                for &label in training.labels(neighbor.row) {
                    let slot = &mut slot_of[label as usize];
                    if *slot == u32::MAX {
                        *slot = to_u32(labels.len());
                        labels.push(label);
                        documents.push(to_u32(document));
                        gold.push(own.binary_search(&label).is_ok());
                    }
                    votes.push(*slot);
                }
            }
            for &label in &labels[first..] {
                slot_of[label as usize] = u32::MAX;
            }
            slots.push(to_u32(labels.len()));
        }
        Self { votes, slots, labels, documents, gold }
    }

    /// Joins the segments of successive documents.
    fn join(mut segments: Vec<Self>) -> Self {
        if segments.len() == 1 {
            return segments.remove(0);
        }
        let slots = segments.iter().map(|segment| segment.labels.len()).sum();
        let documents = segments.iter().map(|segment| segment.slots.len() - 1).sum::<usize>();
        let mut joined = Self {
            votes: Vec::with_capacity(segments.iter().map(|segment| segment.votes.len()).sum()),
            slots: Vec::with_capacity(documents + 1),
            labels: Vec::with_capacity(slots),
            documents: Vec::with_capacity(slots),
            gold: Vec::with_capacity(slots),
        };
        joined.slots.push(0);
        for next in segments {
            let slots = to_u32(joined.labels.len());
            let documents = to_u32(joined.slots.len() - 1);
            joined.votes.extend(next.votes.into_iter().map(|slot| slots + slot));
            joined.slots.extend(next.slots[1..].iter().map(|slot| slots + slot));
            joined.labels.extend(next.labels);
            joined
                .documents
                .extend(next.documents.into_iter().map(|document| documents + document));
            joined.gold.extend(next.gold);
        }
        joined
    }
}

impl<'a> VoteTable<'a> {
    pub(in crate::learn) fn new(
        found: &'a LeaveOneOut,
        training: TrainingLabels<'a>,
        threads: &Threads,
    ) -> Self {
        let sample = sample_documents(found, &training);
        let folds = found.folds(&training);
        let size = sample.len().div_ceil(threads.count()).max(1);
        let chunks: Vec<&[usize]> = sample.chunks(size).collect();
        let segment = |chunk: &&[usize]| Segment::new(found, &training, chunk);
        let segments = threads.map_few(&chunks, chunks.len(), segment);
        let Segment { votes, slots, labels, documents, gold } = Segment::join(segments);
        let mut table = Self {
            found,
            training,
            votes,
            slots,
            labels,
            documents,
            gold,
            gold_documents: vec![FoldCounts::default(); training.sizes.len()],
            folds: Vec::with_capacity(sample.len()),
            gold_labels: Vec::with_capacity(sample.len()),
            prior: training.most_frequent_label(),
            sample,
        };
        for document in 0..table.sample.len() {
            let (row, _) = table.get(document);
            let gold = training.labels(row);
            let fold = folds[row as usize];
            for &label in gold {
                table.gold_documents[label as usize][usize::from(fold)] += 1;
            }
            table.gold_labels.push(to_u32(gold.len()));
            table.folds.push(fold);
        }
        table
    }

    /// Returns a document, as a row number, and its neighbors.
    pub(in crate::learn) fn get(&self, document: usize) -> (u32, Voters<'a>) {
        self.found.get(self.sample[document])
    }

    /// Lets the neighbors vote with `weight`, and calls `visit` with the scores of all slots at
    /// each k of `ks` (increasing).
    pub(super) fn vote(
        &self,
        weight: VoteWeight,
        ks: &[usize],
        mut visit: impl FnMut(usize, &[f64]),
    ) {
        let documents = self.sample.len();
        // The sums for each slot and each document: by terms, and by dense vectors.
        let mut sums = vec![[0.0; 2]; self.labels.len()];
        let mut totals = vec![[0.0; 2]; documents];
        let mut scores = vec![0.0; self.labels.len()];
        // For each document, the position of its next vote in `votes`, and the end of its slots
        // with a vote. Slots with a vote come first.
        let mut next: Vec<usize> = Vec::with_capacity(documents);
        let mut ends: Vec<u32> = self.slots[..documents].to_vec();
        let mut start = 0;
        for index in 0..documents {
            next.push(start);
            let (_, voters) = self.get(index);
            let labels = |row| self.training.labels(row).len();
            start += voters.ranked().map(|(.., neighbor)| labels(neighbor.row)).sum::<usize>();
        }
        let mut rank = 0;
        for &k in ks {
            for index in 0..documents {
                let (_, voters) = self.get(index);
                if voters.is_empty() {
                    continue;
                }
                let shares = voters.first(k).lists().map(|(_, share)| share);
                let best =
                    voters.lists().map(|(list, _)| list.first().map_or(0.0, |n| n.similarity));
                for (list, at, neighbor) in voters.ranked_from(rank, k) {
                    let value = weight.value(neighbor.similarity, at, best[list])
                        * f64::from(self.training.weights[neighbor.row as usize]);
                    totals[index][list] += value;
                    let labels = self.training.labels(neighbor.row).len();
                    for &slot in &self.votes[next[index]..next[index] + labels] {
                        sums[slot as usize][list] += value;
                        ends[index] = ends[index].max(slot + 1);
                    }
                    next[index] += labels;
                }
                for slot in self.slots[index] as usize..ends[index] as usize {
                    scores[slot] = label_score(sums[slot], totals[index], shares);
                }
            }
            rank = k;
            visit(k, &scores);
        }
    }

    /// Returns the slots of a document.
    pub(in crate::learn) fn slots_of(&self, document: usize) -> std::ops::Range<usize> {
        self.slots[document] as usize..self.slots[document + 1] as usize
    }

    /// Returns the label of a slot.
    pub(in crate::learn) fn label(&self, slot: usize) -> u32 {
        self.labels[slot]
    }

    /// Returns the slot of a document with the highest score among those with a vote; in a tie, the
    /// first.
    pub(super) fn top(&self, document: usize, scores: &[f64], factors: &[f64]) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for slot in self.slots_of(document) {
            let score = scores[slot] * self.factor(factors, slot);
            // A label without a vote so far has no score.
            if scores[slot] > 0.0 && best.is_none_or(|(_, best)| score > best) {
                best = Some((slot, score));
            }
        }
        best.map(|(slot, _)| slot)
    }

    /// Returns the number of votes whose scores are evaluated concurrently: the number of threads,
    /// or fewer if memory does not permit.
    pub(in crate::learn) fn max_concurrent(&self, threads: &Threads) -> usize {
        (MAX_CONCURRENT_SLOTS / self.slots().max(1)).clamp(1, threads.count())
    }

    /// Returns the number of slots: pairs of a document and a label of its neighbors.
    pub(in crate::learn) fn slots(&self) -> usize {
        self.labels.len()
    }

    /// Returns the number of documents.
    pub(in crate::learn) fn documents(&self) -> usize {
        self.sample.len()
    }

    /// Whether a document is held out for the second time.
    pub(in crate::learn) fn is_second_time(&self, document: usize) -> bool {
        self.found.second_round_start.is_some_and(|first| self.sample[document] >= first)
    }

    /// Returns the cluster of a training row.
    pub(in crate::learn) fn cluster(&self, row: u32) -> u64 {
        self.found.clusters.get(row as usize).copied().unwrap_or(row.into())
    }

    /// Returns the fold of a document.
    pub(in crate::learn) fn fold(&self, document: usize) -> usize {
        self.folds[document].into()
    }

    /// Returns the slots of a document that have a vote, with their scores, in decreasing order of
    /// the score.
    pub(super) fn ranked(
        &self,
        document: usize,
        scores: &[f64],
        factors: &[f64],
    ) -> Vec<(usize, f64)> {
        let mut slots: Vec<(usize, f64)> = self
            .slots_of(document)
            .filter(|&slot| scores[slot] > 0.0)
            .map(|slot| (slot, scores[slot] * self.factor(factors, slot)))
            .collect();
        slots.sort_by(|a, b| b.1.total_cmp(&a.1));
        slots
    }

    /// Returns the labels of a document that have a vote, in decreasing order of the score.
    pub(in crate::learn) fn label_scores(
        &self,
        document: usize,
        scores: &[f64],
        factors: &[f64],
    ) -> Vec<LabelScore> {
        let score = |(slot, score)| LabelScore { label: self.labels[slot], score };
        self.ranked(document, scores, factors).into_iter().map(score).collect()
    }

    /// Returns the label factors that multiply the scores of a vote. Empty if the scores include
    /// the factors already, as with prototypes.
    pub(in crate::learn) fn factors(&self, vote: Vote) -> Vec<f64> {
        if vote.prototypes > 0.0 { Vec::new() } else { self.training.factors(vote) }
    }

    /// Returns the factor of a slot's label, or 1 if there are no factors.
    pub(in crate::learn) fn factor(&self, factors: &[f64], slot: usize) -> f64 {
        *factors.get(self.labels[slot] as usize).unwrap_or(&1.0)
    }
}

/// Converts the number of a slot, document or label to 32 bits.
pub(super) fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 slots")
}
