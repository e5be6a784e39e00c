//! `classify add`, `remove`, `relabel` and `compact`: documents that come and go.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use classify::classifier::{Classifier, Searchers};
use classify::learn::reweigh;
use classify::model::{
    Change, ChangeError, JournalLock, Model, UpdateError, UpdatedModel, Updates,
};
use classify::text::corpus::{Document, IdUse, LabelUse};
use classify::threads::Threads;

use super::failure::Failure;
use super::outputs::Files;
use super::progress::{Progress, Talk};
use super::reading::{Reading, fit, open};
use super::searching::Searching;

/// Documents that are weighted together.
const BATCH: usize = 1024;
/// The share of unknown terms above which weighing anew is advised.
const MANY_UNKNOWN: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// The model
    model: PathBuf,
    /// Labeled documents: files, folders, or - for standard input. A document replaces those with its identifier
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// Call documents that have no identifier by this and their number; without it they are refused, as the model's
    /// documents may have the same numbers
    #[arg(long, value_name = "PREFIX")]
    number_as: Option<String>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    searching: Searching,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The model
    model: PathBuf,
    /// The identifiers of the documents
    #[arg(value_name = "ID", required_unless_present = "from")]
    ids: Vec<String>,
    /// A file of identifiers, one per line; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Ignore identifiers that no document has
    #[arg(long)]
    ignore_missing: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Relabel {
    /// The model
    model: PathBuf,
    /// The identifier of the document
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    id: Option<String>,
    /// All labels that it is to have; none: it loses its labels
    labels: Vec<String>,
    /// A JSONL file of documents with the fields id and labels, a list; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Compact {
    /// The model
    model: PathBuf,
    /// Count and weigh the kept texts anew, so that the model knows the terms of all documents
    #[arg(long)]
    reweigh: bool,
}

impl Add {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        let _ = Files::default().reads_corpora(&self.corpora, self.reading.format());
        let mut updated = UpdatedModel::open(&self.model)?;
        let model = updated.model();
        let share = model.settings().dense_share;
        let searchers = if model.novelty_score().is_some() {
            let engines = self.searching.engines(threads, talk)?;
            Searchers::of(&model, share, &engines)?
        } else {
            Searchers::default()
        };
        let classifier = Classifier::with_searchers(Arc::clone(&model), searchers, threads);
        let mut read = self.reading.options(LabelUse::Required, Some(threads))?;
        read.ids = self.number_as.map_or(IdUse::Required, IdUse::Prefixed);
        fit(&model, share, &mut read)?;
        let progress = Progress::new(talk, "adding", &self.corpora);
        let mut corpus = open(&self.corpora, read, talk, &progress)?;
        let mut changes = Vec::new();
        let (mut known, mut unknown) = (0, 0);
        let mut ids = BTreeSet::new();
        let mut doubles = 0;
        loop {
            let batch: Vec<Document> = corpus.by_ref().take(BATCH).collect::<Result<_, _>>()?;
            if batch.is_empty() {
                break;
            }
            let added = classifier.additions(&batch)?;
            for used in added.terms {
                known += used.known;
                unknown += used.unknown;
            }
            doubles += batch.iter().filter(|document| !ids.insert(document.id.clone())).count();
            changes.extend(added.changes);
            progress.tick(changes.len() as u64);
        }
        let done = updated.commit(changes)?;
        drop(progress);
        let mut text = said(&self.model, &updated);
        let _ = write!(text, "{} added, {} of them in place of others", done.added, done.replaced);
        if doubles > 0 {
            let _ = write!(
                text,
                "\nnote: {doubles} documents had the identifier of one before them, which they replaced"
            );
        }
        let share = unknown as f64 / (known + unknown).max(1) as f64;
        if share > MANY_UNKNOWN {
            let _ = write!(
                text,
                "\nnote: the model does not know {:.0} % of their terms; `classify compact --reweigh`, or training again, \
                 would let it learn them",
                share * 100.0
            );
        }
        talk.say(&text);
        Ok(())
    }
}

