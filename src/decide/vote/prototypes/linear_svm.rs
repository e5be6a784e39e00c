//! Linear support vector machines of several labels, trained simultaneously by dual coordinate
//! descent (Hsieh, Chang, Lin, Keerthi and Sundararajan 2008).

use std::cmp::Reverse;

use multiversion::multiversion;

use crate::decide::vote::TrainingLabels;
use crate::random::Random;
use crate::rows::matrix::{CsrView, prefetch, row};

/// Minimum absolute weight to keep.
const MIN_WEIGHT: f32 = 0.005;
/// Maximum difference between the gradients of a label at which coordinate descent stops.
const TOLERANCE: f32 = 0.1;
/// Tolerance after a warm start, which is already close to the optimum.
const WARM_TOLERANCE: f32 = 0.5;
/// Maximum number of rounds of coordinate descent.
const MAX_ROUNDS: usize = 100;
/// Maximum number of consecutive rounds in which an unchanged document is skipped.
const MAX_SKIPPED_ROUNDS: usize = 6;
/// Distance, in documents, at which entries are prefetched.
const ENTRY_PREFETCH_DISTANCE: usize = 6;
/// Distance, in documents, at which the weights of terms are prefetched.
const WEIGHT_PREFETCH_DISTANCE: usize = 3;

/// The hyperplane that separates the documents with a label from the others.
pub(super) struct Hyperplane {
    /// Terms and their weights, by increasing term.
    pub(super) weights: Vec<(u32, f32)>,
    pub(super) constant: f32,
}

/// The dual variables of trained SVMs, from which training can continue with more documents.
#[derive(Debug)]
pub(crate) struct WarmStart {
    rows: usize,
    /// The variables by label, then by document; 0 for documents not used in training.
    alphas: Vec<f32>,
}

impl WarmStart {
    pub(super) fn new(rows: usize, labels: usize) -> Self {
        Self { rows, alphas: vec![0.0; rows * labels] }
    }

    /// Sets the variables of some labels for the documents with the given row numbers.
    pub(super) fn set(&mut self, labels: &[u32], numbers: &[u32], alphas: &[Lanes]) {
        for (&row, lanes) in numbers.iter().zip(alphas) {
            for (&label, &alpha) in labels.iter().zip(lanes) {
                self.alphas[label as usize * self.rows + row as usize] = alpha;
            }
        }
    }

    /// Returns the variables of some labels for a document.
    fn of(&self, labels: &[u32], row: u32) -> Lanes {
        let mut lanes = [0.0; LANES];
        for (lane, &label) in lanes.iter_mut().zip(labels) {
            let index = label as usize * self.rows + row as usize;
            *lane = self.alphas.get(index).copied().unwrap_or_default();
        }
        lanes
    }
}

/// The documents on which SVMs are trained.
pub(super) struct SvmDocuments {
    /// The row number of each document.
    pub(super) numbers: Vec<u32>,
    /// The entries of document `i` are `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    /// Entries: the position of a term in `terms`, and its value.
    entries: Vec<(u32, f32)>,
    /// The squared length of each document, plus 1 for the constant.
    squares: Vec<f32>,
    /// The terms of the documents. Frequent terms come first, so that their weights are adjacent
    /// and stay in cache.
    terms: Vec<u32>,
}

impl SvmDocuments {
    pub(super) fn new(rows: &CsrView<'_>, numbers: Vec<u32>) -> Self {
        let mut starts = vec![0];
        let mut squares = Vec::new();
        let mut entries = Vec::new();
        let mut counts = vec![0u32; rows.cols()];
        for &number in &numbers {
            let (terms, values) = row(rows, number as usize);
            for &term in terms {
                counts[term as usize] += 1;
            }
            entries.extend(terms.iter().copied().zip(values.iter().copied()));
            starts.push(entries.len());
            squares.push(1.0 + values.iter().map(|value| value * value).sum::<f32>());
        }
        let known = (0u32..).zip(&counts).filter(|&(_, &count)| count > 0);
        let mut terms: Vec<u32> = known.map(|(term, _)| term).collect();
        terms.sort_by_key(|&term| Reverse(counts[term as usize]));
        let mut positions = counts;
        for (position, &term) in (0u32..).zip(&terms) {
            positions[term as usize] = position;
        }
        for (term, _) in &mut entries {
            *term = positions[*term as usize];
        }
        Self { numbers, starts, entries, squares, terms }
    }

    fn of(&self, document: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[document]..self.starts[document + 1]]
    }
}

/// Number of labels whose SVMs are trained simultaneously. Each document is read once for all
/// labels, and their weights for a term are adjacent.
pub(super) const LANES: usize = 8;

/// One number per simultaneously trained label.
pub(super) type Lanes = [f32; LANES];

/// The linear SVMs of some labels.
pub(super) struct LinearSvms<'t> {
    documents: &'t SvmDocuments,
    /// The labels, at most [`LANES`].
    labels: &'t [u32],
    /// For each document, 1 if it has the label, −1 otherwise.
    sides: Vec<Lanes>,
    /// For each document, 1 / (2 C) divided by the document's weight.
    diagonal: Vec<f32>,
}

