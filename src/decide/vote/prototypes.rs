//! Prototypes: what the terms of a document say about its labels, whatever its neighbors are.

use crate::decide::vote::{LabelScore, TrainingLabels};
use crate::rows::matrix::{Array, CsrView, row};
use crate::threads::Threads;

use rayon::prelude::*;

mod machines;

pub(crate) use machines::Taught;
use machines::{LANES, Lanes, Machines, Plane, Teachers};

/// A prototype of each label: a weight for each term, and a constant.
///
/// The *margin* of a label is the sum of the weights of a document's terms, each times the term's weight in the
/// document, and the constant. Margins become scores from 0 to 1: with one label per document by the softmax
/// exp(a m) / Σ exp(a m), with several by the logistic function of a m + b. In a vote that ends in
/// `/prototypes:SHARE`, these scores have that share, and the neighbors' votes the rest. Only labels that a
/// neighbor has are scored: the neighbors propose labels, and the prototypes help to choose among them.
///
/// A prototype is the separating hyperplane between the documents with the label and the others: a support
/// vector machine with squared hinge loss, found by dual coordinate descent (Hsieh, Chang, Lin, Keerthi and
/// Sundararajan 2008). It is also a vote of all training documents: the sum of their rows, each times what its vote
/// is worth for the label. Related is the SVM-KNN of Zhang, Berg, Maire and Malik (2006), which trains the machine
/// on the neighbors.
#[derive(Debug, Clone)]
pub struct Prototypes {
    /// The weights of term `t` are `starts[t]..starts[t + 1]`.
    pub(crate) starts: Array<u64>,
    /// The label of each weight, increasing within a term.
    pub(crate) labels: Array<u32>,
    pub(crate) weights: Array<f32>,
    /// The constant of each label; infinite for a label that has no prototype.
    pub(crate) offsets: Array<f32>,
    /// C, and what margins become scores by: a, and with several labels b.
    pub(crate) link: Array<f32>,
}

/// How prototypes are learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PrototypeLearning {
    /// The cost of a document on the wrong side of the margin, C.
    pub(crate) cost: f32,
    /// a and b; with one label, b is not a number.
    pub(crate) link: [f32; 2],
}

impl Prototypes {
    /// Learns the prototypes from those of `rows` that it `takes` and that have a label.
    pub(crate) fn learn(
        rows: &CsrView<'_>,
        among: &TrainingLabels<'_>,
        takes: impl Fn(u32) -> bool,
        learning: PrototypeLearning,
        threads: &Threads,
    ) -> Self {
        Self::learned(rows, among, takes, (learning, None, false), threads).0
    }

    /// The same, and what [`learn_from`](Self::learn_from) begins with.
    pub(crate) fn learn_and_keep(
        rows: &CsrView<'_>,
        among: &TrainingLabels<'_>,
        takes: impl Fn(u32) -> bool,
        learning: PrototypeLearning,
        threads: &Threads,
    ) -> (Self, Taught) {
        let (prototypes, taught) =
            Self::learned(rows, among, takes, (learning, None, true), threads);
        (prototypes, taught.expect("it is kept"))
    }

    /// The same, beginning with what some of these documents taught at the same cost, which takes fewer rounds. The prototypes are as
    /// near to the best as others, but not the same.
    pub(crate) fn learn_from(
        taught: &Taught,
        rows: &CsrView<'_>,
        among: &TrainingLabels<'_>,
        takes: impl Fn(u32) -> bool,
        learning: PrototypeLearning,
        threads: &Threads,
    ) -> Self {
        Self::learned(rows, among, takes, (learning, Some(taught), false), threads).0
    }

