//! Finished words → term ids: looks up words, word n-grams and character n-grams in a dictionary.

use super::{Analyzer, CharScope, NgramRange, Term, segment};
use crate::text::vocabulary::{Interner, ShortTerm};

/// Maps terms to ids.
pub(crate) trait Dictionary {
    /// The id of `term`, or `None` if it has none.
    fn id(&mut self, term: Term<'_>) -> Option<u32>;

    /// Calls `found` with the id of each term, in their order.
    fn ids(&mut self, terms: &[ShortTerm], found: impl FnMut(Option<u32>));
}

/// The first character of a term that is a character n-gram.
const CHAR_NGRAM: char = '~';

/// The cache is emptied when its words exceed this many bytes: a stream may be endless.
const CACHE_BYTES: usize = 1 << 22;

/// The short words of a text that are kept before they are looked up.
const MOST_SHORT: usize = 1 << 10;

/// Turns texts into lists of term ids and caches the outcome for each word: use one counter with only
/// one analyzer and one dictionary.
#[derive(Debug, Default)]
pub(crate) struct TermCounter {
    buffers: segment::Buffers,
    /// The words of a text that are looked up together.
    short: Vec<ShortTerm>,
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
    /// Appends the ids of the terms of `text` to `ids`, in the order of their words, and returns the number
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
        let short = &mut self.short;
        let unigrams = spec.word_ngrams == NgramRange::new(1, 1) && spec.char_ngrams.is_none();
        if unigrams && analyzer.finishes_nothing() {
            let mut found = |id: Option<u32>| match id {
                Some(id) => ids.push(id),
                None => unknown += 1,
            };
            short.clear();
            segment::words(spec, text, &mut self.buffers, &mut |word| {
                let is_short = ShortTerm::of(word).map(|word| short.push(word)).is_some();
                if !is_short || short.len() == MOST_SHORT {
                    dictionary.ids(short, &mut found);
                    short.clear();
                }
                if !is_short {
                    found(dictionary.id(word));
                }
            });
            dictionary.ids(short, &mut found);
            return unknown;
        }
        if unigrams {
            let mut finish = |word: &str| match analyzer.finish(word) {
                None => Outcome::Dropped,
                Some(finished) => {
                    dictionary.id((&*finished).into()).map_or(Outcome::Unknown, Outcome::Term)
                }
            };
            let mut found = |outcome: Outcome| match outcome {
                Outcome::Dropped => {}
                Outcome::Unknown => unknown += 1,
                Outcome::Term(id) => ids.push(id),
            };
            short.clear();
            let cache = &mut self.cache;
            segment::words(spec, text, &mut self.buffers, &mut |word| {
                let is_short = ShortTerm::of(word).map(|word| short.push(word)).is_some();
                if !is_short || short.len() == MOST_SHORT {
                    cache.get_or_insert_all(short, &mut finish, &mut found);
                    short.clear();
                }
                if !is_short {
                    found(cache.get_or_insert(word, &mut finish));
                }
            });
            cache.get_or_insert_all(short, &mut finish, &mut found);
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
    numbers: Vec<u32>,
}

impl WordCache {
    fn get_or_insert(
        &mut self,
        word: Term<'_>,
        outcome: &mut impl FnMut(&str) -> Outcome,
    ) -> Outcome {
        self.limit();
        let number = self.words.id(word).expect("few words") as usize;
        if number == self.outcomes.len() {
            self.outcomes.push(outcome(word.text()));
        }
        self.outcomes[number]
    }

    fn get_or_insert_all(
        &mut self,
        words: &[ShortTerm],
        outcome: &mut impl FnMut(&str) -> Outcome,
        found: &mut impl FnMut(Outcome),
    ) {
        self.limit();
        let Self { words: known, outcomes, numbers } = self;
        numbers.clear();
        known.ids(words, |number| numbers.push(number.expect("few words")));
        for number in outcomes.len()..known.len() {
            #[expect(clippy::cast_possible_truncation, reason = "few words")]
            outcomes.push(outcome(known.term(number as u32)));
        }
        for &number in &*numbers {
            found(outcomes[number as usize]);
        }
    }

    /// Empties the cache if its words are too many.
    fn limit(&mut self) {
        if self.words.bytes() > CACHE_BYTES {
            self.words.clear();
            self.outcomes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::analyze::AnalyzerSpec;

    #[test]
    fn terms_come_in_the_order_of_long_and_short_words() {
        let word = |number: usize| match number % 7 {
            0 => format!("wordslongerthansixteen{}", number % 50),
            _ => format!("running{}", number % 40),
        };
        let text = (0..3 * MOST_SHORT).map(word).collect::<Vec<_>>().join(" ");
        let short = text.replace("slongerthansixteen", "");
        for stemmer in [None, Some("english".parse().unwrap())] {
            let analyzer = Analyzer::new(AnalyzerSpec { stemmer, ..AnalyzerSpec::default() });
            for text in [&text, &short] {
                assert_eq!(analyzer.terms(text), analyzer.terms_slowly(text));
            }
        }
    }
}
