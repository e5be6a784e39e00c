//! Learning label prototypes from the rows of training documents.

use rayon::prelude::*;

use super::linear_svm::{Hyperplane, LANES, Lanes, LinearSvms, SvmDocuments, WarmStart};
use super::{PrototypeLearning, Prototypes};
use crate::decide::vote::TrainingLabels;
use crate::rows::matrix::{CsrView, row};
use crate::threads::Threads;

/// A trainer of label prototypes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrototypeTrainer<'a> {
    /// The training rows.
    pub(crate) rows: &'a CsrView<'a>,
    /// The labels and weights of the rows.
    pub(crate) labels: &'a TrainingLabels<'a>,
    pub(crate) learning: PrototypeLearning,
    pub(crate) threads: &'a Threads,
}

impl PrototypeTrainer<'_> {
    /// Learns from the labeled rows for which `is_selected` returns true.
    pub(crate) fn learn(&self, is_selected: impl Fn(u32) -> bool) -> Prototypes {
        let documents = self.documents(is_selected);
        let svms = self.train(&documents, false);
        self.prototypes(svms.hyperplanes)
    }

    /// Like [`learn`](Self::learn), but also returns a warm start for
    /// [`margins`](Self::margins).
    pub(crate) fn learn_with_warm_start(
        &self,
        is_selected: impl Fn(u32) -> bool,
    ) -> (Prototypes, WarmStart) {
        let documents = self.documents(is_selected);
        let svms = self.train(&documents, true);
        let start = WarmStart::new(self.labels, &svms.labels, &documents.numbers, svms.alphas);
        (self.prototypes(svms.hyperplanes), start)
    }

    /// Learns from the labeled rows for which `is_selected` returns true, and returns the margins
    /// of all labels for some rows of `queries`, row by row; infinity for a label without a
    /// prototype.
    /// The margins are those of [`Prototypes::margins`], but only the hyperplanes of a few labels
    /// are in memory at a time.
    ///
    /// A warm start takes fewer epochs. It must have been learned with the same cost from a subset
    /// of these documents. The result is then as close to the optimum, but not identical.
    pub(crate) fn margins(
        &self,
        start: Option<&WarmStart>,
        is_selected: impl Fn(u32) -> bool,
        queries: &CsrView<'_>,
        rows: &[u32],
    ) -> Vec<f32> {
        let documents = self.documents(is_selected);
        let labels = self.separable_labels(&documents);
        let of_labels = |labels: &[u32]| {
            let svms = LinearSvms::new(&documents, self.labels, labels, self.learning.cost);
            let (hyperplanes, _) = svms.train(start);
            let mut constants = [0.0; LANES];
            let mut weights = vec![[0.0; LANES]; queries.cols()];
            for (lane, plane) in hyperplanes.iter().enumerate() {
                constants[lane] = plane.constant;
                for &(term, weight) in &plane.weights {
                    weights[term as usize][lane] = weight;
                }
            }
            let margins = |&index: &u32| {
                let mut margins: Lanes = constants;
                let (terms, values) = row(queries, index as usize);
                for (&term, &value) in terms.iter().zip(values) {
                    for (margin, weight) in margins.iter_mut().zip(&weights[term as usize]) {
                        *margin += value * weight;
                    }
                }
                margins
            };
            rows.iter().map(margins).collect::<Vec<Lanes>>()
        };
        let blocks: Vec<Vec<Lanes>> =
            self.threads.run(|| labels.par_chunks(LANES).map(of_labels).collect());
        let count = self.labels.sizes.len();
        let mut margins = vec![f32::INFINITY; rows.len() * count];
        for (labels, block) in labels.chunks(LANES).zip(blocks) {
            for (margins, lanes) in margins.chunks_mut(count).zip(block) {
                for (&label, margin) in labels.iter().zip(lanes) {
                    margins[label as usize] = margin;
                }
            }
        }
        margins
    }

    /// Selects the documents to learn from, in an order that depends only on their content. This
    /// makes the prototypes independent of the order of the rows.
    fn documents(&self, is_selected: impl Fn(u32) -> bool) -> SvmDocuments {
        let Self { rows, labels, .. } = *self;
        let count = u32::try_from(rows.rows()).expect("fewer than 2^32 rows");
        let mut numbers: Vec<u32> = (0..count)
            .filter(|&row| is_selected(row) && !labels.labels(row).is_empty())
            .filter(|&row| labels.weights[row as usize] > 0.0)
            .collect();
        let content = |number: u32| {
            let (terms, weights) = row(rows, number as usize);
            (terms, weights.iter().map(|weight| weight.to_bits()), labels.labels(number))
        };
        numbers.sort_by(|&a, &b| {
            let (a_terms, a_weights, a_labels) = content(a);
            let (b_terms, b_weights, b_labels) = content(b);
            let rows = a_terms.cmp(b_terms).then_with(|| a_weights.cmp(b_weights));
            let weights = [a, b].map(|row| labels.weights[row as usize]);
            rows.then(a_labels.cmp(b_labels)).then(weights[0].total_cmp(&weights[1]))
        });
        SvmDocuments::new(rows, numbers)
    }

    /// Returns the labels that some of the documents have and others lack.
    fn separable_labels(&self, documents: &SvmDocuments) -> Vec<u32> {
        let mut sizes = vec![0usize; self.labels.sizes.len()];
        for &label in documents.numbers.iter().flat_map(|&row| self.labels.labels(row)) {
            sizes[label as usize] += 1;
        }
        // If all documents or none have a label, there is nothing to separate.
        let total = documents.numbers.len();
        let has_both_sides = |&(_, &count): &(u32, &usize)| 0 < count && count < total;
        (0u32..).zip(&sizes).filter(has_both_sides).map(|(label, _)| label).collect()
    }

    /// Trains a linear SVM for each separable label. The dual variables may need much memory, so
    /// they are returned only if `keep_alphas` is true.
    fn train(&self, documents: &SvmDocuments, keep_alphas: bool) -> TrainedSvms {
        let labels = self.separable_labels(documents);
        let cost = self.learning.cost;
        let found: Vec<(Vec<Hyperplane>, Vec<Lanes>)> = self.threads.run(|| {
            let train = |labels: &[u32]| {
                let svms = LinearSvms::new(documents, self.labels, labels, cost);
                let (hyperplanes, alphas) = svms.train(None);
                (hyperplanes, if keep_alphas { alphas } else { Vec::new() })
            };
            labels.par_chunks(LANES).map(train).collect()
        });
        let mut hyperplanes: Vec<Option<Hyperplane>> =
            self.labels.sizes.iter().map(|_| None).collect();
        let mut alphas = Vec::with_capacity(found.len());
        for (labels, (planes, of_documents)) in labels.chunks(LANES).zip(found) {
            for (&label, plane) in labels.iter().zip(planes) {
                hyperplanes[label as usize] = Some(plane);
            }
            alphas.push(of_documents);
        }
        TrainedSvms { labels, hyperplanes, alphas }
    }

    /// Creates prototypes, which store the hyperplanes term by term.
    fn prototypes(&self, hyperplanes: Vec<Option<Hyperplane>>) -> Prototypes {
        let columns = self.rows.cols();
        let mut starts = vec![0u64; columns + 1];
        for (term, _) in hyperplanes.iter().flatten().flat_map(|plane| &plane.weights) {
            starts[*term as usize + 1] += 1;
        }
        for term in 0..columns {
            starts[term + 1] += starts[term];
        }
        let entries = usize::try_from(starts[columns]).expect("in memory");
        let mut labels = vec![0u32; entries];
        let mut weights = vec![0.0f32; entries];
        let mut next = starts.clone();
        for (label, plane) in (0u32..).zip(&hyperplanes) {
            for &(term, weight) in plane.iter().flat_map(|plane| &plane.weights) {
                let index = usize::try_from(next[term as usize]).expect("in memory");
                labels[index] = label;
                weights[index] = weight;
                next[term as usize] += 1;
            }
        }
        let offset =
            |plane: Option<Hyperplane>| plane.map_or(f32::INFINITY, |plane| plane.constant);
        let [a, b] = self.learning.link;
        let mut link = vec![self.learning.cost, a];
        link.extend((!b.is_nan()).then_some(b));
        Prototypes {
            starts: starts.into(),
            labels: labels.into(),
            weights: weights.into(),
            offsets: hyperplanes.into_iter().map(offset).collect::<Vec<f32>>().into(),
            link: link.into(),
            vector_scale: self.learning.vector_scale,
        }
    }
}

