//! Escapes external text to make it safe to print.
//!
//! Corpora, models and file names may contain escape sequences that move a terminal's cursor,
//! change its colors or set its title. They may also contain bidirectional controls that change the
//! apparent order of the text. All external text must pass through [`printable`] before it is shown
//! to a person.

use std::fmt::{self, Display, Write};

/// Text whose control characters are displayed as escapes such as `\u{1b}`. See [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<T> {
    text: T,
    is_multiline: bool,
}

/// Wraps `text` for display on one line. Control characters (C0, DEL and C1, including line breaks
/// and tabs), line and paragraph separators, and bidirectional controls are escaped. Everything
/// else is unchanged.
///
/// ```
/// use classify::printable::printable;
///
/// assert_eq!(printable("déjà vu").to_string(), "déjà vu");
/// assert_eq!(printable("\x1b[31mred\nend").to_string(), r"\u{1b}[31mred\nend");
/// assert_eq!(printable("a\u{202e}b").to_string(), r"a\u{202e}b");
/// ```
pub fn printable<T: Display>(text: T) -> Printable<T> {
    Printable { text, is_multiline: false }
}

/// Like [`printable`], but keeps line feeds and tabs, for multi-line text.
///
/// ```
/// assert_eq!(classify::printable::printable_lines("a\nb\x07").to_string(), "a\nb\\u{7}");
/// ```
pub fn printable_lines<T: Display>(text: T) -> Printable<T> {
    Printable { text, is_multiline: true }
}

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaper { out: f, is_multiline: self.is_multiline }, "{}", self.text)
    }
}

/// A writer that escapes hidden characters and forwards all others.
struct Escaper<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    is_multiline: bool,
}

impl Write for Escaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_kept = |c| self.is_multiline && matches!(c, '\n' | '\t');
        let mut rest = text;
        let escaped = |&(_, c): &(usize, char)| is_hidden(c) && !is_kept(c);
        while let Some((offset, c)) = rest.char_indices().find(escaped) {
            write!(self.out, "{}{}", &rest[..offset], c.escape_default())?;
            rest = &rest[offset + c.len_utf8()..];
        }
        self.out.write_str(rest)
    }
}

/// Returns whether a character affects the text around it instead of being displayed.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}')
        || matches!(c, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        let hidden = ('\0'..=char::MAX).filter(|&c| is_hidden(c));
        let text: String = hidden.flat_map(|c| [c, 'x']).collect();
        assert!(!printable(&text).to_string().chars().any(is_hidden));
        let kept: String =
            printable_lines(&text).to_string().chars().filter(|&c| is_hidden(c)).collect();
        assert_eq!(kept, "\t\n");
        for c in ['\u{202A}', '\u{202E}', '\u{2066}', '\u{2069}', '\u{9B}', '\u{2028}'] {
            assert!(is_hidden(c));
        }
        assert!(!"कि עברית 👩‍👩‍👧 \u{a0}".chars().any(is_hidden));
    }
}
