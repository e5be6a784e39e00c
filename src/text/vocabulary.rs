//! Maps terms to ids and document frequencies. The vocabulary is built in training and does not
//! change later.
//!
//! Ids follow the byte order of text terms and the numerical order of feature columns. A corpus
//! therefore gives the same ids regardless of the number of threads.

use std::sync::OnceLock;

use crate::rows::matrix::Array;
use crate::rows::strings::Strings;
use crate::text::term_store::{Dictionary, ShortTerm, Term, TermTable, for_each_batch};

/// The terms of a model, with their ids and document frequencies.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    terms: Strings,
    document_frequencies: Array<u32>,
    lookup: Lookup,
}

#[derive(Debug, Clone)]
enum Lookup {
    /// A table that is built for the first lookup: it takes up to 48 bytes per term, and tuning
    /// counts vocabularies in which it looks nothing up.
    Terms(OnceLock<TermTable>),
    Columns(Columns),
}

/// A map from columns to ids.
#[derive(Debug, Clone)]
struct Columns {
    /// The columns by id, in increasing order.
    columns: Vec<u32>,
    /// The id of each column up to the last, or [`NO_ID`]; empty if the columns are too sparse.
    ids: Vec<u32>,
}

const NO_ID: u32 = u32::MAX;

impl Columns {
    fn new(columns: Vec<u32>) -> Self {
        let length = columns.last().map_or(0, |&last| last as usize + 1);
        let mut ids = Vec::new();
        if length <= 16 * columns.len() + (1 << 16) {
            ids.resize(length, NO_ID);
            for (id, &column) in (0..).zip(&columns) {
                ids[column as usize] = id;
            }
        }
        Self { columns, ids }
    }

    fn id(&self, column: u32) -> Option<u32> {
        if self.ids.is_empty() {
            return u32::try_from(self.columns.binary_search(&column).ok()?).ok();
        }
        self.ids.get(column as usize).copied().filter(|&id| id != NO_ID)
    }
}

/// The kind of terms in a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TermKind {
    /// Terms of analyzed text.
    Text,
    /// Feature columns, as decimal numbers.
    Columns,
}

impl Vocabulary {
    /// Creates a vocabulary from sorted terms and the number of documents that contain each.
    ///
    /// # Errors
    /// If terms are out of order, a column is not a number, or the numbers of terms and frequencies
    /// differ. The error describes the problem.
    pub(crate) fn new(
        kind: TermKind,
        terms: Strings,
        document_frequencies: Array<u32>,
    ) -> Result<Self, String> {
        let found = document_frequencies.len();
        let expected = terms.len();
        if found != expected {
            return Err(format!("{expected} terms, but {found} document frequencies"));
        }
        let lookup = match kind {
            TermKind::Text => {
                for index in 1..terms.len() {
                    if terms.bytes(index - 1) >= terms.bytes(index) {
                        return Err(format!("term {index} is out of order"));
                    }
                }
                Lookup::Terms(OnceLock::new())
            }
            TermKind::Columns => {
                let columns: Result<Vec<u32>, _> = terms.iter().map(str::parse).collect();
                let columns = columns.map_err(|_| "a column is not a number".to_owned())?;
                if !columns.is_sorted_by(|a, b| a < b) {
                    return Err("columns are out of order".to_owned());
                }
                Lookup::Columns(Columns::new(columns))
            }
        };
        Ok(Self { terms, document_frequencies, lookup })
    }

    /// The number of terms.
    pub fn len(&self) -> usize {
        self.document_frequencies.len()
    }

    /// Returns whether there are no terms.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kind of the terms.
    pub fn kind(&self) -> TermKind {
        match self.lookup {
            Lookup::Terms(_) => TermKind::Text,
            Lookup::Columns(_) => TermKind::Columns,
        }
    }

    /// Returns the term with an id, or `None` if there is no such id.
    pub fn term(&self, id: u32) -> Option<&str> {
        self.terms.get(id as usize)
    }

    /// Returns the id of a term, or `None` if it is not in the vocabulary.
    pub fn id(&self, term: &str) -> Option<u32> {
        self.id_of(term.into())
    }

    /// Builds the table for lookups, so that the first one does not wait for it.
    pub(crate) fn prepare_lookups(&self) {
        if let Lookup::Terms(table) = &self.lookup {
            self.table(table);
        }
    }

    #[inline]
    fn table<'a>(&self, table: &'a OnceLock<TermTable>) -> &'a TermTable {
        table.get_or_init(|| TermTable::new(&self.terms))
    }

    fn id_of(&self, term: Term<'_>) -> Option<u32> {
        match &self.lookup {
            Lookup::Terms(table) => {
                self.table(table).find(term, |id| self.terms.bytes(id as usize))
            }
            Lookup::Columns(_) => self.column_id(term.text().parse().ok()?),
        }
    }

    /// Returns the id of a feature column, or `None` if it is not in the vocabulary.
    pub fn column_id(&self, column: u32) -> Option<u32> {
        match &self.lookup {
            Lookup::Terms(_) => None,
            Lookup::Columns(columns) => columns.id(column),
        }
    }

    /// The number of training documents that contain each term, by id.
    pub fn document_frequencies(&self) -> &[u32] {
        &self.document_frequencies
    }

    pub(crate) fn terms(&self) -> &Strings {
        &self.terms
    }
}

impl Dictionary for &Vocabulary {
    #[inline]
    fn id(&mut self, term: Term<'_>) -> Option<u32> {
        self.id_of(term)
    }

    #[inline]
    fn ids(&mut self, terms: &[ShortTerm], mut found: impl FnMut(Option<u32>)) {
        match &self.lookup {
            Lookup::Terms(table) => {
                let table = self.table(table);
                for_each_batch(terms, |batch| {
                    let hashes = table.hash_and_prefetch(batch);
                    for (&term, &hash) in batch.iter().zip(&hashes) {
                        found(table.find_short(hash, term));
                    }
                });
            }
            Lookup::Columns(_) => {
                for term in terms {
                    found(term.with_text(|text| Vocabulary::id(self, text)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_columns() {
        for columns in [vec![], vec![0], vec![3, 5, 900], vec![7, u32::MAX - 1, u32::MAX]] {
            let found = Columns::new(columns.clone());
            for column in
                columns.iter().flat_map(|&c| [c.saturating_sub(1), c, c.saturating_add(1)])
            {
                let id = columns.binary_search(&column).ok().map(|id| u32::try_from(id).unwrap());
                assert_eq!(found.id(column), id, "{column} in {columns:?}");
            }
            assert_eq!(found.id(40), None);
        }
    }
}
