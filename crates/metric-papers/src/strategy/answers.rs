//! The answers of a run.

use metric_index::collector::Answer;
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;

use super::measures::Measures;

/// The answers and measurements of a run.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::collector::Nearest;
/// use metric_index::index::VpTree;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_papers::strategy::{Options, Strategy, run};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(&words, Edit)?;
/// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
/// let run = run(&tree, &words, |_| Nearest::new(1), &options)?;
/// assert_eq!(run.answers.len(), 4);
/// assert_eq!(run.answers.get(3)?[0].point, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Run {
    /// The answers to the queries.
    pub answers: NeighborLists,
    /// The measurements.
    pub measures: Measures,
}

/// Merges the partial answers of a query.
pub(super) fn merged<C: Answer>(
    parts: impl IntoIterator<Item = C>,
    ask: impl FnOnce() -> C,
) -> Vec<Neighbor> {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return ask().into_sorted() };
    for part in parts {
        part.into_sorted().into_iter().for_each(|near| all.offer(near));
    }
    all.into_sorted()
}
