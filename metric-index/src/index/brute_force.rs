//! Brute force: compares every query with every point. It is the oracle of all other indexes.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use super::{Index, Kind, PointBlocks, Probe, Task, check, many};
use crate::collector::{Answer, Collector};
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{FileContents, Reader, StoreProblem, StoredIndex};

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
#[derive(Debug, Clone)]
pub struct BruteForce<S: Points, M> {
    points: S,
    metric: M,
    /// Created by the first search for a single query.
    sorted: OnceLock<SortedPoints<S>>,
}

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
    /// If the distance of a point from itself is not 0, such as a vector with NaN.
    ///
    /// ```
    /// use metric_index::index::{BruteForce, Index};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// assert_eq!(BruteForce::new(words, Edit)?.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn new(points: S, metric: M) -> Result<Self, Error> {
        check(&points, &metric)?;
        Ok(Self { points, metric, sorted: OnceLock::new() })
    }
}

impl<S: Points, M: Metric<S::Point>> BruteForce<S, M> {
    fn sorted(&self) -> &SortedPoints<S> {
        self.sorted.get_or_init(|| {
            let count = u32::try_from(self.points.len()).expect("checked when it was built");
            let mut order: Vec<u32> = (0..count).collect();
            order.sort_by_cached_key(|&point| self.metric.size(self.points.point(point)));
            let blocks = PointBlocks::new(&self.points, &self.metric, &order);
            SortedPoints { order: order.into(), blocks }
        })
    }
}

impl<S: Points, M: Metric<S::Point>> Index for BruteForce<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.points
    }

    fn metric(&self) -> &M {
        &self.metric
    }

    /// One node, of all points.
    fn nodes(&self) -> usize {
        1
    }

    fn answer_many<Q: Points<Point = S::Point>, A: Answer>(
        &self,
        queries: &Q,
        threads: NonZero<usize>,
        ask: impl Fn(u32) -> A + Sync,
    ) -> NeighborLists {
        let one = |query| many::answer(self, queries, query, &ask);
        let all = self.by_products(queries, threads, &ask);
        all.unwrap_or_else(|| many::answers(queries.len(), threads, &one))
    }

    fn blocks(&self) -> Option<&dyn Blocks<S::Point>> {
        self.sorted().blocks.get()
    }

    fn start<C: Collector>(&self, _: &mut Probe<'_, S, M, C>, tasks: &mut Vec<Task>) -> Box<[f32]> {
        tasks.push(Task::new(0, 0.0, 0.0));
        Box::default()
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let order = &self.sorted().order;
        let count = u32::try_from(order.len()).expect("checked when it was built");
        let next = probe.visit_positions(task.at..count, order);
        if next < count {
            tasks.push(Task { at: next, ..task });
        }
    }
}

impl<S: Points, M: Metric<S::Point>> StoredIndex for BruteForce<S, M> {
    fn name(&self) -> &'static str {
        "brute-force"
    }

    fn kind(&self) -> Kind {
        Kind::BruteForce
    }

    fn reads(name: &str) -> bool {
        name == "brute-force"
    }

    fn write<'a>(&'a self, _: &mut FileContents<'a>) {}

    fn read(_: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        Ok(Self { points, metric, sorted: OnceLock::new() })
    }
}
