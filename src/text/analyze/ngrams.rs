//! Builds word and character n-grams from analyzed words.

use super::spec::{AnalyzerSpec, CharScope, NgramRange};

/// The prefix of terms that are character n-grams.
const CHAR_NGRAM: char = '~';

/// Calls `term` with each n-gram. `words` contains the analyzed words without separators, and
/// `ends` contains the end offset of each word.
pub(super) fn ngrams(
    spec: &AnalyzerSpec,
    words: &str,
    ends: &[usize],
    buffer: &mut String,
    term: &mut impl FnMut(&str),
) {
    let word = |index: usize| &words[if index == 0 { 0 } else { ends[index - 1] }..ends[index]];
    if let Some(range) = spec.word_ngrams {
        for first in 0..ends.len() {
            buffer.clear();
            let end = (first + range.max()).min(ends.len());
            for (length, index) in (first..end).enumerate() {
                if length > 0 {
                    buffer.push(' ');
                }
                buffer.push_str(word(index));
                if length + 1 >= range.min() {
                    term(buffer);
                }
            }
        }
    }
    if let Some(range) = spec.char_ngrams {
        match spec.char_scope {
            CharScope::Word => {
                for index in 0..ends.len() {
                    char_ngrams(&format!(" {} ", word(index)), range, buffer, term);
                }
            }
            CharScope::Text => {
                let joined = (0..ends.len()).map(word).collect::<Vec<_>>().join(" ");
                char_ngrams(&joined, range, buffer, term);
            }
        }
    }
}

fn char_ngrams(text: &str, range: NgramRange, buffer: &mut String, term: &mut impl FnMut(&str)) {
    let starts: Vec<usize> =
        text.char_indices().map(|(start, _)| start).chain([text.len()]).collect();
    for length in range.min()..=range.max() {
        for bounds in starts.windows(length + 1) {
            buffer.clear();
            buffer.push(CHAR_NGRAM);
            buffer.push_str(&text[bounds[0]..bounds[length]]);
            term(buffer);
        }
    }
}
