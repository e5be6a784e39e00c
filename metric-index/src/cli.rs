//! The flags as they are typed, and what each command does.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use array_file::FileProblem;
use array_file::output::{Output, OutputError, OutputProblem, Outputs};
use clap::{Args, Parser, ValueEnum};
use metric_index::Question;
use metric_index::collector::{AnyCollector, Nearest, Within};
use metric_index::error::Error;
use metric_index::gpu::{GpuError, OnGpu};
use metric_index::index::{AnyIndex, Index, Kind, Progress};
use metric_index::metric::{Edit, Metric, VectorMetric, check};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Strings, Vectors};
use metric_index::stored::{
    StoreError, StoreProblem, Stored, StoredPoints, describe, open, save_to,
};
use metric_index::strategy::{Options, Run, Strategy, run as answer};

use device::DeviceFlag;
use input::{Data, Format, Input};

mod cordeiro;
mod device;
mod input;
mod karelis;
mod multi_gpu;
mod online;
mod stats;
mod thesis;

/// Exact similarity search in metric spaces
#[derive(Debug, Parser)]
#[command(name = "metric-index", version)]
pub(crate) struct Program {
    /// Print only errors on standard error
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build an index of words or vectors
    Build(Build),
    /// Find all points within a radius of each query
    Range(Range),
    /// Find the nearest points of each query
    Knn(Knn),
    /// Describe an index, or analyze a set of points and recommend an index
    Stats(stats::Stats),
    /// Run benchmarks
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// The experiments of Barrientos 2011: chapter 3, strategies of several threads and indexes; with --device cuda,
    /// chapter 4, searches on a GPU
    Thesis(thesis::Thesis),
    /// Queries that arrive one at a time: throughput and latency against the size of batches
    Online(online::Online),
    /// The tables of Cordeiro 2023: exact nearest neighbors of vectors on a GPU
    Cordeiro(cordeiro::Cordeiro),
    /// The figures of Karelis 2020: trees built and searched on a GPU
    Karelis(karelis::Karelis),
    /// One GPU and several: throughput with all points on each, and with the points dealt
    MultiGpu(multi_gpu::MultiGpu),
}

#[derive(Debug, Args)]
struct Build {
    #[command(flatten)]
    points: Input,
    /// Where the index is written
    #[arg(short, long, value_name = "INDEX")]
    output: PathBuf,
    /// The kind of index: brute-force, lc:POINTS, lc:rRADIUS, sss-index:SHARE (pivots by Sparse Spatial Selection),
    /// sss-index:PIVOTSp (so many pivots, each the farthest from those before; sss-index alone means 32p),
    /// sss-tree:SHARE, egnat:ARITYxBUCKET, m-tree:PAGE, vp-tree or kd-tree (vectors with a Minkowski distance)
    #[arg(long, default_value = "vp-tree", value_name = "KIND")]
    index: Kind,
    #[command(flatten)]
    metric: MetricFlag,
    /// Threads to use; the index never depends on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

#[derive(Debug, Args)]
struct MetricFlag {
    /// The distance: edit (words), or euclidean, manhattan, chebyshev, minkowski:P, angular, hamming (vectors)
    /// [default: that of the index, otherwise edit or euclidean]
    #[arg(long)]
    metric: Option<String>,
}

#[derive(Debug, Args)]
struct Search {
    /// The index
    index: PathBuf,
    #[command(flatten)]
    queries: Input,
    #[command(flatten)]
    metric: MetricFlag,
    /// Threads to use; answers never depend on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// How queries are distributed over the threads [default: each thread takes the next, or many at once if that is
    /// faster]
    #[arg(long, value_enum)]
    strategy: Option<StrategyName>,
    /// Where to search: cpu, by the index; cuda (the GPU with the most free memory), cuda:N or cuda:all, by brute force.
    /// Answers never depend on it
    #[arg(long, value_name = "WHERE", default_value = "cpu")]
    device: DeviceFlag,
    /// The format of the answers
    #[arg(long, value_enum, default_value_t = To::Jsonl)]
    to: To,
    /// Print the measurements of the search on standard error
    #[arg(long)]
    measures: bool,
}

#[derive(Debug, Args)]
struct Range {
    #[command(flatten)]
    search: Search,
    /// The greatest distance, inclusive
    #[arg(short, long)]
    radius: f32,
}

#[derive(Debug, Args)]
struct Knn {
    #[command(flatten)]
    search: Search,
    /// The number of neighbors
    #[arg(short)]
    k: NonZero<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StrategyName {
    /// Each thread answers its own queries
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

    /// An error of a file of an index: of the system, or of the file.
    fn stored(error: StoreError) -> Self {
        let code = match &error.problem {
            StoreProblem::File(problem)
                if problem.io_kind() == Some(io::ErrorKind::OutOfMemory) =>
            {
                5
            }
            StoreProblem::File(problem) if problem.is_write() => 1,
            _ => 4,
        };
        let is_version = matches!(error.problem, StoreProblem::File(FileProblem::Version { .. }));
        let error = anyhow::Error::from(error);
        let hint = "build it again with `metric-index build`";
        Self { code, error: if is_version { anyhow::anyhow!("{error}; {hint}") } else { error } }
    }

    fn usage(text: String) -> Self {
        Self { code: 2, error: anyhow::Error::msg(text) }
    }

    /// A GPU that was asked for and is not there, or fails.
    fn gpu(error: GpuError) -> Self {
        Self { code: 5, error: error.into() }
    }

    fn input(text: String) -> Self {
        Self { code: 3, error: anyhow::Error::msg(text) }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let clash =
            matches!(error.problem, OutputProblem::IsInput { .. } | OutputProblem::IsOutput { .. });
        let hint = error.hint();
        let error = anyhow::Error::from(error);
        let error = match hint {
            Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
            None => error,
        };
        Self { code: if clash { 2 } else { 1 }, error }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { code: 1, error: error.into() }
    }
}

type Outcome = Result<(), Failure>;

/// An index that cannot be built, or a search that cannot be made: the fault of a flag, of the machine or of the points.
fn refused(error: Error) -> Failure {
    let code = match error {
        Error::Threads { .. } => 5,
        Error::Share { .. }
        | Error::Radius { .. }
        | Error::Option { .. }
        | Error::NoCoordinates => 2,
        _ => 3,
    };
    Failure { code, error: error.into() }
}

/// What is said on standard error beside errors.
#[derive(Debug, Clone, Copy)]
struct Talk {
    is_quiet: bool,
}

impl Talk {
    fn say(self, text: &str) {
        if !self.is_quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    fn warn(self, text: &str) {
        self.say(&format!("warning: {text}"));
    }
}

/// Prints help, the version or a usage error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help and the version are data.
        let printed = Output::standard().map_err(Failure::from).and_then(|_| Ok(error.print()?));
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        };
    }
    let _ = error.print();
    ExitCode::from(2)
}

