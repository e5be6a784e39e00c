//! Linear support vector machines for several labels, trained simultaneously by dual coordinate
//! descent (Hsieh, Chang, Lin, Keerthi and Sundararajan 2008).

use std::cmp::Reverse;

use multiversion::multiversion;

use crate::decide::vote::TrainingLabels;
use crate::random::Random;
use crate::rows::matrix::{CsrView, prefetch, row};

/// Minimum absolute value of a weight in a trained hyperplane.
const MIN_WEIGHT: f32 = 0.005;
/// Coordinate descent stops when the projected gradients of each label differ by at most this
/// value.
const TOLERANCE: f32 = 0.1;
/// Tolerance for a warm start, which begins close to the optimum.
const WARM_TOLERANCE: f32 = 0.5;
/// Maximum number of epochs of coordinate descent.
const MAX_EPOCHS: usize = 100;
/// Maximum number of consecutive epochs that skip inactive documents.
const MAX_PARTIAL_EPOCHS: usize = 6;
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
    /// For each row, the index of its document; `None` if it was not used in training.
    document_of: Vec<Option<u32>>,
    /// For each label, the index of its SVM; `None` if it was not trained.
    svm_of: Vec<Option<u32>>,
    /// The variables of each document, for each group of [`LANES`] SVMs.
    alphas: Vec<Vec<Lanes>>,
}

impl WarmStart {
    /// `svms` and `documents` are the labels and the row numbers in the order of `alphas`.
    pub(super) fn new(
        training: &TrainingLabels<'_>,
        svms: &[u32],
        documents: &[u32],
        alphas: Vec<Vec<Lanes>>,
    ) -> Self {
        let index_of = |numbers: &[u32], count: usize| {
            let mut indices = vec![None; count];
            for (index, &number) in (0..).zip(numbers) {
                indices[number as usize] = Some(index);
            }
            indices
        };
        Self {
            document_of: index_of(documents, training.weights.len()),
            svm_of: index_of(svms, training.sizes.len()),
            alphas,
        }
    }