/// The linear SVMs of all labels.
struct TrainedSvms {
    /// The labels that have a hyperplane.
    labels: Vec<u32>,
    /// The hyperplanes by label number; `None` if all documents are on one side.
    hyperplanes: Vec<Option<Hyperplane>>,
    /// The dual variables of each document, for each group of [`LANES`] labels; empty if not kept.
    alphas: Vec<Vec<Lanes>>,
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::decide::vote::LabelScore;
    use crate::random::Random;
    use crate::rows::matrix::{Csr, CsrBuilder};

    const TERMS: u32 = 8;
    const SINGLE_LABEL: PrototypeLearning =
        PrototypeLearning { cost: 1.0, link: [2.0, f32::NAN], vector_scale: 0.0 };

    /// Returns thirty rows with three labels. Most terms of a row are among the three terms of its
    /// label.
    fn generated(order: &[usize]) -> (Csr, Vec<u32>) {
        let mut random = Random::new(3);
        let mut documents = Vec::new();
        for number in 0..30u32 {
            let label = number % 3;
            let mut terms: Vec<u32> = (0..4)
                .map(|_| match random.below(3) {
                    0 => u32::try_from(random.below(TERMS as usize)).unwrap(),
                    _ => label * 2 + u32::try_from(random.below(3)).unwrap(),
                })
                .collect();
            terms.sort_unstable();
            terms.dedup();
            let weight = 1.0 / (terms.len() as f32).sqrt();
            documents
                .push((terms.into_iter().map(|term| (term, weight)).collect::<Vec<_>>(), label));
        }
        let mut rows = CsrBuilder::default();
        for &index in order {
            rows.push_row(documents[index].0.iter().copied());
        }
        (rows.build(TERMS as usize), order.iter().map(|&index| documents[index].1).collect())
    }

