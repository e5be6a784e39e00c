//! What votes are worth, learned from left-out documents: see [`LearnedVotes`].
//!
//! The logarithmic loss is minimized by gradient steps with Nesterov's momentum, all documents at a
//! time. The step of each worth is divided by about its curvature: a worth that few documents
//! tell about moves little from its initial value. Documents are divided into a fixed number of
//! pieces, whose gradients are added in order, so the number of threads does not matter.

use rayon::prelude::*;

use super::{GridSearch, narrow};
use crate::decide::vote::{LearnedVotes, VoteWeight, link, shares};
use crate::learn::tune::thresholds::FOLDS;
use crate::threads::Threads;

/// What is learned, and how.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct VoteLearning {
    /// Whether a document can also vote for labels that it does not have, but that documents near it
    /// have.
    pub others: bool,
    /// The weight of the penalty on the distance from the initial worths.
    pub penalty: f32,
    /// The number of gradient steps.
    pub steps: usize,
}

/// The scales of sums that are tried for one label: those of least loss before worths are learned are
/// the T of one label, ..
const SCALES: [f32; 11] = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0];
/// .. and for several labels, Newton's method finds the initial a and b from these.
const FIRST: (f64, f64) = (4.0, -2.0);
/// The step of offsets and scales, and the weights of the penalties on their distance from the
/// initial values.
const RATE: f32 = 0.05;
const PENALTIES: [f32; 2] = [1.0, 0.1];
/// The largest number of pieces of the documents, and of gradients in memory.
const PIECES: usize = 16;
const GRADIENTS: usize = 1 << 26;
/// The worths that a thread moves at a time.
const WORTHS: usize = 1 << 10;

/// The votes of the first k neighbors of left-out documents.
pub(in crate::learn::tune) struct Ballots<'g> {
    grid_search: &'g GridSearch<'g>,
    several: bool,
    /// How many slots of each document have a vote.
    open: Vec<u32>,
    /// The products of slot `i` are `bounds[i]..bounds[i + 1]`.
    bounds: Vec<usize>,
    /// A worth, and the share of the votes that it is multiplied by.
    products: Vec<(u32, f32)>,
    /// The worths of training document `row` are `starts[row]..starts[row + 1]`.
    starts: Vec<usize>,
    /// The label of each worth.
    labels: Vec<u32>,
    /// The worths before learning.
    initial: Vec<f32>,
}

/// What has been learned so far.
#[derive(Debug, Clone)]
struct State {
    worths: Vec<f32>,
    /// Of each label, if there are several; otherwise empty.
    offsets: Vec<f32>,
    /// Of each label, if there are several; otherwise one.
    scales: Vec<f32>,
}

/// The votes of the neighbors of each document.
struct Votes {
    /// The votes of document `i` are `bounds[i]..bounds[i + 1]`.
    bounds: Vec<usize>,
    /// The training document that votes, and its share of the votes.
    votes: Vec<(u32, f32)>,
}

impl Votes {
    fn of(&self, document: usize) -> &[(u32, f32)] {
        &self.votes[self.bounds[document]..self.bounds[document + 1]]
    }
}

impl<'g> Ballots<'g> {
    /// `others` as in [`VoteLearning`]; `None` if a step would multiply more than `most` worths.
    pub(in crate::learn::tune) fn new(
        grid_search: &'g GridSearch<'g>,
        (weight, k): (VoteWeight, usize),
        several: bool,
        others: bool,
        most: Option<usize>,
    ) -> Option<Self> {
        let among = grid_search.among;
        let mut votes = Votes { bounds: vec![0], votes: Vec::new() };
        let (mut open, mut labels) = (Vec::new(), Vec::<u32>::new());
        for document in 0..grid_search.sample.len() {
            let (_, neighbors) = grid_search.get(document);
            labels.clear();
            for (row, share) in shares(neighbors.first(k), weight, &among) {
                labels.extend(among.labels(row));
                #[expect(clippy::cast_possible_truncation, reason = "a share from 0 to 1")]
                votes.votes.push((row, share as f32));
            }
            votes.bounds.push(votes.votes.len());
            // Slots are ordered by their best neighbor, so those of the first k come first.
            labels.sort_unstable();
            labels.dedup();
            open.push(narrow(labels.len()));
        }
        let (bounds, products) = (Vec::new(), Vec::new());
        let (starts, labels, initial) = (vec![0], Vec::new(), Vec::new());
        let mut ballots =
            Self { grid_search, several, open, bounds, products, starts, labels, initial };
        let fits = |products: usize| most.is_none_or(|most| products <= most);
        if others && !fits(ballots.products_with_others(&votes)) {
            return None;
        }
        ballots.list_worths(others, &votes);
        let products = votes.votes.iter().map(|&(row, _)| ballots.entries(row).len()).sum();
        if !fits(products) {
            return None;
        }
        (ballots.bounds, ballots.products) = ballots.list_products(&votes, products);
        Some(ballots)
    }

