//! The commands `metric-index range` and `metric-index knn`.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array_file::output::Output;
use clap::{Args, ValueEnum};
use metric_index::Question;
use metric_index::collector::{AnyCollector, Nearest, Within};
use metric_index::gpu::GpuPoint;
use metric_index::index::{AnyIndex, Index};
use metric_index::metric::{Edit, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Strings, Vectors};
use metric_index::stored::{StoreProblem, StoredIndex, StoredPoints, describe, open};
use metric_papers::strategy::{Options, Run, Strategy, run as answer};

use crate::device::{self, DeviceFlag, GpuRun};
use crate::failure::{Failure, Outcome};
use crate::input::{Data, Format, Input};
use crate::metric::{MetricFlag, parse_vector_metric, parse_word_metric};
use crate::threads::all_cores;
use crate::verbosity::Verbosity;

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// The index file
    index: PathBuf,
    #[command(flatten)]
    queries: Input,
    #[command(flatten)]
    metric: MetricFlag,
    /// Number of threads; does not affect the answers [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// How threads share the queries [default: each thread takes the next query, or several at once
    /// if that is faster]
    #[arg(long, value_enum)]
    strategy: Option<StrategyName>,
    /// The device for the search: cpu uses the index; cuda (the GPU with the most free memory),
    /// cuda:N and cuda:all use brute force. The device does not affect the answers
    #[arg(long, value_name = "WHERE", default_value = "cpu")]
    device: DeviceFlag,
    /// The format of the answers
    #[arg(long, value_enum, default_value_t = AnswerFormat::Jsonl)]
    to: AnswerFormat,
    /// Print the measurements of the search on standard error
    #[arg(long)]
    measures: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Range {
    #[command(flatten)]
    pub(crate) search: Search,
    /// Maximum distance, inclusive
    #[arg(short, long)]
    pub(crate) radius: f32,
}

