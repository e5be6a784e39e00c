//! Terms ↔ ids and document frequencies: counted in training, frozen in the model.
//!
//! Text terms are numbered in byte order of their UTF-8, feature columns in numerical order: a
//! corpus gives the same ids regardless of the number of threads.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::analyze::Dictionary;
use crate::matrix::Array;
use crate::strings::Strings;

/// The terms of a model.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    terms: Strings,
    document_frequencies: Array<u32>,
    lookup: Lookup,
}

#[derive(Debug, Clone)]
enum Lookup {
    Terms(TermTable),
    Columns(Columns),
}

/// Columns and their ids.
#[derive(Debug, Clone)]
struct Columns {
    /// The columns by id, in increasing order.
    columns: Vec<u32>,
    /// The id of each column up to the last, or [`NO_ID`]; empty if the columns are far apart.
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
    /// Columns of given features, as decimal numbers.
    Columns,
}

impl Vocabulary {
    /// Creates a vocabulary from sorted terms and the number of documents that contain each.
    ///
    /// # Errors
    /// A description of the problem: terms out of order, columns that are not numbers, or different
    /// numbers of terms and frequencies.
    pub(crate) fn new(
        kind: TermKind,
        terms: Strings,
        document_frequencies: Array<u32>,
    ) -> Result<Self, String> {
        let (found, expected) = (document_frequencies.len(), terms.len());
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
                Lookup::Terms(TermTable::of(&terms))
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

    /// Whether there are no terms.
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

    /// The term with an id, or `None` if there is no such id.
    pub fn term(&self, id: u32) -> Option<&str> {
        self.terms.get(id as usize)
    }

    /// The id of a text term.
    pub fn id(&self, term: &str) -> Option<u32> {
        match &self.lookup {
            Lookup::Terms(table) => table.find(term, |id| self.terms.bytes(id as usize)),
            Lookup::Columns(_) => self.column_id(term.parse().ok()?),
        }
    }

    /// The id of a feature column.
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
    fn id(&mut self, term: &str) -> Option<u32> {
        Vocabulary::id(self, term)
    }
}

/// A hash table from terms to ids. The terms are stored elsewhere: the table holds only their first
/// sixteen bytes and their lengths, which decide nearly all lookups.
#[derive(Debug, Clone, Default)]
struct TermTable {
    table: HashTable<Entry>,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    prefix: u128,
    length: u32,
    id: u32,
}

const PREFIX: usize = 16;

/// The first sixteen bytes of a term, padded with zeros. Read as two halves that may overlap,
/// because copying so few bytes would cost a function call.
fn prefix(term: &[u8]) -> u128 {
    fn halves<const N: usize>(term: &[u8], number: impl Fn([u8; N]) -> u128) -> Option<u128> {
        let (first, last) = (*term.first_chunk()?, *term.last_chunk()?);
        Some(number(first) | number(last) << (8 * (term.len() - N)))
    }
    if let Some(&chunk) = term.first_chunk() {
        return u128::from_le_bytes(chunk);
    }
    halves(term, |half| u128::from(u64::from_le_bytes(half)))
        .or_else(|| halves(term, |half| u128::from(u32::from_le_bytes(half))))
        .or_else(|| halves(term, |half| u128::from(u16::from_le_bytes(half))))
        .unwrap_or_else(|| term.first().map_or(0, |&byte| byte.into()))
}

impl TermTable {
    fn of(terms: &Strings) -> Self {
        let mut table = Self::default();
        table.table.reserve(terms.len(), |_| 0);
        for (id, term) in (0..).zip(terms.iter()) {
            table.insert(term, id, |id| terms.bytes(id as usize));
        }
        table
    }

    fn find<'a>(&self, term: &str, bytes: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        let term = term.as_bytes();
        let prefix = prefix(term);
        let hash = hash(&self.hasher, prefix, term.len(), || term);
        let same = |entry: &Entry| {
            entry.prefix == prefix
                && entry.length as usize == term.len()
                && (term.len() <= PREFIX || bytes(entry.id)[PREFIX..] == term[PREFIX..])
        };
        self.table.find(hash, same).map(|entry| entry.id)
    }

    /// Adds a term that is not in the table yet.
    fn insert<'a>(&mut self, term: &str, id: u32, bytes: impl Fn(u32) -> &'a [u8]) {
        let term = term.as_bytes();
        let length = u32::try_from(term.len()).expect("terms of less than 4 GiB");
        let entry = Entry { prefix: prefix(term), length, id };
        let hasher = &self.hasher;
        let hash_of =
            |entry: &Entry| hash(hasher, entry.prefix, entry.length as usize, || bytes(entry.id));
        // The new term may not be stored with the others yet.
        let own = hash(hasher, entry.prefix, term.len(), || term);
        self.table.insert_unique(own, entry, hash_of);
    }
}

/// The hash of a term. Usually the prefix is the complete term, and faster to hash than bytes.
fn hash<'a>(
    hasher: &RandomState,
    prefix: u128,
    length: usize,
    bytes: impl FnOnce() -> &'a [u8],
) -> u64 {
    if length <= PREFIX { hasher.hash_one(prefix) } else { hasher.hash_one(bytes()) }
}

/// Terms numbered in the order of their first occurrence.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    table: TermTable,
    text: String,
    ends: Vec<usize>,
}

impl Interner {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn term(&self, id: u32) -> &str {
        &self.text[bounds(&self.ends, id)]
    }
}

/// The range of term `id` in an interner's text.
fn bounds(ends: &[usize], id: u32) -> std::ops::Range<usize> {
    let id = id as usize;
    if id == 0 { 0..ends[0] } else { ends[id - 1]..ends[id] }
}

impl Dictionary for Interner {
    fn id(&mut self, term: &str) -> Option<u32> {
        let Self { table, text, ends } = self;
        if let Some(id) = table.find(term, |id| &text.as_bytes()[bounds(ends, id)]) {
            return Some(id);
        }
        let id = u32::try_from(ends.len()).ok()?;
        text.push_str(term);
        ends.push(text.len());
        table.insert(term, id, |id| &text.as_bytes()[bounds(ends, id)]);
        Some(id)
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

    #[test]
    fn prefixes() {
        let term = b"abcdefghijklmnopqrstuvwxyz";
        for length in 0..=term.len() {
            let mut padded = [0; PREFIX];
            let shown = length.min(PREFIX);
            padded[..shown].copy_from_slice(&term[..shown]);
            assert_eq!(prefix(&term[..length]), u128::from_le_bytes(padded), "{length} bytes");
        }
    }
}
