//! Strategies by which several threads answer a stream of queries (Barrientos 2011, chapter 3).
//!
//! The module reproduces algorithms 8 to 10 and sections 3.2.4, 3.3.1 and 3.3.2. The command
//! `metric-index bench thesis` repeats the measurements of the chapter.
//!
//! ```text
//! arrivals ─▶ queue of each thread ─▶ requirements (tasks of the index) ─▶ answers, measures
//!                                                │ ▲
//!                                     messages to other threads
//! ```
//!
//! Queries are dealt to the threads round-robin. A thread that takes a query processes its tasks.
//! The strategies differ in which thread processes a task, and in when threads wait for each other.
//! The answers do not depend on the strategy: they are those of
//! [`search`](metric_index::index::search).

use std::num::NonZero;
use std::time::Duration;

use metric_index::collector::Answer;
use metric_index::index::Index;
use metric_index::lists::NeighborLists;
use metric_index::neighbor::Neighbor;
use metric_index::points::Points;

mod bulk;
mod error;
mod exchange;
mod local;
mod measures;
mod rendezvous;

pub use error::RunError;
pub use measures::{Measures, Worker};

/// How threads share the work.
///
/// ```
/// use std::num::NonZero;
/// use metric_papers::strategy::{Options, Strategy};
///
/// let one = NonZero::new(1).unwrap();
/// assert_eq!(Options::new(Strategy::Hybrid, one).strategy, Strategy::Hybrid);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each thread answers its own queries, one after another (algorithm 8).
    Local,
    /// Supersteps of [`Options::evaluations`] distances per thread. New tasks are dealt to all
    /// threads round-robin, which receive them after a barrier (algorithm 9).
    BulkCircular,
    /// `BulkCircular` without barriers, with one critical section around all messages (algorithm
    /// 10).
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
    /// All at the start of the run.
    AllAtOnce,
    /// `queries` arrive at the start of each interval.
    Periodic {
        /// The number of queries per interval.
        queries: NonZero<u32>,
        /// The length of the interval.
        every: Duration,
    },
    /// The recorded arrival time of each query since the start of the run, in nondecreasing order.
    Trace(Vec<Duration>),
}

/// The options of a run.
///
/// ```
/// use std::num::NonZero;
/// use metric_papers::strategy::{Options, Strategy};
///
/// let options = Options::new(Strategy::BulkCircular, NonZero::new(4).unwrap());
/// assert_eq!(options.threads.get(), 4);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How threads share the work.
    pub strategy: Strategy,
    /// The number of threads, P in the thesis.
    pub threads: NonZero<usize>,
    /// Number of distances that a thread evaluates per superstep, R in the thesis. A task pauses
    /// when they are used up.
    pub evaluations: NonZero<u64>,
    /// Number of waiting queries per thread above which traffic is high, `C_max` in the thesis.
    pub waiting: u32,
    /// When queries arrive.
    pub arrivals: Arrivals,
    /// The time window in which [`Measures::efficiency`] compares the work of the threads.
    pub window: Duration,
}

impl Options {
    /// The defaults: all queries at once, 512 distances per superstep, high traffic above 2 waiting
    /// queries per thread, and windows of 10 ms.
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

    /// The arrival time of each query.
    fn arrivals(&self, queries: usize) -> Result<Vec<Duration>, RunError> {
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

/// The answers and measurements of a run.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::collector::Nearest;
/// use metric_index::index::VpTree;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_papers::strategy::{Options, Strategy, run};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(&words, Edit)?;
/// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
/// let run = run(&tree, &words, |_| Nearest::new(1), &options)?;
/// assert_eq!(run.answers.len(), 4);
/// assert_eq!(run.answers.get(3)?[0].point, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Run {
    /// The answers to the queries.
    pub answers: NeighborLists,
    /// The measurements.
    pub measures: Measures,
}

/// Answers queries by a strategy. `ask` returns the collector for a query, given its number.
///
/// A query that fails, such as a vector with a NaN, does not affect the others.
///
/// # Errors
/// If the trace does not fit the queries, the window is empty, there are 2^32 queries or more, or
/// the system cannot start all threads.
///
/// # Panics
/// If the metric panics.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::collector::Within;
/// use metric_index::index::VpTree;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_papers::strategy::{Options, Strategy, run};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let queries: Strings = ["masa", "pie"].into_iter().collect();
/// let tree = VpTree::build(words, Edit)?;
/// let options = Options::new(Strategy::Hybrid, NonZero::new(2).unwrap());
/// let done = run(&tree, &queries, |_| Within::new(1.0), &options)?;
/// assert_eq!(done.answers.get(0)?[0].point, 0);
/// println!("{:.0} queries a second", done.measures.throughput());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run<I, Q, C>(
    index: &I,
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let arrivals = arrivals(queries, options)?;
    match options.strategy {
        Strategy::Local => local::local(index, queries, &ask, &arrivals, options),
        Strategy::BulkCircular
        | Strategy::BulkLocal
        | Strategy::Hybrid
        | Strategy::BulkCritical => bulk::bulk(index, queries, &ask, &arrivals, options),
    }
}

/// Answers queries by the strategy of distributed data (section 3.3.2).
///
/// There is one thread per index, which answers all queries from its index. Point i of index t of T
/// is point `i * T + t` of the answers, as if points had been dealt to the indexes round-robin. The
/// strategy and the number of threads in the options are ignored.
///
/// # Errors
/// As [`run`], or if there is no index, or the numbers of the points exceed 32 bits.
///
/// # Panics
/// If the metric panics.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::collector::Nearest;
/// use metric_index::index::VpTree;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_papers::strategy::{Options, Strategy, run_distributed};
///
/// let words = ["casa", "cosa", "caso", "pez"];
/// let share = |t| words.iter().skip(t).step_by(2).collect::<Strings>();
/// let trees = [VpTree::build(share(0), Edit)?, VpTree::build(share(1), Edit)?];
/// let queries: Strings = ["cosas"].into_iter().collect();
/// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
/// let done = run_distributed(&trees, &queries, |_| Nearest::new(1), &options)?;
/// assert_eq!(done.answers.get(0)?[0].point, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_distributed<I, Q, C>(
    indexes: &[I],
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let arrivals = arrivals(queries, options)?;
    let max_points = indexes.iter().map(|index| index.points().len()).max().unwrap_or(0);
    if indexes.is_empty() {
        return Err(RunError::NoIndexes);
    }
    let count = max_points.saturating_mul(indexes.len());
    u32::try_from(count).map_err(|_| RunError::TooMany { count })?;
    local::distributed(indexes, queries, &ask, &arrivals, options)
}

/// Checks the number of queries, and returns their arrival times.
fn arrivals<Q: Points>(queries: &Q, options: &Options) -> Result<Vec<Duration>, RunError> {
    let count = queries.len();
    u32::try_from(count).map_err(|_| RunError::TooMany { count })?;
    options.arrivals(count)
}

/// Merges the partial answers of a query.
fn merged<C: Answer>(parts: impl IntoIterator<Item = C>, ask: impl FnOnce() -> C) -> Vec<Neighbor> {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return ask().into_sorted() };
    for part in parts {
        part.into_sorted().into_iter().for_each(|near| all.offer(near));
    }
    all.into_sorted()
}
