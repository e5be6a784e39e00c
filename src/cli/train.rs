//! `classify train`

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use classify::corpus::LabelUse;
use classify::model::Model;
use classify::threads::Threads;

use super::arguments::{Reading, Training, name, not_an_input, open};
use super::failure::Failure;
use super::progress::{Progress, Talk};
use super::searching::Searching;

#[derive(Debug, clap::Args)]
pub(crate) struct Train {
    /// Corpora: files, folders, or - for standard input
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// Where the model is written
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    /// Keep the documents' texts in the model
    #[arg(long)]
    keep_text: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    searching: Searching,
}

impl Train {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        let start = Instant::now();
        if self.output.as_os_str() == "-" {
            return Err(Failure::Usage("a model is a file: -o takes its name".into()));
        }
        not_an_input(&self.output, &self.corpora)?;
        let progress = Progress::new(talk, "reading", &self.corpora);
        let mut options = self.reading.options(LabelUse::Required)?;
        self.training.analysis.name_fields(&mut options);
        let name = (&*name(&self.corpora), options.first_column);
        let mut corpus = open(&self.corpora, options, talk, &progress)?;
        let progress_and_talk = (&progress, talk);
        let engines = self.training.engines(self.searching, threads, talk)?;
        let settled =
            self.training.settle(&mut corpus, name, self.keep_text, &engines, progress_and_talk)?;
        drop(progress);
        let model = settled.model();
        model.save(&self.output)?;
        talk.say(&trained(&model, &self.output, start));
        Ok(())
    }
}

fn trained(model: &Model, output: &std::path::Path, start: Instant) -> String {
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
    for (count, what) in [
        (counts.unlabeled, "documents without a label"),
        (counts.empty, "documents without a weighted term, which are nobody's neighbors"),
    ] {
        if count > 0 {
            let _ = write!(text, "\nnote: {what}: {count}");
        }
    }
    text
}
