//! Search on NVIDIA GPUs: the answers of the CPU, to the bit.
//!
//! The driver is found while the program runs; nothing here needs a GPU to build or to start.
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
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

pub use gpu_runtime::{Device, DeviceInfo, GpuError, devices};

use crate::Question;
use crate::error::Error;
use crate::index::Index;
use crate::lists::{Merger, NeighborLists};
use crate::metric::{Formula, Metric};
use crate::neighbor::Neighbor;
use crate::points::{Points, Subset};

mod alphabet;
mod engine;
mod launch;
mod vectors;
mod words;

pub use alphabet::Alphabet;

use engine::{Engine, Found};

/// Points that GPUs can search: vectors of `f32` and strings.
///
/// ```
/// fn is_on_gpu<P: metric_index::gpu::OnGpu + ?Sized>() {}
///
/// is_on_gpu::<[f32]>();
/// is_on_gpu::<str>();
/// ```
pub trait OnGpu: Sync {
    /// The points on a GPU.
    #[doc(hidden)]
    type Engine: Engine<Self>;
}

impl OnGpu for [f32] {
    type Engine = vectors::VectorEngine;
}

impl OnGpu for str {
    type Engine = words::WordEngine;
}

/// How the points lie on several GPUs.
///
/// ```
/// assert_ne!(metric_index::gpu::Layout::Replicated, metric_index::gpu::Layout::Sharded);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each GPU has all points, and answers some of the queries.
    Replicated,
    /// The points are dealt to the GPUs, and each answers all queries.
    Sharded,
}

/// The answers to queries, and how they were found.
///
/// ```
/// assert_eq!(metric_index::gpu::Answers::default().fell_back, 0);
/// ```
#[derive(Debug, Default)]
pub struct Answers {
    /// In the order of the queries, as [`Index::nearest_many`] gives them.
    pub lists: NeighborLists,
    /// Queries that the CPU answered, because no GPU could: invalid ones, more neighbors than fit into a GPU's shared memory,
    /// thousands of points that are equally near, words of more than 64 characters.
    pub fell_back: usize,
    /// The numbers of these queries, in increasing order.
    pub by_cpu: Vec<u32>,
    /// The time of the kernels, in seconds, without copies of queries and answers: on the GPU that took longest.
    pub device_seconds: f64,
    /// GPUs that failed, and why. Others, or the CPU, have done their work.
    pub failed: Vec<GpuError>,
}

/// Points on GPUs, with an index of them on the CPU, which answers what the GPUs cannot.
#[derive(Debug)]
pub struct GpuSearch<I: Index>
where
    <I::Points as Points>::Point: OnGpu,
{
    index: Arc<I>,
    formula: Formula,
    layout: Layout,
    shards: Vec<Shard<<<I::Points as Points>::Point as OnGpu>::Engine>>,
    /// Into how many parts the points are cut: one with [`Layout::Replicated`], else at least as many as there are GPUs. More if they
    /// do not fit: then each is copied when it is searched.
    parts: usize,
}

/// The points of a GPU.
#[derive(Debug)]
struct Shard<E> {
    device: Device,
    /// The part that it has, if the points are dealt.
    part: Option<usize>,
    /// `None` if the GPU does not have room for all its parts at once.
    engine: Option<E>,
}

