//! The options of runs.

use std::num::NonZero;
use std::time::Duration;

use super::error::RunError;

/// The way in which threads share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each thread answers its own queries, one after another (algorithm 8).
    Local,
    /// Supersteps of [`Options::evaluations`] distances per thread. New tasks are distributed over
    /// all threads round-robin. The threads receive them after a barrier (algorithm 9).
    BulkCircular,
    /// `BulkCircular` without barriers, but with one critical section around all messages
    /// (algorithm 10).
    BulkCritical,
    /// Supersteps without messages: each thread keeps its tasks (section 3.2.4).
    BulkLocal,
    /// `Local` while more than threads · [`Options::waiting`] queries are waiting, otherwise
    /// `BulkCircular` (section 3.3.1).
    Hybrid,
}

/// When queries arrive.
///
/// ```
/// use std::num::NonZero;
/// use std::time::Duration;
/// use metric_papers::strategy::{Arrivals, Options, Strategy};
///
/// let threads = NonZero::new(2).unwrap();
/// let every = Duration::from_millis(5);
/// let arrivals = Arrivals::Periodic { queries: NonZero::new(3).unwrap(), every };
/// let options = Options { arrivals, ..Options::new(Strategy::Hybrid, threads) };
/// assert_eq!(options.strategy, Strategy::Hybrid);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrivals {
    /// All queries arrive at the start of the run.
    AllAtOnce,
    /// A fixed number of queries arrives at the start of each interval.
    Periodic {
        /// Number of queries per interval.
        queries: NonZero<u32>,
        /// Length of the interval.
        every: Duration,
    },
    /// The arrival time of each query since the start of the run, in nondecreasing order.
    Trace(Vec<Duration>),
}

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How threads share the work.
    pub strategy: Strategy,
    /// Number of threads; P in the thesis.
    pub threads: NonZero<usize>,
    /// Maximum number of distances that a thread evaluates per superstep; R in the thesis. A task
    /// that reaches the limit pauses.
    pub evaluations: NonZero<u64>,
    /// Number of waiting queries per thread above which traffic is high; `C_max` in the thesis.
    pub waiting: u32,
    /// When queries arrive.
    pub arrivals: Arrivals,
    /// Length of the time windows in which [`efficiency`](super::Measures::efficiency) compares the
    /// work of the threads.
    pub window: Duration,
}

impl Options {
    /// Returns the default options: all queries at once, 512 distances per superstep, high traffic
    /// above 2 waiting queries per thread, and windows of 10 ms.
    ///
    /// ```
    /// use std::num::NonZero;
    /// use metric_papers::strategy::{Options, Strategy};
    ///
    /// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
    /// assert_eq!((options.evaluations.get(), options.waiting), (512, 2));
    /// ```
    pub fn new(strategy: Strategy, threads: NonZero<usize>) -> Self {
        Self {
            strategy,
            threads,
            evaluations: const { NonZero::new(512).unwrap() },
            waiting: 2,
            arrivals: Arrivals::AllAtOnce,
            window: Duration::from_millis(10),
        }
    }

    /// Checks the number of queries and returns their arrival times.
    pub(super) fn arrivals_of(&self, queries: usize) -> Result<Vec<Duration>, RunError> {
        u32::try_from(queries).map_err(|_| RunError::TooMany { count: queries })?;
        if self.window.is_zero() {
            return Err(RunError::Window);
        }
        match &self.arrivals {
            Arrivals::AllAtOnce => Ok(vec![Duration::ZERO; queries]),
            Arrivals::Periodic { queries: per_interval, every } => {
                let unit = |query| every.saturating_mul(query / per_interval.get());
                Ok((0..u32::try_from(queries).unwrap_or(u32::MAX)).map(unit).collect())
            }
            Arrivals::Trace(times) if times.len() != queries => {
                Err(RunError::Trace { times: times.len(), queries })
            }
            Arrivals::Trace(times) => match times.windows(2).position(|pair| pair[1] < pair[0]) {
                Some(before) => Err(RunError::TraceOrder { query: before + 1 }),
                None => Ok(times.clone()),
            },
        }
    }
}

/// The queries of a run with their arrival times.
pub(super) struct Stream<'a, Q, A> {
    pub(super) queries: &'a Q,
    /// Returns the collector of a query, given its number.
    pub(super) make_collector: &'a A,
    pub(super) arrivals: &'a [Duration],
    pub(super) options: &'a Options,
}

impl<Q, A> Clone for Stream<'_, Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A> Copy for Stream<'_, Q, A> {}
