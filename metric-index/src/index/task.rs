//! Tasks, the units of work of a search, and the cost of a search.

/// A unit of work of a search.
///
/// ```
/// use metric_index::index::Task;
///
/// let all = Task::new(7, 0.0, 3.0);
/// let rest = Task { at: 12, ..all };
/// assert_eq!((rest.region, rest.at), (7, 12));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    /// The number of a node, a cluster or a block.
    pub region: u32,
    /// The position in the region at which to continue.
    pub at: u32,
    /// A lower bound on the distances from the query to the region's points.
    pub bound: f32,
    /// The distance from the query to the region's center, if it has one.
    pub distance: f32,
    /// A bitmap of the entries of the region that are already excluded.
    pub mask: u32,
}

impl Task {
    /// Creates the task to search a whole region.
    pub fn new(region: u32, bound: f32, distance: f32) -> Self {
        Self { region, at: 0, bound, distance, mask: 0 }
    }
}

/// Sorts tasks by descending bound, then by descending distance, so that the task of the nearest
/// region is on top of the stack.
///
/// The function is not inlined. Otherwise, each combination of index, metric and collector would
/// have its own copy of the sort.
#[inline(never)]
pub(super) fn nearest_last(tasks: &mut [Task]) {
    tasks.sort_by(|a, b| b.bound.total_cmp(&a.bound).then(b.distance.total_cmp(&a.distance)));
}

/// The cost of a search.
///
/// ```
/// use metric_index::collector::Within;
/// use metric_index::index::{BruteForce, Cost, search};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let index = BruteForce::new(words, Edit)?;
/// let (_, cost) = search(&index, "masa", Within::new(1.0))?;
/// assert_eq!(cost, Cost { evaluations: 5, nodes: 1 });
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Number of distances evaluated, including the distance from the query to itself.
    pub evaluations: u64,
    /// Number of nodes (clusters, blocks) processed. A node counts again each time it is resumed.
    pub nodes: u64,
}

impl std::ops::Sub for Cost {
    type Output = Self;

    /// Returns the cost since `earlier`, an earlier cost of the same search.
    fn sub(self, earlier: Self) -> Self {
        let evaluations = self.evaluations - earlier.evaluations;
        Self { evaluations, nodes: self.nodes - earlier.nodes }
    }
}
