//! Stop words by language, from the crate `stop-words`: the build script packs them into one text,
//! a seventh of the size of string constants.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// Codes, and the words of each.
type Lists = (Vec<&'static str>, Vec<Vec<&'static str>>);

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    let packed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stop-words.gz"));
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).expect("the build script packed a text");
    let list = |line: &'static str| {
        let mut items = line.split('\t');
        (items.next().unwrap_or_default(), items.collect())
    };
    String::leak(text).lines().map(list).unzip()
});

/// The stop words of a language by its ISO 639-1 code, or `None` if there is no list.
///
/// ```
/// assert!(classify::text::analyze::stop_words("en").unwrap().contains(&"the"));
/// assert!(classify::text::analyze::stop_words("xx").is_none());
/// ```
pub fn stop_words(language: &str) -> Option<&'static [&'static str]> {
    let (codes, lists) = &*LISTS;
    let at = codes.iter().position(|&code| code == language)?;
    Some(&lists[at])
}

/// The ISO 639-1 codes of the languages with stop words.
///
/// ```
/// assert!(classify::text::analyze::stop_word_languages().contains(&"de"));
/// ```
pub fn stop_word_languages() -> &'static [&'static str] {
    &LISTS.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_those_of_the_crate() {
        assert_eq!(stop_word_languages(), ::stop_words::available_languages());
        for &language in stop_word_languages() {
            assert_eq!(stop_words(language), ::stop_words::lookup(language), "{language}");
        }
    }
}
