//! The label prototypes of a model and their scores for documents.

use super::margins::{highest_margin, margins_to_scores, mix_scores};
use crate::decide::vote::LabelScore;
use crate::rows::matrix::Array;

/// Label prototypes: for each label, a weight per term and a constant.
///
/// The *margin* of a label is the constant plus the product of the document's and the prototype's
/// term weights, summed over the document's terms. If the prototypes use dense vectors, the values
/// of the document's vector are further columns. Margins are converted to scores from 0 to 1. In
/// single-label mode, the score is the softmax exp(a m) / Σ exp(a m). In multi-label mode, it is
/// the logistic function of a m + b. In a vote that ends in `/prototypes:SHARE`, the final score is
/// a weighted mean. Prototypes have weight SHARE, and the neighbors' votes have the rest. Only
/// labels that a neighbor has are scored: neighbors propose labels, and prototypes help to choose
/// among them.
///
/// A prototype is the hyperplane of a linear support vector machine that separates the documents
/// with the label from the others. It has squared hinge loss and is trained by dual coordinate
/// descent (Hsieh, Chang, Lin, Keerthi and Sundararajan 2008). It can also be read as a vote of all
/// training documents: the sum of their rows, each multiplied by its dual variable. The SVM-KNN of
/// Zhang, Berg, Maire and Malik (2006), which trains the SVM on the neighbors, is related.
#[derive(Debug, Clone)]
pub struct Prototypes {
    /// The weights of term `t` are `starts[t]..starts[t + 1]`.
    pub(crate) starts: Array<u64>,
    /// The label of each weight, in increasing order within a term.
    pub(crate) labels: Array<u32>,
    pub(crate) weights: Array<f32>,
    /// The constant of each label; infinite for a label without a prototype.
    pub(crate) offsets: Array<f32>,
    /// C, then the parameters that convert margins to scores: a and, in multi-label mode, b.
    pub(crate) link: Array<f32>,
    /// The factor of the dense vectors; 0 if the prototypes do not use them. The columns of a
    /// vector follow those of the terms.
    pub(crate) vector_scale: f32,
}

/// The parameters for learning prototypes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PrototypeLearning {
    /// The cost C of a document on the wrong side of the margin.
    pub(crate) cost: f32,
    /// The parameters a and b that convert margins to scores. In single-label mode, b is NaN.
    pub(crate) link: [f32; 2],
    /// See [`Prototypes::vector_scale`].
    pub(crate) vector_scale: f32,
}

impl Prototypes {
    /// Returns the parameters with which the prototypes were learned.
    pub(crate) fn learning(&self) -> PrototypeLearning {
        let [cost, a] = [0, 1].map(|index| self.link.get(index).copied().unwrap_or(1.0));
        let b = self.link.get(2).copied().unwrap_or(f32::NAN);
        PrototypeLearning { cost, link: [a, b], vector_scale: self.vector_scale }
    }

