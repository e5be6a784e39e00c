//! `bench thesis --device cuda`: what chapter 4 of Barrientos 2011 measures: its searches on a GPU, this program's own, and the same by
//! one thread of the CPU.

use std::io::Write;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use comfy_table::{CellAlignment, Table, presets};
use metric_index::Question;
use metric_index::estimate::radius_of_share;
use metric_index::generate::{clustered, held_out};
use metric_index::gpu::barrientos::{InColumns, Method, Radii, Searcher, learn_radii};
use metric_index::gpu::{Device, GpuSearch, OnGpu};
use metric_index::index::{BruteForce, ClusterSize, Index, ListOfClusters, Pivots, SssIndex};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::points::{Points, Strings, Subset};
use serde::Serialize;
use svg_chart::{Axis, Chart, Colors, Mark, Scale};

use super::super::{Failure, Outcome, Talk, refused, start_threads};
use super::{Files, Thesis};

/// Queries that one thread of the CPU answers.
const ON_CPU: u32 = 50;
/// Batches of section 4.3.3.
const BATCHES: [usize; 6] = [1, 10, 100, 1_000, 10_000, 40_000];

/// A search and its time.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    space: &'static str,
    points: usize,
    /// Queries that are answered together.
    queries: usize,
    question: String,
    search: String,
    milliseconds: f64,
    microseconds_a_query: f64,
    /// Against brute force by one thread of the CPU.
    speedup: f64,
}

struct Bench<'a> {
    flags: &'a Thesis,
    device: &'a Device,
    measured: Vec<Measured>,
}

/// Runs what chapter 4 measures on a GPU, and prints and writes what was found.
pub(super) fn run(flags: &Thesis, device: &Device, talk: Talk, files: Files) -> Outcome {
    start_threads(None)?;
    talk.say(&format!("{}; seed {}", device.info().name, flags.seed));
    let mut bench = Bench { flags, device, measured: Vec::new() };
    if let Some(path) = &flags.words {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        let (points, few) = held_out(
            text.trim_start_matches('\u{feff}').lines().map(str::trim),
            flags.queries.min(10_000),
            flags.seed,
        );
        if few.is_empty() {
            return Err(Failure::input(format!("{}: no words in it", path.display())));
        }
        // As many as are asked for, again and again.
        let number = |at: usize| u32::try_from(at % few.len().max(1)).expect("10,000");
        let queries: Strings = (0..flags.queries).map(|at| few.point(number(at))).collect();
        bench.space("words", &points, &queries, Edit, 32, [1.0, 2.0, 3.0])?;
    }
    if flags.vectors > 0 {
        let (points, queries) = clustered(flags.vectors, flags.queries, flags.seed);
        let radius = |share| radius_of_share(&points, &Euclidean, share, 50, flags.seed);
        let radius = |share| radius(share).map_err(refused);
        let radii = [radius(0.0001)?, radius(0.001)?, radius(0.01)?];
        bench.space("vectors", &points, &queries, Euclidean, 64, radii)?;
    }
    bench.told(files)
}

