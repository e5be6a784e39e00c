//! Learns vote weights from held-out documents: see [`LearnedVotes`].
//!
//! Gradient descent with Nesterov's momentum minimizes the log loss over all documents. The step of
//! each weight is divided by its approximate curvature, so a weight on which few documents depend
//! stays close to its initial value. Documents are divided into a fixed number of chunks whose
//! gradients are added in order. So the result does not depend on the number of threads.

use rayon::prelude::*;

use super::table::{VoteTable, to_u32};
use crate::decide::vote::{LearnedVotes, VoteWeight, sums_to_scores, vote_shares};
use crate::learn::held_out::FOLDS;
use crate::threads::Threads;

/// The options for learning vote weights.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct VoteLearning {
    /// Whether a document can also vote for labels that it does not have, but nearby documents
    /// have.
    pub others: bool,
    /// The weight of the penalty on the distance from the initial vote weights.
    pub penalty: f32,
    /// Number of gradient steps.
    pub steps: usize,
}

/// The scales of sums that are tried in single-label mode. The scale with the lowest loss before
/// vote weights are learned becomes the initial scale.
const SCALES: [f32; 11] = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0];
/// The scale and offset from which Newton's method searches the initial values in multi-label mode.
const FIRST: (f64, f64) = (4.0, -2.0);
/// The learning rate of offsets and scales.
const RATE: f32 = 0.05;
/// The weights of the penalties on the distance of offsets and of scales from their initial values.
const PENALTIES: [f32; 2] = [1.0, 0.1];
/// Maximum number of chunks into which documents are divided.
const MAX_CHUNKS: usize = 16;
/// Maximum number of partial derivatives in memory.
const MAX_GRADIENTS: usize = 1 << 26;
/// Number of vote weights that a thread updates per task.
const CHUNK: usize = 1 << 10;

/// The votes for which weights are learned: which neighbors vote, and how their votes are weighted.
#[derive(Debug, Clone, Copy)]
pub(super) struct VoteSetup {
    /// The weight of a vote by similarity or rank.
    pub(super) weight: VoteWeight,
    /// The number of neighbors that vote.
    pub(super) k: usize,
    /// Whether documents can have several labels.
    pub(super) multi_label: bool,
    /// See [`VoteLearning::others`].
    pub(super) others: bool,
}

/// Learns vote weights from the votes of the first k neighbors of held-out documents.
pub(super) struct VoteWeightLearner<'t> {
    table: &'t VoteTable<'t>,
    multi_label: bool,
    /// For each document, the number of slots that have a vote.
    voted: Vec<u32>,
    /// The products of slot `i` are `bounds[i]..bounds[i + 1]`.
    bounds: Vec<usize>,
    /// Each product is the number of a vote weight and the share of the votes that multiplies it.
    products: Vec<(u32, f32)>,
    /// The vote weights of training document `row` are `starts[row]..starts[row + 1]`.
    starts: Vec<usize>,
    /// The label of each vote weight.
    labels: Vec<u32>,
    /// The vote weights before learning.
    initial: Vec<f32>,
}

/// The parameters to learn, or their gradients.
#[derive(Debug, Clone)]
struct State {
    weights: Vec<f32>,
    /// One offset per label in multi-label mode; otherwise empty.
    offsets: Vec<f32>,
    /// One scale per label in multi-label mode; otherwise a single scale.
    scales: Vec<f32>,
}

/// The votes of the neighbors of each document.
struct Votes {
    /// The votes of document `i` are `bounds[i]..bounds[i + 1]`.
    bounds: Vec<usize>,
    /// Each vote is a training document and its share of the votes.
    votes: Vec<(u32, f32)>,
}

impl Votes {
    fn of(&self, document: usize) -> &[(u32, f32)] {
        &self.votes[self.bounds[document]..self.bounds[document + 1]]
    }
}

