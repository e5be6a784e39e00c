//! Reads Annif lines: a text, a tab, and the URIs of its subjects, separated by white space.
//!
//! URIs may be in angle brackets, which are not part of the label. In the `.tsv` file of a
//! document, each line contains a URI and its name; the URI is the label.

use super::document::{Content, Document};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::options::{LabelUse, ReadOptions};

pub(super) struct Annif {
    lines: Lines,
    needs_labels: bool,
}

impl Annif {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Self {
        let needs_labels = options.labels == LabelUse::Required && options.qrels.is_none();
        Self { lines, needs_labels }
    }
}

impl Iterator for Annif {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.lines.next() {
            Ok(line) => line?.into_owned(),
            Err(error) => return Some(Err(error)),
        };
        let place = self.lines.place();
        let (text, uris) = line.split_once('\t').unwrap_or((&line, ""));
        if uris.is_empty() && self.needs_labels {
            let found = "a line without a tab".to_owned();
            return Some(Err(
                Problem::Unexpected { found, expected: "`text<TAB><uri>`" }.at(&place)
            ));
        }
        Some(Ok(Document {
            id: String::new(),
            content: Content::Text(text.to_owned()),
            labels: uris.split_whitespace().map(|uri| without_brackets(uri).to_owned()).collect(),
            weight: 1.0,
            vector: None,
            group: None,
            place,
        }))
    }
}

/// Returns whether a line looks like Annif's format: its first subject is a URI in angle brackets.
pub(super) fn is_line(line: &str) -> bool {
    line.split_once('\t').is_some_and(|(_, uris)| {
        let uri = uris.split_whitespace().next().unwrap_or_default();
        uri.starts_with("<http") && uri.ends_with('>')
    })
}

/// Returns the subjects of a document from a file with one subject per line: a URI and its name
/// (`.tsv`), or a name (`.key`).
pub(super) fn subjects(lines: &str) -> Vec<String> {
    let subject =
        |line: &str| without_brackets(line.split('\t').next().unwrap_or_default()).to_owned();
    lines.lines().filter(|line| !line.trim().is_empty()).map(subject).collect()
}

fn without_brackets(uri: &str) -> &str {
    let uri = uri.trim();
    uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>')).unwrap_or(uri)
}
