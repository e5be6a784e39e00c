//! `metric-index bench cordeiro`: the tables of Cordeiro 2023, with the search of this program for
//! comparison.

use std::io::Write;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::Arc;

use array_file::output::Output;
use clap::Args;
use comfy_table::{Table, presets};
use metric_index::Question;
use metric_index::generate::Random;
use metric_index::gpu::GpuSearch;
use metric_index::index::BruteForce;
use metric_index::metric::Euclidean;
use metric_index::points::Vectors;
use metric_papers::cordeiro::{Method, Searcher};
use rayon::prelude::*;

use crate::device::DeviceFlag;
use crate::failure::{Failure, Outcome, refused};
use crate::talk::Talk;

/// Nearest neighbors of vectors by PPK, PPB, SBQ-KNN and the search of this program: median
/// milliseconds in kernels
#[derive(Debug, Args)]
pub(crate) struct Cordeiro {
    /// Numbers of points and dimensions, filled with normal random numbers; by default those of the
    /// paper's data sets
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

/// Approximately normal random numbers: sums of six uniform ones.
pub(super) fn normal(count: usize, dimension: usize, seed: u64) -> Result<Vectors<f32>, Failure> {
    let mut values = vec![0f32; count * dimension];
    values.par_chunks_mut(1 << 16).enumerate().for_each(|(chunk, values)| {
        let mut random = Random::new(seed << 32 | chunk as u64);
        for value in values {
            let two = [random.below(1 << 48), random.below(1 << 48)];
            let six = two.iter().flat_map(|&bits| (0..3).map(move |i| bits >> (16 * i) & 0xFFFF));
            let sum: f32 = six.map(|part| part as f32 / 65_536.0 - 0.5).sum();
            *value = sum * std::f32::consts::SQRT_2;
        }
    });
    Vectors::new(values, dimension).map_err(refused)
}

/// The shape of a set of vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) points: usize,
    pub(super) dimension: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('x').and_then(|(points, dimension)| {
            Some(Self { points: points.parse().ok()?, dimension: dimension.parse().ok()? })
        });
        numbers
            .filter(|shape| shape.points > 0 && shape.dimension > 0)
            .ok_or_else(|| format!("{text}, expected POINTSxDIMENSIONS"))
    }
}

/// The searches that are compared.
struct Searches {
    papers: Searcher,
    own: GpuSearch<BruteForce<Vectors<f32>, Euclidean>>,
}

impl Cordeiro {
    pub(crate) fn run(&self, talk: Talk) -> Outcome {
        let mut out = Output::standard()?;
        let shapes: Result<Vec<Shape>, String> =
            self.shapes.iter().map(|shape| shape.parse()).collect();
        let shapes = shapes.map_err(|error| Failure::usage(format!("--shapes {error}")))?;
        let devices = self.device.open(talk)?;
        let [device] = &*devices else {
            return Err(Failure::usage(
                "bench cordeiro measures one GPU; use --device cuda or cuda:N".to_owned(),
            ));
        };
        talk.say(&format!("{}; seed {}", device.info().name, self.seed));
        for Shape { points: count, dimension } in shapes {
            let points = normal(count, dimension, self.seed)?;
            let papers = Searcher::new(device, &points).map_err(Failure::gpu)?;
            let index = Arc::new(BruteForce::new(points, Euclidean).map_err(refused)?);
            let own = GpuSearch::new(std::slice::from_ref(device), index).map_err(Failure::gpu)?;
            let own = own.ok_or_else(|| Failure::input("this GPU is too old".to_owned()))?;
            let searches = Searches { papers, own };
            let mut table = Table::new();
            table.load_style(presets::ASCII_MARKDOWN);
            let head = self.queries.iter().map(|queries| format!("|Q| = {queries}"));
            let titles = ["k".to_owned(), "method".to_owned()];
            table.set_header(titles.into_iter().chain(head));
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
                        if let (true, Some(time)) = (self.json, time) {
                            let line = serde_json::json!({
                                "points": count, "dimensions": dimension, "k": k,
                                "queries": queries, "method": name, "milliseconds": time,
                            });
                            writeln!(out, "{line}")?;
                        }
                    }
                    table.add_row(row);
                }
            }
            if !self.json {
                writeln!(out, "{count} points, {dimension} dimensions, milliseconds\n{table}")?;
            }
        }
        out.commit()?;
        Ok(())
    }

    /// The median time in kernels, in milliseconds; `None` if the method does not support k.
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
                let found = searches.papers.nearest(queries, k, method).map_err(Failure::gpu)?;
                let Some(found) = found else { return Ok(None) };
                found.seconds
            } else {
                let question = Question::Nearest(k as usize);
                searches.own.answer(queries, question, NonZero::<usize>::MIN).device_seconds
            };
            times.push(seconds * 1e3);
        }
        // The first run warms up.
        times.remove(0);
        times.sort_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied())
    }
}
