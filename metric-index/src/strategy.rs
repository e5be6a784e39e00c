//! How several threads answer a stream of queries (Barrientos 2011, chapter 3).
//!
//! ```text
//! arrivals ─▶ a queue of queries a thread ─▶ requirements (tasks of the index) ─▶ answers, measures
//!                                                 │ ▲
//!                                          messages to other threads
//! ```
//!
//! Queries are dealt to the threads one after the other in a circle. A thread that takes a query works on its
//! tasks; the strategies differ in which thread works on a task, and when the threads wait for each other. The
//! answers are the same whatever the strategy: those of [`search`](crate::index::search).

use std::num::NonZero;
use std::time::Duration;

use crate::collector::Answer;
use crate::error::Error;
use crate::index::Index;
use crate::neighbor::Neighbor;
use crate::points::Points;

mod bulk;
mod exchange;
mod local;
mod measures;
mod rendezvous;

pub use measures::{Measures, Worker};

/// Which thread works on what.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::strategy::{Options, Strategy};
///
/// let one = NonZero::new(1).unwrap();
/// assert_eq!(Options::new(Strategy::Hybrid, one).strategy, Strategy::Hybrid);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// A thread answers its queries alone, one after the other (algorithm 8).
    Local,
    /// Supersteps of [`Options::evaluations`] distances a thread; the tasks that come up are dealt to all
    /// threads in a circle, which read them after a barrier (algorithm 9).
    BulkCircular,
    /// The same without barriers, with one critical section around all messages (algorithm 10).
    BulkCritical,
    /// Supersteps without messages: a thread keeps its tasks (section 3.2.4).
    BulkLocal,
    /// Local while more than threads · [`Options::waiting`] queries wait, otherwise bulk-circular (section 3.3.1).
    Hybrid,
}

/// When queries come.
///
/// ```
/// use std::num::NonZero;
/// use std::time::Duration;
/// use metric_index::strategy::{Arrivals, Options, Strategy};
///
/// let threads = NonZero::new(2).unwrap();
/// let every = Duration::from_millis(5);
/// let arrivals = Arrivals::Periodic { queries: NonZero::new(3).unwrap(), every };
/// let options = Options { arrivals, ..Options::new(Strategy::Hybrid, threads) };
/// assert_eq!(options.strategy, Strategy::Hybrid);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrivals {
    /// All when the run begins.
    AllAtOnce,
    /// So many at the begin of each unit of time.
    Periodic {
        /// Queries of a unit.
        queries: NonZero<u32>,
        /// The unit.
        every: Duration,
    },
    /// The time of each query since the begin of the run, as it was recorded: never earlier than that of the
    /// query before.
    Trace(Vec<Duration>),
}

/// How a run is done.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::strategy::{Options, Strategy};
///
/// let options = Options::new(Strategy::BulkCircular, NonZero::new(4).unwrap());
/// assert_eq!(options.threads.get(), 4);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which thread works on what.
    pub strategy: Strategy,
    /// How many threads, P in the thesis.
    pub threads: NonZero<usize>,
    /// Distances of a thread in a superstep, R in the thesis: a task stops where they are spent, and goes on later.
    pub evaluations: NonZero<u64>,
    /// Queries a thread that mean high traffic if they wait, `C_max` in the thesis.
    pub waiting: u32,
    /// When queries come.
    pub arrivals: Arrivals,
    /// The time over which the work of the threads is compared, for [`Measures::efficiency`].
    pub window: Duration,
}

impl Options {
    /// All queries at once, 512 distances a superstep, high traffic from 2 waiting queries a thread, windows of
    /// 10 ms.
    ///
    /// ```
    /// use std::num::NonZero;
    /// use metric_index::strategy::{Options, Strategy};
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

    /// When each query comes.
    fn arrivals(&self, queries: usize) -> Result<Vec<Duration>, Error> {
        if self.window.is_zero() {
            return Err(Error::Option { option: "window", value: 0, expected: "more than 0" });
        }
        match &self.arrivals {
            Arrivals::AllAtOnce => Ok(vec![Duration::ZERO; queries]),
            Arrivals::Periodic { queries: some, every } => {
                let unit = |query| every.saturating_mul(query / some.get());
                Ok((0..u32::try_from(queries).unwrap_or(u32::MAX)).map(unit).collect())
            }
            Arrivals::Trace(times) if times.len() != queries => {
                Err(Error::Trace { times: times.len(), queries })
            }
            Arrivals::Trace(times) => match times.windows(2).position(|pair| pair[1] < pair[0]) {
                Some(before) => Err(Error::TraceOrder { query: before + 1 }),
                None => Ok(times.clone()),
            },
        }
    }
}

