//! A model file that is open for changes to its documents.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array_file::output::{Output, OutputProblem};

use super::journal::{
    HEADER_SIZE, JournalContents, JournalLock, JournalState, UpdateError, contents, file_identity,
    frames, header, identity, path_identity, replay, warn_of_stale,
};
use super::{Change, ChangeCounts, Collection, Model, ModelError, ModelProblem};

/// A model file that is open for changes to its documents. Other processes cannot change the
/// documents at the same time.
///
/// ```
/// use classify::learn::Trainer;
/// use classify::model::{Change, Model, UpdatedModel};
/// use classify::text::corpus::Document;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a.model");
/// let documents = [
///     Document::text("1", "bake the bread").labels(["cooking"]),
///     Document::text("2", "the guitar strings").labels(["music"]),
/// ];
/// Trainer::builder().build().train(documents)?.model.save(&path)?;
///
/// let mut updated = UpdatedModel::open(&path)?;
/// updated.commit(vec![Change::Relabel { id: "2".into(), labels: vec!["sound".into()] }])?;
/// drop(updated);
/// let model = Model::open(&path)?;
/// assert_eq!(model.labels().iter().collect::<Vec<_>>(), ["cooking", "music", "sound"]);
/// assert_eq!(model.document_labels(1), [2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UpdatedModel {
    path: PathBuf,
    lock: JournalLock,
    /// The offset of the end of the last commit; 0 if there is no journal yet.
    end: u64,
    identity: u32,
    collection: Collection,
    /// Whether a write failed, so that the state of the file is unknown.
    has_failed: bool,
}

impl UpdatedModel {
    /// Opens a model and its journal, and locks both until the value is dropped.
    ///
    /// # Errors
    /// Fails if either cannot be read or is not valid, or if another process is changing the
    /// model's documents.
    pub fn open(path: &Path) -> Result<Self, UpdateError> {
        let lock = JournalLock::new(path)?;
        let fail = |problem| ModelError { path: lock.path.clone(), problem };
        // A process may replace the model without locking it. If this happens after the file is
        // read here, the next commit detects it.
        let model = Model::open_alone(path)?;
        let mut bytes = Vec::new();
        if let Some(mut journal) = lock.journal.as_ref() {
            journal.read_to_end(&mut bytes).map_err(|error| fail(ModelProblem::Read(error)))?;
        }
        let identity = identity(&model);
        let mut collection = Collection::new(Arc::new(model));
        let end = match contents(&bytes, identity).map_err(fail)? {
            JournalState::Missing => 0,
            JournalState::Stale => {
                if bytes.len() >= HEADER_SIZE {
                    warn_of_stale(&lock.path);
                }
                0
            }
            JournalState::Valid(JournalContents { commits, end }) => {
                replay(&mut collection, commits).map_err(fail)?;
                end
            }
        };
        collection.merge();
        let path = path.to_owned();
        Ok(Self { path, lock, end, identity, collection, has_failed: false })
    }

    /// Returns the documents.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Returns a model with all changes.
    pub fn model(&self) -> Arc<Model> {
        self.collection.model()
    }

    /// Applies changes, either all or none. When this function returns, the changes are in the
    /// journal and synced.
    ///
    /// # Errors
    /// Fails if a change cannot be applied or the journal cannot be written. In this case, nothing
    /// is changed.
    pub fn commit(&mut self, changes: Vec<Change>) -> Result<ChangeCounts, UpdateError> {
        if changes.is_empty() {
            return Ok(ChangeCounts::default());
        }
        let fail = |problem| ModelError { path: self.lock.path.clone(), problem };
        let bytes = frames(&changes).map_err(fail)?;
        self.collection.check(&changes)?;
        self.check_not_replaced()?;
        let before = self.end;
        let written = self.append(&bytes);
        if let Err(source) = written {
            // Remove the written bytes. If that also fails, they may count as a commit.
            let end = self.end;
            self.has_failed |=
                self.lock.journal.as_ref().is_some_and(|file| file.set_len(end).is_err());
            let problem = OutputProblem::Io { doing: "write", source };
            return Err(ModelError { path: self.lock.path.clone(), problem: problem.into() }.into());
        }
        if let Err(replaced) = self.check_not_replaced() {
            // The journal may have been removed, or may belong to no model.
            let _ = self.lock.journal.as_ref().map(|file| file.set_len(before));
            self.has_failed = true;
            return Err(replaced);
        }
        Ok(self.collection.apply(changes)?)
    }

    /// Returns an error unless the journal and the model are still the files that were opened.
    fn check_not_replaced(&self) -> Result<(), UpdateError> {
        if self.lock.is_current() && path_identity(&self.path) == file_identity(&self.lock.model) {
            return Ok(());
        }
        Err(UpdateError::Replaced { path: self.path.clone() })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier write failed: open the model again"));
        }
        let is_new = self.end == 0;
        let mut all = if is_new { header(self.identity).to_vec() } else { Vec::new() };
        all.extend(bytes);
        let end = self.end;
        let mut journal = self.lock.journal()?;
        journal.set_len(end)?;
        journal.seek(SeekFrom::End(0))?;
        journal.write_all(&all)?;
        journal.sync_data()?;
        if is_new {
            // Sync the directory, so that the journal's name survives a power failure.
            let folder = File::open(self.lock.path.parent().unwrap_or(Path::new("/")));
            match folder.and_then(|folder| folder.sync_all()) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        self.end += all.len() as u64;
        Ok(())
    }

    /// Replaces the model file with a file that contains all changes, and removes the journal. If
    /// the process is killed during the replacement, either the old model with its journal or the
    /// new model remains.
    ///
    /// # Errors
    /// Fails if the model cannot be written or the journal cannot be removed. In the first case,
    /// nothing is changed. In the second case, the journal is ignored, because it does not belong
    /// to the new model.
    pub fn compact(self) -> Result<Arc<Model>, UpdateError> {
        let output = Output::open(&self.path)
            .map_err(|error| ModelError { path: error.path, problem: error.problem.into() })?;
        let model = self.model();
        self.replace(&model, output)?;
        Ok(model)
    }

    /// Replaces the model with another one and removes the journal, like
    /// [`compact`](Self::compact).
    ///
    /// # Errors
    /// Fails in the same cases as [`compact`](Self::compact).
    pub fn replace(self, model: &Model, output: Output) -> Result<(), UpdateError> {
        self.check_not_replaced()?;
        Ok(model.save_locked(output, &self.lock)?)
    }
}
