//! `metric-index bench multi-gpu` compares one GPU with several, with all points on each GPU and
//! with the points split over them.
//!
//! With `--words`, it also measures the 1-Stage and 2-Stage searches of Barrientos et al. 2012,
//! section VII-C.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use comfy_table::Table;
use metric_index::Question;
use metric_papers::barrientos::{Method, OneStage, Radii, TwoStage, learn_radii};

use metric_index::gpu::{Device, GpuPoint, GpuSearch, Layout};
use metric_index::index::{BruteForce, ClusterSize, Index, ListOfClusters};
use metric_index::metric::{Edit, Euclidean};
use metric_index::points::{Points, Strings};

use super::data::{Shape, Words, normal};
use super::results::{Results, align, table};
use crate::device::DeviceFlag;
use crate::failure::{Failure, Outcome, invalid_request};
use crate::verbosity::Verbosity;

/// Measure time and speedup of one GPU and of several, from host to host and in kernels
#[derive(Debug, Args)]
pub(crate) struct MultiGpu {
    /// A file with one word per line: range queries with radius 1, 2 and 3, and 10 nearest
    /// neighbors
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
    /// Shape of normal random vectors: 32 nearest neighbors
    #[arg(long, value_name = "POINTSxDIMENSIONS", default_value = "1000000x128")]
    shape: String,
    /// Number of queries
    #[arg(long, default_value = "65536")]
    queries: NonZero<usize>,
    /// Runs of each measurement; the median is shown
    #[arg(long, default_value = "5")]
    runs: NonZero<usize>,
    /// The seed of the vectors and queries
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

/// The measured times of a search on one or several GPUs.
#[derive(Debug, serde::Serialize)]
struct Measurement {
    what: String,
    gpus: usize,
    layout: &'static str,
    queries: usize,
    host_milliseconds: f64,
    kernel_milliseconds: f64,
    /// Speedup over one GPU, from host to host.
    host_speedup: f64,
    kernel_speedup: f64,
}

/// The time of a run, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// From host to host.
    host: f64,
    /// In kernels.
    kernel: f64,
}

impl Time {
    /// Returns the run with the median time from host to host. The first run is a warm-up and is
    /// ignored.
    fn median(mut runs: Vec<Self>) -> Self {
        runs.remove(0);
        runs.sort_by(|a, b| a.host.total_cmp(&b.host));
        runs[runs.len() / 2]
    }
}

/// The measurements of one kind of search, on one GPU and on several.
struct Scaling<'a> {
    what: String,
    queries: usize,
    /// The time on one GPU, once it is known.
    baseline: Option<Time>,
    measurements: &'a mut Vec<Measurement>,
}

impl Scaling<'_> {
    fn push(&mut self, gpus: usize, layout: &'static str, time: Time) {
        let baseline = *self.baseline.get_or_insert(time);
        self.measurements.push(Measurement {
            what: self.what.clone(),
            gpus,
            layout,
            queries: self.queries,
            host_milliseconds: time.host,
            kernel_milliseconds: time.kernel,
            host_speedup: baseline.host / time.host,
            kernel_speedup: baseline.kernel / time.kernel,
        });
    }
}

impl MultiGpu {
    pub(crate) fn run(&self, verbosity: Verbosity) -> Outcome {
        let mut results = Results::open(self.json)?;
        let devices = DeviceFlag::All.open(verbosity)?;
        verbosity.say(&format!(
            "{} x {}; seed {}",
            devices.len(),
            devices[0].info().name,
            self.seed
        ));
        let mut measurements = Vec::new();
        if let Some(file) = &self.words {
            let Words { points, queries } = Words::repeated(file, self.queries.get(), self.seed)?;
            let index = Arc::new(BruteForce::new(points, Edit).map_err(invalid_request)?);
            for radius in [1.0, 2.0, 3.0] {
                let what = format!("{} words, radius {radius}", index.len());
                let scaling = Scaling {
                    what,
                    queries: queries.len(),
                    baseline: None,
                    measurements: &mut measurements,
                };
                self.measure(&devices, &index, &queries, Question::Within(radius), scaling)?;
            }
            let what = format!("{} words, 10 nearest", index.len());
            let scaling = Scaling {
                what,
                queries: queries.len(),
                baseline: None,
                measurements: &mut measurements,
            };
            self.measure(&devices, &index, &queries, Question::Nearest(10), scaling)?;
            let size = ClusterSize::Points(32);
            let list =
                ListOfClusters::build(index.points(), Edit, size).map_err(invalid_request)?;
            for question in [Question::Within(1.0), Question::Within(2.0), Question::Nearest(8)] {
                self.measure_stages(&devices, &list, &queries, question, &mut measurements)?;
            }
        }
        let shape = self.shape.parse();
        let shape: Shape = shape.map_err(|error| Failure::usage(format!("--shape {error}")))?;
        let Shape { points: count, dimension } = shape;
        let points = normal(count, dimension, self.seed)?;
        let queries = normal(self.queries.get(), dimension, self.seed ^ 0x5EED)?;
        let index = Arc::new(BruteForce::new(points, Euclidean).map_err(invalid_request)?);
        let what = format!("{count} x {dimension}, 32 nearest");
        let scaling = Scaling {
            what,
            queries: queries.len(),
            baseline: None,
            measurements: &mut measurements,
        };
        self.measure(&devices, &index, &queries, Question::Nearest(32), scaling)?;
        for measurement in &measurements {
            results.line(measurement)?;
        }
        results.table("", &table_of(&measurements))?;
        results.commit()
    }