impl Program {
    pub(crate) fn run(self) -> Outcome {
        let talk = Talk { is_quiet: self.quiet };
        match self.command {
            Command::Build(build) => build.run(talk),
            Command::Range(Range { search, radius }) if radius >= 0.0 => {
                search.run(talk, Question::Within(radius))
            }
            Command::Range(Range { radius, .. }) => {
                Err(Failure::usage(format!("radius {radius}, expected a number of at least 0")))
            }
            Command::Knn(Knn { search, k }) => search.run(talk, Question::Nearest(k.get())),
            Command::Stats(stats) => stats.run(talk),
            Command::Bench(Bench::Thesis(thesis)) => thesis.run(talk),
            Command::Bench(Bench::Online(online)) => online.run(talk),
            Command::Bench(Bench::Cordeiro(cordeiro)) => cordeiro.run(talk),
            Command::Bench(Bench::Karelis(karelis)) => karelis.run(talk),
            Command::Bench(Bench::MultiGpu(multi_gpu)) => multi_gpu.run(talk),
        }
    }
}

fn all_cores() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Starts the threads that build indexes.
fn start_threads(threads: Option<NonZero<usize>>) -> Outcome {
    let threads = threads.unwrap_or_else(all_cores);
    let started = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
    started.map_err(|error| Failure {
        code: 5,
        error: anyhow::anyhow!("cannot start {threads} threads: {error}; take fewer with -j"),
    })
}

/// No metric for words but edit distance.
fn of_words(name: Option<&str>) -> Result<Edit, Failure> {
    match name {
        None | Some("edit") => Ok(Edit),
        Some(other) => Err(Failure::usage(format!("metric {other} of words, expected edit"))),
    }
}

fn of_vectors(name: Option<&str>) -> Result<VectorMetric, Failure> {
    name.unwrap_or("euclidean").parse().map_err(Failure::usage)
}

impl MetricFlag {
    fn name(&self) -> Option<&str> {
        self.metric.as_deref()
    }
}

/// Points on which the axioms of the metric are tried before an index is built.
const AXIOMS: usize = 64;

impl Build {
    fn run(self, talk: Talk) -> Outcome {
        let start = Instant::now();
        if self.output.as_os_str() == "-" {
            return Err(Failure::usage("an index is a file: -o takes its name".to_owned()));
        }
        let mut files = Outputs::default();
        files.reads(self.points.path());
        let output = files.open(&self.output)?;
        start_threads(self.threads)?;
        let shown = progress::Progress::new("building", 1, talk.is_quiet);
        let show = |done: u64, all: u64| {
            shown.set_total(all);
            shown.show(done, "");
        };
        let progress = Progress::new(&show);
        let kind = self.index;
        let (count, what) = match self.points.read(talk, None)? {
            Data::Words(words) => {
                let (count, metric) = (words.len(), of_words(self.metric.name())?);
                check(&words, &metric, AXIOMS, 0).map_err(refused)?;
                let index = kind.build_with(words, metric, &progress).map_err(refused)?;
                shown.finish();
                save_to(&index, output).map_err(Failure::stored)?;
                (count, "words".to_owned())
            }
            Data::Vectors(vectors) => {
                let (count, dimension) = (vectors.len(), vectors.dimension());
                let metric = of_vectors(self.metric.name())?;
                check(&vectors, &metric, AXIOMS, 0).map_err(refused)?;
                let index = kind.build_with(vectors, metric, &progress).map_err(refused)?;
                shown.finish();
                save_to(&index, output).map_err(Failure::stored)?;
                (count, format!("vectors of {dimension} dimensions"))
            }
        };
        if count == 0 {
            talk.warn(&format!("{}: no points in it", self.points.path().display()));
        }
        let (path, seconds) = (self.output.display(), start.elapsed().as_secs_f64());
        talk.say(&format!("{path}: {kind} of {count} {what}, {seconds:.1} s"));
        Ok(())
    }
}

