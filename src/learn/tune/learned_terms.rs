//! Learned term weights: factors of terms that make documents of the same label more similar than others.
//!
//! The softmax of a document's similarities to its nearest documents is the probability that each of these
//! lends its labels; the factors minimize the negative logarithm of the probability of its own labels, as in
//! neighborhood components analysis (Goldberger, Roweis, Hinton and Salakhutdinov 2005), but with one weight
//! a term instead of a projection. Weight-adjusted k-nearest-neighbor classification (Han, Karypis and
//! Kumar 2001) is related. A few steps from weights that are good already are enough: many steps fit the
//! training documents too closely.

use std::num::NonZeroUsize;
use std::sync::Arc;

use rayon::prelude::*;

use super::folds::drawn;
use super::neighbors::{Exclusion, LeaveOneOut};
use crate::decide::vote::TrainingLabels;
use crate::rows::matrix::{Csr, CsrView, row};
use crate::search::{Engines, SearchError};
use crate::threads::Threads;

mod overlap;
use overlap::Overlaps;

/// The number of neighbors of each document.
const NEIGHBORS: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not 0");
/// The most documents that teach if each has one label. With 4,096, fewer left-out documents of Debian sections are right, with 20,000
/// no more.
const MOST: usize = 8_192;
/// The same if some have several: with 8,192, macro F1 of Debian tags is .258 instead of .304.
const MOST_OF_SEVERAL: usize = 20_000;
/// The lessons are dealt to so many steps in turn, if each has as many as the least: factors are as good then, and take a third of the
/// time.
const MOST_PARTS: usize = 3;
const LEAST_OF_STEP: usize = 2_048;
/// The factor of similarities before the softmax.
const SHARPNESS: f32 = 20.0;
/// The weight of the penalty on the squared logarithms of the factors, beside the mean of the losses.
const PENALTY: f32 = 1.0 / 600.0;
/// The rate and the decays of Adam (Kingma and Ba 2015).
const RATE: f32 = 0.05;
const DECAYS: [f32; 2] = [0.9, 0.999];
/// The largest number of pieces of the documents, whose gradients are added in order so that the number of
/// threads does not matter, and of gradients in memory.
const PIECES: usize = 16;
const GRADIENTS: usize = 1 << 26;
/// The terms whose factors a thread moves at a time.
const TERMS: usize = 1 << 10;

/// A document that teaches: its neighbors, and how much their labels are its own (Jaccard), from 0 to 1.
struct Lesson {
    row: u32,
    neighbors: Vec<(u32, f32)>,
}

/// The factor of each term after each number of steps in `checkpoints` (increasing).
///
/// `rows` are training documents of length 1. Those that `exclusion` allows teach, or some of them, drawn by
/// their hashes; and they are the neighbors.
///
/// # Errors
/// If the rows cannot be indexed.
pub(crate) fn learned_terms(
    rows: &Arc<Csr>,
    among: &TrainingLabels<'_>,
    exclusion: Exclusion<'_>,
    checkpoints: &[u32],
    engines: &Engines,
) -> Result<Vec<Vec<f32>>, SearchError> {
    let allowed = |row: &u32| exclusion.only.is_none_or(|only| only.contains(*row));
    let allowed: Vec<u32> = (0u32..).take(rows.rows()).filter(allowed).collect();
    let hash = |&row: &u32| exclusion.hashes.get(row as usize).copied().unwrap_or(row.into());
    let hashes: Vec<u64> = allowed.iter().map(hash).collect();
    let several = allowed.iter().any(|&row| among.labels(row).len() > 1);
    let most = if several { MOST_OF_SEVERAL } else { MOST };
    let teachers = drawn(&hashes, most).into_iter().map(|at| allowed[at as usize]);
    let teachers: Vec<u32> = teachers.collect();
    let engine = engines.engine(rows)?;
    let queries = rows.view();
    let found = LeaveOneOut::search(&*engine, queries, &teachers, NEIGHBORS, exclusion, &|_| ())?;
    drop(engine);
    let mut lessons: Vec<Lesson> =
        (0..found.len()).filter_map(|at| lesson(&found, at, among)).collect();
    // Documents of a label have many neighbors in common, which are still in the cache.
    lessons.sort_by_key(|lesson| (among.labels(lesson.row).first().copied(), hash(&lesson.row)));
    Ok(learn(&rows.view(), &lessons, checkpoints, engines.threads()))
}

