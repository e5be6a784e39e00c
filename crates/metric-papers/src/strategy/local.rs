//! The strategies whose threads work independently: `Local`, and distributed data.

use std::time::Duration;

use super::answers::{Run, merge};
use super::error::RunError;
use super::measures::{Clock, Measures, Worker};
use super::options::Stream;
use super::threads::{number, run_threads};
use metric_index::collector::Answer;
use metric_index::error::Error;
use metric_index::index::{Cost, Index, Search};
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;

/// The result of a query on one thread.
struct QueryResult<C> {
    outcome: Result<C, Error>,
    /// Time of the answer, since the start of the run.
    answered_at: Duration,
}

/// The work of one thread.
struct ThreadResult<C> {
    worker: Worker,
    /// The results of the thread's queries, in the order of the queries.
    finished: Vec<QueryResult<C>>,
}

/// Answers the queries with the given numbers from one index, on the calling thread.
fn answer<I, Q, A, C>(
    index: &I,
    stream: &Stream<'_, Q, A>,
    numbers: impl Iterator<Item = u32>,
    clock: &Clock,
) -> ThreadResult<C>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    A: Fn(u32) -> C + Sync,
    C: Answer,
{
    let Stream { queries, make_collector, arrivals, options } = *stream;
    let mut worker = Worker::default();
    let mut finished = Vec::new();
    for query in numbers {
        let before = clock.now();
        if before < arrivals[query as usize] {
            clock.wait_until(arrivals[query as usize]);
            worker.idle += clock.now().saturating_sub(before);
        }
        worker.queries += 1;
        let outcome = Search::start(index, queries.point(query), make_collector(query)).and_then(
            |mut search| {
                let mut before = Cost::default();
                loop {
                    let is_done = search.work(options.evaluations.get());
                    let now = search.cost();
                    worker.count(now - before, clock);
                    before = now;
                    if is_done? {
                        return Ok(search.into_parts().0);
                    }
                }
            },
        );
        finished.push(QueryResult { outcome, answered_at: clock.now() });
    }
    ThreadResult { worker, finished }
}

/// Runs `work` on each thread. For each query in order, `join` takes the results from the threads
/// and merges them.
fn run_each<Q, A: Sync, C: Send>(
    stream: &Stream<'_, Q, A>,
    threads: usize,
    work: impl Fn(usize, &Clock) -> ThreadResult<C> + Sync,
    join: impl Fn(usize, &mut [std::vec::IntoIter<QueryResult<C>>]) -> QueryResult<Vec<Neighbor>>,
) -> Result<Run, RunError> {
    let clock = Clock::start(stream.options.window);
    let parts = run_threads(threads, |thread| work(thread, &clock))?;
    let elapsed = clock.now();
    let mut workers = Vec::with_capacity(parts.len());
    let mut finished = Vec::with_capacity(parts.len());
    for mut part in parts {
        // A thread is idle from its last query to the end of the run.
        let last = part.finished.last().map_or(Duration::ZERO, |query| query.answered_at);
        part.worker.idle += elapsed.saturating_sub(last);
        workers.push(part.worker);
        finished.push(part.finished.into_iter());
    }
    let mut answers = NeighborLists::default();
    let mut latencies = Vec::with_capacity(stream.arrivals.len());
    for (query, &arrival) in stream.arrivals.iter().enumerate() {
        let QueryResult { outcome, answered_at } = join(query, &mut finished);
        answers.push(outcome.as_deref().map_err(|&error| error));
        latencies.push(answered_at.saturating_sub(arrival));
    }
    Ok(Run { answers, measures: Measures { elapsed, workers, latencies } })
}

/// Runs the strategy `Local` (algorithm 8).
pub(super) fn local<I, Q, A, C>(index: &I, stream: &Stream<'_, Q, A>) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    A: Fn(u32) -> C + Sync,
    C: Answer,
{
    let threads = stream.options.threads.get();
    let work = |thread, clock: &Clock| {
        let numbers = (thread..stream.arrivals.len()).step_by(threads).map(number);
        answer(index, stream, numbers, clock)
    };
    run_each(stream, threads, work, |query, finished| {
        let QueryResult { outcome, answered_at } =
            finished[query % threads].next().expect("each query has a thread");
        QueryResult { outcome: outcome.map(Answer::into_sorted), answered_at }
    })
}

/// Runs the strategy of distributed data (section 3.3.2).
pub(super) fn distributed<I, Q, A, C>(
    indexes: &[I],
    stream: &Stream<'_, Q, A>,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    A: Fn(u32) -> C + Sync,
    C: Answer,
{
    let threads = indexes.len();
    let work = |thread: usize, clock: &Clock| {
        answer(&indexes[thread], stream, (0..stream.arrivals.len()).map(number), clock)
    };
    run_each(stream, threads, work, |query, finished| {
        let make_collector = || (stream.make_collector)(number(query));
        let mut outcomes = Vec::with_capacity(threads);
        let mut answered_at = Duration::ZERO;
        for (thread, part) in finished.iter_mut().enumerate() {
            let result = part.next().expect("each thread answers each query");
            answered_at = answered_at.max(result.answered_at);
            let to_global = |collector| renumber(collector, thread, threads, make_collector);
            outcomes.push(result.outcome.map(to_global));
        }
        let outcome: Result<Vec<C>, Error> = outcomes.into_iter().collect();
        QueryResult { outcome: outcome.map(|parts| merge(parts, make_collector)), answered_at }
    })
}

/// Renumbers neighbors that were found in one share of the points.
fn renumber<C: Answer>(
    collector: C,
    share: usize,
    shares: usize,
    make_collector: impl FnOnce() -> C,
) -> C {
    let mut renumbered = make_collector();
    for Neighbor { point, distance } in collector.into_sorted() {
        renumbered.offer(Neighbor { point: number(point as usize * shares + share), distance });
    }
    renumbered
}
