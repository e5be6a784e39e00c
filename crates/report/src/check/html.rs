//! Formats a check as a self-contained HTML page, for light and dark displays. A script in the page
//! filters and sorts the findings.

use std::collections::HashSet;

use askama::Template;
use classify::check::{Check, DuplicateCluster, FoundDocument, SimilarDocument, SuspiciousLabel};

use super::{Finding, count, drift_rows, findings};

/// The maximum number of entries that a section of the page shows.
const SHOWN: usize = 500;
/// The minimum number of characters of marked words.
const MIN_WORD: usize = 4;

#[derive(Template)]
#[template(path = "check.html")]
struct Page<'a> {
    check: &'a Check,
    findings: Vec<Finding>,
    suspicious: Vec<SuspiciousEntry<'a>>,
    clusters: &'a [DuplicateCluster],
    drift_rows: Vec<[String; 3]>,
    /// The maximum number of entries per section.
    limit: usize,
}

/// A label that is probably wrong.
struct SuspiciousEntry<'a> {
    document: &'a FoundDocument,
    /// The label in the corpus; empty if a label is missing.
    given: &'a str,
    /// The label that is probably right; empty if `given` should be removed without replacement.
    suggested: &'a str,
    probability: f64,
    text: Vec<Segment<'a>>,
    similar: Vec<SimilarEntry<'a>>,
}

/// A document that contradicts a label.
struct SimilarEntry<'a> {
    document: &'a FoundDocument,
    similarity: f32,
    text: Vec<Segment<'a>>,
}

/// A word, or the text between two words.
#[derive(Debug, PartialEq)]
struct Segment<'a> {
    text: &'a str,
    /// Whether this is a word that the compared texts also contain.
    is_shared: bool,
}

/// Formats a check as an HTML page.
///
/// # Errors
/// Fails if the template cannot be rendered; no input that causes this is known.
pub fn html(check: &Check) -> std::io::Result<String> {
    let suspicious = check.label_errors.suspicious.iter().take(SHOWN).map(SuspiciousEntry::new);
    let clusters = &check.duplicates.clusters;
    let page = Page {
        check,
        findings: findings(check),
        suspicious: suspicious.collect(),
        clusters: &clusters[..clusters.len().min(SHOWN)],
        drift_rows: check.drift.as_ref().map_or(Vec::new(), |drift| drift_rows(drift, usize::MAX)),
        limit: SHOWN,
    };
    page.render().map_err(std::io::Error::other)
}

impl<'a> SuspiciousEntry<'a> {
    fn new(suspicious: &'a SuspiciousLabel) -> Self {
        let SuspiciousLabel { document, given, suggested, probability, contradicted_by } =
            suspicious;
        let own_words = words([&document.text]);
        let similar =
            |SimilarDocument { document, similarity }: &'a SimilarDocument| SimilarEntry {
                document,
                similarity: *similarity,
                text: segments(&document.text, &own_words),
            };
        let other_words = words(contradicted_by.iter().map(|other| &other.document.text));
        Self {
            document,
            given: given.as_deref().unwrap_or_default(),
            suggested: suggested.as_deref().unwrap_or_default(),
            probability: *probability,
            text: segments(&document.text, &other_words),
            similar: contradicted_by.iter().map(similar).collect(),
        }
    }
}

/// Splits a text into words and the text between them.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_word = rest.chars().next()?.is_alphanumeric();
        let end = rest.find(|next: char| next.is_alphanumeric() != is_word).unwrap_or(rest.len());
        let (segment, after) = rest.split_at(end);
        rest = after;
        Some(segment)
    })
}

/// Returns the words of some texts in lower case, without words shorter than [`MIN_WORD`].
fn words<'a>(texts: impl IntoIterator<Item = &'a String>) -> HashSet<String> {
    let all_words = texts.into_iter().flat_map(|text| split_words(text));
    all_words.filter(|word| word.chars().count() >= MIN_WORD).map(str::to_lowercase).collect()
}

/// Splits a text into segments, and marks the words that `others` contains.
fn segments<'a>(text: &'a str, others: &HashSet<String>) -> Vec<Segment<'a>> {
    let is_shared = |word: &str| others.contains(&word.to_lowercase());
    let segment = |text| Segment { text, is_shared: is_shared(text) };
    split_words(text).map(segment).collect()
}

/// Formats the number of shown entries; empty if all are shown.
fn shown_of(shown: usize, all: usize) -> String {
    if shown < all { format!(" ({shown} of {all})") } else { String::new() }
}

fn labels(document: &FoundDocument) -> String {
    if document.labels.is_empty() { "no label".into() } else { document.labels.join(", ") }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn amount(number: &u64, singular: &str, plural: &str) -> String {
    count(*number, singular, plural)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn percent(share: &f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn decimals(value: &f32) -> String {
    format!("{value:.2}")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn thousandths(value: &f64) -> String {
    format!("{value:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_words_are_marked() {
        let others = words([&"Der GROSSE Apfel und ein".to_owned()]);
        let found = segments("Große? großer apfel, und", &others);
        let marked: Vec<&str> =
            found.iter().filter(|segment| segment.is_shared).map(|segment| segment.text).collect();
        assert_eq!(marked, ["apfel"], "short and other words are not marked");
        let whole: String = found.iter().map(|segment| segment.text).collect();
        assert_eq!(whole, "Große? großer apfel, und");
    }
}
