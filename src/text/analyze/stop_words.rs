//! Stop words by language, from the crate `stop-words`. The build script compresses them to a
//! seventh of the size that they would have as string constants.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// The language codes, and the stop words of each language.
type Lists = (Vec<&'static str>, Vec<Vec<&'static str>>);

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    let packed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stop-words.gz"));
    let mut text = String::new();
    GzDecoder::new(packed)
        .read_to_string(&mut text)
        .expect("the build script compressed valid UTF-8");
    let list = |line: &'static str| {
        let mut items = line.split('\t');
        (items.next().unwrap_or_default(), items.collect())
    };
    String::leak(text).lines().map(list).unzip()
});

/// Returns the stop words of a language, given its ISO 639-1 code, or `None` if there is no list.
///
/// ```
/// assert!(classify::text::analyze::stop_words("en").unwrap().contains(&"the"));
/// assert!(classify::text::analyze::stop_words("xx").is_none());
/// ```
pub fn stop_words(language: &str) -> Option<&'static [&'static str]> {
    let (codes, lists) = &*LISTS;
    let index = codes.iter().position(|&code| code == language)?;
    Some(&lists[index])
}

/// Returns the ISO 639-1 codes of the languages with a stop-word list.
///
/// ```
/// assert!(classify::text::analyze::stop_word_languages().contains(&"de"));
/// ```
pub fn stop_word_languages() -> &'static [&'static str] {
    &LISTS.0
}

/// Returns the code of a language with a stop-word list, given its code or its English name,
/// ignoring case.
///
/// ```
/// use classify::text::analyze::stop_word_language;
///
/// assert_eq!(stop_word_language("English"), Some("en"));
/// assert_eq!(stop_word_language("en"), Some("en"));
/// assert_eq!(stop_word_language("klingon"), None);
/// ```
pub fn stop_word_language(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let named = NAMES.iter().find(|(english, _)| *english == name).map(|&(_, code)| code);
    let code = named.unwrap_or(&name);
    stop_word_languages().iter().copied().find(|known| *known == code)
}

/// Returns the English name of the language whose stop-word list equals `words`, in the same order.
///
/// ```
/// use classify::text::analyze::{stop_word_list_name, stop_words};
///
/// let words: Vec<String> = stop_words("de").unwrap().iter().map(|&word| word.into()).collect();
/// assert_eq!(stop_word_list_name(&words), Some("german"));
/// assert_eq!(stop_word_list_name(&["the".to_owned()]), None);
/// ```
pub fn stop_word_list_name(words: &[String]) -> Option<&'static str> {
    let matches = |(_, code): &&(&str, &str)| stop_words(code).is_some_and(|list| list == words);
    NAMES.iter().find(matches).map(|&(name, _)| name)
}

/// Returns the English name of a language with a stop-word list, given its code.
pub(crate) fn stop_word_language_name(code: &str) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == code).map(|&(name, _)| name)
}

/// The English names of languages with a stop-word list, and their codes.
const NAMES: &[(&str, &str)] = &[
    ("afrikaans", "af"),
    ("arabic", "ar"),
    ("armenian", "hy"),
    ("basque", "eu"),
    ("bengali", "bn"),
    ("breton", "br"),
    ("bulgarian", "bg"),
    ("catalan", "ca"),
    ("chinese", "zh"),
    ("croatian", "hr"),
    ("czech", "cs"),
    ("danish", "da"),
    ("dutch", "nl"),
    ("english", "en"),
    ("esperanto", "eo"),
    ("estonian", "et"),
    ("filipino", "tl"),
    ("finnish", "fi"),
    ("french", "fr"),
    ("galician", "gl"),
    ("german", "de"),
    ("greek", "el"),
    ("gujarati", "gu"),
    ("hausa", "ha"),
    ("hebrew", "he"),
    ("hindi", "hi"),
    ("hungarian", "hu"),
    ("indonesian", "id"),
    ("irish", "ga"),
    ("italian", "it"),
    ("japanese", "ja"),
    ("korean", "ko"),
    ("kurdish", "ku"),
    ("latin", "la"),
    ("latvian", "lv"),
    ("lithuanian", "lt"),
    ("malay", "ms"),
    ("marathi", "mr"),
    ("norwegian", "no"),
    ("persian", "fa"),
    ("polish", "pl"),
    ("portuguese", "pt"),
    ("romanian", "ro"),
    ("russian", "ru"),
    ("slovak", "sk"),
    ("slovenian", "sl"),
    ("somali", "so"),
    ("sotho", "st"),
    ("spanish", "es"),
    ("swahili", "sw"),
    ("swedish", "sv"),
    ("tagalog", "tl"),
    ("thai", "th"),
    ("turkish", "tr"),
    ("ukrainian", "uk"),
    ("urdu", "ur"),
    ("vietnamese", "vi"),
    ("yoruba", "yo"),
    ("zulu", "zu"),
    ("farsi", "fa"),
    ("flemish", "nl"),
    ("castilian", "es"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_name() {
        for code in stop_word_languages() {
            assert!(NAMES.iter().any(|(_, named)| named == code), "{code}");
        }
        assert!(NAMES.iter().all(|(name, code)| stop_word_language(name) == Some(code)));
    }

    #[test]
    fn the_lists_equal_the_lists_of_the_crate() {
        assert_eq!(stop_word_languages(), ::stop_words::available_languages());
        for &language in stop_word_languages() {
            assert_eq!(stop_words(language), ::stop_words::lookup(language), "{language}");
        }
    }
}