impl Remove {
    pub(crate) fn run(self, talk: Talk) -> Result<(), Failure> {
        let mut ids = self.ids.clone();
        if let Some(from) = &self.from {
            let text = text_of(from)?;
            ids.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        }
        let mut updated = UpdatedModel::open(&self.model)?;
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        let missing: Vec<&String> =
            ids.iter().filter(|id| !updated.collection().contains(id)).collect();
        if !missing.is_empty() && !self.ignore_missing {
            return Err(Failure::Input { path: self.model, message: none_has(&missing) });
        }
        let count = missing.len();
        ids.retain(|id| updated.collection().contains(id));
        let changes = ids.into_iter().map(|id| Change::Remove { id }).collect();
        let done = updated.commit(changes)?;
        let mut text = said(&self.model, &updated);
        let _ = write!(text, "{} removed", done.removed);
        if count > 0 {
            let _ = write!(text, "; {count} were not there");
        }
        talk.say(&text);
        Ok(())
    }
}

/// A line of `relabel --from`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Labeled {
    id: String,
    labels: Vec<String>,
}

impl Relabel {
    pub(crate) fn run(self, talk: Talk) -> Result<(), Failure> {
        let mut changes = Vec::new();
        if let Some(from) = &self.from {
            for (number, line) in (1..).zip(text_of(from)?.lines()) {
                if line.trim().is_empty() {
                    continue;
                }
                let read: Result<Labeled, _> = serde_json::from_str(line);
                let Labeled { id, labels } = read.map_err(|error| {
                    let message = format!(
                        "line {number}: {error}; expected {{\"id\": \"…\", \"labels\": [\"…\"]}}"
                    );
                    Failure::Input { path: from.clone(), message }
                })?;
                changes.push(Change::Relabel { id, labels });
            }
        } else if let Some(id) = self.id {
            changes.push(Change::Relabel { id, labels: self.labels });
        }
        let mut updated = UpdatedModel::open(&self.model)?;
        let done = updated.commit(changes).map_err(|error| in_model(&self.model, error))?;
        let mut text = said(&self.model, &updated);
        let _ = write!(text, "{} got other labels", done.relabeled);
        talk.say(&text);
        Ok(())
    }
}

impl Compact {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        let updated = UpdatedModel::open(&self.model)?;
        let documents = updated.collection().len();
        if self.reweigh {
            let model = updated.model();
            let output = Files::default().file(&self.model, "a model")?;
            let anew = reweigh(&model, threads)?;
            let (before, after) = (model.vocabulary().len(), anew.vocabulary().len());
            updated.replace(&anew, output)?;
            talk.say(&format!(
                "{}: {documents} documents, weighed anew: {after} terms instead of {before}",
                self.model.display()
            ));
        } else {
            updated.compact()?;
            talk.say(&format!("{}: {documents} documents", self.model.display()));
        }
        Ok(())
    }
}

/// Keeps others from changing the documents of a model that will be replaced, if there is one.
pub(crate) fn lock(model: &Path) -> Result<Option<JournalLock>, Failure> {
    let is_model = std::fs::metadata(model).is_ok_and(|data| data.is_file());
    Ok(is_model.then(|| JournalLock::new(model)).transpose()?)
}

/// The first words of what a command says.
fn said(path: &Path, updated: &UpdatedModel) -> String {
    format!("{}: {} documents; ", path.display(), updated.collection().len())
}

fn none_has(ids: &[&String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect();
    let more = ids.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} others") } else { String::new() };
    format!("no document is called {}{more}; nothing was removed", shown.join(", "))
}

/// A change that cannot be made is an error of the input.
fn in_model(path: &Path, error: UpdateError) -> Failure {
    match error {
        UpdateError::Change(error @ ChangeError::NoSuchDocument { .. }) => {
            Failure::Input { path: path.to_owned(), message: error.to_string() }
        }
        error => error.into(),
    }
}

/// The text of a file or of standard input.
fn text_of(path: &Path) -> Result<String, Failure> {
    let read = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::Input { path: path.to_owned(), message: error.to_string() })
}

/// A note for users of a model whose documents have changed since it learned from them.
pub(crate) fn note(model: &Model) -> Option<String> {
    let updates = model.settings().updates.filter(Updates::are_any)?;
    Some(format!(
        "{} added, {} removed, {} relabeled since the model was trained or tuned: thresholds and probabilities are older \
         than these documents; `classify tune` renews them",
        updates.added, updates.removed, updates.relabeled
    ))
}
