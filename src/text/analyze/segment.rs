//! Text → folded words.
//!
//! ASCII text is lowered as a whole and split by `ascii`. Mixed text is split at white space:
//! chunks of ASCII are treated in the same way, and chunks with a non-ASCII character are
//! normalized, folded and split by UAX #29 ([`unicode_segmentation`]). No UAX #29 word crosses
//! ASCII white space, so chunks can be split one by one. Property tests check that all ways give
//! the same words.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
use unicode_segmentation::UnicodeSegmentation;

use super::ascii;
use super::spec::{AnalyzerSpec, Case, Normalization, Words};
use crate::text::term_store::{PREFIX, Term};

/// Blanks that follow a text, so that sixteen bytes follow the start of each word.
const ROOM: &str = "                ";
const _: () = assert!(ROOM.len() == PREFIX);

/// Buffers to use again for the next text.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    lowered: String,
    folded: String,
}

/// Calls `word` with every word of `text`, folded, in order.
pub(super) fn words(
    spec: &AnalyzerSpec,
    text: &str,
    buffers: &mut Buffers,
    word: &mut impl FnMut(Term<'_>),
) {
    let mut rest = text;
    loop {
        // Examines many bytes at once; the search for the first non-ASCII byte does not.
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

/// The same words without the fast path.
pub(super) fn words_slowly(spec: &AnalyzerSpec, text: &str, word: &mut impl FnMut(Term<'_>)) {
    unicode_words(spec, text, &mut String::new(), word);
}

/// White space that ends a chunk: it is never part of a word, before or after normalization.
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
            // Blanks end no word that is not ended by the end of the text.
            lowered.push_str(ROOM);
            if spec.words == Words::Unicode {
                ascii::uax29_words(lowered, word);
            } else {
                ascii::word_character_runs(lowered, word);
            }
        }
        Words::Whitespace => lowered.split_whitespace().for_each(|found| word(found.into())),
    }
}

/// `text` normalized and case-folded, into `folded`.
pub(super) fn fold(spec: &AnalyzerSpec, text: &str, folded: &mut String) {
    let normal: Cow<'_, str> = match spec.normalization {
        Normalization::Nfkc if is_nfkc_quick(text.chars()) != IsNormalized::Yes => {
            text.nfkc().collect()
        }
        Normalization::Nfc if is_nfc_quick(text.chars()) != IsNormalized::Yes => {
            text.nfc().collect()
        }
        _ => Cow::Borrowed(text),
    };
    folded.clear();
    match spec.case {
        Case::Keep => folded.push_str(&normal),
        Case::Lower => folded.push_str(&normal.to_lowercase()),
        // The standard library has lower case only, which keeps `ß` and distinguishes `ς` from `σ`.
        Case::Fold => folded.push_str(&unicase::UniCase::new(normal.as_ref()).to_folded_case()),
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

/// Letters and numbers (general categories L and N) and `_`, like Python's `\w`.
fn is_word_character(c: char) -> bool {
    let group = c.general_category_group();
    c == '_' || matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// UAX #29 words. Adjacent CJK words are joined and given as overlapping bigrams of characters; a
/// single character is given as it is.
fn uax29_with_bigrams(text: &str, word: &mut impl FnMut(Term<'_>)) {
    let mut run = 0..0;
    for (at, with_blank) in text.unicode_word_indices() {
        // A stray mark is joined to the blank before it (WB4), but the blank is not part of a word.
        let found = with_blank.trim_start();
        let start = at + with_blank.len() - found.len();
        if !found.chars().all(is_cjk) {
            bigrams(&text[std::mem::take(&mut run)], word);
            word(found.into());
        } else if run.end == start && !run.is_empty() {
            run.end += found.len();
        } else {
            bigrams(&text[run], word);
            run = start..start + found.len();
        }
    }
    bigrams(&text[run], word);
}

fn bigrams(run: &str, word: &mut impl FnMut(Term<'_>)) {
    let mut last = None;
    let mut pairs = 0;
    for (at, c) in run.char_indices() {
        if let Some(start) = last {
            word(Term::within(run, start, at + c.len_utf8()));
            pairs += 1;
        }
        last = Some(at);
    }
    if pairs == 0 && !run.is_empty() {
        word(run.into());
    }
}

/// Han, Hiragana, Katakana and Hangul.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30FF}' | '\u{3131}'..='\u{318E}' | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}'
        | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9D}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(words: Words, case: Case) -> AnalyzerSpec {
        AnalyzerSpec { case, words, ..AnalyzerSpec::default() }
    }

    fn both(spec: &AnalyzerSpec, text: &str) -> (Vec<String>, Vec<String>) {
        let mut fast = Vec::new();
        let mut slow = Vec::new();
        words(spec, text, &mut Buffers::default(), &mut |word| fast.push(word.text().to_owned()));
        words_slowly(spec, text, &mut |word| slow.push(word.text().to_owned()));
        (fast, slow)
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
                let (fast, slow) = both(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn ascii_path_on_few_characters(text in "[ aB1_.:,;'\"\u{b}-]{0,24}") {
            for spec in specs() {
                let (fast, slow) = both(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        /// Words and what joins them at the ends of blocks of 64 bytes.
        #[test]
        fn ascii_path_across_blocks(before in 50usize..66, text in "[ a1_.,;']{10,100}") {
            let text = format!("{}{text}", " ".repeat(before));
            for spec in specs() {
                let (fast, slow) = both(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn chunks_give_the_words_of_the_whole(
            text in "[ \nabC1._'\u{301}\u{200d}\u{ad}\u{df}\u{3a3}\u{5d0}\"\u{915}\u{93f}\u{4e2d}\
                \u{6587}\u{30ab}\u{ac00}\u{fb01}\u{a8}\u{3000}\u{3099}\u{1f1e6}]{0,24}"
        ) {
            for spec in specs() {
                let (fast, slow) = both(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }

        #[test]
        fn chunks_on_any_text(text in "\\PC{0,40}") {
            for spec in specs() {
                let (fast, slow) = both(&spec, &text);
                prop_assert_eq!(fast, slow);
            }
        }
    }

    fn uax29(text: &str) -> Vec<String> {
        both(&AnalyzerSpec::default(), text).0
    }

    #[test]
    fn scripts() {
        assert_eq!(uax29("Straße STRASSE ﬁx Σίσυφος"), ["strasse", "strasse", "fix", "σίσυφοσ"]);
        // Combining marks stay in their word.
        assert_eq!(uax29("हिन्दी भाषा"), ["हिन्दी", "भाषा"]);
        assert_eq!(uax29("తెలుగు, భాష"), ["తెలుగు", "భాష"]);
        assert_eq!(uax29("cafe\u{301} café"), ["café", "café"]);
        // CJK gives bigrams; a lone character is itself; punctuation ends a run.
        assert_eq!(uax29("東京都。中 abc"), ["東京", "京都", "中", "abc"]);
        assert_eq!(uax29("한국어 テスト"), ["한국", "국어", "テス", "スト"]);
        assert_eq!(
            uax29("3.14 a_b U.S.A. don't 1,000 x:y _ __a"),
            ["3.14", "a_b", "u.s.a", "don't", "1,000", "x:y", "__a"]
        );
    }
}
