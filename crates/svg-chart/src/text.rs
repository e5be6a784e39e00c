//! Measures and escapes text.

/// Height of a line of text, in units of the view box.
pub(crate) const LINE: f64 = 14.0;
/// Mean width of a character, in units of the view box.
pub(crate) const CHARACTER: f64 = 6.2;

/// Estimates the width of a text, in units of the view box.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Escapes text for XML, and replaces control characters with spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML forbids most control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
