//! Formats the notes in answers to changes. They report probable mistakes in a request.

use classify::printable::printable;
use classify::text::corpus::Note;

/// Formats a note for clients, with advice.
pub(crate) fn message(note: &Note) -> String {
    match note {
        Note::UnusedText { field } => {
            format!("the field `{}` is not read; put it into the text", printable(field))
        }
        Note::ListsAsLabels { .. } => {
            "a label field holds the text of a list, and its items were read as labels; send a \
             JSON array"
                .to_owned()
        }
        Note::UnknownLabels { unknown, example, closest, .. } => {
            let label = printable(example);
            let closest = closest.as_deref().map(closest_label).unwrap_or_default();
            match unknown {
                1 => format!("the label `{label}` is new{closest}"),
                unknown => format!("{unknown} labels are new, such as `{label}`{closest}"),
            }
        }
        Note::RepeatedIds { documents, example } => format!(
            "{documents} documents of the request repeat the identifier of an earlier one, such \
             as `{}`, and replaced it",
            printable(example)
        ),
        note => note.to_string(),
    }
}

/// Formats the model's closest label to an unknown label, as the end of a sentence.
pub(crate) fn closest_label(label: &str) -> String {
    format!("; the closest label is `{}`", printable(label))
}

/// Formats a note on a document that no search can find.
pub(crate) fn no_known_term(id: &str) -> String {
    format!(
        "no term of document `{}` is known to the model, so it can never be a neighbor; train \
         again to learn its terms",
        printable(id)
    )
}
