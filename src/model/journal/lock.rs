//! Locks on a model and its journal, which prevent changes by other processes.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::model::{ChangeError, ModelError, ModelProblem};
use crate::printable::printable;

/// The reason the documents of a model could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The model or its journal cannot be read or written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A change cannot be applied.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The model's file was replaced.
    #[error(
        "{}: another model has replaced the opened model: open the file again",
        printable(path.display())
    )]
    Replaced {
        /// The model.
        path: PathBuf,
    },
    /// Another process is changing the model's documents.
    #[error("{}: another process is changing this model's documents", printable(path.display()))]
    Locked {
        /// The journal.
        path: PathBuf,
    },
}

/// Returns the path of a model's journal: the model's path with `.journal` appended.
pub fn journal_path(model: &Path) -> PathBuf {
    // All paths to the same file share one journal.
    let model = std::fs::canonicalize(model).unwrap_or_else(|_| model.to_owned());
    let mut name = model.into_os_string();
    name.push(".journal");
    name.into()
}

/// Returns the device and inode of the file at a path.
pub(in crate::model) fn path_identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

/// A lock that keeps other processes from changing a model's documents until it is dropped. It
/// locks the model file, and the journal if there is one. Readers are never blocked.
#[derive(Debug)]
pub struct JournalLock {
    pub(in crate::model) path: PathBuf,
    pub(in crate::model) model: File,
    pub(in crate::model) journal: Option<File>,
}

/// Returns the device and inode of an open file.
pub(in crate::model) fn file_identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|data| (data.dev(), data.ino()))
}

impl JournalLock {
    /// Locks a model and its journal.
    ///
    /// # Errors
    /// Fails if there is no such model, if a file cannot be opened, or if another process has
    /// locked a file.
    pub fn new(model: &Path) -> Result<Self, UpdateError> {
        let fail = |path: &Path, problem| ModelError { path: path.to_owned(), problem };
        let try_lock = |path: &Path, file: &File| match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(UpdateError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(fail(path, ModelProblem::Read(error)).into()),
        };
        loop {
            let file = File::open(model).map_err(|error| fail(model, ModelProblem::Read(error)))?;
            try_lock(model, &file)?;
            // A process that compacts the model replaces its file and removes the journal.
            if file_identity(&file) != path_identity(model) {
                continue;
            }
            let path = journal_path(model);
            let journal = match File::options().read(true).append(true).open(&path) {
                Ok(journal) => Some(journal),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(fail(&path, ModelProblem::Read(error)).into()),
            };
            if let Some(journal) = &journal {
                try_lock(&path, journal)?;
            }
            let lock = Self { path, model: file, journal };
            if lock.is_current() {
                return Ok(lock);
            }
        }
    }

    /// Whether the locked journal is still the file at its path. Also true if there is no journal.
    pub(in crate::model) fn is_current(&self) -> bool {
        self.journal
            .as_ref()
            .is_none_or(|journal| file_identity(journal) == path_identity(&self.path))
    }

    /// Returns the journal. If there is none, creates it with the permissions of the model.
    pub(in crate::model) fn journal(&mut self) -> io::Result<&File> {
        if self.journal.is_none() {
            let mut options = File::options();
            let options = options.read(true).append(true).create_new(true).mode(0o600);
            let journal = options.open(&self.path)?;
            journal.try_lock().map_err(io::Error::from)?;
            let metadata = self.model.metadata()?;
            if metadata.permissions().readonly() {
                let _ = std::fs::remove_file(&self.path);
                return Err(io::Error::new(ErrorKind::PermissionDenied, "the model is read-only"));
            }
            // Change the owner if the user is allowed to.
            let _ = fchown(&journal, Some(metadata.uid()), Some(metadata.gid()));
            journal.set_permissions(metadata.permissions())?;
            self.journal = Some(journal);
        }
        Ok(self.journal.as_ref().expect("created above"))
    }

    /// Removes the journal of a replaced model.
    pub(in crate::model) fn remove_journal(&self) -> io::Result<()> {
        if self.journal.is_some() && self.is_current() {
            return std::fs::remove_file(&self.path);
        }
        Ok(())
    }
}
