//! Caches the results of word analysis.

use crate::text::term_store::{Dictionary, Interner, ShortTerm, Term};

/// The maximum number of bytes of cached words. A larger cache is cleared, because a stream may be
/// endless.
const CACHE_BYTES: usize = 1 << 22;

/// The result of the filter and the dictionary for a word.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    /// The word is dropped.
    Dropped,
    /// The finished word has no id.
    Unknown,
    /// The id of the finished word.
    Term(u32),
}

/// Maps folded words to their outcomes.
#[derive(Debug, Default)]
pub(super) struct WordCache {
    words: Interner,
    /// The outcome of each word, indexed by its id in `words`.
    outcomes: Vec<Outcome>,
    numbers: Vec<u32>,
}

impl WordCache {
    pub(super) fn get_or_insert(
        &mut self,
        word: Term<'_>,
        outcome: &mut impl FnMut(&str) -> Outcome,
    ) -> Outcome {
        self.clear_if_full();
        let number = self.words.id(word).expect("the cache is small") as usize;
        if number == self.outcomes.len() {
            self.outcomes.push(outcome(word.text()));
        }
        self.outcomes[number]
    }

    pub(super) fn get_or_insert_all(
        &mut self,
        words: &[ShortTerm],
        outcome: &mut impl FnMut(&str) -> Outcome,
        found: &mut impl FnMut(Outcome),
    ) {
        self.clear_if_full();
        let Self { words: known, outcomes, numbers } = self;
        numbers.clear();
        known.ids(words, |number| numbers.push(number.expect("the cache is small")));
        for number in outcomes.len()..known.len() {
            #[expect(clippy::cast_possible_truncation, reason = "the cache is small")]
            outcomes.push(outcome(known.term(number as u32)));
        }
        for &number in &*numbers {
            found(outcomes[number as usize]);
        }
    }

    /// Clears the cache if it exceeds its limit.
    fn clear_if_full(&mut self) {
        if self.words.bytes() > CACHE_BYTES {
            self.words.clear();
            self.outcomes.clear();
        }
    }
}
