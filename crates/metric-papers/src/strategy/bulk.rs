//! The bulk strategies: `BulkCircular`, `BulkCritical`, `BulkLocal` and `Hybrid`.
//!
//! Their threads share the tasks of a query, or wait for each other at barriers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::answers::{Run, merge};
use super::error::RunError;
use super::exchange::{Exchange, Requirement, SharedRadius};
use super::measures::{Clock, Measures, Worker};
use super::options::{Strategy, Stream};
use super::rendezvous::{Membership, Rendezvous};
use super::threads::{number, run_threads};
use metric_index::collector::{Answer, Collector};
use metric_index::error::Error;
use metric_index::index::{Cost, Index, Probe, Task};
use metric_index::lists::NeighborLists;
use metric_index::points::Points;

/// The state of a run that all threads share.
struct SharedRun<'a, I, Q, A> {
    index: &'a I,
    stream: Stream<'a, Q, A>,
    exchange: &'a Exchange,
    /// Whether threads keep their tasks in the next superstep. With `Hybrid`, the first thread
    /// updates the value.
    is_local: &'a AtomicBool,
}

impl<I, Q, A> SharedRun<'_, I, Q, A> {
    /// Whether the number of waiting queries per thread exceeds `Options::waiting`.
    fn is_traffic_high(&self) -> bool {
        let now = self.exchange.clock.now();
        let arrived = self.stream.arrivals.partition_point(|&arrival| arrival <= now);
        let waiting = arrived.saturating_sub(self.exchange.taken());
        waiting
            > self.stream.options.threads.get().saturating_mul(self.stream.options.waiting as usize)
    }
}

/// The state of a thread.
struct Thread<'a, I, Q, A, C> {
    run: &'a SharedRun<'a, I, Q, A>,
    /// The number of the thread.
    id: usize,
    /// The next query in the queue of the thread.
    next: usize,
    /// The stack of the thread's requirements.
    requirements: Vec<Requirement>,
    /// The collectors of queries, by query number.
    collectors: HashMap<u32, C>,
    /// The thread to which the last task was sent.
    to: usize,
    tasks: Vec<Task>,
    worker: Worker,
}

