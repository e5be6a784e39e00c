//! The answers of a run.

use metric_index::collector::Answer;
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;

use super::measures::Measures;

/// The answers and measurements of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The answers to the queries.
    pub answers: NeighborLists,
    /// The measurements.
    pub measures: Measures,
}

/// Merges the partial answers of a query.
pub(super) fn merge<C: Answer>(
    parts: impl IntoIterator<Item = C>,
    make_collector: impl FnOnce() -> C,
) -> Vec<Neighbor> {
    let mut parts = parts.into_iter();
    let Some(mut merged) = parts.next() else { return make_collector().into_sorted() };
    for part in parts {
        part.into_sorted().into_iter().for_each(|near| merged.offer(near));
    }
    merged.into_sorted()
}
