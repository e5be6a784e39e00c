//! Measures the speedup of several threads over one thread, with the strategy `Local`.
//!
//! Run it with `cargo bench -p metric-papers --bench threads -- WORDS [N ...]`. WORDS is a file
//! with one word per line, and N are numbers of threads, by default 2. The benchmark runs range
//! queries with radius 2 for held-out words. It also searches 120,000 generated vectors for the 10
//! nearest neighbors of held-out vectors.
//!
//! Runs with one thread and with several threads alternate. The number of queries, at most 2,000,
//! is chosen so that one thread takes about two seconds.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::num::NonZero;

use metric_index::collector::{Answer, Nearest, Within};
use metric_index::generate::{clustered, held_out};
use metric_index::index::{Index, Kind};
use metric_index::metric::{Edit, Euclidean};
use metric_index::points::{Points, Subset};
use metric_papers::strategy::{Measures, Options, Strategy, run};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Number of pairs of runs; the pair with the median speedup is shown.
const PAIRS: usize = 7;
/// Maximum number of queries per run.
const QUERIES: usize = 2_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some((file, threads)) = arguments.split_first() else {
        println!("usage: threads WORDS [N ...]: a file of words, and numbers of threads");
        return Ok(());
    };
    let mut threads: Vec<NonZero<usize>> =
        threads.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    if threads.is_empty() {
        threads.push(const { NonZero::new(2).unwrap() });
    }
    let text = std::fs::read_to_string(file)?;
    let (words, queries) = held_out(text.lines().map(str::trim), QUERIES, 0);
    println!("{} words, edit distance <= 2", words.len());
    for kind in Kind::of_any_metric() {
        let index = kind.build(&words, Edit)?;
        compare(&kind.to_string(), &index, &queries, |_| Within::new(2.0), &threads)?;
    }
    let (points, queries) = clustered(120_000, QUERIES, 0);
    println!("{} vectors of 20 dimensions, the 10 nearest", points.len());
    for kind in Kind::all() {
        let index = kind.build(&points, Euclidean)?;
        compare(&kind.to_string(), &index, &queries, |_| Nearest::new(10), &threads)?;
    }
    Ok(())
}

/// The measurements of one pair of runs.
struct Pair {
    /// Throughput of several threads divided by the throughput of one thread.
    speedup: f64,
    /// Throughput of one thread, in queries per second.
    baseline: f64,
    /// Fraction of the time during which the threads are idle, from 0 to 1.
    idle: f64,
}

fn compare<I: Index, Q: Points<Point = <I::Points as Points>::Point>, C: Answer>(
    name: &str,
    index: &I,
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    threads: &[NonZero<usize>],
) -> Outcome<()> {
    let one = NonZero::<usize>::MIN;
    let measure = |count: usize, threads| -> Outcome<Measures> {
        let subset = Subset::new(queries, (0..u32::try_from(count)?).collect());
        Ok(run(index, &subset, &ask, &Options::new(Strategy::Local, threads))?.measures)
    };
    let rate = measure(50, one)?.throughput();
    let mut count = 50;
    while count < QUERIES && (count as f64) < 2.0 * rate {
        count *= 2;
    }
    let count = count.min(QUERIES);
    for &threads in threads {
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let baseline = measure(count, one)?.throughput();
            let measures = measure(count, threads)?;
            let speedup = measures.throughput() / baseline;
            pairs.push(Pair { speedup, baseline, idle: measures.idle() });
        }
        pairs.sort_by(|a, b| a.speedup.total_cmp(&b.speedup));
        let Pair { speedup, baseline, idle } = pairs[PAIRS / 2];
        let min = pairs[0].speedup;
        let max = pairs[PAIRS - 1].speedup;
        println!(
            "  {name:14} {count:5} queries, one thread {baseline:8.0} per second, \
             {threads:2} threads {speedup:5.2} x ({min:.2} to {max:.2}), idle {:.0} %",
            100.0 * idle,
        );
    }
    Ok(())
}