    fn learned(
        rows: &CsrView<'_>,
        among: &TrainingLabels<'_>,
        takes: impl Fn(u32) -> bool,
        (learning, before, keep): (PrototypeLearning, Option<&Taught>, bool),
        threads: &Threads,
    ) -> (Self, Option<Taught>) {
        let count = u32::try_from(rows.rows()).expect("fewer than 2^32 rows");
        let mut teachers: Vec<u32> = (0..count)
            .filter(|&row| takes(row) && !among.labels(row).is_empty())
            .filter(|&row| among.weights[row as usize] > 0.0)
            .collect();
        // What is learned does not depend on the order of the documents.
        let content = |row_number: u32| {
            let (terms, weights) = row(rows, row_number as usize);
            (terms, weights.iter().map(|weight| weight.to_bits()), among.labels(row_number))
        };
        teachers.sort_by(|&a, &b| {
            let ((a_terms, a_weights, a_labels), (b_terms, b_weights, b_labels)) =
                (content(a), content(b));
            let rows = a_terms.cmp(b_terms).then_with(|| a_weights.cmp(b_weights));
            let weights = [a, b].map(|row| among.weights[row as usize]);
            rows.then(a_labels.cmp(b_labels)).then(weights[0].total_cmp(&weights[1]))
        });
        let mut sizes = vec![0usize; among.sizes.len()];
        for &label in teachers.iter().flat_map(|&row| among.labels(row)) {
            sizes[label as usize] += 1;
        }
        // There is nothing to separate where all teachers are on one side.
        let both = |&(_, &count): &(u32, &usize)| 0 < count && count < teachers.len();
        let labels: Vec<u32> = (0u32..).zip(&sizes).filter(both).map(|(label, _)| label).collect();
        let teachers = Teachers::new(rows, teachers);
        let found: Vec<(Vec<Plane>, Vec<Lanes>)> = threads.run(|| {
            let planes = |labels: &[u32]| {
                let machines = Machines::new(&teachers, among, labels, learning.cost);
                let (planes, alphas) = machines.planes(before);
                (planes, if keep { alphas } else { Vec::new() })
            };
            labels.par_chunks(LANES).map(planes).collect()
        });
        let taught = keep.then(|| {
            let mut taught = Taught::new(rows.rows(), among.sizes.len());
            for (labels, (_, alphas)) in labels.chunks(LANES).zip(&found) {
                taught.set(labels, &teachers.numbers, alphas);
            }
            taught
        });
        let mut planes: Vec<Option<Plane>> = sizes.iter().map(|_| None).collect();
        for (&label, plane) in labels.iter().zip(found.into_iter().flat_map(|(planes, _)| planes)) {
            planes[label as usize] = Some(plane);
        }
        let mut starts = vec![0u64; rows.cols() + 1];
        for (term, _) in planes.iter().flatten().flat_map(|plane| &plane.weights) {
            starts[*term as usize + 1] += 1;
        }
        for term in 0..rows.cols() {
            starts[term + 1] += starts[term];
        }
        let entries = usize::try_from(starts[rows.cols()]).expect("in memory");
        let (mut of_label, mut weights) = (vec![0u32; entries], vec![0.0f32; entries]);
        let mut next = starts.clone();
        for (label, plane) in (0u32..).zip(&planes) {
            for &(term, weight) in plane.iter().flat_map(|plane| &plane.weights) {
                let at = usize::try_from(next[term as usize]).expect("in memory");
                (of_label[at], weights[at]) = (label, weight);
                next[term as usize] += 1;
            }
        }
        let offset =
            |plane: &Option<Plane>| plane.as_ref().map_or(f32::INFINITY, |plane| plane.constant);
        let [a, b] = learning.link;
        let mut link = vec![learning.cost, a];
        link.extend((!b.is_nan()).then_some(b));
        let prototypes = Self {
            starts: starts.into(),
            labels: of_label.into(),
            weights: weights.into(),
            offsets: planes.iter().map(offset).collect::<Vec<f32>>().into(),
            link: link.into(),
        };
        (prototypes, taught)
    }

    /// How they were learned.
    pub(crate) fn learning(&self) -> PrototypeLearning {
        let [cost, a] = [0, 1].map(|at| self.link.get(at).copied().unwrap_or(1.0));
        PrototypeLearning { cost, link: [a, self.link.get(2).copied().unwrap_or(f32::NAN)] }
    }

