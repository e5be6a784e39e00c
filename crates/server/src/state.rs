//! The classifier that answers now, and the documents behind it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use crate::metrics::Metrics;
use crate::{ServeError, ServeOptions};
use classify::classifier::{Classifier, ClassifyError, ClassifyOptions, UpdatableEngines};
use classify::corpus::{Document, Format, LabelUse, ReadOptions};
use classify::counts::Fields;
use classify::dense::DenseFeatures;
use classify::model::{
    Change, Changed, Collection, InputSpec, Model, UpdateError, UpdatedModel, journal_path,
};
use classify::search::Engines;

/// What answers requests.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) classifier: Classifier,
    /// Of the model.
    pub(crate) options: ClassifyOptions,
    /// Names the model with its changes.
    pub(crate) version: String,
    /// How documents are read.
    pub(crate) read: ReadOptions,
    /// Whether a document is one text.
    pub(crate) takes_one_text: bool,
}

impl Live {
    fn new(classifier: Classifier) -> Self {
        let model = classifier.model();
        let mut read = ReadOptions {
            format: Some(Format::Jsonl),
            labels: LabelUse::Optional,
            ..ReadOptions::default()
        };
        model.fit_read_options(&mut read);
        let settings = model.settings();
        let given = settings
            .dense
            .as_ref()
            .is_some_and(|dense| matches!(dense.features, DenseFeatures::Given { .. }));
        let one = matches!(settings.fields, Fields::Whole | Fields::FirstLine { .. });
        let takes_one_text = matches!(settings.input, InputSpec::Text(_)) && one && !given;
        let (options, version) = (classifier.options(), model.version());
        Self { classifier, options, version, read, takes_one_text }
    }

    pub(crate) fn model(&self) -> &Arc<Model> {
        self.classifier.model()
    }
}

/// What a file was when it was looked at.
type Seen = Option<(u64, u64, u64, SystemTime)>;

fn seen(path: &Path) -> Seen {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.len(), data.modified().ok()?))
}

/// The documents, and the engines over them.
#[derive(Debug)]
struct Documents {
    engines: UpdatableEngines,
    /// If they can be changed.
    updated: Option<UpdatedModel>,
    /// The model's file and its journal, as they were when they were opened.
    files: [Seen; 2],
}

/// What the server knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: ServeOptions,
    pub(crate) metrics: Metrics,
    live: RwLock<Arc<Live>>,
    documents: Mutex<Documents>,
}

impl State {
    pub(crate) fn open(options: ServeOptions, engines: Engines) -> Result<Self, ServeError> {
        let mut documents =
            Documents { engines: UpdatableEngines::new(engines), updated: None, files: [None; 2] };
        let live = documents.open(&options)?;
        let metrics = Metrics::default();
        metrics.documents.set(i64::try_from(live.model().ids().len()).unwrap_or(i64::MAX));
        Ok(Self {
            options,
            metrics,
            live: RwLock::new(Arc::new(live)),
            documents: Mutex::new(documents),
        })
    }

    /// What answers now.
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn documents(&self) -> MutexGuard<'_, Documents> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, live: Live) {
        self.metrics.documents.set(i64::try_from(live.model().ids().len()).unwrap_or(i64::MAX));
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
    }

    /// Adds documents. It blocks.
    pub(crate) fn add(&self, added: &[Document]) -> Result<Changed, ChangeFailure> {
        let mut documents = self.documents();
        if documents.updated.is_none() {
            return Err(ChangeFailure::Closed);
        }
        let changes = self.live().classifier.additions(added)?.changes;
        self.change(&mut documents, changes)
    }

    /// Makes changes. It blocks.
    pub(crate) fn make(&self, changes: Vec<Change>) -> Result<Changed, ChangeFailure> {
        self.change(&mut self.documents(), changes)
    }

    fn change(
        &self,
        documents: &mut Documents,
        changes: Vec<Change>,
    ) -> Result<Changed, ChangeFailure> {
        let updated = documents.updated.as_mut().ok_or(ChangeFailure::Closed)?;
        let done = match updated.commit(changes) {
            Err(replaced @ UpdateError::Replaced { .. }) => {
                // The next look at the files opens the new model.
                documents.files = [None; 2];
                return Err(replaced.into());
            }
            done => done?,
        };
        // The journal's change is this server's own; the model's would be someone else's.
        documents.files[1] = seen(&journal_path(&self.options.model));
        match of_collection(&mut documents.engines, updated.collection(), &self.live()) {
            Ok(live) => self.set(live),
            Err(error) => {
                documents.files = [None; 2];
                return Err(ChangeFailure::Later(error));
            }
        }
        Ok(done)
    }

    /// Opens the model again if its files have changed, or `anyway`. It blocks. Whatever goes wrong, the server goes
    /// on with what it has.
    pub(crate) fn reload(&self, anyway: bool) {
        let documents = if anyway { Ok(self.documents()) } else { self.documents.try_lock() };
        // Whoever has it is opening the model, or changing it: the next look is soon.
        let Ok(mut documents) = documents else { return };
        if files(&self.options.model) == documents.files && !anyway {
            return;
        }
        // The lock on the old model is in the way.
        drop(documents.updated.take());
        match documents.open(&self.options) {
            Ok(live) => {
                tracing::info!(version = live.version, "opened the model again");
                self.metrics.reloads.inc();
                self.set(live);
            }
            Err(error) => {
                self.metrics.failed_reloads.inc();
                tracing::error!("the model was not opened again, the old one goes on: {error}");
                if matches!(error, ServeError::Update(UpdateError::Locked { .. })) {
                    // Not for long.
                    documents.files = [None; 2];
                }
            }
        }
    }
}

/// Why documents were not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeFailure {
    #[error("documents cannot be changed: the server was started without --token-file")]
    ReadOnly,
    #[error(
        "the model on disk could not be opened, so documents cannot be changed now: see the server's log"
    )]
    Closed,
    #[error("the change is on disk, but answers do not know it yet: {0}")]
    Later(#[source] classify::search::SearchError),
    #[error(transparent)]
    Update(#[from] UpdateError),
    #[error(transparent)]
    Document(#[from] ClassifyError),
}

fn files(model: &Path) -> [Seen; 2] {
    [seen(model), seen(&journal_path(model))]
}

/// A classifier of the documents that are there now.
fn of_collection(
    engines: &mut UpdatableEngines,
    collection: &Collection,
    before: &Live,
) -> Result<Live, classify::search::SearchError> {
    let model = collection.model();
    let searchers = engines.searchers(collection, model.settings().dense_share)?;
    let threads = before.classifier.threads();
    Ok(Live::new(Classifier::with_searchers(model, searchers, threads)))
}

impl Documents {
    fn open(&mut self, options: &ServeOptions) -> Result<Live, ServeError> {
        // What changes after this look is found by the next one.
        self.files = files(&options.model);
        let (collection, updated) = if options.token.is_some() {
            (None, Some(UpdatedModel::open(&options.model)?))
        } else {
            (Some(Collection::new(Arc::new(Model::open(&options.model)?))), None)
        };
        let documents = match (&updated, &collection) {
            (Some(updated), _) => updated.collection(),
            (None, Some(collection)) => collection,
            (None, None) => unreachable!("there is one of them"),
        };
        let model = documents.model();
        if model.settings().decision.needs_batch() {
            return Err(ServeError::NeedsBatch);
        }
        let searchers = self.engines.searchers(documents, model.settings().dense_share)?;
        let threads = self.engines.threads().clone();
        self.updated = updated;
        Ok(Live::new(Classifier::with_searchers(model, searchers, &threads)))
    }
}
