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
    /// The term as stored in the vocabulary. Several terms, such as character n-grams, are
    /// separated by spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The sum of the contributions of the terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
}

/// Number of bytes at the beginning of a text in which terms are marked.
const MAX_BYTES: usize = 1 << 16;

/// Splits a text into segments at the beginnings and ends of terms. The concatenated segments are
/// the text. A term of several words is marked from its first to its last word. Terms are marked
/// only in the first 64 KiB, and only if the model was trained on text.
pub fn marks<'a>(model: &Model, text: &'a str, terms: &[TermContribution]) -> Vec<MarkedText<'a>> {
    let plain = |text| MarkedText { text, term: None, part: None };
    let Some(analyzer) = model.analyzer() else { return vec![plain(text)] };
    let vocabulary = model.vocabulary();
    let named =
        terms.iter().filter_map(|term| Some((vocabulary.term(term.term)?, term.contribution)));
    let contributions: HashMap<&str, f64> = named.collect();
    let max_words = contributions.keys().map(|term| word_count(term)).max().unwrap_or(1);
    let words: Vec<(usize, &str)> = text[..text.floor_char_boundary(MAX_BYTES)]
        .split_word_bound_indices()
        .filter(|(_, word)| word.chars().any(char::is_alphanumeric))
        .collect();
    let mut segments = Vec::new();
    let mut end = 0;
    let mut index = 0;
    while index < words.len() {
        // Find the longest term that begins at this word.
        let lengths = (1..=max_words.min(words.len() - index)).rev();
        let found = lengths.into_iter().find_map(|count| {
            let (last, word) = words[index + count - 1];
            let span = words[index].0..last + word.len();
            let found = terms_in(&analyzer, &text[span.clone()], count, &contributions)?;
            Some((span, count, found))
        });
        let Some((span, count, (term, contribution))) = found else {
            index += 1;
            continue;
        };
        if end < span.start {
            segments.push(plain(&text[end..span.start]));
        }
        end = span.end;
        segments.push(MarkedText { text: &text[span], term: Some(term), part: Some(contribution) });
        index += count;
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

/// Returns the marked terms in a text of `words` words, and the sum of their contributions. For a
/// text of several words, only terms with the same number of words are marked.
fn terms_in(
    analyzer: &Analyzer,
    text: &str,
    words: usize,
    contributions: &HashMap<&str, f64>,
) -> Option<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    for term in analyzer.terms(text) {
        if let Some(&contribution) = contributions.get(&*term)
            && (words == 1 || word_count(&term) == words)
            && found.iter().all(|(other, _)| *other != term)
        {
            found.push((term, contribution));
        }
    }
    let sum = found.iter().map(|(_, contribution)| contribution).sum();
    let names: Vec<String> = found.into_iter().map(|(term, _)| term).collect();
    (!names.is_empty()).then(|| (names.join(" "), sum))
}
