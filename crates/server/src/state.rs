//! The model that answers requests, its documents on disk, and their changes and reloads.
//!
//! Requests read a [`LiveModel`] and are never blocked. Changes run one at a time under a lock, and
//! each creates a new live model. A timer reloads the model if its files have changed, or if
//! opening it failed for a reason that may have disappeared.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use classify::classifier::{Classifier, UpdatableEngines};
use classify::model::{
    Change, ChangeCounts, Collection, Model, UpdateError, UpdatedModel, journal_path,
};
use classify::rows::dense::DenseSpec;
use classify::search::{Engines, SearchError};
use classify::text::corpus::{Document, TextEncoder};

use crate::error::ServerError;
use crate::failure::Failure;
use crate::live::LiveModel;
use crate::metrics::Metrics;
use crate::names::NewLabelPolicy;
use crate::notes;
use crate::options::ServerOptions;

/// Delay between the first failure to open the model and the first retry. It doubles with each
/// further failure.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// Maximum delay between retries.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Options, metrics and model of a server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: ServerOptions,
    pub(crate) metrics: Metrics,
    live: RwLock<Arc<LiveModel>>,
    /// Whether the model on disk could not be opened. An old model then answers requests.
    reload_failed: AtomicBool,
    documents: Mutex<Documents>,
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct MadeChange {
    pub(crate) counts: ChangeCounts,
    /// Notes on probable mistakes in the request.
    pub(crate) notes: Vec<String>,
}

/// The documents on disk, and the search engines over them.
#[derive(Debug)]
struct Documents {
    engines: UpdatableEngines,
    /// The model, open for changes; `None` if the server may not change it or could not open it.
    updated: Option<UpdatedModel>,
    /// The files that the live model was read from; `None` if the model must be reloaded.
    files: Option<ModelFiles>,
    retry: Option<Retry>,
}

/// Next attempt to open the model.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    wait: Duration,
}

impl Retry {
    fn after(previous: Option<Self>) -> Self {
        let wait = previous.map_or(FIRST_RETRY, |previous| (previous.wait * 2).min(LAST_RETRY));
        Self { at: Instant::now() + wait, wait }
    }
}

/// Reason to reload the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReloadCause {
    /// A signal: reload the model in any case.
    Signal,
    /// The timer: reload the model if its files have changed or a retry is due.
    Timer,
}

/// State of the model's file and its journal at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelFiles {
    model: Option<FileStamp>,
    journal: Option<FileStamp>,
}

impl ModelFiles {
    fn now(model: &Path) -> Self {
        Self { model: FileStamp::now(model), journal: FileStamp::now(&journal_path(model)) }
    }
}

/// Identity, length and modification time of a file. A different stamp means that the file was
/// changed or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: SystemTime,
}

impl FileStamp {
    fn now(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        let modified = data.modified().ok()?;
        Some(Self { device: data.dev(), inode: data.ino(), length: data.len(), modified })
    }
}

impl State {
    pub(crate) fn open(options: ServerOptions, engines: Engines) -> Result<Self, ServerError> {
        let engines = UpdatableEngines::new(engines);
        let mut documents = Documents { engines, updated: None, files: None, retry: None };
        let live = documents.open(&options)?;
        let state = Self {
            options,
            metrics: Metrics::default(),
            live: RwLock::new(Arc::new(live)),
            reload_failed: AtomicBool::new(false),
            documents: Mutex::new(documents),
        };
        state.count_documents(&state.live());
        Ok(state)
    }

    /// Returns the model that answers requests.
    pub(crate) fn live(&self) -> Arc<LiveModel> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the model on disk could not be opened. An old model then answers requests.
    pub(crate) fn reload_failed(&self) -> bool {
        self.reload_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_live(&self, live: LiveModel) {
        self.count_documents(&live);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
    }

    fn count_documents(&self, live: &LiveModel) {
        let count = i64::try_from(live.model().ids().len()).unwrap_or(i64::MAX);
        self.metrics.documents.set(count);
    }

    fn documents(&self) -> MutexGuard<'_, Documents> {
        self.documents.lock().unwrap_or_else(|poisoned| self.recover(poisoned))
    }

