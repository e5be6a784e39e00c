//! Measures the CPU time per query of the search engines over the rows of a model.
//!
//! `cargo bench --bench search -- MODEL TRAIN_ROWS[+QUERIES] K [RUNS [ENGINE…]]` searches the first
//! `TRAIN_ROWS` rows. The queries are the other rows, or the first `QUERIES` of these. With
//! `generated` instead of a model, the rows are synthetic.
//!
//! | engine | measured engine and requests |
//! |---|---|
//! | `inverted/THREADS[/BLOCK_ROWS]` | `Inverted`, all queries in one request |
//! | `alone` | `Inverted` on one thread, one query per request |
//! | `composite/THREADS[/PARTS]` | `Composite` of `Inverted` engines, 4 by default |
//! | `composite-alone/THREADS[/PARTS]` | `Composite`, one query per request |
//! | `exhaustive/THREADS` | `Exhaustive` |
//!
//! Prints one JSON object per run: `{"engine": …, "cpu_us": …, "wall_us": …, "fell_back": …}`.
//! `benches/rivals.py` compares the results with other libraries.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use classify::model::Model;
use classify::rows::generate::rcv1_like_rows;
use classify::rows::matrix::{Csr, CsrBuilder};
use classify::search::{
    Composite, Exhaustive, Inverted, NeighborLists, Report, Request, Search, SearchError, Segment,
};
use classify::threads::Threads;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [model, train_rows, k, rest @ ..] = arguments.as_slice() else {
        println!("usage: search MODEL TRAIN_ROWS[+QUERIES] K [RUNS [ENGINE...]]");
        return Ok(());
    };
    let (train_rows, count) = train_rows.split_once('+').unwrap_or((train_rows, ""));
    let train_rows: usize = train_rows.parse()?;
    let k: NonZeroUsize = k.parse()?;
    let runs: usize = rest.first().map_or(Ok(3), |runs| runs.parse())?;
    let engines: Vec<&str> = match rest.get(1..) {
        None | Some([]) => vec!["inverted/1", "inverted/2"],
        Some(names) => names.iter().map(String::as_str).collect(),
    };
    let count: Option<usize> = if count.is_empty() { None } else { Some(count.parse()?) };
    let rows = if model == "generated" {
        let rows = rcv1_like_rows(train_rows as u64, count.unwrap_or(1_000) as u64, 0);
        (rows.training, Arc::new(rows.test))
    } else {
        let model = Model::open(Path::new(model))?;
        let all = model.rows().rows();
        let last = count.map_or(all, |count| all.min(train_rows + count));
        (rows_of_model(&model, 0..train_rows), rows_of_model(&model, train_rows..last))
    };
    let (training, queries) = rows;
    let mut found = NeighborLists::default();
    for _ in 0..runs {
        for &name in &engines {
            let (kind, options) = name.split_once('/').unwrap_or((name, "1"));
            let (threads, size) = options.split_once('/').unwrap_or((options, ""));
            let size = |default: &str| if size.is_empty() { default } else { size }.parse();
            let threads = Threads::new(threads.parse()?)?;
            let rows = Arc::clone(&training);
            let engine: Arc<dyn Search> = match kind {
                "exhaustive" => Arc::new(Exhaustive::new(rows, threads)?),
                "composite" | "composite-alone" => {
                    Arc::new(composite(&training, size("4")?, &threads)?)
                }
                _ => Arc::new(Inverted::with_block_rows(rows, threads, size("16384")?)?),
            };
            let batch_size = if kind.ends_with("alone") { 1 } else { queries.rows() };
            let batches: Vec<Arc<Csr>> = (0..queries.rows())
                .step_by(batch_size)
                .map(|first| rows_of(&queries, first..(first + batch_size).min(queries.rows())))
                .collect();
            let start = Instant::now();
            let cpu_start = cpu_seconds();
            let mut report = Report::default();
            for queries in &batches {
                report += engine.search(&Request::new(&**queries, k), &mut found)?;
            }
            let wall = start.elapsed().as_secs_f64();
            let cpu = cpu_seconds() - cpu_start;
            let scale = 1e6 / queries.rows() as f64;
            println!(
                "{{\"engine\": \"{name}\", \"cpu_us\": {:.2}, \"wall_us\": {:.2}, \
                 \"fell_back\": {}}}",
                cpu * scale,
                wall * scale,
                report.fell_back
            );
        }
    }
    Ok(())
}

/// Splits the rows into equal parts, each with an `Inverted` engine.
fn composite(training: &Csr, parts: usize, threads: &Threads) -> Result<Composite, SearchError> {
    let size = training.rows().div_ceil(parts).max(1);
    let mut segments = Vec::new();
    for first in (0..training.rows()).step_by(size) {
        let rows = rows_of(training, first..(first + size).min(training.rows()));
        let engine = Arc::new(Inverted::new(rows, threads.clone())?);
        segments.push(Segment { engine, kept: None });
    }
    Composite::of_segments(segments, threads.clone())
}

fn rows_of_model(model: &Model, rows: std::ops::Range<usize>) -> Arc<Csr> {
    let mut builder = CsrBuilder::default();
    for row in rows {
        let row = u32::try_from(row).expect("row numbers are 32-bit");
        let (terms, weights) = model.document_terms(row);
        builder.push_row(terms.iter().copied().zip(weights.iter().copied()));
    }
    Arc::new(builder.build(model.rows().cols()))
}

fn rows_of(queries: &Csr, rows: std::ops::Range<usize>) -> Arc<Csr> {
    let mut builder = CsrBuilder::default();
    for row in rows {
        let (terms, weights) = queries.row(row);
        builder.push_slices(terms, weights);
    }
    Arc::new(builder.build(queries.cols()))
}

/// Returns the CPU time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
