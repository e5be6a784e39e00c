//! `metric-index bench thesis`: the experiments of Barrientos 2011, chapter 3, on this machine.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use array_file::output::{Output, OutputError, Outputs};
use clap::Args;
use metric_index::collector::{AnyCollector, Nearest, Within};
use metric_index::estimate::radius_of_share;
use metric_index::generate::{clustered, held_out};
use metric_index::index::{AnyIndex, ClusterSize, EgnatOptions, Kind, Pivots, search};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::points::{Points, Subset};
use metric_papers::strategy::{Arrivals, Measures, Options, Strategy, run, run_distributed};
use serde::Serialize;

use crate::device::DeviceFlag;
use crate::failure::{Failure, Outcome, refused};
use crate::talk::Talk;
use crate::threads::{all_cores, start_threads};

mod gpu;
mod report;

#[derive(Debug, Args)]
pub(crate) struct Thesis {
    /// Repeat the experiments of chapter 4 on a GPU instead (cuda or cuda:N): range queries and
    /// nearest neighbors by the thesis's kernels and by this program's, cluster sizes, numbers of
    /// pivots, and throughput by batch size
    #[arg(long, value_name = "WHERE", default_value = "cpu")]
    device: DeviceFlag,
    /// A file with one word per line; some are held out as queries, half of them with one letter
    /// changed [default: vectors only]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// Compute edit distances by the table of Wagner and Fischer, as expensive as those of the
    /// thesis and at least ten times as slow: the results of strategies depend on the cost of a
    /// distance
    #[arg(long)]
    table: bool,
    /// Number of vectors with 20 dimensions to generate; 0 for none
    #[arg(long, value_name = "N", default_value_t = 120_000)]
    vectors: usize,
    /// Number of queries per space
    #[arg(long, value_name = "N", default_value_t = 200)]
    queries: usize,
    /// Number of threads, P in the thesis [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Number of distances per thread and superstep, R in the thesis
    #[arg(long, value_name = "N", default_value = "512")]
    evaluations: NonZero<u64>,
    /// Number of waiting queries per thread above which `hybrid` is local, `C_max` in the thesis
    #[arg(long, value_name = "N", default_value_t = 2)]
    waiting: u32,
    /// Spread α of the pivots of the SSS-Index; the thesis uses 0.4, which results in several times
    /// as many pivots on these data
    #[arg(long, value_name = "A", default_value_t = 0.6)]
    alpha: f32,
    /// Runs of each measurement; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write all measurements as JSON (schema metric-index.bench-thesis/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figures into a folder
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// The arrivals of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Traffic {
    /// All queries at once.
    High,
    /// Two, one and one queries per unit of time, spaced so that half of the threads' time
    /// suffices.
    Low,
    /// As `Low`, but the first thread gets the hardest queries.
    LowUneven,
    /// Eight queries per thread at once, and the next burst when half of the threads' time suffices
    /// for these.
    Bursts,
}

/// The measurements of a run.
#[derive(Debug, Clone, Serialize)]
struct Measurement {
    space: &'static str,
    index: String,
    query: String,
    strategy: String,
    traffic: Traffic,
    threads: usize,
    seconds: f64,
    evaluations_a_query: f64,
    throughput: f64,
    latency_median_ms: f64,
    idle: f64,
    efficiency: f64,
    supersteps: u64,
    messages: u64,
}

/// A description of a space for the report.
#[derive(Debug, Clone)]
struct SpaceSummary {
    name: &'static str,
    /// The file, or the generator of the points.
    data: String,
    metric: String,
    points: usize,
    queries: usize,
    radii: [f32; 3],
    indexes: Vec<NamedKind>,
}

/// A kind of index, and its name in the figures.
#[derive(Debug, Clone, Copy)]
struct NamedKind {
    name: &'static str,
    kind: Kind,
}

/// A figure to draw.
struct FigureFile {
    /// The file name: the figure and the space.
    name: String,
    out: Output,
}

/// How queries are answered.
#[derive(Debug, Clone, Copy)]
struct Setting {
    strategy: Strategy,
    threads: NonZero<usize>,
    traffic: Traffic,
}

/// What a run measures.
#[derive(Clone, Copy)]
struct Subject<'a> {
    space: &'static str,
    index: &'a str,
    ask: Ask,
}

/// A space: points, queries and a metric.
struct Space<'a, S: Points> {
    name: &'static str,
    data: String,
    points: &'a S,
    queries: &'a S,
    metric: &'a dyn Metric<S::Point>,
    radii: [f32; 3],
    kinds: Vec<NamedKind>,
}

