//! Folds of the training documents: anything learned from labels is evaluated on documents that it
//! was not learned from.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use rayon::prelude::*;

use super::near_duplicates::{Exclusion, NearDuplicates};
use crate::decide::vote::TrainingLabels;
use crate::rows::matrix;
use crate::search::QueryRows;
use crate::text::vocabulary::Vocabulary;
use crate::threads::Threads;

/// Returns the fold of each training document, below `count`.
///
/// Documents of the same cluster are in the same fold. `cluster_of` has one number per document; if
/// it is empty, every document is its own cluster. Clusters are assigned to the folds in turn,
/// ordered by their rarest label and then by their number. So every label is spread evenly. If the
/// numbers are hashes of the documents, the order of the documents does not matter.
///
/// # Panics
/// Panics if `count` is 0 or above 256.
pub(crate) fn folds(among: &TrainingLabels<'_>, cluster_of: &[u64], count: usize) -> Vec<u8> {
    assert!((1..=256).contains(&count), "the number of folds is from 1 to 256");
    let rows = u32::try_from(among.weights.len()).unwrap_or(u32::MAX);
    let of_row =
        |row: u32| cluster_of.get(row as usize).copied().unwrap_or_else(|| mix_bits(row.into()));
    let mut by_cluster: HashMap<u64, (u32, u32), RandomState> = HashMap::default();
    for row in 0..rows {
        let found = rarest_label(among, row);
        by_cluster
            .entry(of_row(row))
            .and_modify(|least| *least = found.min(*least))
            .or_insert(found);
    }
    let mut units: Vec<(u32, u64)> =
        by_cluster.into_iter().map(|(cluster, (_, label))| (label, cluster)).collect();
    units.sort_unstable();
    let fold = |at: usize| u8::try_from(at % count).expect("at most 256 folds");
    let units: HashMap<u64, u8, RandomState> =
        units.into_iter().enumerate().map(|(at, (_, cluster))| (cluster, fold(at))).collect();
    (0..rows).map(|row| units[&of_row(row)]).collect()
}

/// Returns the size and the number of a document's rarest label; documents without labels come last.
fn rarest_label(among: &TrainingLabels<'_>, row: u32) -> (u32, u32) {
    let sized = |&label: &u32| (among.sizes[label as usize], label);
    among.labels(row).iter().map(sized).min().unwrap_or((u32::MAX, u32::MAX))
}

/// Returns a hash of each document's terms (or vector) and labels. Results based on these hashes do
/// not depend on the order of documents. Equal documents get different hashes.
///
/// Terms are hashed as text, and without their weights, so that a change of a few documents changes
/// the hashes of these documents only.
///
/// # Panics
/// Panics if there are 2³² rows or more.
pub(crate) fn hashes(
    rows: QueryRows<'_>,
    vocabulary: &Vocabulary,
    among: &TrainingLabels<'_>,
    threads: &Threads,
) -> Vec<u64> {
    let of_terms = term_hashes(vocabulary);
    let content = |row: usize| match &rows {
        QueryRows::Sparse(rows) => {
            let (terms, _) = matrix::row(rows, row);
            let of_term = |&term: &u32| of_terms[term as usize];
            terms.iter().map(of_term).fold(0, u64::wrapping_add)
        }
        QueryRows::Dense(rows) => {
            let dimension = rows.dimension();
            hash_values(&rows.values()[row * dimension..][..dimension])
        }
    };
    let of_row = |row: usize| {
        let labels = among.labels(u32::try_from(row).expect("row numbers are 32-bit"));
        labels.iter().fold(content(row), |hash, &label| mix_bits(hash ^ u64::from(label)))
    };
    let mut hashes: Vec<u64> =
        threads.run(|| (0..rows.rows()).into_par_iter().map(of_row).collect());
    let mut repeated = repeated(&hashes, threads);
    if let QueryRows::Sparse(rows) = &rows
        && !repeated.is_empty()
    {
        // Documents with the same terms differ in how often the terms occur.
        for (row, hash) in hashes.iter_mut().enumerate() {
            if repeated.contains(hash) {
                *hash = mix_bits(*hash ^ hash_values(matrix::row(rows, row).1));
            }
        }
        repeated = self::repeated(&hashes, threads);
    }
    let mut copies: HashMap<u64, u64, RandomState> = HashMap::default();
    for hash in hashes.iter_mut().filter(|hash| repeated.contains(hash)) {
        let copy = copies.entry(*hash).and_modify(|copy| *copy += 1).or_default();
        if *copy > 0 {
            *hash = mix_bits(*hash ^ mix_bits(*copy));
        }
    }
    hashes
}

/// Returns a hash of each term's text (the FNV-1a hash of Fowler, Noll and Vo, mixed).
fn term_hashes(vocabulary: &Vocabulary) -> Vec<u64> {
    let of_text = |text: &[u8]| {
        mix_bits(text.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        }))
    };
    let terms = vocabulary.terms();
    (0..terms.len()).map(|term| of_text(terms.bytes(term))).collect()
}

