//! `classify vectorize`

use std::path::PathBuf;
use std::sync::Arc;

use classify::classifier::vectors::VectorsWriter;
use classify::classifier::{Classifier, Searchers};
use classify::text::corpus::{CorpusError, Document, LabelUse, Place, Problem};
use classify::threads::Threads;

use crate::failure::Failure;
use crate::flags::opening::OpeningFlags;
use crate::flags::reading::{ReadingFlags, apply_model_settings, name, open};
use crate::output::files::Files;
use crate::output::progress::{Progress, Verbosity};

/// Number of documents analyzed per batch.
const BATCH: usize = 8_192;

#[derive(Debug, clap::Args)]
pub(crate) struct Vectorize {
    /// The model
    model: PathBuf,
    /// Documents: files, folders, or - for standard input (plain lines or JSONL)
    #[arg(value_name = "CORPUS", default_value = "-")]
    corpora: Vec<PathBuf>,
    /// The vectors file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    opening: OpeningFlags,
    #[command(flatten)]
    reading: ReadingFlags,
}

impl Vectorize {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let files = Files::default().with_corpora(&self.corpora, self.reading.format());
        let mut files = files.with_inputs([&self.model]).with_inputs(self.reading.files());
        let output = files.file(&self.output, "a vectors file")?;
        let model = Arc::new(self.opening.model_on(&self.model, threads)?);
        let progress = Progress::new(verbosity, "vectorizing", &self.corpora);
        let mut options = self.reading.options(LabelUse::Optional, Some(threads))?;
        apply_model_settings(&model, model.settings().dense_share, &mut options)?;
        let mut corpus = open(&self.corpora, options, verbosity, &progress)?;
        // Weighting needs no engine.
        let classifier =
            Classifier::with_searchers(Arc::clone(&model), Searchers::default(), threads);
        let mut writer = VectorsWriter::new(&model);
        loop {
            let batch: Result<Vec<Document>, CorpusError> = corpus.by_ref().take(BATCH).collect();
            let batch = batch?;
            if batch.is_empty() {
                break;
            }
            writer.push(&batch, &classifier.vectorize(&batch)?);
            progress.tick(writer.len() as u64);
        }
        drop(progress);
        if writer.is_empty() {
            let place = Place { source: name(&self.corpora).as_str().into(), line: None };
            return Err(CorpusError { place, problem: Problem::NoDocument }.into());
        }
        self.reading.report(None, verbosity)?;
        let count = writer.len();
        writer.save_to(output)?;
        verbosity.print(&format!("{}: vectors of {count} documents", self.output.display()));
        Ok(())
    }
}
