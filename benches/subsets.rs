//! Measures search times for the six test set sizes of Bresler et al. 2011 (tables 1 to 3) on
//! LYRL2004 files.
//!
//! The files are the original files or files written by `classify generate rcv1-like`. The
//! benchmark prints the time of search and vote with k = 30 for both CPU engines, in seconds. The
//! exhaustive engine stops at `MAX_EXHAUSTIVE` documents.
//!
//! `cargo bench --bench subsets -- FOLDER [THREADS [MAX_EXHAUSTIVE]]`

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use classify::classifier::{Classifier, FoundNeighbors};
use classify::learn::{TrainOptions, Trainer};
use classify::model::{FeatureSpec, Model};
use classify::search::{Engines, Exhaustive, Inverted, Neighbor, Search};
use classify::text::corpus::preset::{Documents, Preset};
use classify::text::corpus::{Document, ReadOptions};
use classify::threads::Threads;

const SIZES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 781_265];
/// The times of the paper's sequential CPU algorithm on a Core2 Duo E7300 and on a Xeon E5405, in
/// seconds.
const PAPER_SECONDS: [[f64; 6]; 2] =
    [[0.09, 0.7, 6.8, 67.6, 674.67, 5283.84], [0.18, 1.71, 17.0, 171.22, 1701.19, 13303.8]];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [folder, rest @ ..] = arguments.as_slice() else {
        println!(
            "usage: subsets FOLDER [THREADS [MAX_EXHAUSTIVE]], with a folder of LYRL2004 files"
        );
        return Ok(());
    };
    let threads: NonZeroUsize = rest.first().map_or(Ok(NonZeroUsize::MIN), |n| n.parse())?;
    let max_exhaustive: usize = rest.get(1).map_or(Ok(10_000), |max| max.parse())?;
    let threads = Threads::new(threads)?;
    let open = || Preset::Lyrl2004.open(Path::new(folder), &ReadOptions::default());
    let features = FeatureSpec { counts: false, first_column: 0 };
    let options = TrainOptions { features, tuning: None, ..TrainOptions::default() };
    let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
    let model = Arc::new(trainer.train(open()?.train)?.model);
    println!("{} training documents, {} threads", model.rows().rows(), threads.count());
    let rows = model.rows().rows() as f64;
    let frequencies = model.vocabulary().document_frequencies();
    let most_frequent = f64::from(frequencies.iter().copied().max().unwrap_or(0));
    println!(
        "{:.1} terms per document, the most frequent one in {:.3} of the documents",
        model.rows().nnz() as f64 / rows,
        most_frequent / rows
    );
    println!("{}", similarities(&model, &threads, open()?.test)?);
    println!("{:24}{}", "documents", cells(SIZES.iter().map(ToString::to_string)));
    for (name, times) in ["BaseCSR, config. 1", "BaseCSR, config. 2"].iter().zip(&PAPER_SECONDS) {
        println!("{name:24}{}", cells(times.iter().map(ToString::to_string)));
    }
    let view = |seconds: &f64| format!("{seconds:.3}");
    let exhaustive = Arc::new(Exhaustive::new(Arc::clone(model.rows()), threads.clone())?);
    let times = measure(&model, exhaustive, &threads, open()?.test, max_exhaustive)?;
    println!("{:24}{}", "exhaustive", cells(times.iter().map(view)));
    let inverted = Arc::new(Inverted::new(Arc::clone(model.rows()), threads.clone())?);
    let times = measure(&model, inverted, &threads, open()?.test, usize::MAX)?;
    println!("{:24}{}", "inverted", cells(times.iter().map(view)));
    let times =
        times.iter().zip(&PAPER_SECONDS[0]).map(|(ours, paper)| format!("{:.0} x", paper / ours));
    println!("{:24}{}", "speedup over config. 1", cells(times));
    Ok(())
}

fn cells(texts: impl Iterator<Item = String>) -> String {
    texts.fold(String::new(), |line, text| line + &format!("{text:>12}"))
}

/// Describes the median similarities of the first and the last of k neighbors, for up to 3,000 test
/// documents.
fn similarities(
    model: &Arc<Model>,
    threads: &Threads,
    documents: Documents,
) -> Result<String, Box<dyn std::error::Error>> {
    let classifier = Classifier::new(Arc::clone(model), threads)?;
    let documents: Vec<Document> = documents.take(3_000).collect::<Result<_, _>>()?;
    let options = classifier.options();
    let mut neighbors = FoundNeighbors::default();
    let _ = classifier.neighbors(&classifier.vectorize(&documents)?, &options, &mut neighbors)?;
    let median = |rank: usize| {
        // A missing neighbor has similarity 0.
        let of = |found: &[Neighbor]| found.get(rank).map_or(0.0, |n| n.similarity);
        let mut similarities: Vec<f32> = neighbors.terms.iter().map(of).collect();
        similarities.sort_by(f32::total_cmp);
        similarities.get(similarities.len() / 2).copied().unwrap_or(0.0)
    };
    let first = median(0);
    let last = median(options.k.get() - 1);
    Ok(format!("median similarity of the first neighbor {first:.2}, of the thirtieth {last:.2}"))
}

/// Returns the cumulative time of search and vote at each size up to `max_size`, in seconds.
fn measure(
    model: &Arc<Model>,
    engine: Arc<dyn Search>,
    threads: &Threads,
    mut documents: Documents,
    max_size: usize,
) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let classifier = Classifier::with_engine(Arc::clone(model), engine, threads);
    let options = classifier.options();
    let mut neighbors = FoundNeighbors::default();
    let mut seconds = 0.0;
    let mut done = 0;
    let mut times = Vec::new();
    for size in SIZES.into_iter().filter(|&size| size <= max_size) {
        while done < size {
            let batch = documents.by_ref().take((size - done).min(4_096));
            let batch: Vec<Document> = batch.collect::<Result<_, _>>()?;
            if batch.is_empty() {
                return Ok(times);
            }
            let vectors = classifier.vectorize(&batch)?;
            let start = Instant::now();
            let _ = classifier.neighbors(&vectors, &options, &mut neighbors)?;
            let answers = classifier.predict_from_neighbors(&vectors, &neighbors, &options);
            seconds += start.elapsed().as_secs_f64();
            done += answers.len();
        }
        times.push(seconds);
    }
    Ok(times)
}