/// An index over some of the points, of any kind and metric.
type Built<'a, S> = AnyIndex<Subset<&'a S>, &'a dyn Metric<<S as Points>::Point>>;

/// A kind of query.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Within(f32),
    Nearest(usize),
}

impl Ask {
    fn name(self) -> String {
        match self {
            Self::Within(radius) => format!("r = {radius:.3}"),
            Self::Nearest(k) => format!("k = {k}"),
        }
    }

    fn collector(self) -> AnyCollector {
        match self {
            Self::Within(radius) => AnyCollector::Within(Within::new(radius)),
            Self::Nearest(k) => AnyCollector::Nearest(Nearest::new(k)),
        }
    }
}

/// The five indexes of the thesis, and the VP-tree.
fn kinds(bucket: u32, alpha: f32) -> Vec<NamedKind> {
    [
        ("LC", Kind::ListOfClusters(ClusterSize::Points(bucket))),
        ("SSS-Index", Kind::SssIndex(Pivots::Spread(alpha))),
        ("SSS-Tree", Kind::SssTree(0.4)),
        ("EGNAT", Kind::Egnat(EgnatOptions::default())),
        ("M-tree", Kind::MTree(32)),
        ("VP-tree", Kind::VpTree),
    ]
    .map(|(name, kind)| NamedKind { name, kind })
    .to_vec()
}

/// The outputs of a bench, which are written at its end.
struct Files {
    json: Option<Output>,
    figures: Vec<FigureFile>,
    printed: Option<Output>,
}

impl Thesis {
    /// Opens the outputs before anything is measured.
    fn outputs(&self) -> Result<Files, Failure> {
        let mut files = Outputs::default();
        self.words.iter().for_each(|words| files.reads(words));
        let json = self.json.as_ref().map(|path| files.open(path)).transpose()?;
        let mut figures = Vec::new();
        if let Some(folder) = &self.svg {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| OutputError::write(folder, error))?;
            let words = self.words.as_ref().map(|_| "words");
            let vectors = (self.vectors > 0).then_some("vectors");
            for space in words.into_iter().chain(vectors) {
                let drawn: Vec<&str> = if self.device == DeviceFlag::Cpu {
                    report::figures().collect()
                } else {
                    gpu::FIGURES.to_vec()
                };
                for figure in drawn {
                    let name = format!("{figure}-{space}.svg");
                    let output = files.open(&folder.join(&name))?;
                    figures.push(FigureFile { name, out: output });
                }
            }
        }
        let printed = if files.take_standard_output() { None } else { Some(Output::standard()?) };
        Ok(Files { json, figures, printed })
    }

    pub(crate) fn run(self, talk: Talk) -> Outcome {
        if self.queries == 0 || (self.words.is_none() && self.vectors == 0) {
            let text = "nothing to measure: use --words or --vectors, and at least one query";
            return Err(Failure::usage(text.to_owned()));
        }
        if self.device != DeviceFlag::Cpu {
            let devices = self.device.open(talk)?;
            let [device] = &*devices else {
                let text = "bench thesis measures one GPU; use --device cuda or cuda:N";
                return Err(Failure::usage(text.to_owned()));
            };
            let outputs = self.outputs()?;
            return gpu::run(&self, device, talk, outputs);
        }
        let outputs = self.outputs()?;
        let threads = self.threads.unwrap_or_else(all_cores);
        start_threads(None)?;
        let mut bench =
            Bench { flags: &self, talk, threads, spaces: Vec::new(), measured: Vec::new() };
        if let Some(path) = &self.words {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
            let (points, queries) = held_out(
                text.trim_start_matches('\u{feff}').lines().map(str::trim),
                self.queries,
                self.seed,
            );
            bench.space(&Space {
                name: "words",
                data: format!("{}, seed {}", path.display(), self.seed),
                points: &points,
                queries: &queries,
                metric: if self.table { &WagnerFischer } else { &Edit },
                radii: [1.0, 2.0, 3.0],
                kinds: kinds(32, self.alpha),
            })?;
        }
        if self.vectors > 0 {
            let (points, queries) = clustered(self.vectors, self.queries, self.seed);
            let radius = |share| radius_of_share(&points, &Euclidean, share, 50, self.seed);
            let radius = |share| radius(share).map_err(refused);
            let radii = [radius(0.0001)?, radius(0.001)?, radius(0.01)?];
            let seed = self.seed;
            bench.space(&Space {
                name: "vectors",
                data: format!("generated: 20 dimensions around 200 centers, seed {seed}"),
                points: &points,
                queries: &queries,
                metric: &Euclidean,
                radii,
                kinds: kinds(64, self.alpha),
            })?;
        }
        bench.write(outputs)
    }
}