impl<'t> VoteWeightLearner<'t> {
    /// Lists the weights and their products. `None` if a step would compute more than
    /// `max_products` products.
    pub(super) fn new(
        table: &'t VoteTable<'t>,
        setup: VoteSetup,
        max_products: Option<usize>,
    ) -> Option<Self> {
        let VoteSetup { weight, k, multi_label, others } = setup;
        let training = table.training;
        let documents = 0..table.sample.len();
        let count_of = |document| table.get(document).1.first(k).len();
        let count = documents.clone().map(count_of).sum();
        let mut votes = Votes { bounds: vec![0], votes: Vec::with_capacity(count) };
        let mut label_counts = Vec::new();
        let mut labels = Vec::<u32>::new();
        for document in documents {
            let (_, neighbors) = table.get(document);
            labels.clear();
            for (row, share) in vote_shares(neighbors.first(k), weight, &training) {
                labels.extend(training.labels(row));
                #[expect(clippy::cast_possible_truncation, reason = "a share is from 0 to 1")]
                votes.votes.push((row, share as f32));
            }
            votes.bounds.push(votes.votes.len());
            // Slots are ordered by their best neighbor, so the slots of the first k neighbors come
            // first.
            labels.sort_unstable();
            labels.dedup();
            label_counts.push(to_u32(labels.len()));
        }
        let mut learner = Self {
            table,
            multi_label,
            voted: label_counts,
            bounds: Vec::new(),
            products: Vec::new(),
            starts: vec![0],
            labels: Vec::new(),
            initial: Vec::new(),
        };
        let fits = |products: usize| max_products.is_none_or(|max| products <= max);
        if others && !fits(learner.products_with_others(&votes)) {
            return None;
        }
        learner.list_weights(others, &votes);
        let products = votes.votes.iter().map(|&(row, _)| learner.entries(row).len()).sum();
        if !fits(products) {
            return None;
        }
        (learner.bounds, learner.products) = learner.list_products(&votes, products);
        Some(learner)
    }

    /// Returns the slots of a document that have a vote.
    fn slots(&self, document: usize) -> std::ops::Range<usize> {
        let first = self.table.slots[document] as usize;
        first..first + self.voted[document] as usize
    }

    /// Returns the vote weights that are summed for a slot, each with the share of the votes that
    /// multiplies it.
    fn products(&self, slot: usize) -> &[(u32, f32)] {
        &self.products[self.bounds[slot]..self.bounds[slot + 1]]
    }

    fn entries(&self, row: u32) -> std::ops::Range<usize> {
        self.starts[row as usize]..self.starts[row as usize + 1]
    }

    /// Returns the gold labels of a document for which its neighbors can vote.
    fn reachable_labels(&self, document: usize) -> impl Iterator<Item = u32> {
        let slots = self.slots(document).filter(|&slot| self.table.gold[slot]);
        slots.map(|slot| self.table.labels[slot])
    }

    fn products_with_others(&self, votes: &Votes) -> usize {
        let pairs = |document| votes.of(document).len() * self.reachable_labels(document).count();
        (0..self.voted.len()).map(pairs).sum()
    }

    /// Lists one weight for each label of each training document. If `others` is set, also lists
    /// one for each gold label of the documents that it is a neighbor of.
    fn list_weights(&mut self, others: bool, votes: &Votes) {
        let training = self.table.training;
        let mut of_others: Vec<Vec<u32>> =
            vec![Vec::new(); if others { training.weights.len() } else { 0 }];
        if others {
            for document in 0..self.voted.len() {
                for &(row, _) in votes.of(document) {
                    of_others[row as usize].extend(self.reachable_labels(document));
                }
            }
        }
        let mut labels: Vec<u32> = Vec::new();
        for row in 0..to_u32(training.weights.len()) {
            let own = training.labels(row);
            labels.clear();
            labels.extend(own);
            labels.extend(of_others.get(row as usize).into_iter().flatten());
            labels.sort_unstable();
            labels.dedup();
            let is_own = |label: &u32| own.binary_search(label).is_ok();
            self.initial.extend(labels.iter().map(|label| f32::from(u8::from(is_own(label)))));
            self.labels.extend(&labels);
            self.starts.push(self.labels.len());
        }
    }