/// The answers of a run, and what it took.
///
/// ```
/// use std::num::NonZero;
/// use metric_index::collector::Nearest;
/// use metric_index::index::VpTree;
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::strategy::{Options, Strategy, run};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let tree = VpTree::build(&words, Edit)?;
/// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
/// let run = run(&tree, &words, |_| Nearest::new(1), &options)?;
/// assert_eq!(run.answers.len(), 4);
/// assert_eq!(run.answers[3].as_ref().unwrap()[0].point, 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Run {
    /// The answer of each query, or why it has none.
    pub answers: Vec<Result<Vec<Neighbor>, Error>>,
    /// What it took.
    pub measures: Measures,
}

/// Answers queries by a strategy. `ask` makes the collector of a query from its number.
///
/// A query that has no answer, as one with a NaN, does not touch the others.
///
/// # Errors
/// If the arrivals are not those of the queries, or the window has no length, or there are 2^32 queries and more.
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
/// use metric_index::strategy::{Options, Strategy, run};
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let queries: Strings = ["masa", "pie"].into_iter().collect();
/// let tree = VpTree::build(words, Edit)?;
/// let options = Options::new(Strategy::Hybrid, NonZero::new(2).unwrap());
/// let done = run(&tree, &queries, |_| Within::new(1.0), &options)?;
/// assert_eq!(done.answers[0].as_ref().unwrap()[0].point, 0);
/// println!("{:.0} queries a second", done.measures.throughput());
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub fn run<I, Q, C>(
    index: &I,
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Run, Error>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let arrivals = arrivals(queries, options)?;
    Ok(match options.strategy {
        Strategy::Local => local::local(index, queries, &ask, &arrivals, options),
        Strategy::BulkCircular
        | Strategy::BulkLocal
        | Strategy::Hybrid
        | Strategy::BulkCritical => bulk::bulk(index, queries, &ask, &arrivals, options),
    })
}

/// Answers queries by the strategy of distributed data (section 3.3.2): a thread for each index, and each answers all
/// queries from its own.
///
/// Point i of index t of T is point `i * T + t` of the answers: as if points had been dealt to the indexes in a
/// circle. The strategy and the number of threads of the options are not looked at.
///
/// # Errors
/// As [`run`]; and if there is no index, or one has so many points that their numbers are no 32-bit numbers.
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
/// use metric_index::strategy::{Options, Strategy, run_distributed};
///
/// let words = ["casa", "cosa", "caso", "pez"];
/// let share = |t| words.iter().skip(t).step_by(2).collect::<Strings>();
/// let trees = [VpTree::build(share(0), Edit)?, VpTree::build(share(1), Edit)?];
/// let queries: Strings = ["cosas"].into_iter().collect();
/// let options = Options::new(Strategy::Local, NonZero::new(2).unwrap());
/// let done = run_distributed(&trees, &queries, |_| Nearest::new(1), &options)?;
/// assert_eq!(done.answers[0].as_ref().unwrap()[0].point, 1);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub fn run_distributed<I, Q, C>(
    indexes: &[I],
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Run, Error>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let arrivals = arrivals(queries, options)?;
    let most = indexes.iter().map(|index| index.points().len()).max().unwrap_or(0);
    if indexes.is_empty() {
        return Err(Error::Option { option: "indexes", value: 0, expected: "1 or more" });
    }
    let count = most.saturating_mul(indexes.len());
    u32::try_from(count).map_err(|_| Error::TooMany { count })?;
    Ok(local::distributed(indexes, queries, &ask, &arrivals, options))
}

fn arrivals<Q: Points>(queries: &Q, options: &Options) -> Result<Vec<Duration>, Error> {
    let count = queries.len();
    u32::try_from(count).map_err(|_| Error::TooMany { count })?;
    options.arrivals(count)
}

/// Puts together what the threads have found of a query.
fn merged<C: Answer>(parts: impl IntoIterator<Item = C>, ask: impl FnOnce() -> C) -> Vec<Neighbor> {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return ask().into_sorted() };
    for part in parts {
        part.into_sorted().into_iter().for_each(|near| all.offer(near));
    }
    all.into_sorted()
}
