//! Assigns ids to terms in order of first occurrence.

use std::ops::Range;

use super::dictionary::Dictionary;
use super::table::{ShortTerm, TermTable, for_each_batch};
use super::term::Term;

/// A set of terms with ids in order of first occurrence.
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

    /// Returns the id of a term, or `None` if the term has not occurred.
    pub(crate) fn find(&self, term: &str) -> Option<u32> {
        self.table.find(term.into(), |id| &self.text.as_bytes()[bounds(&self.ends, id)])
    }

    pub(crate) fn term(&self, id: u32) -> &str {
        &self.text[bounds(&self.ends, id)]
    }

    /// The total number of bytes of the terms.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Appends the ids of terms to `ids`. This is faster than looking up terms one by one.
    ///
    /// # Panics
    /// If there are 2³² - 1 terms.
    pub(crate) fn ids_of<'a>(&mut self, terms: impl Iterator<Item = &'a str>, ids: &mut Vec<u32>) {
        let mut short = Vec::new();
        let flush = |interner: &mut Self, short: &mut Vec<ShortTerm>, ids: &mut Vec<u32>| {
            interner.ids(short, |id| ids.push(id.expect("fewer than 2^32 terms")));
            short.clear();
        };
        for term in terms {
            let term = Term::from(term);
            if let Some(term) = ShortTerm::of(term) {
                short.push(term);
            } else {
                flush(self, &mut short, ids);
                ids.push(self.id(term).expect("fewer than 2^32 terms"));
            }
        }
        flush(self, &mut short, ids);
    }

    /// Adds a new term and returns its id, or `None` if there are no more ids.
    #[cold]
    fn insert(&mut self, term: Term<'_>) -> Option<u32> {
        let Self { table, text, ends } = self;
        if ends.len() >= u32::MAX as usize {
            return None;
        }
        text.push_str(term.text());
        ends.push(text.len());
        Some(table.insert(term, |id| &text.as_bytes()[bounds(ends, id)]))
    }

    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.text.clear();
        self.ends.clear();
    }
}

/// Returns the range of term `id` in an interner's text.
fn bounds(ends: &[usize], id: u32) -> Range<usize> {
    let id = id as usize;
    if id == 0 { 0..ends[0] } else { ends[id - 1]..ends[id] }
}

impl Dictionary for Interner {
    #[inline]
    fn id(&mut self, term: Term<'_>) -> Option<u32> {
        let Self { table, text, ends } = &*self;
        if let Some(id) = table.find(term, |id| &text.as_bytes()[bounds(ends, id)]) {
            return Some(id);
        }
        self.insert(term)
    }

    #[inline]
    fn ids(&mut self, terms: &[ShortTerm], mut found: impl FnMut(Option<u32>)) {
        for_each_batch(terms, |batch| {
            let hashes = self.table.hash_and_prefetch(batch);
            for (&term, &hash) in batch.iter().zip(&hashes) {
                let id = self.table.find_short(hash, term);
                found(id.or_else(|| term.with_text(|text| self.insert(text.into()))));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Includes terms around the length of prefixes, 16 bytes, and of 255 bytes. Terms may
        /// contain zeros, which also pad prefixes.
        #[test]
        fn numbers_terms_as_they_occur(
            terms in prop::collection::vec(
                ("[a\0]{0,3}", prop::sample::select(vec![0, 13, 15, 16, 250, 253, 300])),
                0..60,
            )
        ) {
            let mut interner = Interner::default();
            let mut expected = HashMap::new();
            for round in 0..2 {
                for (end, length) in &terms {
                    let term = format!("{}{end}", "x".repeat(*length));
                    let next = u32::try_from(expected.len()).unwrap();
                    let id = *expected.entry(term.clone()).or_insert(next);
                    prop_assert_eq!(interner.id(term.as_str().into()), Some(id), "round {}", round);
                    prop_assert_eq!(interner.term(id), &term);
                    prop_assert_eq!(interner.find(&term), Some(id));
                    prop_assert_eq!(interner.find(&format!("{term}b")), None);
                }
            }
            prop_assert_eq!(interner.len(), expected.len());
            // Repeat with batches.
            let mut interner = Interner::default();
            let mut expected = HashMap::new();
            let short: Vec<String> = terms
                .iter()
                .map(|(end, length)| format!("{}{end}", "x".repeat(length % 16)))
                .filter(|term| term.len() <= 16)
                .collect();
            for round in 0..2 {
                let mut found = Vec::new();
                let batch: Vec<ShortTerm> =
                    short.iter().map(|term| ShortTerm::of(term.as_str().into()).unwrap()).collect();
                interner.ids(&batch, |id| found.push(id.unwrap()));
                for (term, id) in short.iter().zip(found) {
                    let next = u32::try_from(expected.len()).unwrap();
                    let expected = *expected.entry(term.clone()).or_insert(next);
                    prop_assert_eq!(id, expected, "round {}", round);
                    prop_assert_eq!(interner.term(id), term);
                    prop_assert_eq!(interner.find(term), Some(id));
                }
            }
            interner.clear();
            prop_assert_eq!((interner.len(), interner.bytes()), (0, 0));
            prop_assert_eq!(interner.id("a".into()), Some(0));
        }
    }
}
