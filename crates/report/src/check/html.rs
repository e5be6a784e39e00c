//! Formats a check as a self-contained HTML page, for light and dark displays. A script in the page
//! filters and sorts.

use std::collections::HashSet;

use askama::Template;
use classify::check::{Check, DuplicateCluster, FoundDocument, SimilarDocument, SuspiciousLabel};

use super::{Finding, count, drift_rows, findings};

/// The maximum number of entries that a section of the page shows.
const SHOWN: usize = 500;
/// The minimum number of characters of a word that is marked.
const MIN_WORD: usize = 4;

#[derive(Template)]
#[template(path = "check.html")]
struct Page<'a> {
    check: &'a Check,
    findings: Vec<Finding>,
    suspicious: Vec<Suspicious<'a>>,
    clusters: &'a [DuplicateCluster],
    drift_rows: Vec<[String; 3]>,
    /// The maximum number of entries of a section.
    limit: usize,
}

/// A label that is probably wrong.
struct Suspicious<'a> {
    document: &'a FoundDocument,
    /// The label in the corpus; empty if a label is missing.
    given: &'a str,
    /// The label that is probably right; empty if one of several is superfluous.
    suggested: &'a str,
    probability: f64,
    text: Vec<Piece<'a>>,
    similar: Vec<Similar<'a>>,
}

/// A document that contradicts a label.
struct Similar<'a> {
    document: &'a FoundDocument,
    similarity: f32,
    text: Vec<Piece<'a>>,
}

/// A part of a text.
#[derive(Debug, PartialEq)]
struct Piece<'a> {
    text: &'a str,
    /// Whether the part is a word that also occurs in the other texts.
    shared: bool,
}

/// Formats a check as an HTML page.
///
/// # Errors
/// Fails if the template cannot be rendered; no input that causes this is known.
pub fn html(check: &Check) -> std::io::Result<String> {
    let suspicious = check.label_errors.suspicious.iter().take(SHOWN).map(Suspicious::new);
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

impl<'a> Suspicious<'a> {
    fn new(suspicious: &'a SuspiciousLabel) -> Self {
        let SuspiciousLabel { document, given, suggested, probability, contradicted_by } =
            suspicious;
        let own = words([&document.text]);
        let similar = |SimilarDocument { document, similarity }: &'a SimilarDocument| Similar {
            document,
            similarity: *similarity,
            text: pieces(&document.text, &own),
        };
        let others = words(contradicted_by.iter().map(|other| &other.document.text));
        Self {
            document,
            given: given.as_deref().unwrap_or_default(),
            suggested: suggested.as_deref().unwrap_or_default(),
            probability: *probability,
            text: pieces(&document.text, &others),
            similar: contradicted_by.iter().map(similar).collect(),
        }
    }
}

/// Splits a text into words and what is between them.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_word = rest.chars().next()?.is_alphanumeric();
        let end = rest.find(|next: char| next.is_alphanumeric() != is_word).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Returns the words of some texts, in lower case, without short ones.
fn words<'a>(texts: impl IntoIterator<Item = &'a String>) -> HashSet<String> {
    let all = texts.into_iter().flat_map(|text| split(text));
    all.filter(|word| word.chars().count() >= MIN_WORD).map(str::to_lowercase).collect()
}

/// Splits a text where words of `others` begin and end.
fn pieces<'a>(text: &'a str, others: &HashSet<String>) -> Vec<Piece<'a>> {
    let is_shared = |word: &str| others.contains(&word.to_lowercase());
    split(text).map(|piece| Piece { text: piece, shared: is_shared(piece) }).collect()
}

/// States how many of the entries are shown, if not all are.
fn part(shown: usize, all: usize) -> String {
    if shown < all { format!(" ({shown} of {all})") } else { String::new() }
}

fn labels(document: &FoundDocument) -> String {
    if document.labels.is_empty() { "no label".into() } else { document.labels.join(", ") }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn amount(number: &u64, one: &str, several: &str) -> String {
    count(*number, one, several)
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
        let found = pieces("Große? großer apfel, und", &others);
        let marked: Vec<&str> =
            found.iter().filter(|piece| piece.shared).map(|piece| piece.text).collect();
        assert_eq!(marked, ["apfel"], "short and other words are not marked");
        let whole: String = found.iter().map(|piece| piece.text).collect();
        assert_eq!(whole, "Große? großer apfel, und");
    }
}
