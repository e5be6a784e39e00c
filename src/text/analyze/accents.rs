//! Accent folding of Latin and Greek letters: `é` → `e`, `ø` → `o`, `ß` → `ss`.
//!
//! Combining marks of other scripts are kept: in Devanagari and Hebrew they are vowels, and the
//! Cyrillic `й` is a separate letter.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Returns `word` without accents.
pub(super) fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let mut plain = String::with_capacity(word.len());
    let mut strips_marks = false;
    for c in word.nfd() {
        if is_combining_mark(c) {
            if !strips_marks {
                plain.push(c);
            }
            continue;
        }
        strips_marks = c.is_ascii_alphabetic() || is_latin_or_greek(c);
        match replacement(c) {
            Some(letters) => plain.push_str(letters),
            None => plain.push(c),
        }
    }
    // Recompose the characters that were decomposed but not changed.
    plain.nfc().collect()
}

fn is_latin_or_greek(c: char) -> bool {
    matches!(c,
        '\u{C0}'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}'
        | '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}')
}

/// Returns the replacement of a letter with a stroke, or of a ligature, that Unicode does not
/// decompose.
fn replacement(c: char) -> Option<&'static str> {
    Some(match c {
        'ø' => "o",
        'Ø' => "O",
        'đ' | 'ð' => "d",
        'Đ' | 'Ð' => "D",
        'ł' => "l",
        'Ł' => "L",
        'ħ' => "h",
        'Ħ' => "H",
        'ŧ' => "t",
        'Ŧ' => "T",
        'ı' => "i",
        'æ' => "ae",
        'Æ' => "AE",
        'œ' => "oe",
        'Œ' => "OE",
        'ß' => "ss",
        'þ' => "th",
        'Þ' => "TH",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn latin_and_greek_only() {
        for (word, plain) in [
            ("crème", "creme"),
            ("brûlée", "brulee"),
            ("smørrebrød", "smorrebrod"),
            ("łódź", "lodz"),
            ("έλληνας", "ελληνας"),
            ("Œuvre", "OEuvre"),
            ("йод", "йод"),
            ("हिन्दी", "हिन्दी"),
            ("한국", "한국"),
            ("plain", "plain"),
        ] {
            assert_eq!(fold(word), plain);
        }
    }
}
