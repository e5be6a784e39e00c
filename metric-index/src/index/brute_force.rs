//! Brute force, which compares every query with every point. It is the test oracle for all other
//! indexes.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use super::{PointBlocks, PointIndex, Probe, Progress, Space, Structure, Task, of_kind};
use crate::collector::{Answer, Collector};
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{FileContents, Reader, StoreProblem};

mod batch;

/// Points without an index: every search evaluates all distances.
///
/// ```
/// use metric_index::index::{BruteForce, Index};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "pez"].into_iter().collect();
/// assert_eq!(BruteForce::new(words, Edit)?.nearest("caso", 1)?[0].point, 0);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub type BruteForce<S, M> = PointIndex<S, M, LazilySortedPoints<S>>;

/// The points in ascending order of size, sorted when a single query is first answered.
#[derive(Debug, Clone)]
pub struct LazilySortedPoints<S: Points>(OnceLock<SortedPoints<S>>);

/// The points in ascending order of size, in blocks.
#[derive(Debug, Clone)]
struct SortedPoints<S: Points> {
    order: Arc<[u32]>,
    blocks: PointBlocks<S>,
}

impl<S: Points, M: Metric<S::Point>> BruteForce<S, M> {
    /// Creates an index of points.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, for example if a vector contains NaN.
    pub fn new(points: S, metric: M) -> Result<Self, Error> {
        Self::build_with(points, metric, (), &Progress::none())
    }
}

impl<S: Points> LazilySortedPoints<S> {
    fn sorted(&self, space: &Space<S, impl Metric<S::Point>>) -> &SortedPoints<S> {
        self.0.get_or_init(|| {
            let mut order = space.numbers();
            order.sort_by_cached_key(|&point| space.metric.size(space.points.point(point)));
            let blocks = PointBlocks::new(space, &order);
            SortedPoints { order: order.into(), blocks }
        })
    }
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for LazilySortedPoints<S> {
    of_kind!(BruteForce);

    fn build(space: &Space<S, M>, _options: (), progress: &Progress<'_>) -> Result<Self, Error> {
        let count = u64::from(space.count());
        progress.begin(count);
        progress.add(count);
        Ok(Self(OnceLock::new()))
    }

    /// Returns 1, because all points form a single node.
    fn nodes(&self) -> usize {
        1
    }

    fn answer_together<Q: Points<Point = S::Point>, A: Answer>(
        index: &BruteForce<S, M>,
        queries: &Q,
        threads: NonZero<usize>,
        ask: &(impl Fn(u32) -> A + Sync),
    ) -> Option<NeighborLists> {
        index.answer_by_products(queries, threads, ask)
    }

    fn blocks(&self, space: &Space<S, M>) -> Option<&dyn Blocks<S::Point>> {
        self.sorted(space).blocks.get()
    }

    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let order = &self.sorted(space).order;
        let next = probe.visit_positions(task.at..space.count(), order);
        if next < space.count() {
            tasks.push(Task { at: next, ..task });
        }
    }

    fn write<'a>(&'a self, _: &mut FileContents<'a>) {}

    fn read(_: &mut Reader, _: &Space<S, M>, _options: ()) -> Result<Self, StoreProblem> {
        Ok(Self(OnceLock::new()))
    }
}
