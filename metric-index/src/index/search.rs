//! The interface of all indexes, and the search that they share.

use std::num::NonZero;

use super::many::answer_in_parallel;
use super::probe::Probe;
use super::task::{Cost, Task};
use crate::collector::{Answer, Collector, Nearest, Within};
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::metric::{Blocks, Metric, Origin};
use crate::neighbor::Neighbor;
use crate::points::Points;

/// An exact index over points of a metric space.
///
/// [`within`](Index::within) and [`nearest`](Index::nearest) answer one query;
/// [`within_many`](Index::within_many) and [`nearest_many`](Index::nearest_many) answer many.
/// [`start`](Index::start) and [`step`](Index::step) are for code that schedules searches.
///
/// ```
/// use metric_index::index::{Index, VpTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let index = VpTree::build(words, Edit)?;
/// assert_eq!((index.len(), index.nodes()), (4, 1));
/// assert_eq!(index.nearest("cas", 2)?, index.nearest_by_ranges("cas", 2, 1.0, 2.0)?);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub trait Index: Sync + Sized {
    /// The store of points.
    type Points: Points;
    /// The metric.
    type Metric: Metric<<Self::Points as Points>::Point>;

    /// Returns the points in their original order, including removed points.
    fn points(&self) -> &Self::Points;

    /// Returns the number of points that have not been removed.
    fn len(&self) -> usize {
        self.points().len()
    }

    /// Returns whether the index is empty: it never had points, or all were removed.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the metric.
    fn metric(&self) -> &Self::Metric;

    /// Returns the number of nodes (clusters, blocks).
    fn nodes(&self) -> usize;

    /// Returns the points as [blocks](Metric::blocks), in the order of [`Probe::visit_positions`].
    /// Returns `None`, the default, if the metric has no blocks or the index does not keep them.
    fn blocks(&self) -> Option<&dyn Blocks<<Self::Points as Points>::Point>> {
        None
    }

    /// Starts a search: pushes its first tasks and returns the data that they share, such as the
    /// distances from pivots.
    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, Self::Points, Self::Metric, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]>;

    /// Processes a task until it is done or the probe [is exhausted](Probe::is_exhausted). Tasks
    /// pushed last are processed first.
    fn step<C: Collector>(
        &self,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, Self::Points, Self::Metric, C>,
        tasks: &mut Vec<Task>,
    );

    /// Returns the points at distance `<= radius` from `query`, nearest first. Ties are sorted by
    /// point number.
    ///
    /// # Errors
    /// Fails if the radius is negative or NaN, the query is invalid, or a distance from the query
    /// to a point is not finite.
    fn within(
        &self,
        query: &<Self::Points as Points>::Point,
        radius: f32,
    ) -> Result<Vec<Neighbor>, Error> {
        if radius.is_nan() || radius < 0.0 {
            return Err(Error::Radius { radius });
        }
        let (found, _) = search(self, query, Within::new(radius))?;
        Ok(found.into_sorted())
    }

    /// Returns the `k` points nearest to `query`, or all if there are fewer, nearest first. Ties go
    /// to the lower point number. The search radius starts at infinity and shrinks.
    ///
    /// # Errors
    /// Fails if the query is invalid (such as a vector with NaN) or a distance from the query to a
    /// point is not finite.
    fn nearest(
        &self,
        query: &<Self::Points as Points>::Point,
        k: usize,
    ) -> Result<Vec<Neighbor>, Error> {
        let (found, _) = search(self, query, Nearest::new(k))?;
        Ok(found.into_sorted())
    }

    /// Returns the same answer as [`nearest`](Index::nearest). Runs range queries of radius
    /// `first`, `first · factor`, `first · factor²` and so on, until a query finds k points.
    ///
    /// # Errors
    /// Fails if `first` is not positive or `factor` is not above 1. Also fails if the query is
    /// invalid, or a distance from the query to a point is not finite.
    fn nearest_by_ranges(
        &self,
        query: &<Self::Points as Points>::Point,
        k: usize,
        first: f32,
        factor: f32,
    ) -> Result<Vec<Neighbor>, Error> {
        for (number, low) in [(first, 0.0), (factor, 1.0)] {
            if number.is_nan() || number <= low {
                return Err(Error::Radius { radius: number });
            }
        }
        let k = k.min(self.len());
        let mut radius = first;
        loop {
            let mut found = self.within(query, radius)?;
            if found.len() >= k || radius == f32::INFINITY {
                found.truncate(k);
                return Ok(found);
            }
            // Ensure progress even if the factor is lost in rounding.
            radius = (radius * factor).max(radius.next_up());
        }
    }

    /// Returns the answers of [`nearest`](Index::nearest) to many queries, in query order. The
    /// answers do not depend on the number of threads. If some threads cannot be started, the
    /// others do all the work. A query that fails does not affect other queries.
    ///
    /// ```
    /// use std::num::NonZero;
    /// use metric_index::index::{Index, VpTree};
    /// use metric_index::metric::Euclidean;
    /// use metric_index::points::Vectors;
    ///
    /// let tree = VpTree::build(Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]), Euclidean)?;
    /// let queries = Vectors::from(vec![[1.0f32, 0.0], [3.0, 3.0]]);
    /// let two = NonZero::new(2).expect("above 0");
    /// let lists = tree.nearest_many(&queries, 1, two);
    /// assert_eq!((lists.get(0)?[0].point, lists.get(1)?[0].point), (0, 1));
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    fn nearest_many<Q: Points<Point = <Self::Points as Points>::Point>>(
        &self,
        queries: &Q,
        k: usize,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        self.answer_many(queries, threads, |_| Nearest::new(k))
    }

    /// Returns the answers of [`within`](Index::within) to many queries, like
    /// [`nearest_many`](Index::nearest_many).
    fn within_many<Q: Points<Point = <Self::Points as Points>::Point>>(
        &self,
        queries: &Q,
        radius: f32,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        if radius.is_nan() || radius < 0.0 {
            return (0..queries.len()).map(|_| Err(Error::Radius { radius })).collect();
        }
        self.answer_many(queries, threads, |_| Within::new(radius))
    }

    /// Returns the answers of custom collectors to many queries, like
    /// [`nearest_many`](Index::nearest_many). `ask` creates the collector of a query from its
    /// number.
    ///
    /// ```
    /// use std::num::NonZero;
    /// use metric_index::collector::{Answer, Collector, Nearest};
    /// use metric_index::index::{Index, VpTree};
    /// use metric_index::metric::Edit;
    /// use metric_index::neighbor::Neighbor;
    /// use metric_index::points::Strings;
    ///
    /// /// The nearest of all points except one.
    /// struct AllExcept(u32, Nearest);
    ///
    /// impl Collector for AllExcept {
    ///     fn radius(&self) -> f32 {
    ///         self.1.radius()
    ///     }
    ///
    ///     fn offer(&mut self, candidate: Neighbor) {
    ///         if candidate.point != self.0 {
    ///             self.1.offer(candidate);
    ///         }
    ///     }
    /// }
    ///
    /// impl Answer for AllExcept {
    ///     fn into_sorted(self) -> Vec<Neighbor> {
    ///         self.1.into_sorted()
    ///     }
    /// }
    ///
    /// let words: Strings = ["casa", "cosa", "pez"].into_iter().collect();
    /// let tree = VpTree::build(&words, Edit)?;
    /// let ask = |word| AllExcept(word, Nearest::new(1));
    /// let others = tree.answer_many(&words, NonZero::<usize>::MIN, ask);
    /// assert_eq!(others.get(0)?[0].point, 1);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    fn answer_many<Q: Points<Point = <Self::Points as Points>::Point>, A: Answer>(
        &self,
        queries: &Q,
        threads: NonZero<usize>,
        ask: impl Fn(u32) -> A + Sync,
    ) -> NeighborLists {
        answer_each(self, queries, threads, &ask)
    }
}

