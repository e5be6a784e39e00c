//! Formats notes on labels, identifiers and hierarchies, with Python's parameter names.

use classify::text::corpus::Note;

/// Returns the text of a warning: the parameter, the note, and what the user can do.
pub(crate) fn warning(note: &Note) -> String {
    let (parameter, advice) = advice(note);
    format!("{parameter}: {note}; {advice}")
}

/// Returns the parameter that a note is about, and what the user can do.
fn advice(note: &Note) -> (&'static str, String) {
    match note {
        Note::LabelsWithSeparator { separator, .. } => {
            ("y", format!("to split them, pass [label.split({separator:?}) for label in y]"))
        }
        Note::LabelsWithTrailingText { .. } => (
            "y",
            "is y the right column? Pass only the label, without the text after it".to_owned(),
        ),
        Note::RareLabels { .. } => {
            ("y", "is y the right column? A label on one document cannot be learned".to_owned())
        }
        Note::OneLabel { .. } => {
            ("y", "every prediction will be this label; is y the right column?".to_owned())
        }
        Note::SimilarLabels { .. } => {
            ("y", "they are learned as different labels; use one spelling in y".to_owned())
        }
        Note::UnknownLabels { .. } => (
            "y",
            "they can never be predicted; use the type and the spelling of the labels in `fit`"
                .to_owned(),
        ),
        Note::HierarchyNames { .. } => {
            ("hierarchy", "each pair is (child, parent), with labels as in y".to_owned())
        }
        Note::ShortTexts { .. } => {
            ("X", "is X the right column? A document without terms is nobody's neighbor".to_owned())
        }
        Note::RepeatedIds { .. } => (
            "ids",
            "give each document an identifier of its own, or omit ids to number them".to_owned(),
        ),
        _ => ("X", "filter `classify_knn.DataWarning` to silence such warnings".to_owned()),
    }
}