    /// Returns the variables of some labels for a document.
    fn alphas_of(&self, labels: &[u32], row: u32) -> Lanes {
        let mut lanes = [0.0; LANES];
        let Some(document) = self.document_of[row as usize] else { return lanes };
        for (lane, &label) in lanes.iter_mut().zip(labels) {
            if let Some(svm) = self.svm_of[label as usize] {
                let svm = svm as usize;
                *lane = self.alphas[svm / LANES][document as usize][svm % LANES];
            }
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
    /// The entries: the position of a term in `terms`, and its value.
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
        let used = (0u32..).zip(&counts).filter(|&(_, &count)| count > 0);
        let mut terms: Vec<u32> = used.map(|(term, _)| term).collect();
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

    /// Returns the entries of a document.
    fn entries_of(&self, document: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[document]..self.starts[document + 1]]
    }
}

/// Number of labels whose SVMs are trained simultaneously. Each document is read once for all
/// labels, and the weights of a term are adjacent.
pub(super) const LANES: usize = 8;

/// One value per simultaneously trained label.
pub(super) type Lanes = [f32; LANES];

/// The linear SVMs of some labels.
pub(super) struct LinearSvms<'t> {
    documents: &'t SvmDocuments,
    /// The labels, at most [`LANES`].
    labels: &'t [u32],
    /// For each document, 1 if it has the label, −1 otherwise.
    signs: Vec<Lanes>,
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
        let signs = |&row: &u32| {
            let mut signs = [-1.0; LANES];
            for (sign, label) in signs.iter_mut().zip(labels) {
                if training.labels(row).binary_search(label).is_ok() {
                    *sign = 1.0;
                }
            }
            signs
        };
        let diagonal = |&row: &u32| 0.5 / (cost * training.weights[row as usize]);
        Self {
            documents,
            labels,
            signs: documents.numbers.iter().map(signs).collect(),
            diagonal: documents.numbers.iter().map(diagonal).collect(),
        }
    }

    /// Trains the SVMs. Returns the hyperplane of each label, without weights near 0, and the dual
    /// variables of each document.
    pub(super) fn train(&self, start: Option<&WarmStart>) -> (Vec<Hyperplane>, Vec<Lanes>) {
        let alphas =
            |&row: &u32| start.map_or([0.0; LANES], |start| start.alphas_of(self.labels, row));
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

/// Returns `lanes + factor * others`.
#[expect(clippy::inline_always, reason = "compiled with the target features of its caller")]
#[inline(always)]
fn add_scaled(mut lanes: Lanes, others: &Lanes, factor: f32) -> Lanes {
    for (lane, other) in lanes.iter_mut().zip(others) {
        *lane += other * factor;
    }
    lanes
}

/// Returns the decision value of each SVM for a document. Two alternating sums make consecutive
/// additions independent.
#[expect(clippy::inline_always, reason = "compiled with the target features of its caller")]
#[inline(always)]
fn decision_values(entries: &[(u32, f32)], weights: &[Lanes], constants: Lanes) -> Lanes {
    let (pairs, last) = entries.as_chunks::<2>();
    let mut even = constants;
    let mut odd = [0.0; LANES];
    for &[(first, first_value), (second, second_value)] in pairs {
        even = add_scaled(even, &weights[first as usize], first_value);
        odd = add_scaled(odd, &weights[second as usize], second_value);
    }
    for &(term, value) in last {
        even = add_scaled(even, &weights[term as usize], value);
    }
    add_scaled(even, &odd, 1.0)
}

/// Runs dual coordinate descent for all SVMs, starting at `alphas`, until the projected gradients
/// of each label differ by at most `tolerance`. Returns the weights of each term and the constants.
///
/// A document becomes inactive when its variables do not change. It is skipped until the other
/// documents converge, or for [`MAX_PARTIAL_EPOCHS`] epochs.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn descend(svms: &LinearSvms<'_>, alphas: &mut [Lanes], tolerance: f32) -> (Vec<Lanes>, Lanes) {
    let LinearSvms { documents, labels, signs, diagonal } = svms;
    let mut weights = vec![[0.0f32; LANES]; documents.terms.len()];
    let mut constants = [0.0f32; LANES];
    for (document, (alphas, signs)) in alphas.iter().zip(signs).enumerate() {
        if alphas.iter().any(|&alpha| alpha > 0.0) {
            let change = std::array::from_fn(|lane| alphas[lane] * signs[lane]);
            for &(term, value) in documents.entries_of(document) {
                let weights = &mut weights[term as usize];
                *weights = add_scaled(*weights, &change, value);
            }
            constants = add_scaled(constants, &change, 1.0);
        }
    }
    // The first `active_count` documents are active.
    let mut order: Vec<usize> = (0..signs.len()).collect();
    let mut active_count = order.len();
    let mut random = Random::new(u64::from(labels[0]));
    let mut is_trained: [bool; LANES] = std::array::from_fn(|lane| lane < labels.len());
    let mut partial_epochs = 0;
    for _ in 0..MAX_EPOCHS {
        let is_full_epoch = active_count == order.len();
        let mut max_gradients = [f32::NEG_INFINITY; LANES];
        let mut min_gradients = [f32::INFINITY; LANES];
        for last in (1..active_count).rev() {
            order.swap(last, random.below(last + 1));
        }
        let mut next = 0;
        while next < active_count {
            let document = order[next];
            if let Some(&upcoming) = order[..active_count].get(next + ENTRY_PREFETCH_DISTANCE) {
                let entries = documents.entries_of(upcoming);
                (0..entries.len()).step_by(8).for_each(|entry| prefetch(entries, entry));
                prefetch(signs, upcoming);
                prefetch(alphas, upcoming);
            }
            if let Some(&upcoming) = order[..active_count].get(next + WEIGHT_PREFETCH_DISTANCE) {
                documents
                    .entries_of(upcoming)
                    .iter()
                    .for_each(|&(term, _)| prefetch(&weights, term as usize));
            }
            let entries = documents.entries_of(document);
            let values = decision_values(entries, &weights, constants);
            let square = documents.squares[document];
            let diagonal = diagonal[document];
            let signs = &signs[document];
            let alphas = &mut alphas[document];
            let mut change = [0.0f32; LANES];
            let mut has_changed = false;
            for lane in 0..LANES {
                let sign = signs[lane];
                let alpha = alphas[lane];
                let gradient = sign * values[lane] - 1.0 + alpha * diagonal;
                let projected = if alpha <= 0.0 { gradient.min(0.0) } else { gradient };
                max_gradients[lane] = max_gradients[lane].max(projected);
                min_gradients[lane] = min_gradients[lane].min(projected);
                let is_unchanged = !is_trained[lane] || projected.abs() <= 1e-12;
                let new_alpha = (alpha - gradient / (square + diagonal)).max(0.0);
                let new_alpha = if is_unchanged { alpha } else { new_alpha };
                change[lane] = (new_alpha - alpha) * sign;
                alphas[lane] = new_alpha;
                has_changed |= change[lane] != 0.0;
            }
            if has_changed {
                for &(term, value) in entries {
                    let weights = &mut weights[term as usize];
                    *weights = add_scaled(*weights, &change, value);
                }
                constants = add_scaled(constants, &change, 1.0);
                next += 1;
            } else {
                active_count -= 1;
                order.swap(next, active_count);
            }
        }
        let has_converged = |lane: usize| {
            !is_trained[lane] || max_gradients[lane] - min_gradients[lane] <= tolerance
        };
        let all_converged = (0..LANES).all(has_converged);
        if is_full_epoch {
            if all_converged {
                break;
            }
            is_trained = std::array::from_fn(|lane| !has_converged(lane));
        }
        partial_epochs = if is_full_epoch { 0 } else { partial_epochs + 1 };
        if all_converged || partial_epochs >= MAX_PARTIAL_EPOCHS {
            active_count = order.len();
        }
    }
    (weights, constants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::matrix::CsrBuilder;

    /// After training, all documents satisfy the optimality conditions, including documents that
    /// were skipped.
    #[test]
    fn skipped_documents_converge() {
        const ROWS: u32 = 600;
        let mut random = Random::new(8);
        let mut number = |limit: usize| u32::try_from(random.below(limit)).unwrap();
        let mut rows = CsrBuilder::default();
        let mut document_labels = Vec::new();
        for _ in 0..ROWS {
            let label = number(10);
            let label_terms = (0..3).map(|_| label * 4 + number(6));
            let mut terms: Vec<u32> = label_terms.collect();
            terms.extend((0..5).map(|_| number(46)));
            terms.sort_unstable();
            terms.dedup();
            let weight = 1.0 / (terms.len() as f32).sqrt();
            rows.push_row(terms.into_iter().map(|term| (term, weight)));
            document_labels.push(label);
        }
        let rows = rows.build(46);
        let indptr: Vec<u64> = (0..=u64::from(ROWS)).collect();
        let training = TrainingLabels {
            indptr: &indptr,
            indices: &document_labels,
            weights: &vec![1.0; document_labels.len()],
            sizes: &[60; 10],
        };
        let documents = SvmDocuments::new(&rows.view(), (0..ROWS).collect());
        for labels in [[0, 1, 2, 3, 4, 5, 6, 7].as_slice(), &[8, 9]] {
            let svms = LinearSvms::new(&documents, &training, labels, 4.0);
            let (hyperplanes, alphas) = svms.train(None);
            for (lane, (hyperplane, label)) in hyperplanes.iter().zip(labels).enumerate() {
                let mut weights = [0.0; 46];
                hyperplane
                    .weights
                    .iter()
                    .for_each(|&(term, weight)| weights[term as usize] = weight);
                for (document, document_label) in document_labels.iter().enumerate() {
                    let view = rows.view();
                    let (terms, values) = row(&view, document);
                    let products = terms.iter().zip(values).map(|(&t, v)| weights[t as usize] * v);
                    let margin = products.sum::<f32>() + hyperplane.constant;
                    let sign = if document_label == label { 1.0 } else { -1.0 };
                    let alpha = alphas[document][lane];
                    let gradient = sign * margin - 1.0 + alpha * svms.diagonal[document];
                    let violation = if alpha > 0.0 { gradient.abs() } else { -gradient };
                    assert!(
                        violation < 2.0 * TOLERANCE,
                        "label {label}, document {document}: {violation}"
                    );
                }
            }
        }
    }
}
