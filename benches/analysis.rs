//! Measures the CPU time of analysis and TF-IDF on one thread, with the text in memory.
//!
//! `cargo bench --bench analysis -- CORPUS [RUNS [STEMMER]]` prints one JSON object per run:
//! `{"bytes": …, "terms": …, "counted_s": …, "cpu_s": …, "mb_s": …}`. `counted_s` is the time from
//! texts to counts, and `cpu_s` is the time from texts to TF-IDF rows, both in seconds.
//! `benches/rivals.py` compares the results with scikit-learn.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::num::NonZeroUsize;
use std::path::PathBuf;

use classify::decide::decision::Decision;
use classify::model::{InputSpec, Model, TrainSettings};
use classify::text::analyze::AnalyzerSpec;
use classify::text::corpus::{Content, Corpus, CorpusError, Document, ReadOptions};
use classify::text::counts::{CountOptions, Counts, Fields};
use classify::threads::Threads;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [corpus, rest @ ..] = arguments.as_slice() else {
        println!("usage: analysis CORPUS [RUNS [STEMMER]]");
        return Ok(());
    };
    let runs: usize = rest.first().map_or(Ok(3), |runs| runs.parse())?;
    let stemmer = rest.get(1).map(|name| name.parse()).transpose()?;
    let spec = AnalyzerSpec { stemmer, ..AnalyzerSpec::default() };
    let documents: Vec<Document> = Corpus::open(&[PathBuf::from(corpus)], ReadOptions::default())?
        .collect::<Result<_, _>>()?;
    let bytes: usize = documents.iter().map(|document| text(document).len()).sum();
    let threads = Threads::new(NonZeroUsize::MIN)?;
    for _ in 0..runs {
        let input = InputSpec::Text(spec.clone());
        // The measured code consumes the documents, so they are copied. The copies contain only
        // texts, as in the scikit-learn benchmark: identifiers and labels are not part of the
        // analysis.
        let text_only = |document: &Document| {
            Ok(Document { id: String::new(), labels: Vec::new(), ..document.clone() })
        };
        let copy: Vec<Result<Document, CorpusError>> = documents.iter().map(text_only).collect();
        let cpu = cpu_seconds();
        let counts = Counts::read(
            &mut copy.into_iter(),
            &CountOptions::new(&input.counting(&Fields::Whole)),
            &threads,
            &|_| (),
        )?;
        let counted = cpu_seconds() - cpu;
        let model = Model::of_counts(counts, TrainSettings::new(input, Decision::Single), &threads);
        let cpu = cpu_seconds() - cpu;
        println!(
            "{{\"bytes\": {bytes}, \"terms\": {}, \"counted_s\": {counted:.4}, \
             \"cpu_s\": {cpu:.4}, \"mb_s\": {:.1}}}",
            model.settings().counts.terms,
            bytes as f64 / 1e6 / cpu
        );
    }
    Ok(())
}

fn text(document: &Document) -> &str {
    match &document.content {
        Content::Text(text) => text,
        Content::Fields(_) | Content::Features(_) => "",
    }
}

/// Returns the CPU time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