    /// Recovers the documents after the thread that changed them panicked. The change may be
    /// incomplete in memory, so the model must be reloaded.
    fn recover<'a>(
        &self,
        poisoned: PoisonError<MutexGuard<'a, Documents>>,
    ) -> MutexGuard<'a, Documents> {
        tracing::error!("a change panicked: the model is reloaded");
        let mut documents = poisoned.into_inner();
        documents.updated = None;
        documents.files = None;
        self.documents.clear_poison();
        documents
    }

    /// Adds documents, and replaces documents with the same identifiers. Blocks the thread.
    pub(crate) fn add(
        &self,
        added: &[Document],
        new_labels: NewLabelPolicy,
    ) -> Result<MadeChange, Failure> {
        self.edit(added, Vec::new(), new_labels)
    }

    /// Replaces the labels of a document. Blocks the thread.
    pub(crate) fn relabel(
        &self,
        id: String,
        labels: Vec<String>,
        new_labels: NewLabelPolicy,
    ) -> Result<MadeChange, Failure> {
        self.edit(&[], vec![Change::Relabel { id, labels }], new_labels)
    }

    /// Removes a document. Blocks the thread.
    pub(crate) fn remove(&self, id: String) -> Result<MadeChange, Failure> {
        self.edit(&[], vec![Change::Remove { id }], NewLabelPolicy::Refuse)
    }

    /// Makes either all changes or none. The `added` documents are added after the other changes.
    /// Blocks the thread.
    pub(crate) fn edit(
        &self,
        added: &[Document],
        mut changes: Vec<Change>,
        new_labels: NewLabelPolicy,
    ) -> Result<MadeChange, Failure> {
        let mut documents = self.documents();
        if documents.updated.is_none() {
            return Err(Failure::Closed);
        }
        let live = self.live();
        let relabeled = changes.iter().filter_map(|change| match change {
            Change::Relabel { labels, .. } => Some(labels),
            Change::Put(_) | Change::Remove { .. } => None,
        });
        let labels = added.iter().map(|document| &document.labels).chain(relabeled).flatten();
        let note = new_labels.check(labels, live.model())?;
        let mut notes: Vec<String> = note.iter().map(notes::message).collect();
        let additions = live.classifier.additions(added)?;
        let unknown = additions.terms.iter().position(|terms| terms.known == 0);
        if let Some(unknown) = unknown.filter(|_| live.model().dense().is_none()) {
            notes.push(notes::no_known_term(&added[unknown].id));
        }
        changes.extend(additions.changes);
        let counts = self.commit(&mut documents, changes)?;
        Ok(MadeChange { counts, notes })
    }

    fn commit(
        &self,
        documents: &mut Documents,
        changes: Vec<Change>,
    ) -> Result<ChangeCounts, Failure> {
        let updated = documents.updated.as_mut().ok_or(Failure::Closed)?;
        let journal = FileStamp::now(&journal_path(&self.options.model));
        if documents.files.is_some_and(|files| files.journal != journal) {
            // Another process wrote to the journal. Appending to it could damage it.
            documents.files = None;
            return Err(Failure::Replaced);
        }
        let done = match updated.commit(changes) {
            Ok(done) => done,
            Err(UpdateError::Change(error)) => return Err(error.into()),
            Err(UpdateError::Replaced { .. }) => {
                // The next check of the files opens the new model.
                documents.files = None;
                return Err(Failure::Replaced);
            }
            Err(error) => {
                tracing::error!("documents were not changed: {error}");
                return Err(Failure::Storage);
            }
        };
        // The server changed the journal itself. Only other processes change the model's file.
        if let Some(files) = &mut documents.files {
            files.journal = FileStamp::now(&journal_path(&self.options.model));
        }
        let encoder = self.options.encoder.clone();
        match live_model(&mut documents.engines, updated.collection(), encoder) {
            Ok(live) => self.set_live(live),
            Err(error) => {
                tracing::error!("a change is on disk, but cannot be searched yet: {error}");
                documents.files = None;
                return Err(Failure::NotSearchable);
            }
        }
        Ok(done)
    }

    /// Reloads the model if `cause` requires it. Blocks the thread. If opening fails, the old model
    /// continues to answer requests.
    pub(crate) fn reload(&self, cause: ReloadCause) {
        let mut documents = match cause {
            ReloadCause::Signal => self.documents(),
            ReloadCause::Timer => match self.documents.try_lock() {
                Ok(documents) => documents,
                Err(TryLockError::Poisoned(poisoned)) => self.recover(poisoned),
                // Another thread changes documents or reloads the model. The timer will try again
                // soon.
                Err(TryLockError::WouldBlock) => return,
            },
        };
        if cause == ReloadCause::Timer && !documents.are_outdated(&self.options.model) {
            return;
        }
        // The old model holds a lock that would prevent opening the new one.
        drop(documents.updated.take());
        let opened = documents.open(&self.options);
        self.reload_failed.store(opened.is_err(), Ordering::Relaxed);
        match opened {
            Ok(live) => {
                tracing::info!(version = live.version, "reloaded the model");
                documents.retry = None;
                self.metrics.reloads.inc();
                self.set_live(live);
            }
            Err(error) => {
                self.metrics.failed_reloads.inc();
                tracing::error!(
                    "the model was not reloaded, so the old model continues to answer: {error}"
                );
                documents.retry = error.is_transient().then(|| Retry::after(documents.retry));
            }
        }
    }
}