impl<'t> LinearSvms<'t> {
    pub(super) fn new(
        documents: &'t SvmDocuments,
        training: &TrainingLabels<'_>,
        labels: &'t [u32],
        cost: f32,
    ) -> Self {
        let sides = |&row: &u32| {
            let mut sides = [-1.0; LANES];
            for (side, label) in sides.iter_mut().zip(labels) {
                if training.labels(row).binary_search(label).is_ok() {
                    *side = 1.0;
                }
            }
            sides
        };
        let diagonal = |&row: &u32| 0.5 / (cost * training.weights[row as usize]);
        Self {
            documents,
            labels,
            sides: documents.numbers.iter().map(sides).collect(),
            diagonal: documents.numbers.iter().map(diagonal).collect(),
        }
    }

    /// Trains the SVMs. Returns the hyperplane of each label, without weights near 0, and the dual
    /// variables of each document.
    pub(super) fn train(&self, start: Option<&WarmStart>) -> (Vec<Hyperplane>, Vec<Lanes>) {
        let alphas = |&row: &u32| start.map_or([0.0; LANES], |start| start.of(self.labels, row));
        let mut alphas: Vec<Lanes> = self.documents.numbers.iter().map(alphas).collect();
        let tolerance = if start.is_some() { WARM_TOLERANCE } else { TOLERANCE };
        let (weights, constants) = descend(self, &mut alphas, tolerance);
        let hyperplane = |lane: usize| {
            let terms = self.documents.terms.iter().copied();
            let of_lane = terms.zip(weights.iter().map(|lanes| lanes[lane]));
            let kept = of_lane.filter(|(_, weight)| weight.abs() >= MIN_WEIGHT);
            let mut weights: Vec<(u32, f32)> = kept.collect();
            weights.sort_unstable_by_key(|&(term, _)| term);
            Hyperplane { weights, constant: constants[lane] }
        };
        ((0..self.labels.len()).map(hyperplane).collect(), alphas)
    }
}

/// Returns `lanes` plus `factor` times `others`.
#[expect(clippy::inline_always, reason = "compiled for the instructions of its caller")]
#[inline(always)]
fn plus(mut lanes: Lanes, others: &Lanes, factor: f32) -> Lanes {
    for (lane, other) in lanes.iter_mut().zip(others) {
        *lane += other * factor;
    }
    lanes
}

/// Returns the product of a row and the weights of each SVM, plus the constants. Two sums
/// alternate, so that an addition does not wait for the previous one.
#[expect(clippy::inline_always, reason = "compiled for the instructions of its caller")]
#[inline(always)]
fn sums(entries: &[(u32, f32)], weights: &[Lanes], constants: Lanes) -> Lanes {
    let (pairs, last) = entries.as_chunks::<2>();
    let mut even = constants;
    let mut odd = [0.0; LANES];
    for &[(first, first_value), (second, second_value)] in pairs {
        even = plus(even, &weights[first as usize], first_value);
        odd = plus(odd, &weights[second as usize], second_value);
    }
    for &(term, value) in last {
        even = plus(even, &weights[term as usize], value);
    }
    plus(even, &odd, 1.0)
}

