//! Helpers for the commands that change the documents of a model.

use std::path::Path;

use classify::model::{JournalLock, UpdatedModel};

use crate::failure::Failure;

/// Locks the documents of a model that will be replaced; `None` if there is no model yet.
pub(crate) fn lock_documents(model: &Path) -> Result<Option<JournalLock>, Failure> {
    let is_model = std::fs::metadata(model).is_ok_and(|data| data.is_file());
    Ok(is_model.then(|| JournalLock::new(model)).transpose()?)
}

/// Returns the common beginning of the commands' messages.
pub(super) fn summary(path: &Path, updated: &UpdatedModel) -> String {
    format!("{}: {} documents; ", path.display(), updated.collection().len())
}

/// Reads the text of a file or of standard input.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let read = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::Input { path: path.to_owned(), message: error.to_string() })
}
