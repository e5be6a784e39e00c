//! Checks the identifiers and labels of changed documents.

use std::collections::BTreeSet;

use classify::model::{ChangeError, Model};
use classify::text::corpus::{Document, Note, closest_label};

use crate::failure::Failure;

/// Maximum number of labels of a document.
const MAX_LABELS: usize = 1000;

/// How to handle labels that the model does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewLabelPolicy {
    /// Refuse them, because a misspelled label would become a new label.
    Refuse,
    /// Add them to the labels of the model.
    Allow,
}

impl NewLabelPolicy {
    /// Checks the labels of a change. Returns a note if some are new and allowed.
    pub(crate) fn check<'a>(
        self,
        labels: impl IntoIterator<Item = &'a String>,
        model: &Model,
    ) -> Result<Option<Note>, Failure> {
        let mut new: BTreeSet<&str> = labels.into_iter().map(String::as_str).collect();
        let labels = new.len();
        for known in model.labels().iter() {
            new.remove(known);
        }
        let Some(&first) = new.first() else { return Ok(None) };
        let known: Vec<&str> = model.labels().iter().collect();
        let example = first.to_owned();
        let closest = closest_label(first, known).map(str::to_owned);
        match self {
            Self::Refuse => Err(Failure::NewLabel { label: example, closest }),
            Self::Allow => {
                Ok(Some(Note::UnknownLabels { unknown: new.len(), labels, example, closest }))
            }
        }
    }
}

/// Checks the identifiers and labels of added documents.
pub(crate) fn check_added(documents: &[Document]) -> Result<(), Failure> {
    for Document { id, labels, .. } in documents {
        if !is_valid_name(id) {
            let what = "its identifier is blank or contains a NUL character";
            return Err(ChangeError::Document { id: id.clone(), what }.into());
        }
        check_labels(id, labels)?;
    }
    Ok(())
}

/// Checks the labels of a document.
pub(crate) fn check_labels(id: &str, labels: &[String]) -> Result<(), Failure> {
    let what = if labels.len() > MAX_LABELS {
        "it has more than 1000 labels"
    } else if labels.iter().any(|label| !is_valid_name(label)) {
        "a label is blank or contains a NUL character"
    } else {
        return Ok(());
    };
    Err(ChangeError::Document { id: id.to_owned(), what }.into())
}

/// Whether a text contains a visible character and no NUL character.
fn is_valid_name(text: &str) -> bool {
    let is_visible = |char: char| {
        let has_no_width = matches!(char, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}');
        !char.is_whitespace() && !has_no_width
    };
    !text.contains('\0') && text.contains(is_visible)
}
