//! Parses the labels in a field and normalizes labels.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::error::Problem;

/// The default names of the label field, in order of preference.
pub(super) const LABEL_FIELDS: [&str; 4] = ["labels", "label", "category", "class"];

/// Returns the stored form of a label: in Unicode normalization form C, without leading and
/// trailing white space.
///
/// macOS writes folder names in form D, so `Économie` can have two encodings that look the same.
///
/// ```
/// use classify::text::corpus::normalized_label;
///
/// assert_eq!(normalized_label(" E\u{301}conomie\u{a0}"), "Économie");
/// ```
pub fn normalized_label(label: &str) -> Cow<'_, str> {
    let label = label.trim();
    if label.is_ascii() || is_nfc_quick(label.chars()) == IsNormalized::Yes {
        return Cow::Borrowed(label);
    }
    Cow::Owned(label.nfc().collect())
}

/// Parses the labels in a text field.
///
/// With a separator, the field is split at each separator. Without a separator, each item of a JSON
/// or Python list (`["a", "b"]`, `['a', 'b']`) is a label, and any other field is one label.
///
/// # Errors
/// If the field is a list of several zeros and ones, which does not contain the names of the
/// labels.
pub(super) fn labels_of_text(field: &str, separator: Option<&str>) -> Result<Vec<String>, Problem> {
    let field = field.trim();
    match separator {
        _ if field.is_empty() => Ok(Vec::new()),
        Some(separator) => {
            Ok(field.split(separator).map(|label| label.trim().to_owned()).collect())
        }
        None => match parse_list(field) {
            Some(items) => {
                check_indicators(&items)?;
                Ok(items)
            }
            None => Ok(vec![field.to_owned()]),
        },
    }
}

/// Returns whether a text field contains a JSON or Python list.
pub(super) fn is_list(field: &str) -> bool {
    parse_list(field.trim()).is_some()
}

/// Rejects a list of zeros and ones in which a value is repeated.
pub(super) fn check_indicators(labels: &[String]) -> Result<(), Problem> {
    let are_bits = labels.len() > 1 && labels.iter().all(|label| matches!(&**label, "0" | "1"));
    let is_repeated = labels.iter().skip(1).any(|label| labels[0] == *label) || labels.len() > 2;
    if are_bits && is_repeated { Err(Problem::IndicatorList) } else { Ok(()) }
}

/// Parses the value of an indicator column: whether the document has the label. Returns `None` if
/// the value means neither yes nor no.
pub(super) fn parse_indicator(field: &str) -> Option<bool> {
    match field.trim().to_ascii_lowercase().as_str() {
        "1" | "1.0" | "true" | "yes" => Some(true),
        "" | "0" | "0.0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// Converts a number to a label. Equal numbers become the same label.
pub(super) fn label_of_number(number: &serde_json::Number) -> String {
    /// Up to 2^53, `f64` represents every integer exactly.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(value)
            if number.is_f64() && value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER =>
        {
            // Adding 0.0 removes the sign of a negative zero.
            format!("{:.0}", value + 0.0)
        }
        _ => number.to_string(),
    }
}

/// Parses a JSON or Python list of strings and numbers.
fn parse_list(field: &str) -> Option<Vec<String>> {
    let mut rest = field.strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, after) = parse_literal(rest)?;
        items.push(item);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    Some(items)
}

/// Parses the literal at the beginning of `text`. Returns its value and the text after it.
fn parse_literal(text: &str) -> Option<(String, &str)> {
    let mut chars = text.char_indices();
    let (_, first) = chars.next()?;
    if !matches!(first, '"' | '\'') {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let number: serde_json::Number = text[..end].parse().ok()?;
        return Some((label_of_number(&number), &text[end..]));
    }
    let mut item = String::new();
    while let Some((index, char)) = chars.next() {
        match char {
            '\\' => item.push(parse_escape(&mut chars)?),
            _ if char == first => return Some((item, &text[index + char.len_utf8()..])),
            _ => item.push(char),
        }
    }
    None
}

/// Parses an escape sequence after its backslash.
fn parse_escape(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    let digits = match chars.next()?.1 {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'x' => 2,
        'u' => 4,
        other => return Some(other),
    };
    let code = parse_hexadecimal(chars, digits)?;
    if !matches!(code, 0xd800..0xdc00) {
        return char::from_u32(code);
    }
    // JSON encodes a character above U+FFFF as two surrogates.
    let is_escape = chars.next()?.1 == '\\' && chars.next()?.1 == 'u';
    let low =
        parse_hexadecimal(chars, 4).filter(|low| is_escape && matches!(low, 0xdc00..0xe000))?;
    char::from_u32(0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00))
}

/// Parses the next `digits` characters as a hexadecimal number.
fn parse_hexadecimal(chars: &mut std::str::CharIndices<'_>, digits: usize) -> Option<u32> {
    let code: String = chars.by_ref().take(digits).map(|(_, char)| char).collect();
    u32::from_str_radix(&code, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(field: &str) -> Vec<String> {
        labels_of_text(field, None).unwrap()
    }

    #[test]
    fn lists_of_json_and_python() {
        assert_eq!(labels(r#"["a, b", "c"]"#), ["a, b", "c"]);
        assert_eq!(labels(r"['it\'s', 'é', '\u00e9']"), ["it's", "é", "é"]);
        assert_eq!(labels("['a',]"), ["a"]);
        assert_eq!(labels(r#"["\ud83d\ude00", "b"]"#), ["😀", "b"]);
        assert_eq!(labels("[3, 4.0]"), ["3", "4"]);
        assert_eq!(labels("[]"), [""; 0]);
    }

    #[test]
    fn text_in_brackets_is_a_label() {
        for label in ["[sport]", "[a, b]", "['a' 'b']", "['a", "[", "[]]"] {
            assert_eq!(labels(label), [label]);
        }
    }

    #[test]
    fn lists_of_zeros_and_ones_are_refused() {
        for field in ["[1, 0, 0]", "[0,0]", "['0', '1', '0']"] {
            assert!(matches!(labels_of_text(field, None), Err(Problem::IndicatorList)), "{field}");
        }
        assert_eq!(labels("[1]"), ["1"]);
    }

    #[test]
    fn labels_in_normal_form() {
        assert_eq!(normalized_label("\u{feff} a "), "\u{feff} a");
        assert_eq!(normalized_label("e\u{301}"), "\u{e9}");
    }
}