/// An index that supports insertion and removal of points. Other indexes must be rebuilt.
///
/// ```
/// use metric_index::index::{DynamicIndex, Index, MTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let mut tree = MTree::build(Strings::default(), Edit, 32)?;
/// for word in ["casa", "cosa"] {
///     tree.insert(word)?;
/// }
/// assert!(tree.remove(0)? && !tree.remove(0)?);
/// assert_eq!(tree.len(), 1);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub trait DynamicIndex: Index {
    /// Adds a point and returns its number, which is one more than the number of the last point.
    ///
    /// # Errors
    /// Fails if the distance from the point to itself is not 0, or a distance to another point is
    /// not finite. Also fails if the store does not support the point, or if no number is left. The
    /// index is then unchanged.
    fn insert(&mut self, point: &<Self::Points as Points>::Point) -> Result<u32, Error>;

    /// Removes a point, so that no answer contains it. Returns whether the index contained the
    /// point. Its number is never reused, and the point remains in [`Index::points`].
    ///
    /// # Errors
    /// Fails if a distance between two points of the index is not finite. The index is then
    /// unchanged.
    fn remove(&mut self, point: u32) -> Result<bool, Error>;
}

/// Searches an index and returns the collector and the cost.
///
/// # Errors
/// Fails if the query's distance from itself is not 0, or a distance from the query to a point is
/// not finite.
pub fn search<I: Index, C: Collector>(
    index: &I,
    query: &<I::Points as Points>::Point,
    collector: C,
) -> Result<(C, Cost), Error> {
    let mut search = Search::start(index, query, collector)?;
    search.work(u64::MAX)?;
    Ok(search.into_parts())
}

