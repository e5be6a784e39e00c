//! `classify bench paper`: the experiments of Bresler et al. 2011, on this machine.
//!
//! Measures the seconds to find the neighbors of the first 10, 100, … test documents among the
//! training documents. As in the paper, the time includes copying queries to the GPU and copying
//! neighbors back, but not reading the files. The index is built before the clock starts, like the
//! paper's training matrix.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use classify::classifier::Classifier;
use classify::learn::{TrainOptions, Trainer};
use classify::model::FeatureSpec;
use classify::rows::generate::{RCV1_DOCUMENTS, RCV1_TRAINING_DOCUMENTS, Rows, rcv1_like_rows};
use classify::rows::matrix::{Csr, CsrBuilder};
use classify::search::{EngineKind, Engines, NeighborLists, Request, SearchError};
use classify::text::corpus::preset::Preset;
use classify::text::corpus::{CorpusError, Document, ReadOptions};
use classify::threads::Threads;
use gpu_runtime::Device;
use serde::Serialize;

use super::speedup::{self, Line};
use crate::failure::Failure;
use crate::flags::seed::SeedFlag;
use crate::output::files::{Files, write, write_json};
use crate::output::progress::Verbosity;

/// The paper's test set sizes, in documents.
const SIZES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 781_265];

/// The paper's best seconds on its second machine (a Xeon E5405, four Tesla C870), Tables 1 to 3.
const PAPER: [(&str, [f64; 6]); 4] = [
    ("BaseCSR", [0.18, 1.71, 17.0, 171.22, 1_701.19, 13_303.8]),
    ("Base64", [0.09, 0.52, 5.24, 52.18, 521.3, 4_051.86]),
    ("Shared128", [0.04, 0.39, 4.23, 39.77, 396.16, 2_144.49]),
    ("Grid256x128", [0.02, 0.24, 1.92, 16.82, 169.58, 1_304.09]),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Paper {
    /// A folder with the LYRL2004 files of RCV1-v2, or with files written by `classify generate
    /// rcv1-like` [default: similar rows, generated in memory with --seed]
    folder: Option<PathBuf>,
    /// Which GPU to use
    #[arg(long, value_name = "N")]
    gpu: Option<usize>,
    /// Measure only these engines, named as in --engine, such as grid:256x128,fused
    #[arg(long, value_name = "ENGINE", value_delimiter = ',')]
    only: Vec<EngineKind>,
    /// The number of neighbors per query
    #[arg(short, default_value = "30", value_parser = crate::flags::positive::positive)]
    k: NonZeroUsize,
    /// The largest number of test documents to measure
    #[arg(long = "most", value_name = "N", default_value_t = 781_265)]
    max_documents: usize,
    /// Skip measurements that would take more seconds than this
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    limit: f64,
    /// The number of runs of each measurement; the median is reported. Measurements that take
    /// over a second run once
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// Write the measurements as JSON (schema classify.bench-paper/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a chart of the speed-ups as SVG, like the paper's Figures 5 to 7
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    seed: SeedFlag,
}

/// The rows to search, and the numbers of queries to measure.
#[derive(Clone, Copy)]
struct Sample<'a> {
    rows: &'a Rows,
    sizes: &'a [usize],
}

/// The measurements, as they are written to `--json`.
#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    /// The GPU, if any.
    device: Option<String>,
    /// The newest CUDA version that the driver supports: 13000 is 13.0.
    driver_cuda: Option<i32>,
    corpus: String,
    training_rows: usize,
    terms: usize,
    entries: usize,
    k: usize,
    multiply_adds_per_query: f64,
    sizes: Vec<usize>,
    lines: Vec<Line>,
    /// The paper's seconds on its second machine.
    paper: Vec<(&'static str, [f64; 6])>,
}