impl Bench<'_> {
    fn space<S, M>(
        &mut self,
        name: &'static str,
        points: &S,
        queries: &S,
        metric: M,
        bucket: u32,
        radii: [f32; 3],
    ) -> Outcome
    where
        S: Points + Sync + Send,
        S::Point: InColumns + OnGpu,
        M: Metric<S::Point> + Copy + Send,
    {
        let index = Arc::new(BruteForce::new(points, metric).map_err(refused)?);
        let size = ClusterSize::Points(bucket);
        let list = ListOfClusters::build(points, metric, size).map_err(refused)?;
        let table = SssIndex::build(points, metric, Pivots::Count(1)).map_err(refused)?;
        let none =
            || Failure::input("the searches of the thesis do not take such points".to_owned());
        let threads = 128;
        let plain =
            Searcher::brute(self.device, &points, &metric, threads).map_err(Failure::gpu)?;
        let plain = plain.ok_or_else(none)?;
        let clusters = Searcher::clusters(self.device, &list, threads)
            .map_err(Failure::gpu)?
            .ok_or_else(none)?;
        let pivots = Searcher::pivots(self.device, (&points, &metric), table.pivots(), threads);
        let pivots = pivots.map_err(Failure::gpu)?.ok_or_else(none)?;
        let devices = std::slice::from_ref(self.device);
        let own = GpuSearch::new(devices, Arc::clone(&index)).map_err(Failure::gpu)?;
        let own = own.ok_or_else(none)?;
        let ranges = radii.map(|radius| (format!("r = {radius:.3}"), Question::Within(radius)));
        let nearest = [8, 16, 32].map(|k| (format!("k = {k}"), Question::Nearest(k)));
        let one = NonZero::<usize>::MIN;
        for (text, question) in ranges.into_iter().chain(nearest) {
            let few = Subset::new(
                queries,
                (0..ON_CPU.min(u32::try_from(queries.len()).unwrap_or(ON_CPU))).collect(),
            );
            let mut sequential = None;
            let lists: [(&str, bool); 2] =
                [("CPU, brute force", false), ("CPU, List of Clusters", true)];
            for (search, is_list) in lists {
                let start = Instant::now();
                let answers = match (question, is_list) {
                    (Question::Within(radius), false) => index.within_many(&few, radius, one),
                    (Question::Within(radius), true) => list.within_many(&few, radius, one),
                    (Question::Nearest(k), false) => index.nearest_many(&few, k, one),
                    (Question::Nearest(k), true) => list.nearest_many(&few, k, one),
                };
                let seconds = start.elapsed().as_secs_f64();
                answers.into_iter().try_for_each(|answer| answer.map(|_| ()).map_err(refused))?;
                let each = seconds / few.len().max(1) as f64;
                let brute = *sequential.get_or_insert(each);
                self.keep((name, points.len(), few.len()), &text, search, seconds, brute);
            }
            let brute = sequential.unwrap_or(f64::NAN);
            let searches: &[(&str, &Searcher, Method)] = match question {
                Question::Within(_) => &[
                    ("brute force (alg. 11)", &plain, Method::Brute),
                    ("List of Clusters (alg. 12)", &clusters, Method::Clusters),
                    ("SSS-Index, 1 pivot (alg. 13)", &pivots, Method::Pivots),
                    ("SSS-Index, pivots shared", &pivots, Method::PivotsShared),
                ],
                Question::Nearest(_) => &[
                    ("all distances sorted", &plain, Method::Sort),
                    ("heaps (alg. 14)", &plain, Method::Brute),
                    ("List of Clusters (alg. 15)", &clusters, Method::Clusters),
                    ("List of Clusters, decreasing", &clusters, Method::ClustersDecreasing),
                    ("SSS-Index, 1 pivot (alg. 16)", &pivots, Method::Pivots),
                ],
            };
            let learnt = match question {
                Question::Nearest(k) => Some(learn_radii(&list, k).map_err(refused)?),
                Question::Within(_) => None,
            };
            for &(search, searcher, method) in searches {
                let seconds = self.median(|| {
                    let found = match (question, learnt) {
                        (Question::Within(radius), _) => searcher.range(queries, radius, method),
                        (Question::Nearest(k), radii) => {
                            let radii = radii.unwrap_or(Radii { first: 1.0, step: 1.0 });
                            searcher.nearest(
                                queries,
                                u32::try_from(k).unwrap_or(u32::MAX),
                                method,
                                radii,
                            )
                        }
                    };
                    Ok(found.map_err(Failure::gpu)?.ok_or_else(none)?.1)
                })?;
                self.keep((name, points.len(), queries.len()), &text, search, seconds, brute);
            }
            for batch in
                BATCHES.into_iter().filter(|&batch| batch < queries.len()).chain([queries.len()])
            {
                let numbers = (0..u32::try_from(batch).unwrap_or(u32::MAX)).collect();
                let some = Subset::new(queries, numbers);
                let host = self.median(|| {
                    let start = Instant::now();
                    let _ = own.answer(&some, question, super::super::all_cores());
                    Ok(start.elapsed().as_secs_f64())
                })?;
                let search = "own, host to host";
                self.keep((name, points.len(), batch), &text, search, host, brute);
            }
        }
        Ok(())
    }

    /// Of as many runs as the flags say, after one that warms up.
    fn median(&self, run: impl Fn() -> Result<f64, Failure>) -> Result<f64, Failure> {
        run()?;
        let mut times =
            (0..self.flags.runs.max(1)).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    fn keep(
        &mut self,
        (space, points, queries): (&'static str, usize, usize),
        question: &str,
        search: &str,
        seconds: f64,
        brute: f64,
    ) {
        let each = seconds / queries.max(1) as f64;
        self.measured.push(Measured {
            space,
            points,
            queries,
            question: question.to_owned(),
            search: search.to_owned(),
            milliseconds: seconds * 1e3,
            microseconds_a_query: each * 1e6,
            speedup: brute / each,
        });
    }

    fn told(self, files: Files) -> Outcome {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "space",
            "query",
            "search",
            "queries",
            "ms",
            "us a query",
            "against one CPU thread",
        ]);
        for one in &self.measured {
            table.add_row([
                format!("{} {}", one.points, one.space),
                one.question.clone(),
                one.search.clone(),
                one.queries.to_string(),
                format!("{:.3}", one.milliseconds),
                format!("{:.3}", one.microseconds_a_query),
                format!("{:.1}", one.speedup),
            ]);
        }
        for column in table.column_iter_mut().skip(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let Files { json, figures, printed } = files;
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
        for (name, mut out) in figures {
            let space = if name.contains("words") { "words" } else { "vectors" };
            let svg = self.throughput(space).svg(Colors::Own) + "\n";
            out.write_all(svg.as_bytes()).map_err(|error| out.error(error))?;
            out.commit()?;
        }
        if let Some(mut out) = printed {
            writeln!(out, "{table}")?;
            out.commit()?;
        }
        Ok(())
    }

    /// Section 4.3.3: throughput against the number of queries that are answered together.
    fn throughput(&self, space: &str) -> Chart {
        let own: Vec<&Measured> = self
            .measured
            .iter()
            .filter(|one| one.space == space && one.search.starts_with("own"))
            .collect();
        let mut questions: Vec<&str> = own.iter().map(|one| one.question.as_str()).collect();
        questions.dedup();
        let rate = |one: &Measured| 1e6 / one.microseconds_a_query;
        let most = own.iter().map(|one| rate(one)).fold(10.0, f64::max);
        let least = own.iter().map(|one| rate(one)).fold(most, f64::min);
        let decade = |value: f64, up: bool| {
            let exponent = libm::log10(value);
            let whole = if up { libm::ceil(exponent) } else { libm::floor(exponent) };
            libm::pow(10.0, whole)
        };
        let batches = own.iter().map(|one| one.queries).max().unwrap_or(1).max(10);
        let x =
            Axis::new("queries together", 1.0, decade(batches as f64, true), Scale::Logarithmic);
        let y = Axis::new(
            "queries a second",
            decade(least, false),
            decade(most, true),
            Scale::Logarithmic,
        );
        let line = |(class, question): (usize, &&str)| Mark::Line {
            class,
            points: own
                .iter()
                .filter(|one| one.question == **question)
                .map(|one| (one.queries as f64, rate(one)))
                .collect(),
            name: (*question).to_owned(),
        };
        let marks = questions.iter().enumerate().map(line).collect();
        let title = format!("Throughput against the size of batches: {space}, host to host");
        Chart { size: (620.0, 380.0), ..Chart::new(title, x, y, marks) }
    }
}
