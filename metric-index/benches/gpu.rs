//! Measures nearest-neighbor search on a GPU: kernel time on the device, and time from host to host
//! including copies.
//!
//! Run `cargo bench -p metric-index --bench gpu -- [POINTSxDIMENSION ... | WORDS ...]`. For each
//! shape, the benchmark searches standard normal vectors for 32 and 128 neighbors. The default
//! shapes are from Cordeiro 2023. `benches/gpu_rivals.py` measures the same with `PyTorch`. In each
//! file of words, 10,000 words are queries, half of them with one letter changed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::fmt::Write;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use metric_index::Question;
use metric_index::generate::{Random, held_out};
use metric_index::gpu::{Device, GpuSearch};
use metric_index::index::BruteForce;
use metric_index::metric::{Edit, Euclidean};
use metric_index::points::{Points, Strings, Subset, Vectors};
use rayon::prelude::*;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Number of word queries measured one at a time.
const SINGLE_QUERIES: u32 = 1_000;
/// Number of runs whose median is reported.
const RUNS: usize = 7;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let shapes: Vec<&str> = if arguments.is_empty() {
        vec!["70000x784", "1275219x128", "3000000x300"]
    } else {
        arguments.iter().map(String::as_str).collect()
    };
    let device = match Device::open_best() {
        Ok(device) => device,
        Err(error) => {
            println!("gpu: {error}");
            return Ok(());
        }
    };
    println!("{}; milliseconds: device, host to host", device.info().name);
    for shape in shapes {
        if std::path::Path::new(shape).is_file() {
            measure_words(&device, &std::fs::read_to_string(shape)?)?;
            continue;
        }
        let (count, dimension) =
            shape.split_once('x').ok_or("expected POINTSxDIMENSION or a file of words")?;
        let count = count.parse()?;
        let dimension = dimension.parse()?;
        let index = Arc::new(BruteForce::new(normal(count, dimension, 1)?, Euclidean)?);
        let start = Instant::now();
        let search =
            GpuSearch::new(std::slice::from_ref(&device), index)?.ok_or("not on this GPU")?;
        println!("{shape}: copied in {:.2} s", start.elapsed().as_secs_f64());
        for k in [32, 128] {
            let mut line = format!("{shape:>12} k={k:<4}");
            for queries in [1, 16, 32, 128, 512, 2048, 8192] {
                let queries = normal(queries, dimension, 2)?;
                let mut times = Vec::new();
                for _ in 0..RUNS {
                    let start = Instant::now();
                    let report =
                        search.answer(&queries, Question::Nearest(k), NonZero::<usize>::MIN);
                    let host = start.elapsed().as_secs_f64();
                    assert_eq!(report.fell_back, 0, "the CPU answered");
                    times.push((report.device_seconds, host));
                }
                times.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (device, host) = times[RUNS / 2];
                write!(line, "  {}: {:.3} {:.3}", queries.len(), device * 1e3, host * 1e3)?;
            }
            println!("{line}");
        }
    }
    Ok(())
}

fn measure_words(device: &Device, text: &str) -> Outcome<()> {
    let words: Strings = text.lines().map(str::trim).filter(|word| !word.is_empty()).collect();
    // The queries are spread evenly over the list, and every second query has one letter changed.
    let (_, queries) = held_out(text.lines().map(str::trim), 10_000, 0);
    let start = Instant::now();
    let index = Arc::new(BruteForce::new(&words, Edit)?);
    let search = GpuSearch::new(std::slice::from_ref(device), index)?.ok_or("not on this GPU")?;
    println!("{} words: copied in {:.2} s", words.len(), start.elapsed().as_secs_f64());
    let ranges = [1.0, 2.0, 3.0].map(Question::Within);
    for question in ranges.into_iter().chain([1, 10, 32].map(Question::Nearest)) {
        let mut line = format!("{:>14}, microseconds per query:", format!("{question:?}"));
        // Answer queries one at a time.
        let mut times = Vec::new();
        let mut found = 0;
        for query in 0..SINGLE_QUERIES {
            let one = Subset::new(&queries, vec![query]);
            let start = Instant::now();
            let report = search.answer(&one, question, NonZero::<usize>::MIN);
            times.push(start.elapsed().as_secs_f64());
            assert_eq!(report.fell_back, 0, "the CPU answered");
            found += report.lists.neighbors().len();
        }
        times.sort_by(f64::total_cmp);
        write!(line, "  1: {:.3} ({found})", times[times.len() / 2] * 1e6)?;
        for count in [32, 1_000, queries.len()] {
            let queries = Subset::new(&queries, (0..u32::try_from(count)?).collect());
            let mut times = Vec::new();
            let mut found = 0;
            for _ in 0..RUNS {
                let start = Instant::now();
                let report = search.answer(&queries, question, NonZero::<usize>::MIN);
                let host = start.elapsed().as_secs_f64();
                assert_eq!(report.fell_back, 0, "the CPU answered");
                found = report.lists.neighbors().len();
                times.push((report.device_seconds, host));
            }
            times.sort_by(|a, b| a.1.total_cmp(&b.1));
            let (device, host) = times[RUNS / 2];
            let each = 1e6 / count as f64;
            write!(line, "  {count}: {:.3} {:.3} ({found})", device * each, host * each)?;
        }
        println!("{line}");
    }
    Ok(())
}

/// Generates vectors of approximately standard normal numbers, each a scaled sum of six uniform
/// numbers.
fn normal(count: usize, dimension: usize, seed: u64) -> Outcome<Vectors<f32>> {
    let mut values = vec![0f32; count * dimension];
    values.par_chunks_mut(1 << 16).enumerate().for_each(|(chunk, values)| {
        let mut random = Random::new(seed << 32 | chunk as u64);
        for value in values {
            let words = [random.below(1 << 48), random.below(1 << 48)];
            let parts =
                words.iter().flat_map(|&bits| (0..3).map(move |i| bits >> (16 * i) & 0xFFFF));
            *value = parts.map(|part| part as f32 / 65_536.0 - 0.5).sum::<f32>()
                * std::f32::consts::SQRT_2;
        }
    });
    Ok(Vectors::new(values, dimension)?)
}
