//! Folds of the training documents: what is learned from labels is judged on documents that did not
//! teach it.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::neighbors::Exclusion;
use crate::vote::TrainingLabels;

/// The fold of each training document, of `count` folds.
///
/// Documents with the same number in `kin` (one per document; empty: none has kin) are in the same
/// fold. Kin are dealt to the folds in turn, ordered by their rarest label and by a hash, so that every
/// label is spread evenly, in whatever order the documents are.
///
/// ```
/// use classify::tune::folds;
/// use classify::vote::TrainingLabels;
///
/// let (indptr, indices) = ([0, 1, 2, 3, 4], [0, 0, 1, 1]);
/// let among =
///     TrainingLabels { indptr: &indptr, indices: &indices, weights: &[1.0; 4], sizes: &[2, 2] };
/// let folds_of = folds(&among, &[], 2);
/// assert!(folds_of[0] != folds_of[1] && folds_of[2] != folds_of[3]);
/// assert_eq!(folds(&among, &[0, 0, 1, 1], 2)[..2], [0, 0]);
/// ```
///
/// # Panics
/// If there are no folds, or more than 256.
pub fn folds(among: &TrainingLabels<'_>, kin: &[u32], count: usize) -> Vec<u8> {
    assert!((1..=256).contains(&count), "a number of folds");
    let rows = u32::try_from(among.weights.len()).unwrap_or(u32::MAX);
    let of_row = |row: u32| kin.get(row as usize).copied().unwrap_or(row);
    // The rarest label of a document, or none.
    let rarest = |row: u32| {
        let labels = among.labels(row).iter().copied();
        labels.min_by_key(|&label| (among.sizes[label as usize], label)).unwrap_or(u32::MAX)
    };
    let mut first: HashMap<u32, u32, RandomState> = HashMap::default();
    for row in 0..rows {
        first.entry(of_row(row)).or_insert(row);
    }
    let mut units: Vec<(u32, u64, u32)> =
        first.into_iter().map(|(kin, row)| (rarest(row), mixed(kin), kin)).collect();
    units.sort_unstable();
    let fold = |at: usize| u8::try_from(at % count).expect("at most 256 folds");
    let units: HashMap<u32, u8, RandomState> =
        units.into_iter().enumerate().map(|(at, (_, _, kin))| (kin, fold(at))).collect();
    (0..rows).map(|row| units[&of_row(row)]).collect()
}

/// A hash of a number (the finalizer of `SplitMix64`, Steele, Lea and Flood 2014).
fn mixed(number: u32) -> u64 {
    let mut bits = u64::from(number).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// The number of stretches of documents in the order of time.
const STRETCHES: usize = 40;

/// Which documents must be in the same fold: those of a group; in the order of time, those of a stretch
/// of a fortieth; otherwise near-duplicates.
pub(super) fn kin(exclusion: Exclusion<'_>, rows: usize) -> Vec<u32> {
    if !exclusion.groups.is_empty() {
        return exclusion.groups.to_vec();
    }
    if exclusion.in_time_order {
        let stretch = |row| u32::try_from(row * STRETCHES / rows).unwrap_or(0);
        return (0..rows).map(stretch).collect();
    }
    // Every set of near-duplicates of near-duplicates has its first document as its root.
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
            let (one, other) = (root(&mut above, row), root(&mut above, other));
            above[one.max(other) as usize] = one.min(other);
        }
    }
    (0u32..).take(rows).map(|row| root(&mut above, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_spread_whatever_the_order() {
        // 150 labels of 20 documents each, sorted by label.
        let indptr: Vec<u64> = (0..=3_000).collect();
        let indices: Vec<u32> = (0..3_000).map(|row| row / 20).collect();
        let (weights, sizes) = (vec![1.0; 3_000], vec![20; 150]);
        let among =
            TrainingLabels { indptr: &indptr, indices: &indices, weights: &weights, sizes: &sizes };
        let found = folds(&among, &[], 5);
        for label in 0..150 {
            let mut counts = [0; 5];
            found[label * 20..][..20].iter().for_each(|&fold| counts[usize::from(fold)] += 1);
            assert_eq!(counts, [4; 5]);
        }
        let kin: Vec<u32> = (0..3_000).map(|row| row % 700).collect();
        let together = folds(&among, &kin, 4);
        assert!((0..2_300).all(|row| together[row] == together[row + 700]));
        let mut counts = [0; 4];
        for fold in together {
            counts[usize::from(fold)] += 1;
        }
        assert!(counts.iter().all(|&count| count > 600), "{counts:?}");
    }
}
