//! Measures the strategies of chapter 3.

use std::num::NonZero;
use std::time::Duration;

use metric_index::collector::{AnyCollector, Nearest, Within};
use metric_index::index::{AnyIndex, Kind, search};
use metric_index::metric::Metric;
use metric_index::points::{Points, Subset};
use metric_papers::strategy::{Arrivals, Measures, Options, Strategy, run, run_distributed};
use serde::Serialize;

use super::flags::Thesis;
use crate::failure::{Failure, Outcome, invalid_request};
use crate::verbosity::Verbosity;

/// The arrival pattern of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Traffic {
    /// All queries at once.
    High,
    /// Two, one and one queries arrive in successive units of time. The unit is so long that the
    /// queries occupy half of the threads' time.
    Low,
    /// Like `Low`, but the first thread gets the hardest queries.
    LowUneven,
    /// Eight queries per thread arrive at once. The bursts are so far apart that the queries occupy
    /// half of the threads' time.
    Bursts,
}

/// The measurements of a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Measurement {
    pub(super) space: &'static str,
    pub(super) index: String,
    pub(super) query: String,
    pub(super) strategy: String,
    pub(super) traffic: Traffic,
    pub(super) threads: usize,
    pub(super) seconds: f64,
    pub(super) evaluations_per_query: f64,
    pub(super) throughput: f64,
    pub(super) latency_median_ms: f64,
    pub(super) idle: f64,
    pub(super) efficiency: f64,
    pub(super) supersteps: u64,
    pub(super) messages: u64,
}

/// A description of a space for the report.
#[derive(Debug, Clone)]
pub(super) struct SpaceSummary {
    pub(super) name: &'static str,
    /// The file, or the description of the generator.
    pub(super) data: String,
    pub(super) metric: String,
    pub(super) points: usize,
    pub(super) queries: usize,
    pub(super) radii: [f32; 3],
    pub(super) indexes: Vec<NamedKind>,
}

/// A kind of index with its name in the figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedKind {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// The strategy, threads and arrival pattern of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) strategy: Strategy,
    pub(super) threads: NonZero<usize>,
    pub(super) traffic: Traffic,
}

/// The index and queries that a run measures.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) space: &'static str,
    pub(super) index: &'a str,
    pub(super) question: QueryKind,
}

/// A space: points, queries and a metric.
pub(super) struct Space<'a, S: Points> {
    pub(super) name: &'static str,
    pub(super) data: String,
    pub(super) points: &'a S,
    pub(super) queries: &'a S,
    pub(super) metric: &'a dyn Metric<S::Point>,
    pub(super) radii: [f32; 3],
    pub(super) kinds: Vec<NamedKind>,
}

/// An index of any kind over some of the points, with any metric.
pub(super) type BuiltIndex<'a, S> = AnyIndex<Subset<&'a S>, &'a dyn Metric<<S as Points>::Point>>;

/// A kind of query.
#[derive(Debug, Clone, Copy)]
pub(super) enum QueryKind {
    Within(f32),
    Nearest(usize),
}

impl QueryKind {
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

/// The experiments of chapter 3 and their results.
pub(super) struct Bench<'a> {
    pub(super) flags: &'a Thesis,
    pub(super) verbosity: Verbosity,
    pub(super) threads: NonZero<usize>,
    pub(super) spaces: Vec<SpaceSummary>,
    pub(super) measured: Vec<Measurement>,
}

