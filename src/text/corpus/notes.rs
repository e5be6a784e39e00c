//! Notes: warnings about a corpus from a reader or a model.
//!
//! A note reports that a result is probably not what the user intended. It contains data but no
//! advice, which each interface adds in its own words.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::mem::discriminant;
use std::sync::{Mutex, PoisonError};

use metric_index::metric::{Edit, Metric};
use unicode_normalization::UnicodeNormalization;

use super::place::Place;
use crate::printable::printable;

/// A warning about a corpus.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// A field has a name that suggests weights, but no weight field is set.
    UnusedWeights {
        /// The field.
        field: String,
    },
    /// A field that probably belongs to the text is not read.
    UnusedText {
        /// The field.
        field: String,
    },
    /// Fields that contain a JSON or Python list were read as several labels.
    ListsAsLabels {
        /// The place of the first such field.
        place: Place,
    },
    /// A quoted field contains entire rows.
    QuotedRows {
        /// The place where the field begins.
        place: Place,
        /// The number of lines of the field.
        lines: usize,
    },
    /// Files in label folders that are not text were skipped.
    SkippedFiles {
        /// The place of the first skipped file.
        place: Place,
    },
    /// Most labels contain the same separator, and splitting them would leave far fewer labels.
    LabelsWithSeparator {
        /// The separator.
        separator: char,
        /// The number of labels.
        labels: usize,
        /// The number of labels after splitting.
        parts: usize,
        /// One of the labels.
        example: String,
    },
    /// Most labels contain a separator, and only a few distinct names precede it.
    LabelsWithTrailingText {
        /// The separator.
        separator: char,
        /// The number of labels.
        labels: usize,
        /// The number of distinct names before the separator.
        parts: usize,
        /// One of the labels.
        example: String,
    },
    /// More than half of the labels occur once.
    RareLabels {
        /// The number of labels that occur once.
        rare: usize,
        /// The number of labels.
        labels: usize,
        /// A label that occurs once.
        example: String,
    },
    /// All documents have the same label.
    OneLabel {
        /// The label.
        label: String,
    },
    /// Labels that are probably the same label in different spellings.
    SimilarLabels {
        /// The number of pairs.
        pairs: usize,
        /// The rarer spelling of the first pair.
        rarer: String,
        /// The other spelling.
        other: String,
    },
    /// Labels of a corpus that are unknown to a model.
    UnknownLabels {
        /// The number of unknown labels.
        unknown: usize,
        /// The number of labels in the corpus.
        labels: usize,
        /// An unknown label.
        example: String,
        /// The most similar label of the model.
        closest: Option<String>,
    },
    /// Names in a hierarchy that are neither labels nor ancestors of labels.
    HierarchyNames {
        /// The number of unknown names.
        unknown: usize,
        /// An unknown name.
        example: String,
        /// The most similar label.
        closest: Option<String>,
    },
    /// Test documents have the same terms as training documents.
    CopiesOfTraining {
        /// The number of such test documents.
        copies: u64,
        /// The number of test documents.
        documents: u64,
    },
    /// Many documents have no term, or only one.
    ShortTexts {
        /// The number of such documents.
        short: usize,
        /// The number of all documents.
        documents: usize,
        /// The identifier of such a document.
        example: String,
    },
    /// Several documents have the same identifier.
    RepeatedIds {
        /// The number of documents whose identifier occurred before.
        documents: usize,
        /// One of the identifiers.
        example: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closest = |closest: &Option<String>| match closest {
            Some(label) => format!(" (the closest label is `{}`)", printable(label)),
            None => String::new(),
        };
        match self {
            Self::UnusedWeights { field } => {
                write!(f, "the field `{}` is not used as a weight", printable(field))
            }
            Self::UnusedText { field } => {
                write!(f, "the field `{}` is not read; only the text field is", printable(field))
            }
            Self::ListsAsLabels { place } => {
                write!(f, "{place}: the label field holds a list; its items are read as labels")
            }
            Self::QuotedRows { place, lines } => {
                write!(f, "{place}: a quoted field of {lines} lines contains what look like rows")
            }
            Self::SkippedFiles { place } => {
                write!(f, "{place}: not text; such files in label folders are skipped")
            }
            Self::LabelsWithSeparator { separator, labels, parts, example } => write!(
                f,
                "most of the {labels} labels contain `{separator}`, such as `{}`; split there, \
                 they would be {parts} labels",
                printable(example)
            ),
            Self::LabelsWithTrailingText { separator, labels, parts, example } => write!(
                f,
                "most of the {labels} labels contain `{separator}`, such as `{}`; only {parts} \
                 different names come before it",
                printable(example)
            ),
            Self::RareLabels { rare, labels, example } => {
                write!(f, "{rare} of {labels} labels occur once, such as `{}`", printable(example))
            }
            Self::OneLabel { label } => {
                write!(f, "all documents have the label `{}`", printable(label))
            }
            Self::SimilarLabels { pairs: 1, rarer, other } => write!(
                f,
                "the labels `{}` and `{}` differ only in spelling",
                printable(rarer),
                printable(other)
            ),
            Self::SimilarLabels { pairs, rarer, other } => write!(
                f,
                "{pairs} pairs of labels differ only in spelling, such as `{}` and `{}`",
                printable(rarer),
                printable(other)
            ),
            Self::UnknownLabels { unknown, labels, example, closest: label } => write!(
                f,
                "{unknown} of the {labels} labels of this corpus are unknown to the model, such \
                 as `{}`{}",
                printable(example),
                closest(label)
            ),
            Self::HierarchyNames { unknown: 1, example, closest: label } => write!(
                f,
                "the name `{}` of the hierarchy is not a label{}",
                printable(example),
                closest(label)
            ),
            Self::HierarchyNames { unknown, example, closest: label } => write!(
                f,
                "{unknown} names of the hierarchy are not labels, such as `{}`{}",
                printable(example),
                closest(label)
            ),
            Self::CopiesOfTraining { copies, documents } => write!(
                f,
                "{copies} of {documents} test documents ({:.0} %) have the same known terms as a \
                 training document",
                100.0 * *copies as f64 / *documents as f64
            ),
            Self::ShortTexts { short, documents, example } => write!(
                f,
                "{short} of {documents} documents have fewer than two terms, such as `{}`",
                printable(example)
            ),
            Self::RepeatedIds { documents, example } => write!(
                f,
                "{documents} documents have an identifier that occurred before, such as `{}`",
                printable(example)
            ),
        }
    }
}

