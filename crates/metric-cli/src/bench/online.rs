//! `metric-index bench online` measures throughput and latency of queries that arrive one at a
//! time, for several batch sizes (Barrientos 2011, section 4.3.3).

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use array_file::output::{Output, Outputs};
use clap::Args;
use comfy_table::Table;
use metric_index::generate::{clustered, held_out};
use metric_index::index::{Index, Kind};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::online::{BatchLimits, Queue, QueueError};
use metric_index::points::{Points, Subset};
use serde::Serialize;

use super::data::read_words;
use super::results::{align, table};
use crate::failure::{Failure, Outcome, invalid_request};
use crate::threads::{all_cores, start_threads};
use crate::verbosity::Verbosity;

#[derive(Debug, Args)]
pub(crate) struct Online {
    /// A file with one word per line, compared by edit distance; some are held out as queries
    /// [default: generated vectors with 20 dimensions and the Euclidean distance]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// Number of vectors to generate
    #[arg(long, value_name = "N", default_value_t = 120_000)]
    vectors: usize,
    /// The index
    #[arg(long, value_name = "KIND", default_value = "brute-force")]
    index: Kind,
    /// Number of neighbors per query
    #[arg(short, value_name = "K", default_value = "10")]
    k: NonZero<usize>,
    /// Number of client threads, each of which sends its next query when it has received an answer
    #[arg(long, value_name = "N", default_value = "256")]
    clients: NonZero<usize>,
    /// Maximum batch sizes to try
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,16,64,256")]
    batches: Vec<NonZero<usize>>,
    /// Maximum time that the first query of a batch waits for others, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2.0)]
    wait: f64,
    /// Duration of each measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// Number of search threads [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write the measurements as JSON (schema metric-index.bench-online/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Maximum number of distinct queries.
const QUERIES: usize = 4_096;

#[derive(Debug, Serialize)]
struct Measurement {
    batch: usize,
    answers: usize,
    mean_batch: f64,
    throughput: f64,
    latency_median_ms: f64,
    latency_99_ms: f64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    data: String,
    points: usize,
    index: String,
    k: usize,
    clients: usize,
    threads: usize,
    wait_ms: f64,
    seconds: f64,
    seed: u64,
    batches: &'a [Measurement],
}

impl Online {
    pub(crate) fn run(&self, verbosity: Verbosity) -> Outcome {
        let mut out = Output::standard()?;
        let mut outputs = Outputs::default();
        self.words.iter().for_each(|path| outputs.add_input(path));
        let json = self.json.as_ref().map(|path| outputs.open(path)).transpose()?;
        for (flag, value) in [("--wait", self.wait), ("--seconds", self.seconds)] {
            if Duration::try_from_secs_f64(value).is_err() || value > 3_600_000.0 {
                return Err(Failure::usage(format!(
                    "{flag} {value}, expected a number of at least 0"
                )));
            }
        }
        start_threads(self.threads)?;
        let (data, points, measured) = if let Some(path) = &self.words {
            let text = read_words(path)?;
            let query_count = (text.lines().count() / 10).clamp(1, QUERIES);
            let (points, queries) = held_out(text.lines(), query_count, self.seed);
            let count = points.len();
            (path.display().to_string(), count, self.measure(points, queries, Edit, verbosity)?)
        } else {
            let (points, queries) = clustered(self.vectors, QUERIES, self.seed);
            let count = points.len();
            let data = "200 clusters of 20 dimensions".to_owned();
            (data, count, self.measure(points, queries, Euclidean, verbosity)?)
        };
        let report = Report {
            schema: "metric-index.bench-online/1",
            data,
            points,
            index: self.index.to_string(),
            k: self.k.get(),
            clients: self.clients.get(),
            threads: self.threads.unwrap_or_else(all_cores).get(),
            wait_ms: self.wait,
            seconds: self.seconds,
            seed: self.seed,
            batches: &measured,
        };
        writeln!(
            out,
            "{} points ({}), {}, k = {}, {} clients, {} threads, wait {} ms, seed {}\n{}",
            report.points,
            report.data,
            report.index,
            report.k,
            report.clients,
            report.threads,
            report.wait_ms,
            report.seed,
            table_of(&measured)
        )?;
        out.commit()?;
        if let Some(mut json) = json {
            serde_json::to_writer_pretty(&mut json, &report).map_err(std::io::Error::from)?;
            writeln!(json)?;
            json.commit()?;
        }
        Ok(())
    }

