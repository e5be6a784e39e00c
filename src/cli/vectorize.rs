//! `classify vectorize`

use std::path::PathBuf;

use classify::classifier::Classifier;
use classify::corpus::{CorpusError, Document, LabelUse, Place, Problem};
use classify::model::Model;
use classify::search::Exhaustive;
use classify::threads::Threads;
use classify::vectors::VectorsWriter;

use super::arguments::{Reading, fit_to_model, name, not_an_input, open};
use super::failure::Failure;
use super::progress::{Progress, Talk};

/// Documents that are analyzed together.
const BATCH: usize = 8_192;

/// Analyzes and weighs documents once, for `predict` and `evaluate` to take again and again.
#[derive(Debug, clap::Args)]
pub(crate) struct Vectorize {
    /// The model
    model: PathBuf,
    /// Documents: files, folders, or - for standard input (plain lines or JSONL)
    #[arg(value_name = "CORPUS", default_value = "-")]
    corpora: Vec<PathBuf>,
    /// The file of vectors to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

impl Vectorize {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        not_an_input(&self.output, std::iter::once(&self.model).chain(&self.corpora))?;
        let model = Model::open(&self.model)?;
        let progress = Progress::new(talk, "vectorizing", &self.corpora);
        let mut options = self.reading.options(LabelUse::Optional)?;
        fit_to_model(&mut options, &model);
        let mut corpus = open(&self.corpora, options, talk, &progress)?;
        // Nothing is searched: the engine that needs no index will do.
        let engine = Box::new(Exhaustive::new(model.rows(), threads.clone())?);
        let classifier = Classifier::with_engine(&model, engine, threads);
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
        let count = writer.len();
        writer.save(&self.output)?;
        talk.say(&format!("{}: vectors of {count} documents", self.output.display()));
        Ok(())
    }
}
