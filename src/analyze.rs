//! Text → terms: normalize, fold case, segment, fold accents, drop stop words, stem, n-grams.
//!
//! An [`AnalyzerSpec`] says everything that an [`Analyzer`] needs to repeat itself; a model
//! stores it. The stages, in order:
//!
//! 1. `segment`: Unicode normalization, case folding, words (UAX #29); runs of CJK characters
//!    become bigrams. Pure ASCII text takes a fast path with the same words.
//! 2. `words`: accents, minimal length, stop words, stem.
//! 3. `terms`: word n-grams and character n-grams.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

mod accents;
mod ascii;
mod segment;
mod terms;
mod words;

pub(crate) use terms::{Dictionary, TermCounter};
pub use words::Stemmer;

/// Which Unicode normalization form text is brought to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Compatibility composition: `ﬁ` is `fi`, full-width letters are letters.
    #[default]
    Nfkc,
    /// Canonical composition: only spellings of the same character are united.
    Nfc,
    /// The text as it is.
    None,
}

/// What happens to upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Unicode case folding: `Straße` and `STRASSE` are one word.
    #[default]
    Fold,
    /// Unicode lower case: `ß` stays.
    Lower,
    /// Upper and lower case are different.
    Keep,
}

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// Unicode words (UAX #29) that hold a letter or a digit; CJK runs as bigrams.
    #[default]
    Unicode,
    /// Runs of letters, digits and `_`: what Python's `\w+` matches.
    WordCharacters,
    /// What stands between white space.
    Whitespace,
}

/// Where character n-grams may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CharScope {
    /// Inside a word, which has a blank before and after it.
    #[default]
    Word,
    /// Across words, which one blank separates.
    Text,
}

/// A range of n-gram lengths, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NgramRange {
    min: usize,
    max: usize,
}

impl NgramRange {
    /// The longest n-gram.
    pub const LIMIT: usize = 16;

    /// `min..=max`, or `None` unless `1 <= min <= max <= 16`.
    pub fn new(min: usize, max: usize) -> Option<Self> {
        (1 <= min && min <= max && max <= Self::LIMIT).then_some(Self { min, max })
    }

    /// The shortest length.
    pub fn min(self) -> usize {
        self.min
    }

    /// The longest length.
    pub fn max(self) -> usize {
        self.max
    }
}

impl fmt::Display for NgramRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

impl From<NgramRange> for String {
    fn from(range: NgramRange) -> Self {
        range.to_string()
    }
}

impl std::str::FromStr for NgramRange {
    type Err = String;

    /// Reads `2` or `1-3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        min.parse()
            .ok()
            .zip(max.parse().ok())
            .and_then(|(min, max)| Self::new(min, max))
            .ok_or_else(|| format!("`{text}` is no range of lengths like 2 or 1-3 (1 to 16)"))
    }
}

impl TryFrom<String> for NgramRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Everything that decides which terms a text has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalyzerSpec {
    /// The normalization form.
    pub normalization: Normalization,
    /// What happens to upper case.
    pub case: Case,
    /// What a word is.
    pub words: Words,
    /// Whether `é` is `e` (Latin and Greek letters).
    pub fold_accents: bool,
    /// Words of fewer characters are dropped.
    pub min_length: usize,
    /// Words that are dropped, as they stand after case and accent folding.
    pub stop_words: Vec<String>,
    /// The language of the Snowball stemmer, if words are stemmed.
    pub stemmer: Option<Stemmer>,
    /// Lengths of word n-grams; `None`: no word terms.
    pub word_ngrams: Option<NgramRange>,
    /// Lengths of character n-grams, whose terms begin with `~`; `None`: none.
    pub char_ngrams: Option<NgramRange>,
    /// Where character n-grams may reach.
    pub char_scope: CharScope,
}

impl Default for AnalyzerSpec {
    fn default() -> Self {
        Self {
            normalization: Normalization::default(),
            case: Case::default(),
            words: Words::default(),
            fold_accents: false,
            min_length: 1,
            stop_words: Vec::new(),
            stemmer: None,
            word_ngrams: NgramRange::new(1, 1),
            char_ngrams: None,
            char_scope: CharScope::default(),
        }
    }
}

/// The stop words of a language by its ISO 639-1 code, or `None` if there is no list.
///
/// ```
/// assert!(classify::analyze::stop_words("en").unwrap().contains(&"the"));
/// assert!(classify::analyze::stop_words("xx").is_none());
/// ```
pub fn stop_words(language: &str) -> Option<&'static [&'static str]> {
    stop_words::lookup(language)
}

/// The languages that have stop words, as ISO 639-1 codes.
pub fn stop_word_languages() -> &'static [&'static str] {
    stop_words::available_languages()
}

/// Turns texts into terms.
#[derive(Debug)]
pub struct Analyzer {
    spec: AnalyzerSpec,
    stop_words: HashSet<String>,
}

impl Analyzer {
    /// The analyzer of `spec`. Its stop words are folded as its words are.
    pub fn new(mut spec: AnalyzerSpec) -> Self {
        let mut words = std::mem::take(&mut spec.stop_words);
        for word in &mut words {
            let mut folded = String::new();
            segment::fold(&spec, word, &mut folded);
            *word = if spec.fold_accents { accents::folded(&folded) } else { folded };
        }
        spec.stop_words = words;
        spec.stop_words.sort();
        spec.stop_words.dedup();
        let stop_words = spec.stop_words.iter().cloned().collect();
        Self { spec, stop_words }
    }

    /// What the analyzer was made of.
    pub fn spec(&self) -> &AnalyzerSpec {
        &self.spec
    }

    /// The terms of `text` in order, with repetitions: words and word n-grams, then character
    /// n-grams.
    ///
    /// ```
    /// use classify::analyze::{Analyzer, AnalyzerSpec, Stemmer};
    ///
    /// let analyzer = Analyzer::new(AnalyzerSpec::default());
    /// assert_eq!(analyzer.terms("Can't stop, won't stop!"), ["can't", "stop", "won't", "stop"]);
    /// let stemmer = Some("english".parse::<Stemmer>().unwrap());
    /// let analyzer = Analyzer::new(AnalyzerSpec { stemmer, ..AnalyzerSpec::default() });
    /// assert_eq!(analyzer.terms("running runs"), ["run", "run"]);
    /// ```
    pub fn terms(&self, text: &str) -> Vec<String> {
        terms::strings(self, text)
    }

    /// The terms of `text` without the fast paths and the caches: the oracle of tests.
    #[doc(hidden)]
    pub fn terms_slowly(&self, text: &str) -> Vec<String> {
        terms::strings_slowly(self, text)
    }
}