fn hash_values(values: &[f32]) -> u64 {
    values.iter().fold(0, |hash, value| mix_bits(hash ^ u64::from(value.to_bits())))
}

/// Returns the hashes that occur more than once.
fn repeated(hashes: &[u64], threads: &Threads) -> HashSet<u64, RandomState> {
    let mut sorted = hashes.to_vec();
    threads.run(|| sorted.par_sort_unstable());
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}

/// Returns at most `count` row numbers, chosen by the hashes of the rows, in increasing order.
pub(crate) fn draw_sample(hashes: &[u64], count: usize) -> Vec<u32> {
    // Folds also depend on the hashes, so the hashes are mixed once more.
    let mut order: Vec<(u64, u32)> = hashes.iter().map(|&hash| mix_bits(hash)).zip(0..).collect();
    if count < order.len() {
        order.select_nth_unstable(count);
        order.truncate(count);
    }
    let mut rows: Vec<u32> = order.into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    rows
}

/// Returns the hash of a number (the finalizer of `SplitMix64`, Steele, Lea and Flood 2014).
fn mix_bits(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Number of sections into which a chronological corpus is divided.
const SECTIONS: usize = 40;

/// Returns the cluster of each document: its group, its section of a chronological corpus, or its
/// near-duplicates. The number of a cluster is the lowest hash of its documents.
pub(crate) fn clusters(exclusion: Exclusion<'_>, rows: usize) -> Vec<u64> {
    if exclusion.is_chronological && exclusion.groups.is_empty() {
        return (0..rows).map(|row| mix_bits((row * SECTIONS / rows) as u64)).collect();
    }
    let alone = |near: &NearDuplicates| near.documents() == 0;
    if exclusion.groups.is_empty() && exclusion.near.is_none_or(alone) {
        let hashes = exclusion.hashes;
        return (0..rows)
            .map(|row| hashes.get(row).copied().unwrap_or_else(|| mix_bits(row as u64)))
            .collect();
    }
    let hash =
        |row: usize| exclusion.hashes.get(row).copied().unwrap_or_else(|| mix_bits(row as u64));
    let sets = if exclusion.groups.is_empty() {
        near_duplicates(exclusion, rows)
    } else {
        exclusion.groups.to_vec()
    };
    let mut least: HashMap<u32, u64, RandomState> = HashMap::default();
    for (row, &set) in sets.iter().enumerate() {
        let hash = hash(row);
        least.entry(set).and_modify(|least| *least = hash.min(*least)).or_insert(hash);
    }
    sets.iter().map(|set| least[set]).collect()
}

/// Returns, for each document, the first document of its near-duplicate set. The set includes
/// near-duplicates of near-duplicates.
fn near_duplicates(exclusion: Exclusion<'_>, rows: usize) -> Vec<u32> {
    let mut above: Vec<u32> = (0u32..).take(rows).collect();
    let root = |above: &mut Vec<u32>, mut row: u32| {
        while above[row as usize] != row {
            above[row as usize] = above[above[row as usize] as usize];
            row = above[row as usize];
        }
        row
    };
    for row in (0u32..).take(rows) {
        for &other in exclusion.near.map_or(&[][..], |near| near.of(row)) {
            let one = root(&mut above, row);
            let other = root(&mut above, other);
            above[one.max(other) as usize] = one.min(other);
        }
    }
    (0u32..).take(rows).map(|row| root(&mut above, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_spread_in_any_order() {
        // 150 labels with 20 documents each, sorted by label.
        let indptr: Vec<u64> = (0..=3_000).collect();
        let indices: Vec<u32> = (0..3_000).map(|row| row / 20).collect();
        let weights = vec![1.0; 3_000];
        let sizes = vec![20; 150];
        let among =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        let found = folds(&among, &[], 5);
        for label in 0..150 {
            let mut counts = [0; 5];
            found[label * 20..][..20].iter().for_each(|&fold| counts[usize::from(fold)] += 1);
            assert_eq!(counts, [4; 5]);
        }
        let clusters: Vec<u64> = (0..3_000).map(|row| mix_bits(row % 700)).collect();
        let together = folds(&among, &clusters, 4);
        assert!((0..2_300).all(|row| together[row] == together[row + 700]));
        let mut counts = [0; 4];
        for fold in together {
            counts[usize::from(fold)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 600), "{counts:?}");
    }

    #[test]
    fn samples_are_drawn_in_increasing_order() {
        let sample = draw_sample(&[7, 5, 3, 8], 2);
        assert_eq!(sample.len(), 2);
        assert!(sample[0] < sample[1]);
        assert_eq!(draw_sample(&[7, 5, 3, 8], 4), [0, 1, 2, 3]);
    }
}
