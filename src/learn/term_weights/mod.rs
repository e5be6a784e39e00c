//! Learns one factor per term weight, so that documents with the same label become more similar to
//! each other than to other documents.
//!
//! A document gets the labels of one of its nearest neighbors. The probability of each neighbor is
//! the softmax of the similarities. The factors minimize the negative log-likelihood of the
//! document's own labels, as in neighborhood components analysis (Goldberger, Roweis, Hinton and
//! Salakhutdinov 2005). This module learns one factor per term instead of a projection.
//! Weight-adjusted k-nearest-neighbor classification (Han, Karypis and Kumar 2001) is related. A
//! few steps suffice because the initial weights are already good; many steps overfit.
//!
//! * Input: the unit rows of the documents outside each fold, and their nearest neighbors.
//! * Evaluation: the greedy feature search, which tries several numbers of steps.
//! * Output: one factor per term.

use std::sync::Arc;

use rayon::prelude::*;

use super::held_out::{Exclusion, LeaveOneOut, SearchableRows, draw_sample};
use crate::decide::vote::TrainingLabels;
use crate::rows::matrix::{Csr, CsrView, row};
use crate::search::{Engines, SearchError};
use crate::threads::Threads;

mod example;
mod overlap;

use example::{NEIGHBORS, TrainingExample, build_example};
use overlap::Overlaps;

/// Maximum number of documents to learn from in single-label mode. On Debian sections, held-out
/// accuracy is lower with 4,096 documents and no higher with 20,000.
const MAX_SINGLE_LABEL: usize = 8_192;
/// Maximum number of documents to learn from in multi-label mode. On Debian tags, 8,192 documents
/// reach a macro F1 of .258 instead of .304.
const MAX_MULTI_LABEL: usize = 20_000;
/// Maximum number of batches into which the documents are divided. Each step uses the next batch.
/// The factors are as good as with one batch, and learning takes a third of the time.
const MAX_BATCHES: usize = 3;
/// Minimum number of documents of a batch.
const MIN_BATCH: usize = 2_048;
/// The factor by which similarities are multiplied before the softmax.
const SHARPNESS: f32 = 20.0;
/// The weight of the penalty on the squared logarithms of the factors, relative to the mean loss.
const PENALTY: f32 = 1.0 / 600.0;
/// The learning rate and the decay rates of Adam (Kingma and Ba 2015).
const RATE: f32 = 0.05;
const DECAYS: [f32; 2] = [0.9, 0.999];
/// Maximum number of chunks into which a batch is divided. Their gradients are added in order, so
/// the result does not depend on the number of threads.
const MAX_CHUNKS: usize = 16;
/// Maximum number of partial derivatives in memory.
const MAX_GRADIENTS: usize = 1 << 26;
/// Number of terms whose factors a thread updates per task.
const CHUNK: usize = 1 << 10;

/// Returns the factor of each term after each number of steps in `checkpoints` (increasing).
///
/// `rows` are the unit rows of the training documents. The factors are learned from the documents
/// that `exclusion` allows, or from a sample of them drawn by hash. All allowed documents can be
/// neighbors.
///
/// # Errors
/// Fails if the rows cannot be indexed.
pub(super) fn learn(
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
    let multi_label = allowed.iter().any(|&row| among.labels(row).len() > 1);
    let max_count = if multi_label { MAX_MULTI_LABEL } else { MAX_SINGLE_LABEL };
    let sample = draw_sample(&hashes, max_count).into_iter().map(|index| allowed[index as usize]);
    let sample: Vec<u32> = sample.collect();
    let engine = engines.engine(rows)?;
    let view = SearchableRows { engine: &*engine, queries: rows.view().into() };
    let found = LeaveOneOut::search(view, &sample, NEIGHBORS, exclusion, &|_| ())?;
    drop(engine);
    let mut examples: Vec<TrainingExample> =
        (0..found.len()).filter_map(|at| build_example(&found, at, among)).collect();
    // Documents with the same label have many neighbors in common, which are then still in the
    // cache.
    examples
        .sort_by_key(|example| (among.labels(example.row).first().copied(), hash(&example.row)));
    Ok(descend(&rows.view(), &examples, checkpoints, engines.threads()))
}