impl Documents {
    /// Whether the model on disk seems to differ from the live model, or a retry is due.
    fn are_outdated(&self, model: &Path) -> bool {
        let is_due = self.retry.is_some_and(|retry| retry.at <= Instant::now());
        is_due || self.files != Some(ModelFiles::now(model))
    }

    fn open(&mut self, options: &ServerOptions) -> Result<LiveModel, ServerError> {
        // The stamps are read first, so that the next check detects later changes.
        self.files = Some(ModelFiles::now(&options.model));
        if options.token.is_some() {
            let updated = UpdatedModel::open(&options.model)?;
            let live = self.live_model(updated.collection(), options.encoder.clone())?;
            self.updated = Some(updated);
            return Ok(live);
        }
        let collection = Collection::new(Arc::new(Model::open(&options.model)?));
        self.live_model(&collection, options.encoder.clone())
    }

    /// Creates the live model of a model that was just opened.
    fn live_model(
        &mut self,
        collection: &Collection,
        encoder: Option<Arc<dyn TextEncoder>>,
    ) -> Result<LiveModel, ServerError> {
        if collection.model().settings().decision.needs_batch() {
            return Err(ServerError::NeedsBatch);
        }
        let model = collection.model();
        let settings = model.settings();
        if let Some(needed) = settings.dense.as_ref().and_then(DenseSpec::encoder)
            && model.needs_vectors(settings.dense_share)
            && encoder.as_ref().is_none_or(|encoder| encoder.spec().hash != needed.hash)
        {
            return Err(ServerError::OtherEncoder(needed.clone()));
        }
        Ok(live_model(&mut self.engines, collection, encoder)?)
    }
}

