//! Finished words → term ids: looks up words, word n-grams and character n-grams in a dictionary.

use super::{Analyzer, CharScope, NgramRange, Term, segment};
use crate::vocabulary::Interner;

/// Maps terms to ids.
pub(crate) trait Dictionary {
    /// The id of `term`, or `None` if it has none.
    fn id(&mut self, term: Term<'_>) -> Option<u32>;
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
                let outcome = cache.get_or_insert(word, || match analyzer.finish(word.text()) {
                    None => Outcome::Dropped,
                    Some(finished) => {
                        dictionary.id((&*finished).into()).map_or(Outcome::Unknown, Outcome::Term)
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
            if let Some(word) = analyzer.finish(word.text()) {
                finished.push_str(&word);
                ends.push(finished.len());
            }
        });
        ngrams(analyzer, finished, ends, &mut self.term, &mut |term| match dictionary
            .id(term.into())
        {
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
    let mut names = Interner::default();
    let mut ids = Vec::new();
    TermCounter::default().ids(analyzer, text, &mut names, &mut ids);
    ids.into_iter().map(|id| names.term(id).to_owned()).collect()
}

pub(super) fn strings_slowly(analyzer: &Analyzer, text: &str) -> Vec<String> {
    let (mut words, mut ends) = (String::new(), Vec::new());
    segment::words_slowly(analyzer.spec(), text, &mut |word| {
        if let Some(word) = analyzer.finish(word.text()) {
            words.push_str(&word);
            ends.push(words.len());
        }
    });
    let mut terms = Vec::new();
    ngrams(analyzer, &words, &ends, &mut String::new(), &mut |term| terms.push(term.to_owned()));
    terms
}

/// Words and their outcomes.
#[derive(Debug, Default)]
struct WordCache {
    words: Interner,
    /// The outcome of each word, by its number.
    outcomes: Vec<Outcome>,
}

impl WordCache {
    fn get_or_insert(&mut self, word: Term<'_>, outcome: impl FnOnce() -> Outcome) -> Outcome {
        if self.words.bytes() > CACHE_BYTES {
            self.words.clear();
            self.outcomes.clear();
        }
        let number = self.words.id(word).expect("few words") as usize;
        if number == self.outcomes.len() {
            self.outcomes.push(outcome());
        }
        self.outcomes[number]
    }
}
