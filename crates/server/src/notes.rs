//! Words the notes in answers to changes: what is probably not what the client meant.

use classify::printable::printable;
use classify::text::corpus::Note;

/// Words a note for clients, with what they can do.
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

/// Words the label of the model that is closest to an unknown one, for the end of a sentence.
pub(crate) fn closest_label(label: &str) -> String {
    format!("; the closest label is `{}`", printable(label))
}

/// Words a note on a document that no search can find.
pub(crate) fn no_known_term(id: &str) -> String {
    format!(
        "no term of document `{}` is known to the model, so it is nobody's neighbor; train again \
         to learn its terms",
        printable(id)
    )
}