    fn learned(order: &[usize], threads: usize) -> Prototypes {
        let (rows, labels) = generated(order);
        let indptr: Vec<u64> = (0..=30).collect();
        let training = TrainingLabels {
            indptr: &indptr,
            indices: &labels,
            weights: &[1.0; 30],
            sizes: &[10, 10, 10],
        };
        let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
        PrototypeTrainer {
            rows: &rows.view(),
            labels: &training,
            learning: SINGLE_LABEL,
            threads: &threads,
        }
        .learn(|_| true)
    }

    /// Margins without prototypes are those of prototypes, to the bit.
    #[test]
    fn margins_equal_those_of_prototypes() {
        let (rows, labels) = generated(&(0..30).collect::<Vec<_>>());
        let indptr: Vec<u64> = (0..=30).collect();
        // Nobody has the last label, so it has no prototype.
        let training = TrainingLabels {
            indptr: &indptr,
            indices: &labels,
            weights: &[1.0; 30],
            sizes: &[10, 10, 10, 0],
        };
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        let view = rows.view();
        let trainer = PrototypeTrainer {
            rows: &view,
            labels: &training,
            learning: SINGLE_LABEL,
            threads: &threads,
        };
        let takes = |row: u32| !row.is_multiple_of(3);
        let prototypes = trainer.learn(takes);
        let held_out = [0, 3, 27];
        let expected: Vec<u32> = held_out
            .iter()
            .flat_map(|&index| {
                let (terms, weights) = row(&view, index as usize);
                prototypes.margins(terms, weights)
            })
            .map(f32::to_bits)
            .collect();
        let margins = trainer.margins(None, takes, &view, &held_out);
        assert_eq!(margins.into_iter().map(f32::to_bits).collect::<Vec<_>>(), expected);
    }

    /// Computes the objective of a label's SVM and its gradient, in f64.
    fn objective(rows: &Csr, labels: &[u32], label: u32, plane: &[f64]) -> (f64, Vec<f64>) {
        let mut value = plane.iter().map(|weight| weight * weight / 2.0).sum::<f64>();
        let mut slopes = plane.to_vec();
        for (number, &other) in labels.iter().enumerate() {
            let side = if other == label { 1.0 } else { -1.0 };
            let view = rows.view();
            let (terms, weights) = row(&view, number);
            let entries = terms.iter().map(|&term| term as usize).zip(weights);
            let entries: Vec<(usize, f64)> = entries
                .map(|(term, &weight)| (term, f64::from(weight)))
                .chain([(8, 1.0)])
                .collect();
            let margin: f64 = entries.iter().map(|&(term, weight)| plane[term] * weight).sum();
            let slack = (1.0 - side * margin).max(0.0);
            value += slack * slack;
            for (term, weight) in entries {
                slopes[term] -= 2.0 * side * slack * weight;
            }
        }
        (value, slopes)
    }

