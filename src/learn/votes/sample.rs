//! Limits the held-out documents that a vote table contains.

use crate::decide::vote::TrainingLabels;
use crate::learn::held_out::LeaveOneOut;

/// Maximum size of a vote table. Larger tables contain only every n-th document. Without this
/// limit, one training document with a million labels would add a million slots to each document
/// that it is a neighbor of.
const MAX_SIZE: Size = Size { slots: 1 << 24, votes: 1 << 28 };

/// The size of a vote table.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Number of pairs of a document and a label of its neighbors.
    slots: usize,
    /// Number of pairs of a neighbor and one of its labels.
    votes: usize,
}

/// Returns the held-out documents of a vote table: all of them, or every n-th to limit its size.
pub(super) fn sample_documents(found: &LeaveOneOut, among: &TrainingLabels<'_>) -> Vec<usize> {
    sample_up_to(found, among, MAX_SIZE)
}

fn sample_up_to(found: &LeaveOneOut, among: &TrainingLabels<'_>, max: Size) -> Vec<usize> {
    // Most corpora are so small that even the largest number of labels per neighbor fits.
    let longest = among.indptr.windows(2).map(|bounds| bounds[1] - bounds[0]).max().unwrap_or(0);
    let neighbors: usize = (0..found.len()).map(|index| found.get(index).1.ranked().count()).sum();
    if neighbors as u64 * longest <= max.slots.min(max.votes) as u64 {
        return (0..found.len()).collect();
    }
    let mut size = Size { slots: 0, votes: 0 };
    // For each label, the last document that has a neighbor with it.
    let mut seen = vec![usize::MAX; among.sizes.len()];
    for index in 0..found.len() {
        for (_, _, neighbor) in found.get(index).1.ranked() {
            let labels = among.labels(neighbor.row);
            size.votes += labels.len();
            for &label in labels {
                let seen = &mut seen[label as usize];
                size.slots += usize::from(*seen != index);
                *seen = index;
            }
        }
    }
    let step = size.slots.div_ceil(max.slots).max(size.votes.div_ceil(max.votes)).max(1);
    (0..found.len()).step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Neighbor;

    /// Ten documents, each with the next three as neighbors. Document 0 has 50 labels, and each
    /// other document has one label of its own.
    fn neighbors() -> (LeaveOneOut, Vec<u64>, Vec<u32>) {
        let mut indptr = vec![0u64, 50];
        indptr.extend((1..10).map(|row| 50 + row));
        let indices = (0..59).collect();
        let mut found = LeaveOneOut { rows: (0..10).collect(), ..LeaveOneOut::default() };
        for row in 0..10 {
            let next = (1..4).map(|step| Neighbor { row: (row + step) % 10, similarity: 0.5 });
            found.terms.neighbors.extend(next);
            found.terms.bounds.push(found.terms.neighbors.len());
        }
        (found, indptr, indices)
    }

    #[test]
    fn large_tables_contain_every_nth_document() {
        let (found, indptr, indices) = neighbors();
        let weights = [1.0; 10];
        let sizes = [1; 59];
        let among =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        // Three documents have document 0 as a neighbor: 3 · 50 + 27 votes, and the same number of
        // slots.
        let with = |slots, votes| sample_up_to(&found, &among, Size { slots, votes });
        assert_eq!(with(177, 177), (0..10).collect::<Vec<_>>());
        assert_eq!(with(176, 177), [0, 2, 4, 6, 8]);
        assert_eq!(with(177, 176), [0, 2, 4, 6, 8]);
        assert_eq!(with(40, 1_000), [0, 5]);
        assert_eq!(with(1, 1), [0]);
        assert_eq!(sample_documents(&LeaveOneOut::default(), &among), [0; 0]);
    }
}