impl Paper {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let mut files =
            self.folder.iter().fold(Files::default(), |f, folder| f.with_preset(folder));
        let json = files.optional(self.json.as_ref())?;
        let svg = files.optional(self.svg.as_ref())?;
        let printed = files.report()?;
        let device = match self.gpu {
            Some(ordinal) => {
                let device = Device::open(ordinal);
                Some(device.map_err(Failure::Gpu)?)
            }
            None => match Device::open_best() {
                Ok(device) => Some(device),
                Err(error) => {
                    verbosity.print(&format!("{error}; measuring only the CPU engines"));
                    None
                }
            },
        };
        let (rows, corpus) = self.rows(threads, verbosity)?;
        let sizes: Vec<usize> = SIZES
            .into_iter()
            .filter(|&size| size <= self.max_documents && size <= rows.test.rows())
            .collect();
        let one = Threads::new(NonZeroUsize::MIN);
        let one = one.map_err(|error| Failure::Resource(format!("no threads: {error}")))?;
        let sequential = Engines::exhaustive(&one);
        let mut lines = vec![self.line(
            "BaseCSR",
            EngineKind::Exhaustive,
            &sequential,
            Sample { rows: &rows, sizes: &sizes },
            verbosity,
        )?];
        for (name, kind) in settings() {
            if !self.only.is_empty() && !self.only.contains(&kind) && kind != EngineKind::FUSED {
                continue;
            }
            let engines = match (kind, &device) {
                (EngineKind::Cuda(_), None) => continue,
                (EngineKind::Cuda(engine), Some(device)) => {
                    Engines::cuda(engine, device.clone(), threads).without_fall_back()
                }
                _ => Engines::cpu(threads),
            };
            verbosity.print(&format!("measuring {name}"));
            lines.push(self.line(
                &name,
                kind,
                &engines,
                Sample { rows: &rows, sizes: &sizes },
                verbosity,
            )?);
        }
        let report = Report {
            schema: "classify.bench-paper/1",
            device: device.as_ref().map(|device| device.info().name.clone()),
            driver_cuda: device.as_ref().map(|device| device.info().driver),
            corpus,
            training_rows: rows.training.rows(),
            terms: rows.training.cols(),
            entries: rows.training.nnz(),
            k: self.k.get(),
            multiply_adds_per_query: multiply_adds(&rows),
            sizes,
            lines,
            paper: PAPER.to_vec(),
        };
        if let Some(printed) = printed {
            write(printed, report.text().as_bytes())?;
        }
        if let Some(json) = json {
            write_json(json, &report)?;
        }
        if let Some(svg) = svg {
            write(svg, speedup::chart(&report.sizes, &report.lines).as_bytes())?;
        }
        Ok(())
    }

    fn rows(&self, threads: &Threads, verbosity: Verbosity) -> Result<(Rows, String), Failure> {
        let seed = self.seed.value;
        let Some(folder) = &self.folder else {
            verbosity.print("generating rows like those of RCV1-v2");
            let test = (RCV1_DOCUMENTS - RCV1_TRAINING_DOCUMENTS).min(self.max_documents as u64);
            let corpus = format!("rcv1-like, seed {seed}");
            return Ok((rcv1_like_rows(RCV1_TRAINING_DOCUMENTS, test, seed), corpus));
        };
        verbosity.print(&format!("reading {}", folder.display()));
        let sides = Preset::Lyrl2004.open(folder, &ReadOptions::default())?;
        let features = FeatureSpec { counts: false, first_column: 0 };
        let options = TrainOptions { features, tuning: None, ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).engines(Engines::cpu(threads)).build();
        let model = Arc::new(trainer.train(sides.train)?.model);
        let classifier = Classifier::new(Arc::clone(&model), threads)?;
        let mut test_documents = sides.test;
        let mut test = CsrBuilder::default();
        let mut remaining = self.max_documents;
        loop {
            let batch: Vec<Document> = test_documents
                .by_ref()
                .take(remaining.min(16_384))
                .collect::<Result<_, CorpusError>>()?;
            if batch.is_empty() {
                break;
            }
            remaining -= batch.len();
            push(&mut test, &classifier.vectorize(&batch)?.rows, batch.len());
        }
        let mut training = CsrBuilder::default();
        push(&mut training, model.rows(), model.rows().rows());
        let terms = model.rows().cols();
        let rows = Rows { training: Arc::new(training.build(terms)), test: test.build(terms) };
        Ok((rows, folder.display().to_string()))
    }

    /// Measures an engine at each size until it would take too long or the GPU fails.
    fn line(
        &self,
        name: &str,
        kind: EngineKind,
        engines: &Engines,
        sample: Sample<'_>,
        verbosity: Verbosity,
    ) -> Result<Line, Failure> {
        let mut seconds = vec![None; sample.sizes.len()];
        match self.measure(engines, sample, &mut seconds) {
            Err(SearchError::Engine(error)) => verbosity.print(&format!("{name}: {error}")),
            outcome => outcome?,
        }
        Ok(Line { name: name.to_owned(), engine: kind.to_string(), seconds })
    }

    fn measure(
        &self,
        engines: &Engines,
        sample: Sample<'_>,
        seconds: &mut [Option<f64>],
    ) -> Result<(), SearchError> {
        let Sample { rows, sizes } = sample;
        let engine = engines.engine(&rows.training)?;
        let mut last = 0.0;
        let mut last_size = 0;
        for (&size, seconds) in sizes.iter().zip(seconds) {
            let expected = if last_size == 0 { 0.0 } else { last * size as f64 / last_size as f64 };
            if expected > self.limit {
                break;
            }
            let queries = first_rows(&rows.test, size);
            let view = queries.view();
            let mut times = Vec::new();
            let mut found = NeighborLists::default();
            // The first run allocates memory, so it counts only if it takes over a second.
            while times.len() <= self.runs {
                let start = Instant::now();
                let _ = engine.search(&Request::new(view, self.k), &mut found)?;
                times.push(start.elapsed().as_secs_f64());
                if times[0] > 1.0 {
                    break;
                }
            }
            if times.len() > 1 {
                times.remove(0);
            }
            times.sort_by(f64::total_cmp);
            last = times[times.len() / 2];
            last_size = size;
            *seconds = Some(last);
        }
        Ok(())
    }
}