    #[test]
    fn new_labels_have_no_prototype() {
        let order: Vec<usize> = (0..30).collect();
        let renumbered = learned(&order, 1).renumbered(&[0, 7, 1, 2]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|label| renumbered.has(label)),
            [true, false, true, true, false]
        );
    }

    #[test]
    fn prototypes_are_as_good_as_gradient_descent() {
        let order: Vec<usize> = (0..30).collect();
        let found = learned(&order, 1);
        let (rows, labels) = generated(&order);
        for label in 0..3 {
            let mut best = vec![0.0; 9];
            for _ in 0..20_000 {
                let (_, slopes) = objective(&rows, &labels, label, &best);
                best.iter_mut().zip(slopes).for_each(|(weight, slope)| *weight -= 0.005 * slope);
            }
            let unit = |term: u32| {
                found.contributions(label, &[term], &[1.0]).0.first().map_or(0.0, |p| p.1)
            };
            let mut plane: Vec<f64> = (0..TERMS).map(unit).collect();
            plane.push(f64::from(found.offsets[label as usize]));
            let (optimum, _) = objective(&rows, &labels, label, &best);
            let (value, _) = objective(&rows, &labels, label, &plane);
            assert!(value < optimum * 1.001, "label {label}: {value}, at best {optimum}");
            let zero = objective(&rows, &labels, label, &[0.0; 9]).0;
            assert!(value < 0.7 * zero, "label {label}: {value} of {zero}");
        }
        assert_eq!(found.check(8, 3), Ok(()));
        assert!(found.check(7, 3).is_err() && found.check(8, 4).is_err());
    }

    /// There are more labels than are trained simultaneously. All documents have one label in
    /// common.
    #[test]
    fn each_label_has_the_hyperplane_of_its_own_documents() {
        let common = 2 * u32::try_from(LANES).unwrap() + 3;
        let each = 4;
        let mut rows = CsrBuilder::default();
        let mut indptr = vec![0];
        let mut indices = Vec::new();
        for number in 0..common * each {
            rows.push_row([(number % common, 0.8), (common, 0.6)]);
            indices.extend([number % common, common]);
            indptr.push(indices.len() as u64);
        }
        let rows = rows.build(common as usize + 1);
        let weights = vec![1.0; (common * each) as usize];
        let sizes = vec![each; common as usize + 1];
        let training =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
        let trainer = PrototypeTrainer {
            rows: &rows.view(),
            labels: &training,
            learning: SINGLE_LABEL,
            threads: &threads,
        };
        let found = trainer.learn(|_| true);
        for label in 0..common {
            let margins = found.margins(&[label, common], &[0.8, 0.6]);
            for other in 0..common {
                assert_eq!(margins[other as usize] > 0.0, other == label, "{label}, {other}");
            }
        }
        assert!(!found.has(common), "nothing to separate");
    }

    #[test]
    fn prototypes_do_not_depend_on_threads_or_document_order() {
        let order: Vec<usize> = (0..30).collect();
        let reversed: Vec<usize> = (0..30).rev().collect();
        let arrays = |found: &Prototypes| {
            (found.labels.to_vec(), found.weights.to_vec(), found.offsets.to_vec())
        };
        let found = arrays(&learned(&order, 1));
        assert_eq!(found, arrays(&learned(&order, 3)));
        assert_eq!(found, arrays(&learned(&reversed, 2)));
    }

    #[test]
    fn scores_are_mixed_with_vote_scores() {
        let found = learned(&(0..30).collect::<Vec<_>>(), 1);
        let terms = [0, 1];
        let weights = [0.6, 0.8];
        let prototype_scores = found.scores(&terms, &weights);
        assert!((prototype_scores.iter().flatten().sum::<f32>() - 1.0).abs() < 1e-6);
        let margins = found.margins(&terms, &weights);
        let powers: Vec<f32> = margins.iter().map(|margin| libm::expf(2.0 * margin)).collect();
        let share = powers[0] / powers.iter().sum::<f32>();
        assert!((prototype_scores[0].unwrap() - share).abs() < 1e-6, "{prototype_scores:?}");
        let mut scores = [LabelScore { label: 2, score: 0.6 }, LabelScore { label: 0, score: 0.4 }];
        found.mix_into(&terms, &weights, 0.75, &mut scores);
        let expected = 0.25 * 0.4 + 0.75 * f64::from(prototype_scores[0].unwrap());
        assert!(scores[0].label == 0 && (scores[0].score - expected).abs() < 1e-12, "{scores:?}");
        // Labels 0 and 2 swap numbers, and a label without a prototype gets number 1.
        let other = found.renumbered(&[2, 7, 1, 0]);
        assert_eq!(other.check(8, 4), Ok(()));
        let renumbered = other.scores(&terms, &weights);
        // The softmax adds numbers in a different order.
        let near = |a: Option<f32>, b: Option<f32>| (a.unwrap() - b.unwrap()).abs() < 1e-6;
        assert!(
            near(renumbered[3], prototype_scores[0]) && near(renumbered[2], prototype_scores[1]),
            "{renumbered:?}"
        );
        assert_eq!(renumbered[1], None);
        let mut scores = [LabelScore { label: 1, score: 0.9 }];
        other.mix_into(&terms, &weights, 0.75, &mut scores);
        assert_eq!(scores[0].score.to_bits(), 0.9f64.to_bits());
    }
}