/// Edit distance by the table of Wagner and Fischer, without bit parallelism or early termination.
#[derive(Debug, Clone, Copy)]
struct WagnerFischer;

impl Metric<str> for WagnerFischer {
    fn distance(&self, a: &str, b: &str) -> f32 {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for a in a.chars() {
            let mut diagonal = row[0];
            row[0] += 1;
            for (i, &b) in b.iter().enumerate() {
                let substituted = diagonal + usize::from(a != b);
                diagonal = row[i + 1];
                row[i + 1] = substituted.min(row[i] + 1).min(diagonal + 1);
            }
        }
        row[b.len()] as f32
    }

    // Distances above 2^24 are rounded.
    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }
}

/// A run of the bench.
struct Bench<'a> {
    flags: &'a Thesis,
    talk: Talk,
    threads: NonZero<usize>,
    spaces: Vec<SpaceSummary>,
    measured: Vec<Measurement>,
}

impl Bench<'_> {
    fn space<S: Points>(&mut self, space: &Space<'_, S>) -> Outcome {
        let points = space.points.len();
        let queries = space.queries.len();
        self.talk.say(&format!("{}: {points} points, {queries} queries", space.name));
        self.spaces.push(SpaceSummary {
            name: space.name,
            data: space.data.clone(),
            metric: space.metric.name().unwrap_or_else(|| "edit, by the table".to_owned()),
            points,
            queries,
            radii: space.radii,
            indexes: space.kinds.clone(),
        });
        let one = NonZero::<usize>::MIN;
        let asks = space.radii.map(Ask::Within).into_iter().chain([8, 16, 32].map(Ask::Nearest));
        let asks: Vec<Ask> = asks.collect();
        let all = Kind::BruteForce.build(Subset::every(space.points, 0, 1), space.metric);
        let all = all.map_err(refused)?;
        let alone = Setting { strategy: Strategy::Local, threads: one, traffic: Traffic::High };
        let together = Setting { threads: self.threads, ..alone };
        for &ask in &asks {
            self.measure(space, "brute force", &all, ask, alone)?;
        }
        for &NamedKind { name, kind } in &space.kinds {
            self.talk.say(&format!("{}: {name}", space.name));
            let built =
                |first, step| kind.build(Subset::every(space.points, first, step), space.metric);
            let index = built(0, 1).map_err(refused)?;
            let shares = (0..self.threads.get()).map(|thread| built(thread, self.threads.get()));
            let shares: Vec<Built<'_, S>> = shares.collect::<Result<_, _>>().map_err(refused)?;
            for &ask in &asks {
                self.measure(space, name, &index, ask, alone)?;
                self.measure(space, name, &index, ask, together)?;
                if let Ask::Nearest(_) = ask {
                    continue;
                }
                self.distributed(space, name, &shares, ask)?;
                for strategy in [
                    Strategy::BulkCircular,
                    Strategy::BulkLocal,
                    Strategy::Hybrid,
                    Strategy::BulkCritical,
                ] {
                    let setting = Setting { strategy, ..together };
                    self.measure(space, name, &index, ask, setting)?;
                }
                for traffic in [Traffic::Low, Traffic::LowUneven, Traffic::Bursts] {
                    for strategy in [
                        Strategy::Local,
                        Strategy::BulkCircular,
                        Strategy::BulkLocal,
                        Strategy::Hybrid,
                    ] {
                        let setting = Setting { strategy, traffic, ..together };
                        self.measure(space, name, &index, ask, setting)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures one setting: the run of median time.
    fn measure<S: Points>(
        &mut self,
        space: &Space<'_, S>,
        name: &str,
        index: &Built<'_, S>,
        ask: Ask,
        setting: Setting,
    ) -> Outcome {
        let Setting { strategy, threads, traffic } = setting;
        let subject = Subject { space: space.name, index: name, ask };
        let mut queries = Subset::every(space.queries, 0, 1);
        if traffic == Traffic::LowUneven {
            queries = Subset::new(
                space.queries,
                hardest_for_first_thread(index, space.queries, ask, threads)?,
            );
        }
        let arrivals = self.arrivals(subject, queries.len(), setting);
        let options = self.options(strategy, threads, arrivals);
        let one = |_| -> Result<Measures, Failure> {
            let done = run(index, &queries, |_| ask.collector(), &options);
            Ok(done?.measures)
        };
        let runs = (0..self.flags.runs.max(1)).map(one);
        let runs: Vec<Measures> = runs.collect::<Result<_, Failure>>()?;
        self.keep(subject, &format!("{strategy:?}"), traffic, runs);
        Ok(())
    }

    /// Measures the strategy of distributed data.
    fn distributed<S: Points>(
        &mut self,
        space: &Space<'_, S>,
        name: &str,
        shares: &[Built<'_, S>],
        ask: Ask,
    ) -> Outcome {
        let options = self.options(Strategy::Local, self.threads, Arrivals::AllAtOnce);
        let one = |_| -> Result<Measures, Failure> {
            let done = run_distributed(shares, space.queries, |_| ask.collector(), &options);
            Ok(done?.measures)
        };
        let runs = (0..self.flags.runs.max(1)).map(one).collect::<Result<Vec<_>, Failure>>()?;
        let subject = Subject { space: space.name, index: name, ask };
        self.keep(subject, "Distributed", Traffic::High, runs);
        Ok(())
    }

    fn options(&self, strategy: Strategy, threads: NonZero<usize>, arrivals: Arrivals) -> Options {
        let Thesis { evaluations, waiting, .. } = *self.flags;
        let window = Duration::from_millis(2);
        Options { strategy, threads, evaluations, waiting, arrivals, window }
    }

    /// The arrivals of queries, based on the time of a query on one thread, which was measured
    /// before.
    fn arrivals(&self, subject: Subject<'_>, count: usize, setting: Setting) -> Arrivals {
        let Setting { threads, traffic, .. } = setting;
        if traffic == Traffic::High {
            return Arrivals::AllAtOnce;
        }
        let query = subject.ask.name();
        let alone = self.measured.iter().find(|m| {
            m.threads == 1
                && m.space == subject.space
                && m.index == subject.index
                && m.query == query
        });
        let one = alone.map_or(0.001, |alone| alone.seconds / count as f64);
        let threads = threads.get() as f64;
        let time = |query: usize| match traffic {
            Traffic::High => 0.0,
            // Four queries in three units, for which half of the threads' time is enough.
            Traffic::Low | Traffic::LowUneven => {
                let unit = 4.0 / 3.0 * one / (threads * 0.5);
                unit * (query / 4 * 3 + [0, 0, 1, 2][query % 4]) as f64
            }
            Traffic::Bursts => {
                let burst = 8.0 * threads;
                (query as f64 / burst).floor() * burst * one / (threads * 0.5)
            }
        };
        Arrivals::Trace((0..count).map(|query| Duration::from_secs_f64(time(query))).collect())
    }

    /// Records the run of median time.
    fn keep(
        &mut self,
        subject: Subject<'_>,
        strategy: &str,
        traffic: Traffic,
        mut runs: Vec<Measures>,
    ) {
        runs.sort_by_key(|run| run.elapsed);
        let run = &runs[runs.len() / 2];
        self.measured.push(Measurement {
            space: subject.space,
            index: subject.index.to_owned(),
            query: subject.ask.name(),
            strategy: strategy.to_owned(),
            traffic,
            threads: run.workers.len(),
            seconds: run.elapsed.as_secs_f64(),
            evaluations_a_query: run.evaluations() as f64 / run.latencies.len() as f64,
            throughput: run.throughput(),
            latency_median_ms: run.latency(0.5).as_secs_f64() * 1e3,
            idle: run.idle(),
            efficiency: run.efficiency(),
            supersteps: run.supersteps(),
            messages: run.messages(),
        });
    }
}

/// Orders the queries so that those with most distances are dealt to the first thread.
fn hardest_for_first_thread<S: Points>(
    index: &Built<'_, S>,
    queries: &S,
    ask: Ask,
    threads: NonZero<usize>,
) -> Result<Vec<u32>, Failure> {
    let mut cost = Vec::new();
    for query in 0..u32::try_from(queries.len()).unwrap_or(u32::MAX) {
        let point = queries.point(query);
        let found = search(index, point, ask.collector()).map(|(_, cost)| cost);
        cost.push((found.map_err(refused)?.evaluations, query));
    }
    cost.sort_unstable_by(|a, b| b.cmp(a));
    let mut order = vec![0; cost.len()];
    let threads = threads.get();
    let positions = (0..threads).flat_map(|thread| (thread..cost.len()).step_by(threads));
    for (position, &(_, query)) in positions.zip(&cost) {
        order[position] = query;
    }
    Ok(order)
}
