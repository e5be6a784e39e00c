//! `classify add`

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use classify::classifier::{Classifier, Searchers};
use classify::model::UpdatedModel;
use classify::text::corpus::{Document, IdUse, LabelUse};
use classify::threads::Threads;

use crate::commands::updating::{refuse_new_labels, summary};
use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, apply_model_settings, open};
use crate::flags::searching::SearchFlags;
use crate::output::files::Files;
use crate::output::progress::{Progress, Verbosity};

/// Number of documents analyzed and weighted per batch.
const BATCH: usize = 1024;
/// Share of unknown terms above which reweighting is advised.
const MANY_UNKNOWN: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// The model
    model: PathBuf,
    /// Labeled documents: files, folders, or - for standard input. A document replaces the
    /// document of the model with the same identifier
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// Number documents without an identifier, and put this prefix before the number [default:
    /// refuse such documents, because their numbers may already be identifiers in the model]
    #[arg(long, value_name = "PREFIX")]
    number_as: Option<String>,
    /// Allow labels that no document of the model has
    #[arg(long)]
    new_labels: bool,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

/// The highest number that follows the prefix in an identifier, or 0.
fn last_number<'a>(ids: impl Iterator<Item = &'a str>, prefix: &str) -> u64 {
    ids.filter_map(|id| id.strip_prefix(prefix)?.parse().ok()).max().unwrap_or(0)
}

impl Add {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let _ = Files::default().with_corpora(&self.corpora, self.reading.format());
        let mut updated = UpdatedModel::open(&self.model)?;
        let model = updated.model();
        let share = model.settings().dense_share;
        let searchers = if model.novelty_score().is_some() {
            let engines = self.searching.engines(threads, verbosity)?;
            Searchers::of(&model, share, &engines)?
        } else {
            Searchers::default()
        };
        let classifier = Classifier::with_searchers(Arc::clone(&model), searchers, threads);
        let mut read_options = self.reading.options(LabelUse::Required, Some(threads))?;
        read_options.ids = match &self.number_as {
            Some(prefix) => IdUse::Prefixed {
                prefix: prefix.clone(),
                after: last_number(updated.collection().ids(), prefix),
            },
            None => IdUse::Required,
        };
        apply_model_settings(&model, share, &mut read_options)?;
        let progress = Progress::new(verbosity, "adding", &self.corpora);
        let mut corpus = open(&self.corpora, read_options, verbosity, &progress)?;
        let mut changes = Vec::new();
        let mut known = 0;
        let mut unknown = 0;
        let mut ids = BTreeSet::new();
        let mut duplicates = 0;
        loop {
            let batch: Vec<Document> = corpus.by_ref().take(BATCH).collect::<Result<_, _>>()?;
            if batch.is_empty() {
                break;
            }
            if !self.new_labels {
                let labels = batch.iter().flat_map(|document| &document.labels);
                refuse_new_labels(&self.model, &model, labels)?;
            }
            let added = classifier.additions(&batch)?;
            for used in added.terms {
                known += used.known;
                unknown += used.unknown;
            }
            duplicates += batch.iter().filter(|document| !ids.insert(document.id.clone())).count();
            changes.extend(added.changes);
            progress.tick(changes.len() as u64);
        }
        drop(progress);
        self.reading.report(None, verbosity)?;
        let done = updated.commit(changes)?;
        let mut text = summary(&self.model, &updated);
        let _ = write!(text, "{} added; {} of them replaced a document", done.added, done.replaced);
        if duplicates > 0 {
            let _ = write!(
                text,
                "\nnote: {duplicates} documents repeated the identifier of an earlier document and \
                 replaced it"
            );
        }
        let share = unknown as f64 / (known + unknown).max(1) as f64;
        if share > MANY_UNKNOWN {
            let _ = write!(
                text,
                "\nnote: the model does not know {:.0} % of their terms; to learn them, run \
                 `classify compact --reweigh` or train again",
                share * 100.0
            );
        }
        verbosity.print(&text);
        Ok(())
    }
}