/// Runs dual coordinate descent for all SVMs, starting at `alphas`, until the gradients of each
/// label differ by at most `tolerance`. Returns the weights of each term, and the constants. A
/// document whose variables do not change is skipped until the active documents meet the tolerance,
/// or for [`MAX_SKIPPED_ROUNDS`] rounds.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn descend(svms: &LinearSvms<'_>, alphas: &mut [Lanes], tolerance: f32) -> (Vec<Lanes>, Lanes) {
    let LinearSvms { documents, labels, sides, diagonal } = svms;
    let mut weights = vec![[0.0f32; LANES]; documents.terms.len()];
    let mut constants = [0.0f32; LANES];
    for (document, (alphas, sides)) in alphas.iter().zip(sides).enumerate() {
        if alphas.iter().any(|&alpha| alpha > 0.0) {
            let steps = std::array::from_fn(|lane| alphas[lane] * sides[lane]);
            for &(term, value) in documents.of(document) {
                let weights = &mut weights[term as usize];
                *weights = plus(*weights, &steps, value);
            }
            constants = plus(constants, &steps, 1.0);
        }
    }
    // The first `active` documents of `order` are not skipped.
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let mut active = order.len();
    let mut random = Random::new(u64::from(labels[0]));
    let mut trained: [bool; LANES] = std::array::from_fn(|lane| lane < labels.len());
    let mut partial_rounds = 0;
    for _ in 0..MAX_ROUNDS {
        let is_full_round = active == order.len();
        let mut max_slopes = [f32::NEG_INFINITY; LANES];
        let mut min_slopes = [f32::INFINITY; LANES];
        for index in (1..active).rev() {
            order.swap(index, random.below(index + 1));
        }
        let mut next = 0;
        while next < active {
            let document = order[next];
            if let Some(&later) = order[..active].get(next + ENTRY_PREFETCH_DISTANCE) {
                let entries = documents.of(later);
                (0..entries.len()).step_by(8).for_each(|line| prefetch(entries, line));
                prefetch(sides, later);
                prefetch(alphas, later);
            }
            if let Some(&later) = order[..active].get(next + WEIGHT_PREFETCH_DISTANCE) {
                documents.of(later).iter().for_each(|&(term, _)| prefetch(&weights, term as usize));
            }
            let entries = documents.of(document);
            let sums = sums(entries, &weights, constants);
            let square = documents.squares[document];
            let diagonal = diagonal[document];
            let sides = &sides[document];
            let alphas = &mut alphas[document];
            let mut steps = [0.0f32; LANES];
            let mut is_changed = false;
            for lane in 0..LANES {
                let side = sides[lane];
                let alpha = alphas[lane];
                let slope = side * sums[lane] - 1.0 + alpha * diagonal;
                let projected = if alpha <= 0.0 { slope.min(0.0) } else { slope };
                max_slopes[lane] = max_slopes[lane].max(projected);
                min_slopes[lane] = min_slopes[lane].min(projected);
                let is_fixed = !trained[lane] || projected.abs() <= 1e-12;
                let new_alpha = (alpha - slope / (square + diagonal)).max(0.0);
                let new_alpha = if is_fixed { alpha } else { new_alpha };
                steps[lane] = (new_alpha - alpha) * side;
                alphas[lane] = new_alpha;
                is_changed |= steps[lane] != 0.0;
            }
            if is_changed {
                for &(term, value) in entries {
                    let weights = &mut weights[term as usize];
                    *weights = plus(*weights, &steps, value);
                }
                constants = plus(constants, &steps, 1.0);
                next += 1;
            } else {
                active -= 1;
                order.swap(next, active);
            }
        }
        let is_converged =
            |lane: usize| !trained[lane] || max_slopes[lane] - min_slopes[lane] <= tolerance;
        let all_converged = (0..LANES).all(is_converged);
        if is_full_round {
            if all_converged {
                break;
            }
            trained = std::array::from_fn(|lane| !is_converged(lane));
        }
        partial_rounds = if is_full_round { 0 } else { partial_rounds + 1 };
        if all_converged || partial_rounds >= MAX_SKIPPED_ROUNDS {
            active = order.len();
        }
    }
    (weights, constants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::matrix::CsrBuilder;

    /// Every document meets the tolerance at the end of the descent, even if it was skipped before.
    #[test]
    fn skipped_documents_meet_the_tolerance() {
        const ROWS: u32 = 600;
        let mut random = Random::new(8);
        let mut number = |limit: usize| u32::try_from(random.below(limit)).unwrap();
        let mut rows = CsrBuilder::default();
        let mut of = Vec::new();
        for _ in 0..ROWS {
            let label = number(10);
            let label_terms = (0..3).map(|_| label * 4 + number(6));
            let mut terms: Vec<u32> = label_terms.collect();
            terms.extend((0..5).map(|_| number(46)));
            terms.sort_unstable();
            terms.dedup();
            let weight = 1.0 / (terms.len() as f32).sqrt();
            rows.push_row(terms.into_iter().map(|term| (term, weight)));
            of.push(label);
        }
        let rows = rows.build(46);
        let indptr: Vec<u64> = (0..=u64::from(ROWS)).collect();
        let training = TrainingLabels {
            indptr: &indptr,
            indices: &of,
            weights: &vec![1.0; of.len()],
            sizes: &[60; 10],
        };
        let documents = SvmDocuments::new(&rows.view(), (0..ROWS).collect());
        for labels in [[0, 1, 2, 3, 4, 5, 6, 7].as_slice(), &[8, 9]] {
            let svms = LinearSvms::new(&documents, &training, labels, 4.0);
            let (planes, alphas) = svms.train(None);
            for (lane, (plane, label)) in planes.iter().zip(labels).enumerate() {
                let mut weights = [0.0; 46];
                plane.weights.iter().for_each(|&(term, weight)| weights[term as usize] = weight);
                for (document, document_label) in of.iter().enumerate() {
                    let view = rows.view();
                    let (terms, values) = row(&view, document);
                    let products = terms.iter().zip(values).map(|(&t, v)| weights[t as usize] * v);
                    let margin = products.sum::<f32>() + plane.constant;
                    let side = if document_label == label { 1.0 } else { -1.0 };
                    let alpha = alphas[document][lane];
                    let slope = side * margin - 1.0 + alpha * svms.diagonal[document];
                    let violation = if alpha > 0.0 { slope.abs() } else { -slope };
                    assert!(
                        violation < 2.0 * TOLERANCE,
                        "label {label}, document {document}: {violation}"
                    );
                }
            }
        }
    }
}
