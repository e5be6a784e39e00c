//! Prints notes on corpora, with advice that names flags.

use classify::decide::calibrate::{Property, Shift};
use classify::text::corpus::Note;

use crate::failure::Failure;
use crate::output::progress::Verbosity;

/// Prints the notes on standard error, and returns their texts.
///
/// # Errors
/// With `--strict`, if there is a note.
pub(crate) fn report(
    notes: &[Note],
    is_strict: bool,
    verbosity: Verbosity,
) -> Result<Vec<String>, Failure> {
    let texts: Vec<String> = notes.iter().map(|note| format!("{note}; {}", advice(note))).collect();
    for text in &texts {
        verbosity.print(&format!("note: {text}"));
    }
    match notes {
        [first, ..] if is_strict => Err(Failure::Strict(first.to_string())),
        _ => Ok(texts),
    }
}

/// Prints a note if the classified documents differ from the training documents, and returns it.
pub(crate) fn report_shift(shift: Option<Shift>, verbosity: Verbosity) -> Option<String> {
    let Shift { property, value, share, training_share, documents } = shift?;
    let limit = match property {
        Property::Similarity => {
            format!("a similarity of at most {value:.2} to the nearest training document")
        }
        Property::UnknownTerms => format!("at most {:.0} % unknown terms", value * 100.0),
        Property::Length => format!("at most {value:.0} terms"),
    };
    let [share, training_share] = [share, training_share].map(|share| share * 100.0);
    let note = format!(
        "these {documents} documents differ from the training documents: {share:.0} % of them, \
         but {training_share:.0} % of the training documents, have {limit}; expected metrics, \
         probabilities and limits for abstaining may not hold for them; `classify check TRAINING \
         --against THESE` shows the differences"
    );
    verbosity.print(&format!("note: {note}"));
    Some(note)
}

/// Returns what the user can do about a note.
fn advice(note: &Note) -> String {
    match note {
        Note::UnusedWeights { field } => {
            format!("`--weight-column {field}` uses it; `-q` silences notes")
        }
        Note::UnusedText { field } => {
            format!("`--text-column {field},text` reads both")
        }
        Note::ListsAsLabels { .. } => {
            "another `--label-separator` keeps such a field as one label".to_owned()
        }
        Note::QuotedRows { .. } => {
            "close the quote in the file, or use `--quoting none` if quotes are characters like \
             any other"
                .to_owned()
        }
        Note::SkippedFiles { .. } => "move them elsewhere if they are not documents".to_owned(),
        Note::LabelsWithSeparator { separator, .. } => {
            format!("`--label-separator '{separator}'` splits them")
        }
        Note::LabelsWithTrailingText { separator, .. } => format!(
            "put a blank between a label and the text after it; if these are lists, use \
             `--label-separator '{separator}'`"
        ),
        Note::RareLabels { .. } => {
            "is the label column right (`--label-column`)? A label on one document cannot be \
             learned"
                .to_owned()
        }
        Note::OneLabel { .. } => {
            "every prediction will be this label; `--label-column` names another field".to_owned()
        }
        Note::SimilarLabels { .. } => "they are learned as different labels".to_owned(),
        Note::UnknownLabels { .. } => {
            "they can never be predicted; are the reading options those of the training corpus?"
                .to_owned()
        }
        Note::HierarchyNames { .. } => "each line of a hierarchy is `child<TAB>parent`".to_owned(),
        Note::CopiesOfTraining { .. } => {
            "the metrics are too high for new documents if these are in both corpora by mistake"
                .to_owned()
        }
        Note::ShortTexts { .. } => {
            "is the text column right (`--text-column`)? A document without terms is nobody's \
             neighbor"
                .to_owned()
        }
        Note::RepeatedIds { .. } => {
            "changes by identifier reach all of them; `--id-column` names another field".to_owned()
        }
        _ => "`-q` silences notes".to_owned(),
    }
}
