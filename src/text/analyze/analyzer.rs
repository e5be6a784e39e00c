//! Runs all stages of the analysis.

use super::ngrams::ngrams;
use super::spec::{AnalyzerSpec, NgramRange};
use super::word_cache::{Outcome, WordCache};
use super::words::WordFilter;
use super::{accents, segment};
use crate::text::term_store::{Dictionary, Interner, ShortTerm};

/// Converts texts to terms.
#[derive(Debug)]
pub struct Analyzer {
    spec: AnalyzerSpec,
    filter: WordFilter,
}

impl Analyzer {
    /// Creates an analyzer with these settings. Stop words are folded in the same way as words.
    pub fn new(mut spec: AnalyzerSpec) -> Self {
        let mut words = std::mem::take(&mut spec.stop_words);
        for word in &mut words {
            let mut folded = String::new();
            segment::fold(&spec, word, &mut folded);
            *word = if spec.fold_accents { accents::fold(&folded) } else { folded };
        }
        spec.stop_words = words;
        spec.stop_words.sort();
        spec.stop_words.dedup();
        let filter = WordFilter::new(&spec);
        Self { spec, filter }
    }

    /// The settings, with folded stop words.
    pub fn spec(&self) -> &AnalyzerSpec {
        &self.spec
    }

    /// Returns the terms of `text` in order, with repetitions: first words and word n-grams, then
    /// character n-grams.
    ///
    /// ```
    /// use classify::text::analyze::{Analyzer, AnalyzerSpec, Stemmer};
    ///
    /// let analyzer = Analyzer::new(AnalyzerSpec::default());
    /// assert_eq!(analyzer.terms("Can't stop, won't stop!"), ["can't", "stop", "won't", "stop"]);
    /// let stemmer = Some("english".parse::<Stemmer>().unwrap());
    /// let analyzer = Analyzer::new(AnalyzerSpec { stemmer, ..AnalyzerSpec::default() });
    /// assert_eq!(analyzer.terms("running runs"), ["run", "run"]);
    /// ```
    pub fn terms(&self, text: &str) -> Vec<String> {
        let mut names = Interner::default();
        let mut ids = Vec::new();
        TermCounter::default().ids(self, text, &mut names, &mut ids);
        ids.into_iter().map(|id| names.term(id).to_owned()).collect()
    }

    /// Computes the same terms as [`terms`](Self::terms) without fast paths and caches, for tests.
    #[doc(hidden)]
    pub fn reference_terms(&self, text: &str) -> Vec<String> {
        let mut words = String::new();
        let mut ends = Vec::new();
        segment::reference_words(&self.spec, text, &mut |word| {
            if let Some(word) = self.filter.finish(word.text()) {
                words.push_str(&word);
                ends.push(words.len());
            }
        });
        let mut terms = Vec::new();
        let mut keep = |term: &str| terms.push(term.to_owned());
        ngrams(&self.spec, &words, &ends, &mut String::new(), &mut keep);
        terms
    }
}

/// The maximum number of short words of a text that are looked up together.
const MAX_SHORT_WORDS: usize = 1 << 10;

/// Converts texts to lists of term ids. The outcome for each word is cached, so a counter must
/// always be used with the same analyzer and dictionary.
#[derive(Debug, Default)]
pub(crate) struct TermCounter {
    buffers: segment::Buffers,
    /// The short words to look up together.
    short_words: Vec<ShortTerm>,
    /// The result of the filter and the dictionary for each folded word.
    cache: WordCache,
    /// The finished words of the text, concatenated, if n-grams need them.
    finished: String,
    ends: Vec<usize>,
    term: String,
}

impl TermCounter {
    /// Appends the ids of the terms of `text` to `ids`, in text order, and returns the number of
    /// terms without an id.
    pub(crate) fn ids(
        &mut self,
        analyzer: &Analyzer,
        text: &str,
        dictionary: &mut impl Dictionary,
        ids: &mut Vec<u32>,
    ) -> usize {
        let spec = analyzer.spec();
        let mut unknown = 0;
        let short_words = &mut self.short_words;
        let unigrams = spec.word_ngrams == NgramRange::new(1, 1) && spec.char_ngrams.is_none();
        if unigrams && analyzer.filter.is_identity() {
            let mut push = |id: Option<u32>| match id {
                Some(id) => ids.push(id),
                None => unknown += 1,
            };
            short_words.clear();
            segment::words(spec, text, &mut self.buffers, &mut |word| {
                let is_short = ShortTerm::of(word).map(|word| short_words.push(word)).is_some();
                if !is_short || short_words.len() == MAX_SHORT_WORDS {
                    dictionary.ids(short_words, &mut push);
                    short_words.clear();
                }
                if !is_short {
                    push(dictionary.id(word));
                }
            });
            dictionary.ids(short_words, &mut push);
            return unknown;
        }
        if unigrams {
            let mut finish = |word: &str| match analyzer.filter.finish(word) {
                None => Outcome::Dropped,
                Some(finished) => {
                    dictionary.id((&*finished).into()).map_or(Outcome::Unknown, Outcome::Term)
                }
            };
            let mut push = |outcome: Outcome| match outcome {
                Outcome::Dropped => {}
                Outcome::Unknown => unknown += 1,
                Outcome::Term(id) => ids.push(id),
            };
            short_words.clear();
            let cache = &mut self.cache;
            segment::words(spec, text, &mut self.buffers, &mut |word| {
                let is_short = ShortTerm::of(word).map(|word| short_words.push(word)).is_some();
                if !is_short || short_words.len() == MAX_SHORT_WORDS {
                    cache.get_or_insert_all(short_words, &mut finish, &mut push);
                    short_words.clear();
                }
                if !is_short {
                    push(cache.get_or_insert(word, &mut finish));
                }
            });
            cache.get_or_insert_all(short_words, &mut finish, &mut push);
            return unknown;
        }
        self.finished.clear();
        self.ends.clear();
        let finished = &mut self.finished;
        let ends = &mut self.ends;
        segment::words(spec, text, &mut self.buffers, &mut |word| {
            if let Some(word) = analyzer.filter.finish(word.text()) {
                finished.push_str(&word);
                ends.push(finished.len());
            }
        });
        ngrams(
            spec,
            finished,
            ends,
            &mut self.term,
            &mut |term| match dictionary.id(term.into()) {
                Some(id) => ids.push(id),
                None => unknown += 1,
            },
        );
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_keep_the_order_of_long_and_short_words() {
        let word = |number: usize| match number % 7 {
            0 => format!("wordslongerthansixteen{}", number % 50),
            _ => format!("running{}", number % 40),
        };
        let text = (0..3 * MAX_SHORT_WORDS).map(word).collect::<Vec<_>>().join(" ");
        let short_text = text.replace("slongerthansixteen", "");
        for stemmer in [None, Some("english".parse().unwrap())] {
            let analyzer = Analyzer::new(AnalyzerSpec { stemmer, ..AnalyzerSpec::default() });
            for text in [&text, &short_text] {
                assert_eq!(analyzer.terms(text), analyzer.reference_terms(text));
            }
        }
    }
}
