//! How many times as fast several threads are as one, with the strategy Local: pairs of runs of one thread and of
//! several, one after the other.
//!
//! `cargo bench -p metric-index --bench threads -- WORDS [N ...]`: words, one a line, and numbers of threads, by
//! default 2. Words held out of the file are its queries, within distance 2; for the 120,000 generated vectors
//! it is the 10 nearest. As many queries as one thread answers in two seconds, 2,000 at most.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::num::NonZero;

use metric_index::collector::{Answer, Nearest, Within};
use metric_index::generate::{clustered, held_out};
use metric_index::index::{Index, Kind};
use metric_index::metric::{Edit, Euclidean};
use metric_index::points::{Points, Subset};
use metric_papers::strategy::{Measures, Options, Strategy, run};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const PAIRS: usize = 7;
const QUERIES: usize = 2_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some((file, threads)) = arguments.split_first() else {
        println!("threads: name a file of words, and numbers of threads");
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

fn compare<I: Index, Q: Points<Point = <I::Points as Points>::Point>, C: Answer>(
    name: &str,
    index: &I,
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    threads: &[NonZero<usize>],
) -> Outcome<()> {
    let one = NonZero::<usize>::MIN;
    let answered = |count: usize, threads| -> Outcome<Measures> {
        let some = Subset::new(queries, (0..u32::try_from(count)?).collect());
        Ok(run(index, &some, &ask, &Options::new(Strategy::Local, threads))?.measures)
    };
    let rate = answered(50, one)?.throughput();
    let mut count = 50;
    while count < QUERIES && (count as f64) < 2.0 * rate {
        count *= 2;
    }
    let count = count.min(QUERIES);
    for &threads in threads {
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let (alone, together) = (answered(count, one)?, answered(count, threads)?);
            let ratio = together.throughput() / alone.throughput();
            pairs.push((ratio, alone.throughput(), together.idle()));
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((least, ..), (ratio, alone, idle), (most, ..)) =
            (pairs[0], pairs[PAIRS / 2], pairs[PAIRS - 1]);
        println!(
            "  {name:14} {count:5} queries, one thread {alone:8.0} a second, {threads:2} threads {ratio:5.2} x \
             ({least:.2} to {most:.2}), idle {:.0} %",
            100.0 * idle,
        );
    }
    Ok(())
}
