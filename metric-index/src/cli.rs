//! The flags as they are typed, and what each command does.

use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Parser, ValueEnum};
use metric_index::collector::{Answer, Nearest, Within};
use metric_index::index::{AnyIndex, Index, KdTree, Kind, Progress};
use metric_index::metric::{Edit, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Strings, Vectors};
use metric_index::stored::{StoreProblem, Stored, StoredPoints, describe, open, save};
use metric_index::strategy::{Options, Run, Strategy, run as answer};

use bar::Bar;
use input::{Data, Input};
use metric::VectorMetric;

mod bar;
mod input;
mod metric;
mod stats;
mod thesis;

/// Exact similarity search in metric spaces
#[derive(Debug, Parser)]
#[command(name = "metric-index", version)]
pub(crate) enum Command {
    /// Build an index of words or vectors
    Build(Build),
    /// Find all points within a radius of each query
    Range(Range),
    /// Find the nearest points of each query
    Knn(Knn),
    /// Tell what an index holds, or what a space is like and which index fits
    Stats(stats::Stats),
    /// Measure
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// The experiments of Barrientos 2011, chapter 3: strategies of several threads, and indexes
    Thesis(thesis::Thesis),
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    points: Input,
    /// Where the index is written
    #[arg(short, long, value_name = "INDEX")]
    output: PathBuf,
    /// The kind of index: brute-force, lc:POINTS, lc:rRADIUS, sss-index:SHARE, sss-index:PIVOTSp, sss-tree:SHARE,
    /// egnat:ARITYxBUCKET, m-tree:PAGE, vp-tree or (vectors) kd-tree
    #[arg(long, default_value = "vp-tree", value_name = "KIND")]
    index: String,
    #[command(flatten)]
    metric: MetricFlag,
}

#[derive(Debug, Args)]
pub(crate) struct MetricFlag {
    /// The distance: edit (words), or euclidean, manhattan, chebyshev, minkowski:P, angular, hamming (vectors)
    /// [default: edit, euclidean]
    #[arg(long)]
    metric: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// The index
    index: PathBuf,
    #[command(flatten)]
    queries: Input,
    #[command(flatten)]
    metric: MetricFlag,
    /// Threads to use; answers never depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Which thread works on what
    #[arg(long, value_enum, default_value_t = StrategyName::Local)]
    strategy: StrategyName,
    /// The form of the answers
    #[arg(long, value_enum, default_value_t = To::Jsonl)]
    to: To,
    /// Tell on standard error what the search took
    #[arg(long)]
    measures: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Range {
    #[command(flatten)]
    search: Search,
    /// The greatest distance; points at it belong to the answer
    #[arg(short, long)]
    radius: f32,
}

#[derive(Debug, Args)]
pub(crate) struct Knn {
    #[command(flatten)]
    search: Search,
    /// How many points
    #[arg(short)]
    k: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StrategyName {
    /// A thread answers a query alone
    Local,
    /// Supersteps, tasks dealt to all threads
    BulkCircular,
    /// The same with a critical section
    BulkCritical,
    /// Supersteps without messages
    BulkLocal,
    /// Local or bulk-circular, by how many queries wait
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
enum To {
    /// A JSON object a query: {"query": 0, "neighbors": [{"point": 7, "distance": 1.0}]}
    Jsonl,
    /// A line a neighbor: query, rank, point, distance, separated by tabs
    Tsv,
}

/// Why a command has failed, and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    pub(crate) fn report(&self) -> ExitCode {
        // A reader that has gone is no failure.
        let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        if self.error.chain().any(|error| error.downcast_ref().is_some_and(broken)) {
            return ExitCode::SUCCESS;
        }
        let _ = writeln!(io::stderr(), "error: {:#}", self.error);
        ExitCode::from(self.code)
    }

    fn of<E: Into<anyhow::Error>>(code: u8) -> impl Fn(E) -> Self {
        move |error| Self { code, error: error.into() }
    }

    fn usage(text: String) -> Self {
        Self { code: 2, error: anyhow::Error::msg(text) }
    }

