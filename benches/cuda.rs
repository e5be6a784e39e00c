//! Measures the GPU engines on RCV1-like rows (`classify generate rcv1-like`, seed 0).
//!
//! `cargo bench --bench cuda -- PART...`, where each part is one of:
//!
//! * `full`: the whole test set with the fused engine: device time, and time from host to host
//! * `several`: the whole test set on 1, 2, ... GPUs, from host to host
//! * `paper`: 10,000 queries with every algorithm of the paper
//! * `small`: 1 to 4,096 queries
//! * `dump DIR`: writes the rows of the whole set for `benches/gpu_rivals/rivals.py`
//! * `scaling`: 23 K, 100 K, 781 K and 5 M training rows, with k = 10, 100 and 1,000
//!
//! Times are medians. Device times are measured by CUDA events and exclude copies. "Host to host"
//! is the time of `Search::search` with reused lists.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use classify::rows::generate::{RCV1_DOCUMENTS, RCV1_TRAINING_DOCUMENTS, rcv1_like_rows};
use classify::rows::matrix::{Csr, CsrBuilder};
use classify::search::{
    Cuda, CudaEngine, CudaOptions, GridMemory, NeighborLists, Request, Search, SeveralGpus,
};
use classify::threads::Threads;
use gpu_runtime::Device;
use rayon::prelude::*;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if parts.is_empty() {
        println!("usage: cuda PART... (full, several, paper, small, dump DIR or scaling)");
        return Ok(());
    }
    let device = match Device::open_best() {
        Ok(device) => device,
        Err(error) => {
            println!("cuda: {error}");
            return Ok(());
        }
    };
    let info = device.info();
    println!("{}, {} multiprocessors, CUDA {}", info.name, info.multiprocessors, info.driver);
    let has = |part: &str| parts.iter().any(|p| p == part);
    let test = if has("full") || has("several") || has("dump") {
        RCV1_DOCUMENTS - RCV1_TRAINING_DOCUMENTS
    } else {
        10_000
    };
    if has("full") || has("several") || has("paper") || has("small") || has("dump") {
        let start = Instant::now();
        let rows = rcv1_like_rows(RCV1_TRAINING_DOCUMENTS, test, 0);
        let first_queries = first(&rows.test, 10_000);
        let adds = multiply_adds(&rows.training, &rows.test);
        println!(
            "{} x {} training rows, {} entries; {} queries of {:.1} terms, \
             {adds:.0} multiply-adds each; generated in {:.0} s",
            rows.training.rows(),
            rows.training.cols(),
            rows.training.nnz(),
            rows.test.rows(),
            rows.test.nnz() as f64 / rows.test.rows() as f64,
            start.elapsed().as_secs_f64(),
        );
        if let Some(index) = parts.iter().position(|part| part == "dump") {
            let folder = parts.get(index + 1).ok_or("dump takes a folder")?;
            dump(Path::new(folder), &rows.training, &rows.test)?;
        }
        if has("full") {
            full(&device, &rows.training, &rows.test, adds)?;
        }
        if has("paper") {
            paper(&device, &rows.training, &first_queries)?;
        }
        if has("several") {
            several(&rows.training, &rows.test)?;
        }
        if has("small") {
            small(&device, &rows.training, &first_queries)?;
        }
    }
    if has("scaling") {
        scaling(&device)?;
    }
    Ok(())
}

fn engine(device: &Device, training: &Arc<Csr>, engine: CudaEngine) -> Outcome<Cuda> {
    let options = CudaOptions { fall_back: false, ..CudaOptions::new(engine) };
    Ok(Cuda::new(Arc::clone(training), device.clone(), options, Threads::available()?)?)
}

fn first(rows: &Csr, count: usize) -> Csr {
    let mut builder = CsrBuilder::default();
    for (columns, values) in rows.iter().take(count) {
        builder.push_slices(columns, values);
    }
    builder.build(rows.cols())
}

