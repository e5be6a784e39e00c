//! Converts folded words to finished words: accents, minimum length, stop words, stems.

use std::borrow::Cow;
use std::collections::HashSet;

use super::accents;
use super::spec::AnalyzerSpec;
use super::stemmer::Stemmer;

/// Converts folded words to finished words, or drops them.
#[derive(Debug)]
pub(super) struct WordFilter {
    fold_accents: bool,
    min_length: usize,
    stop_words: HashSet<String>,
    stemmer: Option<Stemmer>,
}

impl WordFilter {
    /// Creates the filter of a specification whose stop words are already folded.
    pub(super) fn new(spec: &AnalyzerSpec) -> Self {
        Self {
            fold_accents: spec.fold_accents,
            min_length: spec.min_length,
            stop_words: spec.stop_words.iter().cloned().collect(),
            stemmer: spec.stemmer,
        }
    }

    /// Returns whether [`finish`](Self::finish) returns every word unchanged.
    pub(super) fn is_identity(&self) -> bool {
        !self.fold_accents
            && self.min_length <= 1
            && self.stop_words.is_empty()
            && self.stemmer.is_none()
    }

    /// Returns the finished form of a folded word, or `None` if the word is dropped.
    pub(super) fn finish<'a>(&self, word: &'a str) -> Option<Cow<'a, str>> {
        let word = if self.fold_accents && !word.is_ascii() {
            Cow::Owned(accents::fold(word))
        } else {
            Cow::Borrowed(word)
        };
        let is_short =
            self.min_length > 1 && word.chars().take(self.min_length).count() < self.min_length;
        if is_short || self.stop_words.contains(word.as_ref()) {
            return None;
        }
        Some(match (self.stemmer, word) {
            (None, word) => word,
            (Some(stemmer), Cow::Borrowed(word)) => stemmer.stem(word),
            (Some(stemmer), Cow::Owned(word)) => Cow::Owned(stemmer.stem(&word).into_owned()),
        })
        .filter(|word| !word.is_empty())
    }
}
