//! The rows that are excluded as neighbors of a document.

use crate::search::RowSet;

/// The rows that are excluded as neighbors of a document, in addition to the document itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exclusion<'a> {
    /// The near-duplicates of each document, which are excluded.
    pub(crate) near: Option<&'a NearDuplicates>,
    /// The group of each row; the rows of a document's group are excluded. Empty: no groups.
    pub(crate) groups: &'a [u32],
    /// Number of rows before and after the document that are excluded. In a chronological corpus,
    /// these rows are from the same period. A new document has no training documents from its own
    /// period.
    pub(crate) window: u32,
    /// Whether the documents are in chronological order. Folds then consist of sections of
    /// consecutive documents.
    pub(crate) is_chronological: bool,
    /// If given, only these rows can be neighbors.
    pub(crate) only: Option<&'a RowSet>,
    /// The [`hashes`](super::folds::hashes) of the rows, which determine their folds. Empty: row
    /// numbers determine the folds.
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
    /// Returns the near-duplicates of a document, in increasing order.
    pub(crate) fn of(&self, row: u32) -> &[u32] {
        let row = row as usize;
        match (self.bounds.get(row), self.bounds.get(row + 1)) {
            (Some(&start), Some(&end)) => &self.rows[start..end],
            _ => &[],
        }
    }

    /// Returns the number of documents that have a near-duplicate.
    pub(crate) fn documents(&self) -> usize {
        self.bounds.windows(2).filter(|bounds| bounds[0] < bounds[1]).count()
    }
}
