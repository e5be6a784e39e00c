//! Held-out documents, their neighbors, and the neighbors that are excluded.
//!
//! * [`LeaveOneOut`]: the nearest other documents of each training document.
//! * [`Exclusion`], [`ExcludedNeighbors`]: which documents cannot be neighbors of each other.
//! * [`mod@folds`]: the assignment of documents to folds.

mod exclusion;
mod folds;
mod leave_one_out;
mod near_duplicates;

use crate::search::{QueryRows, Search};

pub(super) use exclusion::{ExcludedNeighbors, InspectedRows, held_out_rows};
#[cfg(test)]
pub(super) use folds::hashes;
pub(crate) use folds::{clusters, draw_sample, folds};
pub(crate) use leave_one_out::LeaveOneOut;
pub(super) use leave_one_out::find_valley;
#[cfg(test)]
pub(super) use leave_one_out::{chronological_window, near_duplicates, nearest_of_sample};
pub(crate) use near_duplicates::Exclusion;

/// Number of folds of the held-out documents. When settings are compared, the labels of each fold
/// are predicted with parameters learned from the other folds. Metrics on the documents from which
/// parameters are learned would be optimistic.
pub(crate) const FOLDS: usize = 5;

/// An engine over training rows, and the rows as queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchableRows<'a> {
    pub(super) engine: &'a dyn Search,
    pub(super) queries: QueryRows<'a>,
}