/// Returns the number of multiply-adds per query, which is the number of postings of its terms.
fn multiply_adds(training: &Csr, queries: &Csr) -> f64 {
    let mut frequencies = vec![0u64; training.cols()];
    for &term in training.indices() {
        frequencies[term as usize] += 1;
    }
    let sum: u64 = queries.indices().iter().map(|&term| frequencies[term as usize]).sum();
    sum as f64 / queries.rows() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn k(k: usize) -> NonZeroUsize {
    NonZeroUsize::new(k).expect("k is at least 1")
}

/// Returns the median device time of several runs in seconds, after a warm-up run.
fn device_time(engine: &Cuda, queries: &Csr, neighbors: usize, runs: usize) -> Outcome<f64> {
    let seconds = engine.device_seconds(&Request::new(queries, k(neighbors)), runs + 1)?;
    Ok(median(seconds[1..].to_vec()))
}

fn host_time(engine: &dyn Search, queries: &Csr, neighbors: usize, runs: usize) -> Outcome<f64> {
    let mut lists = NeighborLists::default();
    let mut times = Vec::new();
    for _ in 0..=runs {
        let start = Instant::now();
        let _ = engine.search(&Request::new(queries, k(neighbors)), &mut lists)?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(times[1..].to_vec()))
}

fn full(device: &Device, training: &Arc<Csr>, queries: &Csr, adds: f64) -> Outcome<()> {
    let start = Instant::now();
    let fused = engine(device, training, CudaEngine::Fused)?;
    println!("index built and loaded in {:.2} s", start.elapsed().as_secs_f64());
    for neighbors in [10, 30, 100] {
        let seconds = device_time(&fused, queries, neighbors, 7)?;
        println!(
            "fused, {} queries, k = {neighbors}: device {:.2} ms, {:.2}e12 multiply-adds/s",
            queries.rows(),
            seconds * 1e3,
            adds * queries.rows() as f64 / seconds / 1e12
        );
    }
    let seconds = host_time(&fused, queries, 30, 9)?;
    println!("fused, k = 30: host to host {:.2} ms (reused lists)", seconds * 1e3);
    Ok(())
}

fn several(training: &Arc<Csr>, queries: &Csr) -> Outcome<()> {
    let devices: Vec<Device> = gpu_runtime::devices()?
        .iter()
        .map(|info| Device::open(info.ordinal))
        .collect::<Result<_, _>>()?;
    let options = CudaOptions { fall_back: false, ..CudaOptions::new(CudaEngine::Fused) };
    let mut one = None;
    for gpus in 1..=devices.len() {
        let threads = Threads::available()?;
        let engine = SeveralGpus::engine(training, &devices[..gpus], options, &threads)?;
        let seconds = host_time(&*engine, queries, 30, 9)?;
        let speedup = *one.get_or_insert(seconds) / seconds;
        let milliseconds = seconds * 1e3;
        println!("{gpus} GPUs, k = 30: host to host {milliseconds:.2} ms, {speedup:.2} x one");
    }
    Ok(())
}

fn paper(device: &Device, training: &Arc<Csr>, queries: &Csr) -> Outcome<()> {
    let mut engines = vec![("fused".to_owned(), CudaEngine::Fused)];
    for threads in [32, 64, 128, 256] {
        engines.push((format!("base {threads}"), CudaEngine::Base { threads }));
    }
    for threads in [32, 64, 128, 256] {
        engines.push((format!("shared {threads}"), CudaEngine::Shared { threads }));
    }
    for memory in [GridMemory::Texture, GridMemory::ReadOnly] {
        for documents in [32, 64, 128, 256] {
            for threads in [64, 128, 256] {
                let name = format!("grid {documents} x {threads} {memory:?}");
                engines.push((name, CudaEngine::Grid { documents, threads, memory }));
            }
        }
    }
    for (name, kind) in engines {
        let engine = engine(device, training, kind)?;
        let seconds = device_time(&engine, queries, 30, 3)?;
        println!("{name:28}{:9.3} us a query", seconds / queries.rows() as f64 * 1e6);
    }
    Ok(())
}

fn small(device: &Device, training: &Arc<Csr>, queries: &Csr) -> Outcome<()> {
    let fused = engine(device, training, CudaEngine::Fused)?;
    let memory = GridMemory::Texture;
    let grid = engine(device, training, CudaEngine::Grid { documents: 256, threads: 128, memory })?;
    println!("{:>8} {:>12} {:>12} {:>12}", "queries", "fused us", "host us", "grid us");
    for count in [1, 2, 4, 16, 64, 132, 256, 512, 1_024, 4_096] {
        let first_queries = first(queries, count);
        println!(
            "{count:>8} {:>12.2} {:>12.2} {:>12.2}",
            device_time(&fused, &first_queries, 30, 21)? * 1e6,
            host_time(&fused, &first_queries, 30, 21)? * 1e6,
            device_time(&grid, &first_queries, 30, 5)? * 1e6,
        );
    }
    Ok(())
}

/// Returns the training rows of sixteen corpora with different seeds, generated in parallel, and
/// queries from the first corpus.
fn generate(rows: u64, queries: u64) -> (Arc<Csr>, Csr) {
    const CORPORA: u64 = 16;
    let corpora: Vec<_> = (0..CORPORA)
        .into_par_iter()
        .map(|seed| {
            let corpus_rows = rows / CORPORA + u64::from(seed < rows % CORPORA);
            rcv1_like_rows(corpus_rows, if seed == 0 { queries } else { 0 }, seed)
        })
        .collect();
    let mut training = CsrBuilder::default();
    for part in &corpora {
        for (columns, values) in part.training.iter() {
            training.push_slices(columns, values);
        }
    }
    (Arc::new(training.build(corpora[0].training.cols())), corpora[0].test.clone())
}

/// Writes little-endian arrays: `NAME.ptr` u64, `NAME.cols` u32, `NAME.vals` f32, and `shape.json`.
fn dump(folder: &Path, training: &Csr, test: &Csr) -> Outcome<()> {
    std::fs::create_dir_all(folder)?;
    for (name, rows) in [("training", training), ("test", test)] {
        let file = |array: &str| folder.join(format!("{name}.{array}"));
        std::fs::write(file("ptr"), bytemuck::cast_slice(rows.indptr()))?;
        std::fs::write(file("cols"), bytemuck::cast_slice(rows.indices()))?;
        std::fs::write(file("vals"), bytemuck::cast_slice(rows.data()))?;
    }
    std::fs::write(folder.join("shape.json"), format!("{{\"terms\": {}}}", training.cols()))?;
    Ok(())
}

fn scaling(device: &Device) -> Outcome<()> {
    println!(
        "{:>10} {:>8} {:>6} {:>12} {:>14} {:>10}",
        "rows", "queries", "k", "us a query", "1e12 adds/s", "MiB"
    );
    for rows in [23_149, 100_000, 781_265, 5_000_000] {
        let (training, queries) = generate(rows, if rows > 1_000_000 { 4_096 } else { 20_000 });
        let free = device.free()?;
        let start = Instant::now();
        let engine = engine(device, &training, CudaEngine::Fused)?;
        let built = start.elapsed().as_secs_f64();
        let used = free.saturating_sub(device.free()?);
        let adds = multiply_adds(&training, &queries);
        for neighbors in [10, 100, 1_000] {
            let seconds = device_time(&engine, &queries, neighbors, 3)?;
            println!(
                "{rows:>10} {:>8} {neighbors:>6} {:>12.3} {:>14.3} {:>10}",
                queries.rows(),
                seconds / queries.rows() as f64 * 1e6,
                adds * queries.rows() as f64 / seconds / 1e12,
                used >> 20,
            );
        }
        println!(
            "{rows:>10} rows built and loaded in {built:.1} s, {adds:.0} multiply-adds per query"
        );
    }
    Ok(())
}
