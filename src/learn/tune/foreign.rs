//! Labels left out of training, fold by fold: their documents are then foreign, and teach how strange
//! such documents look.

use std::num::NonZeroUsize;

use super::neighbors::LeaveOneOut;
use super::{FOLDS, MOST_SEEN};
use crate::decide::calibrate::{ForeignLimit, Shown, Strangeness};
use crate::decide::vote::{HighestMargins, PrototypeLearning, Prototypes, TrainingLabels};
use crate::rows::matrix::{Csr, row};
use crate::search::RowSet;
use crate::threads::Threads;

/// The number of foreign documents that are searched for each fold.
const MOST_FOREIGN: usize = 1_000;

/// Fewer foreign documents teach nothing.
const LEAST_FOREIGN: usize = 20;
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

    /// What prototypes of the other labels tell of the foreign documents.
    pub(crate) fn margins(
        &self,
        (documents, queries): (&Csr, &Csr),
        among: &TrainingLabels<'_>,
        learning: PrototypeLearning,
        threads: &Threads,
    ) -> Vec<Option<HighestMargins>> {
        let takes = |row| self.rows.contains(row);
        let prototypes = Prototypes::learn(&documents.view(), among, takes, learning, threads);
        let queries = queries.view();
        let highest = |&at: &u32| prototypes.highest(row(&queries, at as usize));
        self.foreign.iter().map(highest).collect()
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

/// Foreign documents, as the documents of other labels show them.
#[derive(Debug, Default)]
pub struct Foreign {
    /// The documents of other labels.
    pub rows: RowSet,
    /// Their neighbors.
    pub found: LeaveOneOut,
    /// The share of the terms of each that are unknown.
    pub unknown: Vec<f64>,
    /// What the prototypes of the other labels tell of each; empty: there are none.
    pub(crate) margins: Vec<Option<HighestMargins>>,
}

/// What is known of each left-out document beside its neighbors.
pub(crate) struct ByDocument<'a> {
    /// The share of its terms that are unknown.
    pub(crate) unknown: &'a dyn Fn(u32) -> f64,
    /// What prototypes tell of it.
    pub(crate) margins: &'a dyn Fn(u32) -> Option<HighestMargins>,
}

/// Learns when a document is refused as foreign: the limit, and what it is a limit of. `found` are the
/// neighbors of all training documents, left out one at a time, `foreign` those of each fold of labels; `k` of
/// them vote. `None` if there are too few foreign documents to learn from.
///
/// Some folds of the known documents teach, the others set the limit. Foreign documents of each fold are
/// judged by what those of the other folds teach.
pub(crate) fn foreign_limit(
    found: &LeaveOneOut,
    foreign: &[Foreign],
    k: NonZeroUsize,
    among: &TrainingLabels<'_>,
    target: f64,
    by: &ByDocument<'_>,
) -> Option<(ForeignLimit, Strangeness)> {
    let mut index_of = vec![None; among.weights.len()];
    for index in 0..found.len() {
        index_of[found.get(index).0 as usize] = Some(index);
    }
    let nearest = |row: u32, asking: Option<&Shown<'_>>| {
        let index = index_of.get(row as usize).copied().flatten();
        let takes = |row: u32| asking.is_none_or(|asking| asking.may_know(row));
        index.map_or(0.0, |index| found.get(index).1.best_similarity_among(&takes))
    };
    let folds = found.folds(among);
    let every = found.len().div_ceil(MOST_SEEN).max(1);
    let known: Vec<(usize, Shown<'_>)> = (0..found.len())
        .step_by(every)
        .map(|index| found.get(index))
        // Nobody knows whether a document without labels is foreign.
        .filter(|&(row, _)| !among.labels(row).is_empty())
        .map(|(row, voters)| {
            let (unknown, margins) = ((by.unknown)(row), (by.margins)(row));
            let voters = voters.first(k.get());
            let shown = Shown { voters, unknown, margins, row: Some(row), among: None };
            (usize::from(folds[row as usize]), shown)
        })
        .collect();
    let foreign: Vec<(usize, Shown<'_>)> = foreign
        .iter()
        .enumerate()
        .flat_map(|(fold, Foreign { rows, found, unknown, margins })| {
            (0..found.len()).map(move |index| {
                let (row, voters) = found.get(index);
                let (voters, unknown) = (voters.first(k.get()), unknown[index]);
                let margins = margins.get(index).copied().flatten();
                (fold, Shown { voters, unknown, margins, row: Some(row), among: Some(rows) })
            })
        })
        .collect();
    if foreign.len() < LEAST_FOREIGN {
        return None;
    }
    let of = |shown: &[(usize, Shown<'_>)], is_in: &dyn Fn(usize) -> bool| -> Vec<usize> {
        let numbered = shown.iter().enumerate();
        numbered.filter(|(_, (fold, _))| is_in(*fold)).map(|(at, _)| at).collect()
    };
    let learn = |without: Option<usize>| {
        let teach: Vec<_> =
            of(&known, &|fold| fold < TEACHING).into_iter().map(|at| known[at].1).collect();
        let taught: Vec<_> = of(&foreign, &|fold| Some(fold) != without)
            .into_iter()
            .map(|at| foreign[at].1)
            .collect();
        Strangeness::fit(&teach, &taught, &nearest, among)
    };
    let values = |learned: &Strangeness, shown: &[(usize, Shown<'_>)], numbers: Vec<usize>| {
        let of = |at: usize| learned.of_left_out(shown[at].1, &nearest, among);
        numbers.into_iter().map(of).collect::<Vec<f64>>()
    };
    let limit = |learned: &Strangeness, sets: &dyn Fn(usize) -> bool, judged: &[f64]| {
        ForeignLimit::learn(target, values(learned, &known, of(&known, sets)), judged)
    };
    let sets = |fold: usize| fold >= TEACHING;
    let learned = learn(None);
    // How many of the known documents are refused is told by a fold that did not set the limit.
    let last = values(&learned, &known, of(&known, &|fold| fold == FOLDS - 1));
    let of_known = limit(&learned, &|fold| sets(fold) && fold != FOLDS - 1, &last);
    let mut refused = 0.0;
    for fold in 0..FOLDS {
        let without = learn(Some(fold));
        let judged = values(&without, &foreign, of(&foreign, &|of| of == fold));
        refused += limit(&without, &sets, &judged).foreign_refused * judged.len() as f64;
    }
    let limit = ForeignLimit {
        known_refused: of_known.foreign_refused,
        foreign_refused: refused / foreign.len() as f64,
        foreign_documents: foreign.len() as u64,
        ..limit(&learned, &sets, &[])
    };
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
