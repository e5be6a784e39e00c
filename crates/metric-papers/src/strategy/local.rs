//! Strategies whose threads work independently: `Local`, and distributed data.

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
struct Finished<C> {
    found: Result<C, Error>,
    /// Time since the start of the run.
    at: Duration,
}

/// The work of one thread.
struct Part<C> {
    worker: Worker,
    /// The results of the thread's queries, in the order of the queries.
    finished: Vec<Finished<C>>,
}

/// When queries arrive, and how a thread measures its work.
#[derive(Clone, Copy)]
struct Pace<'a> {
    /// Number of distances between two measurements.
    evaluations: NonZero<u64>,
    clock: &'a Clock,
    arrivals: &'a [Duration],
}

/// Answers some queries from one index on this thread.
fn answer<I, Q, C>(
    index: &I,
    queries: &Q,
    numbers: impl Iterator<Item = u32>,
    ask: &(impl Fn(u32) -> C + Sync),
    pace: Pace<'_>,
) -> Part<C>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let Pace { evaluations, clock, arrivals } = pace;
    let mut worker = Worker::default();
    let mut finished = Vec::new();
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
        finished.push(Finished { found, at: clock.now() });
    }
    Part { worker, finished }
}

/// The work of all threads.
struct Collected<C> {
    elapsed: Duration,
    workers: Vec<Worker>,
    /// The results of each thread's queries, in the order of the queries.
    finished: Vec<std::vec::IntoIter<Finished<C>>>,
}

/// Collects the work of all threads. A thread is idle from its last query to the end of the run.
fn collect<C>(parts: Vec<Part<C>>, clock: &Clock) -> Collected<C> {
    let elapsed = clock.now();
    let mut workers = Vec::with_capacity(parts.len());
    let mut finished = Vec::with_capacity(parts.len());
    for mut part in parts {
        let last = part.finished.last().map_or(Duration::ZERO, |query| query.at);
        part.worker.idle += elapsed.saturating_sub(last);
        workers.push(part.worker);
        finished.push(part.finished.into_iter());
    }
    Collected { elapsed, workers, finished }
}

/// Runs the strategy `Local` (algorithm 8).
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
    let threads = options.threads.get();
    let count = arrivals.len();
    let clock = Clock::start(options.window);
    let pace = Pace { evaluations: options.evaluations, clock: &clock, arrivals };
    let parts = run_threads(threads, |thread| {
        let numbers = (thread..count).step_by(threads).map(number);
        answer(index, queries, numbers, ask, pace)
    })?;
    let Collected { elapsed, workers, mut finished } = collect(parts, &clock);
    let mut answers = NeighborLists::default();
    let mut latencies = Vec::with_capacity(count);
    for (query, &arrival) in arrivals.iter().enumerate() {
        let Finished { found, at } =
            finished[query % threads].next().expect("each query was dealt");
        let found = found.map(Answer::into_sorted);
        answers.push(found.as_deref().map_err(|&error| error));
        latencies.push(at.saturating_sub(arrival));
    }
    Ok(Run { answers, measures: Measures { elapsed, workers, latencies } })
}

/// Runs the strategy of distributed data (section 3.3.2).
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
    let threads = indexes.len();
    let count = arrivals.len();
    let clock = Clock::start(options.window);
    let pace = Pace { evaluations: options.evaluations, clock: &clock, arrivals };
    let parts = run_threads(threads, |thread| {
        answer(&indexes[thread], queries, (0..count).map(number), ask, pace)
    })?;
    let Collected { elapsed, workers, mut finished } = collect(parts, &clock);
    let mut answers = NeighborLists::default();
    let mut latencies = Vec::with_capacity(count);
    for (query, &arrival) in arrivals.iter().enumerate() {
        let mut found = Vec::with_capacity(threads);
        let mut last = Duration::ZERO;
        for (thread, part) in finished.iter_mut().enumerate() {
            let own = part.next().expect("each thread answers each query");
            last = last.max(own.at);
            let renumber = |own| renumbered(own, thread, threads, || ask(number(query)));
            found.push(own.found.map(renumber));
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

/// The number of a query or point in 32 bits.
pub(super) fn number(of: usize) -> u32 {
    u32::try_from(of).expect("`run` checks the number of queries")
}

/// Runs `work` on `threads` threads once all of them have started.
///
/// Otherwise a thread might wait at a barrier for one that the system cannot start.
pub(super) fn run_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    let work = &work;
    let have_all_started = &OnceLock::<bool>::new();
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for thread in 0..threads {
            let run = move || have_all_started.wait().then(|| work(thread));
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(handle) => started.push(handle),
                Err(_) => break,
            }
        }
        let count = started.len();
        have_all_started.get_or_init(|| count == threads);
        let done = started.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let done: Option<Vec<T>> = done.collect();
        done.ok_or(RunError::Threads { started: count, wanted: threads })
    })
}
