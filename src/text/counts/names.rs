//! The terms of a shard and their order in the vocabulary.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::text::term_store::{Interner, PREFIX, Prefix, Term};

/// The terms of a shard.
pub(super) enum Names<'a> {
    Texts(&'a Interner),
    Columns(Vec<u32>),
}

impl Names<'_> {
    /// Returns the sort key of the shard's term `term`.
    pub(super) fn key(&self, term: u32) -> Key<'_> {
        match self {
            Self::Texts(interner) => Key::text(interner.term(term)),
            Self::Columns(names) => Key::Column(names[term as usize]),
        }
    }
}

/// A sort key that orders terms as in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'a> {
    /// The first sixteen bytes, which nearly always determine the order, and the term.
    Text([u64; 2], Rest<'a>),
    Column(u32),
}

impl<'a> Key<'a> {
    fn text(term: &'a str) -> Self {
        // Make the first byte the most significant, as in the order of strings.
        let Prefix { low, high } = Term::from(term).prefix();
        Self::Text([low, high].map(u64::swap_bytes), Rest(term))
    }
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match *self {
            Self::Text(prefix, Rest(term)) => {
                prefix.hash(state);
                term.as_bytes().get(PREFIX..).hash(state);
            }
            Self::Column(column) => column.hash(state),
        }
    }
}

/// A term that is compared only with terms that have the same first sixteen bytes. Shorter terms
/// are padded with zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest<'a>(pub(super) &'a str);

impl Ord for Rest<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let one = self.0.as_bytes();
        let other = other.0.as_bytes();
        match (one.get(PREFIX..), other.get(PREFIX..)) {
            (Some(one), Some(other)) => one.cmp(other),
            // The terms are equal, or one is a prefix of the other.
            _ => one.len().cmp(&other.len()),
        }
    }
}

impl PartialOrd for Rest<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rest<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rest<'_> {}
