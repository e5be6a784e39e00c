//! Lookup of a document's row by its identifier.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::rows::strings::Strings;

/// An index of the first row of each identifier, built by the first lookup.
#[derive(Debug, Default)]
pub(crate) struct RowsById {
    rows: OnceLock<HashTable<u32>>,
    hasher: RandomState,
}

impl RowsById {
    /// Returns the first row with an identifier. `ids` are the identifiers of all rows and must be
    /// the same in every call.
    pub(crate) fn row(&self, ids: &Strings, id: &str) -> Option<u32> {
        let rows = self.rows.get_or_init(|| self.index(ids));
        rows.find(self.hasher.hash_one(id), |&row| ids.get(row as usize) == Some(id)).copied()
    }

    fn index(&self, ids: &Strings) -> HashTable<u32> {
        let id_of = |row: u32| ids.get(row as usize).unwrap_or_default();
        let hash_of = |&row: &u32| self.hasher.hash_one(id_of(row));
        let mut rows = HashTable::with_capacity(ids.len());
        for (row, id) in (0..).zip(ids.iter()) {
            let hash = self.hasher.hash_one(id);
            if let Entry::Vacant(entry) = rows.entry(hash, |&other| id_of(other) == id, hash_of) {
                entry.insert(row);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_rows_is_found() {
        let ids: Strings = ["b", "a", "", "b", "c", "a"].into_iter().collect();
        let rows = RowsById::default();
        for (id, expected) in
            [("a", Some(1)), ("b", Some(0)), ("c", Some(4)), ("", Some(2)), ("d", None)]
        {
            assert_eq!(rows.row(&ids, id), expected, "{id}");
        }
    }

    #[test]
    fn every_row_of_many_is_found() {
        let ids: Strings = (0..5_000).map(|number| format!("document {number}")).collect();
        let rows = RowsById::default();
        for (row, id) in (0..).zip(ids.iter()) {
            assert_eq!(rows.row(&ids, id), Some(row));
        }
        assert_eq!(rows.row(&ids, "document 5000"), None);
    }
}