    /// The margin of each label for a weighted row; infinite for a label without a prototype.
    pub(crate) fn margins(&self, (terms, weights): (&[u32], &[f32])) -> Vec<f32> {
        let mut margins = self.offsets.to_vec();
        for (&term, &weight) in terms.iter().zip(weights) {
            let entries = self.entries(term);
            for (&label, &of_label) in
                self.labels[entries.clone()].iter().zip(&self.weights[entries])
            {
                margins[label as usize] += weight * of_label;
            }
        }
        margins
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds of slices in memory")]
    fn entries(&self, term: u32) -> std::ops::Range<usize> {
        self.starts[term as usize] as usize..self.starts[term as usize + 1] as usize
    }

    /// The score of each label for a weighted row; `None` for a label without a prototype.
    pub(crate) fn scores(&self, row: (&[u32], &[f32])) -> Vec<Option<f32>> {
        let mut margins = self.margins(row);
        link(&mut margins, &self.link[1..]);
        margins.into_iter().map(|score| score.is_finite().then_some(score)).collect()
    }

    /// Whether a label has a prototype.
    pub(crate) fn has(&self, label: u32) -> bool {
        self.offsets.get(label as usize).is_some_and(|offset| offset.is_finite())
    }

    /// The highest margins for a weighted row; `None` if no label has a prototype.
    pub(crate) fn highest(&self, row: (&[u32], &[f32])) -> Option<HighestMargins> {
        HighestMargins::among(self.margins(row), &self.link[1..])
    }

    /// The parts of a label's margin by the terms of a weighted row, in the order of terms, and the constant.
    pub(crate) fn parts(
        &self,
        label: u32,
        (terms, weights): (&[u32], &[f32]),
    ) -> (Vec<(u32, f64)>, f32) {
        let mut parts = Vec::new();
        for (&term, &weight) in terms.iter().zip(weights) {
            let entries = self.entries(term);
            if let Ok(at) = self.labels[entries.clone()].binary_search(&label) {
                parts.push((term, f64::from(weight) * f64::from(self.weights[entries.start + at])));
            }
        }
        (parts, self.offsets[label as usize])
    }

    /// Gives the scores of prototypes for a weighted row their share in the scores of a vote, and sorts these.
    pub(crate) fn join(&self, row: (&[u32], &[f32]), share: f64, scores: &mut [LabelScore]) {
        let own = self.scores(row);
        // A label without a vote is not proposed.
        for LabelScore { label, score } in scores.iter_mut().filter(|label| label.score > 0.0) {
            *score = joined(*score, own[*label as usize], share);
        }
        scores.sort_by(|a, b| b.score.total_cmp(&a.score));
    }

    /// The same prototypes for labels with other numbers: `order` has the old number of each, those of new labels
    /// being too large.
    pub(crate) fn renumbered(&self, order: &[u32]) -> Self {
        if order.len() == self.offsets.len() && order.is_sorted() {
            return self.clone();
        }
        let mut numbers = vec![u32::MAX; self.offsets.len()];
        for (number, &old) in (0u32..).zip(order) {
            if let Some(place) = numbers.get_mut(old as usize) {
                *place = number;
            }
        }
        let (mut starts, mut labels, mut weights) = (vec![0u64], Vec::new(), Vec::new());
        for term in 0..u32::try_from(self.starts.len() - 1).expect("fewer than 2^32 terms") {
            let mut own: Vec<(u32, f32)> = self
                .entries(term)
                .map(|at| (numbers[self.labels[at] as usize], self.weights[at]))
                .filter(|&(label, _)| label != u32::MAX)
                .collect();
            own.sort_unstable_by_key(|&(label, _)| label);
            labels.extend(own.iter().map(|&(label, _)| label));
            weights.extend(own.iter().map(|&(_, weight)| weight));
            starts.push(labels.len() as u64);
        }
        let offset = |&old: &u32| self.offsets.get(old as usize).copied().unwrap_or(f32::INFINITY);
        Self {
            starts: starts.into(),
            labels: labels.into(),
            weights: weights.into(),
            offsets: order.iter().map(offset).collect::<Vec<f32>>().into(),
            link: self.link.clone(),
        }
    }

    /// What is wrong, if anything, for a model with these numbers of terms and labels.
    pub(crate) fn check(&self, terms: usize, labels: usize) -> Result<(), &'static str> {
        let entries = self.labels.len();
        let spans = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(entries as u64))
            && self.starts.is_sorted()
            && self.starts.len() == terms + 1;
        if !spans || self.weights.len() != entries {
            return Err("bounds that do not span the weights of prototypes");
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
        let rising = self.starts.windows(2).all(|bounds| {
            self.labels[bounds[0] as usize..bounds[1] as usize].is_sorted_by(|a, b| a < b)
        });
        if !rising || self.labels.iter().any(|&label| label as usize >= labels) {
            return Err("a label that is out of order or does not exist");
        }
        if self.offsets.len() != labels || !(2..=3).contains(&self.link.len()) {
            return Err("not one constant per label");
        }
        if self.link[..2].iter().any(|&value| value.is_nan() || value <= 0.0) {
            return Err("a cost or a scale that is not above 0");
        }
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let offsets = self.offsets.iter().all(|&offset| offset > f32::NEG_INFINITY);
        if finite(&self.weights) && finite(&self.link) && offsets {
            Ok(())
        } else {
            Err("a value that is not finite")
        }
    }
}

