//! Strategies for answering a stream of queries with several threads (Barrientos 2011, chapter 3).
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
//! Queries are distributed over the threads round-robin. A search consists of tasks that the index
//! creates. The strategies determine which thread processes a task, and when threads wait for each
//! other. The answers do not depend on the strategy: they equal the answers of
//! [`search`](metric_index::index::search).

use metric_index::collector::Answer;
use metric_index::index::Index;
use metric_index::points::Points;

mod answers;
mod bulk;
mod error;
mod exchange;
mod local;
mod measures;
mod options;
mod rendezvous;
mod threads;

pub use answers::Run;
pub use error::RunError;
pub use measures::{Measures, Worker};
pub use options::{Arrivals, Options, Strategy};

use options::Stream;

/// Answers queries with a strategy. `make_collector` returns the collector for a query, given its
/// number.
///
/// A query that fails, such as a vector with a NaN, does not affect other queries.
///
/// # Errors
/// Fails if the trace does not match the queries, or if the window is empty. Also fails with 2^32
/// queries or more, or if the system cannot start all threads.
///
/// # Panics
/// Panics if the metric panics.
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
/// let result = run(&tree, &queries, |_| Within::new(1.0), &options)?;
/// assert_eq!(result.answers.get(0)?[0].point, 0);
/// println!("{:.0} queries per second", result.measures.throughput());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run<I, Q, C>(
    index: &I,
    queries: &Q,
    make_collector: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let arrivals = options.arrivals_of(queries.len())?;
    let stream = Stream { queries, make_collector: &make_collector, arrivals: &arrivals, options };
    match options.strategy {
        Strategy::Local => local::local(index, &stream),
        Strategy::BulkCircular
        | Strategy::BulkLocal
        | Strategy::Hybrid
        | Strategy::BulkCritical => bulk::bulk(index, &stream),
    }
}

/// Answers queries with the strategy of distributed data (section 3.3.2).
///
/// Each index has its own thread, which answers all queries. Points are numbered as if they had
/// been distributed over the indexes round-robin. With T indexes, point i of index t is point
/// `i * T + t` of the answers. The strategy and the number of threads in the options are ignored.
///
/// # Errors
/// Returns the same errors as [`run`]. Also fails if there is no index, or if the numbers of the
/// points exceed 32 bits.
///
/// # Panics
/// Panics if the metric panics.
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
/// let result = run_distributed(&trees, &queries, |_| Nearest::new(1), &options)?;
/// assert_eq!(result.answers.get(0)?[0].point, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_distributed<I, Q, C>(
    indexes: &[I],
    queries: &Q,
    make_collector: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Run, RunError>
where
    I: Index,
    Q: Points<Point = <I::Points as Points>::Point>,
    C: Answer,
{
    let arrivals = options.arrivals_of(queries.len())?;
    let max_points = indexes.iter().map(|index| index.points().len()).max().unwrap_or(0);
    if indexes.is_empty() {
        return Err(RunError::NoIndexes);
    }
    let count = max_points.saturating_mul(indexes.len());
    u32::try_from(count).map_err(|_| RunError::TooMany { count })?;
    local::distributed(
        indexes,
        &Stream { queries, make_collector: &make_collector, arrivals: &arrivals, options },
    )
}