    /// Measures all batch sizes.
    fn measure<S, M>(
        &self,
        points: S,
        queries: S,
        metric: M,
        verbosity: Verbosity,
    ) -> Result<Vec<Measurement>, Failure>
    where
        S: Points + Send + 'static,
        M: Metric<S::Point> + Send + Clone + 'static,
    {
        if points.is_empty() || queries.is_empty() {
            return Err(Failure::input("there are no points or no queries".to_owned()));
        }
        let index = Arc::new(self.index.build(points, metric).map_err(invalid_request)?);
        let queries = Arc::new(queries);
        let mut measurements = Vec::new();
        for &batch in &self.batches {
            verbosity.say(&format!("batches of up to {batch}"));
            measurements.push(self.measure_batch(batch, &index, &queries)?);
        }
        Ok(measurements)
    }

    /// Measures batches of up to `batch` queries.
    fn measure_batch<I>(
        &self,
        batch: NonZero<usize>,
        index: &Arc<I>,
        queries: &Arc<I::Points>,
    ) -> Result<Measurement, Failure>
    where
        I: Index + Send + 'static,
        I::Points: Send,
    {
        let max_wait = Duration::from_secs_f64(self.wait / 1e3);
        let limits = BatchLimits { max_queries: batch, max_wait };
        let index = Arc::clone(index);
        let all_queries = Arc::clone(queries);
        let k = self.k.get();
        let threads = self.threads.unwrap_or_else(all_cores);
        let batches = Arc::new(AtomicU32::new(0));
        let batch_count = Arc::clone(&batches);
        let answer = move |numbers: Vec<u32>| {
            batch_count.fetch_add(1, Ordering::Relaxed);
            index.nearest_many(&Subset::new(&*all_queries, numbers), k, threads)
        };
        let cannot_start = |error: std::io::Error| Failure { code: 5, error: error.into() };
        let queue = Queue::start(limits, answer).map_err(cannot_start)?;
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let count = u32::try_from(queries.len()).unwrap_or(u32::MAX);
        let run_client = |client: usize| {
            let mut latencies = Vec::new();
            let mut number = u32::try_from(client).unwrap_or(0);
            while !stop.load(Ordering::Relaxed) {
                let sent = Instant::now();
                queue.ask(number % count)?;
                latencies.push(sent.elapsed());
                number = number.wrapping_add(17);
            }
            Ok::<_, QueueError>(latencies)
        };
        let mut latencies = Vec::new();
        thread::scope(|scope| {
            let run_client = &run_client;
            let clients: Result<Vec<_>, _> = (0..self.clients.get())
                .map(|client| {
                    thread::Builder::new().spawn_scoped(scope, move || run_client(client))
                })
                .collect();
            if clients.is_ok() {
                thread::sleep(Duration::from_secs_f64(self.seconds));
            }
            stop.store(true, Ordering::Relaxed);
            for client in clients.map_err(cannot_start)? {
                let result = client.join().unwrap_or(Err(QueueError::Lost));
                latencies.extend(result.map_err(|error| Failure::input(error.to_string()))?);
            }
            Ok::<_, Failure>(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        latencies.sort_unstable();
        let percentile = |share: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
            let position = (latencies.len() as f64 * share) as usize;
            latencies.get(position).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
        };
        Ok(Measurement {
            batch: batch.get(),
            answers: latencies.len(),
            mean_batch: latencies.len() as f64 / f64::from(batches.load(Ordering::Relaxed).max(1)),
            throughput: latencies.len() as f64 / seconds,
            latency_median_ms: percentile(0.5),
            latency_99_ms: percentile(0.99),
        })
    }
}

fn table_of(measured: &[Measurement]) -> Table {
    let mut table = table(["batch", "mean batch", "queries/s", "median ms", "99 % ms"]);
    for measurement in measured {
        table.add_row([
            measurement.batch.to_string(),
            format!("{:.1}", measurement.mean_batch),
            format!("{:.0}", measurement.throughput),
            format!("{:.2}", measurement.latency_median_ms),
            format!("{:.2}", measurement.latency_99_ms),
        ]);
    }
    align(&mut table, 0);
    table
}
