//! The settings of an analyzer.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::stemmer::Stemmer;

/// The Unicode normalization form that text is converted to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Compatibility composition (NFKC): `ﬁ` becomes `fi`, and full-width letters become ordinary
    /// letters.
    #[default]
    Nfkc,
    /// Canonical composition (NFC): unifies only the different encodings of a character.
    Nfc,
    /// No normalization.
    None,
}

/// The normalization of letter case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Unicode case folding: `Straße` and `STRASSE` become the same word.
    #[default]
    Fold,
    /// Unicode lower case: `ß` stays `ß`.
    Lower,
    /// No change: upper and lower case remain distinct.
    Keep,
}

/// The definition of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// Unicode words (UAX #29) that contain a letter or digit. Runs of CJK or Southeast Asian
    /// characters are split into bigrams.
    #[default]
    Unicode,
    /// Runs of letters, digits and `_`, like matches of Python's `\w+`.
    WordCharacters,
    /// Runs of characters other than white space.
    Whitespace,
}

/// The scope of character n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CharScope {
    /// Within a word, with a space before and after it.
    #[default]
    Word,
    /// Across words, which are separated by one space.
    Text,
}

/// An inclusive range of n-gram lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NgramRange {
    min: usize,
    max: usize,
}

impl NgramRange {
    /// The maximum length of n-grams.
    pub const LIMIT: usize = 16;

    /// Returns the range `min..=max`, or `None` unless `1 <= min <= max <= 16`.
    pub fn new(min: usize, max: usize) -> Option<Self> {
        (1 <= min && min <= max && max <= Self::LIMIT).then_some(Self { min, max })
    }

    /// The minimum length.
    pub fn min(self) -> usize {
        self.min
    }

    /// The maximum length.
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

    /// Parses a length such as `2` or a range such as `1-3`.
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

/// All settings of an [`Analyzer`](super::Analyzer).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalyzerSpec {
    /// The normalization form.
    pub normalization: Normalization,
    /// The normalization of letter case.
    pub case: Case,
    /// The definition of a word.
    pub words: Words,
    /// Whether `é` becomes `e` (Latin and Greek letters).
    pub fold_accents: bool,
    /// The minimum number of characters of a word; shorter words are dropped.
    pub min_length: usize,
    /// Words to drop, in their form after case and accent folding.
    pub stop_words: Vec<String>,
    /// The Snowball stemmer, or `None` to keep words as they are.
    pub stemmer: Option<Stemmer>,
    /// The lengths of word n-grams, or `None` for none. Length 1 stands for single words.
    pub word_ngrams: Option<NgramRange>,
    /// The lengths of character n-grams, or `None` for none. Their terms begin with `~`.
    pub char_ngrams: Option<NgramRange>,
    /// The scope of character n-grams.
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
    /// Returns the default settings of scikit-learn's `TfidfVectorizer`: lowercased runs of at
    /// least two letters, digits or `_`.
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
