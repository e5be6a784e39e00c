//! Probes: the state of running queries.

use std::ops::Range;

use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric, Origin, Scan};
use crate::neighbor::Neighbor;
use crate::points::Points;

/// A running query, which evaluates and counts distances and offers candidates to the collector.
///
/// An index that is implemented outside this crate:
///
/// ```
/// use metric_index::collector::Collector;
/// use metric_index::index::{Index, Probe, Task};
/// use metric_index::metric::Edit;
/// use metric_index::points::{Points, Strings};
///
/// /// An index with one pivot, the first point. The distance from another point is evaluated only
/// /// if the pivot does not exclude that point.
/// struct OnePivot(Strings, Vec<f32>);
///
/// impl Index for OnePivot {
///     type Points = Strings;
///     type Metric = Edit;
///
///     fn points(&self) -> &Strings {
///         &self.0
///     }
///
///     fn metric(&self) -> &Edit {
///         &Edit
///     }
///
///     fn nodes(&self) -> usize {
///         1
///     }
///
///     fn start<C: Collector>(
///         &self,
///         probe: &mut Probe<'_, Strings, Edit, C>,
///         tasks: &mut Vec<Task>,
///     ) -> Box<[f32]> {
///         tasks.push(Task { at: 1, ..Task::new(0, 0.0, 0.0) });
///         Box::new([probe.visit(0)])
///     }
///
///     fn step<C: Collector>(
///         &self,
///         task: Task,
///         shared: &[f32],
///         probe: &mut Probe<'_, Strings, Edit, C>,
///         tasks: &mut Vec<Task>,
///     ) {
///         for (at, from_pivot) in (0..).zip(&self.1).skip(task.at as usize) {
///             if (from_pivot - shared[0]).abs() > probe.radius() {
///                 continue;
///             }
///             if probe.is_exhausted() {
///                 tasks.push(Task { at, ..task });
///                 return;
///             }
///             probe.visit_within(at);
///         }
///     }
/// }
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let index = OnePivot(words, vec![0.0, 1.0, 1.0, 4.0]);
/// assert_eq!(index.within("casa", 1.0)?.len(), 3);
/// assert_eq!(index.nearest("paz", 1)?[0].point, 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
///
/// A custom scheduler, which decides when each task is processed and by which thread:
///
/// ```
/// use metric_index::collector::Within;
/// use metric_index::index::{Index, Probe, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(words, Edit)?;
/// let (mut ball, mut tasks) = (Within::new(1.0), Vec::new());
/// let mut probe = Probe::start(&tree, "casa", &mut ball, u64::MAX)?;
/// let shared = tree.start(&mut probe, &mut tasks);
/// probe.finish()?;
/// while let Some(task) = tasks.pop() {
///     // Another thread could process each task, with its own collector.
///     let mut probe = Probe::resume(&tree, "casa", &mut ball, 2);
///     tree.step(task, &shared, &mut probe, &mut tasks);
///     assert!(probe.evaluations() <= 2);
///     probe.finish()?;
/// }
/// assert_eq!(ball.into_sorted().len(), 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub struct Probe<'a, S: Points, M, C> {
    points: &'a S,
    query: Origin<'a, S::Point, M>,
    pub(super) collector: C,
    pub(super) evaluations: u64,
    limit: u64,
    pub(super) error: Option<Error>,
    /// The blocks of the index, until the first scan prepares the query.
    blocks: Option<&'a dyn Blocks<S::Point>>,
    scan: Option<Box<dyn Scan + 'a>>,
    /// A buffer for positions and distances.
    near: Vec<(u32, f32)>,
}

impl<S: Points, M, C> std::fmt::Debug for Probe<'_, S, M, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("evaluations", &self.evaluations).finish_non_exhaustive()
    }
}

impl<'a, S: Points, M: Metric<S::Point>, C: Collector> Probe<'a, S, M, C> {
    /// Creates a probe for points and the blocks that contain them.
    pub(super) fn new(
        points: &'a S,
        query: Origin<'a, S::Point, M>,
        blocks: Option<&'a dyn Blocks<S::Point>>,
        collector: C,
        limit: u64,
    ) -> Self {
        Self {
            points,
            query,
            collector,
            evaluations: 0,
            limit,
            error: None,
            blocks,
            scan: None,
            near: Vec::new(),
        }
    }

    /// Returns the number of distances evaluated so far.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Sets the remaining budget to `evaluations` distance evaluations.
    pub fn allow(&mut self, evaluations: u64) {
        self.limit = self.evaluations.saturating_add(evaluations);
    }

    /// Ends the query.
    ///
    /// # Errors
    /// Fails if a distance from the query to a point is not finite.
    pub fn finish(self) -> Result<(), Error> {
        self.error.map_or(Ok(()), Err)
    }

    /// Returns the query.
    pub fn query(&self) -> &S::Point {
        self.query.point()
    }

    /// Returns the current search radius.
    pub fn radius(&self) -> f32 {
        self.collector.radius()
    }