    fn input(text: String) -> Self {
        Self { code: 3, error: anyhow::Error::msg(text) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { code: 1, error: error.into() }
    }
}

type Outcome = Result<(), Failure>;

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Build(build) => build.run(),
        Command::Range(Range { search, radius }) if radius >= 0.0 => {
            search.run(|_| Within::new(radius))
        }
        Command::Range(Range { radius, .. }) => {
            Err(Failure::usage(format!("radius {radius}, expected a number from 0")))
        }
        Command::Knn(Knn { search, k }) => search.run(|_| Nearest::new(k)),
        Command::Stats(stats) => stats.run(),
        Command::Bench(Bench::Thesis(thesis)) => thesis.run(),
    }
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// No metric for words but edit distance.
fn of_words(metric: &MetricFlag) -> Result<Edit, Failure> {
    match metric.metric.as_deref() {
        None | Some("edit") => Ok(Edit),
        Some(other) => Err(Failure::usage(format!("metric {other} of words, expected edit"))),
    }
}

fn of_vectors(metric: &MetricFlag) -> Result<VectorMetric, Failure> {
    metric.metric.as_deref().unwrap_or("euclidean").parse().map_err(Failure::usage)
}

impl Build {
    fn run(self) -> Outcome {
        let start = Instant::now();
        let bar = Bar::new("building");
        let hear = |done: u64, all: u64| bar.show(done, all);
        let told = Progress::new(&hear);
        let kind = || self.index.parse::<Kind>().map_err(|no| Failure::usage(no.to_string()));
        let (count, what) = match self.points.read()? {
            Data::Words(words) => {
                let (count, kind) = (words.len(), kind()?);
                let index = kind.build_with(words, of_words(&self.metric)?, &told);
                let index = index.map_err(Failure::of(3))?;
                bar.end();
                save(&index, &self.output).map_err(Failure::of(1))?;
                (count, "words".to_owned())
            }
            Data::Vectors(vectors) => {
                let (count, dimension) = (vectors.len(), vectors.dimension());
                let metric = of_vectors(&self.metric)?;
                if self.index == "kd-tree" {
                    let index =
                        KdTree::build_with(vectors, metric, &told).map_err(Failure::of(3))?;
                    bar.end();
                    save(&index, &self.output).map_err(Failure::of(1))?;
                } else {
                    let index =
                        kind()?.build_with(vectors, metric, &told).map_err(Failure::of(3))?;
                    bar.end();
                    save(&index, &self.output).map_err(Failure::of(1))?;
                }
                (count, format!("vectors of {dimension} dimensions"))
            }
        };
        if count == 0 {
            say(&format!("warning: {}: no points in it", self.points.path().display()));
        }
        let (path, seconds) = (self.output.display(), start.elapsed().as_secs_f64());
        say(&format!("{path}: {} of {count} {what}, {seconds:.1} s", self.index));
        Ok(())
    }
}

impl Search {
    fn run<C: Answer>(self, ask: impl Fn(u32) -> C + Sync) -> Outcome {
        let found = describe(&self.index).map_err(Failure::of(4))?;
        let queries = self.queries.read()?;
        match (found.points.as_str(), queries) {
            ("strings", Data::Words(queries)) => {
                let metric = of_words(&self.metric)?;
                let index: AnyIndex<Strings, Edit> = opened(&self.index, metric)?;
                let text = |point: &str| Some(point.to_owned());
                self.answer(&index, &queries, ask, text)
            }
            ("vectors of F32", Data::Vectors(queries)) => {
                let metric = of_vectors(&self.metric)?;
                let (dimension, own) = (found.dimension.unwrap_or(0), queries.dimension());
                if own as u64 != dimension {
                    let path = self.queries.path().display();
                    return Err(Failure::input(format!(
                        "{path}: queries of {own} dimensions, the index has {dimension}"
                    )));
                }
                let none = |_: &[f32]| None;
                if found.index == "kd-tree" {
                    let index: KdTree<Vectors<f32>, _> = opened(&self.index, metric)?;
                    self.answer(&index, &queries, ask, none)
                } else {
                    let index: AnyIndex<Vectors<f32>, _> = opened(&self.index, metric)?;
                    self.answer(&index, &queries, ask, none)
                }
            }
            (points, _) => {
                let path = self.queries.path().display();
                Err(Failure::input(format!("{path}: these are no queries to an index of {points}")))
            }
        }
    }

    fn answer<I: Index, C: Answer>(
        &self,
        index: &I,
        queries: &I::Points,
        ask: impl Fn(u32) -> C + Sync,
        text: impl Fn(&<I::Points as Points>::Point) -> Option<String>,
    ) -> Outcome {
        let all = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let options = Options::new(self.strategy.into(), self.threads.unwrap_or_else(all));
        let Run { answers, measures } =
            answer(index, queries, ask, &options).map_err(Failure::of(3))?;
        let mut out = BufWriter::new(io::stdout().lock());
        for (query, answer) in (0u32..).zip(answers) {
            let answer = answer.map_err(|error| {
                let path = self.queries.path().display();
                Failure::input(format!("{path}: query {query}: {error}"))
            })?;
            match self.to {
                To::Jsonl => {
                    let neighbor = |&Neighbor { point, distance }: &Neighbor| {
                        // The digits that tell an f32, not those of an f64.
                        let distance: f64 = distance.to_string().parse().unwrap_or(f64::NAN);
                        let mut one = serde_json::json!({"point": point, "distance": distance});
                        if let Some(text) = text(index.points().point(point)) {
                            one["text"] = text.into();
                        }
                        one
                    };
                    let mut line = serde_json::json!({"query": query});
                    if let Some(text) = text(queries.point(query)) {
                        line["text"] = text.into();
                    }
                    line["neighbors"] = answer.iter().map(neighbor).collect();
                    writeln!(out, "{line}")?;
                }
                To::Tsv => {
                    for (rank, Neighbor { point, distance }) in (1..).zip(answer) {
                        write!(out, "{query}\t{rank}\t{point}\t{distance}")?;
                        if let Some(text) = text(index.points().point(point)) {
                            write!(out, "\t{text}")?;
                        }
                        writeln!(out)?;
                    }
                }
            }
        }
        out.flush()?;
        if self.measures {
            say(&format!(
                "{} queries, {:.3} s, {:.0} a second, {:.1} distances and {:.1} nodes a query, {} threads, idle {:.0} %, \
                 balance {:.2}, {} supersteps, {} messages",
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
            ));
        }
        Ok(())
    }
}

fn opened<I: Stored<Points: StoredPoints>>(path: &Path, metric: I::Metric) -> Result<I, Failure>
where
    I::Metric: Metric<<I::Points as Points>::Point>,
{
    open(path, metric).map_err(|error| {
        let is_metric = matches!(error.problem, StoreProblem::Metric { .. });
        let error = anyhow::Error::from(error);
        let hint = "give the --metric that it was built with";
        let error = if is_metric { anyhow::anyhow!("{error}; {hint}") } else { error };
        Failure { code: 4, error }
    })
}
