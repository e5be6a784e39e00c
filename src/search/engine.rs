//! The interface of all engines.

use std::fmt::Debug;

use super::error::SearchError;
use super::lists::NeighborLists;
use super::report::Report;
use super::request::{Request, check_finite};
use crate::rows::matrix::CsrView;
use crate::threads::Threads;

/// A search engine, which finds the `k` most similar allowed training rows for each query.
///
/// ```
/// use std::sync::Arc;
///
/// use classify::rows::matrix::CsrBuilder;
/// use classify::search::{Exhaustive, NeighborLists, Request, Search};
/// use classify::threads::Threads;
///
/// let mut rows = CsrBuilder::default();
/// rows.push_row([(0, 1.0)]);
/// rows.push_row([(0, 0.6), (1, 0.8)]);
/// rows.push_row([(2, 1.0)]);
/// let training = Arc::new(rows.build(3));
/// let engine = Exhaustive::new(Arc::clone(&training), Threads::available()?)?;
/// let mut found = NeighborLists::default();
/// engine.search(&Request::new(&*training, 2.try_into()?), &mut found)?;
/// assert_eq!(found.get(0).iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [0, 1]);
/// assert_eq!(found.get(2).len(), 1); // the other rows share no term with it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Search: Send + Sync + Debug {
    /// The number of training rows.
    fn rows(&self) -> u32;

    /// Replaces the contents of `found` with one list per query: at most `k` neighbors, best first.
    /// After an error, `found` is empty.
    ///
    /// # Errors
    /// If the request does not match the training rows, if it is stopped, or if the engine fails.
    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError>;
}

/// Checks that all training weights are finite and returns the number of rows.
pub(super) fn check_training(
    training: &CsrView<'_>,
    threads: &Threads,
) -> Result<u32, SearchError> {
    let count = checked_count(training.rows())?;
    check_finite("training", training.data(), threads)?;
    Ok(count)
}

/// Converts a number of rows to `u32` if it is within the limit.
pub(super) fn checked_count(rows: usize) -> Result<u32, SearchError> {
    let limit = u32::MAX - 1;
    let count = u32::try_from(rows).ok().filter(|&count| count <= limit);
    count.ok_or(SearchError::TooManyRows { rows, limit })
}

/// Clears the lists if the search failed, so that no partial results remain.
pub(super) fn clear_on_failure<T>(
    outcome: Result<T, SearchError>,
    found: &mut NeighborLists,
) -> Result<T, SearchError> {
    if outcome.is_err() {
        found.clear();
    }
    outcome
}
