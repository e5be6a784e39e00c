//! Where the terms of an explanation stand in a text.

use std::collections::HashMap;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use super::TermPart;
use crate::model::Model;
use crate::text::analyze::Analyzer;

/// Some text, and the term that it stands for, if this is one of the marked terms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Marked<'a> {
    /// The text.
    pub text: &'a str,
    /// The term as the model knows it; for n-grams of characters, all that stand there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// The sum of the parts of the terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
}

/// How much of a text is looked at: the rest is not marked.
const MOST: usize = 1 << 16;

/// Divides a text where terms begin and end: end to end, the pieces are the text. Terms of several words are marked from
/// the first to the last. Nothing is marked beyond the first 64 KiB, nor in a text of a model that was not trained
/// on text.
pub fn marks<'a>(model: &Model, text: &'a str, terms: &[TermPart]) -> Vec<Marked<'a>> {
    let plain = |text| Marked { text, term: None, part: None };
    let Some(analyzer) = model.analyzer() else { return vec![plain(text)] };
    let vocabulary = model.vocabulary();
    let named = terms.iter().filter_map(|term| Some((vocabulary.term(term.term)?, term.part)));
    let parts: HashMap<&str, f64> = named.collect();
    let most = parts.keys().map(|term| words_of(term)).max().unwrap_or(1);
    let looked_at = &text[..text.floor_char_boundary(MOST)];
    let words: Vec<(usize, &str)> = looked_at
        .split_word_bound_indices()
        .filter(|(_, word)| word.chars().any(char::is_alphanumeric))
        .collect();
    let mut pieces = Vec::new();
    let (mut end, mut at) = (0, 0);
    while at < words.len() {
        // The longest term that begins here.
        let lengths = (1..=most.min(words.len() - at)).rev();
        let found = lengths.into_iter().find_map(|count| {
            let (last, word) = words[at + count - 1];
            let span = words[at].0..last + word.len();
            let found = of_span(&analyzer, &text[span.clone()], count, &parts)?;
            Some((span, count, found))
        });
        let Some((span, count, (term, part))) = found else {
            at += 1;
            continue;
        };
        if end < span.start {
            pieces.push(plain(&text[end..span.start]));
        }
        end = span.end;
        pieces.push(Marked { text: &text[span], term: Some(term), part: Some(part) });
        at += count;
    }
    if end < text.len() {
        pieces.push(plain(&text[end..]));
    }
    pieces
}

/// The number of words of a term.
fn words_of(term: &str) -> usize {
    term.split(' ').count()
}

/// The marked terms of so many words that some text has, and the sum of their parts.
fn of_span(
    analyzer: &Analyzer,
    text: &str,
    count: usize,
    parts: &HashMap<&str, f64>,
) -> Option<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    for term in analyzer.terms(text) {
        if let Some(&part) = parts.get(&*term)
            && (count == 1 || words_of(&term) == count)
            && found.iter().all(|(other, _)| *other != term)
        {
            found.push((term, part));
        }
    }
    let part = found.iter().map(|(_, part)| part).sum();
    let names: Vec<String> = found.into_iter().map(|(term, _)| term).collect();
    (!names.is_empty()).then(|| (names.join(" "), part))
}