fn descend(
    rows: &CsrView<'_>,
    examples: &[TrainingExample],
    checkpoints: &[u32],
    threads: &Threads,
) -> Vec<Vec<f32>> {
    let terms = rows.cols();
    // A term that only one document has does not make it similar to any other document.
    let mut documents = vec![0u32; terms];
    for &term in rows.indices() {
        documents[term as usize] += 1;
    }
    let common: Vec<bool> = documents.into_iter().map(|documents| documents > 1).collect();
    let mut logarithms = vec![0.0f32; terms];
    let count = (examples.len() / MIN_BATCH).clamp(1, MAX_BATCHES);
    let overlaps = threads.run(|| Overlaps::new(rows, examples));
    let batches: Vec<Vec<usize>> =
        (0..count).map(|first| (first..examples.len()).step_by(count).collect()).collect();
    let mut moments = vec![[0.0f32; 2]; terms];
    let mut decayed = [1.0f32; 2];
    let chunks = (MAX_GRADIENTS / (2 * terms + rows.rows()).max(1)).clamp(1, MAX_CHUNKS);
    let mut learned = Vec::new();
    let mut steps = 0u32;
    for &checkpoint in checkpoints {
        while steps < checkpoint {
            let batch = &batches[steps as usize % count];
            let penalty = PENALTY * batch.len() as f32;
            steps += 1;
            decayed = [decayed[0] * DECAYS[0], decayed[1] * DECAYS[1]];
            threads.run(|| {
                let factors = factors(&logarithms);
                let gradients = ScaledRows::new(rows, &factors).gradients(&overlaps, batch, chunks);
                let moved = logarithms.par_chunks_mut(CHUNK).zip(moments.par_chunks_mut(CHUNK));
                moved.enumerate().for_each(|(chunk, (logarithms, moments))| {
                    let terms = chunk * CHUNK..;
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

/// Rows with factors applied, scaled to length 1. The value of a term is the product of its weight,
/// its factor and the scale of the row.
struct ScaledRows<'r> {
    rows: &'r CsrView<'r>,
    factors: &'r [f32],
    scales: Vec<f32>,
}

impl<'r> ScaledRows<'r> {
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

    /// Returns the derivative of the loss of the examples in `batch` with respect to the logarithm
    /// of each term's factor. The derivative is the sum of the returned vectors, of which there are
    /// at most two per chunk.
    ///
    /// Let x be the rows, and s the similarity of two rows i and j. The derivative of s with
    /// respect to the logarithm of term t's factor is 2 x(i, t) x(j, t) − s (x(i, t)² + x(j, t)²).
    /// The first summand needs only the terms that both rows have. For the second, s is summed for
    /// each row, and the squares are added at the end.
    fn gradients(&self, examples: &Overlaps<'_>, batch: &[usize], chunks: usize) -> Vec<Vec<f32>> {
        let chunk_len = batch.len().div_ceil(chunks).max(1);
        let slopes: Vec<Slopes> =
            batch.par_chunks(chunk_len).map(|chunk| self.slopes(examples, chunk)).collect();
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
        gradients.par_extend(rows.par_chunks(rows.len().div_ceil(chunks).max(1)).map(squares));
        gradients
    }

    /// Returns the contribution of the examples in `batch` to the derivatives.
    fn slopes(&self, examples: &Overlaps<'_>, batch: &[usize]) -> Slopes {
        let mut by_term = vec![0.0f32; self.rows.cols()];
        let mut by_row = vec![0.0f32; self.rows.rows()];
        let mut builder = overlap::Builder::default();
        // One value per neighbor.
        let mut similarities = Vec::new();
        let mut votes = Vec::new();
        let mut pulls = Vec::new();
        for &index in batch {
            let (TrainingExample { row, neighbors }, overlap) = examples.get(index, &mut builder);
            let scales = neighbors.iter().map(|other| self.scales[other.row as usize]);
            let own_scale = self.scales[*row as usize];
            let squares = |term: u32| self.factors[term as usize] * self.factors[term as usize];
            overlap.products(squares, neighbors.len(), &mut similarities);
            for (similarity, scale) in similarities.iter_mut().zip(scales) {
                *similarity *= own_scale * scale;
            }
            let max = similarities.iter().copied().fold(0.0, f32::max);
            let vote = |similarity: &f32| libm::expf(SHARPNESS * (similarity - max));
            votes.clear();
            votes.extend(similarities.iter().map(vote));
            let total: f32 = votes.iter().sum();
            let right = votes.iter().zip(neighbors).map(|(vote, other)| vote * other.agreement);
            let share = right.sum::<f32>() / total;
            if share > 0.0 {
                let mut own = 0.0;
                pulls.clear();
                for ((vote, similarity), other) in votes.iter().zip(&similarities).zip(neighbors) {
                    let slope = SHARPNESS * vote / total * (1.0 - other.agreement / share);
                    by_row[other.row as usize] += slope * similarity;
                    own += slope * similarity;
                    pulls.push(slope * self.scales[other.row as usize]);
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

/// Contributions to the derivatives of the loss.
struct Slopes {
    /// The derivative with respect to the logarithm of each term's factor, over the terms that two
    /// rows share.
    by_term: Vec<f32>,
    /// For each row, the coefficient of its squared values, which are subtracted.
    by_row: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::example::LabeledNeighbor;
    use super::*;
    use crate::random::Random;
    use crate::rows::matrix::CsrBuilder;

    /// Returns rows with six of 20 terms each, and one example per row about the other rows.
    pub(super) fn made() -> (Csr, Vec<TrainingExample>) {
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
        let examples = (0..12).map(|row| TrainingExample {
            row,
            neighbors: (0..12)
                .filter(|&other| other != row)
                .map(|other| LabeledNeighbor {
                    row: other,
                    agreement: [0.0, 0.5, 1.0][((row + other) % 3) as usize],
                })
                .collect(),
        });
        (rows.build(20), examples.collect())
    }

    /// Computes the loss by a simple, slow method.
    fn loss(rows: &Csr, examples: &[TrainingExample], logarithms: &[f64]) -> f64 {
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
        let of = |TrainingExample { row, neighbors }: &TrainingExample| {
            let own = unit(*row);
            let mut total = 0.0;
            let mut right = 0.0;
            for other in neighbors {
                let similarity: f64 = own.iter().zip(unit(other.row)).map(|(a, b)| a * b).sum();
                let vote = libm::exp(f64::from(SHARPNESS) * similarity);
                total += vote;
                right += vote * f64::from(other.agreement);
            }
            -libm::log(right / total)
        };
        examples.iter().map(of).sum()
    }

    #[test]
    fn gradient_is_the_derivative_of_the_loss() {
        let (rows, examples) = made();
        let single: Vec<f32> = (0..20u8).map(|term| f32::from(term % 5) / 10.0).collect();
        let logarithms: Vec<f64> = single.iter().copied().map(f64::from).collect();
        let rows_view = rows.view();
        let factors = factors(&single);
        let batch: Vec<usize> = (0..examples.len()).collect();
        let overlaps = Overlaps::new(&rows_view, &examples);
        let parts = ScaledRows::new(&rows_view, &factors).gradients(&overlaps, &batch, 3);
        let found: Vec<f32> =
            (0..20).map(|term| parts.iter().map(|part| part[term]).sum()).collect();
        for term in 0..20 {
            let at = |step: f64| {
                let mut moved = logarithms.clone();
                moved[term] += step;
                loss(&rows, &examples, &moved)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            let difference = (f64::from(found[term]) - expected).abs();
            assert!(difference < 1e-3, "{term}: {} and {expected}", found[term]);
        }
    }

    #[test]
    fn steps_lower_the_loss_on_any_threads() {
        let (rows, examples) = made();
        let learned = |count: usize| {
            let threads = Threads::new(NonZeroUsize::new(count).unwrap()).unwrap();
            descend(&rows.view(), &examples, &[2, 5], &threads)
        };
        let found = learned(1);
        assert_eq!(found, learned(3));
        let loss_of = |factors: &[f32]| {
            let logarithms: Vec<f64> = factors.iter().map(|&f| libm::log(f64::from(f))).collect();
            loss(&rows, &examples, &logarithms)
        };
        let losses = [loss_of(&[1.0; 20]), loss_of(&found[0]), loss_of(&found[1])];
        assert!(losses[0] > losses[1] && losses[1] > losses[2], "{losses:?}");
    }
}