    /// The slots of a document that have a vote.
    fn slots(&self, document: usize) -> std::ops::Range<usize> {
        let first = self.grid_search.slots[document] as usize;
        first..first + self.open[document] as usize
    }

    /// The worths that are added up for a slot, each with the share of the votes that it is multiplied by.
    fn products(&self, slot: usize) -> &[(u32, f32)] {
        &self.products[self.bounds[slot]..self.bounds[slot + 1]]
    }

    fn entries(&self, row: u32) -> std::ops::Range<usize> {
        self.starts[row as usize]..self.starts[row as usize + 1]
    }

    /// The labels of a document for which its neighbors can vote.
    fn taught(&self, document: usize) -> impl Iterator<Item = u32> {
        let slots = self.slots(document).filter(|&slot| self.grid_search.gold[slot]);
        slots.map(|slot| self.grid_search.labels[slot])
    }

    fn products_with_others(&self, votes: &Votes) -> usize {
        let pairs = |document| votes.of(document).len() * self.taught(document).count();
        (0..self.open.len()).map(pairs).sum()
    }

    /// Lists a worth for each label of each training document, and if `others`, for each label of the
    /// documents that it is a neighbor of.
    fn list_worths(&mut self, others: bool, votes: &Votes) {
        let among = self.grid_search.among;
        let mut taught: Vec<Vec<u32>> =
            vec![Vec::new(); if others { among.weights.len() } else { 0 }];
        if others {
            for document in 0..self.open.len() {
                for &(row, _) in votes.of(document) {
                    taught[row as usize].extend(self.taught(document));
                }
            }
        }
        let mut labels: Vec<u32> = Vec::new();
        for row in 0..narrow(among.weights.len()) {
            let own = among.labels(row);
            labels.clear();
            labels.extend(own);
            labels.extend(taught.get(row as usize).into_iter().flatten());
            labels.sort_unstable();
            labels.dedup();
            let is_own = |label: &u32| own.binary_search(label).is_ok();
            self.initial.extend(labels.iter().map(|label| f32::from(u8::from(is_own(label)))));
            self.labels.extend(&labels);
            self.starts.push(self.labels.len());
        }
    }