    /// Returns the bounds of each slot's products, and the products: one for each vote of a
    /// document that has a weight for the slot's label. `max_products` is the capacity to reserve.
    fn list_products(&self, votes: &Votes, max_products: usize) -> (Vec<usize>, Vec<(u32, f32)>) {
        let mut slot_of = vec![u32::MAX; self.table.gold_documents.len()];
        let mut next = Vec::new();
        let mut bounds = vec![0];
        let mut products = Vec::with_capacity(max_products);
        for document in 0..self.voted.len() {
            let labels = &self.table.labels[self.slots(document)];
            for (slot, &label) in (0u32..).zip(labels) {
                slot_of[label as usize] = slot;
            }
            let slot_of_entry = |entry: usize| slot_of[self.labels[entry] as usize];
            let of_vote = |&(row, share): &(u32, f32)| {
                let entries = self.entries(row).map(move |entry| (entry, share));
                entries.filter(|&(entry, _)| slot_of_entry(entry) != u32::MAX)
            };
            let all = || votes.of(document).iter().flat_map(of_vote);
            next.clear();
            next.resize(labels.len(), 0);
            all().for_each(|(entry, _)| next[slot_of_entry(entry) as usize] += 1);
            let mut end = products.len();
            for next in &mut next {
                end += std::mem::replace(next, end);
                bounds.push(end);
            }
            products.resize(end, (0, 0.0));
            for (entry, share) in all() {
                let next = &mut next[slot_of_entry(entry) as usize];
                products[*next] = (to_u32(entry), share);
                *next += 1;
            }
            // Slots without a vote have no products.
            bounds.resize(self.table.slots_of(document).end + 1, end);
            for &label in labels {
                slot_of[label as usize] = u32::MAX;
            }
        }
        (bounds, products)
    }

    /// Writes the labels of a document's slots to `sums`, each with its sum of weighted votes.
    fn sum(&self, document: usize, weights: &[f32], sums: &mut Vec<(u32, f64)>) {
        let product = |&(entry, share): &(u32, f32)| f64::from(share * weights[entry as usize]);
        let sum = |slot: usize| {
            let sum = self.products(slot).iter().map(product).sum();
            (self.table.labels[slot], sum)
        };
        sums.clear();
        sums.extend(self.slots(document).map(sum));
    }

    /// Returns the scores of the slots of a fold's documents, one document after the other.
    fn scores(&self, state: &State, fold: usize) -> Vec<f64> {
        let mut scores = Vec::new();
        let mut sums = Vec::new();
        for document in 0..self.voted.len() {
            if self.table.fold(document) == fold {
                self.sum(document, &state.weights, &mut sums);
                sums_to_scores(&mut sums, &state.offsets, &state.scales);
                let end = scores.len() + self.table.slots_of(document).len();
                scores.extend(sums.iter().map(|&(_, score)| score));
                scores.resize(end, 0.0);
            }
        }
        scores
    }

    /// Writes the derivatives of the loss of some documents with respect to weights, offsets and
    /// scales to `gradient`.
    #[expect(clippy::cast_possible_truncation, reason = "gradients need no more")]
    fn gradient(&self, documents: &[usize], state: &State, gradient: &mut State) {
        let State { weights, offsets, scales } = &mut *gradient;
        for values in [weights, offsets, scales] {
            values.fill(0.0);
        }
        let mut sums = Vec::new();
        let mut scores = Vec::new();
        for &document in documents {
            self.sum(document, &state.weights, &mut sums);
            let gold = &self.table.gold[self.slots(document)];
            let right = gold.iter().filter(|&&gold| gold).count();
            if !self.multi_label && right == 0 {
                continue;
            }
            scores.clone_from(&sums);
            sums_to_scores(&mut scores, &state.offsets, &state.scales);
            for (slot, &(_, sum)) in self.slots(document).zip(&sums) {
                let (label, score) = scores[slot - self.slots(document).start];
                let gold = self.table.gold[slot];
                let target = match (gold, self.multi_label) {
                    (false, _) => 0.0,
                    (true, true) => 1.0,
                    (true, false) => 1.0 / right as f64,
                };
                let slope = (score - target) as f32;
                let at = if self.multi_label { label as usize } else { 0 };
                if self.multi_label {
                    gradient.offsets[at] += slope;
                    gradient.scales[at] += slope * sum as f32;
                }
                let slope = slope * state.scales[at];
                for &(entry, share) in self.products(slot) {
                    gradient.weights[entry as usize] += share * slope;
                }
            }
        }
    }

