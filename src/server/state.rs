//! The classifier that answers now, and the documents behind it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use super::metrics::Metrics;
use super::{ServeError, ServeOptions};
use crate::classifier::{Classifier, ClassifyError, ClassifyOptions, UpdatableEngines};
use crate::corpus::{Document, Format, LabelUse, ReadOptions};
use crate::counts::Fields;
use crate::dense::DenseFeatures;
use crate::model::{
    Change, Changed, Collection, InputSpec, Model, UpdateError, UpdatedModel, journal_path,
};
use crate::search::Engines;

/// What answers requests.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) classifier: Classifier,
    /// Of the model.
    pub(super) options: ClassifyOptions,
    /// Names the model with its changes.
    pub(super) version: String,
    /// How documents are read.
    pub(super) read: ReadOptions,
    /// Whether a document is one text.
    pub(super) takes_one_text: bool,
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

    pub(super) fn model(&self) -> &Arc<Model> {
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
pub(super) struct State {
    pub(super) options: ServeOptions,
    pub(super) metrics: Metrics,
    live: RwLock<Arc<Live>>,
    documents: Mutex<Documents>,
}

impl State {
    pub(super) fn open(options: ServeOptions, engines: Engines) -> Result<Self, ServeError> {
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
    pub(super) fn live(&self) -> Arc<Live> {
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
    pub(super) fn add(&self, added: &[Document]) -> Result<Changed, ChangeFailure> {
        let mut documents = self.documents();
        let changes = self.live().classifier.additions(added)?.changes;
        self.change(&mut documents, changes)
    }

    /// Makes changes. It blocks.
    pub(super) fn make(&self, changes: Vec<Change>) -> Result<Changed, ChangeFailure> {
        self.change(&mut self.documents(), changes)
    }

    fn change(
        &self,
        documents: &mut Documents,
        changes: Vec<Change>,
    ) -> Result<Changed, ChangeFailure> {
        let updated = documents.updated.as_mut().ok_or(ChangeFailure::ReadOnly)?;
        let done = updated.commit(changes)?;
        let live = of_collection(&mut documents.engines, updated.collection(), &self.live())?;
        documents.files = files(&self.options.model);
        self.set(live);
        Ok(done)
    }

    /// Opens the model again if its files have changed, or `anyway`. It blocks. Whatever goes wrong, the server goes
    /// on with what it has.
    pub(super) fn reload(&self, anyway: bool) {
        let mut documents = self.documents();
        let now = files(&self.options.model);
        if now == documents.files && !anyway {
            return;
        }
        documents.files = now;
        // The lock on the old journal is in the way.
        let before = documents.updated.take();
        drop(before);
        match documents.open(&self.options) {
            Ok(live) => {
                tracing::info!(version = live.version, "opened the model again");
                self.metrics.reloads.inc();
                self.set(live);
            }
            Err(error) => {
                self.metrics.failed_reloads.inc();
                tracing::error!("the model was not opened again, the old one goes on: {error}");
            }
        }
    }
}

/// Why documents were not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChangeFailure {
    #[error("documents cannot be changed: start the server with --token-file, and see its log")]
    ReadOnly,
    #[error(transparent)]
    Update(#[from] UpdateError),
    #[error(transparent)]
    Document(#[from] ClassifyError),
    #[error(transparent)]
    Search(#[from] crate::search::SearchError),
}

fn files(model: &Path) -> [Seen; 2] {
    [seen(model), seen(&journal_path(model))]
}

/// A classifier of the documents that are there now.
fn of_collection(
    engines: &mut UpdatableEngines,
    collection: &Collection,
    before: &Live,
) -> Result<Live, crate::search::SearchError> {
    let model = collection.model();
    let searchers = engines.searchers(collection, model.settings().dense_share)?;
    let threads = before.classifier.threads();
    Ok(Live::new(Classifier::with_searchers(model, searchers, threads)))
}

impl Documents {
    fn open(&mut self, options: &ServeOptions) -> Result<Live, ServeError> {
        self.files = files(&options.model);
        let collection;
        let collection = if options.token.is_some() {
            let updated = UpdatedModel::open(&options.model)?;
            self.files = files(&options.model);
            self.updated.insert(updated).collection()
        } else {
            collection = Collection::new(Arc::new(Model::open(&options.model)?));
            &collection
        };
        let model = collection.model();
        if model.settings().decision.needs_batch() {
            return Err(ServeError::NeedsBatch);
        }
        let searchers = self.engines.searchers(collection, model.settings().dense_share)?;
        let threads = self.engines.threads().clone();
        Ok(Live::new(Classifier::with_searchers(model, searchers, &threads)))
    }
}
