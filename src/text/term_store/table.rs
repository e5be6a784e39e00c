//! A hash table from terms to ids.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::term::{PREFIX, Prefix, Term};
use crate::rows::matrix::prefetch;
use crate::rows::strings::Strings;

/// A hash table from terms to ids 0, 1, 2, …. The terms themselves are stored elsewhere; a slot has
/// their first sixteen bytes, so that a lookup usually reads one cache line. At least a quarter of
/// the slots are free, and a term is in the first slot that was free from its own on.
#[derive(Debug, Clone, Default)]
pub(crate) struct TermTable {
    /// A power of two, or none.
    slots: Vec<Slot>,
    terms: u32,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Slot {
    prefix: Prefix,
    /// The length of the term, at most [`LONG`].
    length: u32,
    id: u32,
}

/// No term has this id: there are fewer.
const FREE: Slot = Slot { prefix: Prefix { low: 0, high: 0 }, length: 0, id: u32::MAX };
/// Longer terms are compared by their bytes anyway.
const LONG: usize = PREFIX + 1;
const MIN_SLOTS: usize = 16;

/// A term that its prefix and length determine completely, to be looked up with others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShortTerm {
    prefix: Prefix,
    length: u32,
}

impl ShortTerm {
    /// The term, if it is short.
    #[inline]
    pub(crate) fn of(term: Term<'_>) -> Option<Self> {
        let length = term.bytes().len();
        #[expect(clippy::cast_possible_truncation, reason = "at most 16")]
        let length = (length <= PREFIX).then_some(length as u32)?;
        Some(Self { prefix: term.prefix(), length })
    }

    /// Calls `work` with its text.
    pub(crate) fn with<T>(self, work: impl FnOnce(&str) -> T) -> T {
        let padded = self.prefix.bytes().to_le_bytes();
        work(std::str::from_utf8(&padded[..self.length as usize]).expect("made of a text"))
    }
}

/// The number of terms whose slots are fetched together.
const TOGETHER: usize = 32;

/// Calls `work` with the terms, [`TOGETHER`] at a time.
#[inline]
pub(crate) fn batches(terms: &[ShortTerm], work: impl FnMut(&[ShortTerm])) {
    terms.chunks(TOGETHER).for_each(work);
}

impl TermTable {
    pub(crate) fn of(terms: &Strings) -> Self {
        let slots = vec![FREE; slots_for(terms.len())];
        let mut table = Self { slots, ..Self::default() };
        for term in terms.iter() {
            table.insert(term.into(), |id| terms.bytes(id as usize));
        }
        table
    }

    /// The id of a term; `bytes` gives the bytes of the term with an id.
    #[inline]
    pub(crate) fn find<'a>(&self, term: Term<'_>, bytes: impl Fn(u32) -> &'a [u8]) -> Option<u32> {
        let hash = hash(&self.hasher, term.prefix(), term.bytes());
        let wanted = wanted(term);
        self.find_from(hash, |slot| {
            slot.prefix == wanted.prefix
                && slot.length == wanted.length
                && (term.bytes().len() <= PREFIX
                    || bytes(slot.id)[PREFIX..] == term.bytes()[PREFIX..])
        })
    }

    /// The hashes of a batch. Fetches the slots where its searches begin into the cache, so that
    /// the processor waits for all of them at once instead of one by one.
    #[inline]
    pub(crate) fn touched(&self, batch: &[ShortTerm]) -> [u64; TOGETHER] {
        let mut hashes = [0; TOGETHER];
        for (hash, term) in hashes.iter_mut().zip(batch) {
            *hash = hash_prefix(&self.hasher, term.prefix);
            let first = self.first_slot(*hash);
            prefetch(&self.slots, first);
            #[cfg(not(target_arch = "x86_64"))]
            std::hint::black_box(self.slots.get(first).map(|slot| slot.id));
        }
        hashes
    }

    /// The id of a short term with this hash.
    #[inline]
    pub(crate) fn find_short(&self, hash: u64, term: ShortTerm) -> Option<u32> {
        self.find_from(hash, |slot| slot.prefix == term.prefix && slot.length == term.length)
    }

    #[inline]
    fn find_from(&self, hash: u64, same: impl Fn(&Slot) -> bool) -> Option<u32> {
        let mut at = self.first_slot(hash);
        // Without slots there is none at 0.
        let mut slot = self.slots.get(at)?;
        while slot.id != FREE.id {
            if same(slot) {
                return Some(slot.id);
            }
            at = (at + 1) & (self.slots.len() - 1);
            slot = &self.slots[at];
        }
        None
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "its lowest bits")]
        let hash = hash as usize;
        hash & self.slots.len().wrapping_sub(1)
    }

    /// Adds a term that is not in the table yet, with the next id. `bytes` gives those of earlier
    /// terms.
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
        self.place(hash, Slot { id, ..wanted(term) });
        id
    }

    /// Doubles the number of slots.
    #[cold]
    fn grow<'a>(&mut self, bytes: impl Fn(u32) -> &'a [u8]) {
        let more = (2 * self.slots.len()).max(MIN_SLOTS);
        for slot in std::mem::replace(&mut self.slots, vec![FREE; more]) {
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

    /// Puts `new` into the first free slot.
    fn place(&mut self, hash: u64, new: Slot) {
        let mut at = self.first_slot(hash);
        while self.slots[at].id != FREE.id {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = new;
    }

    pub(crate) fn clear(&mut self) {
        self.slots.fill(FREE);
        self.terms = 0;
    }
}

/// The minimum number of slots for this many terms.
fn slots_for(terms: usize) -> usize {
    if terms == 0 { 0 } else { (terms + terms.div_ceil(3)).next_power_of_two().max(MIN_SLOTS) }
}

/// The slot of a term, without its id.
#[inline]
fn wanted(term: Term<'_>) -> Slot {
    #[expect(clippy::cast_possible_truncation, reason = "at most 17")]
    let length = term.bytes().len().min(LONG) as u32;
    Slot { prefix: term.prefix(), length, ..FREE }
}

/// The hash of a term. Usually the prefix is the complete term, and faster to hash than bytes.
#[inline]
fn hash(hasher: &RandomState, prefix: Prefix, term: &[u8]) -> u64 {
    if term.len() <= PREFIX { hash_prefix(hasher, prefix) } else { hasher.hash_one(term) }
}

#[inline]
fn hash_prefix(hasher: &RandomState, prefix: Prefix) -> u64 {
    hasher.hash_one(prefix.bytes())
}
