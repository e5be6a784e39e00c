//! The terms that documents have in common with their neighbors. They do not change while term
//! factors are learned.

use rayon::prelude::*;

use super::example::{LabeledNeighbor, NEIGHBORS, TrainingExample};
use crate::rows::matrix::{CommonEntries, CsrView, ScatteredRow, prefetch_row, row};

/// Approximate maximum number of bytes of stored overlaps.
const MAX_KEPT_BYTES: usize = 96 << 20;
/// Maximum number of entries of the overlaps that are built between two checks of the memory
/// budget. At least one overlap is built each time.
const MAX_PENDING_ENTRIES: usize = 1 << 24;
/// Number of neighbors to prefetch ahead.
const PREFETCH_DISTANCE: usize = 4;

/// The position of a neighbor in an example.
type Position = u8;
const _: () = assert!(NEIGHBORS.get() <= 1 << Position::BITS, "a position for each neighbor");

/// The terms that a document has in common with its neighbors, as postings: for each term, the
/// neighbors that contain it.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    terms: Vec<Term>,
    /// The positions of the neighbors that contain a term, and the weights of the term in them.
    positions: Vec<Position>,
    weights: Vec<f32>,
}

/// A term of a document that at least one of its neighbors contains.
#[derive(Debug)]
struct Term {
    number: u32,
    /// Weight of the term in the document.
    weight: f32,
    /// End of the term's entries, which begin at the end of the previous term.
    end: usize,
}

impl Overlap {
    /// Writes the similarity of the document to each of its first `neighbors` neighbors to
    /// `products`. A similarity is the sum of weight × weight × factor over the common terms.
    pub(super) fn products(
        &self,
        factor: impl Fn(u32) -> f32,
        neighbors: usize,
        products: &mut Vec<f32>,
    ) {
        // One sum per possible position, so no bounds check is needed.
        let mut sums = [0.0f32; 1 << Position::BITS];
        for (term, positions, weights) in self.terms() {
            let own = term.weight * factor(term.number);
            for (&position, weight) in positions.iter().zip(weights) {
                sums[usize::from(position)] += own * weight;
            }
        }
        products.clear();
        products.extend_from_slice(&sums[..neighbors]);
    }

    /// Calls `at` with each term and the sum over the neighbors that contain the term. Each summand
    /// is the product of both weights of the term and the neighbor's factor.
    pub(super) fn sums(&self, factors: &[f32], mut at: impl FnMut(u32, f32)) {
        let mut of_positions = [0.0f32; 1 << Position::BITS];
        of_positions[..factors.len()].copy_from_slice(factors);
        for (term, positions, weights) in self.terms() {
            let product = |(&position, weight): (&Position, &f32)| {
                of_positions[usize::from(position)] * weight
            };
            // Two alternating sums: a single sum would wait for each addition.
            let (pairs_of_positions, last_position) = positions.as_chunks::<2>();
            let (pairs_of_weights, last_weight) = weights.as_chunks::<2>();
            let mut even = 0.0;
            let mut odd = 0.0;
            for (positions, weights) in pairs_of_positions.iter().zip(pairs_of_weights) {
                even += product((&positions[0], &weights[0]));
                odd += product((&positions[1], &weights[1]));
            }
            even += last_position.iter().zip(last_weight).map(product).sum::<f32>();
            at(term.number, term.weight * (even + odd));
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.terms) + size_of_val(&*self.positions) + size_of_val(&*self.weights)
    }

    fn terms(&self) -> impl Iterator<Item = (&Term, &[Position], &[f32])> {
        let mut start = 0;
        self.terms.iter().map(move |term| {
            let entries = start..term.end;
            start = term.end;
            (term, &self.positions[entries.clone()], &self.weights[entries])
        })
    }
}

/// Training examples with the overlaps of their documents and neighbors.
pub(super) struct Overlaps<'l> {
    rows: &'l CsrView<'l>,
    examples: &'l [TrainingExample],
    /// The overlaps of the first examples. The others are built when they are needed.
    kept: Vec<Overlap>,
}

impl<'l> Overlaps<'l> {
    pub(super) fn new(rows: &'l CsrView<'l>, examples: &'l [TrainingExample]) -> Self {
        Self::with_budget([MAX_KEPT_BYTES, MAX_PENDING_ENTRIES], rows, examples)
    }

    fn with_budget(
        [max_bytes, max_entries]: [usize; 2],
        rows: &'l CsrView<'l>,
        examples: &'l [TrainingExample],
    ) -> Self {
        let made = |builder: &mut Builder, example| {
            let mut overlap = Overlap::default();
            builder.build(rows, example, &mut overlap);
            overlap
        };
        let mut kept = Vec::new();
        let mut bytes = 0;
        while bytes < max_bytes && kept.len() < examples.len() {
            let start = kept.len();
            let mut entries = 0;
            let fits = |example: &&TrainingExample| {
                let terms = row(rows, example.row as usize).0.len();
                entries += terms * example.neighbors.len();
                entries <= max_entries
            };
            let count = examples[start..].iter().take_while(fits).count().max(1);
            let next = examples[start..start + count].par_iter();
            kept.par_extend(next.map_init(Builder::default, made));
            bytes += kept[start..].iter().map(Overlap::bytes).sum::<usize>();
        }
        Self { rows, examples, kept }
    }

