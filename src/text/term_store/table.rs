//! A hash table from terms to ids.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::term::{PREFIX, Prefix, Term};
use crate::rows::matrix::prefetch;
use crate::rows::strings::Strings;

/// A hash table from terms to ids 0, 1, 2, …. The terms themselves are stored elsewhere. A slot
/// contains the first sixteen bytes of a term, so a lookup usually reads one cache line. The table
/// uses linear probing, and at least a quarter of the slots are free.
#[derive(Debug, Clone, Default)]
pub(crate) struct TermTable {
    /// The slots. Their number is 0 or a power of two.
    slots: Vec<Slot>,
    terms: u32,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Slot {
    prefix: Prefix,
    /// The length of the term, capped at [`MAX_STORED_LENGTH`].
    length: u32,
    id: u32,
}

/// An empty slot. No term has its id, because there are fewer terms.
const FREE: Slot = Slot { prefix: Prefix { low: 0, high: 0 }, length: 0, id: u32::MAX };
/// The cap on stored lengths. Longer terms are also compared by their bytes.
const MAX_STORED_LENGTH: usize = PREFIX + 1;
const MIN_SLOTS: usize = 16;

/// A term that is completely determined by its prefix and length, for batch lookups.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShortTerm {
    prefix: Prefix,
    length: u32,
}

impl ShortTerm {
    /// Returns the term if it is short, that is, at most sixteen bytes.
    #[inline]
    pub(crate) fn of(term: Term<'_>) -> Option<Self> {
        let length = term.bytes().len();
        #[expect(clippy::cast_possible_truncation, reason = "at most 16")]
        let length = (length <= PREFIX).then_some(length as u32)?;
        Some(Self { prefix: term.prefix(), length })
    }

    /// Calls `work` with the text of the term.
    pub(crate) fn with_text<T>(self, work: impl FnOnce(&str) -> T) -> T {
        let padded = self.prefix.bytes().to_le_bytes();
        work(std::str::from_utf8(&padded[..self.length as usize]).expect("the prefix of a string"))
    }
}

/// The number of terms whose slots are prefetched together.
const BATCH: usize = 32;

/// Calls `work` with batches of [`BATCH`] terms.
#[inline]
pub(crate) fn for_each_batch(terms: &[ShortTerm], work: impl FnMut(&[ShortTerm])) {
    terms.chunks(BATCH).for_each(work);
}

impl TermTable {
    pub(crate) fn new(terms: &Strings) -> Self {
        let slots = vec![FREE; slots_for(terms.len())];
        let mut table = Self { slots, ..Self::default() };
        for term in terms.iter() {
            table.insert(term.into(), |id| terms.bytes(id as usize));
        }
        table
    }

    /// Returns the id of a term. `bytes` returns the bytes of the term with a given id.
    #[inline]
    pub(crate) fn find<'a>(&self, term: Term<'_>, bytes: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        let hash = hash(&self.hasher, term.prefix(), term.bytes());
        let expected = slot_without_id(term);
        self.find_from(hash, |slot| {
            slot.prefix == expected.prefix
                && slot.length == expected.length
                && (term.bytes().len() <= PREFIX
                    || bytes(slot.id)[PREFIX..] == term.bytes()[PREFIX..])
        })
    }

    /// Returns the hashes of a batch, and prefetches the slots where the searches begin, so that
    /// the cache misses overlap.
    #[inline]
    pub(crate) fn hash_and_prefetch(&self, batch: &[ShortTerm]) -> [u64; BATCH] {
        let mut hashes = [0; BATCH];
        for (hash, term) in hashes.iter_mut().zip(batch) {
            *hash = hash_prefix(&self.hasher, term.prefix);
            let first = self.first_slot(*hash);
            prefetch(&self.slots, first);
            #[cfg(not(target_arch = "x86_64"))]
            std::hint::black_box(self.slots.get(first).map(|slot| slot.id));
        }
        hashes
    }

    /// Returns the id of a short term, given its hash.
    #[inline]
    pub(crate) fn find_short(&self, hash: u64, term: ShortTerm) -> Option<u32> {
        self.find_from(hash, |slot| slot.prefix == term.prefix && slot.length == term.length)
    }

    #[inline]
    fn find_from(&self, hash: u64, is_match: impl Fn(&Slot) -> bool) -> Option<u32> {
        let mut index = self.first_slot(hash);
        // An empty table has no slot 0.
        let mut slot = self.slots.get(index)?;
        while slot.id != FREE.id {
            if is_match(slot) {
                return Some(slot.id);
            }
            index = (index + 1) & (self.slots.len() - 1);
            slot = &self.slots[index];
        }
        None
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are used")]
        let hash = hash as usize;
        hash & self.slots.len().wrapping_sub(1)
    }

    /// Adds a term that is not in the table yet, and returns its id. `bytes` returns the bytes of
    /// the term with a given id.
    ///
    /// # Panics
    /// If there are 2³² - 1 terms.
    pub(crate) fn insert<'a>(&mut self, term: Term<'_>, bytes: impl Fn(u32) -> &'a [u8]) -> u32 {
        let id = self.terms;
        assert!(id < FREE.id, "fewer than 2^32 - 1 terms");
        if self.slots.len() < slots_for(id as usize + 1) {
            self.grow(bytes);
        }
        self.terms += 1;
        let hash = hash(&self.hasher, term.prefix(), term.bytes());
        self.place(hash, Slot { id, ..slot_without_id(term) });
        id
    }

    /// Doubles the number of slots.
    #[cold]
    fn grow<'a>(&mut self, bytes: impl Fn(u32) -> &'a [u8]) {
        let slot_count = (2 * self.slots.len()).max(MIN_SLOTS);
        for slot in std::mem::replace(&mut self.slots, vec![FREE; slot_count]) {
            if slot.id == FREE.id {
                continue;
            }
            let hash = if slot.length as usize <= PREFIX {
                hash_prefix(&self.hasher, slot.prefix)
            } else {
                hash(&self.hasher, slot.prefix, bytes(slot.id))
            };
            self.place(hash, slot);
        }
    }

    /// Stores `new` in the first free slot for this hash.
    fn place(&mut self, hash: u64, new: Slot) {
        let mut index = self.first_slot(hash);
        while self.slots[index].id != FREE.id {
            index = (index + 1) & (self.slots.len() - 1);
        }
        self.slots[index] = new;
    }

    pub(crate) fn clear(&mut self) {
        self.slots.fill(FREE);
        self.terms = 0;
    }
}

/// Returns the minimum number of slots for a number of terms.
fn slots_for(terms: usize) -> usize {
    if terms == 0 { 0 } else { (terms + terms.div_ceil(3)).next_power_of_two().max(MIN_SLOTS) }
}

/// Returns the slot of a term, without its id.
#[inline]
fn slot_without_id(term: Term<'_>) -> Slot {
    #[expect(clippy::cast_possible_truncation, reason = "at most 17")]
    let length = term.bytes().len().min(MAX_STORED_LENGTH) as u32;
    Slot { prefix: term.prefix(), length, ..FREE }
}

/// Returns the hash of a term. The prefix, which usually contains the whole term, is faster to hash
/// than the bytes.
#[inline]
fn hash(hasher: &RandomState, prefix: Prefix, term: &[u8]) -> u64 {
    if term.len() <= PREFIX { hash_prefix(hasher, prefix) } else { hasher.hash_one(term) }
}

#[inline]
fn hash_prefix(hasher: &RandomState, prefix: Prefix) -> u64 {
    hasher.hash_one(prefix.bytes())
}