    /// Evaluates the distance from the query to a point without offering the point.
    pub fn measure(&mut self, point: u32) -> f32 {
        self.evaluations += 1;
        let distance = self.query.to(self.points.point(point));
        if !(0.0..f32::INFINITY).contains(&distance) {
            self.error = self.error.or(Some(Error::NoDistance { point, distance }));
        }
        distance
    }

    /// Evaluates the distance from the query to a point and offers the point.
    pub fn visit(&mut self, point: u32) -> f32 {
        self.evaluations += 1;
        let distance = self.query.to(self.points.point(point));
        self.offer(point, distance);
        distance
    }

    /// Offers a point if its distance from the query is within the radius.
    pub fn visit_within(&mut self, point: u32) {
        self.evaluations += 1;
        let radius = self.collector.radius();
        let candidate = self.points.point(point);
        if let Some(distance) = self.query.to_within(candidate, radius) {
            self.offer(point, distance);
        }
    }

    /// Offers the points in a range of `order` that are within the radius, like
    /// [`visit_within`](Self::visit_within) for each of them, until the probe [is
    /// exhausted](Self::is_exhausted).
    ///
    /// Returns the first unvisited position, or the end of the range. If the index has
    /// [blocks](super::Index::blocks), `order` must be their order.
    ///
    /// # Panics
    /// Panics if the range exceeds `order`.
    pub fn visit_positions(&mut self, positions: Range<u32>, order: &[u32]) -> u32 {
        /// Maximum number of positions scanned with the same radius.
        const POSITIONS_PER_RADIUS: u32 = 128;
        /// Number of positions scanned first, while the radius is infinite.
        const FIRST_POSITIONS: u32 = 32;
        let Range { mut start, end } = positions;
        while start < end && !self.is_exhausted() {
            let budget = u32::try_from(self.limit - self.evaluations).unwrap_or(u32::MAX);
            let count =
                if self.radius() < f32::INFINITY { POSITIONS_PER_RADIUS } else { FIRST_POSITIONS };
            let stop = end.min(start.saturating_add(budget.min(count)));
            if self.scan(start..stop, order, |_| true) {
                self.evaluations += u64::from(stop - start);
            } else {
                let points = &order[start as usize..stop as usize];
                for &point in points {
                    self.visit_within(point);
                }
            }
            start = stop;
        }
        start
    }

    /// Offers the marked points in a range of `order` that are within the radius, like
    /// [`visit_within`](Self::visit_within) for each of them, until the probe [is
    /// exhausted](Self::is_exhausted). Returns the first unvisited position, or the end of the
    /// range.
    pub(super) fn visit_marked(
        &mut self,
        positions: Range<u32>,
        order: &[u32],
        is_marked: impl Fn(u32) -> bool,
    ) -> u32 {
        /// Minimum number of marked points for which scanning a whole group is faster.
        const MIN_MARKED: u64 = 4;
        /// Number of positions scanned together.
        const POSITIONS_PER_GROUP: u32 = 32;
        let mut start = positions.start;
        while start < positions.end {
            // Groups are aligned with blocks.
            let stop = positions.end.min((start / POSITIONS_PER_GROUP + 1) * POSITIONS_PER_GROUP);
            let marked = (start..stop).filter(|&position| is_marked(position)).count() as u64;
            let budget = self.limit.saturating_sub(self.evaluations);
            let is_worthwhile = marked >= MIN_MARKED && budget >= marked;
            if is_worthwhile && self.scan(start..stop, order, &is_marked) {
                self.evaluations += marked;
            } else {
                for position in (start..stop).filter(|&position| is_marked(position)) {
                    if self.is_exhausted() {
                        return position;
                    }
                    self.visit_within(order[position as usize]);
                }
            }
            start = stop;
        }
        positions.end
    }

    /// Scans a range of positions and offers the marked points within the radius. Returns `false`
    /// if there are no blocks for the points or the query.
    fn scan(
        &mut self,
        positions: Range<u32>,
        order: &[u32],
        is_marked: impl Fn(u32) -> bool,
    ) -> bool {
        if let Some(blocks) = self.blocks.take() {
            self.scan = blocks.from(self.query.point());
        }
        let Some(scan) = &mut self.scan else { return false };
        let mut near = std::mem::take(&mut self.near);
        scan.within(positions, self.collector.radius(), &mut near);
        for (position, distance) in near.drain(..).filter(|&(position, _)| is_marked(position)) {
            self.offer(order[position as usize], distance);
        }
        self.near = near;
        true
    }

    fn offer(&mut self, point: u32, distance: f32) {
        if (0.0..f32::INFINITY).contains(&distance) {
            self.collector.offer(Neighbor { point, distance });
        } else {
            self.error = self.error.or(Some(Error::NoDistance { point, distance }));
        }
    }

    /// Returns whether the query has failed because its distance from a point is not finite.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Returns whether the budget of evaluations is exhausted or the query has failed. A step then
    /// pushes the remainder of its task and returns.
    pub fn is_exhausted(&self) -> bool {
        self.evaluations >= self.limit || self.error.is_some()
    }
}