impl Search {
    fn run(self, talk: Talk, question: Question) -> Outcome {
        let out = Output::standard()?;
        let found = describe(&self.index).map_err(Failure::stored)?;
        let metric = self.metric.name().or(found.metric.as_deref());
        let same_metric = |metric: Option<String>| match (&found.metric, metric) {
            (Some(saved), Some(given)) if *saved != given => Err(Failure::usage(format!(
                "--metric {given}, but {} was built with {saved}: leave --metric out",
                self.index.display()
            ))),
            _ => Ok(()),
        };
        // What the file of the queries holds, if its name does not tell.
        let format = if found.points == "strings" { Format::Words } else { Format::Csv };
        let queries = self.queries.read(talk, Some(format))?;
        match (found.points.as_str(), queries) {
            ("strings", Data::Words(queries)) => {
                let metric = of_words(metric)?;
                let index: AnyIndex<Strings, Edit> = opened(&self.index, metric)?;
                let text = |point: &str| Some(point.to_owned());
                self.answer(index, &queries, question, text, (out, talk))
            }
            ("vectors of F32", Data::Vectors(queries)) => {
                let metric = of_vectors(metric)?;
                same_metric(Metric::<[f32]>::name(&metric))?;
                let (dimension, own) = (found.dimension.unwrap_or(0), queries.dimension());
                if own as u64 != dimension {
                    let path = self.queries.path().display();
                    return Err(Failure::input(format!(
                        "{path}: queries of {own} dimensions, the index has {dimension}"
                    )));
                }
                let none = |_: &[f32]| None;
                let index: AnyIndex<Vectors<f32>, _> = opened(&self.index, metric)?;
                self.answer(index, &queries, question, none, (out, talk))
            }
            (points, _) => {
                let path = self.queries.path().display();
                Err(Failure::input(format!(
                    "{path}: these are no queries to an index of {points}; --format says what a file holds"
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
        (mut out, talk): (Output, Talk),
    ) -> Outcome
    where
        <I::Points as Points>::Point: OnGpu,
    {
        let threads = self.threads.unwrap_or_else(all_cores);
        let index = Arc::new(index);
        let devices = self.device.open(talk)?;
        let (answers, measures) = if !devices.is_empty() {
            if self.measures || self.strategy.is_some() {
                let text =
                    "--measures and --strategy are of searches on the CPU, not with --device cuda";
                return Err(Failure::usage(text.to_owned()));
            }
            (device::answers(&devices, &index, queries, question, threads, talk)?, None)
        } else if self.measures || self.strategy.is_some() {
            let strategy = self.strategy.unwrap_or(StrategyName::Local).into();
            let ask = |_| match question {
                Question::Within(radius) => AnyCollector::Within(Within::new(radius)),
                Question::Nearest(k) => AnyCollector::Nearest(Nearest::new(k)),
            };
            let run = answer(&*index, queries, ask, &Options::new(strategy, threads));
            let Run { answers, measures } = run.map_err(refused)?;
            (answers, self.measures.then_some(measures))
        } else {
            let answers = match question {
                Question::Within(radius) => index.within_many(queries, radius, threads),
                Question::Nearest(k) => index.nearest_many(queries, k, threads),
            };
            (answers, None)
        };
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
        out.commit()?;
        if let Some(measures) = measures {
            let text = format!(
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
            );
            // Asked for, so said with --quiet, too.
            let _ = writeln!(io::stderr(), "{text}");
        }
        Ok(())
    }
}

fn opened<I: Stored<Points: StoredPoints>>(path: &Path, metric: I::Metric) -> Result<I, Failure>
where
    I::Metric: Metric<<I::Points as Points>::Point>,
{
    open(path, metric).map_err(|error| {
        let is_metric =
            matches!(error.problem, StoreProblem::Metric { .. } | StoreProblem::MetricName { .. });
        let failure = Failure::stored(error);
        let hint = "give the --metric that it was built with";
        if is_metric {
            return Failure { error: anyhow::anyhow!("{}; {hint}", failure.error), ..failure };
        }
        failure
    })
}