    /// Where the products of each slot begin and end, and the products, at most `most`: one for each vote of a document that has a
    /// worth for the slot's label.
    fn list_products(&self, votes: &Votes, most: usize) -> (Vec<usize>, Vec<(u32, f32)>) {
        let mut slot_of = vec![u32::MAX; self.grid_search.gold_documents.len()];
        let mut next = Vec::new();
        let (mut bounds, mut products) = (vec![0], Vec::with_capacity(most));
        for document in 0..self.open.len() {
            let labels = &self.grid_search.labels[self.slots(document)];
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
                products[*next] = (narrow(entry), share);
                *next += 1;
            }
            // Slots without a vote have none.
            bounds.resize(self.grid_search.slots_of(document).end + 1, end);
            for &label in labels {
                slot_of[label as usize] = u32::MAX;
            }
        }
        (bounds, products)
    }

    /// Writes the labels of a document's slots with their sums.
    fn sum(&self, document: usize, worths: &[f32], sums: &mut Vec<(u32, f64)>) {
        let product = |&(entry, share): &(u32, f32)| f64::from(share * worths[entry as usize]);
        let sum = |slot: usize| {
            let sum = self.products(slot).iter().map(product).sum();
            (self.grid_search.labels[slot], sum)
        };
        sums.clear();
        sums.extend(self.slots(document).map(sum));
    }

    /// The scores of the slots of a fold's documents, one document after the other.
    fn scores(&self, state: &State, fold: usize) -> Vec<f64> {
        let (mut scores, mut sums) = (Vec::new(), Vec::new());
        for document in 0..self.open.len() {
            if self.grid_search.fold(document) == fold {
                self.sum(document, &state.worths, &mut sums);
                link(&mut sums, &state.offsets, &state.scales);
                let end = scores.len() + self.grid_search.slots_of(document).len();
                scores.extend(sums.iter().map(|&(_, score)| score));
                scores.resize(end, 0.0);
            }
        }
        scores
    }

    /// Writes the gradients of worths, offsets and scales for some documents.
    #[expect(clippy::cast_possible_truncation, reason = "gradients need no more")]
    fn gradient(&self, documents: &[usize], state: &State, gradient: &mut State) {
        let State { worths, offsets, scales } = &mut *gradient;
        for values in [worths, offsets, scales] {
            values.fill(0.0);
        }
        let (mut sums, mut scores) = (Vec::new(), Vec::new());
        for &document in documents {
            self.sum(document, &state.worths, &mut sums);
            let gold = &self.grid_search.gold[self.slots(document)];
            let right = gold.iter().filter(|&&gold| gold).count();
            if !self.several && right == 0 {
                continue;
            }
            scores.clone_from(&sums);
            link(&mut scores, &state.offsets, &state.scales);
            for (slot, &(_, sum)) in self.slots(document).zip(&sums) {
                let (label, score) = scores[slot - self.slots(document).start];
                let gold = self.grid_search.gold[slot];
                let target = match (gold, self.several) {
                    (false, _) => 0.0,
                    (true, true) => 1.0,
                    (true, false) => 1.0 / right as f64,
                };
                let slope = (score - target) as f32;
                let at = if self.several { label as usize } else { 0 };
                if self.several {
                    gradient.offsets[at] += slope;
                    gradient.scales[at] += slope * sum as f32;
                }
                let slope = slope * state.scales[at];
                for &(entry, share) in self.products(slot) {
                    gradient.worths[entry as usize] += share * slope;
                }
            }
        }
    }

    /// The scale and the offset of least loss before worths are learned.
    #[expect(clippy::cast_possible_truncation, reason = "initial values")]
    fn first_scale(&self, documents: &[usize]) -> (f32, f32) {
        let mut of_slots = Vec::new();
        let mut sums: Vec<(Vec<f64>, &[bool])> = Vec::with_capacity(documents.len());
        for &document in documents {
            self.sum(document, &self.initial, &mut of_slots);
            let gold = &self.grid_search.gold[self.slots(document)];
            if self.several || gold.contains(&true) {
                sums.push((of_slots.iter().map(|&(_, sum)| sum).collect(), gold));
            }
        }
        if !self.several {
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
                    let (slope, curve) = (score - f64::from(u8::from(gold)), score * (1.0 - score));
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

    /// About the curvature of the loss by each worth. Infinite for labels of others that none of these
    /// documents has: such a worth stays as it is, as it would if the left-out fold were not known.
    fn curvature(&self, documents: &[usize], scale: f32) -> Vec<f32> {
        let mut taught: Vec<bool> = self.initial.iter().map(|&worth| worth > 0.0).collect();
        let mut curvature = vec![0.0; self.initial.len()];
        for slot in documents.iter().flat_map(|&document| self.slots(document)) {
            for &(entry, share) in self.products(slot) {
                curvature[entry as usize] += share * scale * scale / 4.0;
                taught[entry as usize] |= self.grid_search.gold[slot];
            }
        }
        for (curvature, taught) in curvature.iter_mut().zip(taught) {
            *curvature = if taught { *curvature } else { f32::INFINITY };
        }
        curvature
    }

    /// The number of pieces of the documents whose gradients are added.
    fn pieces(&self) -> usize {
        (GRADIENTS / self.initial.len().max(1)).clamp(1, PIECES)
    }

    /// Learns from all documents that are not in a fold, and calls `at` after each number of steps in
    /// `checkpoints` (increasing).
    fn learn(
        &self,
        penalty: f32,
        without: Option<usize>,
        checkpoints: &[usize],
        threads: &Threads,
        mut at: impl FnMut(usize, &State),
    ) {
        let labels = if self.several { self.grid_search.gold_documents.len() } else { 0 };
        let is_in =
            |document: &usize| Some(usize::from(self.grid_search.folds[*document])) != without;
        let documents: Vec<usize> = (0..self.open.len()).filter(is_in).collect();
        let (scale, offset) = self.first_scale(&documents);
        let mut state = State {
            worths: self.initial.clone(),
            offsets: vec![offset; labels],
            scales: vec![scale; labels.max(1)],
        };
        let curvature = self.curvature(&documents, scale);
        let pieces = self.pieces();
        let piece = documents.len().div_ceil(pieces).max(1);
        let mut gradients = vec![state.clone(); documents.len().div_ceil(piece)];
        let mut before = self.initial.clone();
        let mut moments = [Adam::new(labels), Adam::new(labels)];
        let (mut speed, mut steps) = (1.0f32, 0);
        for &checkpoint in checkpoints {
            while steps < checkpoint {
                let next = f32::midpoint(1.0, (1.0 + 4.0 * speed * speed).sqrt());
                let momentum = (speed - 1.0) / next;
                speed = next;
                threads.run(|| {
                    let pieces = documents.par_chunks(piece).zip(&mut gradients);
                    pieces.for_each(|(piece, gradient)| self.gradient(piece, &state, gradient));
                    let worths = state.worths.par_chunks_mut(WORTHS);
                    let before = before.par_chunks_mut(WORTHS);
                    worths.zip(before).enumerate().for_each(|(at, (worths, before))| {
                        let mut sums = [0.0; WORTHS];
                        for gradient in &gradients {
                            let of_piece = &gradient.worths[at * WORTHS..][..worths.len()];
                            sums.iter_mut().zip(of_piece).for_each(|(sum, value)| *sum += value);
                        }
                        let entries = at * WORTHS..;
                        for (((entry, worth), before), sum) in
                            entries.zip(worths).zip(before).zip(sums)
                        {
                            let slope = sum + 2.0 * penalty * (*worth - self.initial[entry]);
                            let moved = *worth - slope / (curvature[entry] + 2.0 * penalty);
                            *worth = moved + momentum * (moved - *before);
                            *before = moved;
                        }
                    });
                });
                if self.several {
                    let slope = |label: usize| gradients.iter().map(|g| g.offsets[label]).sum();
                    moments[0].step(&mut state.offsets, (offset, PENALTIES[0]), slope);
                    let slope = |label: usize| gradients.iter().map(|g| g.scales[label]).sum();
                    moments[1].step(&mut state.scales, (scale, PENALTIES[1]), slope);
                }
                steps += 1;
            }
            at(checkpoint, &state);
        }
    }

    /// The scores of all slots after each number of steps, those of each fold learned from the others.
    pub(in crate::learn::tune) fn held_out(
        &self,
        penalty: f32,
        checkpoints: &[usize],
        threads: &Threads,
    ) -> Vec<Vec<f64>> {
        let folds: [usize; FOLDS] = std::array::from_fn(|fold| fold);
        let at_once = GRADIENTS / (self.pieces() * self.initial.len()).max(1);
        let by_fold = threads.map_few(&folds, at_once, |&fold| {
            let mut scores = Vec::with_capacity(checkpoints.len());
            self.learn(penalty, Some(fold), checkpoints, threads, |_, state| {
                scores.push(self.scores(state, fold));
            });
            scores
        });
        let of_checkpoint = |checkpoint: usize| {
            let mut scores = Vec::with_capacity(self.grid_search.slots());
            let mut next = [0; FOLDS];
            for document in 0..self.open.len() {
                let fold = self.grid_search.fold(document);
                let end = next[fold] + self.grid_search.slots_of(document).len();
                scores.extend_from_slice(&by_fold[fold][checkpoint][next[fold]..end]);
                next[fold] = end;
            }
            scores
        };
        (0..checkpoints.len()).map(of_checkpoint).collect()
    }

    /// What all documents teach.
    pub(in crate::learn::tune) fn learned(
        &self,
        learning: VoteLearning,
        threads: &Threads,
    ) -> LearnedVotes {
        let mut learned = None;
        self.learn(learning.penalty, None, &[learning.steps], threads, |_, state| {
            learned = Some(state.clone());
        });
        let State { worths, offsets, scales } = learned.expect("there is one checkpoint");
        let starts: Vec<u64> = self.starts.iter().map(|&start| start as u64).collect();
        LearnedVotes {
            starts: starts.into(),
            labels: self.labels.clone().into(),
            worths: worths.into(),
            offsets: offsets.into(),
            scales: scales.into(),
        }
    }
}

/// The moments of Adam (Kingma and Ba 2015).
struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    /// The powers of the decay rates.
    decayed: [f32; 2],
}

