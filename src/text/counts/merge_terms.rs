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

/// The number of hash partitions in [`merge_terms`]: several per thread, to balance the load.
const PARTITIONS: u8 = 128;

/// The terms of a shard, grouped by partition.
struct PartitionIndex {
    terms: Vec<u32>,
    /// The start of each partition in `terms`, and the number of terms.
    starts: Vec<u32>,
}

impl PartitionIndex {
    fn new(partitions: &[u8]) -> Self {
        let mut starts = vec![0; usize::from(PARTITIONS) + 1];
        for &partition in partitions {
            starts[usize::from(partition) + 1] += 1;
        }
        for partition in 0..usize::from(PARTITIONS) {
            starts[partition + 1] += starts[partition];
        }
        let mut positions = starts.clone();
        let mut terms = vec![0; partitions.len()];
        for (term, &partition) in (0..).zip(partitions) {
            let position = &mut positions[usize::from(partition)];
            terms[*position as usize] = term;
            *position += 1;
        }
        Self { terms, starts }
    }

    fn partition(&self, partition: u8) -> &[u32] {
        let partition = usize::from(partition);
        &self.terms[self.starts[partition] as usize..self.starts[partition + 1] as usize]
    }
}

/// The terms of all shards in one partition, in arbitrary order.
#[derive(Default)]
struct Partition<'a> {
    terms: Vec<Key<'a>>,
    document_frequencies: Vec<u32>,
    /// For each shard, the indices in `terms` of its terms in this partition.
    positions: Vec<Vec<u32>>,
}

impl<'a> Partition<'a> {
    fn merge(
        shards: &[Shard<'_>],
        names: &'a [Names<'a>],
        indexes: &[PartitionIndex],
        partition: u8,
        hasher: &RandomState,
    ) -> Self {
        let mut merged = Self::default();
        let mut ids: HashMap<Key<'a>, u32, _> = HashMap::with_hasher(hasher.clone());
        for ((shard, names), index) in shards.iter().zip(names).zip(indexes) {
            let position = |&term: &u32| {
                let key = names.key(term);
                let frequency = shard.term_states[term as usize].document_frequency;
                let next = u32::try_from(merged.terms.len()).expect("fewer than 2^32 terms");
                let position = *ids.entry(key).or_insert(next);
                if position == next {
                    merged.terms.push(key);
                    merged.document_frequencies.push(0);
                }
                merged.document_frequencies[position as usize] += frequency;
                position
            };
            merged.positions.push(index.partition(partition).iter().map(position).collect());
        }
        merged
    }

    /// Returns the terms of this partition, whose number is `partition`.
    fn merged_terms(&self, partition: u8) -> impl Iterator<Item = MergedTerm<'a>> {
        let terms = self.terms.iter().zip(&self.document_frequencies);
        (0..).zip(terms).map(move |(position, (&key, &document_frequency))| MergedTerm {
            key,
            document_frequency,
            partition,
            position,
        })
    }
}

/// A merged term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MergedTerm<'a> {
    key: Key<'a>,
    document_frequency: u32,
    partition: u8,
    /// The index of the term in its partition.
    position: u32,
}

/// Returns the kept terms of all shards, in the order of the vocabulary. For each shard, also
/// returns the vocabulary ids of its terms.
///
/// Terms are partitioned by their hashes, and the partitions are merged independently.
pub(super) fn merge_terms<'a>(
    shards: &[Shard<'_>],
    names: &'a [Names<'a>],
    documents: usize,
    limits: TermLimits,
) -> (Vec<MergedTerm<'a>>, Vec<Vec<u32>>) {
    let hasher = RandomState::default();
    let build_index = |(shard, names): (&Shard<'_>, &Names<'_>)| {
        let terms = 0..u32::try_from(shard.term_states.len()).expect("fewer than 2^32 terms");
        // Use different bits of the hash than the hash tables of the partitions.
        let partition = |term| hasher.hash_one(names.key(term)).to_le_bytes()[4] % PARTITIONS;
        PartitionIndex::new(&terms.map(partition).collect::<Vec<u8>>())
    };
    let indexes: Vec<PartitionIndex> = (shards, names).into_par_iter().map(build_index).collect();
    let merge = |partition| Partition::merge(shards, names, &indexes, partition, &hasher);
    let partitions: Vec<Partition<'_>> = (0..PARTITIONS).into_par_iter().map(merge).collect();
    // Compensate for rounding errors: 7 % of 100 documents are 7, not slightly more.
    let min = limits.min_df.documents(documents) * (1.0 - 1e-12);
    let max = limits.max_df.documents(documents) * (1.0 + 1e-12);
    let is_within_limits = |term: &MergedTerm<'_>| {
        let frequency = f64::from(term.document_frequency);
        frequency >= min && frequency <= max
    };
    let merged_terms = (0..PARTITIONS).into_par_iter().zip(&partitions);
    let mut kept: Vec<MergedTerm<'_>> = merged_terms
        .flat_map_iter(|(number, partition)| partition.merged_terms(number))
        .filter(is_within_limits)
        .collect();
    kept.par_sort_unstable();
    if let Some(max_terms) =
        limits.max_terms.map(NonZeroUsize::get).filter(|&max_terms| max_terms < kept.len())
    {
        kept.sort_by_key(|term| std::cmp::Reverse(term.document_frequency));
        kept.truncate(max_terms);
        kept.sort_unstable();
    }
    let mut numbers: Vec<Vec<u32>> =
        partitions.iter().map(|partition| vec![DROPPED; partition.terms.len()]).collect();
    for (number, term) in (0..).zip(&kept) {
        numbers[usize::from(term.partition)][term.position as usize] = number;
    }
    let vocabulary_ids = |(shard, index): (usize, &PartitionIndex)| {
        let mut ids = vec![DROPPED; index.terms.len()];
        for (partition, (merged, numbers)) in (0..PARTITIONS).zip(partitions.iter().zip(&numbers)) {
            for (&term, &position) in
                index.partition(partition).iter().zip(&merged.positions[shard])
            {
                ids[term as usize] = numbers[position as usize];
            }
        }
        ids
    };
    let numbers = indexes.par_iter().enumerate().map(vocabulary_ids).collect();
    (kept, numbers)
}

/// Builds the vocabulary from sorted terms.
pub(super) fn vocabulary(kind: TermKind, merged_terms: &[MergedTerm<'_>]) -> Vocabulary {
    let terms = merged_terms.iter().map(|term| match term.key {
        Key::Text(_, Rest(term)) => Cow::Borrowed(term),
        Key::Column(column) => column.to_string().into(),
    });
    let frequencies: Vec<u32> = merged_terms.iter().map(|term| term.document_frequency).collect();
    Vocabulary::new(kind, terms.collect(), frequencies.into())
        .expect("sorted terms with one frequency each")
}
