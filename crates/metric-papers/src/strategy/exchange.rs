//! The state that the threads of a bulk strategy share: queries and messages.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::measures::Clock;
use metric_index::collector::Collector;
use metric_index::error::Error;
use metric_index::index::Task;
use metric_index::neighbor::Neighbor;

/// A task of a query; the thesis calls it a requirement.
#[derive(Debug, Clone)]
pub(super) struct Requirement {
    pub(super) query: u32,
    /// Data that all tasks of the query read.
    pub(super) shared: Arc<[f32]>,
    pub(super) task: Task,
}

/// The state of a query.
#[derive(Debug)]
pub(super) struct State {
    /// The bits of the smallest radius that any thread has reached. Nonnegative floats and their
    /// bits have the same order.
    radius: AtomicU32,
    /// Number of open tasks.
    open: AtomicUsize,
    has_failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// The time of the answer, in nanoseconds since the start of the run.
    done: AtomicU64,
}

impl State {
    fn new() -> Self {
        Self {
            radius: AtomicU32::new(f32::INFINITY.to_bits()),
            open: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            done: AtomicU64::new(0),
        }
    }

    pub(super) fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    pub(super) fn failure(&self) -> Option<Error> {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn done(&self) -> Duration {
        Duration::from_nanos(self.done.load(Ordering::Relaxed))
    }
}

/// A thread's collector for a query, which also uses the radius that other threads have reached.
pub(super) struct SharedRadius<'a, C> {
    pub(super) collector: &'a mut C,
    pub(super) state: &'a State,
}

impl<C: Collector> Collector for SharedRadius<'_, C> {
    fn radius(&self) -> f32 {
        // The radius may be outdated, which costs time but loses no neighbors.
        self.collector.radius().min(f32::from_bits(self.state.radius.load(Ordering::Relaxed)))
    }

    fn offer(&mut self, candidate: Neighbor) {
        self.collector.offer(candidate);
        let radius = self.collector.radius();
        if radius >= 0.0 {
            self.state.radius.fetch_min(radius.to_bits(), Ordering::Relaxed);
        }
    }
}

/// The queries and messages of a run.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) clock: Clock,
    pub(super) states: Vec<State>,
    /// Number of queries without an answer.
    unanswered: AtomicUsize,
    /// Number of queries that a thread has taken.
    taken: AtomicUsize,
    /// The next query of each thread.
    next: Vec<AtomicUsize>,
    /// Number of open tasks of all queries.
    open: AtomicUsize,
    /// Messages by sender, then by receiver: the secondary queues of the thesis.
    mailboxes: Vec<Vec<Mutex<Vec<Requirement>>>>,
    /// The critical section around all messages, for the strategy without barriers.
    critical: Mutex<()>,
}

impl Exchange {
    pub(super) fn new(queries: usize, threads: usize, clock: Clock) -> Self {
        let receivers = |_| (0..threads).map(|_| Mutex::default()).collect();
        Self {
            clock,
            states: (0..queries).map(|_| State::new()).collect(),
            unanswered: AtomicUsize::new(queries),
            taken: AtomicUsize::new(0),
            next: (0..threads).map(AtomicUsize::new).collect(),
            open: AtomicUsize::new(0),
            mailboxes: (0..threads).map(receivers).collect(),
            critical: Mutex::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Whether no thread has work until the next query arrives.
    pub(super) fn is_empty(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Returns the next query of each thread, or a number beyond the last query.
    pub(super) fn next(&self) -> impl Iterator<Item = usize> {
        self.next.iter().map(|next| next.load(Ordering::Acquire))
    }

    /// Records that a thread takes a query. Starting the query counts as its first task.
    pub(super) fn take(&self, query: u32, thread: usize, next: usize) {
        self.next[thread].store(next, Ordering::Release);
        self.open.fetch_add(1, Ordering::AcqRel);
        self.states[query as usize].open.fetch_add(1, Ordering::AcqRel);
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that a task of a query is done and has created `opened` tasks, which have not been
    /// sent yet.
    pub(super) fn done(&self, query: u32, opened: usize) {
        let state = &self.states[query as usize];
        if opened > 0 {
            state.open.fetch_add(opened, Ordering::AcqRel);
            self.open.fetch_add(opened, Ordering::AcqRel);
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
        if state.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let now = u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX);
            state.done.store(now, Ordering::Relaxed);
            self.unanswered.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn send(&self, from: usize, to: usize, requirement: Requirement) {
        let mut messages = self.mailboxes[from][to].lock().unwrap_or_else(PoisonError::into_inner);
        messages.push(requirement);
    }

    fn receive(&self, to: usize, into: &mut Vec<Requirement>) {
        for from in &self.mailboxes {
            into.append(&mut from[to].lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Sends a task, inside the critical section if `critical` is set.
    pub(super) fn deal(&self, from: usize, to: usize, requirement: Requirement, critical: bool) {
        let _section = critical.then(|| self.critical.lock());
        self.send(from, to, requirement);
    }

    /// Receives tasks from all threads, inside the critical section if `critical` is set.
    pub(super) fn read(&self, to: usize, into: &mut Vec<Requirement>, critical: bool) {
        let _section = critical.then(|| self.critical.lock());
        self.receive(to, into);
    }
}