impl<I: Index + Send> GpuSearch<I>
where
    <I::Points as Points>::Point: OnGpu,
{
    /// Copies the points of an index to GPUs: all to each if they fit, else dealt. `None` if GPUs cannot search them: their metric
    /// has no [`Formula`], say, or there are none.
    ///
    /// # Errors
    /// If a GPU fails.
    pub fn new(devices: &[Device], index: Arc<I>) -> Result<Option<Self>, GpuError> {
        Self::with_layout(devices, index, Layout::Replicated, usize::MAX)
    }

    /// As [`new`](Self::new), with a layout, and with at most so many bytes of points on a GPU: the free memory, if that
    /// is less.
    ///
    /// # Errors
    /// If a GPU fails.
    pub fn with_layout(
        devices: &[Device],
        index: Arc<I>,
        layout: Layout,
        memory: usize,
    ) -> Result<Option<Self>, GpuError> {
        let Some(formula) = index.metric().formula() else { return Ok(None) };
        let points = index.points();
        // Removed points are still among the points.
        if index.len() != points.len() || points.is_empty() || devices.is_empty() {
            return Ok(None);
        }
        let needed = <<I::Points as Points>::Point as OnGpu>::Engine::bytes_of(points, formula);
        let mut room = memory;
        for device in devices {
            // The rest is for queries.
            room = room.min(device.free()? / 10 * 8);
        }
        let least = if layout == Layout::Sharded { devices.len() } else { 1 };
        let parts = needed.div_ceil(room.max(1)).max(least);
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

    /// How the points lie on the GPUs.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Into how many parts the points are cut.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Answers queries. What the GPUs cannot answer, the CPU answers on some threads.
    ///
    /// # Panics
    /// If there are 2^32 queries or more.
    pub fn answer<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        question: Question,
        threads: NonZero<usize>,
    ) -> Answers {
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let is_asked = match question {
            Question::Nearest(k) => k > 0,
            Question::Within(radius) => radius >= 0.0,
        };
        let mut all = Answers::default();
        let found = match self.layout {
            _ if !is_asked => FoundParts::default(),
            Layout::Replicated => self.replicated(queries, count, question, &mut all),
            Layout::Sharded => self.sharded(queries, count, question, &mut all),
        };
        let left: Vec<u32> =
            (0..count).filter(|&query| !found.is_answered(query as usize)).collect();
        all.fell_back = left.len();
        all.by_cpu.clone_from(&left);
        let on_cpu = self.on_cpu(queries, &left, question, threads);
        let on_cpu = OnCpu { left, lists: on_cpu };
        all.lists = found.into_lists(count as usize, question, on_cpu, threads);
        all
    }

    /// Each GPU answers some queries.
    fn replicated<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        count: u32,
        question: Question,
        all: &mut Answers,
    ) -> FoundParts {
        /// The most queries that a GPU takes at a time.
        const MOST: u32 = 1 << 16;
        let gpus = u32::try_from(self.shards.len()).expect("a few");
        let size = count.div_ceil(gpus).clamp(1, MOST);
        let start = (0..count).step_by(size as usize);
        let range = |start: u32| start..count.min(start.saturating_add(size));
        let ranges: Vec<Range<u32>> = start.map(range).collect();
        // What no GPU can do has no answers.
        let mut found: Vec<Found> =
            ranges.iter().map(|range| Found::nothing(range.len())).collect();
        let answered = dealt(
            &self.shards,
            ranges,
            |_, ranges| ranges.pop(),
            |shard, range| {
                let engine = shard.engine.as_ref().expect("each has all points");
                engine.answer(queries, range.clone(), question)
            },
            all,
        );
        for (range, some) in answered {
            found[(range.start / size) as usize] = some;
        }
        FoundParts { parts: vec![found], range_size: size as usize }
    }

    /// Each GPU answers all queries from its parts of the points.
    fn sharded<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        count: u32,
        question: Question,
        all: &mut Answers,
    ) -> FoundParts {
        let own = |shard: &Shard<_>| shard.engine.as_ref().and(shard.part);
        let mut answered = dealt(
            &self.shards,
            (0..self.parts).collect(),
            |shard, parts: &mut Vec<usize>| {
                let at = parts.iter().position(|&part| own(shard) == Some(part));
                // What another GPU has is left to it.
                let others =
                    |&part: &usize| self.shards.iter().any(|other| own(other) == Some(part));
                let at = at.or_else(|| parts.iter().position(|part| !others(part)));
                at.map(|at| parts.remove(at))
            },
            |shard, &part| self.of_part(shard, part, queries, count, question),
            all,
        );
        if answered.len() < self.parts {
            // A GPU failed with points that no other has: the CPU answers.
            return FoundParts::default();
        }
        answered.sort_unstable_by_key(|&(part, _)| part);
        let parts = answered.into_iter().map(|(_, found)| vec![found]).collect();
        FoundParts { parts, range_size: count.max(1) as usize }
    }

    fn of_part<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        shard: &Shard<<<I::Points as Points>::Point as OnGpu>::Engine>,
        part: usize,
        queries: &Q,
        count: u32,
        question: Question,
    ) -> Result<Found, GpuError> {
        if let Some(engine) = shard.engine.as_ref().filter(|_| shard.part == Some(part)) {
            return engine.answer(queries, 0..count, question);
        }
        let points = Subset::every(self.index.points(), part, self.parts);
        let engine = <<I::Points as Points>::Point as OnGpu>::Engine::upload(
            &shard.device,
            &points,
            self.formula,
        )?;
        let nothing = || Ok(Found::nothing(count as usize));
        engine.map_or_else(nothing, |engine| engine.answer(queries, 0..count, question))
    }

    fn on_cpu<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        left: &[u32],
        question: Question,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        let left = Subset::new(queries, left.to_vec());
        match question {
            Question::Nearest(k) => self.index.nearest_many(&left, k, threads),
            Question::Within(radius) => self.index.within_many(&left, radius, threads),
        }
    }
}

