//! Splits text into folded words.
//!
//! ASCII text is lowercased as a whole and split by `ascii`. Mixed text is first split into chunks
//! at white space. ASCII chunks are processed like ASCII text. Other chunks are normalized, folded
//! and split by UAX #29 ([`unicode_segmentation`]). No UAX #29 word crosses ASCII white space, so
//! each chunk can be split separately. Property tests check that all paths produce the same words.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
use unicode_segmentation::UnicodeSegmentation;

use super::ascii;
use super::spec::{AnalyzerSpec, Case, Normalization, Words};
use super::stemmer::Stemmer;
use crate::text::term_store::{PREFIX, Term};

/// Spaces appended to a text, so that at least sixteen bytes can be read from the start of each
/// word.
const PADDING: &str = "                ";
const _: () = assert!(PADDING.len() == PREFIX);

/// Buffers that are reused for the next text.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    lowered: String,
    folded: String,
}

/// Calls `word` with each folded word of `text`, in order.
pub(super) fn words(
    spec: &AnalyzerSpec,
    text: &str,
    buffers: &mut Buffers,
    word: &mut impl FnMut(Term<'_>),
) {
    if is_turkish(spec) && text.contains('I') {
        // The lower case of `I` is not ASCII.
        return unicode_words(spec, text, &mut buffers.folded, word);
    }
    let mut rest = text;
    loop {
        // `is_ascii` examines many bytes at once; the search for the first non-ASCII byte does not.
        if rest.is_ascii() {
            return ascii_words(spec, rest, &mut buffers.lowered, word);
        }
        let first = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let bytes = rest.as_bytes();
        let start =
            bytes[..first].iter().rposition(|&byte| is_space(byte)).map_or(0, |space| space + 1);
        let end = bytes[first..]
            .iter()
            .position(|&byte| is_space(byte))
            .map_or(rest.len(), |n| first + n);
        ascii_words(spec, &rest[..start], &mut buffers.lowered, word);
        unicode_words(spec, &rest[start..end], &mut buffers.folded, word);
        rest = &rest[end..];
    }
}

/// Produces the same words as [`words`], without the fast path.
pub(super) fn reference_words(spec: &AnalyzerSpec, text: &str, word: &mut impl FnMut(Term<'_>)) {
    unicode_words(spec, text, &mut String::new(), word);
}

/// Returns whether `byte` is white space that ends a chunk. Such a byte is never part of a word,
/// before or after normalization.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn ascii_words(
    spec: &AnalyzerSpec,
    text: &str,
    lowered: &mut String,
    word: &mut impl FnMut(Term<'_>),
) {
    lowered.clear();
    lowered.push_str(text);
    if spec.case != Case::Keep {
        lowered.make_ascii_lowercase();
    }
    match spec.words {
        Words::Unicode | Words::WordCharacters => {
            // The padding does not change any word: the end of the text would also end a word.
            lowered.push_str(PADDING);
            if spec.words == Words::Unicode {
                ascii::uax29_words(lowered, word);
            } else {
                ascii::word_character_runs(lowered, word);
            }
        }
        Words::Whitespace => lowered.split_whitespace().for_each(|found| word(found.into())),
    }
}

/// Returns whether to use Turkish case folding, where `I` folds to `ı` and `İ` to `i`.
fn is_turkish(spec: &AnalyzerSpec) -> bool {
    spec.stemmer == Some(Stemmer::TURKISH) && spec.case != Case::Keep
}

/// Replaces typographic apostrophes with `'` and removes zero-width characters, byte order marks
/// and variation selectors. `NFKC_Casefold` removes them too.
fn normalize_characters(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_apostrophe(c) || is_default_ignorable(c)) {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().filter(|&c| !is_default_ignorable(c));
    kept.map(|c| if is_apostrophe(c) { '\'' } else { c }).collect()
}

/// Returns whether `c` can stand for the apostrophe in `don't`.
fn is_apostrophe(c: char) -> bool {
    matches!(c, '\u{2018}' | '\u{2019}' | '\u{02BC}' | '\u{FF07}')
}

/// Returns whether `c` has the Unicode property `Default_Ignorable_Code_Point`, except for the soft
/// hyphen, which is kept.
fn is_default_ignorable(c: char) -> bool {
    matches!(c,
        '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{FFA0}' | '\u{FFF0}'..='\u{FFF8}' | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Writes `text`, normalized and case-folded, to `folded`.
pub(super) fn fold(spec: &AnalyzerSpec, text: &str, folded: &mut String) {
    let mut text = match spec.normalization {
        Normalization::Nfkc => normalize_characters(text),
        _ => Cow::Borrowed(text),
    };
    if is_turkish(spec) {
        let dotted = text.replace("I\u{307}", "i").replace('\u{130}', "i");
        text = Cow::Owned(dotted.replace('I', "\u{131}"));
    }
    let normal: Cow<'_, str> = match spec.normalization {
        Normalization::Nfkc if is_nfkc_quick(text.chars()) != IsNormalized::Yes => {
            text.nfkc().collect()
        }
        Normalization::Nfc if is_nfc_quick(text.chars()) != IsNormalized::Yes => {
            text.nfc().collect()
        }
        _ => text,
    };
    folded.clear();
    match spec.case {
        Case::Keep => folded.push_str(&normal),
        Case::Lower => folded.push_str(&normal.to_lowercase()),
        // The standard library converts only to lower case, which keeps `ß` and distinguishes `ς`
        // from `σ`.
        Case::Fold => folded.push_str(&unicase::UniCase::new(normal.as_ref()).to_folded_case()),
    }
    // `İ` folds to `i` and a combining dot above. Remove the dot, which would prevent matches. It
    // may also be in the text, if another program folded it.
    if spec.normalization == Normalization::Nfkc && folded.contains("i\u{307}") {
        *folded = folded.replace("i\u{307}", "i");
    }
}

fn unicode_words(
    spec: &AnalyzerSpec,
    text: &str,
    folded: &mut String,
    word: &mut impl FnMut(Term<'_>),
) {
    fold(spec, text, folded);
    match spec.words {
        Words::Unicode => uax29_with_bigrams(folded, word),
        Words::WordCharacters => {
            let runs = folded.split(|c: char| !is_word_character(c)).filter(|run| !run.is_empty());
            runs.for_each(|run| word(run.into()));
        }
        Words::Whitespace => folded.split_whitespace().for_each(|found| word(found.into())),
    }
}

/// Returns whether `c` is a letter or number (general categories L and N) or `_`, like Python's
/// `\w`.
fn is_word_character(c: char) -> bool {
    let group = c.general_category_group();
    c == '_' || matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// Calls `word` with each UAX #29 word. In scripts without spaces between words, adjacent words are
/// joined and split into overlapping bigrams of characters (CJK) or grapheme clusters (Southeast
/// Asian scripts). A run of a single character is a word by itself.
fn uax29_with_bigrams(text: &str, word: &mut impl FnMut(Term<'_>)) {
    let mut run = 0..0;
    let mut run_script = Script::Spaced;
    for (offset, segment) in text.unicode_word_indices() {
        // A combining mark after a space is joined to the space (WB4), which is not part of a word.
        let found = segment.trim_start();
        let start = offset + segment.len() - found.len();
        let script = Script::detect(found);
        if script == run_script && run.end == start && !run.is_empty() {
            run.end += found.len();
            continue;
        }
        bigrams(&text[std::mem::take(&mut run)], run_script, word);
        run_script = script;
        if script == Script::Spaced {
            word(found.into());
        } else {
            run = start..start + found.len();
        }
    }
    bigrams(&text[run], run_script, word);
}

/// How a script separates words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// Words are separated by spaces.
    Spaced,
    /// Words are not separated, and a character is a syllable or a morpheme.
    Cjk,
    /// Words are not separated, and a grapheme cluster is a consonant with its vowels and tones.
    SoutheastAsian,
}

impl Script {
    fn detect(word: &str) -> Self {
        if word.chars().all(is_cjk) {
            Self::Cjk
        } else if word.chars().all(is_southeast_asian) {
            Self::SoutheastAsian
        } else {
            Self::Spaced
        }
    }
}

/// Calls `word` with the overlapping bigrams of the characters or grapheme clusters of a run.
fn bigrams(run: &str, script: Script, word: &mut impl FnMut(Term<'_>)) {
    match script {
        Script::SoutheastAsian => {
            pairs(run, run.grapheme_indices(true).map(|(start, _)| start), word);
        }
        _ => pairs(run, run.char_indices().map(|(start, _)| start), word),
    }
}

/// Calls `word` with each pair of adjacent units of `run`, or with the only unit. The units begin
/// at `starts`.
fn pairs(run: &str, starts: impl Iterator<Item = usize>, word: &mut impl FnMut(Term<'_>)) {
    let mut starts = starts.peekable();
    let Some(mut start) = starts.next() else { return };
    if starts.peek().is_none() {
        return word(run.into());
    }
    while let Some(middle) = starts.next() {
        let end = starts.peek().copied().unwrap_or(run.len());
        word(Term::within(run, start, end));
        start = middle;
    }
}

/// Returns whether `c` is a Han, Hiragana, Katakana or Hangul character.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30FF}' | '\u{3131}'..='\u{318E}' | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}'
        | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9D}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// Returns whether `c` belongs to a Southeast Asian script without spaces between words, such as
/// Thai, Lao, Burmese or Khmer.
fn is_southeast_asian(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{1950}'..='\u{19FF}' | '\u{1A20}'..='\u{1AAF}' | '\u{A9E0}'..='\u{A9FF}'
        | '\u{AA60}'..='\u{AADF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(words: Words, case: Case) -> AnalyzerSpec {
        AnalyzerSpec { case, words, ..AnalyzerSpec::default() }
    }

    fn fast_and_slow(spec: &AnalyzerSpec, text: &str) -> (Vec<String>, Vec<String>) {
        let mut fast = Vec::new();
        let mut slow = Vec::new();
        words(spec, text, &mut Buffers::default(), &mut |word| fast.push(word.text().to_owned()));
        reference_words(spec, text, &mut |word| slow.push(word.text().to_owned()));
        (fast, slow)
    }

    fn folded(spec: &AnalyzerSpec, text: &str) -> String {
        let mut folded = String::new();
        fold(spec, text, &mut folded);
        folded
    }

    #[test]
    fn apostrophes_and_invisible_characters() {
        let spec = AnalyzerSpec::default();
        for text in ["don\u{2019}t", "don\u{2018}t", "do\u{2060}n't", "\u{FEFF}don't\u{200B}"] {
            assert_eq!(folded(&spec, text), "don't");
            assert_eq!(fast_and_slow(&spec, text).0, ["don't"]);
        }
        let plain = AnalyzerSpec { normalization: Normalization::None, ..spec };
        assert_eq!(folded(&plain, "don\u{2019}t"), "don\u{2019}t");
    }

    #[test]
    fn turkish_letters() {
        let spec = AnalyzerSpec::default();
        assert_eq!(folded(&spec, "İZMİR"), "izmir");
        // A combining dot is removed in every word, whether the text contains `İ` or not.
        let (fast, slow) = fast_and_slow(&spec, "İ i\u{307}zmir");
        assert_eq!(fast, ["i", "izmir"]);
        assert_eq!(fast, slow);
        assert_eq!(folded(&spec, "i\u{307}zmir"), "izmir");
        let turkish = AnalyzerSpec { stemmer: Some(Stemmer::TURKISH), ..spec };
        assert_eq!(folded(&turkish, "IŞIK İZMİR I\u{307}"), "ışık izmir i");
        let (fast, slow) = fast_and_slow(&turkish, "ISPARTA x");
        assert_eq!(fast, ["ısparta", "x"]);
        assert_eq!(fast, slow);
    }

    /// Thai, Lao, Burmese and Khmer are written without spaces between words.
    #[test]
    fn pairs_of_grapheme_clusters() {
        let spec = AnalyzerSpec::default();
        assert_eq!(fast_and_slow(&spec, "กินข้าว กา ก").0, ["กิน", "นข้", "ข้า", "าว", "กา", "ก"]);
    }

    fn specs() -> Vec<AnalyzerSpec> {
        let mut specs = Vec::new();
        for words in [Words::Unicode, Words::WordCharacters, Words::Whitespace] {
            specs.extend([Case::Fold, Case::Lower, Case::Keep].map(|case| spec(words, case)));
        }
        specs
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn ascii_path_gives_the_words_of_uax29(text in "[ -~\t\r\n]{0,60}") {
            for spec in specs() {
                let (fast, slow) = fast_and_slow(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn ascii_path_on_few_characters(text in "[ aB1_.:,;'\"\u{b}-]{0,24}") {
            for spec in specs() {
                let (fast, slow) = fast_and_slow(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        /// Tests words and joining characters at the boundaries of 64-byte blocks.
        #[test]
        fn ascii_path_across_blocks(before in 50usize..66, text in "[ a1_.,;']{10,100}") {
            let text = format!("{}{text}", " ".repeat(before));
            for spec in specs() {
                let (fast, slow) = fast_and_slow(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn chunks_give_the_words_of_the_whole_text(
            text in "[ \nabC1._'\u{301}\u{200d}\u{ad}\u{df}\u{3a3}\u{5d0}\"\u{915}\u{93f}\u{4e2d}\
                \u{6587}\u{30ab}\u{ac00}\u{fb01}\u{a8}\u{3000}\u{3099}\u{1f1e6}]{0,24}"
        ) {
            for spec in specs() {
                let (fast, slow) = fast_and_slow(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn chunks_on_any_text(text in "\\PC{0,40}") {
            for spec in specs() {
                let (fast, slow) = fast_and_slow(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }
    }

    fn uax29(text: &str) -> Vec<String> {
        fast_and_slow(&AnalyzerSpec::default(), text).0
    }

    #[test]
    fn scripts() {
        assert_eq!(uax29("Straße STRASSE ﬁx Σίσυφος"), ["strasse", "strasse", "fix", "σίσυφοσ"]);
        // Combining marks remain part of their word.
        assert_eq!(uax29("हिन्दी भाषा"), ["हिन्दी", "भाषा"]);
        assert_eq!(uax29("తెలుగు, భాష"), ["తెలుగు", "భాష"]);
        assert_eq!(uax29("cafe\u{301} café"), ["café", "café"]);
        // CJK runs become bigrams; a single character remains a word; punctuation ends a run.
        assert_eq!(uax29("東京都。中 abc"), ["東京", "京都", "中", "abc"]);
        assert_eq!(uax29("한국어 テスト"), ["한국", "국어", "テス", "スト"]);
        assert_eq!(
            uax29("3.14 a_b U.S.A. don't 1,000 x:y _ __a"),
            ["3.14", "a_b", "u.s.a", "don't", "1,000", "x:y", "__a"]
        );
    }
}