pub(super) fn bulk<I, Q, A, C>(index: &I, stream: &Stream<'_, Q, A>) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    A: Fn(u32) -> C + Sync,
    C: Answer,
{
    let Stream { make_collector, arrivals, options, .. } = *stream;
    let threads = options.threads.get();
    let exchange = Exchange::new(arrivals.len(), threads, Clock::start(options.window));
    let rendezvous = &Rendezvous::of(threads);
    let is_local = &AtomicBool::new(options.strategy == Strategy::BulkLocal);
    let context = SharedRun { index, stream: *stream, exchange: &exchange, is_local };
    if options.strategy == Strategy::Hybrid {
        is_local.store(context.is_traffic_high(), Ordering::Release);
    }
    let parts = run_threads(threads, |id| {
        let thread = Thread {
            run: &context,
            id,
            next: id,
            requirements: Vec::new(),
            collectors: HashMap::new(),
            to: id,
            tasks: Vec::new(),
            worker: Worker::default(),
        };
        let membership = rendezvous.membership();
        if options.strategy == Strategy::BulkCritical {
            thread.without_barriers(&membership)
        } else {
            thread.in_supersteps(&membership)
        }
    })?;
    let elapsed = exchange.clock.now();
    let (workers, mut collectors): (Vec<Worker>, Vec<HashMap<u32, C>>) = parts.into_iter().unzip();
    let mut answers = NeighborLists::default();
    let mut latencies = Vec::new();
    for ((query, state), &arrival) in (0..).zip(&exchange.states).zip(arrivals) {
        let parts = collectors.iter_mut().filter_map(|collectors| collectors.remove(&query));
        match state.failure() {
            Some(error) => answers.push(Err(error)),
            None => answers.push(Ok(&merge(parts, || make_collector(query)))),
        }
        latencies.push(state.done().saturating_sub(arrival));
    }
    Ok(Run { answers, measures: Measures { elapsed, workers, latencies } })
}

impl<I, Q, A, C> Thread<'_, I, Q, A, C>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    A: Fn(u32) -> C + Sync,
    C: Answer,
{
    /// Runs algorithm 9, or a strategy based on it.
    fn in_supersteps(mut self, membership: &Membership<'_>) -> (Worker, HashMap<u32, C>) {
        let SharedRun { exchange, stream: Stream { options, .. }, is_local, .. } = *self.run;
        let clock = &exchange.clock;
        loop {
            let keeps = is_local.load(Ordering::Acquire);
            self.superstep(keeps, keeps && options.strategy == Strategy::Hybrid);
            let mut before = clock.now();
            if !membership.wait() {
                break;
            }
            self.worker.idle += clock.now().saturating_sub(before);
            self.worker.supersteps += 1;
            // No thread is working now, so all threads read the same state.
            if exchange.is_over() {
                break;
            }
            exchange.read(self.id, &mut self.requirements, false);
            before = clock.now();
            if self.id == 0 {
                self.decide();
            }
            if !membership.wait() {
                break;
            }
            self.worker.idle += clock.now().saturating_sub(before);
        }
        (self.worker, self.collectors)
    }

    /// Runs algorithm 10.
    fn without_barriers(mut self, membership: &Membership<'_>) -> (Worker, HashMap<u32, C>) {
        let exchange = self.run.exchange;
        while !exchange.is_over() && !membership.is_broken() {
            let before = exchange.clock.now();
            let has_worked = self.superstep(false, false);
            exchange.read(self.id, &mut self.requirements, true);
            if !has_worked && self.requirements.is_empty() {
                std::thread::yield_now();
                self.worker.idle += exchange.clock.now().saturating_sub(before);
            }
        }
        (self.worker, self.collectors)
    }

    /// Chooses the strategy of the next superstep. Waits for a query if there is no other work.
    ///
    /// Only the first thread calls this.
    fn decide(&self) {
        let SharedRun { exchange, stream: Stream { options, arrivals, .. }, is_local, .. } =
            *self.run;
        if exchange.is_empty()
            && let Some(&next) = exchange.next().filter_map(|query| arrivals.get(query)).min()
        {
            exchange.clock.wait_until(next);
        }
        if options.strategy == Strategy::Hybrid {
            is_local.store(self.run.is_traffic_high(), Ordering::Release);
        }
    }

    /// Works until the superstep's limit of distance evaluations is reached, or no work is left.
    ///
    /// With `keeps`, new tasks stay on this thread. With `endless`, a new superstep begins while
    /// the traffic is high. Returns whether there was work.
    fn superstep(&mut self, keeps: bool, endless: bool) -> bool {
        let mut budget = self.run.stream.options.evaluations.get();
        let mut has_worked = false;
        loop {
            if budget == 0 {
                if !endless || !self.run.is_traffic_high() {
                    return has_worked;
                }
                budget = self.run.stream.options.evaluations.get();
            }
            let evaluations = if let Some(requirement) = self.requirements.pop() {
                self.execute(requirement, budget, keeps)
            } else if let Some(query) = self.next_query() {
                self.begin(query, keeps, endless)
            } else {
                return has_worked;
            };
            has_worked = true;
            // A task that evaluates no distance counts as one evaluation.
            budget = budget.saturating_sub(evaluations.max(1));
        }
    }

    /// Takes the next query in the queue of the thread, if it has arrived.
    fn next_query(&mut self) -> Option<u32> {
        let arrival = *self.run.stream.arrivals.get(self.next)?;
        if arrival > self.run.exchange.clock.now() {
            return None;
        }
        let query = number(self.next);
        self.next += self.run.stream.options.threads.get();
        self.worker.queries += 1;
        self.run.exchange.take(query, self.id, self.next);
        Some(query)
    }

    /// Begins a query by creating its first requirements.
    ///
    /// With `alone`, works on the query until it is answered or the traffic is low. Returns the
    /// number of evaluated distances.
    fn begin(&mut self, query: u32, keeps: bool, alone: bool) -> u64 {
        let SharedRun { index, stream: Stream { queries, make_collector, .. }, exchange, .. } =
            *self.run;
        let point = queries.point(query);
        let state = &exchange.states[query as usize];
        let collector = self.collectors.entry(query).or_insert_with(|| make_collector(query));
        let mut cost = Cost { evaluations: 1, nodes: 0 };
        let mut shared: Arc<[f32]> = Arc::default();
        let started = Probe::start(index, point, SharedRadius { collector, state }, u64::MAX);
        let outcome = started.and_then(|mut probe| {
            shared = index.start(&mut probe, &mut self.tasks).into();
            if alone {
                cost.nodes = work_alone(self.run, &mut probe, &shared, &mut self.tasks);
            }
            cost.evaluations = probe.evaluations();
            probe.finish()
        });
        self.finish(query, &shared, Step { outcome, cost }, keeps)
    }

    /// Processes a requirement and returns the number of evaluated distances.
    fn execute(&mut self, requirement: Requirement, limit: u64, keeps: bool) -> u64 {
        let SharedRun { index, stream: Stream { queries, make_collector, .. }, exchange, .. } =
            *self.run;
        let Requirement { query, shared, task } = requirement;
        let point = queries.point(query);
        let state = &exchange.states[query as usize];
        let collector = self.collectors.entry(query).or_insert_with(|| make_collector(query));
        let mut probe = Probe::resume(index, point, SharedRadius { collector, state }, limit);
        let mut step = Step { outcome: Ok(()), cost: Cost::default() };
        if !state.has_failed() && task.bound <= probe.radius() {
            index.step(task, &shared, &mut probe, &mut self.tasks);
            step.cost = Cost { evaluations: probe.evaluations(), nodes: 1 };
            step.outcome = probe.finish();
        }
        self.finish(query, &shared, step, keeps)
    }

    /// Records a step of a query and distributes the tasks that it created. Returns the number of
    /// evaluated distances.
    fn finish(&mut self, query: u32, shared: &Arc<[f32]>, step: Step, keeps: bool) -> u64 {
        let SharedRun { exchange, stream: Stream { options, .. }, .. } = *self.run;
        self.worker.count(step.cost, &exchange.clock);
        if let Err(error) = step.outcome {
            exchange.states[query as usize].fail(error);
            self.tasks.clear();
        }
        exchange.done(query, self.tasks.len());
        let critical = options.strategy == Strategy::BulkCritical;
        for task in self.tasks.drain(..) {
            let requirement = Requirement { query, shared: Arc::clone(shared), task };
            if !keeps {
                self.to = (self.to + 1) % options.threads.get();
            }
            if keeps || self.to == self.id {
                self.requirements.push(requirement);
            } else {
                self.worker.messages += 1;
                exchange.deal(self.id, self.to, requirement, critical);
            }
        }
        step.cost.evaluations
    }
}

/// The result of a step of a query: starting the query, or processing one of its tasks.
#[derive(Clone, Copy)]
struct Step {
    outcome: Result<(), Error>,
    cost: Cost,
}

/// Works on a query that no other thread has seen, until it is answered or the traffic is low.
///
/// Returns the number of processed nodes.
fn work_alone<I: Index, Q, A, C: Collector>(
    run: &SharedRun<'_, I, Q, A>,
    probe: &mut Probe<'_, I::Points, I::Metric, C>,
    shared: &[f32],
    tasks: &mut Vec<Task>,
) -> u64 {
    let mut nodes = 0;
    loop {
        probe.allow(run.stream.options.evaluations.get());
        while !probe.is_exhausted() {
            let Some(task) = tasks.pop() else { return nodes };
            if task.bound <= probe.radius() {
                run.index.step(task, shared, probe, tasks);
                nodes += 1;
            }
        }
        if probe.has_failed() || !run.is_traffic_high() {
            return nodes;
        }
    }
}