impl Adam {
    fn new(values: usize) -> Self {
        Self { mean: vec![0.0; values], square: vec![0.0; values], decayed: [1.0; 2] }
    }

    /// One step; a quadratic penalty pulls the values towards their initial one.
    fn step(
        &mut self,
        values: &mut [f32],
        (initial, penalty): (f32, f32),
        gradient: impl Fn(usize) -> f32,
    ) {
        self.decayed = [self.decayed[0] * 0.9, self.decayed[1] * 0.999];
        for (at, value) in values.iter_mut().enumerate() {
            let slope = gradient(at) + 2.0 * penalty * (*value - initial);
            self.mean[at] = 0.9 * self.mean[at] + 0.1 * slope;
            self.square[at] = 0.999 * self.square[at] + 0.001 * slope * slope;
            let (mean, square) = (
                self.mean[at] / (1.0 - self.decayed[0]),
                self.square[at] / (1.0 - self.decayed[1]),
            );
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
    use crate::learn::tune::{Exclusion, LeaveOneOut};
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;
    use crate::search::Exhaustive;

    /// Sixty rows of three labels, which have nothing to do with their terms.
    #[test]
    fn worths_are_those_of_the_plain_formulas() {
        const K: usize = 6;
        let mut random = Random::new(9);
        let (mut rows, mut labels) = (CsrBuilder::default(), Vec::new());
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
        let (k, exclusion) = (NonZeroUsize::new(2 * K).unwrap(), Exclusion::default());
        let found = LeaveOneOut::search(&engine, rows.view(), &all, k, exclusion, &|_| ()).unwrap();
        let grid_search = GridSearch::new(&found, among, &threads);
        let weight = VoteWeight::Similarity { power: 2.0 };
        for others in [false, true] {
            let ballots = Ballots::new(&grid_search, (weight, K), false, others, None).unwrap();
            let (penalty, steps) = (0.3, 4);
            let documents: Vec<usize> = (0..60).collect();
            let scale = f64::from(ballots.first_scale(&documents).0);
            let learned = ballots.learned(VoteLearning { others, penalty, steps }, &threads);

            // By document: its label, and its voters with their shares.
            let voters: Vec<(u32, Vec<(u32, f64)>)> = (0..60)
                .map(|at| {
                    let (row, voters) = found.get(at);
                    (labels[row as usize], shares(voters.first(K), weight, &among))
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
            let (mut worths, mut before, mut speed) = (initial.clone(), initial.clone(), 1.0f64);
            for _ in 0..steps {
                let mut slopes: BTreeMap<(u32, u32), [f64; 2]> = BTreeMap::new();
                for (gold, voters) in &voters {
                    let open: Vec<u32> = (0..3).filter(|&label| proposed(voters, label)).collect();
                    let products = |label: u32| {
                        voters.iter().filter_map({
                            let worths = &worths;
                            move |&(row, share)| Some((row, share, *worths.get(&(row, label))?))
                        })
                    };
                    let power = |label: u32| {
                        let sum: f64 = products(label).map(|(_, share, worth)| share * worth).sum();
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
                for (of, worth) in &mut worths {
                    let [sum, curvature] = slopes.get(of).copied().unwrap_or_default();
                    let pull = 2.0 * f64::from(penalty);
                    let slope = sum + pull * (*worth - initial[of]);
                    let moved = *worth - slope / (curvature + pull);
                    *worth = moved + momentum * (moved - before[of]);
                    before.insert(*of, moved);
                }
            }

            let mut found: BTreeMap<(u32, u32), f64> = BTreeMap::new();
            for &row in &all {
                found.extend(learned.of(row).map(|of| ((row, of.label), f64::from(of.worth))));
            }
            assert!(found.keys().eq(worths.keys()));
            assert_eq!(found.len() > 60, others);
            for (of, worth) in worths {
                assert!((found[&of] - worth).abs() < 1e-4, "{of:?}: {} and {worth}", found[&of]);
            }
        }
    }
}
