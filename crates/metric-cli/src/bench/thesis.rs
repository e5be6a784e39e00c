//! `metric-index bench thesis`: what chapter 3 of Barrientos 2011 measures, on this machine.

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
    /// The experiments of chapter 4 on a GPU instead, cuda or cuda:N: range queries and nearest neighbors by the thesis's kernels and by
    /// this program's own, sizes of clusters, numbers of pivots, and throughput against the size of batches
    #[arg(long, value_name = "WHERE", default_value = "cpu")]
    device: DeviceFlag,
    /// A file of words, one a line; some are held out and half of those changed by a letter, as queries [default:
    /// vectors only]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// Edit distance by the table of Wagner and Fischer, which takes ten times as long or more: strategies are judged
    /// by what a distance costs, and the thesis's cost as much
    #[arg(long)]
    table: bool,
    /// Vectors of 20 dimensions to make; 0 for none
    #[arg(long, value_name = "N", default_value_t = 120_000)]
    vectors: usize,
    /// Queries of each space
    #[arg(long, value_name = "N", default_value_t = 200)]
    queries: usize,
    /// Threads, P in the thesis [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Distances of a thread in a superstep, R in the thesis
    #[arg(long, value_name = "N", default_value = "512")]
    evaluations: NonZero<u64>,
    /// Waiting queries a thread from which `hybrid` is local, `C_max` in the thesis
    #[arg(long, value_name = "N", default_value_t = 2)]
    waiting: u32,
    /// Spread of the pivots of the SSS-Index, α: the thesis has 0.4, which takes several times as many pivots on these
    /// data
    #[arg(long, value_name = "A", default_value_t = 0.6)]
    alpha: f32,
    /// Runs of each measurement; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write all measurements as JSON (schema metric-index.bench-thesis/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figures into a folder
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// How queries come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Traffic {
    /// All at once.
    High,
    /// In units of time two, one and one, so far apart that half of the threads' time is enough for all.
    Low,
    /// The same, but the queries of the first thread are the hardest.
    LowUneven,
    /// Eight queries a thread at once, and the next when half of the threads' time is enough for these.
    Bursts,
}

#[derive(Debug, Clone, Serialize)]
struct Measured {
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

/// A space as the report names it.
#[derive(Debug, Clone)]
struct About {
    name: &'static str,
    /// The file, or how the points were made.
    data: String,
    metric: String,
    points: usize,
    queries: usize,
    radii: [f32; 3],
    /// The names of the figures, and what they stand for: `lc:64`.
    indexes: Vec<(&'static str, String)>,
}

struct Space<'a, S: Points> {
    name: &'static str,
    data: String,
    points: &'a S,
    queries: &'a S,
    metric: &'a dyn Metric<S::Point>,
    radii: [f32; 3],
    kinds: Vec<(&'static str, Kind)>,
}

/// An index of some of the points, of any kind and metric.
type Built<'a, S> = AnyIndex<Subset<&'a S>, &'a dyn Metric<<S as Points>::Point>>;

/// Range or nearest neighbors.
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

/// The thesis's five, and one more.
fn kinds(bucket: u32, alpha: f32) -> Vec<(&'static str, Kind)> {
    vec![
        ("LC", Kind::ListOfClusters(ClusterSize::Points(bucket))),
        ("SSS-Index", Kind::SssIndex(Pivots::Spread(alpha))),
        ("SSS-Tree", Kind::SssTree(0.4)),
        ("EGNAT", Kind::Egnat(EgnatOptions::default())),
        ("M-tree", Kind::MTree(32)),
        ("VP-tree", Kind::VpTree),
    ]
}

/// What is written at the end.
struct Files {
    json: Option<Output>,
    /// The figures, by name and space.
    figures: Vec<(String, Output)>,
    printed: Option<Output>,
}

impl Thesis {
    /// Opens what is written at the end, before anything is measured.
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
                    figures.push((name, output));
                }
            }
        }
        let printed = if files.take_standard_output() { None } else { Some(Output::standard()?) };
        Ok(Files { json, figures, printed })
    }

    pub(crate) fn run(self, talk: Talk) -> Outcome {
        if self.queries == 0 || (self.words.is_none() && self.vectors == 0) {
            let text = "nothing to measure: give --words or --vectors, and --queries from 1";
            return Err(Failure::usage(text.to_owned()));
        }
        if self.device != DeviceFlag::Cpu {
            let devices = self.device.open(talk)?;
            let [device] = &*devices else {
                let text = "--device cuda or cuda:N: one GPU is measured";
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
            let (points, queries, radii) = (&points, &queries, [1.0, 2.0, 3.0]);
            let (name, kinds) = ("words", kinds(32, self.alpha));
            let data = format!("{}, seed {}", path.display(), self.seed);
            let metric: &dyn Metric<str> = if self.table { &ByTable } else { &Edit };
            bench.space(&Space { name, data, points, queries, metric, radii, kinds })?;
        }
        if self.vectors > 0 {
            let (points, queries) = clustered(self.vectors, self.queries, self.seed);
            let radius = |share| radius_of_share(&points, &Euclidean, share, 50, self.seed);
            let radius = |share| radius(share).map_err(refused);
            let radii = [radius(0.0001)?, radius(0.001)?, radius(0.01)?];
            let kinds = kinds(64, self.alpha);
            let data = format!("made: 20 dimensions around 200 centers, seed {}", self.seed);
            let (points, queries) = (&points, &queries);
            bench.space(&Space {
                name: "vectors",
                data,
                points,
                queries,
                metric: &Euclidean,
                radii,
                kinds,
            })?;
        }
        bench.told(outputs)
    }
}