/// The answers of GPUs from each part of the points, in the order of the parts: point p of part t
/// of T is point `p * T + t`. There is one part if each GPU has all points.
#[derive(Debug)]
struct FoundParts {
    /// Of each part the answers to one range of the queries after another.
    parts: Vec<Vec<Found>>,
    /// The number of queries of a range, except the last.
    range_size: usize,
}

impl Default for FoundParts {
    /// No answers.
    fn default() -> Self {
        Self { parts: Vec::new(), range_size: 1 }
    }
}

/// The answers of the CPU to the queries that are left to it.
#[derive(Debug)]
struct OnCpu {
    /// Rising.
    left: Vec<u32>,
    lists: NeighborLists,
}

impl OnCpu {
    /// The list of a query, empty if it was refused; `None` if it was not left to the CPU.
    fn list(&self, query: usize) -> Option<&[Neighbor]> {
        let at = self.left.binary_search(&u32::try_from(query).ok()?).ok()?;
        Some(self.lists.get(at).unwrap_or_default())
    }

    /// The refused queries.
    fn errors(&self) -> Vec<(usize, Error)> {
        let answers = self.lists.iter().zip(&self.left);
        answers.filter_map(|(list, &query)| Some((query as usize, list.err()?))).collect()
    }
}

impl FoundParts {
    /// The list of a query in each part.
    fn lists(&self, query: usize) -> impl Iterator<Item = Option<&[Neighbor]>> {
        let (range, own) = (query / self.range_size, query % self.range_size);
        self.parts.iter().map(move |ranges| ranges[range].list(own))
    }

    /// Whether a query has an answer from all points.
    fn is_answered(&self, query: usize) -> bool {
        !self.parts.is_empty() && self.lists(query).all(|list| list.is_some())
    }

    /// The lists of all queries: those of the CPU, and of the other queries the nearest neighbors in
    /// all parts.
    fn into_lists(
        mut self,
        queries: usize,
        question: Question,
        on_cpu: OnCpu,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        if on_cpu.left.len() == queries {
            return on_cpu.lists;
        }
        if let ([ranges], []) = (&mut self.parts[..], &on_cpu.left[..])
            && ranges.len() == 1
            && let Some(all) = ranges.pop()
        {
            return all.into_lists(threads);
        }
        self.merged(queries, question, &on_cpu, threads)
    }