    /// Returns the scale and the offset with the lowest loss before vote weights are learned.
    #[expect(clippy::cast_possible_truncation, reason = "initial values")]
    fn first_scale(&self, documents: &[usize]) -> (f32, f32) {
        let mut of_slots = Vec::new();
        let mut sums: Vec<(Vec<f64>, &[bool])> = Vec::with_capacity(documents.len());
        for &document in documents {
            self.sum(document, &self.initial, &mut of_slots);
            let gold = &self.table.gold[self.slots(document)];
            if self.multi_label || gold.contains(&true) {
                sums.push((of_slots.iter().map(|&(_, sum)| sum).collect(), gold));
            }
        }
        if !self.multi_label {
            let loss = |scale: f32| {
                let of = |(sums, gold): &(Vec<f64>, &[bool])| {
                    let power = |sum: &f64| libm::exp(f64::from(scale) * (sum - 1.0));
                    let all: f64 = sums.iter().map(power).sum();
                    let right = sums.iter().zip(*gold).filter(|&(_, &gold)| gold);
                    -libm::log(right.map(|(sum, _)| power(sum)).sum::<f64>() / all)
                };
                sums.iter().map(of).sum::<f64>()
            };
            let losses = SCALES.map(|scale| (loss(scale), scale));
            let best = losses.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            return (best.map_or(SCALES[0], |best| best.1), 0.0);
        }
        let (mut scale, mut offset) = FIRST;
        for _ in 0..20 {
            let mut slopes = [1e-3 * (scale - FIRST.0), 1e-3 * (offset - FIRST.1)];
            let mut curves = [1e-3, 0.0, 1e-3];
            for (sums, gold) in &sums {
                for (&sum, &gold) in sums.iter().zip(*gold) {
                    let score = 1.0 / (1.0 + libm::exp(-offset - scale * sum));
                    let slope = score - f64::from(u8::from(gold));
                    let curve = score * (1.0 - score);
                    slopes = [slopes[0] + slope * sum, slopes[1] + slope];
                    curves =
                        [curves[0] + curve * sum * sum, curves[1] + curve * sum, curves[2] + curve];
                }
            }
            let determinant = curves[0] * curves[2] - curves[1] * curves[1];
            let step = [
                (curves[2] * slopes[0] - curves[1] * slopes[1]) / determinant,
                (curves[0] * slopes[1] - curves[1] * slopes[0]) / determinant,
            ];
            scale = (scale - step[0].clamp(-4.0, 4.0)).clamp(1.0, 64.0);
            offset -= step[1].clamp(-2.0, 2.0);
        }
        (scale as f32, offset as f32)
    }

    /// Returns the approximate curvature of the loss with respect to each vote weight. It is
    /// infinite if the weight is initially 0 and its label is wrong for all of these documents.
    /// Such a weight keeps its initial value, because it exists only for documents of the held-out
    /// fold.
    fn curvature(&self, documents: &[usize], scale: f32) -> Vec<f32> {
        let mut is_learned: Vec<bool> = self.initial.iter().map(|&weight| weight > 0.0).collect();
        let mut curvature = vec![0.0; self.initial.len()];
        for slot in documents.iter().flat_map(|&document| self.slots(document)) {
            for &(entry, share) in self.products(slot) {
                curvature[entry as usize] += share * scale * scale / 4.0;
                is_learned[entry as usize] |= self.table.gold[slot];
            }
        }
        for (curvature, is_learned) in curvature.iter_mut().zip(is_learned) {
            *curvature = if is_learned { *curvature } else { f32::INFINITY };
        }
        curvature
    }

    /// Returns the number of chunks of documents whose gradients are added.
    fn chunk_count(&self) -> usize {
        (MAX_GRADIENTS / self.initial.len().max(1)).clamp(1, MAX_CHUNKS)
    }

