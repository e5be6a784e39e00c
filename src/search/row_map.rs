//! The mapping from the rows of a part to the rows of the collection.

use std::sync::Arc;

use super::allow::RowSet;
use super::neighbor::row_number;

/// A map from the rows of a part to the rows of the collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMap {
    /// Consecutive rows: row `i` of the part is row `first + i` of the collection.
    From(u32),
    /// Row `i` of the part is row `rows[i]` of the collection. The numbers increase.
    Rows(Arc<[u32]>),
    /// Consecutive rows with gaps: row `kept[i]` of the part is row `first + i` of the collection.
    /// The numbers increase; the other rows of the part were removed.
    Kept {
        /// The number of the first kept row in the collection.
        first: u32,
        /// The rows of the part that still exist, in increasing order.
        kept: Arc<[u32]>,
    },
}

impl RowMap {
    /// Converts a row of the part to a row of the collection. The row must still exist.
    pub(super) fn collection_row(&self, row: u32) -> u32 {
        match self {
            Self::From(first) => first + row,
            Self::Rows(rows) => rows[row as usize],
            Self::Kept { first, kept } => {
                first + row_number(kept.partition_point(|&local| local < row))
            }
        }
    }
}

/// The row map of a part, with its number of rows and the rows that still exist.
#[derive(Debug)]
pub(super) struct PartRows {
    pub(super) map: RowMap,
    /// The number of rows of the part's engine, including removed rows.
    count: u32,
    /// The rows that still exist, if some were removed.
    kept: Option<RowSet>,
}

impl PartRows {
    pub(super) fn new(map: RowMap, count: u32) -> Self {
        let kept = match &map {
            RowMap::Kept { kept, .. } => Some(RowSet::of(count, kept)),
            RowMap::From(_) | RowMap::Rows(_) => None,
        };
        Self { map, count, kept }
    }

    /// The rows that still exist, if some were removed.
    pub(super) fn kept(&self) -> Option<&RowSet> {
        self.kept.as_ref()
    }

    /// Converts a row of the collection to a row of the part. Returns `None` if the part does not
    /// have the row.
    pub(super) fn position(&self, row: u32) -> Option<u32> {
        match &self.map {
            RowMap::From(first) => row.checked_sub(*first).filter(|&local| local < self.count),
            RowMap::Rows(rows) => rows.binary_search(&row).ok().map(row_number),
            RowMap::Kept { first, kept } => kept.get(row.checked_sub(*first)? as usize).copied(),
        }
    }

    /// Returns the first row of the part whose number in the collection is at least `row`.
    pub(super) fn lower_bound(&self, row: u32) -> u32 {
        match &self.map {
            RowMap::From(first) => row.saturating_sub(*first).min(self.count),
            RowMap::Rows(rows) => row_number(rows.partition_point(|&local| local < row)),
            RowMap::Kept { first, kept } => {
                kept.get(row.saturating_sub(*first) as usize).copied().unwrap_or(self.count)
            }
        }
    }

    /// Sets `local` to the rows of the part that belong to `whole`, a set of rows of the
    /// collection.
    pub(super) fn select(&self, whole: &RowSet, local: &mut RowSet) {
        match &self.map {
            RowMap::From(first) => local.copy_range(whole, *first, self.count),
            RowMap::Rows(rows) => {
                local.reset(self.count);
                let members = (0..).zip(&**rows).filter(|&(_, &row)| whole.contains(row));
                members.for_each(|(position, _)| local.insert(position));
            }
            RowMap::Kept { first, kept } => {
                local.reset(self.count);
                let members = (*first..).zip(&**kept).filter(|&(row, _)| whole.contains(row));
                members.for_each(|(_, &position)| local.insert(position));
            }
        }
    }

    /// Returns the values of the part's rows, given a value for each row of the collection. Removed
    /// rows get 0.
    pub(super) fn values_of<'a>(&self, whole: &'a [u32], memory: &'a mut Vec<u32>) -> &'a [u32] {
        match &self.map {
            RowMap::From(first) => return &whole[*first as usize..][..self.count as usize],
            RowMap::Rows(rows) => {
                memory.clear();
                memory.extend(rows.iter().map(|&row| whole[row as usize]));
            }
            RowMap::Kept { first, kept } => {
                memory.clear();
                memory.resize(self.count as usize, 0);
                for (&position, &value) in kept.iter().zip(&whole[*first as usize..]) {
                    memory[position as usize] = value;
                }
            }
        }
        memory
    }
}
