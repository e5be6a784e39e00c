//! Measures the time per query of dense vector search.
//!
//! `cargo bench --bench dense -- TRAIN.npy QUERIES.npy METRIC K [RUNS [INDEX/THREADS…]]` prints one
//! JSON object per run: `{"engine": …, "cpu_us": …, "wall_us": …, "build_s": …}`.
//! `benches/dense_rivals.py` compares the results with other libraries.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use classify::rows::dense::{Kernel, Metric, Vectors};
use classify::search::{Dense, DenseIndex, NeighborLists, Request, Search};
use classify::threads::Threads;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [train, queries, metric, k, rest @ ..] = arguments.as_slice() else {
        println!("usage: dense TRAIN.npy QUERIES.npy METRIC K [RUNS [INDEX/THREADS...]]");
        return Ok(());
    };
    let metric: Metric = metric.parse()?;
    let k: NonZeroUsize = k.parse()?;
    let runs: usize = rest.first().map_or(Ok(3), |runs| runs.parse())?;
    let engines: Vec<&str> = match rest.get(1..) {
        None | Some([]) => vec!["auto/1", "auto/2"],
        Some(names) => names.iter().map(String::as_str).collect(),
    };
    let training = rows(train, metric)?;
    let queries = rows(queries, metric)?;
    let kernel = Kernel { metric, scale: 1.0 };
    let mut found = NeighborLists::default();
    for &name in &engines {
        let (index, count) = name.split_once('/').unwrap_or((name, "1"));
        let index: DenseIndex = index.parse()?;
        let threads = Threads::new(count.parse()?)?;
        let start = Instant::now();
        let engine = Dense::new(Arc::clone(&training), kernel, index, threads)?;
        let build = start.elapsed().as_secs_f64();
        for _ in 0..runs {
            let start = Instant::now();
            let cpu_start = cpu_seconds();
            let _ = engine.search(&Request::new(queries.view(), k), &mut found)?;
            let wall = start.elapsed().as_secs_f64();
            let cpu = cpu_seconds() - cpu_start;
            let scale = 1e6 / found.len() as f64;
            println!(
                "{{\"engine\": \"{index} ({})/{count}\", \"cpu_us\": {:.2}, \
                 \"wall_us\": {:.2}, \"build_s\": {build:.2}}}",
                engine.kind(),
                cpu * scale,
                wall * scale
            );
        }
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "vectors are stored as f32")]
fn rows(path: &str, metric: Metric) -> Result<Arc<Vectors>, Box<dyn std::error::Error>> {
    let read = vector_file::open(Path::new(path))?;
    let mut values = read.values;
    if metric == Metric::Angular {
        for row in values.chunks_exact_mut(read.dimension) {
            let length = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            for value in row.iter_mut().filter(|_| length > 0.0) {
                *value = (f64::from(*value) / length) as f32;
            }
        }
    }
    Ok(Arc::new(Vectors::new(read.dimension, values)?))
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
