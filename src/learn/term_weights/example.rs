//! The documents from which term weights are learned, with their neighbors.

use std::num::NonZeroUsize;

use crate::decide::vote::TrainingLabels;
use crate::learn::held_out::LeaveOneOut;

/// Number of neighbors of each document.
pub(super) const NEIGHBORS: NonZeroUsize = NonZeroUsize::new(100).expect("100 is not 0");

/// A training document with its labeled neighbors.
pub(super) struct TrainingExample {
    pub(super) row: u32,
    pub(super) neighbors: Vec<LabeledNeighbor>,
}

/// A neighbor of a training document.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabeledNeighbor {
    pub(super) row: u32,
    /// The Jaccard similarity of the neighbor's labels and the document's labels, from 0 to 1.
    pub(super) agreement: f32,
}

/// Builds the training example of a document from its neighbors. Returns `None` if there are no
/// neighbors, or if all of them have the same agreement with the document.
pub(super) fn build_example(
    found: &LeaveOneOut,
    index: usize,
    among: &TrainingLabels<'_>,
) -> Option<TrainingExample> {
    let (row, voters) = found.get(index);
    let own = among.labels(row);
    let agreement = |other: u32| {
        let others = among.labels(other);
        let both = own.iter().filter(|label| others.binary_search(label).is_ok()).count();
        let all = own.len() + others.len() - both;
        if all == 0 { 0.0 } else { both as f32 / all as f32 }
    };
    let neighbors = voters.ranked().map(|(_, _, neighbor)| neighbor.row);
    let neighbors: Vec<LabeledNeighbor> =
        neighbors.map(|row| LabeledNeighbor { row, agreement: agreement(row) }).collect();
    let agreements = || neighbors.iter().map(|neighbor| neighbor.agreement);
    let min = agreements().fold(1.0, f32::min);
    let max = agreements().fold(0.0, f32::max);
    (min < max).then_some(TrainingExample { row, neighbors })
}