/// The settings of the paper, and the default engines.
fn settings() -> Vec<(String, EngineKind)> {
    const SIZES: [u32; 4] = [32, 64, 128, 256];
    let kind = |text: String| text.parse().expect("the names are valid");
    let mut settings = Vec::new();
    settings
        .extend(SIZES.map(|threads| (format!("Base{threads}"), kind(format!("base:{threads}")))));
    settings.extend(
        SIZES.map(|threads| (format!("Shared{threads}"), kind(format!("shared:{threads}")))),
    );
    for (name, engine) in [("Grid", "grid"), ("Grid-ldg", "grid-ldg")] {
        for documents in SIZES {
            for threads in SIZES {
                let shape = format!("{documents}x{threads}");
                settings.push((format!("{name}{shape}"), kind(format!("{engine}:{shape}"))));
            }
        }
    }
    settings.push(("inverted, CPU".to_owned(), EngineKind::Inverted));
    settings.push(("fused".to_owned(), EngineKind::FUSED));
    settings
}

impl Report {
    fn text(&self) -> String {
        let gpu = match (&self.device, self.driver_cuda) {
            (Some(name), Some(cuda)) => {
                format!("{name}, CUDA {}.{}", cuda / 1_000, cuda % 1_000 / 10)
            }
            _ => "no GPU".to_owned(),
        };
        let mut text = format!(
            "{gpu}; {}: {} training rows of {} terms, {} entries; k = {}; {:.0} multiply-adds per \
             query\n\n",
            self.corpus,
            self.training_rows,
            self.terms,
            self.entries,
            self.k,
            self.multiply_adds_per_query,
        );
        let _ = write!(text, "{:26}", "seconds");
        for size in &self.sizes {
            let _ = write!(text, "{size:>12}");
        }
        text.push('\n');
        for line in &self.lines {
            write_row(&mut text, &line.name, line.seconds.iter().copied());
        }
        text.push_str("\nthe paper, on its second machine\n");
        for (name, seconds) in &self.paper {
            write_row(&mut text, name, seconds.iter().take(self.sizes.len()).map(|&s| Some(s)));
        }
        if let Some(fused) = self.lines.last().filter(|line| line.engine == "fused") {
            let best = |start: &str, at: usize| {
                let lines = self.lines.iter().filter(|line| line.name.starts_with(start));
                lines.filter_map(|line| line.seconds[at]).min_by(f64::total_cmp)
            };
            text.push_str("\nspeed-up of fused over the best setting of\n");
            for start in ["BaseCSR", "Base", "Shared", "Grid", "Grid-ldg", "inverted"] {
                let _ = write!(text, "{start:26}");
                for (at, &own) in fused.seconds.iter().enumerate() {
                    // `Base` must not match `BaseCSR`, nor `Grid` match `Grid-ldg`.
                    let best = match start {
                        "Base" | "Grid" => (0..=9)
                            .filter_map(|digit| best(&format!("{start}{digit}"), at))
                            .min_by(f64::total_cmp),
                        _ => best(start, at),
                    };
                    let _ = match (best, own) {
                        (Some(best), Some(own)) => write!(text, "{:>12.1}", best / own),
                        _ => write!(text, "{:>12}", "-"),
                    };
                }
                text.push('\n');
            }
        }
        text
    }
}

fn write_row(text: &mut String, name: &str, seconds: impl Iterator<Item = Option<f64>>) {
    let _ = write!(text, "{name:26}");
    for seconds in seconds {
        let _ = match seconds {
            Some(seconds) => write!(text, "{seconds:>12.5}"),
            None => write!(text, "{:>12}", "-"),
        };
    }
    text.push('\n');
}

fn multiply_adds(rows: &Rows) -> f64 {
    let mut frequencies = vec![0u64; rows.training.cols()];
    for &term in rows.training.indices() {
        frequencies[term as usize] += 1;
    }
    let sum: u64 = rows.test.indices().iter().map(|&term| frequencies[term as usize]).sum();
    sum as f64 / rows.test.rows().max(1) as f64
}

fn first_rows(rows: &Csr, count: usize) -> Csr {
    let mut builder = CsrBuilder::default();
    push(&mut builder, rows, count);
    builder.build(rows.cols())
}

fn push(builder: &mut CsrBuilder, rows: &Csr, count: usize) {
    for (columns, values) in rows.iter().take(count) {
        builder.push_slices(columns, values);
    }
}
