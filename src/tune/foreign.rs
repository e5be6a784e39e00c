//! Labels left out of training, fold by fold: their documents are then foreign, and teach how strange
//! such documents look.

use std::num::NonZeroUsize;

use super::held_out::{HeldOut, HeldOutDocument};
use super::neighbors::LeaveOneOut;
use super::{FOLDS, MOST_SEEN};
use crate::calibrate::{ForeignLimit, Nearest, Shown, Strangeness};
use crate::search::RowSet;
use crate::vote::TrainingLabels;

/// The number of foreign documents that are searched for each fold.
const MOST_FOREIGN: usize = 1_000;

/// The number of folds of known documents that teach; the others set the limit.
const TEACHING: usize = 2;

/// The training documents without the labels of a fold, and documents that have no other labels.
#[derive(Debug)]
pub struct WithoutLabels {
    /// The documents that have none of the labels.
    pub rows: RowSet,
    /// Documents that have only these labels, evenly spaced; none if nothing else would be left.
    pub foreign: Vec<u32>,
}

impl WithoutLabels {
    /// Deals the labels to folds, by falling size, each to the fold with the fewest documents so far, and
    /// leaves out one fold after the other.
    pub fn by_fold(among: &TrainingLabels<'_>) -> Vec<Self> {
        let mut by_size: Vec<u32> = (0u32..).take(among.sizes.len()).collect();
        by_size.sort_by_key(|&label| (std::cmp::Reverse(among.sizes[label as usize]), label));
        let mut fold_of = vec![0; by_size.len()];
        let mut documents = [0u64; FOLDS];
        for label in by_size {
            let fold = (0..FOLDS).min_by_key(|&fold| documents[fold]).unwrap_or(0);
            fold_of[label as usize] = fold;
            documents[fold] += u64::from(among.sizes[label as usize]);
        }
        (0..FOLDS).map(|fold| Self::new(among, &|label| fold_of[label as usize] == fold)).collect()
    }

    fn new(among: &TrainingLabels<'_>, left_out: &dyn Fn(u32) -> bool) -> Self {
        let count = u32::try_from(among.weights.len()).unwrap_or(u32::MAX);
        let is_foreign = |row: u32| {
            let labels = among.labels(row);
            !labels.is_empty() && labels.iter().all(|&label| left_out(label))
        };
        let rows =
            RowSet::from_fn(count, |row| !among.labels(row).iter().any(|&label| left_out(label)));
        let all: Vec<u32> = (0..count).filter(|&row| is_foreign(row)).collect();
        let known = (0..count).any(|row| rows.contains(row) && !among.labels(row).is_empty());
        let every = all.len().div_ceil(MOST_FOREIGN).max(1);
        let foreign = all.into_iter().step_by(every).filter(|_| known).collect();
        Self { rows, foreign }
    }
}

/// Foreign documents with their neighbors among the documents of other labels, and the share of the terms
/// of each that are then unknown.
pub type Foreign = (LeaveOneOut, Vec<f64>);