impl Bench<'_> {
    /// Measures all indexes and strategies in a space.
    pub(super) fn measure_space<S: Points>(&mut self, space: &Space<'_, S>) -> Outcome {
        let points = space.points.len();
        let queries = space.queries.len();
        self.verbosity.say(&format!("{}: {points} points, {queries} queries", space.name));
        self.spaces.push(SpaceSummary {
            name: space.name,
            data: space.data.clone(),
            metric: space.metric.name().unwrap_or_else(|| "edit, by the table".to_owned()),
            points,
            queries,
            radii: space.radii,
            indexes: space.kinds.clone(),
        });
        let single_thread = NonZero::<usize>::MIN;
        let questions = space
            .radii
            .map(QueryKind::Within)
            .into_iter()
            .chain([8, 16, 32].map(QueryKind::Nearest));
        let questions: Vec<QueryKind> = questions.collect();
        let brute_force = Kind::BruteForce.build(Subset::every(space.points, 0, 1), space.metric);
        let brute_force = brute_force.map_err(invalid_request)?;
        let sequential =
            Setting { strategy: Strategy::Local, threads: single_thread, traffic: Traffic::High };
        let parallel = Setting { threads: self.threads, ..sequential };
        for &question in &questions {
            self.measure(space, "brute force", &brute_force, question, sequential)?;
        }
        for &NamedKind { name, kind } in &space.kinds {
            self.verbosity.say(&format!("{}: {name}", space.name));
            let build =
                |first, step| kind.build(Subset::every(space.points, first, step), space.metric);
            let index = build(0, 1).map_err(invalid_request)?;
            let shares = (0..self.threads.get()).map(|thread| build(thread, self.threads.get()));
            let shares: Vec<BuiltIndex<'_, S>> =
                shares.collect::<Result<_, _>>().map_err(invalid_request)?;
            for &question in &questions {
                self.measure(space, name, &index, question, sequential)?;
                self.measure(space, name, &index, question, parallel)?;
                if let QueryKind::Nearest(_) = question {
                    continue;
                }
                self.measure_distributed(space, name, &shares, question)?;
                for strategy in [
                    Strategy::BulkCircular,
                    Strategy::BulkLocal,
                    Strategy::Hybrid,
                    Strategy::BulkCritical,
                ] {
                    let setting = Setting { strategy, ..parallel };
                    self.measure(space, name, &index, question, setting)?;
                }
                for traffic in [Traffic::Low, Traffic::LowUneven, Traffic::Bursts] {
                    for strategy in [
                        Strategy::Local,
                        Strategy::BulkCircular,
                        Strategy::BulkLocal,
                        Strategy::Hybrid,
                    ] {
                        let setting = Setting { strategy, traffic, ..parallel };
                        self.measure(space, name, &index, question, setting)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures one setting and records the run with the median time.
    fn measure<S: Points>(
        &mut self,
        space: &Space<'_, S>,
        name: &str,
        index: &BuiltIndex<'_, S>,
        question: QueryKind,
        setting: Setting,
    ) -> Outcome {
        let Setting { strategy, threads, traffic } = setting;
        let subject = Subject { space: space.name, index: name, question };
        let mut queries = Subset::every(space.queries, 0, 1);
        if traffic == Traffic::LowUneven {
            queries = Subset::new(
                space.queries,
                hardest_for_first_thread(index, space.queries, question, threads)?,
            );
        }
        let arrivals = self.arrivals(subject, queries.len(), setting);
        let options = self.options(strategy, threads, arrivals);
        let run_once = |_| -> Result<Measures, Failure> {
            let result = run(index, &queries, |_| question.collector(), &options);
            Ok(result?.measures)
        };
        let runs = (0..self.flags.runs.max(1)).map(run_once);
        let runs: Vec<Measures> = runs.collect::<Result<_, Failure>>()?;
        self.record(subject, &format!("{strategy:?}"), traffic, runs);
        Ok(())
    }

    /// Measures the strategy that distributes the data over the threads.
    fn measure_distributed<S: Points>(
        &mut self,
        space: &Space<'_, S>,
        name: &str,
        shares: &[BuiltIndex<'_, S>],
        question: QueryKind,
    ) -> Outcome {
        let options = self.options(Strategy::Local, self.threads, Arrivals::AllAtOnce);
        let run_once = |_| -> Result<Measures, Failure> {
            let result = run_distributed(shares, space.queries, |_| question.collector(), &options);
            Ok(result?.measures)
        };
        let runs =
            (0..self.flags.runs.max(1)).map(run_once).collect::<Result<Vec<_>, Failure>>()?;
        let subject = Subject { space: space.name, index: name, question };
        self.record(subject, "Distributed", Traffic::High, runs);
        Ok(())
    }

    fn options(&self, strategy: Strategy, threads: NonZero<usize>, arrivals: Arrivals) -> Options {
        let Thesis { evaluations, waiting, .. } = *self.flags;
        let window = Duration::from_millis(2);
        Options { strategy, threads, evaluations, waiting, arrivals, window }
    }

    /// Returns the arrival times of queries, based on the measured time per query on one thread.
    fn arrivals(&self, subject: Subject<'_>, count: usize, setting: Setting) -> Arrivals {
        let Setting { threads, traffic, .. } = setting;
        if traffic == Traffic::High {
            return Arrivals::AllAtOnce;
        }
        let query = subject.question.name();
        let sequential = self.measured.iter().find(|m| {
            m.threads == 1
                && m.space == subject.space
                && m.index == subject.index
                && m.query == query
        });
        let seconds_per_query = sequential.map_or(0.001, |m| m.seconds / count as f64);
        let threads = threads.get() as f64;
        let time = |query: usize| match traffic {
            Traffic::High => 0.0,
            // Four queries arrive in three units of time and occupy half of the threads' time.
            Traffic::Low | Traffic::LowUneven => {
                let unit = 4.0 / 3.0 * seconds_per_query / (threads * 0.5);
                unit * (query / 4 * 3 + [0, 0, 1, 2][query % 4]) as f64
            }
            Traffic::Bursts => {
                let burst = 8.0 * threads;
                (query as f64 / burst).floor() * burst * seconds_per_query / (threads * 0.5)
            }
        };
        Arrivals::Trace((0..count).map(|query| Duration::from_secs_f64(time(query))).collect())
    }

    /// Records the run with the median time.
    fn record(
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
            query: subject.question.name(),
            strategy: strategy.to_owned(),
            traffic,
            threads: run.workers.len(),
            seconds: run.elapsed.as_secs_f64(),
            evaluations_per_query: run.evaluations() as f64 / run.latencies.len() as f64,
            throughput: run.throughput(),
            latency_median_ms: run.latency(0.5).as_secs_f64() * 1e3,
            idle: run.idle(),
            efficiency: run.efficiency(),
            supersteps: run.supersteps(),
            messages: run.messages(),
        });
    }
}

/// Orders the queries so that the first thread gets the queries with the most distance evaluations.
fn hardest_for_first_thread<S: Points>(
    index: &BuiltIndex<'_, S>,
    queries: &S,
    question: QueryKind,
    threads: NonZero<usize>,
) -> Result<Vec<u32>, Failure> {
    let mut costs = Vec::new();
    for query in 0..u32::try_from(queries.len()).unwrap_or(u32::MAX) {
        let point = queries.point(query);
        let cost = search(index, point, question.collector()).map(|(_, cost)| cost);
        costs.push((cost.map_err(invalid_request)?.evaluations, query));
    }
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let mut order = vec![0; costs.len()];
    let threads = threads.get();
    let positions = (0..threads).flat_map(|thread| (thread..costs.len()).step_by(threads));
    for (position, &(_, query)) in positions.zip(&costs) {
        order[position] = query;
    }
    Ok(order)
}