/// The labels that prototypes prefer for a document, whatever its neighbors are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HighestMargins {
    /// The two highest margins; the same one twice if there is no other.
    pub(crate) margins: [f32; 2],
    /// The score of the highest one.
    pub(crate) score: f32,
}

impl HighestMargins {
    /// The highest of some margins, infinite ones being of labels without a prototype; `parameters` are those of
    /// [`link`].
    pub(crate) fn among(mut margins: Vec<f32>, parameters: &[f32]) -> Option<Self> {
        let mut highest = [f32::NEG_INFINITY; 2];
        for &margin in margins.iter().filter(|margin| margin.is_finite()) {
            if margin > highest[0] {
                highest = [margin, highest[0]];
            } else if margin > highest[1] {
                highest[1] = margin;
            }
        }
        let [first, next] = highest;
        if first == f32::NEG_INFINITY {
            return None;
        }
        link(&mut margins, parameters);
        let scores = margins.into_iter().filter(|score| score.is_finite());
        let next = if next.is_finite() { next } else { first };
        Some(Self { margins: [first, next], score: scores.fold(0.0, f32::max) })
    }
}

/// Margins → scores; infinite ones stay. `parameters` are a, and with several labels b.
pub(crate) fn link(margins: &mut [f32], parameters: &[f32]) {
    if let [a, b] = *parameters {
        for margin in margins.iter_mut().filter(|margin| margin.is_finite()) {
            *margin = 1.0 / (1.0 + libm::expf(-(a * *margin + b)));
        }
        return;
    }
    let a = parameters.first().copied().unwrap_or(1.0);
    let known = margins.iter().copied().filter(|margin| margin.is_finite());
    let most = known.fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for margin in margins.iter_mut().filter(|margin| margin.is_finite()) {
        *margin = libm::expf(a * (*margin - most));
        total += *margin;
    }
    for score in margins.iter_mut().filter(|score| score.is_finite()) {
        *score /= total;
    }
}

