//! Converts text to terms: normalization, case folding, segmentation, accent folding, stop words,
//! stemming, n-grams.
//!
//! An [`AnalyzerSpec`] holds all settings of an [`Analyzer`] and is stored in the model. The
//! stages, in order:
//!
//! 1. `segment`: Unicode normalization, case folding, words (UAX #29); runs of CJK or Southeast
//!    Asian characters become bigrams. ASCII text takes a faster path (`ascii`) that produces the
//!    same words.
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
