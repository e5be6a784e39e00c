//! `metric-index bench thesis --device cuda` repeats the experiments of Barrientos 2011, chapter 4.
//!
//! It compares the GPU searches of the thesis with the search of this program, and with one CPU
//! thread.

use std::io::Write;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use metric_index::Question;
use metric_index::collector::Within;
use metric_index::estimate::radius_for_share;
use metric_index::generate::clustered;
use metric_index::gpu::{Device, GpuError, GpuPoint, GpuSearch};
use metric_index::index::{
    BruteForce, ClusterSize, Index, ListOfClusters, Pivots, SssIndex, search,
};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::points::{Points, Subset};
use metric_papers::barrientos::{KernelPoint, Method, Radii, Searcher, learn_radii};
use serde::Serialize;
use svg_chart::{Axis, Chart, Colors, Mark, Scale};

use super::super::data::Words;
use super::super::results::{align, table};
use super::flags::{FigureFile, Files, Thesis};
use crate::failure::{Failure, Outcome, invalid_request};
use crate::threads::start_threads;
use crate::verbosity::Verbosity;

/// Number of queries that are also measured on one CPU thread.
const CPU_QUERIES: u32 = 50;
/// Batch sizes (section 4.3.3).
const BATCHES: [usize; 6] = [1, 10, 100, 1_000, 10_000, 40_000];
/// Cluster sizes (section 4.3.1).
const CLUSTERS: [u32; 4] = [16, 32, 64, 128];
/// Numbers of pivots for figures 4.1 and 4.4. In the thesis, their x axis is α.
const PIVOTS: [u32; 4] = [1, 4, 16, 64];
/// The figures to draw. Figure 4.10 is named after its section.
pub(super) const FIGURES: [&str; 3] = ["4.1", "4.3.3", "4.4"];
/// Number of threads per block.
const THREADS: u32 = 128;

/// The measurements of a search.
#[derive(Debug, Clone, Serialize)]
struct Measurement {
    space: &'static str,
    points: usize,
    /// Number of queries per batch.
    queries: usize,
    question: String,
    search: String,
    milliseconds: f64,
    microseconds_per_query: f64,
    /// Speedup over brute force on one CPU thread.
    speedup: f64,
    /// Number of distances per range query, including distances to centers and pivots.
    distances_per_query: Option<f64>,
    /// Number of pivots, or of points per cluster, if it is varied.
    setting: Option<u32>,
}

impl Measurement {
    /// Whether this is a measurement for figure 4.1 or 4.4.
    fn varies_pivots(&self) -> bool {
        self.setting.is_some() && self.search.starts_with("SSS-Index")
    }
}

/// A search that was measured.
struct Run<'a> {
    space: &'static str,
    points: usize,
    queries: usize,
    question: &'a str,
    search: &'a str,
    distances: Option<f64>,
    setting: Option<u32>,
}

struct Bench<'a> {
    flags: &'a Thesis,
    device: &'a Device,
    measured: Vec<Measurement>,
}

/// Runs the experiments of chapter 4 on a GPU and writes the outputs.
pub(super) fn run(flags: &Thesis, device: &Device, verbosity: Verbosity, files: Files) -> Outcome {
    start_threads(None)?;
    verbosity.say(&format!("{}; seed {}", device.info().name, flags.seed));
    let mut bench = Bench { flags, device, measured: Vec::new() };
    if let Some(path) = &flags.words {
        let Words { points, queries } = Words::repeated(path, flags.queries, flags.seed)?;
        let data = Data { name: "words", points: &points, queries: &queries, bucket: 32 };
        bench.measure_space(&data, Edit, [1.0, 2.0, 3.0])?;
    }
    if flags.vectors > 0 {
        let (points, queries) = clustered(flags.vectors, flags.queries, flags.seed);
        let radius = |share| radius_for_share(&points, &Euclidean, share, 50, flags.seed);
        let radius = |share| radius(share).map_err(invalid_request);
        let radii = [radius(0.0001)?, radius(0.001)?, radius(0.01)?];
        let data = Data { name: "vectors", points: &points, queries: &queries, bucket: 64 };
        bench.measure_space(&data, Euclidean, radii)?;
    }
    bench.write(files)
}

/// The points and queries of a space.
struct Data<'a, S> {
    name: &'static str,
    points: &'a S,
    queries: &'a S,
    /// Number of points per cluster.
    bucket: u32,
}

/// A kind of query with its name in the table.
struct Query {
    text: String,
    question: Question,
    /// Seconds per query of brute force on one CPU thread.
    cpu_seconds: f64,
}

