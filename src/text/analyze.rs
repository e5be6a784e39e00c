//! Text → terms: normalize, fold case, segment, fold accents, drop stop words, stem, n-grams.
//!
//! An [`AnalyzerSpec`] holds all settings of an [`Analyzer`]; a model stores it. The stages, in
//! order:
//!
//! 1. `segment`: Unicode normalization, case folding, words (UAX #29); runs of CJK characters
//!    become bigrams. Pure ASCII text takes a faster path to the same words (`ascii`).
//! 2. `words`: accents, minimum length, stop words, stems.
//! 3. `ngrams`: word n-grams and character n-grams.
//!
//! `analyzer` runs the stages and looks terms up in a dictionary. Read it first.

mod accents;
mod analyzer;
mod ascii;
mod ngrams;
mod segment;
mod spec;
mod stemmer;
mod stop_words;
mod word_cache;
mod words;

pub use analyzer::Analyzer;
pub(crate) use analyzer::TermCounter;
pub use spec::{AnalyzerSpec, Case, CharScope, NgramRange, Normalization, Words};
pub use stemmer::Stemmer;
pub(crate) use stop_words::stop_word_language_name;
pub use stop_words::{stop_word_language, stop_word_languages, stop_word_list_name, stop_words};
