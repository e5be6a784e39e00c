//! Merges the terms of all shards into one vocabulary.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroUsize;

use foldhash::fast::RandomState;
use rayon::prelude::*;

use super::names::{Key, Names, Rest};
use super::options::TermLimits;
use super::shard::Shard;
use crate::text::vocabulary::{TermKind, Vocabulary};

/// Marks a term that is not in the vocabulary.
pub(super) const DROPPED: u32 = u32::MAX;

/// The number of hash partitions in [`unite`]: several per thread, to balance the load.
const PARTS: u8 = 128;

/// The terms of a shard, grouped by partition.
struct PartIndex {
    terms: Vec<u32>,
    /// The start of each partition in `terms`, and the number of terms.
    starts: Vec<u32>,
}

impl PartIndex {
    fn of(parts: &[u8]) -> Self {
        let mut starts = vec![0; usize::from(PARTS) + 1];
        for &part in parts {
            starts[usize::from(part) + 1] += 1;
        }
        for part in 0..usize::from(PARTS) {
            starts[part + 1] += starts[part];
        }
        let mut places = starts.clone();
        let mut terms = vec![0; parts.len()];
        for (term, &part) in (0..).zip(parts) {
            let place = &mut places[usize::from(part)];
            terms[*place as usize] = term;
            *place += 1;
        }
        Self { terms, starts }
    }

    fn part(&self, part: u8) -> &[u32] {
        let part = usize::from(part);
        &self.terms[self.starts[part] as usize..self.starts[part + 1] as usize]
    }
}

/// The terms of all shards in one partition, in arbitrary order.
#[derive(Default)]
struct Part<'a> {
    terms: Vec<Key<'a>>,
    document_frequencies: Vec<u32>,
    /// For each shard, the indices in `terms` of its terms in this partition.
    places: Vec<Vec<u32>>,
}

impl<'a> Part<'a> {
    fn unite(
        shards: &[Shard<'_>],
        names: &'a [Names<'a>],
        parted: &[PartIndex],
        part: u8,
        hasher: &RandomState,
    ) -> Self {
        let mut merged = Self::default();
        let mut known: HashMap<Key<'a>, u32, _> = HashMap::with_hasher(hasher.clone());
        for ((shard, names), parted) in shards.iter().zip(names).zip(parted) {
            let place = |&term: &u32| {
                let key = names.key(term);
                let frequency = shard.term_states[term as usize].document_frequency;
                let next = u32::try_from(merged.terms.len()).expect("fewer than 2^32 terms");
                let place = *known.entry(key).or_insert(next);
                if place == next {
                    merged.terms.push(key);
                    merged.document_frequencies.push(0);
                }
                merged.document_frequencies[place as usize] += frequency;
                place
            };
            merged.places.push(parted.part(part).iter().map(place).collect());
        }
        merged
    }

    /// Returns the terms of this partition, whose number is `part`.
    fn united(&self, part: u8) -> impl Iterator<Item = MergedTerm<'a>> {
        let terms = self.terms.iter().zip(&self.document_frequencies);
        (0..).zip(terms).map(move |(place, (&key, &document_frequency))| MergedTerm {
            key,
            document_frequency,
            part,
            place,
        })
    }
}

/// A merged term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MergedTerm<'a> {
    key: Key<'a>,
    document_frequency: u32,
    part: u8,
    /// The index of the term in its partition.
    place: u32,
}

/// Returns the kept terms of all shards, in the order of the vocabulary. For each shard, also
/// returns the vocabulary ids of its terms.
///
/// Terms are partitioned by their hashes, and the partitions are merged independently.
pub(super) fn unite<'a>(
    shards: &[Shard<'_>],
    names: &'a [Names<'a>],
    documents: usize,
    limits: TermLimits,
) -> (Vec<MergedTerm<'a>>, Vec<Vec<u32>>) {
    let hasher = RandomState::default();
    let parted = |(shard, names): (&Shard<'_>, &Names<'_>)| {
        let terms = 0..u32::try_from(shard.term_states.len()).expect("fewer than 2^32 terms");
        // Use other bits of the hash than the hash tables of the partitions.
        let part = |term| hasher.hash_one(names.key(term)).to_le_bytes()[4] % PARTS;
        PartIndex::of(&terms.map(part).collect::<Vec<u8>>())
    };
    let parted: Vec<PartIndex> = (shards, names).into_par_iter().map(parted).collect();
    let unite = |part| Part::unite(shards, names, &parted, part, &hasher);
    let parts: Vec<Part<'_>> = (0..PARTS).into_par_iter().map(unite).collect();
    // Compensate for rounding errors: 7 % of 100 documents are 7, not slightly more.
    let min = limits.min_df.documents(documents) * (1.0 - 1e-12);
    let max = limits.max_df.documents(documents) * (1.0 + 1e-12);
    let within = |term: &MergedTerm<'_>| {
        let frequency = f64::from(term.document_frequency);
        frequency >= min && frequency <= max
    };
    let united = (0..PARTS).into_par_iter().zip(&parts);
    let mut kept: Vec<MergedTerm<'_>> =
        united.flat_map_iter(|(number, part)| part.united(number)).filter(within).collect();
    kept.par_sort_unstable();
    if let Some(max_terms) =
        limits.max_terms.map(NonZeroUsize::get).filter(|&max_terms| max_terms < kept.len())
    {
        kept.sort_by_key(|term| std::cmp::Reverse(term.document_frequency));
        kept.truncate(max_terms);
        kept.sort_unstable();
    }
    let mut numbers: Vec<Vec<u32>> =
        parts.iter().map(|part| vec![DROPPED; part.terms.len()]).collect();
    for (number, term) in (0..).zip(&kept) {
        numbers[usize::from(term.part)][term.place as usize] = number;
    }
    let numbers_of = |(shard, parted): (usize, &PartIndex)| {
        let mut ids = vec![DROPPED; parted.terms.len()];
        for (part, (united, numbers)) in (0..PARTS).zip(parts.iter().zip(&numbers)) {
            for (&term, &place) in parted.part(part).iter().zip(&united.places[shard]) {
                ids[term as usize] = numbers[place as usize];
            }
        }
        ids
    };
    let numbers = parted.par_iter().enumerate().map(numbers_of).collect();
    (kept, numbers)
}

/// Builds the vocabulary from sorted terms.
pub(super) fn vocabulary(kind: TermKind, united: &[MergedTerm<'_>]) -> Vocabulary {
    let terms = united.iter().map(|term| match term.key {
        Key::Text(_, Rest(term)) => Cow::Borrowed(term),
        Key::Column(column) => column.to_string().into(),
    });
    let frequencies: Vec<u32> = united.iter().map(|term| term.document_frequency).collect();
    Vocabulary::new(kind, terms.collect(), frequencies.into())
        .expect("sorted terms with one frequency each")
}