/// Answers each of many queries separately, on several threads.
pub(super) fn answer_each<I: Index, Q: Points<Point = <I::Points as Points>::Point>, A: Answer>(
    index: &I,
    queries: &Q,
    threads: NonZero<usize>,
    ask: &(impl Fn(u32) -> A + Sync),
) -> NeighborLists {
    answer_in_parallel(queries.len(), threads, &|query| {
        let (found, _) = search(index, queries.point(query), ask(query))?;
        Ok(found.into_sorted())
    })
}

impl<'a, S: Points, M: Metric<S::Point>, C: Collector> Probe<'a, S, M, C> {
    /// Starts a query that may evaluate up to `limit` distances. Checks that the query's distance
    /// from itself is 0, which counts as one evaluation.
    ///
    /// # Errors
    /// Fails if the query's distance from itself is not 0.
    pub fn start<I: Index<Points = S, Metric = M>>(
        index: &'a I,
        query: &'a S::Point,
        collector: C,
        limit: u64,
    ) -> Result<Self, Error> {
        let distance = index.metric().distance(query, query);
        if distance != 0.0 {
            return Err(Error::Query { distance });
        }
        let mut probe = Self::resume(index, query, collector, limit);
        probe.evaluations = 1;
        Ok(probe)
    }

    /// Resumes a query that was started before, possibly by another thread, with a budget of
    /// `limit` more distance evaluations.
    pub fn resume<I: Index<Points = S, Metric = M>>(
        index: &'a I,
        query: &'a S::Point,
        collector: C,
        limit: u64,
    ) -> Self {
        let query = Origin::new(index.metric(), query);
        Self::new(index.points(), query, index.blocks(), collector, limit)
    }
}

/// A search that can be paused and resumed.
///
/// ```
/// use metric_index::collector::Within;
/// use metric_index::index::{BruteForce, Search};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let index = BruteForce::new(words, Edit)?;
/// let mut search = Search::start(&index, "casa", Within::new(1.0))?;
/// assert!(!search.work(2)?, "two distances do not suffice");
/// assert!(search.work(2)?);
/// assert_eq!(search.into_parts().0.into_sorted().len(), 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub struct Search<'a, I: Index, C> {
    index: &'a I,
    probe: Probe<'a, I::Points, I::Metric, C>,
    shared: Box<[f32]>,
    tasks: Vec<Task>,
    processed_nodes: u64,
}

impl<I: Index, C> std::fmt::Debug for Search<'_, I, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search")
            .field("tasks", &self.tasks)
            .field("evaluations", &self.probe.evaluations)
            .finish_non_exhaustive()
    }
}

impl<'a, I: Index, C: Collector> Search<'a, I, C> {
    /// Starts a search. An index with pivots evaluates the distances from the query to the pivots
    /// here.
    ///
    /// # Errors
    /// Fails if the query's distance from itself is not 0.
    pub fn start(
        index: &'a I,
        query: &'a <I::Points as Points>::Point,
        collector: C,
    ) -> Result<Self, Error> {
        let mut probe = Probe::start(index, query, collector, u64::MAX)?;
        let mut tasks = Vec::with_capacity(64);
        let shared = index.start(&mut probe, &mut tasks);
        Ok(Self { index, probe, shared, tasks, processed_nodes: 0 })
    }

    /// Continues for at most `evaluations` distance evaluations. Returns whether the search is
    /// done.
    ///
    /// # Errors
    /// Fails if a distance from the query to a point is not finite.
    pub fn work(&mut self, evaluations: u64) -> Result<bool, Error> {
        self.probe.allow(evaluations);
        loop {
            if let Some(error) = self.probe.error {
                return Err(error);
            }
            let Some(task) = self.tasks.pop() else { return Ok(true) };
            if task.bound > self.probe.radius() {
                continue;
            }
            if self.probe.is_exhausted() {
                self.tasks.push(task);
                return Ok(false);
            }
            self.index.step(task, &self.shared, &mut self.probe, &mut self.tasks);
            self.processed_nodes += 1;
        }
    }

    /// Returns the cost so far.
    pub fn cost(&self) -> Cost {
        Cost { evaluations: self.probe.evaluations, nodes: self.processed_nodes }
    }

    /// Returns the collector and the cost.
    pub fn into_parts(self) -> (C, Cost) {
        let cost = self.cost();
        (self.probe.collector, cost)
    }
}
