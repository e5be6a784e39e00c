//! Exact search on NVIDIA GPUs, with the same answers as on the CPU, bit for bit.
//!
//! The driver is loaded at run time, so the crate builds and runs without a GPU.
//!
//! ```
//! use std::num::NonZero;
//! use std::sync::Arc;
//! use metric_index::Question;
//! use metric_index::gpu::{Device, GpuSearch};
//! use metric_index::index::BruteForce;
//! use metric_index::metric::Euclidean;
//! use metric_index::points::Vectors;
//!
//! let points = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
//! let index = Arc::new(BruteForce::new(points, Euclidean)?);
//! // Does nothing without a GPU.
//! if let Ok(device) = Device::open_best() {
//!     let search = GpuSearch::new(&[device], index)?.ok_or("not on this GPU")?;
//!     let queries = Vectors::from(vec![[3.0f32, 3.0]]);
//!     let found = search.answer(&queries, Question::Nearest(1), NonZero::<usize>::MIN);
//!     assert_eq!(found.lists.get(0)?[0].point, 1);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{CompletedTask, DealOutcome, deal};
pub use gpu_runtime::{Device, DeviceInfo, GpuError, devices};

use crate::Question;
use crate::error::Error;
use crate::index::Index;
use crate::lists::{Merger, NeighborLists};
use crate::metric::{Formula, Metric};
use crate::neighbor::Neighbor;
use crate::points::{Points, Subset};

mod alphabet;
mod arguments;
mod engine;
mod launch;
mod parts;
mod vectors;
mod words;

pub use alphabet::Alphabet;

use engine::{Engine, GpuAnswers};

/// A type of points that GPUs can search: vectors of `f32`, or strings.
pub trait GpuPoint: Sync {
    /// The copy of the points on a GPU.
    #[doc(hidden)]
    type Engine: Engine<Self>;
}

impl GpuPoint for [f32] {
    type Engine = vectors::VectorEngine;
}

impl GpuPoint for str {
    type Engine = words::WordEngine;
}

/// The distribution of points over several GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each GPU holds all points and answers some of the queries.
    Replicated,
    /// Each GPU holds some of the points and answers all queries.
    Sharded,
}

/// The answers to queries, with statistics about the search.
#[derive(Debug, Default)]
pub struct Answers {
    /// The answers in query order, as [`Index::nearest_many`] returns them.
    pub lists: NeighborLists,
    /// Number of queries that the CPU answered because no GPU could. Possible reasons are an
    /// invalid query, more neighbors than fit in shared memory, thousands of equally near points,
    /// or a word of more than 64 characters.
    pub fell_back: usize,
    /// The numbers of the queries that the CPU answered, in ascending order.
    pub by_cpu: Vec<u32>,
    /// Kernel time in seconds, without copies, of the slowest GPU.
    pub device_seconds: f64,
    /// Errors of GPUs that failed. Other GPUs or the CPU took over their work.
    pub failed: Vec<GpuError>,
}

impl Answers {
    /// Adds the time and the failures of work on GPUs to the statistics. Returns the completed
    /// work.
    fn record<T>(
        &mut self,
        outcome: DealOutcome<T, GpuAnswers, GpuError>,
    ) -> Vec<CompletedTask<T, GpuAnswers>> {
        self.failed.extend(outcome.failures.into_iter().map(|failure| failure.error));
        let mut milliseconds: Vec<f64> = Vec::new();
        for CompletedTask { worker, result, .. } in &outcome.done {
            milliseconds.resize(milliseconds.len().max(worker + 1), 0.0);
            milliseconds[*worker] += result.milliseconds;
        }
        self.device_seconds += milliseconds.into_iter().fold(0.0, f64::max) / 1e3;
        outcome.done
    }
}

/// The engine for the points of an index.
type EngineOf<I> = <<<I as Index>::Points as Points>::Point as GpuPoint>::Engine;

/// A search on GPUs, with an index on the CPU for queries that GPUs cannot answer.
#[derive(Debug)]
pub struct GpuSearch<I: Index>
where
    <I::Points as Points>::Point: GpuPoint,
{
    index: Arc<I>,
    formula: Formula,
    layout: Layout,
    shards: Vec<Shard<EngineOf<I>>>,
    /// Number of parts into which the points are split: 1 with [`Layout::Replicated`], otherwise at
    /// least the number of GPUs. If the points do not fit in the memory of the GPUs, there are more
    /// parts than GPUs, and each part is copied when it is searched.
    parts: usize,
}

/// The points on one GPU.
#[derive(Debug)]
struct Shard<E> {
    device: Device,
    /// The part that the GPU holds, if the points are sharded.
    part: Option<usize>,
    /// The engine; `None` if the GPU holds no points between searches.
    engine: Option<E>,
}

