//! `metric-index bench karelis` repeats the figures of Karelis 2020: the time to build trees on a
//! GPU, and the number of nodes that searches visit.

use std::time::Instant;

use clap::Args;
use metric_index::gpu::Device;
use metric_index::index::{KdTree, VpTree};
use metric_index::metric::Euclidean;
use metric_index::points::Points;
use metric_papers::karelis::{TreeSearch, build_kd_tree, build_vp_tree};

use super::data::uniform;
use super::results::{Results, align, table};
use crate::device::DeviceFlag;
use crate::failure::{Failure, Outcome, invalid_request};
use crate::threads::start_threads;
use crate::verbosity::Verbosity;

/// Measure VP-trees and KD-trees of uniform random vectors: building time on the GPU and on all CPU
/// threads, and number of visited nodes by k and dimension
#[derive(Debug, Args)]
pub(crate) struct Karelis {
    /// Numbers of points of the trees to build; their dimension is the first of --dimensions
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values = ["10000", "100000", "1000000"],
    )]
    points: Vec<usize>,
    /// Dimensions
    #[arg(
        long,
        value_name = "D",
        value_delimiter = ',',
        default_values = ["2", "4", "8", "16", "32"],
    )]
    dimensions: Vec<usize>,
    /// Numbers of neighbors
    #[arg(short, value_name = "K", value_delimiter = ',', default_values = ["1", "8", "32", "128"])]
    k: Vec<u32>,
    /// Number of points of the trees to search
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    searched: usize,
    /// Number of queries
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    queries: usize,
    /// The seed of the vectors
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The GPU: cuda or cuda:N
    #[arg(long, value_name = "WHERE", default_value = "cuda")]
    device: DeviceFlag,
    /// Print JSON lines instead of tables
    #[arg(long)]
    json: bool,
}

impl Karelis {
    pub(crate) fn run(&self, verbosity: Verbosity) -> Outcome {
        let mut results = Results::open(self.json)?;
        let Some(&first) = self.dimensions.first().filter(|&&dimension| dimension > 0) else {
            return Err(Failure::usage("--dimensions must be at least 1".to_owned()));
        };
        let device = &self.device.open_one("bench karelis", verbosity)?;
        start_threads(None)?;
        verbosity.say(&format!("{}; seed {}", device.info().name, self.seed));
        self.measure_building(device, first, &mut results)?;
        self.measure_searches(device, &mut results)?;
        results.commit()
    }

    fn measure_building(
        &self,
        device: &Device,
        dimension: usize,
        results: &mut Results,
    ) -> Outcome {
        let mut table = table(["points", "VP, GPU ms", "VP, CPU ms", "KD, GPU ms", "KD, CPU ms"]);
        // The first launches take longer, so they are not measured.
        let warm_up = uniform(1_000, dimension, self.seed)?;
        build_vp_tree(device, warm_up.clone()).map_err(Failure::gpu)?.map_err(invalid_request)?;
        build_kd_tree(device, warm_up).map_err(Failure::gpu)?.map_err(invalid_request)?;
        for &count in &self.points {
            let points = uniform(count, dimension, self.seed)?;
            let vp = build_vp_tree(device, points.clone())
                .map_err(Failure::gpu)?
                .map_err(invalid_request)?;
            let kd = build_kd_tree(device, points.clone())
                .map_err(Failure::gpu)?
                .map_err(invalid_request)?;
            let start = Instant::now();
            VpTree::build(&points, Euclidean).map_err(invalid_request)?;
            let vp_cpu = start.elapsed().as_secs_f64();
            let start = Instant::now();
            KdTree::build(&points, Euclidean).map_err(invalid_request)?;
            let kd_cpu = start.elapsed().as_secs_f64();
            let times = [vp.seconds, vp_cpu, kd.seconds, kd_cpu].map(|seconds| seconds * 1e3);
            results.line(serde_json::json!({
                    "points": count, "dimensions": dimension, "vp_gpu_ms": times[0],
                    "vp_cpu_ms": times[1], "kd_gpu_ms": times[2], "kd_cpu_ms": times[3],
            }))?;
            let cells = times.map(|time| format!("{time:.2}"));
            table.add_row([count.to_string()].into_iter().chain(cells));
        }
        align(&mut table, 0);
        results.table(&format!("Trees of uniform vectors with {dimension} dimensions\n"), &table)
    }

    fn measure_searches(&self, device: &Device, results: &mut Results) -> Outcome {
        let mut table = table([
            "dimensions",
            "k",
            "VP, nodes",
            "KD, nodes",
            "VP, us per query",
            "KD, us per query",
        ]);
        for &dimension in &self.dimensions {
            let points = uniform(self.searched, dimension, self.seed)?;
            let queries = uniform(self.queries, dimension, self.seed ^ 0x5EED)?;
            let vp = VpTree::build(points.clone(), Euclidean).map_err(invalid_request)?;
            let kd = KdTree::build(points, Euclidean).map_err(invalid_request)?;
            let searches = [
                TreeSearch::of_vp_tree(device, &vp).map_err(Failure::gpu)?,
                TreeSearch::of_kd_tree(device, &kd).map_err(Failure::gpu)?,
            ];
            for &k in &self.k {
                let mut nodes = Vec::new();
                let mut times = Vec::new();
                for search in &searches {
                    let answers = search.nearest(&queries, k).map_err(Failure::gpu)?;
                    let Some(answers) = answers else {
                        return Err(Failure::usage("too many queries and neighbors".to_owned()));
                    };
                    let visited: u64 = answers.visited.iter().copied().map(u64::from).sum();
                    nodes.push(visited as f64 / queries.len().max(1) as f64);
                    times.push(answers.seconds * 1e6 / queries.len().max(1) as f64);
                }
                results.line(serde_json::json!({
                        "points": self.searched, "dimensions": dimension, "k": k,
                        "vp_nodes": nodes[0], "kd_nodes": nodes[1],
                        "vp_us": times[0], "kd_us": times[1],
                }))?;
                let numbers = [dimension.to_string(), k.to_string()];
                let nodes = nodes.iter().map(|nodes| format!("{nodes:.1}"));
                let times = times.iter().map(|time| format!("{time:.2}"));
                table.add_row(numbers.into_iter().chain(nodes).chain(times));
            }
        }
        align(&mut table, 0);
        let title = format!(
            "\nNodes visited in trees of {} points, mean of {} queries\n",
            self.searched, self.queries
        );
        results.table(&title, &table)
    }
}