/// A document with its neighbors; `None` if no neighbor shares a label with it, or all have just its labels.
fn lesson(found: &LeaveOneOut, at: usize, among: &TrainingLabels<'_>) -> Option<Lesson> {
    let (row, voters) = found.get(at);
    let own = among.labels(row);
    let alike = |other: u32| {
        let others = among.labels(other);
        let both = own.iter().filter(|label| others.binary_search(label).is_ok()).count();
        let all = own.len() + others.len() - both;
        if all == 0 { 0.0 } else { both as f32 / all as f32 }
    };
    let neighbors: Vec<(u32, f32)> =
        voters.ranked().map(|(_, _, neighbor)| (neighbor.row, alike(neighbor.row))).collect();
    let least = neighbors.iter().map(|&(_, alike)| alike).fold(1.0, f32::min);
    let most = neighbors.iter().map(|&(_, alike)| alike).fold(0.0, f32::max);
    (least < most).then_some(Lesson { row, neighbors })
}

fn learn(
    rows: &CsrView<'_>,
    lessons: &[Lesson],
    checkpoints: &[u32],
    threads: &Threads,
) -> Vec<Vec<f32>> {
    let terms = rows.cols();
    // A term of one document does not make it similar to others.
    let mut documents = vec![0u32; terms];
    let (_, indices, _) = rows.into_raw_storage();
    for &term in indices {
        documents[term as usize] += 1;
    }
    let common: Vec<bool> = documents.into_iter().map(|documents| documents > 1).collect();
    let mut logarithms = vec![0.0f32; terms];
    // Each step has another part of the lessons.
    let parts = (lessons.len() / LEAST_OF_STEP).clamp(1, MOST_PARTS);
    let overlaps = threads.run(|| Overlaps::new(rows, lessons));
    let batches: Vec<Vec<usize>> =
        (0..parts).map(|part| (part..lessons.len()).step_by(parts).collect()).collect();
    let mut moments = vec![[0.0f32; 2]; terms];
    let mut decayed = [1.0f32; 2];
    let pieces = (GRADIENTS / (2 * terms + rows.rows()).max(1)).clamp(1, PIECES);
    let mut learned = Vec::new();
    let mut steps = 0u32;
    for &checkpoint in checkpoints {
        while steps < checkpoint {
            let batch = &batches[steps as usize % parts];
            let penalty = PENALTY * batch.len() as f32;
            steps += 1;
            decayed = [decayed[0] * DECAYS[0], decayed[1] * DECAYS[1]];
            threads.run(|| {
                let factors = factors(&logarithms);
                let gradients = Scaled::new(rows, &factors).gradients(&overlaps, batch, pieces);
                let moved = logarithms.par_chunks_mut(TERMS).zip(moments.par_chunks_mut(TERMS));
                moved.enumerate().for_each(|(chunk, (logarithms, moments))| {
                    let terms = chunk * TERMS..;
                    let of_terms = terms.zip(logarithms).zip(moments);
                    for ((term, logarithm), moments) in
                        of_terms.filter(|((term, _), _)| common[*term])
                    {
                        let sum: f32 = gradients.iter().map(|gradient| gradient[term]).sum();
                        let slope = sum + 2.0 * penalty * *logarithm;
                        moments[0] = DECAYS[0] * moments[0] + (1.0 - DECAYS[0]) * slope;
                        moments[1] = DECAYS[1] * moments[1] + (1.0 - DECAYS[1]) * slope * slope;
                        let mean = moments[0] / (1.0 - decayed[0]);
                        let square = moments[1] / (1.0 - decayed[1]);
                        *logarithm -= RATE * mean / (square.sqrt() + 1e-8);
                    }
                });
            });
        }
        learned.push(factors(&logarithms));
    }
    learned
}

fn factors(logarithms: &[f32]) -> Vec<f32> {
    logarithms.iter().map(|&logarithm| libm::expf(logarithm)).collect()
}

/// Rows after the factors, of length 1: the value of a term is its weight times its factor times the row's scale.
struct Scaled<'r> {
    rows: &'r CsrView<'r>,
    factors: &'r [f32],
    scales: Vec<f32>,
}