impl<I: Index + Send> GpuSearch<I>
where
    <I::Points as Points>::Point: GpuPoint,
{
    /// Copies the points of an index to GPUs: all points to each GPU if they fit; otherwise the
    /// points are sharded.
    ///
    /// Returns `None` if GPUs cannot search the points: the metric has no [`Formula`], there are no
    /// devices, or points were removed.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    pub fn new(devices: &[Device], index: Arc<I>) -> Result<Option<Self>, GpuError> {
        Self::with_layout(devices, index, Layout::Replicated, usize::MAX)
    }

    /// Copies the points like [`new`](Self::new), with a given layout and at most `memory` bytes of
    /// points per GPU. Free memory is an additional limit.
    ///
    /// # Errors
    /// Fails if a GPU fails.
    pub fn with_layout(
        devices: &[Device],
        index: Arc<I>,
        layout: Layout,
        memory: usize,
    ) -> Result<Option<Self>, GpuError> {
        let Some(formula) = index.metric().formula() else { return Ok(None) };
        let points = index.points();
        // The store still contains removed points.
        if index.len() != points.len() || points.is_empty() || devices.is_empty() {
            return Ok(None);
        }
        let needed = EngineOf::<I>::bytes_of(points, formula);
        let mut budget = memory;
        for device in devices {
            // The remaining 20 % is for queries.
            budget = budget.min(device.free()? / 10 * 8);
        }
        let min_parts = if layout == Layout::Sharded { devices.len() } else { 1 };
        let parts = needed.div_ceil(budget.max(1)).max(min_parts);
        let (layout, parts) = if parts > 1 {
            (Layout::Sharded, parts.next_multiple_of(devices.len()).min(points.len()))
        } else {
            (layout, 1)
        };
        let is_resident = parts <= devices.len();
        let mut shards = Vec::with_capacity(devices.len());
        for (number, device) in devices.iter().enumerate() {
            let engine = match layout {
                _ if !is_resident || number >= parts.max(1) && layout == Layout::Sharded => None,
                Layout::Replicated => Engine::upload(device, points, formula)?,
                Layout::Sharded => {
                    Engine::upload(device, &Subset::every(points, number, parts), formula)?
                }
            };
            if engine.is_none() && is_resident && number < parts {
                return Ok(None);
            }
            let part = (layout == Layout::Sharded && engine.is_some()).then_some(number);
            shards.push(Shard { device: device.clone(), part, engine });
        }
        Ok(Some(Self { index, formula, layout, shards, parts }))
    }

    /// Returns the distribution of the points over the GPUs.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of parts into which the points are split.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Answers queries. Queries that the GPUs cannot answer fall back to `threads` threads of the
    /// CPU.
    ///
    /// # Panics
    /// Panics if there are 2^32 queries or more.
    pub fn answer<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        question: Question,
        threads: NonZero<usize>,
    ) -> Answers {
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let has_answers = match question {
            Question::Nearest(k) => k > 0,
            Question::Within(radius) => radius >= 0.0,
        };
        let mut all = Answers::default();
        let found = match self.layout {
            _ if !has_answers => PartAnswers::default(),
            Layout::Replicated => self.answer_replicated(queries, count, question, &mut all),
            Layout::Sharded => self.answer_sharded(queries, count, question, &mut all),
        };
        let unanswered: Vec<u32> =
            (0..count).filter(|&query| !found.is_answered(query as usize)).collect();
        all.fell_back = unanswered.len();
        all.by_cpu.clone_from(&unanswered);
        let lists = self.answer_on_cpu(queries, &unanswered, question, threads);
        let cpu_answers = CpuAnswers { queries: unanswered, lists };
        all.lists = found.into_lists(count as usize, question, cpu_answers, threads);
        all
    }

    /// Answers queries on all GPUs. Each GPU answers some of the queries.
    fn answer_replicated<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        count: u32,
        question: Question,
        all: &mut Answers,
    ) -> PartAnswers {
        /// Maximum number of queries that a GPU takes at a time.
        const MAX_QUERIES: u32 = 1 << 16;
        let gpus = u32::try_from(self.shards.len()).expect("fewer than 2^32 GPUs");
        let size = count.div_ceil(gpus).clamp(1, MAX_QUERIES);
        let start = (0..count).step_by(size as usize);
        let range = |start: u32| start..count.min(start.saturating_add(size));
        let ranges: Vec<Range<u32>> = start.map(range).collect();
        // Ranges that no GPU completes stay unanswered.
        let mut found: Vec<GpuAnswers> =
            ranges.iter().map(|range| GpuAnswers::unanswered(range.len())).collect();
        let last = |_: &Shard<_>, left: &[Range<u32>]| left.len().checked_sub(1);
        let work = |shard: &Shard<EngineOf<I>>, range: &Range<u32>| {
            let engine = shard.engine.as_ref().expect("each GPU holds all points");
            engine.answer(queries, range.clone(), question)
        };
        for done in all.record(deal(&self.shards, ranges, last, work)) {
            found[(done.task.start / size) as usize] = done.result;
        }
        PartAnswers { parts: vec![found], range_size: size as usize }
    }

    /// Answers all queries on each GPU, from the GPU's parts of the points.
    fn answer_sharded<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        count: u32,
        question: Question,
        all: &mut Answers,
    ) -> PartAnswers {
        let held_by = |shard: &Shard<EngineOf<I>>| shard.engine.as_ref().and(shard.part);
        let choose = |shard: &Shard<EngineOf<I>>, left: &[usize]| {
            let own = left.iter().position(|&part| held_by(shard) == Some(part));
            // Leave parts to GPUs that already hold them.
            let is_held = |&part: &usize| self.shards.iter().any(|gpu| held_by(gpu) == Some(part));
            own.or_else(|| left.iter().position(|part| !is_held(part)))
        };
        let work =
            |shard: &Shard<_>, &part: &usize| self.search_part(shard, part, queries, question);
        let mut answered = all.record(deal(&self.shards, (0..self.parts).collect(), choose, work));
        if answered.len() < self.parts {
            // A GPU failed, and no other GPU holds its points, so the CPU answers.
            return PartAnswers::default();
        }
        answered.sort_unstable_by_key(|done| done.task);
        let parts = answered.into_iter().map(|done| vec![done.result]).collect();
        PartAnswers { parts, range_size: count.max(1) as usize }
    }

    fn search_part<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        shard: &Shard<EngineOf<I>>,
        part: usize,
        queries: &Q,
        question: Question,
    ) -> Result<GpuAnswers, GpuError> {
        let count = u32::try_from(queries.len()).expect("checked by the caller");
        if let Some(engine) = shard.engine.as_ref().filter(|_| shard.part == Some(part)) {
            return engine.answer(queries, 0..count, question);
        }
        let points = Subset::every(self.index.points(), part, self.parts);
        let engine = EngineOf::<I>::upload(&shard.device, &points, self.formula)?;
        let nothing = || Ok(GpuAnswers::unanswered(count as usize));
        engine.map_or_else(nothing, |engine| engine.answer(queries, 0..count, question))
    }

    fn answer_on_cpu<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        unanswered: &[u32],
        question: Question,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        let queries = Subset::new(queries, unanswered.to_vec());
        match question {
            Question::Nearest(k) => self.index.nearest_many(&queries, k, threads),
            Question::Within(radius) => self.index.within_many(&queries, radius, threads),
        }
    }
}