    /// Learns from all documents that are not in a fold. Calls `visit` after each number of steps
    /// in `checkpoints` (increasing).
    fn learn(
        &self,
        penalty: f32,
        held_out_fold: Option<usize>,
        checkpoints: &[usize],
        threads: &Threads,
        mut visit: impl FnMut(&State),
    ) {
        let labels = if self.multi_label { self.table.gold_documents.len() } else { 0 };
        let is_in =
            |document: &usize| Some(usize::from(self.table.folds[*document])) != held_out_fold;
        let documents: Vec<usize> = (0..self.voted.len()).filter(is_in).collect();
        let (scale, offset) = self.first_scale(&documents);
        let mut state = State {
            weights: self.initial.clone(),
            offsets: vec![offset; labels],
            scales: vec![scale; labels.max(1)],
        };
        let curvature = self.curvature(&documents, scale);
        let chunk_len = documents.len().div_ceil(self.chunk_count()).max(1);
        let mut gradients = vec![state.clone(); documents.len().div_ceil(chunk_len)];
        let mut before = self.initial.clone();
        let mut moments = [Adam::new(labels), Adam::new(labels)];
        let mut speed = 1.0f32;
        let mut steps = 0;
        for &checkpoint in checkpoints {
            while steps < checkpoint {
                let next = f32::midpoint(1.0, (1.0 + 4.0 * speed * speed).sqrt());
                let momentum = (speed - 1.0) / next;
                speed = next;
                threads.run(|| {
                    let chunks = documents.par_chunks(chunk_len).zip(&mut gradients);
                    chunks.for_each(|(chunk, gradient)| self.gradient(chunk, &state, gradient));
                    let weights = state.weights.par_chunks_mut(CHUNK);
                    let chunks = weights.zip(before.par_chunks_mut(CHUNK)).enumerate();
                    chunks.for_each(|(chunk, (weights, before))| {
                        let mut sums = [0.0; CHUNK];
                        for gradient in &gradients {
                            let of_chunk = &gradient.weights[chunk * CHUNK..][..weights.len()];
                            sums.iter_mut().zip(of_chunk).for_each(|(sum, value)| *sum += value);
                        }
                        let entries = chunk * CHUNK..;
                        for (((entry, weight), before), sum) in
                            entries.zip(weights).zip(before).zip(sums)
                        {
                            let slope = sum + 2.0 * penalty * (*weight - self.initial[entry]);
                            let moved = *weight - slope / (curvature[entry] + 2.0 * penalty);
                            *weight = moved + momentum * (moved - *before);
                            *before = moved;
                        }
                    });
                });
                if self.multi_label {
                    let slope = |label: usize| gradients.iter().map(|g| g.offsets[label]).sum();
                    moments[0].step(
                        &mut state.offsets,
                        QuadraticPenalty { initial: offset, penalty: PENALTIES[0] },
                        slope,
                    );
                    let slope = |label: usize| gradients.iter().map(|g| g.scales[label]).sum();
                    moments[1].step(
                        &mut state.scales,
                        QuadraticPenalty { initial: scale, penalty: PENALTIES[1] },
                        slope,
                    );
                }
                steps += 1;
            }
            visit(&state);
        }
    }

    /// Returns the scores of all slots after each number of steps. The scores of each fold use vote
    /// weights learned from the other folds.
    pub(super) fn held_out(
        &self,
        penalty: f32,
        checkpoints: &[usize],
        threads: &Threads,
    ) -> Vec<Vec<f64>> {
        let folds: [usize; FOLDS] = std::array::from_fn(|fold| fold);
        let concurrent = MAX_GRADIENTS / (self.chunk_count() * self.initial.len()).max(1);
        let mut by_fold = threads.map_few(&folds, concurrent, |&fold| {
            let mut scores = Vec::with_capacity(checkpoints.len());
            self.learn(penalty, Some(fold), checkpoints, threads, |state| {
                scores.push(self.scores(state, fold));
            });
            scores
        });
        let of_checkpoint = |checkpoint: usize| {
            // They are freed before the next checkpoint.
            let of_folds: Vec<Vec<f64>> =
                by_fold.iter_mut().map(|scores| std::mem::take(&mut scores[checkpoint])).collect();
            let mut scores = Vec::with_capacity(self.table.slots());
            let mut next = [0; FOLDS];
            for document in 0..self.voted.len() {
                let fold = self.table.fold(document);
                let end = next[fold] + self.table.slots_of(document).len();
                scores.extend_from_slice(&of_folds[fold][next[fold]..end]);
                next[fold] = end;
            }
            scores
        };
        (0..checkpoints.len()).map(of_checkpoint).collect()
    }