/// Edit distance without bits, and without an end before the last character.
#[derive(Debug, Clone, Copy)]
struct ByTable;

impl Metric<str> for ByTable {
    fn distance(&self, a: &str, b: &str) -> f32 {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for a in a.chars() {
            let mut diagonal = row[0];
            row[0] += 1;
            for (place, &b) in b.iter().enumerate() {
                let substituted = diagonal + usize::from(a != b);
                diagonal = row[place + 1];
                row[place + 1] = substituted.min(row[place] + 1).min(diagonal + 1);
            }
        }
        row[b.len()] as f32
    }

    // Distances above 2^24 are rounded.
    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }
}

struct Bench<'a> {
    flags: &'a Thesis,
    talk: Talk,
    threads: NonZero<usize>,
    spaces: Vec<About>,
    measured: Vec<Measured>,
}

impl Bench<'_> {
    fn space<S: Points>(&mut self, space: &Space<'_, S>) -> Outcome {
        let (points, queries) = (space.points.len(), space.queries.len());
        self.talk.say(&format!("{}: {points} points, {queries} queries", space.name));
        self.spaces.push(About {
            name: space.name,
            data: space.data.clone(),
            metric: space.metric.name().unwrap_or_else(|| "edit, by the table".to_owned()),
            points,
            queries,
            radii: space.radii,
            indexes: space.kinds.iter().map(|(name, kind)| (*name, kind.to_string())).collect(),
        });
        let one = NonZero::<usize>::MIN;
        let asks = space.radii.map(Ask::Within).into_iter().chain([8, 16, 32].map(Ask::Nearest));
        let asks: Vec<Ask> = asks.collect();
        let all = Kind::BruteForce.build(Subset::every(space.points, 0, 1), space.metric);
        let all = all.map_err(refused)?;
        for &ask in &asks {
            self.measure(space, "brute force", &all, ask, (Strategy::Local, one, Traffic::High))?;
        }
        for &(name, kind) in &space.kinds {
            self.talk.say(&format!("{}: {name}", space.name));
            let built =
                |first, step| kind.build(Subset::every(space.points, first, step), space.metric);
            let index = built(0, 1).map_err(refused)?;
            let shares = (0..self.threads.get()).map(|thread| built(thread, self.threads.get()));
            let shares: Vec<Built<'_, S>> = shares.collect::<Result<_, _>>().map_err(refused)?;
            for &ask in &asks {
                let one = (Strategy::Local, one, Traffic::High);
                self.measure(space, name, &index, ask, one)?;
                self.measure(
                    space,
                    name,
                    &index,
                    ask,
                    (Strategy::Local, self.threads, Traffic::High),
                )?;
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
                    self.measure(
                        space,
                        name,
                        &index,
                        ask,
                        (strategy, self.threads, Traffic::High),
                    )?;
                }
                for traffic in [Traffic::Low, Traffic::LowUneven, Traffic::Bursts] {
                    for strategy in [
                        Strategy::Local,
                        Strategy::BulkCircular,
                        Strategy::BulkLocal,
                        Strategy::Hybrid,
                    ] {
                        self.measure(space, name, &index, ask, (strategy, self.threads, traffic))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The runs of one setting; the median.
    fn measure<S: Points>(
        &mut self,
        space: &Space<'_, S>,
        name: &str,
        index: &Built<'_, S>,
        ask: Ask,
        (strategy, threads, traffic): (Strategy, NonZero<usize>, Traffic),
    ) -> Outcome {
        let mut queries = Subset::every(space.queries, 0, 1);
        if traffic == Traffic::LowUneven {
            queries = Subset::new(
                space.queries,
                hardest_to_the_first(index, space.queries, ask, threads)?,
            );
        }
        let arrivals =
            self.arrivals(space.name, name, &ask.name(), queries.len(), (threads, traffic));
        let options = self.options(strategy, threads, arrivals);
        let one = |_| -> Result<Measures, Failure> {
            let done = run(index, &queries, |_| ask.collector(), &options);
            Ok(done?.measures)
        };
        let runs = (0..self.flags.runs.max(1)).map(one);
        let runs: Vec<Measures> = runs.collect::<Result<_, Failure>>()?;
        self.keep((space.name, name, ask), &format!("{strategy:?}"), traffic, runs);
        Ok(())
    }

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
        self.keep((space.name, name, ask), "Distributed", Traffic::High, runs);
        Ok(())
    }

    fn options(&self, strategy: Strategy, threads: NonZero<usize>, arrivals: Arrivals) -> Options {
        let Thesis { evaluations, waiting, .. } = *self.flags;
        let window = Duration::from_millis(2);
        Options { strategy, threads, evaluations, waiting, arrivals, window }
    }

    /// When queries come: by the time that one takes on one thread, which was measured before.
    fn arrivals(
        &self,
        space: &str,
        index: &str,
        query: &str,
        count: usize,
        (threads, traffic): (NonZero<usize>, Traffic),
    ) -> Arrivals {
        if traffic == Traffic::High {
            return Arrivals::AllAtOnce;
        }
        let alone =
            self.find(|m| (m.space, &*m.index, &*m.query, m.threads) == (space, index, query, 1));
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

    fn find(&self, is: impl Fn(&&Measured) -> bool) -> Option<&Measured> {
        self.measured.iter().find(is)
    }

    fn keep(
        &mut self,
        (space, index, ask): (&'static str, &str, Ask),
        strategy: &str,
        traffic: Traffic,
        mut runs: Vec<Measures>,
    ) {
        runs.sort_by_key(|run| run.elapsed);
        let run = &runs[runs.len() / 2];
        self.measured.push(Measured {
            space,
            index: index.to_owned(),
            query: ask.name(),
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

/// The queries in an order in which those that take most distances are dealt to the first thread.
fn hardest_to_the_first<S: Points>(
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
    let places = (0..threads).flat_map(|thread| (thread..cost.len()).step_by(threads));
    for (place, &(_, query)) in places.zip(&cost) {
        order[place] = query;
    }
    Ok(order)
}
