//! The settings of an analyzer.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::stemmer::Stemmer;

/// The Unicode normalization form that text is converted to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Compatibility composition: `ﬁ` becomes `fi`, full-width letters become plain ones.
    #[default]
    Nfkc,
    /// Canonical composition: unites only different spellings of the same character.
    Nfc,
    /// The text as it is.
    None,
}

/// What happens to upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Unicode case folding: `Straße` and `STRASSE` become the same word.
    #[default]
    Fold,
    /// Unicode lower case: `ß` stays `ß`.
    Lower,
    /// Upper and lower case stay different.
    Keep,
}

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// Unicode words (UAX #29) with a letter or digit; runs of CJK characters as bigrams.
    #[default]
    Unicode,
    /// Runs of letters, digits and `_`: what Python's `\w+` matches.
    WordCharacters,
    /// Whatever is between white space.
    Whitespace,
}

/// How far character n-grams reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CharScope {
    /// Within a word, with a blank before and after it.
    #[default]
    Word,
    /// Across words, separated by one blank each.
    Text,
}

/// A range of n-gram lengths; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NgramRange {
    min: usize,
    max: usize,
}

impl NgramRange {
    /// The longest allowed n-gram.
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
            .ok_or_else(|| format!("`{text}` is not a range of lengths like 2 or 1-3 (1 to 16)"))
    }
}

impl TryFrom<String> for NgramRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// All settings that decide which terms a text has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalyzerSpec {
    /// The normalization form.
    pub normalization: Normalization,
    /// What happens to upper case.
    pub case: Case,
    /// What a word is.
    pub words: Words,
    /// Whether `é` becomes `e` (Latin and Greek letters).
    pub fold_accents: bool,
    /// The minimum number of characters; shorter words are dropped.
    pub min_length: usize,
    /// Words to drop, in their form after case and accent folding.
    pub stop_words: Vec<String>,
    /// The Snowball stemmer, or `None` to keep words as they are.
    pub stemmer: Option<Stemmer>,
    /// Lengths of word n-grams; `None`: no words at all.
    pub word_ngrams: Option<NgramRange>,
    /// Lengths of character n-grams, whose terms begin with `~`; `None`: no character n-grams.
    pub char_ngrams: Option<NgramRange>,
    /// How far character n-grams reach.
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

impl AnalyzerSpec {
    /// The defaults of scikit-learn's `TfidfVectorizer`: lower-cased runs of at least two letters,
    /// digits and `_`.
    ///
    /// ```
    /// use classify::text::analyze::{AnalyzerSpec, Words};
    /// assert_eq!(AnalyzerSpec::sklearn().words, Words::WordCharacters);
    /// ```
    pub fn sklearn() -> Self {
        Self {
            words: Words::WordCharacters,
            case: Case::Lower,
            normalization: Normalization::None,
            min_length: 2,
            ..Self::default()
        }
    }
}