    /// Learns from all documents.
    pub(super) fn learn_from_all(&self, learning: VoteLearning, threads: &Threads) -> LearnedVotes {
        let mut learned = None;
        self.learn(learning.penalty, None, &[learning.steps], threads, |state| {
            learned = Some(state.clone());
        });
        let State { weights, offsets, scales } = learned.expect("there is one checkpoint");
        let starts: Vec<u64> = self.starts.iter().map(|&start| start as u64).collect();
        LearnedVotes {
            starts: starts.into(),
            labels: self.labels.clone().into(),
            vote_weights: weights.into(),
            offsets: offsets.into(),
            scales: scales.into(),
        }
    }
}

/// A quadratic penalty that pulls a value toward its initial value.
#[derive(Debug, Clone, Copy)]
struct QuadraticPenalty {
    initial: f32,
    penalty: f32,
}

/// The moment estimates of Adam (Kingma and Ba 2015).
struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    /// The current powers of the decay rates.
    decayed: [f32; 2],
}

impl Adam {
    fn new(values: usize) -> Self {
        Self { mean: vec![0.0; values], square: vec![0.0; values], decayed: [1.0; 2] }
    }

    /// Performs one step.
    fn step(
        &mut self,
        values: &mut [f32],
        pull: QuadraticPenalty,
        gradient: impl Fn(usize) -> f32,
    ) {
        self.decayed = [self.decayed[0] * 0.9, self.decayed[1] * 0.999];
        for (at, value) in values.iter_mut().enumerate() {
            let slope = gradient(at) + 2.0 * pull.penalty * (*value - pull.initial);
            self.mean[at] = 0.9 * self.mean[at] + 0.1 * slope;
            self.square[at] = 0.999 * self.square[at] + 0.001 * slope * slope;
            let mean = self.mean[at] / (1.0 - self.decayed[0]);
            let square = self.square[at] / (1.0 - self.decayed[1]);
            *value -= RATE * mean / (square.sqrt() + 1e-8);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use super::*;
    use crate::decide::vote::TrainingLabels;
    use crate::learn::held_out::{Exclusion, LeaveOneOut, SearchableRows};
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;
    use crate::search::Exhaustive;

    /// Sixty rows with three labels that are unrelated to their terms.
    #[test]
    #[expect(clippy::too_many_lines, reason = "the whole reference implementation")]
    fn weights_equal_a_simple_implementation() {
        const K: usize = 6;
        let mut random = Random::new(9);
        let mut rows = CsrBuilder::default();
        let mut labels = Vec::new();
        for _ in 0..60 {
            let mut terms: Vec<u32> =
                (0..5).map(|_| u32::try_from(random.below(30)).unwrap()).collect();
            terms.sort_unstable();
            terms.dedup();
            rows.push_row(terms.iter().map(|&term| (term, 1.0 / (terms.len() as f32).sqrt())));
            labels.push(u32::try_from(random.below(3)).unwrap());
        }
        let rows = Arc::new(rows.build(30));
        let indptr: Vec<u64> = (0..=60).collect();
        let sizes: [u32; 3] = std::array::from_fn(|label| {
            labels.iter().map(|&of| u32::from(of as usize == label)).sum()
        });
        let weights = [1.0; 60];
        let among =
            TrainingLabels { indptr: &indptr, indices: &labels, weights: &weights, sizes: &sizes };
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        let engine = Exhaustive::new(Arc::clone(&rows), threads.clone()).unwrap();
        let all: Vec<u32> = (0..60).collect();
        let k = NonZeroUsize::new(2 * K).unwrap();
        let view = SearchableRows { engine: &engine, queries: rows.view().into() };
        let held_out = LeaveOneOut::search(view, &all, k, Exclusion::default(), &|_| ()).unwrap();
        let table = VoteTable::new(&held_out, among, &threads);
        let weight = VoteWeight::Similarity { power: 2.0 };
        for others in [false, true] {
            let setup = VoteSetup { weight, k: K, multi_label: false, others };
            let problem = VoteWeightLearner::new(&table, setup, None).unwrap();
            let penalty = 0.3;
            let steps = 4;
            let documents: Vec<usize> = (0..60).collect();
            let scale = f64::from(problem.first_scale(&documents).0);
            let learned = problem.learn_from_all(VoteLearning { others, penalty, steps }, &threads);

            // For each document, its label, and its voters with their shares.
            let voters: Vec<(u32, Vec<(u32, f64)>)> = (0..60)
                .map(|at| {
                    let (row, voters) = held_out.get(at);
                    (labels[row as usize], vote_shares(voters.first(K), weight, &among))
                })
                .collect();
            let proposed = |voters: &[(u32, f64)], label: u32| {
                voters.iter().any(|&(row, _)| labels[row as usize] == label)
            };
            let mut initial: BTreeMap<(u32, u32), f64> =
                all.iter().map(|&row| ((row, labels[row as usize]), 1.0)).collect();
            for (gold, voters) in voters.iter().filter(|_| others) {
                for &(row, _) in voters.iter().filter(|_| proposed(voters, *gold)) {
                    initial.entry((row, *gold)).or_insert(0.0);
                }
            }
            let mut vote_weights = initial.clone();
            let mut before = initial.clone();
            let mut speed = 1.0f64;
            for _ in 0..steps {
                let mut slopes: BTreeMap<(u32, u32), [f64; 2]> = BTreeMap::new();
                for (gold, voters) in &voters {
                    let open: Vec<u32> = (0..3).filter(|&label| proposed(voters, label)).collect();
                    let products = |label: u32| {
                        voters.iter().filter_map({
                            let vote_weights = &vote_weights;
                            move |&(row, share)| {
                                Some((row, share, *vote_weights.get(&(row, label))?))
                            }
                        })
                    };
                    let power = |label: u32| {
                        let sum: f64 = products(label)
                            .map(|(_, share, vote_weight)| share * vote_weight)
                            .sum();
                        libm::exp(scale * sum)
                    };
                    let total: f64 = open.iter().map(|&label| power(label)).sum();
                    for &label in &open {
                        let target = f64::from(u8::from(label == *gold));
                        let slope = scale * (power(label) / total - target);
                        let slope = if open.contains(gold) { slope } else { 0.0 };
                        for (row, share, _) in products(label) {
                            let [sum, curvature] = slopes.entry((row, label)).or_default();
                            *sum += share * slope;
                            *curvature += share * scale * scale / 4.0;
                        }
                    }
                }
                let next = f64::midpoint(1.0, libm::sqrt(1.0 + 4.0 * speed * speed));
                let momentum = (speed - 1.0) / next;
                speed = next;
                for (of, vote_weight) in &mut vote_weights {
                    let [sum, curvature] = slopes.get(of).copied().unwrap_or_default();
                    let pull = 2.0 * f64::from(penalty);
                    let slope = sum + pull * (*vote_weight - initial[of]);
                    let moved = *vote_weight - slope / (curvature + pull);
                    *vote_weight = moved + momentum * (moved - before[of]);
                    before.insert(*of, moved);
                }
            }

            let mut found: BTreeMap<(u32, u32), f64> = BTreeMap::new();
            for &row in &all {
                found.extend(learned.of(row).map(|of| ((row, of.label), f64::from(of.weight))));
            }
            assert!(found.keys().eq(vote_weights.keys()));
            assert_eq!(found.len() > 60, others);
            for (of, vote_weight) in vote_weights {
                assert!(
                    (found[&of] - vote_weight).abs() < 1e-4,
                    "{of:?}: {} and {vote_weight}",
                    found[&of]
                );
            }
        }
    }
}
