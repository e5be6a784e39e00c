//! Queries that arrive one at a time, answered in batches (Barrientos 2011, section 4.3.3).
//!
//! Some searches take less time per query if they answer many queries together, such as brute force
//! by matrix products or on a GPU. A [`Queue`] collects the queries of any number of threads until
//! there are enough queries or the first query has waited long enough. Then it answers all of them
//! together.
//!
//! ```
//! use std::num::NonZero;
//! use std::time::Duration;
//! use metric_index::index::{BruteForce, Index};
//! use metric_index::metric::Euclidean;
//! use metric_index::online::{BatchLimits, Queue};
//! use metric_index::points::Vectors;
//!
//! let plane = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
//! let index = BruteForce::new(plane, Euclidean)?;
//! let answer = move |queries: Vec<[f32; 2]>| {
//!     index.nearest_many(&Vectors::from(queries), 1, NonZero::<usize>::MIN)
//! };
//! let max_queries = NonZero::new(64).expect("above 0");
//! let limits = BatchLimits { max_queries, max_wait: Duration::from_millis(1) };
//! let queue = Queue::start(limits, answer)?;
//! let first = queue.submit([1.0, 0.0]);
//! assert_eq!(queue.ask([3.0, 3.0])?[0].point, 1);
//! assert_eq!(first.wait()?[0].point, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::lists::NeighborLists;
use crate::neighbor::Neighbor;

/// The limits that determine when a queue answers the queries that it has collected.
///
/// ```
/// let limits = metric_index::online::BatchLimits::default();
/// assert_eq!(limits.max_queries.get(), 512);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Maximum number of queries per batch.
    pub max_queries: NonZero<usize>,
    /// Maximum time that the first query of a batch waits. With zero, waiting queries are answered
    /// immediately.
    pub max_wait: Duration,
}

impl Default for BatchLimits {
    /// Returns limits of 512 queries and 2 milliseconds.
    fn default() -> Self {
        let max_queries = NonZero::new(512).expect("512 is not 0");
        Self { max_queries, max_wait: Duration::from_millis(2) }
    }
}

/// The answer of a search to one query.
type Answer = Result<Vec<Neighbor>, Error>;

/// The reason why a query was not answered.
///
/// ```
/// use metric_index::lists::NeighborLists;
/// use metric_index::online::{BatchLimits, Queue, QueueError};
///
/// // Unlike a search, this function returns no answers.
/// let queue = Queue::start(BatchLimits::default(), |_: Vec<u8>| NeighborLists::default())?;
/// assert_eq!(queue.ask(7), Err(QueueError::Lost));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum QueueError {
    /// The search rejected the query.
    #[error(transparent)]
    Search(#[from] Error),
    /// The search ended without an answer to the query: it panicked, or returned fewer answers than
    /// queries.
    #[error("the search ended without an answer")]
    Lost,
}

/// A query with the channel for its answer.
struct PendingQuery<Q> {
    query: Q,
    submitted: Instant,
    channel: SyncSender<Answer>,
}

/// A queue that answers queries in batches on its own thread. Several threads can share a queue.
/// Dropping the queue waits until all submitted queries are answered.
pub struct Queue<Q> {
    /// The channel of queries; `None` only while the queue is being dropped.
    queries: Option<Sender<PendingQuery<Q>>>,
    thread: Option<JoinHandle<()>>,
}

impl<Q> fmt::Debug for Queue<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// The future answer to a submitted query.
///
/// ```
/// use metric_index::online::{BatchLimits, Queue};
///
/// let answer = |queries: Vec<u8>| queries.iter().map(|_| Ok(vec![])).collect();
/// let queue = Queue::start(BatchLimits::default(), answer)?;
/// let ticket = queue.submit(7);
/// assert_eq!(ticket.wait(), Ok(vec![]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Ticket(Receiver<Answer>);

impl Ticket {
    /// Waits for the answer.
    ///
    /// # Errors
    /// Fails if the search rejected the query, or ended without an answer.
    pub fn wait(self) -> Result<Vec<Neighbor>, QueueError> {
        Ok(self.0.recv().map_err(|_| QueueError::Lost)??)
    }
}