    /// Returns an example and its overlap. `builder` builds the overlap if it is not stored.
    pub(super) fn get<'a>(
        &'a self,
        at: usize,
        builder: &'a mut Builder,
    ) -> (&'a TrainingExample, &'a Overlap) {
        let example = &self.examples[at];
        let overlap = self.kept.get(at).unwrap_or_else(|| builder.rebuild(self.rows, example));
        (example, overlap)
    }
}

/// Builds overlaps one after the other, reusing its buffers.
#[derive(Debug, Default)]
pub(super) struct Builder {
    document: ScatteredRow,
    /// The position of each term among the terms of the document.
    positions: Vec<u32>,
    common: CommonEntries,
    /// End of each neighbor's terms in `common`.
    ends: Vec<usize>,
    /// For each term of the document, the position of its next entry.
    next: Vec<usize>,
    overlap: Overlap,
}

impl Builder {
    /// Builds the overlap of an example. The next call overwrites it.
    fn rebuild(&mut self, rows: &CsrView<'_>, example: &TrainingExample) -> &Overlap {
        let mut overlap = std::mem::take(&mut self.overlap);
        self.build(rows, example, &mut overlap);
        self.overlap = overlap;
        &self.overlap
    }

    fn build(&mut self, rows: &CsrView<'_>, example: &TrainingExample, overlap: &mut Overlap) {
        let Self { document, positions, common, ends, next, .. } = self;
        let TrainingExample { row: number, neighbors } = example;
        let own = row(rows, *number as usize);
        document.set(own, rows.cols());
        positions.resize(rows.cols(), 0);
        for (position, &term) in (0u32..).zip(own.0) {
            positions[term as usize] = position;
        }
        ends.clear();
        let mut end = 0;
        for (at, &LabeledNeighbor { row: other, .. }) in neighbors.iter().enumerate() {
            if let Some(&LabeledNeighbor { row: later, .. }) = neighbors.get(at + PREFETCH_DISTANCE)
            {
                prefetch_row(row(rows, later as usize));
            }
            end = document.common(row(rows, other as usize), common, end);
            ends.push(end);
        }
        document.clear(own);
        let (terms, weights) = common.of(0..end);
        next.clear();
        next.resize(own.0.len(), 0);
        for &term in terms {
            next[positions[term as usize] as usize] += 1;
        }
        overlap.terms.clear();
        let mut start = 0;
        for ((next, &term), &weight) in next.iter_mut().zip(own.0).zip(own.1) {
            let entries = std::mem::replace(next, start);
            start += entries;
            if entries > 0 {
                overlap.terms.push(Term { number: term, weight, end: start });
            }
        }
        overlap.positions.resize(end, 0);
        overlap.weights.resize(end, 0.0);
        let mut start = 0;
        for (position, &end) in (0..=Position::MAX).zip(&*ends) {
            for (&term, &weight) in terms[start..end].iter().zip(&weights[start..end]) {
                let next = &mut next[positions[term as usize] as usize];
                (overlap.positions[*next], overlap.weights[*next]) = (position, weight);
                *next += 1;
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::made;
    use super::*;

    #[test]
    fn stored_and_rebuilt_overlaps_are_equal() {
        let (rows, examples) = made();
        let view = rows.view();
        let weight = |number: u32, term: u32| {
            let (terms, weights) = row(&view, number as usize);
            terms.binary_search(&term).map_or(0.0, |at| weights[at])
        };
        let factor = |term: u32| 1.0 + term as f32 / 4.0;
        let all = examples.len();
        for (limits, kept) in
            [([0, 1], 0), ([1, 1], 1), ([usize::MAX, 1], all), ([1, 1 << 20], all)]
        {
            let overlaps = Overlaps::with_budget(limits, &view, &examples);
            assert_eq!(overlaps.kept.len(), kept, "{limits:?}");
            let mut builder = Builder::default();
            for at in 0..examples.len() {
                let (TrainingExample { row, neighbors }, overlap) = overlaps.get(at, &mut builder);
                let mut products = vec![7.0];
                overlap.products(factor, neighbors.len(), &mut products);
                assert_eq!(products.len(), neighbors.len());
                for (product, &LabeledNeighbor { row: other, .. }) in products.iter().zip(neighbors)
                {
                    let of_term = |term| weight(*row, term) * weight(other, term) * factor(term);
                    let expected: f32 = (0..20).map(of_term).sum();
                    assert!((product - expected).abs() < 1e-4, "{product} and {expected}");
                }
                let factors: Vec<f32> = (0..neighbors.len()).map(|at| at as f32 - 3.0).collect();
                let mut sums = [0.0; 20];
                overlap.sums(&factors, |term, sum| sums[term as usize] = sum);
                for (term, sum) in (0u32..).zip(sums) {
                    let of_neighbor = |(neighbor, factor): (&LabeledNeighbor, &f32)| {
                        let other = neighbor.row;
                        weight(*row, term) * weight(other, term) * factor
                    };
                    let expected: f32 = neighbors.iter().zip(&factors).map(of_neighbor).sum();
                    assert!((sum - expected).abs() < 1e-3, "{term}: {sum} and {expected}");
                }
            }
        }
    }
}