    /// Returns the margin of each label for a weighted row, or infinity for a label without a
    /// prototype.
    pub(crate) fn margins(&self, terms: &[u32], weights: &[f32]) -> Vec<f32> {
        let mut margins = self.offsets.to_vec();
        for (&term, &weight) in terms.iter().zip(weights) {
            let entries = self.entries(term);
            for (&label, &label_weight) in
                self.labels[entries.clone()].iter().zip(&self.weights[entries])
            {
                margins[label as usize] += weight * label_weight;
            }
        }
        margins
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds of slices in memory")]
    fn entries(&self, term: u32) -> std::ops::Range<usize> {
        self.starts[term as usize] as usize..self.starts[term as usize + 1] as usize
    }

    /// Returns the score of each label for a weighted row, or `None` for a label without a
    /// prototype.
    pub(crate) fn scores(&self, terms: &[u32], weights: &[f32]) -> Vec<Option<f32>> {
        let mut margins = self.margins(terms, weights);
        margins_to_scores(&mut margins, &self.link[1..]);
        margins.into_iter().map(|score| score.is_finite().then_some(score)).collect()
    }

    /// Whether the prototypes use dense vectors.
    pub(crate) fn use_vectors(&self) -> bool {
        self.vector_scale > 0.0
    }

    /// Whether a label has a prototype.
    pub(crate) fn has(&self, label: u32) -> bool {
        self.offsets.get(label as usize).is_some_and(|offset| offset.is_finite())
    }

    /// Returns the highest margin for a weighted row, or `None` if no label has a prototype.
    pub(crate) fn highest_margin(&self, terms: &[u32], weights: &[f32]) -> Option<f32> {
        highest_margin(&self.margins(terms, weights))
    }

    /// Returns the contributions of a weighted row's terms to a label's margin, in the order of the
    /// terms, and the constant.
    pub(crate) fn contributions(
        &self,
        label: u32,
        terms: &[u32],
        weights: &[f32],
    ) -> (Vec<(u32, f64)>, f32) {
        let mut contributions = Vec::new();
        for (&term, &weight) in terms.iter().zip(weights) {
            let entries = self.entries(term);
            if let Ok(index) = self.labels[entries.clone()].binary_search(&label) {
                contributions.push((
                    term,
                    f64::from(weight) * f64::from(self.weights[entries.start + index]),
                ));
            }
        }
        (contributions, self.offsets[label as usize])
    }

    /// Mixes the prototype scores of a weighted row into the scores of a vote, and sorts the
    /// result.
    pub(crate) fn mix_into(
        &self,
        terms: &[u32],
        weights: &[f32],
        share: f64,
        scores: &mut [LabelScore],
    ) {
        let prototype_scores = self.scores(terms, weights);
        // A label without a vote is not proposed.
        for LabelScore { label, score } in scores.iter_mut().filter(|label| label.score > 0.0) {
            *score = mix_scores(*score, prototype_scores[*label as usize], share);
        }
        scores.sort_by(|a, b| b.score.total_cmp(&a.score));
    }

    /// Renumbers the labels. `order[i]` is the old number of label `i`. New labels have old numbers
    /// beyond the existing numbers.
    pub(crate) fn renumbered(&self, order: &[u32]) -> Self {
        if order.len() == self.offsets.len() && order.is_sorted() {
            return self.clone();
        }
        let mut numbers = vec![u32::MAX; self.offsets.len()];
        for (number, &old) in (0u32..).zip(order) {
            if let Some(new) = numbers.get_mut(old as usize) {
                *new = number;
            }
        }
        let mut starts = vec![0u64];
        let mut labels = Vec::new();
        let mut weights = Vec::new();
        for term in 0..u32::try_from(self.starts.len() - 1).expect("fewer than 2^32 terms") {
            let mut entries: Vec<(u32, f32)> = self
                .entries(term)
                .map(|entry| (numbers[self.labels[entry] as usize], self.weights[entry]))
                .filter(|&(label, _)| label != u32::MAX)
                .collect();
            entries.sort_unstable_by_key(|&(label, _)| label);
            labels.extend(entries.iter().map(|&(label, _)| label));
            weights.extend(entries.iter().map(|&(_, weight)| weight));
            starts.push(labels.len() as u64);
        }
        let offset = |&old: &u32| self.offsets.get(old as usize).copied().unwrap_or(f32::INFINITY);
        Self {
            starts: starts.into(),
            labels: labels.into(),
            weights: weights.into(),
            offsets: order.iter().map(offset).collect::<Vec<f32>>().into(),
            link: self.link.clone(),
            vector_scale: self.vector_scale,
        }
    }

    /// Checks the values for these numbers of columns and labels. The columns are the terms, and
    /// the values of a vector if the prototypes use vectors. The error names the first problem.
    pub(crate) fn check(&self, columns: usize, labels: usize) -> Result<(), &'static str> {
        let entries = self.labels.len();
        let has_valid_bounds = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(entries as u64))
            && self.starts.is_sorted()
            && self.starts.len() == columns + 1;
        if !has_valid_bounds || self.weights.len() != entries {
            return Err("the bounds do not span the prototype weights");
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
        let is_sorted = self.starts.windows(2).all(|bounds| {
            self.labels[bounds[0] as usize..bounds[1] as usize].is_sorted_by(|a, b| a < b)
        });
        if !is_sorted || self.labels.iter().any(|&label| label as usize >= labels) {
            return Err("a label is out of order or does not exist");
        }
        if self.offsets.len() != labels || !(2..=3).contains(&self.link.len()) {
            return Err("there is not exactly one constant per label");
        }
        if self.link[..2].iter().any(|&value| value.is_nan() || value <= 0.0) {
            return Err("the cost or the scale is not above 0");
        }
        let is_finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let has_valid_offsets = self.offsets.iter().all(|&offset| offset > f32::NEG_INFINITY);
        let has_valid_scale = self.vector_scale >= 0.0 && self.vector_scale.is_finite();
        let has_valid_link = is_finite(&self.link) && has_valid_scale;
        if is_finite(&self.weights) && has_valid_link && has_valid_offsets {
            Ok(())
        } else {
            Err("a value is not finite")
        }
    }
}