/// The score of a label by its votes and its prototype, which has `share`. Without a prototype, its votes alone.
pub(crate) fn joined(votes: f64, prototype: Option<f32>, share: f64) -> f64 {
    let Some(prototype) = prototype else { return votes };
    ((1.0 - share) * votes + share * f64::from(prototype)).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::random::Random;
    use crate::rows::matrix::{Csr, CsrBuilder};

    const TERMS: u32 = 8;
    const ONE_LABEL: PrototypeLearning = PrototypeLearning { cost: 1.0, link: [2.0, f32::NAN] };

    /// 30 rows of three labels; a row has two terms of its label's three more often than others.
    fn made(order: &[usize]) -> (Csr, Vec<u32>) {
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
        for &at in order {
            rows.push_row(documents[at].0.iter().copied());
        }
        (rows.build(TERMS as usize), order.iter().map(|&at| documents[at].1).collect())
    }

    fn learned(order: &[usize], threads: usize) -> Prototypes {
        let (rows, labels) = made(order);
        let indptr: Vec<u64> = (0..=30).collect();
        let among = TrainingLabels {
            indptr: &indptr,
            indices: &labels,
            weights: &[1.0; 30],
            sizes: &[10, 10, 10],
        };
        let threads = Threads::new(NonZeroUsize::new(threads).unwrap()).unwrap();
        Prototypes::learn(&rows.view(), &among, |_| true, ONE_LABEL, &threads)
    }

    /// What is minimized for a label, in 64 bits.
    fn objective((rows, labels): &(Csr, Vec<u32>), label: u32, plane: &[f64]) -> (f64, Vec<f64>) {
        let mut value = plane.iter().map(|weight| weight * weight / 2.0).sum::<f64>();
        let mut slopes = plane.to_vec();
        for (number, &own) in labels.iter().enumerate() {
            let side = if own == label { 1.0 } else { -1.0 };
            let view = rows.view();
            let (terms, weights) = row(&view, number);
            let entries = terms.iter().map(|&term| term as usize).zip(weights);
            let entries: Vec<(usize, f64)> = entries
                .map(|(term, &weight)| (term, f64::from(weight)))
                .chain([(8, 1.0)])
                .collect();
            let margin: f64 = entries.iter().map(|&(term, weight)| plane[term] * weight).sum();
            let short = (1.0 - side * margin).max(0.0);
            value += short * short;
            for (term, weight) in entries {
                slopes[term] -= 2.0 * side * short * weight;
            }
        }
        (value, slopes)
    }

    #[test]
    fn new_labels_have_no_prototype() {
        let order: Vec<usize> = (0..30).collect();
        let more = learned(&order, 1).renumbered(&[0, 7, 1, 2]);
        assert_eq!([0, 1, 2, 3, 4].map(|label| more.has(label)), [true, false, true, true, false]);
    }

    #[test]
    fn highest_margins() {
        let none = f32::INFINITY;
        let two = HighestMargins::among(vec![-1.0, none, 2.0, 1.0], &[0.5]).unwrap();
        let softmax = 1.0f32 / (1.0 + libm::expf(-0.5) + libm::expf(-1.5));
        assert_eq!((two.margins, (two.score - softmax).abs() < 1e-6), ([2.0, 1.0], true));
        let one = HighestMargins::among(vec![none, 0.5], &[2.0, -1.0]).unwrap();
        assert_eq!((one.margins, one.score), ([0.5, 0.5], 0.5), "by the logistic function");
        assert_eq!(HighestMargins::among(vec![none], &[1.0]), None);
    }

    #[test]
    fn prototypes_separate_a_label_from_the_others_as_well_as_gradient_descent() {
        let order: Vec<usize> = (0..30).collect();
        let found = learned(&order, 1);
        let made = made(&order);
        for label in 0..3 {
            let mut best = vec![0.0; 9];
            for _ in 0..20_000 {
                let (_, slopes) = objective(&made, label, &best);
                best.iter_mut().zip(slopes).for_each(|(weight, slope)| *weight -= 0.005 * slope);
            }
            let unit =
                |term: u32| found.parts(label, (&[term], &[1.0])).0.first().map_or(0.0, |p| p.1);
            let mut plane: Vec<f64> = (0..TERMS).map(unit).collect();
            plane.push(f64::from(found.offsets[label as usize]));
            let (least, _) = objective(&made, label, &best);
            let (value, _) = objective(&made, label, &plane);
            assert!(value < least * 1.001, "label {label}: {value}, at best {least}");
            let zero = objective(&made, label, &[0.0; 9]).0;
            assert!(value < 0.7 * zero, "label {label}: {value} of {zero}");
        }
        assert_eq!(found.check(8, 3), Ok(()));
        assert!(found.check(7, 3).is_err() && found.check(8, 4).is_err());
    }

    /// More labels than are trained side by side, one of which all documents have.
    #[test]
    fn each_label_has_the_plane_of_its_own_documents() {
        let (own, each) = (2 * u32::try_from(LANES).unwrap() + 3, 4);
        let (mut rows, mut indptr, mut indices) = (CsrBuilder::default(), vec![0], Vec::new());
        for number in 0..own * each {
            rows.push_row([(number % own, 0.8), (own, 0.6)]);
            indices.extend([number % own, own]);
            indptr.push(indices.len() as u64);
        }
        let rows = rows.build(own as usize + 1);
        let weights = vec![1.0; (own * each) as usize];
        let sizes = vec![each; own as usize + 1];
        let among =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
        let found = Prototypes::learn(&rows.view(), &among, |_| true, ONE_LABEL, &threads);
        for label in 0..own {
            let margins = found.margins((&[label, own], &[0.8, 0.6]));
            for other in 0..own {
                assert_eq!(margins[other as usize] > 0.0, other == label, "{label}, {other}");
            }
        }
        assert!(!found.has(own), "nothing to separate");
    }

    #[test]
    fn neither_threads_nor_the_order_of_documents_matter() {
        let order: Vec<usize> = (0..30).collect();
        let reversed: Vec<usize> = (0..30).rev().collect();
        let parts = |found: &Prototypes| {
            (found.labels.to_vec(), found.weights.to_vec(), found.offsets.to_vec())
        };
        let found = parts(&learned(&order, 1));
        assert_eq!(found, parts(&learned(&order, 3)));
        assert_eq!(found, parts(&learned(&reversed, 2)));
    }

    #[test]
    fn scores_join_those_of_votes() {
        let found = learned(&(0..30).collect::<Vec<_>>(), 1);
        let query: (&[u32], &[f32]) = (&[0, 1], &[0.6, 0.8]);
        let own = found.scores(query);
        assert!((own.iter().flatten().sum::<f32>() - 1.0).abs() < 1e-6);
        let margins = found.margins(query);
        let powers: Vec<f32> = margins.iter().map(|margin| libm::expf(2.0 * margin)).collect();
        let share = powers[0] / powers.iter().sum::<f32>();
        assert!((own[0].unwrap() - share).abs() < 1e-6, "{own:?}");
        let mut scores = [LabelScore { label: 2, score: 0.6 }, LabelScore { label: 0, score: 0.4 }];
        found.join(query, 0.75, &mut scores);
        let expected = 0.25 * 0.4 + 0.75 * f64::from(own[0].unwrap());
        assert!(scores[0].label == 0 && (scores[0].score - expected).abs() < 1e-12, "{scores:?}");
        // Numbers 0 and 2 change places, and a label without a prototype comes between them.
        let other = found.renumbered(&[2, 7, 1, 0]);
        assert_eq!(other.check(8, 4), Ok(()));
        let renumbered = other.scores(query);
        // The sum of the softmax is of another order.
        let near = |a: Option<f32>, b: Option<f32>| (a.unwrap() - b.unwrap()).abs() < 1e-6;
        assert!(near(renumbered[3], own[0]) && near(renumbered[2], own[1]), "{renumbered:?}");
        assert_eq!(renumbered[1], None);
        let mut scores = [LabelScore { label: 1, score: 0.9 }];
        other.join(query, 0.75, &mut scores);
        assert_eq!(scores[0].score.to_bits(), 0.9f64.to_bits());
    }

    #[test]
    fn several_labels_have_scores_of_their_own() {
        let mut margins = [1.0, f32::INFINITY, -2.0];
        link(&mut margins, &[2.0, -1.0]);
        let logistic = |z: f32| 1.0 / (1.0 + libm::expf(-z));
        assert!((margins[0] - logistic(1.0)).abs() < 1e-6 && margins[1].is_infinite());
        assert!((margins[2] - logistic(-5.0)).abs() < 1e-6);
    }
}
