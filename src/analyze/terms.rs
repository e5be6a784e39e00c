//! Finished words → term ids: looks up words, word n-grams and character n-grams in a dictionary.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::{Analyzer, CharScope, NgramRange, segment};

/// Maps terms to ids.
pub(crate) trait Dictionary {
    /// The id of `term`, or `None` if it has none.
    fn id(&mut self, term: &str) -> Option<u32>;
}

/// The first character of a term that is a character n-gram.
const CHAR_NGRAM: char = '~';

/// The cache is emptied when its words exceed this many bytes: a stream may be endless.
const CACHE_BYTES: usize = 1 << 22;

/// Turns texts into lists of term ids and caches the outcome for each word: use one counter with only
/// one analyzer and one dictionary.
#[derive(Debug, Default)]
pub(crate) struct TermCounter {
    buffers: segment::Buffers,
    /// Folded word → the result of [`Analyzer::finish`] and the dictionary.
    cache: WordCache,
    /// The finished words of a text, if n-grams need them.
    finished: String,
    ends: Vec<usize>,
    term: String,
}

/// The outcome for a word.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Dropped,
    Unknown,
    Term(u32),
}

impl TermCounter {
    /// Appends the ids of the terms of `text` to `ids`, in no particular order, and returns the number
    /// of terms without an id.
    pub(crate) fn ids(
        &mut self,
        analyzer: &Analyzer,
        text: &str,
        dictionary: &mut impl Dictionary,
        ids: &mut Vec<u32>,
    ) -> usize {
        let spec = analyzer.spec();
        let mut unknown = 0;
        let unigrams = spec.word_ngrams == NgramRange::new(1, 1) && spec.char_ngrams.is_none();
        if unigrams && analyzer.finishes_nothing() {
            segment::words(spec, text, &mut self.buffers, &mut |word| match dictionary.id(word) {
                Some(id) => ids.push(id),
                None => unknown += 1,
            });
            return unknown;
        }
        if unigrams {
            let cache = &mut self.cache;
            segment::words(spec, text, &mut self.buffers, &mut |word| {
                let outcome = cache.get_or_insert(word, || match analyzer.finish(word) {
                    None => Outcome::Dropped,
                    Some(finished) => {
                        dictionary.id(&finished).map_or(Outcome::Unknown, Outcome::Term)
                    }
                });
                match outcome {
                    Outcome::Dropped => {}
                    Outcome::Unknown => unknown += 1,
                    Outcome::Term(id) => ids.push(id),
                }
            });
            return unknown;
        }
        self.finished.clear();
        self.ends.clear();
        let (finished, ends) = (&mut self.finished, &mut self.ends);
        segment::words(spec, text, &mut self.buffers, &mut |word| {
            if let Some(word) = analyzer.finish(word) {
                finished.push_str(&word);
                ends.push(finished.len());
            }
        });
        ngrams(analyzer, finished, ends, &mut self.term, &mut |term| match dictionary.id(term) {
            Some(id) => ids.push(id),
            None => unknown += 1,
        });
        unknown
    }
}

/// All n-grams of finished words: `words` holds the words end to end, `ends` the end of each.
fn ngrams(
    analyzer: &Analyzer,
    words: &str,
    ends: &[usize],
    buffer: &mut String,
    term: &mut impl FnMut(&str),
) {
    let spec = analyzer.spec();
    let word = |index: usize| &words[if index == 0 { 0 } else { ends[index - 1] }..ends[index]];
    if let Some(range) = spec.word_ngrams {
        for first in 0..ends.len() {
            buffer.clear();
            let last = (first + range.max()).min(ends.len());
            for (length, index) in (first..last).enumerate() {
                if length > 0 {
                    buffer.push(' ');
                }
                buffer.push_str(word(index));
                if length + 1 >= range.min() {
                    term(buffer);
                }
            }
        }
    }
    if let Some(range) = spec.char_ngrams {
        match spec.char_scope {
            CharScope::Word => {
                for index in 0..ends.len() {
                    char_ngrams(&format!(" {} ", word(index)), range, buffer, term);
                }
            }
            CharScope::Text => {
                let joined = (0..ends.len()).map(word).collect::<Vec<_>>().join(" ");
                char_ngrams(&joined, range, buffer, term);
            }
        }
    }
}

fn char_ngrams(text: &str, range: NgramRange, buffer: &mut String, term: &mut impl FnMut(&str)) {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    for length in range.min()..=range.max() {
        for ends in starts.windows(length + 1) {
            buffer.clear();
            buffer.push(CHAR_NGRAM);
            buffer.push_str(&text[ends[0]..ends[length]]);
            term(buffer);
        }
    }
}

pub(super) fn strings(analyzer: &Analyzer, text: &str) -> Vec<String> {
    let mut names = Names::default();
    let mut ids = Vec::new();
    TermCounter::default().ids(analyzer, text, &mut names, &mut ids);
    ids.into_iter().map(|id| names.terms[id as usize].clone()).collect()
}

pub(super) fn strings_slowly(analyzer: &Analyzer, text: &str) -> Vec<String> {
    let (mut words, mut ends) = (String::new(), Vec::new());
    segment::words_slowly(analyzer.spec(), text, &mut |word| {
        if let Some(word) = analyzer.finish(word) {
            words.push_str(&word);
            ends.push(words.len());
        }
    });
    let mut terms = Vec::new();
    ngrams(analyzer, &words, &ends, &mut String::new(), &mut |term| terms.push(term.to_owned()));
    terms
}

/// A dictionary that gives every new term an id.
#[derive(Default)]
struct Names {
    terms: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Dictionary for Names {
    fn id(&mut self, term: &str) -> Option<u32> {
        if let Some(&id) = self.ids.get(term) {
            return Some(id);
        }
        let id = u32::try_from(self.terms.len()).ok()?;
        self.terms.push(term.to_owned());
        self.ids.insert(term.to_owned(), id);
        Some(id)
    }
}

/// Words, in one string, and their outcomes.
#[derive(Debug, Default)]
struct WordCache {
    table: HashTable<(u32, u32, Outcome)>,
    text: String,
    hasher: RandomState,
}

impl WordCache {
    fn get_or_insert(&mut self, word: &str, outcome: impl FnOnce() -> Outcome) -> Outcome {
        let Self { table, text, hasher } = self;
        let hash = hasher.hash_one(word.as_bytes());
        let at = |start: u32, length: u32| start as usize..start as usize + length as usize;
        if let Some(&(.., outcome)) =
            table.find(hash, |&(start, length, _)| &text[at(start, length)] == word)
        {
            return outcome;
        }
        let outcome = outcome();
        if text.len() + word.len() > CACHE_BYTES {
            table.clear();
            text.clear();
        }
        let (start, length) = (u32::try_from(text.len()), u32::try_from(word.len()));
        if let (Ok(start), Ok(length)) = (start, length) {
            text.push_str(word);
            table.insert_unique(hash, (start, length, outcome), |&(start, length, _)| {
                hasher.hash_one(text[at(start, length)].as_bytes())
            });
        }
        outcome
    }
}