    /// Measures brute force on one GPU and on several.
    fn measure<I: Index + Send>(
        &self,
        devices: &[Device],
        index: &Arc<I>,
        queries: &I::Points,
        question: Question,
        mut scaling: Scaling<'_>,
    ) -> Outcome
    where
        <I::Points as Points>::Point: GpuPoint,
    {
        for gpus in 1..=devices.len() {
            for layout in [Layout::Replicated, Layout::Sharded] {
                if gpus == 1 && layout == Layout::Sharded {
                    continue;
                }
                let devices = &devices[..gpus];
                let search = GpuSearch::with_layout(devices, Arc::clone(index), layout, usize::MAX);
                let search = search.map_err(Failure::gpu)?;
                let search =
                    search.ok_or_else(|| Failure::input("this GPU is too old".to_owned()))?;
                let mut times = Vec::new();
                for _ in 0..=self.runs.get() {
                    let start = Instant::now();
                    let answers = search.answer(queries, question, crate::threads::all_cores());
                    times.push(Time {
                        host: start.elapsed().as_secs_f64() * 1e3,
                        kernel: answers.device_seconds * 1e3,
                    });
                    if answers.fell_back > 0 || !answers.failed.is_empty() {
                        let text = format!("{} queries fell back to the CPU", answers.fell_back);
                        return Err(Failure::input(text));
                    }
                }
                let layout = match layout {
                    Layout::Replicated => "replicated",
                    Layout::Sharded => "sharded",
                };
                scaling.push(gpus, layout, Time::median(times));
            }
        }
        Ok(())
    }
}

impl MultiGpu {
    /// Measures the 1-Stage and 2-Stage searches of Barrientos et al. 2012 with a List of Clusters.
    fn measure_stages(
        &self,
        devices: &[Device],
        list: &ListOfClusters<&Strings, Edit>,
        queries: &Strings,
        question: Question,
        measurements: &mut Vec<Measurement>,
    ) -> Outcome {
        /// Number of threads per block.
        const THREADS: u32 = 128;
        let unsupported =
            || Failure::input("the List of Clusters does not support the words".to_owned());
        let (what, radii) = match question {
            Question::Within(radius) => {
                (format!("radius {radius}"), Radii { first: radius, step: 0.0 })
            }
            Question::Nearest(k) => {
                (format!("{k} nearest"), learn_radii(list, k).map_err(invalid_request)?)
            }
        };
        let to_u32 = |k| u32::try_from(k).unwrap_or(u32::MAX);
        for (layout, is_one_stage) in
            [("List of Clusters, 1-Stage", true), ("List of Clusters, 2-Stage", false)]
        {
            let what = format!("{} words, {what}", list.len());
            let mut scaling =
                Scaling { what, queries: queries.len(), baseline: None, measurements };
            for gpus in 1..=devices.len() {
                let devices = &devices[..gpus];
                let one_stage = is_one_stage.then(|| OneStage::clusters(devices, list, THREADS));
                let two_stage = (!is_one_stage).then(|| TwoStage::clusters(devices, list, THREADS));
                let one_stage = one_stage.transpose().map_err(Failure::gpu)?.flatten();
                let two_stage = two_stage.transpose().map_err(Failure::gpu)?.flatten();
                let mut times = Vec::new();
                for _ in 0..=self.runs.get() {
                    let start = Instant::now();
                    let answers = match (&one_stage, &two_stage, question) {
                        (Some(search), _, Question::Nearest(k)) => {
                            search.nearest(queries, to_u32(k), Method::Clusters, radii)
                        }
                        (Some(search), _, Question::Within(radius)) => {
                            search.range(queries, radius, Method::Clusters)
                        }
                        (None, Some(search), Question::Nearest(k)) => {
                            search.nearest(queries, to_u32(k), radii)
                        }
                        (None, Some(search), Question::Within(radius)) => {
                            search.range(queries, radius)
                        }
                        (None, None, _) => Ok(None),
                    };
                    let answers = answers.map_err(Failure::gpu)?.ok_or_else(unsupported)?;
                    times.push(Time {
                        host: start.elapsed().as_secs_f64() * 1e3,
                        kernel: answers.seconds * 1e3,
                    });
                }
                scaling.push(gpus, layout, Time::median(times));
            }
        }
        Ok(())
    }
}

fn table_of(measurements: &[Measurement]) -> Table {
    let mut table = table([
        "search",
        "GPUs",
        "points",
        "queries",
        "host ms",
        "kernel ms",
        "host speedup",
        "kernel speedup",
    ]);
    for measurement in measurements {
        table.add_row([
            measurement.what.clone(),
            measurement.gpus.to_string(),
            measurement.layout.to_owned(),
            measurement.queries.to_string(),
            format!("{:.2}", measurement.host_milliseconds),
            format!("{:.2}", measurement.kernel_milliseconds),
            format!("{:.2}", measurement.host_speedup),
            format!("{:.2}", measurement.kernel_speedup),
        ]);
    }
    align(&mut table, 3);
    table
}