/// The answers of GPUs from each part of the points, in the order of the parts.
///
/// With T parts, point p of part t is point `p * T + t`. There is one part if each GPU holds all
/// points.
#[derive(Debug)]
struct PartAnswers {
    /// The answers of each part to consecutive ranges of the queries.
    parts: Vec<Vec<GpuAnswers>>,
    /// Number of queries in each range except the last.
    range_size: usize,
}

impl Default for PartAnswers {
    /// Returns no answers.
    fn default() -> Self {
        Self { parts: Vec::new(), range_size: 1 }
    }
}

/// The answers of the CPU to the queries that GPUs did not answer.
#[derive(Debug)]
struct CpuAnswers {
    /// The queries in ascending order.
    queries: Vec<u32>,
    lists: NeighborLists,
}

impl CpuAnswers {
    /// Returns the list of a query: empty if the query was rejected, `None` if the CPU did not
    /// answer it.
    fn list(&self, query: usize) -> Option<&[Neighbor]> {
        let position = self.queries.binary_search(&u32::try_from(query).ok()?).ok()?;
        Some(self.lists.get(position).unwrap_or_default())
    }

    /// Returns the errors of rejected queries.
    fn errors(&self) -> Vec<(usize, Error)> {
        let answers = self.lists.iter().zip(&self.queries);
        answers.filter_map(|(list, &query)| Some((query as usize, list.err()?))).collect()
    }
}

impl PartAnswers {
    /// Returns the list of a query from each part.
    fn lists(&self, query: usize) -> impl Iterator<Item = Option<&[Neighbor]>> {
        let range = query / self.range_size;
        let own = query % self.range_size;
        self.parts.iter().map(move |ranges| ranges[range].list(own))
    }

    /// Returns whether all parts have answered a query.
    fn is_answered(&self, query: usize) -> bool {
        !self.parts.is_empty() && self.lists(query).all(|list| list.is_some())
    }

    /// Combines the lists of all queries. A list comes from the CPU if it answered the query;
    /// otherwise it contains the nearest neighbors over all parts.
    fn into_lists(
        mut self,
        queries: usize,
        question: Question,
        on_cpu: CpuAnswers,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        if on_cpu.queries.len() == queries {
            return on_cpu.lists;
        }
        if let ([ranges], []) = (&mut self.parts[..], &on_cpu.queries[..])
            && ranges.len() == 1
            && let Some(all) = ranges.pop()
        {
            return all.into_lists(threads);
        }
        self.merge(queries, question, &on_cpu, threads)
    }