/// Collects notes while a corpus is read, and keeps the first note of each kind.
#[derive(Debug, Default)]
pub struct Notes(Mutex<Vec<Note>>);

impl Notes {
    /// Adds a note, unless there already is a note of the same kind.
    pub fn add(&self, note: Note) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.iter().all(|other| discriminant(other) != discriminant(&note)) {
            notes.push(note);
        }
    }

    /// Removes and returns all notes, in the order in which they were added.
    pub fn take(&self) -> Vec<Note> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A label and the number of documents that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelFrequency<'a> {
    /// The label.
    pub label: &'a str,
    /// The number of documents.
    pub documents: u64,
}

/// Returns a note if several documents have the same identifier.
pub fn repeated_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Option<Note> {
    let mut seen = HashSet::new();
    let repeated: Vec<&str> = ids.into_iter().filter(|id| !seen.insert(*id)).collect();
    let example = (*repeated.first()?).to_owned();
    Some(Note::RepeatedIds { documents: repeated.len(), example })
}

/// Returns a note if most names in a hierarchy are not labels, or if an unknown name closely
/// resembles a label.
pub fn unknown_names<'a>(
    names: impl IntoIterator<Item = &'a str>,
    labels: &[&str],
) -> Option<Note> {
    let known: HashSet<&str> = labels.iter().copied().collect();
    let names: Vec<&str> = names.into_iter().collect();
    let unknown: Vec<&str> = names.iter().copied().filter(|name| !known.contains(name)).collect();
    let similar = unknown.iter().find_map(|name| {
        closest_label(name, labels.iter().copied()).map(|label| (*name, Some(label.to_owned())))
    });
    let many = (unknown.len() * 2 > names.len()).then(|| (unknown[0], None));
    let (example, closest) = similar.or(many)?;
    let example = example.to_owned();
    Some(Note::HierarchyNames { unknown: unknown.len(), example, closest })
}

