//! `classify train`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use classify::learn::{Event, Trainer};
use classify::model::Model;
use classify::stages::Stage;
use classify::text::corpus::LabelUse;
use classify::threads::Threads;

use crate::commands::updating::lock_documents;
use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, name, open};
use crate::flags::searching::SearchFlags;
use crate::flags::training::TrainingFlags;
use crate::flags::tuning::TrainingProgress;
use crate::output::files::{Files, write_json};
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, clap::Args)]
pub(crate) struct Train {
    /// Corpora: files, folders, or - for standard input
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    /// Store the texts of the documents in the model
    #[arg(long)]
    keep_text: bool,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    training: TrainingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

impl Train {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let start = Instant::now();
        let files = Files::default().with_corpora(&self.corpora, self.reading.format());
        let mut files = files.with_inputs(self.reading.files()).with_inputs(self.training.files());
        let output = files.file(&self.output, "a model")?;
        let table = files.optional(self.training.tune_table())?;
        let journal_lock = lock_documents(&self.output)?;
        let reading = Progress::new(verbosity, "reading", &self.corpora);
        let mut read_options = self.reading.options(LabelUse::Required, Some(threads))?;
        let options = self.training.options(&read_options, self.keep_text)?;
        options.fields.read_apart(&mut read_options);
        read_options.text_optional = options.has_no_terms();
        let corpus = open(&self.corpora, read_options, verbosity, &reading)?;
        let engines = self.training.engines(self.searching, threads, verbosity)?;
        self.training.keep_memory();
        let training_progress = TrainingProgress::new(verbosity, reading);
        let on_event = |event: Event<'_>| training_progress.on_event(event);
        let builder = Trainer::builder().options(options).engines(engines);
        let builder = builder.corpus_name(name(&self.corpora)).on_event(&on_event);
        let trained = builder.build().train(corpus)?;
        drop(training_progress);
        self.reading.report(trained.model.notes(), verbosity)?;
        let saving = Instant::now();
        threads.run(|| match &journal_lock {
            Some(journal_lock) => trained.model.save_locked(output, journal_lock),
            None => trained.model.save_to(output),
        })?;
        let documents = trained.model.settings().counts.documents;
        let saved = Stage::since("train: write the model", documents, saving);
        verbosity.stages(trained.stages.iter().chain([&saved]));
        if let (Some(table), Some(report)) = (table, &trained.tuning) {
            write_json(table, report)?;
        }
        verbosity.print(&summary(&trained.model, &self.output, start));
        Ok(())
    }
}

/// Summarizes the size of the model and the time since `start`, with notes on documents without a
/// label or a weighted term.
fn summary(model: &Model, output: &Path, start: Instant) -> String {
    let settings = model.settings();
    let counts = settings.counts;
    let mut text = format!(
        "{}: {} documents, {} labels, {} terms, {:.1} s",
        output.display(),
        counts.documents,
        counts.labels,
        counts.terms,
        start.elapsed().as_secs_f64()
    );
    if let Some(dense) = &settings.dense {
        let _ = write!(text, "\nvectors: {} dimensions, {}", dense.dimension, dense.metric);
    }
    for (count, what) in [
        (counts.unlabeled, "documents without a label"),
        (counts.empty, "documents without a weighted term, which are never neighbors"),
    ] {
        // A model with only dense vectors needs no terms.
        let matters = model.has_terms() || count == counts.unlabeled;
        if count > 0 && matters {
            let _ = write!(text, "\nnote: {what}: {count}");
        }
    }
    text
}
