//! Marks the terms of an explanation in a text.

use std::collections::HashMap;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use super::TermContribution;
use crate::model::Model;
use crate::text::analyze::Analyzer;

/// A segment of a text, and the term marked in it, if any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MarkedText<'a> {
    /// The text of the segment.
    pub text: &'a str,
    /// The term as it is in the vocabulary. Several terms, such as character n-grams, are separated
    /// by spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The sum of the contributions of the terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
}

/// Number of bytes at the beginning of a text in which terms are marked.
const MAX_BYTES: usize = 1 << 16;

/// Splits a text into segments where terms begin and end. The concatenated segments are the text. A
/// term of several words is marked from its first to its last word. Terms are marked only in the
/// first 64 KiB, and only if the model was trained on text.
pub fn marks<'a>(model: &Model, text: &'a str, terms: &[TermContribution]) -> Vec<MarkedText<'a>> {
    let plain = |text| MarkedText { text, term: None, part: None };
    let Some(analyzer) = model.analyzer() else { return vec![plain(text)] };
    let vocabulary = model.vocabulary();
    let named =
        terms.iter().filter_map(|term| Some((vocabulary.term(term.term)?, term.contribution)));
    let parts: HashMap<&str, f64> = named.collect();
    let max_words = parts.keys().map(|term| word_count(term)).max().unwrap_or(1);
    let words: Vec<(usize, &str)> = text[..text.floor_char_boundary(MAX_BYTES)]
        .split_word_bound_indices()
        .filter(|(_, word)| word.chars().any(char::is_alphanumeric))
        .collect();
    let mut segments = Vec::new();
    let mut end = 0;
    let mut at = 0;
    while at < words.len() {
        // Find the longest term that begins at this word.
        let lengths = (1..=max_words.min(words.len() - at)).rev();
        let found = lengths.into_iter().find_map(|count| {
            let (last, word) = words[at + count - 1];
            let span = words[at].0..last + word.len();
            let found = terms_in(&analyzer, &text[span.clone()], count, &parts)?;
            Some((span, count, found))
        });
        let Some((span, count, (term, part))) = found else {
            at += 1;
            continue;
        };
        if end < span.start {
            segments.push(plain(&text[end..span.start]));
        }
        end = span.end;
        segments.push(MarkedText { text: &text[span], term: Some(term), part: Some(part) });
        at += count;
    }
    if end < text.len() {
        segments.push(plain(&text[end..]));
    }
    segments
}

/// Returns the number of words of a term.
fn word_count(term: &str) -> usize {
    term.split(' ').count()
}

/// Returns the marked terms in a text of `words` words, and the sum of their contributions. If
/// there are several words, only terms with the same number of words count.
fn terms_in(
    analyzer: &Analyzer,
    text: &str,
    words: usize,
    parts: &HashMap<&str, f64>,
) -> Option<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    for term in analyzer.terms(text) {
        if let Some(&part) = parts.get(&*term)
            && (words == 1 || word_count(&term) == words)
            && found.iter().all(|(other, _)| *other != term)
        {
            found.push((term, part));
        }
    }
    let part = found.iter().map(|(_, part)| part).sum();
    let names: Vec<String> = found.into_iter().map(|(term, _)| term).collect();
    (!names.is_empty()).then(|| (names.join(" "), part))
}