/// Learns when a document is refused as foreign: the limit, and what it is a limit of. `found` are the
/// neighbors of left-out documents, `held_out` the same as documents to learn from; `foreign` are those of
/// each fold of labels. `unknown` returns the share of unknown terms of a left-out document. `None` if
/// there are no foreign documents: fewer than two labels.
///
/// Known documents teach or set the limit, never both. Foreign documents of each fold are judged by what
/// those of the other folds teach.
pub fn foreign_limit(
    (held_out, found): (&HeldOut<'_>, &LeaveOneOut),
    foreign: &[Foreign],
    k: NonZeroUsize,
    among: &TrainingLabels<'_>,
    target: f64,
    unknown: &dyn Fn(u32) -> f64,
) -> Option<(ForeignLimit, Strangeness)> {
    let rows = among.weights.len();
    let mut nearest =
        Nearest { first: vec![0.0; rows], rows: vec![u32::MAX; rows], second: vec![0.0; rows] };
    for index in 0..found.len() {
        let (row, voters) = found.get(index);
        let row = row as usize;
        nearest.first[row] = voters.best_similarity();
        nearest.rows[row] = voters.ranked().next().map_or(u32::MAX, |(_, _, first)| first.row);
        nearest.second[row] = voters.without_first().best_similarity();
    }
    let every = held_out.documents().len().div_ceil(MOST_SEEN).max(1);
    let known: Vec<(usize, Shown<'_>)> = held_out
        .documents()
        .step_by(every)
        // Nobody knows whether a document without labels is foreign.
        .filter(|document| !among.labels(document.row).is_empty())
        .map(|HeldOutDocument { row, fold, voters, .. }| {
            (fold, Shown { voters, unknown: unknown(row), row: Some(row) })
        })
        .collect();
    let foreign: Vec<(usize, Shown<'_>)> = foreign
        .iter()
        .enumerate()
        .flat_map(|(fold, (found, unknown))| {
            (0..found.len()).map(move |index| {
                let (row, voters) = found.get(index);
                let voters = voters.first(k.get());
                (fold, Shown { voters, unknown: unknown[index], row: Some(row) })
            })
        })
        .collect();
    if foreign.is_empty() {
        return None;
    }
    // Of the known documents, some folds teach and the others set the limit.
    let [teach, set]: [Vec<Shown<'_>>; 2] = [true, false].map(|teaches| {
        let of = known.iter().filter(|(fold, _)| (*fold < TEACHING) == teaches);
        of.map(|&(_, shown)| shown).collect()
    });
    let learn = |without: Option<usize>| {
        let taught = foreign.iter().filter(|(fold, _)| Some(*fold) != without);
        let taught: Vec<Shown<'_>> = taught.map(|&(_, shown)| shown).collect();
        let learned = Strangeness::fit(&teach, &taught, &nearest, among);
        let values = |shown: &mut dyn Iterator<Item = &Shown<'_>>| -> Vec<f64> {
            shown.map(|&shown| learned.of_left_out(shown, &nearest, among)).collect()
        };
        let judged = foreign.iter().filter(|(fold, _)| Some(*fold) == without);
        let judged = values(&mut judged.map(|(_, shown)| shown));
        let limit = ForeignLimit::learn(target, values(&mut set.iter()), &judged);
        (limit, learned)
    };
    let (mut limit, learned) = learn(None);
    limit.foreign_documents = foreign.len() as u64;
    limit.foreign_refused = (0..FOLDS)
        .map(|fold| learn(Some(fold)).0)
        .map(|of_fold| of_fold.foreign_refused * of_fold.foreign_documents as f64)
        .sum::<f64>()
        / foreign.len() as f64;
    Some((limit, learned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_left_out_in_folds() {
        // Seven documents of one label each, the last of two.
        let indptr: Vec<u64> = (0..7).chain([8]).collect();
        let indices = [0u32, 1, 2, 3, 4, 5, 0, 5];
        let among = TrainingLabels {
            indptr: &indptr,
            indices: &indices,
            weights: &[1.0; 7],
            sizes: &[2, 1, 1, 1, 1, 2],
        };
        let folds = WithoutLabels::by_fold(&among);
        assert_eq!(folds.len(), FOLDS);
        let all: Vec<u32> = folds.iter().flat_map(|fold| fold.foreign.iter().copied()).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            [0, 1, 2, 3, 4, 5],
            "the document with labels of two folds is not foreign"
        );
        for WithoutLabels { rows, foreign } in &folds {
            assert!(foreign.iter().all(|&row| !rows.contains(row)));
        }
        // Without its only label, nothing is left.
        let one = TrainingLabels { indptr: &[0, 1], indices: &[0], weights: &[1.0], sizes: &[1] };
        assert!(WithoutLabels::by_fold(&one).iter().all(|fold| fold.foreign.is_empty()));
    }
}
