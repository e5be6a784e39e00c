//! Helpers for the commands that change the documents of a model.

use std::collections::HashSet;
use std::path::Path;

use classify::model::{JournalLock, Model, UpdatedModel};
use classify::text::corpus::closest_label;

use crate::failure::Failure;

/// Locks the documents of a model that will be replaced. Returns `None` if there is no model yet.
pub(crate) fn lock_documents(model: &Path) -> Result<Option<JournalLock>, Failure> {
    let is_model = std::fs::metadata(model).is_ok_and(|data| data.is_file());
    Ok(is_model.then(|| JournalLock::new(model)).transpose()?)
}

/// Returns the start of a command's summary: the path and the number of documents.
pub(super) fn summary(path: &Path, updated: &UpdatedModel) -> String {
    format!("{}: {} documents; ", path.display(), updated.collection().len())
}

/// Returns an error if the model lacks one of the labels: a misspelled label would become a new
/// label.
pub(super) fn refuse_new_labels<'a>(
    path: &Path,
    model: &Model,
    labels: impl IntoIterator<Item = &'a String>,
) -> Result<(), Failure> {
    let known: HashSet<&str> = model.labels().iter().collect();
    let is_new = |label: &&String| !label.is_empty() && !known.contains(label.as_str());
    let Some(new) = labels.into_iter().find(is_new) else {
        return Ok(());
    };
    let closest = match closest_label(new, model.labels().iter().collect::<Vec<_>>()) {
        Some(label) => format!("; the closest is `{label}`"),
        None => String::new(),
    };
    let message = format!(
        "the model has no label `{new}`{closest}; nothing was changed. `--new-labels` allows it"
    );
    Err(Failure::Input { path: path.to_owned(), message })
}

/// Reads a file or standard input as text, without a byte order mark.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let read = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let read = read.map(|text| match text.strip_prefix('\u{FEFF}') {
        Some(text) => text.to_owned(),
        None => text,
    });
    read.map_err(|error| Failure::Input { path: path.to_owned(), message: error.to_string() })
}