#[derive(Debug, Args)]
pub(crate) struct Knn {
    #[command(flatten)]
    pub(crate) search: Search,
    /// The number of neighbors
    #[arg(short)]
    pub(crate) k: NonZero<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StrategyName {
    /// Each thread answers its own queries
    Local,
    /// Supersteps; tasks are distributed over all threads
    BulkCircular,
    /// No supersteps; tasks are distributed over all threads in a critical section
    BulkCritical,
    /// Supersteps without messages
    BulkLocal,
    /// Local or bulk-circular, depending on the number of waiting queries
    Hybrid,
}

impl From<StrategyName> for Strategy {
    fn from(name: StrategyName) -> Self {
        match name {
            StrategyName::Local => Self::Local,
            StrategyName::BulkCircular => Self::BulkCircular,
            StrategyName::BulkCritical => Self::BulkCritical,
            StrategyName::BulkLocal => Self::BulkLocal,
            StrategyName::Hybrid => Self::Hybrid,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AnswerFormat {
    /// One JSON object per query: {"query": 0, "neighbors": [{"point": 7, "distance": 1.0}]}
    Jsonl,
    /// One line per neighbor: query, rank, point, distance and (for words) text, separated by tabs
    Tsv,
}

/// The output for answers, and the verbosity of messages.
struct Streams {
    out: Output,
    verbosity: Verbosity,
}

impl Search {
    pub(crate) fn run(self, verbosity: Verbosity, question: Question) -> Outcome {
        let out = Output::standard()?;
        let description = describe(&self.index).map_err(Failure::stored)?;
        let metric = self.metric.name().or(description.metric.as_deref());
        let check_metric = |metric: Option<String>| match (&description.metric, metric) {
            (Some(saved), Some(given)) if *saved != given => Err(Failure::usage(format!(
                "--metric {given}, but {} was built with {saved}; omit --metric",
                self.index.display()
            ))),
            _ => Ok(()),
        };
        // The format of the queries if the file name does not imply a format.
        let format = if description.points == "strings" { Format::Words } else { Format::Csv };
        let queries = self.queries.read(verbosity, Some(format))?;
        match (description.points.as_str(), queries) {
            ("strings", Data::Words(queries)) => {
                let metric = parse_word_metric(metric)?;
                let index: AnyIndex<Strings, Edit> = open_index(&self.index, metric)?;
                let text = |point: &str| Some(point.to_owned());
                self.answer(index, &queries, question, text, Streams { out, verbosity })
            }
            ("vectors of F32", Data::Vectors(queries)) => {
                let metric = parse_vector_metric(metric)?;
                check_metric(Metric::<[f32]>::name(&metric))?;
                let dimension = description.dimension.unwrap_or(0);
                let given = queries.dimension();
                if given as u64 != dimension {
                    let path = self.queries.path().display();
                    return Err(Failure::input(format!(
                        "{path}: the queries have {given} dimensions, but the index has {dimension}"
                    )));
                }
                let no_text = |_: &[f32]| None;
                let index: AnyIndex<Vectors<f32>, _> = open_index(&self.index, metric)?;
                self.answer(index, &queries, question, no_text, Streams { out, verbosity })
            }
            (points, _) => {
                let path = self.queries.path().display();
                Err(Failure::input(format!(
                    "{path}: the queries do not match an index of {points}; \
                     set the format of the queries with --format"
                )))
            }
        }
    }

    fn answer<I: Index + Send>(
        &self,
        index: I,
        queries: &I::Points,
        question: Question,
        text: impl Fn(&<I::Points as Points>::Point) -> Option<String>,
        streams: Streams,
    ) -> Outcome
    where
        <I::Points as Points>::Point: GpuPoint,
    {
        let Streams { mut out, verbosity } = streams;
        let threads = self.threads.unwrap_or_else(all_cores);
        let index = Arc::new(index);
        let devices = self.device.open(verbosity)?;
        let (answers, measures) = if !devices.is_empty() {
            if self.measures || self.strategy.is_some() {
                let text = "--measures and --strategy need a search on the CPU; omit --device";
                return Err(Failure::usage(text.to_owned()));
            }
            let run = GpuRun { question, threads, verbosity };
            (device::answers(&devices, &index, queries, run)?, None)
        } else if self.measures || self.strategy.is_some() {
            let strategy = self.strategy.unwrap_or(StrategyName::Local).into();
            let ask = |_| match question {
                Question::Within(radius) => AnyCollector::Within(Within::new(radius)),
                Question::Nearest(k) => AnyCollector::Nearest(Nearest::new(k)),
            };
            let run = answer(&*index, queries, ask, &Options::new(strategy, threads));
            let Run { answers, measures } = run?;
            (answers, self.measures.then_some(measures))
        } else {
            let answers = match question {
                Question::Within(radius) => index.within_many(queries, radius, threads),
                Question::Nearest(k) => index.nearest_many(queries, k, threads),
            };
            (answers, None)
        };
        for (query, answer) in (0u32..).zip(&answers) {
            let answer = answer.map_err(|error| {
                let path = self.queries.path().display();
                Failure::input(format!("{path}: query {query}: {error}"))
            })?;
            match self.to {
                AnswerFormat::Jsonl => {
                    let neighbor = |&Neighbor { point, distance }: &Neighbor| {
                        // The text of an `f32` has the fewest digits that identify the value.
                        let distance: f64 = distance.to_string().parse().unwrap_or(f64::NAN);
                        let mut object = serde_json::json!({"point": point, "distance": distance});
                        if let Some(text) = text(index.points().point(point)) {
                            object["text"] = text.into();
                        }
                        object
                    };
                    let mut line = serde_json::json!({"query": query});
                    if let Some(text) = text(queries.point(query)) {
                        line["text"] = text.into();
                    }
                    line["neighbors"] = answer.iter().map(neighbor).collect();
                    writeln!(out, "{line}")?;
                }
                AnswerFormat::Tsv => {
                    for (rank, &Neighbor { point, distance }) in (1..).zip(answer) {
                        write!(out, "{query}\t{rank}\t{point}\t{distance}")?;
                        if let Some(text) = text(index.points().point(point)) {
                            write!(out, "\t{text}")?;
                        }
                        writeln!(out)?;
                    }
                }
            }
        }
        out.commit()?;
        if let Some(measures) = measures {
            let text = format!(
                "{} queries, {:.3} s, {:.0} per second, {:.1} distances and {:.1} nodes per query, \
                 {} threads, idle {:.0} %, balance {:.2}, {} supersteps, {} messages",
                queries.len(),
                measures.elapsed.as_secs_f64(),
                measures.throughput(),
                measures.evaluations() as f64 / queries.len().max(1) as f64,
                measures.nodes() as f64 / queries.len().max(1) as f64,
                measures.workers.len(),
                100.0 * measures.idle(),
                measures.balance(),
                measures.supersteps(),
                measures.messages(),
            );
            // The user requested the measurements, so --quiet does not suppress them.
            let _ = writeln!(io::stderr(), "{text}");
        }
        Ok(())
    }
}

fn open_index<I: StoredIndex<Points: StoredPoints>>(
    path: &Path,
    metric: I::Metric,
) -> Result<I, Failure>
where
    I::Metric: Metric<<I::Points as Points>::Point>,
{
    open(path, metric).map_err(|error| {
        let is_metric =
            matches!(error.problem, StoreProblem::Metric { .. } | StoreProblem::MetricName { .. });
        let failure = Failure::stored(error);
        let hint = "use the --metric with which the index was built";
        if is_metric {
            return Failure { error: anyhow::anyhow!("{}; {hint}", failure.error), ..failure };
        }
        failure
    })
}