impl<Q: Send + 'static> Queue<Q> {
    /// Starts a queue. `answer` returns one list per query, in query order, like
    /// [`nearest_many`](crate::index::Index::nearest_many). If `answer` panics, the queries of its
    /// batch are [lost](QueueError::Lost), and the queue continues.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    pub fn start(
        limits: BatchLimits,
        mut answer: impl FnMut(Vec<Q>) -> NeighborLists + Send + 'static,
    ) -> Result<Self, io::Error> {
        let (sender, receiver) = channel();
        let work = move || {
            while let Some(batch) = next_batch(&receiver, limits) {
                let (queries, channels): (Vec<Q>, Vec<SyncSender<Answer>>) =
                    batch.into_iter().map(|pending| (pending.query, pending.channel)).unzip();
                let answers = std::panic::AssertUnwindSafe(|| answer(queries));
                // After a panic, the dropped channels report the queries as lost.
                let Ok(answers) = std::panic::catch_unwind(answers) else { continue };
                for (channel, answer) in channels.into_iter().zip(&answers) {
                    // Sending fails if the ticket was dropped.
                    let _ = channel.send(answer.map(<[_]>::to_vec));
                }
            }
        };
        let thread = thread::Builder::new().name("queue".to_owned()).spawn(work)?;
        Ok(Self { queries: Some(sender), thread: Some(thread) })
    }

    /// Submits a query.
    ///
    /// # Panics
    /// Never panics, because the channel exists as long as the queue.
    pub fn submit(&self, query: Q) -> Ticket {
        let (channel, answer) = sync_channel(1);
        let queries = self.queries.as_ref().expect("the queue is not being dropped");
        // If the thread has ended, the ticket reports the query as lost.
        let _ = queries.send(PendingQuery { query, submitted: Instant::now(), channel });
        Ticket(answer)
    }

    /// Submits a query and waits for its answer.
    ///
    /// # Errors
    /// Fails if the search rejected the query, or ended without an answer.
    pub fn ask(&self, query: Q) -> Result<Vec<Neighbor>, QueueError> {
        self.submit(query).wait()
    }
}

impl<Q> Drop for Queue<Q> {
    fn drop(&mut self) {
        self.queries = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches panics of `answer` and does not panic otherwise.
            let _ = thread.join();
        }
    }
}

/// Returns the next batch of queries, or `None` after the queue was dropped and no queries remain.
fn next_batch<Q>(
    receiver: &Receiver<PendingQuery<Q>>,
    limits: BatchLimits,
) -> Option<Vec<PendingQuery<Q>>> {
    let first = receiver.recv().ok()?;
    let deadline = first.submitted + limits.max_wait;
    let mut batch = vec![first];
    while batch.len() < limits.max_queries.get() {
        // Waiting queries are taken even after the deadline.
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(next) => batch.push(next),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn limits(max_queries: usize, max_wait: Duration) -> BatchLimits {
        BatchLimits { max_queries: NonZero::new(max_queries).unwrap(), max_wait }
    }

    fn echo(queries: &[u32]) -> NeighborLists {
        queries.iter().map(|&point| Ok(vec![Neighbor { point, distance: 0.0 }])).collect()
    }

    const LONG_WAIT: Duration = Duration::from_mins(1);

    #[test]
    fn a_full_batch_does_not_wait() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let queue = Queue::start(limits(4, LONG_WAIT), move |queries: Vec<u32>| {
            seen.lock().unwrap().push(queries.len());
            echo(&queries)
        })
        .unwrap();
        let tickets: Vec<Ticket> = (0..8).map(|query| queue.submit(query)).collect();
        for (query, ticket) in (0..).zip(tickets) {
            assert_eq!(ticket.wait().unwrap()[0].point, query);
        }
        assert_eq!(*sizes.lock().unwrap(), [4, 4]);
    }

    #[test]
    fn remaining_queries_are_answered_when_dropped() {
        let queue =
            Queue::start(limits(100, LONG_WAIT), |queries: Vec<u32>| echo(&queries)).unwrap();
        let tickets = [queue.submit(1), queue.submit(2)];
        drop(queue);
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    }

    #[test]
    fn a_single_query_waits_no_longer_than_the_limit() {
        let wait = Duration::from_millis(5);
        let queue = Queue::start(limits(100, wait), |queries: Vec<u32>| echo(&queries)).unwrap();
        assert_eq!(queue.ask(7).unwrap()[0].point, 7);
        let queue = Queue::start(limits(100, Duration::ZERO), |q: Vec<u32>| echo(&q)).unwrap();
        assert_eq!(queue.ask(7).unwrap()[0].point, 7);
    }

    #[test]
    fn many_threads_each_get_their_own_answer() {
        let queue =
            Queue::start(limits(16, Duration::from_millis(1)), |q: Vec<u32>| echo(&q)).unwrap();
        thread::scope(|scope| {
            for client in 0..8u32 {
                let queue = &queue;
                scope.spawn(move || {
                    for number in 0..200 {
                        let query = client * 1_000 + number;
                        assert_eq!(queue.ask(query).unwrap()[0].point, query);
                    }
                });
            }
        });
    }

    #[test]
    fn a_failure_affects_only_its_own_queries() {
        let answer = |queries: Vec<u32>| {
            assert!(!queries.contains(&13), "the search panics");
            let rejected = Err(Error::Radius { radius: -1.0 });
            let answer = |point| Ok(vec![Neighbor { point, distance: 0.0 }]);
            queries.into_iter().map(|q| if q == 5 { rejected.clone() } else { answer(q) }).collect()
        };
        let queue = Queue::start(limits(1, LONG_WAIT), answer).unwrap();
        assert_eq!(queue.ask(13), Err(QueueError::Lost));
        assert!(matches!(queue.ask(5), Err(QueueError::Search(Error::Radius { .. }))));
        assert!(queue.ask(6).is_ok());
    }
}