/// The points, queries and indexes of a space.
struct Space<'a, S: Points, M> {
    name: &'static str,
    points: &'a S,
    queries: &'a S,
    metric: M,
    /// The first queries, which one CPU thread also answers.
    cpu_queries: Subset<&'a S>,
    list: ListOfClusters<&'a S, M>,
    table: SssIndex<&'a S, M>,
    brute: Arc<BruteForce<&'a S, M>>,
}

impl Bench<'_> {
    /// Measures all searches of a space.
    fn measure_space<S, M>(&mut self, data: &Data<'_, S>, metric: M, radii: [f32; 3]) -> Outcome
    where
        S: Points + Sync + Send,
        S::Point: KernelPoint + GpuPoint,
        M: Metric<S::Point> + Copy + Send,
    {
        let &Data { name, points, queries, bucket } = data;
        let cpu_queries = CPU_QUERIES.min(u32::try_from(queries.len()).unwrap_or(CPU_QUERIES));
        let size = ClusterSize::Points(bucket);
        let space = Space {
            name,
            points,
            queries,
            metric,
            cpu_queries: Subset::new(queries, (0..cpu_queries).collect()),
            list: ListOfClusters::build(points, metric, size).map_err(invalid_request)?,
            table: SssIndex::build(points, metric, Pivots::Count(1)).map_err(invalid_request)?,
            brute: Arc::new(BruteForce::new(points, metric).map_err(invalid_request)?),
        };
        let gpu_search =
            GpuSearch::new(std::slice::from_ref(self.device), Arc::clone(&space.brute));
        let gpu_search = gpu_search.map_err(Failure::gpu)?.ok_or_else(unsupported)?;
        let brute = searcher(Searcher::brute(self.device, &points, &metric, THREADS))?;
        let clusters = searcher(Searcher::clusters(self.device, &space.list, THREADS))?;
        let pivots = self.pivot_searcher(&space, space.table.pivots())?;
        let ranges = radii.map(Question::Within).into_iter();
        let nearest = [8, 16, 32].map(Question::Nearest);
        for (at, question) in ranges.chain(nearest).enumerate() {
            let text = match question {
                Question::Within(radius) => format!("r = {radius:.3}"),
                Question::Nearest(k) => format!("k = {k}"),
            };
            let cpu_seconds = self.measure_cpu(&space, &text, question)?;
            let query = Query { text, question, cpu_seconds };
            let radii = radii_for(&space.list, question)?;
            let searches: &[(&str, &Searcher, Method)] = match question {
                Question::Within(_) => &[
                    ("brute force (alg. 11)", &brute, Method::Brute),
                    ("List of Clusters (alg. 12)", &clusters, Method::Clusters),
                    ("SSS-Index, 1 pivot (alg. 13)", &pivots, Method::Pivots),
                    ("SSS-Index, pivots shared", &pivots, Method::PivotsShared),
                ],
                Question::Nearest(_) => &[
                    ("all distances sorted", &brute, Method::Sort),
                    ("heaps (alg. 14)", &brute, Method::Brute),
                    ("List of Clusters (alg. 15)", &clusters, Method::Clusters),
                    ("List of Clusters, decreasing", &clusters, Method::ClustersDecreasing),
                    ("SSS-Index, 1 pivot (alg. 16)", &pivots, Method::Pivots),
                ],
            };
            for &(search, searcher, method) in searches {
                let kernel_search = KernelSearch { searcher, method, radii };
                let seconds = self.kernel_seconds(space.queries, question, &kernel_search)?;
                let distances = match method {
                    Method::Brute | Method::Sort => {
                        distances(&*space.brute, &space.cpu_queries, question)
                    }
                    Method::Clusters | Method::ClustersDecreasing => {
                        distances(&space.list, &space.cpu_queries, question)
                    }
                    Method::Pivots | Method::PivotsShared => {
                        distances(&space.table, &space.cpu_queries, question)
                    }
                };
                let run = space.run(&query.text, search, distances?);
                self.record(&run, seconds, cpu_seconds);
            }
            self.measure_batches(&space, &gpu_search, &query)?;
            // Settings are measured only with the second radius and the second value of k.
            if at % 3 == 1 {
                self.measure_settings(&space, &query)?;
            }
        }
        Ok(())
    }

    /// Measures searches on one CPU thread and returns the seconds per query of brute force.
    fn measure_cpu<S, M>(
        &mut self,
        space: &Space<'_, S, M>,
        text: &str,
        question: Question,
    ) -> Result<f64, Failure>
    where
        S: Points + Sync,
        M: Metric<S::Point> + Copy,
    {
        let single_thread = NonZero::<usize>::MIN;
        let cpu_queries = &space.cpu_queries;
        let mut brute = f64::NAN;
        for (search, is_list) in [("CPU, brute force", false), ("CPU, List of Clusters", true)] {
            let start = Instant::now();
            let answers = match (question, is_list) {
                (Question::Within(radius), false) => {
                    space.brute.within_many(cpu_queries, radius, single_thread)
                }
                (Question::Within(radius), true) => {
                    space.list.within_many(cpu_queries, radius, single_thread)
                }
                (Question::Nearest(k), false) => {
                    space.brute.nearest_many(cpu_queries, k, single_thread)
                }
                (Question::Nearest(k), true) => {
                    space.list.nearest_many(cpu_queries, k, single_thread)
                }
            };
            let seconds = start.elapsed().as_secs_f64();
            answers
                .into_iter()
                .try_for_each(|answer| answer.map(|_| ()).map_err(invalid_request))?;
            if !is_list {
                brute = seconds / cpu_queries.len().max(1) as f64;
            }
            let run = Run { queries: cpu_queries.len(), ..space.run(text, search, None) };
            self.record(&run, seconds, brute);
        }
        Ok(brute)
    }

    /// Measures the search of this program for each batch size (section 4.3.3).
    fn measure_batches<S, M>(
        &mut self,
        space: &Space<'_, S, M>,
        gpu_search: &GpuSearch<BruteForce<&S, M>>,
        query: &Query,
    ) -> Outcome
    where
        S: Points + Sync + Send,
        S::Point: GpuPoint,
        M: Metric<S::Point> + Copy + Send,
    {
        let &Query { ref text, question, cpu_seconds } = query;
        let queries = space.queries;
        let smaller = BATCHES.into_iter().filter(|&batch| batch < queries.len());
        for batch in smaller.chain([queries.len()]) {
            let numbers = (0..u32::try_from(batch).unwrap_or(u32::MAX)).collect();
            let subset = Subset::new(queries, numbers);
            let seconds = self.median(|| {
                let start = Instant::now();
                let _ = gpu_search.answer(&subset, question, crate::threads::all_cores());
                Ok(start.elapsed().as_secs_f64())
            })?;
            let run = Run { queries: batch, ..space.run(text, "own, host to host", None) };
            self.record(&run, seconds, cpu_seconds);
        }
        let seconds = self.median(|| {
            Ok(gpu_search.answer(queries, question, crate::threads::all_cores()).device_seconds)
        })?;
        self.record(&space.run(text, "own", None), seconds, cpu_seconds);
        Ok(())
    }

    /// Measures each cluster size (section 4.3.1) and number of pivots (figures 4.1 and 4.4).
    fn measure_settings<S, M>(&mut self, space: &Space<'_, S, M>, query: &Query) -> Outcome
    where
        S: Points + Sync + Send,
        S::Point: KernelPoint,
        M: Metric<S::Point> + Copy + Send,
    {
        let &Query { ref text, question, cpu_seconds } = query;
        for size in CLUSTERS {
            let list = ListOfClusters::build(space.points, space.metric, ClusterSize::Points(size));
            let list = list.map_err(invalid_request)?;
            let clusters = searcher(Searcher::clusters(self.device, &list, THREADS))?;
            let radii = radii_for(&list, question)?;
            let kernel_search =
                KernelSearch { searcher: &clusters, method: Method::Clusters, radii };
            let seconds = self.kernel_seconds(space.queries, question, &kernel_search)?;
            let distances = distances(&list, &space.cpu_queries, question)?;
            let search = format!("List of Clusters of {size}");
            let run = Run { setting: Some(size), ..space.run(text, &search, distances) };
            self.record(&run, seconds, cpu_seconds);
        }
        for count in PIVOTS {
            let table = SssIndex::build(space.points, space.metric, Pivots::Count(count));
            let table = table.map_err(invalid_request)?;
            let pivots = self.pivot_searcher(space, table.pivots())?;
            let radii = radii_for(&space.list, question)?;
            let kernel_search = KernelSearch { searcher: &pivots, method: Method::Pivots, radii };
            let seconds = self.kernel_seconds(space.queries, question, &kernel_search)?;
            let distances = distances(&table, &space.cpu_queries, question)?;
            let search = format!("SSS-Index, pivots: {count}");
            let run = Run { setting: Some(count), ..space.run(text, &search, distances) };
            self.record(&run, seconds, cpu_seconds);
        }
        Ok(())
    }

    fn pivot_searcher<S, M>(
        &self,
        space: &Space<'_, S, M>,
        pivots: &[u32],
    ) -> Result<Searcher, Failure>
    where
        S: Points,
        S::Point: KernelPoint,
        M: Metric<S::Point>,
    {
        let Space { points, metric, .. } = space;
        searcher(Searcher::pivots(self.device, *points, metric, pivots, THREADS))
    }

    /// Returns the kernel time for all queries, in seconds.
    fn kernel_seconds<S>(
        &self,
        queries: &S,
        question: Question,
        kernel_search: &KernelSearch<'_>,
    ) -> Result<f64, Failure>
    where
        S: Points,
        S::Point: KernelPoint,
    {
        let &KernelSearch { searcher, method, radii } = kernel_search;
        self.median(|| {
            let answers = match question {
                Question::Within(radius) => searcher.range(queries, radius, method),
                Question::Nearest(k) => {
                    let k = u32::try_from(k).unwrap_or(u32::MAX);
                    searcher.nearest(queries, k, method, radii)
                }
            };
            Ok(answers.map_err(Failure::gpu)?.ok_or_else(unsupported)?.seconds)
        })
    }

    /// Returns the median of the runs after a warm-up run.
    fn median(&self, run: impl Fn() -> Result<f64, Failure>) -> Result<f64, Failure> {
        run()?;
        let mut times =
            (0..self.flags.runs.max(1)).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    fn record(&mut self, run: &Run<'_>, seconds: f64, cpu_seconds: f64) {
        let each = seconds / run.queries.max(1) as f64;
        self.measured.push(Measurement {
            space: run.space,
            points: run.points,
            queries: run.queries,
            question: run.question.to_owned(),
            search: run.search.to_owned(),
            milliseconds: seconds * 1e3,
            microseconds_per_query: each * 1e6,
            speedup: cpu_seconds / each,
            distances_per_query: run.distances,
            setting: run.setting,
        });
    }

    /// Writes the table, the measurements and the figures.
    fn write(self, files: Files) -> Outcome {
        let mut table = table([
            "space",
            "query",
            "search",
            "queries",
            "ms",
            "us per query",
            "relative to one CPU thread",
            "distances per query",
        ]);
        for measurement in &self.measured {
            table.add_row([
                format!("{} {}", measurement.points, measurement.space),
                measurement.question.clone(),
                measurement.search.clone(),
                measurement.queries.to_string(),
                format!("{:.3}", measurement.milliseconds),
                format!("{:.3}", measurement.microseconds_per_query),
                format!("{:.1}", measurement.speedup),
                measurement
                    .distances_per_query
                    .map_or_else(String::new, |distances| format!("{distances:.0}")),
            ]);
        }
        align(&mut table, 3);
        let Files { json, figures, standard_output } = files;
        if let Some(mut out) = json {
            let value = serde_json::json!({
                "schema": "metric-index.bench-thesis-gpu/1",
                "device": self.device.info().name,
                "seed": self.flags.seed,
                "measured": self.measured,
            });
            writeln!(out, "{value:#}").map_err(|error| out.error(error))?;
            out.commit()?;
        }
        for FigureFile { name, mut out } in figures {
            let space = if name.contains("words") { "words" } else { "vectors" };
            let chart = match name.split('-').next() {
                Some("4.1") => self.draw_by_pivots(space, "r ="),
                Some("4.4") => self.draw_by_pivots(space, "k ="),
                _ => self.draw_throughput(space),
            };
            let svg = chart.svg(Colors::Own) + "\n";
            out.write_all(svg.as_bytes()).map_err(|error| out.error(error))?;
            out.commit()?;
        }
        if let Some(mut out) = standard_output {
            writeln!(out, "{table}")?;
            out.commit()?;
        }
        Ok(())
    }

    /// Draws figures 4.1 and 4.4: time and distances of the SSS-Index by number of pivots.
    ///
    /// Values are divided by the largest value. Distances are known for range queries only.
    fn draw_by_pivots(&self, space: &str, question: &str) -> Chart {
        let runs: Vec<&Measurement> = self
            .measured
            .iter()
            .filter(|measurement| {
                measurement.space == space && measurement.question.starts_with(question)
            })
            .filter(|measurement| measurement.varies_pivots())
            .collect();
        let line = |class, name: &str, value: &dyn Fn(&Measurement) -> Option<f64>| {
            let values = || {
                runs.iter().filter_map(|&measurement| {
                    Some((f64::from(measurement.setting?), value(measurement)?))
                })
            };
            let max = values().map(|(_, value)| value).fold(f64::MIN_POSITIVE, f64::max);
            let points = values().map(|(pivots, value)| (pivots, value / max)).collect();
            Mark::Line { class, points, name: name.to_owned() }
        };
        let mut marks =
            vec![line(0, "time", &|measurement| Some(measurement.microseconds_per_query))];
        if runs.iter().any(|measurement| measurement.distances_per_query.is_some()) {
            marks.push(line(1, "distances", &|measurement| measurement.distances_per_query));
        }
        let query = runs.first().map_or("", |measurement| measurement.question.as_str());
        let title = format!("SSS-Index on a GPU: {space}, {query}");
        let x = Axis::new("pivots", 1.0, 100.0, Scale::Logarithmic);
        let y = Axis::unit("share of the maximum");
        Chart { size: (620.0, 380.0), ..Chart::new(title, x, y, marks) }
    }

    /// Draws the throughput for each batch size (section 4.3.3).
    fn draw_throughput(&self, space: &str) -> Chart {
        let measurements: Vec<&Measurement> = self
            .measured
            .iter()
            .filter(|measurement| {
                measurement.space == space && measurement.search == "own, host to host"
            })
            .collect();
        let mut questions: Vec<&str> =
            measurements.iter().map(|measurement| measurement.question.as_str()).collect();
        questions.dedup();
        let rate = |measurement: &Measurement| 1e6 / measurement.microseconds_per_query;
        let max = measurements.iter().map(|measurement| rate(measurement)).fold(10.0, f64::max);
        let min = measurements.iter().map(|measurement| rate(measurement)).fold(max, f64::min);
        let decade = |value: f64, up: bool| {
            let exponent = libm::log10(value);
            let whole = if up { libm::ceil(exponent) } else { libm::floor(exponent) };
            libm::pow(10.0, whole)
        };
        let batches =
            measurements.iter().map(|measurement| measurement.queries).max().unwrap_or(1).max(10);
        let x =
            Axis::new("queries per batch", 1.0, decade(batches as f64, true), Scale::Logarithmic);
        let y = Axis::new(
            "queries per second",
            decade(min, false),
            decade(max, true),
            Scale::Logarithmic,
        );
        let points = |question: &str| {
            let measurements =
                measurements.iter().filter(|measurement| measurement.question == question);
            measurements
                .map(|measurement| (measurement.queries as f64, rate(measurement)))
                .collect()
        };
        let marks = questions
            .iter()
            .enumerate()
            .map(|(class, &question)| Mark::Line {
                class,
                points: points(question),
                name: question.to_owned(),
            })
            .collect();
        let title = format!("Throughput by batch size: {space}, host to host");
        Chart { size: (620.0, 380.0), ..Chart::new(title, x, y, marks) }
    }
}

impl<S: Points, M> Space<'_, S, M> {
    fn run<'a>(&self, question: &'a str, search: &'a str, distances: Option<f64>) -> Run<'a> {
        Run {
            space: self.name,
            points: self.points.len(),
            queries: self.queries.len(),
            question,
            search,
            distances,
            setting: None,
        }
    }
}

fn unsupported() -> Failure {
    Failure::input("the searches of the thesis do not support these points".to_owned())
}

fn searcher(result: Result<Option<Searcher>, GpuError>) -> Result<Searcher, Failure> {
    result.map_err(Failure::gpu)?.ok_or_else(unsupported)
}

/// A search with the kernels of the thesis.
struct KernelSearch<'a> {
    searcher: &'a Searcher,
    method: Method,
    radii: Radii,
}

/// Returns the radii of a nearest-neighbor search. Range queries ignore them.
fn radii_for<S, M>(list: &ListOfClusters<S, M>, question: Question) -> Result<Radii, Failure>
where
    S: Points + Sync,
    M: Metric<S::Point>,
{
    match question {
        Question::Nearest(k) => learn_radii(list, k).map_err(invalid_request),
        Question::Within(_) => Ok(Radii { first: 1.0, step: 1.0 }),
    }
}

/// Returns the mean number of distances per range query, which is the same for searches on a GPU.
fn distances<I: Index>(
    index: &I,
    queries: &impl Points<Point = <I::Points as Points>::Point>,
    question: Question,
) -> Result<Option<f64>, Failure> {
    let Question::Within(radius) = question else { return Ok(None) };
    let count = u32::try_from(queries.len()).expect("at most `CPU_QUERIES`");
    let mut evaluations = 0;
    for query in 0..count {
        let (_, cost) =
            search(index, queries.point(query), Within::new(radius)).map_err(invalid_request)?;
        // The distance of the query to itself does not count.
        evaluations += cost.evaluations - 1;
    }
    Ok(Some(evaluations as f64 / f64::from(count.max(1))))
}
