//! Documents that are not neighbors of each other.

use crate::search::RowSet;

/// The rows that are excluded as neighbors of a document, in addition to the document itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exclusion<'a> {
    /// Excludes the document's near-duplicates.
    pub(crate) near: Option<&'a NearDuplicates>,
    /// Excludes rows of the document's group: one group per row. Empty: no groups.
    pub(crate) groups: &'a [u32],
    /// Excludes this many rows before and after the document. In a chronological corpus these are
    /// from the same days, whereas a later test document has no training document from its own
    /// days.
    pub(crate) window: u32,
    /// Whether the documents are in chronological order. Folds are then made of stretches of
    /// consecutive documents.
    pub(crate) is_chronological: bool,
    /// Only these rows are neighbors.
    pub(crate) only: Option<&'a RowSet>,
    /// The [`hashes`](super::folds::hashes) of the rows, by which they are dealt to folds. Empty:
    /// they are dealt by their numbers.
    pub(crate) hashes: &'a [u64],
}

/// The near-duplicates of each document.
#[derive(Debug, Clone, Default)]
pub(crate) struct NearDuplicates {
    /// The near-duplicates of document `i` are `rows[bounds[i]..bounds[i + 1]]`.
    pub(super) bounds: Vec<usize>,
    pub(super) rows: Vec<u32>,
}

impl NearDuplicates {
    /// The near-duplicates of a document, in increasing order.
    pub(crate) fn of(&self, row: u32) -> &[u32] {
        let row = row as usize;
        match (self.bounds.get(row), self.bounds.get(row + 1)) {
            (Some(&start), Some(&end)) => &self.rows[start..end],
            _ => &[],
        }
    }

    /// The number of documents that have a near-duplicate.
    pub(crate) fn documents(&self) -> usize {
        self.bounds.windows(2).filter(|bounds| bounds[0] < bounds[1]).count()
    }
}