/// Creates the live model for the current documents of a collection.
fn live_model(
    engines: &mut UpdatableEngines,
    collection: &Collection,
    encoder: Option<Arc<dyn TextEncoder>>,
) -> Result<LiveModel, SearchError> {
    let model = collection.model();
    let searchers = engines.searchers(collection, model.settings().dense_share)?;
    let classifier = Classifier::with_searchers(model, searchers, engines.threads());
    Ok(LiveModel::new(classifier, encoder))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;
    use crate::test_server::TestServer;

    const CARS: &str = r#"{"id": "d", "text": "wheel brake", "label": "car"}"#;

    /// Panics in a thread that holds the documents.
    fn poison(state: &State) {
        std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _documents = state.documents.lock();
                panic!("a test");
            });
            assert!(panicking.join().is_err());
        });
        assert!(state.documents.is_poisoned());
    }

    #[test]
    fn models_are_reloaded_after_a_panic() {
        let server = TestServer::open();
        let state = &server.shared.state;
        poison(state);
        server.replace_model(CARS);
        state.reload(ReloadCause::Timer);
        assert_eq!(state.live().model().ids().get(0), Some("d"));
    }

    #[test]
    fn changes_work_after_a_panic() {
        let server = TestServer::open();
        let state = &server.shared.state;
        let remove = |id: &str| state.remove(id.to_owned());
        poison(state);
        // The panicking thread may have left a change incomplete in memory.
        assert!(matches!(remove("a"), Err(Failure::Closed)));
        state.reload(ReloadCause::Timer);
        assert_eq!(remove("a").unwrap().counts.removed, 1);
        assert_eq!(state.live().model().ids().len(), 2);
    }

    /// Another process holds the lock on the new model. The model's files do not change when that
    /// process ends.
    #[test]
    fn a_transient_failure_is_retried() {
        let server = TestServer::open();
        let state = &server.shared.state;
        server.replace_model(CARS);
        let other = UpdatedModel::open(&state.options.model).unwrap();
        state.reload(ReloadCause::Timer);
        assert_eq!(state.metrics.failed_reloads.get(), 1);
        drop(other);
        std::thread::sleep(FIRST_RETRY);
        state.reload(ReloadCause::Timer);
        assert_eq!(state.metrics.failed_reloads.get(), 1);
        assert_eq!(state.live().model().ids().get(0), Some("d"));
    }

    /// A process with too many open files can open the model again after it closes some.
    #[test]
    fn too_many_open_files_are_transient() {
        const FEW_FILES: &str = "CLASSIFY_TEST_FEW_FILES";
        if std::env::var_os(FEW_FILES).is_none() {
            // Other tests also need files, so this test runs in a separate process.
            let name = "state::tests::too_many_open_files_are_transient";
            let run = "ulimit -n 128 && exec \"$0\" --exact \"$1\"";
            let mut child = Command::new("sh");
            child.args(["-c", run]).arg(std::env::current_exe().unwrap()).arg(name);
            let done = child.env(FEW_FILES, "yes").output().unwrap();
            let output = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && output.contains("1 passed"), "{output}");
            return;
        }
        let server = TestServer::open();
        let state = &server.shared.state;
        server.replace_model(CARS);
        let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        state.reload(ReloadCause::Timer);
        assert_eq!(state.metrics.failed_reloads.get(), 1);
        drop(files);
        std::thread::sleep(FIRST_RETRY);
        state.reload(ReloadCause::Timer);
        assert_eq!(state.live().model().ids().get(0), Some("d"));
        // Changes are also possible again.
        assert_eq!(state.remove("d".to_owned()).unwrap().counts.removed, 1);
    }

    #[test]
    fn invalid_models_are_not_retried() {
        let server = TestServer::open();
        let state = &server.shared.state;
        std::fs::write(server.path("new.model"), "no model").unwrap();
        std::fs::rename(server.path("new.model"), &state.options.model).unwrap();
        for _ in 0..2 {
            state.reload(ReloadCause::Timer);
            std::thread::sleep(FIRST_RETRY);
        }
        assert_eq!(state.metrics.failed_reloads.get(), 1);
        state.reload(ReloadCause::Signal);
        assert_eq!(state.metrics.failed_reloads.get(), 2);
        assert_eq!(state.live().model().ids().get(0), Some("a"));
    }

    #[test]
    fn retries_become_rare() {
        let mut retry = Retry::after(None);
        assert_eq!(retry.wait, FIRST_RETRY);
        for _ in 0..20 {
            retry = Retry::after(Some(retry));
        }
        assert_eq!(retry.wait, LAST_RETRY);
    }
}
