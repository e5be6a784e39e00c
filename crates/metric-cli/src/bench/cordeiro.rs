//! `metric-index bench cordeiro` repeats the tables of Cordeiro 2023 and adds the search of this
//! program for comparison.

use std::num::NonZero;
use std::sync::Arc;

use clap::Args;
use metric_index::Question;
use metric_index::gpu::GpuSearch;
use metric_index::index::BruteForce;
use metric_index::metric::Euclidean;
use metric_index::points::Vectors;
use metric_papers::cordeiro::{Method, Searcher};

use super::data::{Shape, normal};
use super::results::{Results, table};
use crate::device::DeviceFlag;
use crate::failure::{Failure, Outcome, invalid_request};
use crate::verbosity::Verbosity;

/// Measure nearest neighbors of vectors by PPK, PPB, SBQ-KNN and the search of this program: median
/// milliseconds in kernels
#[derive(Debug, Args)]
pub(crate) struct Cordeiro {
    /// Numbers of points and dimensions, filled with normal random numbers; by default the sizes of
    /// the paper's data sets
    #[arg(
        long,
        value_name = "POINTSxDIMENSIONS",
        value_delimiter = ',',
        default_values = ["70000x784", "1275219x128", "3000000x300"],
    )]
    shapes: Vec<String>,
    /// Numbers of queries
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values = ["1", "16", "32", "64", "128"],
    )]
    queries: Vec<usize>,
    /// Numbers of neighbors
    #[arg(short, value_name = "K", value_delimiter = ',', default_values = ["32", "64", "128"])]
    k: Vec<u32>,
    /// Runs of each measurement; the median is shown
    #[arg(long, default_value = "3")]
    runs: NonZero<usize>,
    /// The seed of the vectors and queries
    #[arg(long, default_value = "1")]
    seed: u64,
    /// The GPU: cuda or cuda:N
    #[arg(long, value_name = "WHERE", default_value = "cuda")]
    device: DeviceFlag,
    /// Print JSON lines instead of tables: {"points", "dimensions", "k", "queries", "method",
    /// "milliseconds"}
    #[arg(long)]
    json: bool,
}

/// The searches that are compared.
struct Searches {
    papers: Searcher,
    gpu_search: GpuSearch<BruteForce<Vectors<f32>, Euclidean>>,
}

impl Cordeiro {
    pub(crate) fn run(&self, verbosity: Verbosity) -> Outcome {
        let mut results = Results::open(self.json)?;
        let shapes: Result<Vec<Shape>, String> =
            self.shapes.iter().map(|shape| shape.parse()).collect();
        let shapes = shapes.map_err(|error| Failure::usage(format!("--shapes {error}")))?;
        let device = &self.device.open_one("bench cordeiro", verbosity)?;
        verbosity.say(&format!("{}; seed {}", device.info().name, self.seed));
        for Shape { points: count, dimension } in shapes {
            let points = normal(count, dimension, self.seed)?;
            let papers = Searcher::new(device, &points).map_err(Failure::gpu)?;
            let index = Arc::new(BruteForce::new(points, Euclidean).map_err(invalid_request)?);
            let gpu_search =
                GpuSearch::new(std::slice::from_ref(device), index).map_err(Failure::gpu)?;
            let gpu_search =
                gpu_search.ok_or_else(|| Failure::input("this GPU is too old".to_owned()))?;
            let searches = Searches { papers, gpu_search };
            let head = self.queries.iter().map(|queries| format!("|Q| = {queries}"));
            let mut table = table(["k".to_owned(), "method".to_owned()].into_iter().chain(head));
            for &k in &self.k {
                let methods = [
                    ("PPK", Some(Method::Ppk)),
                    ("PPB", Some(Method::Ppb)),
                    ("SBQ-KNN", Some(Method::Sbq)),
                    ("own", None),
                ];
                for (name, method) in methods {
                    let mut row = vec![k.to_string(), name.to_owned()];
                    for &queries in &self.queries {
                        let batch = normal(queries, dimension, self.seed ^ 0x5EED)?;
                        let time = self.time(&searches, method, &batch, k)?;
                        row.push(time.map_or("-".to_owned(), |time| format!("{time:.3}")));
                        if let Some(time) = time {
                            results.line(serde_json::json!({
                                "points": count, "dimensions": dimension, "k": k,
                                "queries": queries, "method": name, "milliseconds": time,
                            }))?;
                        }
                    }
                    table.add_row(row);
                }
            }
            let title = format!("{count} points, {dimension} dimensions, milliseconds\n");
            results.table(&title, &table)?;
        }
        results.commit()
    }

    /// Returns the median kernel time in milliseconds, or `None` if the method does not support
    /// `k`.
    fn time(
        &self,
        searches: &Searches,
        method: Option<Method>,
        queries: &Vectors<f32>,
        k: u32,
    ) -> Result<Option<f64>, Failure> {
        let mut times = Vec::new();
        for _ in 0..=self.runs.get() {
            let seconds = if let Some(method) = method {
                let answers = searches.papers.nearest(queries, k, method).map_err(Failure::gpu)?;
                let Some(answers) = answers else { return Ok(None) };
                answers.seconds
            } else {
                let question = Question::Nearest(k as usize);
                searches.gpu_search.answer(queries, question, NonZero::<usize>::MIN).device_seconds
            };
            times.push(seconds * 1e3);
        }
        // The first run is a warm-up.
        times.remove(0);
        times.sort_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied())
    }
}