impl<'r> Scaled<'r> {
    fn new(rows: &'r CsrView<'r>, factors: &'r [f32]) -> Self {
        let scale = |index: usize| {
            let (terms, weights) = row(rows, index);
            let weigh = |(&term, weight): (&u32, &f32)| weight * factors[term as usize];
            let values = terms.iter().zip(weights).map(weigh);
            let length = values.map(|value| value * value).sum::<f32>().sqrt();
            if length > 0.0 { 1.0 / length } else { 0.0 }
        };
        let scales = (0..rows.rows()).into_par_iter().map(scale).collect();
        Self { rows, factors, scales }
    }

    /// The derivative of the loss by the logarithm of each term's factor, in parts that add up to it, at most two for
    /// each of `pieces`; of the lessons with the numbers in `batch`.
    ///
    /// With x the rows, the derivative of the similarity s of two rows i and j by the logarithm of term t
    /// is 2 x(i, t) x(j, t) − s (x(i, t)² + x(j, t)²). The first part needs the terms that both rows have; of the
    /// others, s is added up for each row, and squares are added at the end.
    fn gradients(&self, lessons: &Overlaps<'_>, batch: &[usize], pieces: usize) -> Vec<Vec<f32>> {
        let piece = batch.len().div_ceil(pieces).max(1);
        let slopes: Vec<Slopes> =
            batch.par_chunks(piece).map(|piece| self.slopes(lessons, piece)).collect();
        let (mut gradients, by_row): (Vec<_>, Vec<_>) =
            slopes.into_iter().map(|slopes| (slopes.by_term, slopes.by_row)).unzip();
        let rows: Vec<u32> = (0u32..).take(self.rows.rows()).collect();
        let squares = |rows: &[u32]| {
            let mut gradient = vec![0.0f32; self.rows.cols()];
            for &number in rows {
                let slope: f32 = by_row.iter().map(|slopes| slopes[number as usize]).sum();
                if slope != 0.0 {
                    let scale = self.scales[number as usize];
                    let (terms, weights) = row(self.rows, number as usize);
                    for (&term, &weight) in terms.iter().zip(weights) {
                        let value = weight * self.factors[term as usize] * scale;
                        gradient[term as usize] -= slope * value * value;
                    }
                }
            }
            gradient
        };
        gradients.par_extend(rows.par_chunks(rows.len().div_ceil(pieces).max(1)).map(squares));
        gradients
    }

    /// What some documents add to the derivatives.
    fn slopes(&self, lessons: &Overlaps<'_>, batch: &[usize]) -> Slopes {
        let mut by_term = vec![0.0f32; self.rows.cols()];
        let mut by_row = vec![0.0f32; self.rows.rows()];
        let mut builder = overlap::Builder::default();
        // Of each neighbor.
        let (mut similarities, mut votes, mut pulls) = (Vec::new(), Vec::new(), Vec::new());
        for &at in batch {
            let (Lesson { row, neighbors }, overlap) = lessons.get(at, &mut builder);
            let scales = neighbors.iter().map(|&(other, _)| self.scales[other as usize]);
            let own_scale = self.scales[*row as usize];
            let squares = |term: u32| self.factors[term as usize] * self.factors[term as usize];
            overlap.products(squares, neighbors.len(), &mut similarities);
            for (similarity, scale) in similarities.iter_mut().zip(scales) {
                *similarity *= own_scale * scale;
            }
            let most = similarities.iter().copied().fold(0.0, f32::max);
            let vote = |similarity: &f32| libm::expf(SHARPNESS * (similarity - most));
            votes.clear();
            votes.extend(similarities.iter().map(vote));
            let total: f32 = votes.iter().sum();
            let right = votes.iter().zip(neighbors).map(|(vote, &(_, alike))| vote * alike);
            let share = right.sum::<f32>() / total;
            if share > 0.0 {
                let mut own = 0.0;
                pulls.clear();
                for ((vote, similarity), &(other, alike)) in
                    votes.iter().zip(&similarities).zip(neighbors)
                {
                    let slope = SHARPNESS * vote / total * (1.0 - alike / share);
                    by_row[other as usize] += slope * similarity;
                    own += slope * similarity;
                    pulls.push(slope * self.scales[other as usize]);
                }
                by_row[*row as usize] += own;
                overlap.sums(&pulls, |term, sum| {
                    by_term[term as usize] += 2.0 * own_scale * squares(term) * sum;
                });
            }
        }
        Slopes { by_term, by_row }
    }
}

