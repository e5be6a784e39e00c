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
//!     assert_eq!(found.answers[0].as_ref().map(|near| near[0].point), Ok(1));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

pub use gpu_runtime::{Device, DeviceInfo, GpuError, devices};

use crate::Question;
use crate::error::Error;
use crate::index::Index;
use crate::metric::{Formula, Metric};
use crate::neighbor::Neighbor;
use crate::points::{Points, Subset};

pub mod barrientos;
pub mod cordeiro;
mod engine;
pub mod karelis;
mod launch;
mod vectors;
mod words;

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
    pub answers: Vec<Result<Vec<Neighbor>, Error>>,
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
            _ if !is_asked => Found::nothing(queries.len()),
            Layout::Replicated => self.replicated(queries, count, question, &mut all),
            Layout::Sharded => self.sharded(queries, count, question, &mut all),
        };
        let left = (0..).zip(&found.answers).filter(|(_, answer)| answer.is_none());
        let left: Vec<u32> = left.map(|(query, _)| query).collect();
        all.fell_back = left.len();
        all.by_cpu.clone_from(&left);
        let mut of_left = self.on_cpu(queries, left, question, threads).into_iter();
        let answers = found.answers.into_iter().map(|answer| match answer {
            Some(answer) => Ok(answer),
            None => of_left.next().expect("one of those that are left"),
        });
        all.answers = answers.collect();
        all
    }

    /// Each GPU answers some queries.
    fn replicated<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        count: u32,
        question: Question,
        all: &mut Answers,
    ) -> Found {
        /// The most queries that a GPU takes at a time.
        const MOST: u32 = 1 << 16;
        let gpus = u32::try_from(self.shards.len()).expect("a few");
        let size = count.div_ceil(gpus).clamp(1, MOST);
        let start = (0..count).step_by(size as usize);
        let ranges = start.map(|start| start..count.min(start.saturating_add(size))).collect();
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
        let mut found = Found::nothing(queries.len());
        for (range, some) in answered {
            let places = &mut found.answers[range.start as usize..range.end as usize];
            for (place, answer) in places.iter_mut().zip(some.answers) {
                *place = answer;
            }
        }
        found
    }

    /// Each GPU answers all queries from its parts of the points.
    fn sharded<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        count: u32,
        question: Question,
        all: &mut Answers,
    ) -> Found {
        let own = |shard: &Shard<_>| shard.engine.as_ref().and(shard.part);
        let answered = dealt(
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
        let mut found = Found::nothing(queries.len());
        if answered.len() < self.parts {
            // A GPU failed with points that no other has: the CPU answers.
            return found;
        }
        found.answers.fill_with(|| Some(Vec::new()));
        for (part, some) in answered {
            self.merge(part, some, question, &mut found);
        }
        found
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

    /// Adds what was found among the points of a part: point p of it is point `part + p * parts`.
    fn merge(&self, part: usize, some: Found, question: Question, all: &mut Found) {
        let point =
            |p: u32| u32::try_from(part + p as usize * self.parts).expect("the number of a point");
        for (all, some) in all.answers.iter_mut().zip(some.answers) {
            let Some((near, some)) = all.as_mut().zip(some) else {
                *all = None;
                continue;
            };
            near.extend(some.into_iter().map(|near| Neighbor { point: point(near.point), ..near }));
            near.sort_unstable();
            if let Question::Nearest(k) = question {
                near.truncate(k);
            }
        }
    }

    fn on_cpu<Q: Points<Point = <I::Points as Points>::Point>>(
        &self,
        queries: &Q,
        left: Vec<u32>,
        question: Question,
        threads: NonZero<usize>,
    ) -> Vec<Result<Vec<Neighbor>, Error>> {
        let left = Subset::new(queries, left);
        match question {
            Question::Nearest(k) => self.index.nearest_many(&left, k, threads),
            Question::Within(radius) => self.index.within_many(&left, radius, threads),
        }
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
}
