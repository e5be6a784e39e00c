//! Queries that arrive one at a time, answered together (Barrientos 2011, section 4.3.3).
//!
//! A search that answers many queries at once takes less time for each: brute force by products of matrices, or a
//! GPU. A [`Queue`] collects queries of any number of threads until there are enough of them or the first one has waited
//! long enough, and then answers all of them.
//!
//! ```
//! use std::num::NonZero;
//! use std::time::Duration;
//! use metric_index::index::{BruteForce, Index};
//! use metric_index::metric::Euclidean;
//! use metric_index::online::{Limits, Queue};
//! use metric_index::points::Vectors;
//!
//! let plane = Vectors::from(vec![[0.0f32, 0.0], [3.0, 4.0]]);
//! let index = BruteForce::new(plane, Euclidean)?;
//! let answer = move |queries: Vec<[f32; 2]>| {
//!     index.nearest_many(&Vectors::from(queries), 1, NonZero::<usize>::MIN)
//! };
//! let limits = Limits { most: NonZero::new(64).expect("above 0"), wait: Duration::from_millis(1) };
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

/// When a queue answers what it has collected.
///
/// ```
/// let limits = metric_index::online::Limits::default();
/// assert_eq!(limits.most.get(), 512);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// At the latest, when there are so many queries.
    pub most: NonZero<usize>,
    /// At the latest, when the first of them has waited so long. Zero: whatever is there is answered at once.
    pub wait: Duration,
}

impl Default for Limits {
    /// 512 queries, 2 milliseconds.
    fn default() -> Self {
        let most = NonZero::new(512).expect("512 is not 0");
        Self { most, wait: Duration::from_millis(2) }
    }
}

/// What a search gives for a query.
type Answer = Result<Vec<Neighbor>, Error>;

/// Why a query was not answered.
///
/// ```
/// use metric_index::lists::NeighborLists;
/// use metric_index::online::{Limits, Queue, QueueError};
///
/// // It gives no answers, which a search never does.
/// let queue = Queue::start(Limits::default(), |_: Vec<u8>| NeighborLists::default())?;
/// assert_eq!(queue.ask(7), Err(QueueError::Lost));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum QueueError {
    /// The search refused the query.
    #[error(transparent)]
    Search(#[from] Error),
    /// The search ended without an answer to it: it panicked, or gave fewer answers than there were queries.
    #[error("the search ended without an answer")]
    Lost,
}

/// A query and where its answer goes.
struct Waiting<Q> {
    query: Q,
    since: Instant,
    to: SyncSender<Answer>,
}

/// Collects queries and answers them together, on a thread of its own. Threads may share it. When it is dropped, it
/// answers what it has and ends.
pub struct Queue<Q> {
    /// None only while it is dropped.
    queries: Option<Sender<Waiting<Q>>>,
    thread: Option<JoinHandle<()>>,
}

impl<Q> fmt::Debug for Queue<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// The answer to a query that was handed in.
///
/// ```
/// use metric_index::online::{Limits, Queue};
///
/// let queue = Queue::start(Limits::default(), |queries: Vec<u8>| queries.iter().map(|_| Ok(vec![])).collect())?;
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
    /// If the search refused the query, or ended without an answer.
    pub fn wait(self) -> Result<Vec<Neighbor>, QueueError> {
        Ok(self.0.recv().map_err(|_| QueueError::Lost)??)
    }
}

impl<Q: Send + 'static> Queue<Q> {
    /// Starts a queue. `answer` gives a list for each query, in their order, such as
    /// [`nearest_many`](crate::index::Index::nearest_many). If it panics, the queries of that batch are
    /// [lost](QueueError::Lost), and the queue goes on.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(
        limits: Limits,
        mut answer: impl FnMut(Vec<Q>) -> NeighborLists + Send + 'static,
    ) -> Result<Self, io::Error> {
        let (queries, arriving) = channel();
        let work = move || {
            while let Some(batch) = next_batch(&arriving, limits) {
                let (queries, places): (Vec<Q>, Vec<SyncSender<Answer>>) =
                    batch.into_iter().map(|one| (one.query, one.to)).unzip();
                let answers = std::panic::AssertUnwindSafe(|| answer(queries));
                // Those without an answer learn it from their dropped end.
                let Ok(answers) = std::panic::catch_unwind(answers) else { continue };
                for (place, answer) in places.into_iter().zip(&answers) {
                    // Nobody may wait for it any more.
                    let _ = place.send(answer.map(<[_]>::to_vec));
                }
            }
        };
        let thread = thread::Builder::new().name("queue".to_owned()).spawn(work)?;
        Ok(Self { queries: Some(queries), thread: Some(thread) })
    }

    /// Hands in a query.
    ///
    /// # Panics
    /// Never: the queue lasts as long as this.
    pub fn submit(&self, query: Q) -> Ticket {
        let (to, from) = sync_channel(1);
        let queries = self.queries.as_ref().expect("it is not being dropped");
        // Without its thread the answer is lost, which the ticket tells.
        let _ = queries.send(Waiting { query, since: Instant::now(), to });
        Ticket(from)
    }

    /// Hands in a query and waits for its answer.
    ///
    /// # Errors
    /// If the search refused the query, or ended without an answer.
    pub fn ask(&self, query: Q) -> Result<Vec<Neighbor>, QueueError> {
        self.submit(query).wait()
    }
}

impl<Q> Drop for Queue<Q> {
    fn drop(&mut self) {
        self.queries = None;
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; an answer that did was caught.
            let _ = thread.join();
        }
    }
}

/// The next queries to be answered together; none when no more can come.
fn next_batch<Q>(arriving: &Receiver<Waiting<Q>>, limits: Limits) -> Option<Vec<Waiting<Q>>> {
    let first = arriving.recv().ok()?;
    let until = first.since + limits.wait;
    let mut batch = vec![first];
    while batch.len() < limits.most.get() {
        // What is there already is taken even if the time is over.
        match arriving.recv_timeout(until.saturating_duration_since(Instant::now())) {
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

    fn limits(most: usize, wait: Duration) -> Limits {
        Limits { most: NonZero::new(most).unwrap(), wait }
    }

    fn echo(queries: &[u32]) -> NeighborLists {
        queries.iter().map(|&point| Ok(vec![Neighbor { point, distance: 0.0 }])).collect()
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_full_batch_does_not_wait() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sizes);
        let queue = Queue::start(limits(4, LONG), move |queries: Vec<u32>| {
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
    fn what_is_left_is_answered_at_the_end() {
        let queue = Queue::start(limits(100, LONG), |queries: Vec<u32>| echo(&queries)).unwrap();
        let tickets = [queue.submit(1), queue.submit(2)];
        drop(queue);
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    }

    #[test]
    fn a_query_alone_waits_no_longer_than_it_must() {
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
    fn failures_reach_those_who_asked_and_nobody_else() {
        let answer = |queries: Vec<u32>| {
            assert!(!queries.contains(&13), "unlucky");
            let refused = Err(Error::Radius { radius: -1.0 });
            let answer = |point| Ok(vec![Neighbor { point, distance: 0.0 }]);
            queries.into_iter().map(|q| if q == 5 { refused.clone() } else { answer(q) }).collect()
        };
        let queue = Queue::start(limits(1, LONG), answer).unwrap();
        assert_eq!(queue.ask(13), Err(QueueError::Lost));
        assert!(matches!(queue.ask(5), Err(QueueError::Search(Error::Radius { .. }))));
        assert!(queue.ask(6).is_ok());
    }
}
