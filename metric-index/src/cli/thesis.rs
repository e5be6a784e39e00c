//! `metric-index bench thesis`: what chapter 3 of Barrientos 2011 measures, on this machine.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metric_index::collector::{Answer, Nearest, Within};
use metric_index::estimate::radius_of_share;
use metric_index::generate::{clustered, held_out};
use metric_index::index::{AnyIndex, BruteForce, ClusterSize, EgnatOptions, Index, Kind, Pivots};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::points::{Points, Subset};
use metric_index::strategy::{Arrivals, Measures, Options, Strategy, run, run_distributed};
use serde::Serialize;

use super::{Failure, Outcome, say};

mod chart;
mod report;

#[derive(Debug, Args)]
pub(crate) struct Thesis {
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

struct Space<'a, S, M> {
    name: &'static str,
    points: &'a S,
    queries: &'a S,
    metric: M,
    radii: [f32; 3],
    kinds: Vec<(&'static str, Kind)>,
}

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
}

/// The thesis's five, and one more.
fn kinds(bucket: u32) -> Vec<(&'static str, Kind)> {
    vec![
        ("LC", Kind::ListOfClusters(ClusterSize::Points(bucket))),
        ("SSS-Index", Kind::SssIndex(Pivots::Spread(0.6))),
        ("SSS-Tree", Kind::SssTree(0.4)),
        ("EGNAT", Kind::Egnat(EgnatOptions::default())),
        ("M-tree", Kind::MTree(32)),
        ("VP-tree", Kind::VpTree),
    ]
}

impl Thesis {
    pub(crate) fn run(self) -> Outcome {
        if self.queries == 0 || (self.words.is_none() && self.vectors == 0) {
            let text = "nothing to measure: give --words or --vectors, and --queries from 1";
            return Err(Failure::usage(text.to_owned()));
        }
        let all = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let threads = self.threads.unwrap_or_else(all);
        let mut bench = Bench { flags: &self, threads, measured: Vec::new() };
        if let Some(path) = &self.words {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
            let (points, queries) = held_out(text.lines().map(str::trim), self.queries, self.seed);
            let (points, queries, radii) = (&points, &queries, [1.0, 2.0, 3.0]);
            let (name, kinds) = ("words", kinds(32));
            if self.table {
                bench.space(&Space { name, points, queries, metric: ByTable, radii, kinds })?;
            } else {
                bench.space(&Space { name, points, queries, metric: Edit, radii, kinds })?;
            }
        }
        if self.vectors > 0 {
            let (points, queries) = clustered(self.vectors, self.queries, self.seed);
            let radius = |share| radius_of_share(&points, &Euclidean, share, 50, self.seed);
            let radius = |share| radius(share).map_err(Failure::of(3));
            let radii = [radius(0.0001)?, radius(0.001)?, radius(0.01)?];
            let kinds = kinds(64);
            let (points, queries) = (&points, &queries);
            bench.space(&Space {
                name: "vectors",
                points,
                queries,
                metric: Euclidean,
                radii,
                kinds,
            })?;
        }
        bench.told()
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
    threads: NonZero<usize>,
    measured: Vec<Measured>,
}

impl Bench<'_> {
    fn space<S: Points, M: Metric<S::Point> + Copy>(&mut self, space: &Space<'_, S, M>) -> Outcome {
        let (points, queries) = (space.points.len(), space.queries.len());
        say(&format!("{}: {points} points, {queries} queries", space.name));
        let one = NonZero::<usize>::MIN;
        let asks = space.radii.map(Ask::Within).into_iter().chain([8, 16, 32].map(Ask::Nearest));
        let asks: Vec<Ask> = asks.collect();
        let all = BruteForce::new(Subset::every(space.points, 0, 1), space.metric);
        let all = all.map_err(Failure::of(3))?;
        for &ask in &asks {
            self.measure(space, "brute force", &all, ask, (Strategy::Local, one, Traffic::High))?;
        }
        for &(name, kind) in &space.kinds {
            say(&format!("{}: {name}", space.name));
            let built =
                |first, step| kind.build(Subset::every(space.points, first, step), space.metric);
            let index = built(0, 1).map_err(Failure::of(3))?;
            let shares = (0..self.threads.get()).map(|thread| built(thread, self.threads.get()));
            let shares: Vec<AnyIndex<Subset<&S>, M>> =
                shares.collect::<Result<_, _>>().map_err(Failure::of(3))?;
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
    fn measure<I: Index, S: Points<Point = <I::Points as Points>::Point>, M: Copy>(
        &mut self,
        space: &Space<'_, S, M>,
        name: &str,
        index: &I,
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
        let runs = (0..self.flags.runs.max(1)).map(|_| match ask {
            Ask::Within(radius) => ran(index, &queries, |_| Within::new(radius), &options),
            Ask::Nearest(k) => ran(index, &queries, |_| Nearest::new(k), &options),
        });
        let runs: Vec<Measures> = runs.collect::<Result<_, Failure>>()?;
        self.keep((space.name, name, ask), &format!("{strategy:?}"), traffic, runs);
        Ok(())
    }

    fn distributed<S: Points, M: Metric<S::Point> + Copy>(
        &mut self,
        space: &Space<'_, S, M>,
        name: &str,
        shares: &[AnyIndex<Subset<&S>, M>],
        ask: Ask,
    ) -> Outcome {
        let options = self.options(Strategy::Local, self.threads, Arrivals::AllAtOnce);
        let Ask::Within(radius) = ask else { return Ok(()) };
        let one = |_| -> Result<Measures, Failure> {
            let done = run_distributed(shares, space.queries, |_| Within::new(radius), &options);
            Ok(done.map_err(Failure::of(3))?.measures)
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

fn ran<I: Index, Q: Points<Point = <I::Points as Points>::Point>, C: Answer>(
    index: &I,
    queries: &Q,
    ask: impl Fn(u32) -> C + Sync,
    options: &Options,
) -> Result<Measures, Failure> {
    Ok(run(index, queries, ask, options).map_err(Failure::of(3))?.measures)
}

/// The queries in an order in which those that take most distances are dealt to the first thread.
fn hardest_to_the_first<I: Index, S: Points<Point = <I::Points as Points>::Point>>(
    index: &I,
    queries: &S,
    ask: Ask,
    threads: NonZero<usize>,
) -> Result<Vec<u32>, Failure> {
    let mut cost = Vec::new();
    for query in 0..u32::try_from(queries.len()).unwrap_or(u32::MAX) {
        let point = queries.point(query);
        let found = match ask {
            Ask::Within(radius) => {
                metric_index::index::search(index, point, Within::new(radius)).map(|f| f.1)
            }
            Ask::Nearest(k) => {
                metric_index::index::search(index, point, Nearest::new(k)).map(|f| f.1)
            }
        };
        cost.push((found.map_err(Failure::of(3))?.evaluations, query));
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