    fn merge(
        &self,
        queries: usize,
        question: Question,
        on_cpu: &CpuAnswers,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        let max_length = match question {
            Question::Nearest(k) => k,
            Question::Within(_) => usize::MAX,
        };
        let count =
            |query| self.lists(query).flatten().map(<[_]>::len).sum::<usize>().min(max_length);
        let length = |query| on_cpu.list(query).map_or_else(|| count(query), <[_]>::len);
        let merger = || Merger::new(self.parts.len());
        let lists =
            NeighborLists::filled(
                queries,
                length,
                threads,
                merger,
                |merger, query, to| match on_cpu.list(query) {
                    Some(list) => to.copy_from_slice(list),
                    None => merger.merge(self.lists(query).flatten(), to),
                },
            );
        lists.with_errors(on_cpu.errors())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(point: u32, distance: f32) -> Neighbor {
        Neighbor { point, distance }
    }

    fn found(lists: &[Option<&[Neighbor]>]) -> GpuAnswers {
        let mut found = GpuAnswers::unanswered(lists.len());
        // The order of arrival differs from the query order.
        for (query, list) in lists.iter().enumerate().rev() {
            if let Some(list) = list {
                found.add(query, list);
            }
        }
        found
    }

    fn lists_of(found: PartAnswers, queries: u32, k: usize, on_cpu: &[Neighbor]) -> NeighborLists {
        let unanswered: Vec<u32> =
            (0..queries).filter(|&query| !found.is_answered(query as usize)).collect();
        let lists = unanswered.iter().map(|_| Ok(on_cpu.to_vec())).collect();
        let on_cpu = CpuAnswers { queries: unanswered, lists };
        let threads = NonZero::<usize>::MIN;
        found.into_lists(queries as usize, Question::Nearest(k), on_cpu, threads)
    }

    fn expected(lists: &[&[Neighbor]]) -> NeighborLists {
        lists.iter().map(|list| Ok(list.to_vec())).collect()
    }

    #[test]
    fn ranges_of_queries_are_concatenated() {
        let a = [near(3, 1.0)];
        let b = [near(1, 0.0), near(2, 2.0)];
        let c = [near(9, 5.0)];
        for range_size in [3, 2, 1] {
            let all = [Some(&a[..]), Some(&b[..]), Some(&c[..])];
            let ranges = all.chunks(range_size).map(found).collect();
            let parts = PartAnswers { parts: vec![ranges], range_size };
            assert_eq!(lists_of(parts, 3, 7, &[]), expected(&[&a, &b, &c]), "{range_size}");
            let some = [Some(&a[..]), None, Some(&c[..])];
            let ranges = some.chunks(range_size).map(found).collect();
            let parts = PartAnswers { parts: vec![ranges], range_size };
            assert_eq!(lists_of(parts, 3, 7, &b), expected(&[&a, &b, &c]), "{range_size}");
        }
        assert_eq!(lists_of(PartAnswers::default(), 2, 7, &a), expected(&[&a, &a]));
        assert_eq!(lists_of(PartAnswers::default(), 0, 7, &a), expected(&[]));
    }

    #[test]
    fn parts_of_points_are_merged() {
        let even = [near(0, 1.0), near(4, 2.0), near(5, 3.0)];
        let odd = [near(0, 0.5), near(1, 2.0)];
        let first = found(&[Some(&even), Some(&[]), Some(&even)]);
        let second = found(&[Some(&odd), Some(&odd), None]);
        let parts = PartAnswers { parts: vec![vec![first], vec![second]], range_size: 3 };
        let both = [near(1, 0.5), near(0, 1.0), near(3, 2.0), near(8, 2.0)];
        let alone = [near(1, 0.5), near(3, 2.0)];
        // The second part does not answer the last query, so the CPU does.
        let on_cpu = [near(77, 0.0)];
        assert_eq!(lists_of(parts, 3, 4, &on_cpu), expected(&[&both, &alone, &on_cpu]));
    }

    #[test]
    fn rejected_queries_keep_their_errors() {
        let a = [near(3, 1.0)];
        let parts = PartAnswers { parts: vec![vec![found(&[Some(&a), None])]], range_size: 2 };
        let error = Error::Query { distance: 1.0 };
        let lists = [Err(error)].into_iter().collect();
        let on_cpu = CpuAnswers { queries: vec![1], lists };
        let lists = parts.into_lists(2, Question::Nearest(1), on_cpu, NonZero::<usize>::MIN);
        assert_eq!((lists.get(0), lists.get(1)), (Ok(&a[..]), Err(error)));
    }
}