    fn merged(
        &self,
        queries: usize,
        question: Question,
        on_cpu: &OnCpu,
        threads: NonZero<usize>,
    ) -> NeighborLists {
        let most = match question {
            Question::Nearest(k) => k,
            Question::Within(_) => usize::MAX,
        };
        let count = |query| self.lists(query).flatten().map(<[_]>::len).sum::<usize>().min(most);
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

/// Deals pieces of work to GPUs: each takes one when it is done with another. What a GPU that fails has begun is left to the
/// others. Gives what was done.
fn dealt<W: Sync, T: Send, R: Timed + Send>(
    workers: &[W],
    pieces: Vec<T>,
    take: impl Fn(&W, &mut Vec<T>) -> Option<T> + Sync,
    one: impl Fn(&W, &T) -> Result<R, GpuError> + Sync,
    all: &mut Answers,
) -> Vec<(T, R)> {
    let pieces = Mutex::new(pieces);
    let locked = || pieces.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |worker: &W| {
        let (mut done, mut milliseconds) = (Vec::new(), 0.0);
        loop {
            let Some(piece) = take(worker, &mut locked()) else {
                return (done, milliseconds, None);
            };
            match one(worker, &piece) {
                Ok(result) => {
                    milliseconds += result.milliseconds();
                    done.push((piece, result));
                }
                Err(error) => {
                    locked().push(piece);
                    return (done, milliseconds, Some(error));
                }
            }
        }
    };
    let mut working: Vec<&W> = workers.iter().collect();
    let mut done = Vec::new();
    loop {
        let before = done.len();
        let mut slowest = 0f64;
        let mut still = Vec::new();
        for (worker, (some, milliseconds, failed)) in working.iter().zip(together(&working, work)) {
            slowest = slowest.max(milliseconds);
            done.extend(some);
            match failed {
                Some(error) => all.failed.push(error),
                None => still.push(*worker),
            }
        }
        all.device_seconds += slowest / 1e3;
        working = still;
        // A GPU may have failed when the others had nothing left to do.
        if working.is_empty() || locked().is_empty() || done.len() == before {
            return done;
        }
    }
}

/// A result that says how long a GPU has worked for it.
trait Timed {
    fn milliseconds(&self) -> f64;
}

impl Timed for Found {
    fn milliseconds(&self) -> f64 {
        self.milliseconds
    }
}

/// Does work at the same time, each piece on a thread.
fn together<'a, T: Sync, R: Send>(work: &[&'a T], one: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    if let &[single] = work {
        return vec![one(single)];
    }
    thread::scope(|scope| {
        let one = &one;
        let started: Vec<_> = work.iter().map(|&piece| scope.spawn(move || one(piece))).collect();
        let joined =
            started.into_iter().map(|thread| thread.join().unwrap_or_else(|e| resume_unwind(e)));
        joined.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timed for usize {
        fn milliseconds(&self) -> f64 {
            1.0
        }
    }

    /// Deals 100 pieces to workers, of which some fail at their first or a later piece.
    fn done_with(fails: &[Option<usize>]) -> (Vec<usize>, Answers) {
        let workers: Vec<_> = fails.iter().map(|&after| (after, Mutex::new(0))).collect();
        let mut all = Answers::default();
        let done = dealt(
            &workers,
            (0..100).collect(),
            |_, pieces: &mut Vec<usize>| pieces.pop(),
            |(after, begun), &piece| {
                let mut begun = begun.lock().unwrap();
                *begun += 1;
                if *after == Some(*begun) { Err(GpuError::NoDevice) } else { Ok(piece) }
            },
            &mut all,
        );
        let mut done: Vec<usize> = done
            .into_iter()
            .map(|(piece, result)| {
                assert_eq!(piece, result);
                piece
            })
            .collect();
        done.sort_unstable();
        (done, all)
    }

    #[test]
    fn the_work_of_one_that_fails_is_done_by_others() {
        let (done, all) = done_with(&[None, None]);
        assert!(
            done.iter().copied().eq(0..100) && all.failed.is_empty() && all.device_seconds > 0.0
        );
        for fails in [&[Some(1), None][..], &[Some(3), None, Some(2)]] {
            let (done, all) = done_with(fails);
            assert!(done.into_iter().eq(0..100));
            assert!(all.failed.len() < fails.len());
        }
        let (done, all) = done_with(&[Some(5)]);
        assert_eq!((done.len(), all.failed.len()), (4, 1));
        assert!(done_with(&[]).0.is_empty());
    }

    fn near(point: u32, distance: f32) -> Neighbor {
        Neighbor { point, distance }
    }

    fn found(lists: &[Option<&[Neighbor]>]) -> Found {
        let mut found = Found::nothing(lists.len());
        // The last comes first.
        for (query, list) in lists.iter().enumerate().rev() {
            if let Some(list) = list {
                found.add(query, list);
            }
        }
        found
    }

    fn lists_of(found: FoundParts, queries: u32, k: usize, on_cpu: &[Neighbor]) -> NeighborLists {
        let left: Vec<u32> =
            (0..queries).filter(|&query| !found.is_answered(query as usize)).collect();
        let lists = left.iter().map(|_| Ok(on_cpu.to_vec())).collect();
        let (on_cpu, threads) = (OnCpu { left, lists }, NonZero::<usize>::MIN);
        found.into_lists(queries as usize, Question::Nearest(k), on_cpu, threads)
    }

    fn expected(lists: &[&[Neighbor]]) -> NeighborLists {
        lists.iter().map(|list| Ok(list.to_vec())).collect()
    }

    #[test]
    fn ranges_of_queries_follow_each_other() {
        let (a, b, c) = ([near(3, 1.0)], [near(1, 0.0), near(2, 2.0)], [near(9, 5.0)]);
        for range_size in [3, 2, 1] {
            let all = [Some(&a[..]), Some(&b[..]), Some(&c[..])];
            let ranges = all.chunks(range_size).map(found).collect();
            let parts = FoundParts { parts: vec![ranges], range_size };
            assert_eq!(lists_of(parts, 3, 7, &[]), expected(&[&a, &b, &c]), "{range_size}");
            let some = [Some(&a[..]), None, Some(&c[..])];
            let ranges = some.chunks(range_size).map(found).collect();
            let parts = FoundParts { parts: vec![ranges], range_size };
            assert_eq!(lists_of(parts, 3, 7, &b), expected(&[&a, &b, &c]), "{range_size}");
        }
        assert_eq!(lists_of(FoundParts::default(), 2, 7, &a), expected(&[&a, &a]));
        assert_eq!(lists_of(FoundParts::default(), 0, 7, &a), expected(&[]));
    }

    #[test]
    fn parts_of_points_are_merged() {
        let even = [near(0, 1.0), near(4, 2.0), near(5, 3.0)];
        let odd = [near(0, 0.5), near(1, 2.0)];
        let first = found(&[Some(&even), Some(&[]), Some(&even)]);
        let second = found(&[Some(&odd), Some(&odd), None]);
        let parts = FoundParts { parts: vec![vec![first], vec![second]], range_size: 3 };
        let both = [near(1, 0.5), near(0, 1.0), near(3, 2.0), near(8, 2.0)];
        let alone = [near(1, 0.5), near(3, 2.0)];
        // The second part does not answer the last query, so the CPU does.
        let on_cpu = [near(77, 0.0)];
        assert_eq!(lists_of(parts, 3, 4, &on_cpu), expected(&[&both, &alone, &on_cpu]));
    }

    #[test]
    fn refused_queries_keep_their_errors() {
        let a = [near(3, 1.0)];
        let parts = FoundParts { parts: vec![vec![found(&[Some(&a), None])]], range_size: 2 };
        let error = Error::Query { distance: 1.0 };
        let lists = [Err(error)].into_iter().collect();
        let on_cpu = OnCpu { left: vec![1], lists };
        let lists = parts.into_lists(2, Question::Nearest(1), on_cpu, NonZero::<usize>::MIN);
        assert_eq!((lists.get(0), lists.get(1)), (Ok(&a[..]), Err(error)));
    }
}