/// Returns notes on the labels of a corpus of `documents` documents.
///
/// ```
/// use classify::text::corpus::{LabelFrequency, Note, label_notes};
///
/// let labels = [("Rock", 1), ("jazz", 20), ("rock", 30)];
/// let labels = labels.map(|(label, documents)| LabelFrequency { label, documents });
/// let notes = label_notes(&labels, 51);
/// assert!(matches!(&notes[..], [Note::SimilarLabels { pairs: 1, .. }]));
/// ```
pub fn label_notes(labels: &[LabelFrequency<'_>], documents: u64) -> Vec<Note> {
    if let [LabelFrequency { label, documents: all }] = *labels
        && documents > 1
        && all == documents
    {
        return vec![Note::OneLabel { label: label.to_owned() }];
    }
    let separated = labels_with_separator(labels);
    let separated = separated.or_else(|| labels_with_trailing_text(labels));
    let rare = if separated.is_none() { rare_labels(labels) } else { None };
    separated.into_iter().chain(rare).chain(similar_labels(labels)).collect()
}

/// Returns a note if most labels contain a separator, and splitting them would leave far fewer
/// labels.
fn labels_with_separator(labels: &[LabelFrequency<'_>]) -> Option<Note> {
    const MIN_LABELS: usize = 4;
    for separator in [';', '|', ','] {
        let containing = labels.iter().filter(|label| label.label.contains(separator));
        let parts = labels.iter().flat_map(|label| label.label.split(separator));
        let parts: HashSet<&str> = parts.map(str::trim).collect();
        let count = containing.clone().count();
        if labels.len() >= MIN_LABELS && count * 2 > labels.len() && parts.len() * 2 <= labels.len()
        {
            return Some(Note::LabelsWithSeparator {
                separator,
                labels: labels.len(),
                parts: parts.len(),
                example: containing.map(|label| label.label).next()?.to_owned(),
            });
        }
    }
    None
}

/// Returns a note if most labels are followed by other text: they contain a separator without a
/// space after it, and few distinct strings precede it.
fn labels_with_trailing_text(labels: &[LabelFrequency<'_>]) -> Option<Note> {
    const MIN_LABELS: usize = 8;
    [',', ';', '|'].into_iter().find_map(|separator| {
        let parts = labels.iter().filter_map(|label| label.label.split_once(separator));
        let parts: Vec<&str> =
            parts.filter(|(_, rest)| !rest.starts_with(' ')).map(|(part, _)| part).collect();
        let distinct: HashSet<&str> = parts.iter().copied().collect();
        let is_followed_by_text = labels.len() >= MIN_LABELS
            && parts.len() * 2 > labels.len()
            && distinct.len() * 3 <= parts.len();
        let example =
            labels.iter().map(|label| label.label).find(|label| label.contains(separator))?;
        is_followed_by_text.then(|| Note::LabelsWithTrailingText {
            separator,
            labels: labels.len(),
            parts: distinct.len(),
            example: example.to_owned(),
        })
    })
}

/// Returns a note if more than half of the labels occur in only one document.
fn rare_labels(labels: &[LabelFrequency<'_>]) -> Option<Note> {
    const MIN_LABELS: usize = 8;
    let singletons = || labels.iter().filter(|label| label.documents == 1);
    let rare = singletons().count();
    // The longest label best shows whether the field really contains labels.
    let example =
        singletons().map(|label| label.label).max_by_key(|label| label.chars().count())?;
    (labels.len() >= MIN_LABELS && rare * 2 > labels.len()).then(|| Note::RareLabels {
        rare,
        labels: labels.len(),
        example: example.to_owned(),
    })
}

/// Returns a note on labels that differ only in spelling: in case, compatibility forms, spaces,
/// hyphens, underscores or number format. It also covers rare labels one edit away from a common
/// label.
fn similar_labels(labels: &[LabelFrequency<'_>]) -> Option<Note> {
    let mut groups: HashMap<String, LabelFrequency<'_>> = HashMap::new();
    let mut pairs: Vec<(LabelFrequency<'_>, LabelFrequency<'_>)> = Vec::new();
    for &label in labels {
        let other = groups.entry(fold_spelling(label.label)).or_insert(label);
        if other.label != label.label {
            pairs.push((label, *other));
            if label.documents > other.documents {
                *other = label;
            }
        }
    }
    pairs.extend(find_misspelled(labels));
    let &(one, other) = pairs.first()?;
    let (rarer, other) = if one.documents <= other.documents { (one, other) } else { (other, one) };
    Some(Note::SimilarLabels {
        pairs: pairs.len(),
        rarer: rarer.label.to_owned(),
        other: other.label.to_owned(),
    })
}

/// Returns a normalized form, which is the same for labels that differ only in spelling.
fn fold_spelling(label: &str) -> String {
    if let Ok(number) = label.parse::<f64>() {
        return number.to_string();
    }
    let folded: String = label.nfkc().collect::<String>().to_lowercase();
    let words = folded.split(|char: char| char.is_whitespace() || matches!(char, '_' | '-'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns pairs of a rare label and a common label one edit away.
fn find_misspelled<'a>(
    labels: &[LabelFrequency<'a>],
) -> Vec<(LabelFrequency<'a>, LabelFrequency<'a>)> {
    /// The minimum length of compared labels. Shorter labels often differ by one character
    /// intentionally.
    const MIN_CHARS: usize = 5;
    /// The minimum ratio between the document counts of the common and the rare label.
    const MIN_RATIO: u64 = 5;
    /// The maximum number of compared pairs.
    const MAX_PAIRS: usize = 1_000_000;
    let is_word = |label: &&LabelFrequency<'_>| {
        label.label.chars().count() >= MIN_CHARS
            && !label.label.contains(|char: char| char.is_ascii_digit())
    };
    let rare: Vec<_> = labels.iter().filter(|label| label.documents <= 2).filter(is_word).collect();
    let common: Vec<_> =
        labels.iter().filter(|label| label.documents >= MIN_RATIO).filter(is_word).collect();
    if rare.len().saturating_mul(common.len()) > MAX_PAIRS {
        return Vec::new();
    }
    let similar = |rare: &LabelFrequency<'a>| {
        common.iter().find(|common| {
            common.documents >= rare.documents * MIN_RATIO
                && fold_spelling(common.label) != fold_spelling(rare.label)
                && Edit.distance_within(rare.label, common.label, 1.0).is_some()
        })
    };
    rare.iter().filter_map(|rare| similar(rare).map(|common| (**rare, **common))).collect()
}

/// Returns a note if at least a fifth of the labels are not in `known`.
pub fn unknown_labels<'a>(
    labels: impl IntoIterator<Item = &'a str>,
    known: &[&str],
) -> Option<Note> {
    let names: HashSet<&str> = known.iter().copied().collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let unknown: Vec<&str> =
        labels.iter().copied().filter(|label| !names.contains(label)).collect();
    let &example = unknown.first()?;
    (unknown.len() * 5 >= labels.len()).then(|| Note::UnknownLabels {
        unknown: unknown.len(),
        labels: labels.len(),
        example: example.to_owned(),
        closest: closest_label(example, known.iter().copied()).map(str::to_owned),
    })
}

/// Returns the known label that is most similar to `label`. It differs only in spelling or by at
/// most a third of the characters of `label`.
pub fn closest_label<'a>(
    label: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let key = fold_spelling(label);
    if let Some(same) = known.clone().into_iter().find(|known| fold_spelling(known) == key) {
        return Some(same);
    }
    let mut max_distance = (label.chars().count() as f32 / 3.0).max(1.0);
    let mut closest = None;
    for other in known {
        if let Some(distance) = Edit.distance_within(label, other, max_distance) {
            closest = Some(other);
            max_distance = distance - 1.0;
        }
    }
    closest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(labels: &[(&str, u64)]) -> Vec<Note> {
        let documents = labels.iter().map(|(_, documents)| documents).sum();
        let labels: Vec<_> =
            labels.iter().map(|&(label, documents)| LabelFrequency { label, documents }).collect();
        label_notes(&labels, documents)
    }

    #[test]
    fn well_formed_labels_give_no_note() {
        assert_eq!(notes(&[("C15", 40), ("C151", 1), ("C152", 30), ("comp.sys", 9)]), []);
        assert_eq!(notes(&[("Science, Technology", 4), ("Arts, Letters", 5), ("Sports", 7)]), []);
    }

    #[test]
    fn lists_in_labels() {
        let labels = [("a;b", 1), ("b;c", 1), ("a;c", 1), ("b", 2), ("a;b;c", 1), ("c", 1)];
        let [Note::LabelsWithSeparator { separator: ';', labels: 6, parts: 3, .. }] =
            &notes(&labels)[..]
        else {
            panic!("{:?}", notes(&labels));
        };
    }

    #[test]
    fn spellings() {
        let spellings = [("café", "CAFÉ"), ("1.0", "1"), ("a  b", "a b"), ("moneyy", "money")];
        for (rare, common) in spellings {
            let found = notes(&[(common, 20), (rare, 1), ("other", 9)]);
            let [Note::SimilarLabels { pairs: 1, rarer, other }] = &found[..] else {
                panic!("{rare}: {found:?}");
            };
            assert_eq!([&**rarer, &**other], [rare, common]);
        }
    }

    #[test]
    fn the_closest_label() {
        let known = ["money", "society", "abroad"];
        assert_eq!(closest_label("mony", known), Some("money"));
        assert_eq!(closest_label("Money", known), Some("money"));
        assert_eq!(closest_label("sport", known), None);
    }
}
