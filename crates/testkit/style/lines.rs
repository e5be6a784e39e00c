//! The rule for line lengths.

use super::{MAX_COLUMNS, Rule, Source, Violation};

pub(crate) fn check(source: &Source, violations: &mut Vec<Violation>) {
    for (line, text) in (1..).zip(source.text.lines()) {
        let columns = text.chars().count();
        if columns > MAX_COLUMNS && !has_long_url(text) {
            let message = format!("{columns} columns, at most {MAX_COLUMNS}");
            violations.push(Violation {
                rule: Rule::LongLine,
                file: source.path.clone(),
                line,
                message,
            });
        }
    }
}

/// Whether a line contains a URL that is too long for any line.
fn has_long_url(line: &str) -> bool {
    let is_long = |word: &str| word.contains("://") && word.chars().count() > MAX_COLUMNS;
    line.split_whitespace().any(is_long)
}
