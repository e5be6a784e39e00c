//! Each thread on its own: `Local`, and distributed data.

use std::num::NonZero;
use std::sync::OnceLock;
use std::time::Duration;

use super::measures::{Clock, Measures, Worker};
use super::{Options, Run, RunError, merged};
use metric_index::collector::Answer;
use metric_index::error::Error;
use metric_index::index::{Cost, Index, Search};
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;

/// The result of a query on one thread.
type Found<C> = Result<C, Error>;
/// The results of a thread's queries in their order, with the time of each.
type Part<C> = (Worker, Vec<(Found<C>, Duration)>);
/// The same as an iterator.
type Answered<C> = std::vec::IntoIter<(Found<C>, Duration)>;

/// One thread answers some queries from one index.
fn answer<I, Q, C>(
    index: &I,
    queries: &Q,
    numbers: impl Iterator<Item = u32>,
    ask: &(impl Fn(u32) -> C + Sync),
    arrivals: &[Duration],
    (evaluations, clock): (NonZero<u64>, &Clock),
) -> Part<C>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let (mut worker, mut all) = (Worker::default(), Vec::new());
    for query in numbers {
        let before = clock.now();
        if before < arrivals[query as usize] {
            clock.wait_until(arrivals[query as usize]);
            worker.idle += clock.now().saturating_sub(before);
        }
        worker.queries += 1;
        let found =
            Search::start(index, queries.point(query), ask(query)).and_then(|mut search| {
                let mut before = Cost::default();
                loop {
                    let is_done = search.work(evaluations.get());
                    let now = search.cost();
                    worker.count(now - before, clock);
                    before = now;
                    if is_done? {
                        return Ok(search.into_parts().0);
                    }
                }
            });
        all.push((found, clock.now()));
    }
    (worker, all)
}

/// Collects the threads' work; those that finished before the last were idle since.
fn together<C>(parts: Vec<Part<C>>, clock: &Clock) -> (Duration, Vec<Worker>, Vec<Answered<C>>) {
    let elapsed = clock.now();
    let alone = |(mut worker, answered): Part<C>| {
        let last = answered.last().map_or(Duration::ZERO, |&(_, done)| done);
        worker.idle += elapsed.saturating_sub(last);
        (worker, answered.into_iter())
    };
    let (workers, parts) = parts.into_iter().map(alone).unzip();
    (elapsed, workers, parts)
}

/// Algorithm 8.
pub(super) fn local<I, Q, C>(
    index: &I,
    queries: &Q,
    ask: &(impl Fn(u32) -> C + Sync),
    arrivals: &[Duration],
    options: &Options,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let (threads, count) = (options.threads.get(), arrivals.len());
    let clock = Clock::start(options.window);
    let pace = (options.evaluations, &clock);
    let parts = side_by_side(threads, |thread| {
        let numbers = (thread..count).step_by(threads).map(number);
        answer(index, queries, numbers, ask, arrivals, pace)
    })?;
    let (elapsed, workers, mut parts) = together(parts, &clock);
    let (mut answers, mut latencies) = (NeighborLists::default(), Vec::with_capacity(count));
    for (query, &arrival) in arrivals.iter().enumerate() {
        let (found, done) = parts[query % threads].next().expect("each query was dealt");
        let found = found.map(Answer::into_sorted);
        answers.push(found.as_deref().map_err(|&error| error));
        latencies.push(done.saturating_sub(arrival));
    }
    Ok(Run { answers, measures: Measures { elapsed, workers, latencies } })
}

/// Section 3.3.2.
pub(super) fn distributed<I, Q, C>(
    indexes: &[I],
    queries: &Q,
    ask: &(impl Fn(u32) -> C + Sync),
    arrivals: &[Duration],
    options: &Options,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let (threads, count) = (indexes.len(), arrivals.len());
    let clock = Clock::start(options.window);
    let pace = (options.evaluations, &clock);
    let parts = side_by_side(threads, |thread| {
        answer(&indexes[thread], queries, (0..count).map(number), ask, arrivals, pace)
    })?;
    let (elapsed, workers, mut parts) = together(parts, &clock);
    let (mut answers, mut latencies) = (NeighborLists::default(), Vec::with_capacity(count));
    for (query, &arrival) in arrivals.iter().enumerate() {
        let (mut found, mut last) = (Vec::with_capacity(threads), Duration::ZERO);
        for (thread, part) in parts.iter_mut().enumerate() {
            let (of_thread, done) = part.next().expect("each thread answers each query");
            last = last.max(done);
            found
                .push(of_thread.map(|own| renumbered(own, thread, threads, || ask(number(query)))));
        }
        let found: Result<Vec<C>, Error> = found.into_iter().collect();
        let found = found.map(|parts| merged(parts, || ask(number(query))));
        answers.push(found.as_deref().map_err(|&error| error));
        latencies.push(last.saturating_sub(arrival));
    }
    Ok(Run { answers, measures: Measures { elapsed, workers, latencies } })
}

/// Renumbers the neighbors found in one share of the points.
fn renumbered<C: Answer>(own: C, share: usize, shares: usize, ask: impl FnOnce() -> C) -> C {
    let mut all = ask();
    for Neighbor { point, distance } in own.into_sorted() {
        all.offer(Neighbor { point: number(point as usize * shares + share), distance });
    }
    all
}

pub(super) fn number(of: usize) -> u32 {
    u32::try_from(of).expect("checked when the run began")
}

/// Runs `work` on `threads` threads, once all have started: no thread may wait at a barrier for one that cannot be
/// started.
pub(super) fn side_by_side<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    let (work, are_all_there) = (&work, &OnceLock::<bool>::new());
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for thread in 0..threads {
            let run = move || are_all_there.wait().then(|| work(thread));
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(handle) => started.push(handle),
                Err(_) => break,
            }
        }
        let count = started.len();
        are_all_there.get_or_init(|| count == threads);
        let done = started.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let done: Option<Vec<T>> = done.collect();
        done.ok_or(RunError::Threads { started: count, wanted: threads })
    })
}