/// Parts of the derivatives of the loss.
struct Slopes {
    /// By the logarithm of each term's factor, as far as two rows have the term.
    by_term: Vec<f32>,
    /// What the squares of each row's values are multiplied by, and then taken away.
    by_row: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;

    /// Rows of six of 20 terms, and a lesson of each about the others.
    pub(super) fn made() -> (Csr, Vec<Lesson>) {
        let mut random = Random::new(4);
        let mut rows = CsrBuilder::default();
        for _ in 0..12 {
            let mut terms: Vec<u32> =
                (0..6).map(|_| u32::try_from(random.below(20)).unwrap()).collect();
            terms.sort_unstable();
            terms.dedup();
            let entries: Vec<(u32, f32)> =
                terms.into_iter().map(|term| (term, 0.5 + random.below(9) as f32 / 9.0)).collect();
            rows.push_row(entries);
        }
        let lessons = (0..12).map(|row| Lesson {
            row,
            neighbors: (0..12)
                .filter(|&other| other != row)
                .map(|other| (other, [0.0, 0.5, 1.0][((row + other) % 3) as usize]))
                .collect(),
        });
        (rows.build(20), lessons.collect())
    }

    /// The loss, the slow, obvious way.
    fn loss(rows: &Csr, lessons: &[Lesson], logarithms: &[f64]) -> f64 {
        let unit = |row_number: u32| {
            let view = rows.view();
            let (terms, weights) = row(&view, row_number as usize);
            let mut values = vec![0.0; 20];
            for (&term, &weight) in terms.iter().zip(weights) {
                values[term as usize] = f64::from(weight) * libm::exp(logarithms[term as usize]);
            }
            let length = libm::sqrt(values.iter().map(|value| value * value).sum::<f64>());
            values.into_iter().map(|value| value / length).collect::<Vec<f64>>()
        };
        let of = |Lesson { row, neighbors }: &Lesson| {
            let own = unit(*row);
            let (mut total, mut right) = (0.0, 0.0);
            for &(other, alike) in neighbors {
                let similarity: f64 = own.iter().zip(unit(other)).map(|(a, b)| a * b).sum();
                let vote = libm::exp(f64::from(SHARPNESS) * similarity);
                total += vote;
                right += vote * f64::from(alike);
            }
            -libm::log(right / total)
        };
        lessons.iter().map(of).sum()
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let (rows, lessons) = made();
        let narrow: Vec<f32> = (0..20u8).map(|term| f32::from(term % 5) / 10.0).collect();
        let logarithms: Vec<f64> = narrow.iter().copied().map(f64::from).collect();
        let (rows_view, factors) = (rows.view(), factors(&narrow));
        let batch: Vec<usize> = (0..lessons.len()).collect();
        let overlaps = Overlaps::new(&rows_view, &lessons);
        let parts = Scaled::new(&rows_view, &factors).gradients(&overlaps, &batch, 3);
        let found: Vec<f32> =
            (0..20).map(|term| parts.iter().map(|part| part[term]).sum()).collect();
        for term in 0..20 {
            let at = |step: f64| {
                let mut moved = logarithms.clone();
                moved[term] += step;
                loss(&rows, &lessons, &moved)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            let difference = (f64::from(found[term]) - expected).abs();
            assert!(difference < 1e-3, "{term}: {} and {expected}", found[term]);
        }
    }

    #[test]
    fn steps_lower_the_loss_on_any_threads() {
        let (rows, lessons) = made();
        let learned = |count: usize| {
            let threads = Threads::new(NonZeroUsize::new(count).unwrap()).unwrap();
            learn(&rows.view(), &lessons, &[2, 5], &threads)
        };
        let found = learned(1);
        assert_eq!(found, learned(3));
        let loss_of = |factors: &[f32]| {
            let logarithms: Vec<f64> = factors.iter().map(|&f| libm::log(f64::from(f))).collect();
            loss(&rows, &lessons, &logarithms)
        };
        let losses = [loss_of(&[1.0; 20]), loss_of(&found[0]), loss_of(&found[1])];
        assert!(losses[0] > losses[1] && losses[1] > losses[2], "{losses:?}");
    }
}
