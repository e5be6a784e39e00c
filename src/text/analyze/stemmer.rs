//! Snowball stemmers by language.

use std::borrow::Cow;
use std::fmt;

use rust_stemmers::Algorithm;
use serde::{Deserialize, Serialize};

/// The Snowball stemmer of a language.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stemmer(Algorithm);

/// The English name, the ISO 639-1 code and the algorithm of each language, ordered by name.
const LANGUAGES: [(&str, &str, Algorithm); 18] = [
    ("arabic", "ar", Algorithm::Arabic),
    ("danish", "da", Algorithm::Danish),
    ("dutch", "nl", Algorithm::Dutch),
    ("english", "en", Algorithm::English),
    ("finnish", "fi", Algorithm::Finnish),
    ("french", "fr", Algorithm::French),
    ("german", "de", Algorithm::German),
    ("greek", "el", Algorithm::Greek),
    ("hungarian", "hu", Algorithm::Hungarian),
    ("italian", "it", Algorithm::Italian),
    ("norwegian", "no", Algorithm::Norwegian),
    ("portuguese", "pt", Algorithm::Portuguese),
    ("romanian", "ro", Algorithm::Romanian),
    ("russian", "ru", Algorithm::Russian),
    ("spanish", "es", Algorithm::Spanish),
    ("swedish", "sv", Algorithm::Swedish),
    ("tamil", "ta", Algorithm::Tamil),
    ("turkish", "tr", Algorithm::Turkish),
];

impl Stemmer {
    /// The Turkish stemmer. In Turkish, the lower case of `I` is `ı`.
    pub const TURKISH: Self = Self(Algorithm::Turkish);

    /// Returns the stemmers of all languages, ordered by name.
    pub fn all() -> impl Iterator<Item = Self> {
        LANGUAGES.into_iter().map(|(.., algorithm)| Self(algorithm))
    }

    /// The English name of the language, in lower case.
    pub fn language(self) -> &'static str {
        LANGUAGES.iter().find(|(.., algorithm)| *algorithm == self.0).map_or("", |(name, ..)| name)
    }

    /// The ISO 639-1 code of the language.
    pub fn code(self) -> &'static str {
        LANGUAGES
            .iter()
            .find(|(.., algorithm)| *algorithm == self.0)
            .map_or("", |(_, code, _)| code)
    }

    /// Returns the stem of a lowercase word.
    ///
    /// ```
    /// let spanish: classify::text::analyze::Stemmer = "es".parse().unwrap();
    /// assert_eq!(spanish.stem("bibliotecas"), "bibliotec");
    /// ```
    pub fn stem(self, word: &str) -> Cow<'_, str> {
        rust_stemmers::Stemmer::create(self.0).stem(word)
    }
}

impl fmt::Debug for Stemmer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.language())
    }
}

impl std::str::FromStr for Stemmer {
    type Err = String;

    /// Parses the English name or the ISO 639-1 code of a language, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        LANGUAGES
            .iter()
            .find(|(name, code, _)| *name == text || *code == text)
            .map(|&(.., algorithm)| Self(algorithm))
            .ok_or_else(|| {
                let names: Vec<&str> = LANGUAGES.iter().map(|(name, ..)| *name).collect();
                format!("no stemmer for `{text}`; there are {}", names.join(", "))
            })
    }
}

impl From<Stemmer> for String {
    fn from(stemmer: Stemmer) -> Self {
        stemmer.language().to_owned()
    }
}

impl TryFrom<String> for Stemmer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
