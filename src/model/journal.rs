//! The journal of a model: a file next to the model that contains changes to its documents. Commits
//! are appended and synced. [`UpdatedModel::compact`](crate::model::UpdatedModel::compact) writes
//! them into the model.
//!
//! # The file
//!
//! `MODEL.journal` begins with a header: the letters `CLSFJRNL`, the version, a checksum of the
//! model's array checksums, and a checksum of the header. Frames follow. A frame has five parts:
//! the length of its changes, a mark, a checksum of the changes, a checksum of the first three
//! parts, and the changes. The mark is 1 in the last frame of a commit and 0 in other frames. All
//! numbers are little-endian; checksums are CRC-32.
//!
//! A commit is complete when its last frame has been written. If a process was killed during a
//! commit, the incomplete commit is ignored, and the next commit removes it. A journal of another
//! model is ignored with a warning. Such a journal remains if a process compacts or retrains the
//! model but is killed before it removes the journal.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::{Change, Collection, Model, ModelError, ModelProblem};

mod format;
mod lock;

pub(super) use format::{HEADER_SIZE, JournalContents, JournalState, contents, frames, header};
pub use lock::{JournalLock, UpdateError, journal_path};
pub(super) use lock::{file_identity, path_identity};

/// Returns a number that identifies the model of a journal: the CRC-32 of the checksums in the
/// model file.
pub(super) fn identity(model: &Model) -> u32 {
    let checksums = serde_json::to_vec(&model.settings().checksums);
    crc32fast::hash(&checksums.expect("names and checksums are strings"))
}

impl Model {
    /// Returns a string that identifies the model and its changes. The string differs after each
    /// change.
    pub fn version(&self) -> String {
        // Settings were read from JSON or will be written as JSON.
        let settings = serde_json::to_vec(self.settings()).unwrap_or_default();
        format!("{:08x}", crc32fast::hash(&settings))
    }
}

/// Reads the bytes of a file. Returns no bytes if the file does not exist.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Opens a model with `open` and applies the changes in its journal.
pub(super) fn with_journal(
    path: &Path,
    open: impl Fn(&Path) -> Result<Model, ModelError>,
) -> Result<Model, ModelError> {
    let journal = journal_path(path);
    let fail = |problem| ModelError { path: journal.clone(), problem };
    // The journal is read first. If another process compacts the model in between, the journal does
    // not match the model. In the second attempt, there is no journal.
    for _ in 0..2 {
        let bytes = bytes_of(&journal).map_err(|error| fail(ModelProblem::Read(error)))?;
        let model = open(path)?;
        match contents(&bytes, identity(&model)).map_err(fail)? {
            JournalState::Missing => return Ok(model),
            JournalState::Stale => {}
            JournalState::Valid(JournalContents { commits, .. }) if commits.is_empty() => {
                return Ok(model);
            }
            JournalState::Valid(JournalContents { commits, .. }) => {
                let mut collection = Collection::new(Arc::new(model));
                replay(&mut collection, commits).map_err(fail)?;
                return Ok(collection.into_model().expect("the only owner"));
            }
        }
    }
    let model = open(path)?;
    warn_of_stale(&journal);
    Ok(model)
}

pub(super) fn warn_of_stale(journal: &Path) {
    tracing::warn!(
        "{} does not belong to this model, which was compacted or retrained later: the journal is \
         ignored, and the next change replaces it",
        crate::printable::printable(journal.display())
    );
}

pub(super) fn replay(
    collection: &mut Collection,
    commits: Vec<Vec<Change>>,
) -> Result<(), ModelProblem> {
    for changes in commits {
        collection
            .apply(changes)
            .map_err(|error| ModelProblem::invalid("journal", error.to_string()))?;
    }
    Ok(())
}
