//! A hash table from terms to ids.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::analyze::{PREFIX, Prefix, Term};
use crate::strings::Strings;

/// A hash table from terms to ids 0, 1, 2, …. The terms themselves are stored elsewhere. The table has eight bytes
/// per term, and the terms' first sixteen bytes in the order of their ids: where frequent terms have
/// low ids, as they have when terms are numbered as they occur, few cache lines answer most lookups.
#[derive(Debug, Clone, Default)]
pub(super) struct TermTable {
    table: HashTable<Entry>,
    prefixes: Vec<Prefix>,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u32,
    /// Bits of the hash, and the length up to 255 in the lowest byte.
    tag: u32,
}

/// The tag of a term with this hash and length.
fn tag(hash: u64, length: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the middle bits, and at most 255")]
    let tag = (hash >> 16) as u32 & !0xff | length.min(0xff) as u32;
    tag
}

impl TermTable {
    pub(super) fn of(terms: &Strings) -> Self {
        let mut table = Self::default();
        table.table.reserve(terms.len(), |_| 0);
        table.prefixes.reserve(terms.len());
        for term in terms.iter() {
            table.insert(term.into(), |id| terms.bytes(id as usize));
        }
        table
    }

    /// The id of a term; `bytes` gives the bytes of the term with an id.
    #[inline]
    pub(super) fn find<'a>(&self, term: Term<'_>, bytes: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        let hash = hash(&self.hasher, term.prefix(), term.bytes());
        let tag = tag(hash, term.bytes().len());
        let same = |entry: &Entry| {
            entry.tag == tag
                && self.prefixes[entry.id as usize] == term.prefix()
                && (term.bytes().len() <= PREFIX
                    || bytes(entry.id)[PREFIX..] == term.bytes()[PREFIX..])
        };
        self.table.find(hash, same).map(|entry| entry.id)
    }

    /// Adds a term that is not in the table yet, with the next id.
    ///
    /// # Panics
    /// If there are 2³² terms.
    pub(super) fn insert<'a>(&mut self, term: Term<'_>, bytes: impl Fn(u32) -> &'a [u8]) -> u32 {
        let Self { table, prefixes, hasher } = self;
        let id = u32::try_from(prefixes.len()).expect("fewer than 2^32 terms");
        // The new term may not be stored with the others yet.
        let own = hash(hasher, term.prefix(), term.bytes());
        prefixes.push(term.prefix());
        let entry = Entry { id, tag: tag(own, term.bytes().len()) };
        table.insert_unique(own, entry, |entry| {
            let prefix = prefixes[entry.id as usize];
            if (entry.tag & 0xff) as usize <= PREFIX {
                hash_prefix(hasher, prefix)
            } else {
                hash(hasher, prefix, bytes(entry.id))
            }
        });
        id
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.prefixes.clear();
    }
}

/// The hash of a term. Usually the prefix is the complete term, and faster to hash than bytes.
#[inline]
fn hash(hasher: &RandomState, prefix: Prefix, term: &[u8]) -> u64 {
    if term.len() <= PREFIX { hash_prefix(hasher, prefix) } else { hasher.hash_one(term) }
}

#[inline]
fn hash_prefix(hasher: &RandomState, [low, high]: Prefix) -> u64 {
    hasher.hash_one(u128::from(high) << 64 | u128::from(low))
}
