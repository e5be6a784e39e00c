//! Reads fastText lines: `__label__x __label__y text`. As in fastText, every word that begins with
//! `__label__` is a label, even within the text.

use super::document::{Content, Document};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::options::{LabelUse, ReadOptions};

const PREFIX: &str = "__label__";

pub(super) struct FastText {
    lines: Lines,
    needs_labels: bool,
}

impl FastText {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Self {
        let needs_labels = options.labels == LabelUse::Required && options.qrels.is_none();
        Self { lines, needs_labels }
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            let mut rest = line.trim();
            if rest.is_empty() {
                continue;
            }
            let mut labels = Vec::new();
            while let Some(after) = rest.strip_prefix(PREFIX) {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                labels.push(after[..end].to_owned());
                rest = after[end..].trim_start();
            }
            let mut text = rest.to_owned();
            if rest.contains(PREFIX) {
                let later_labels =
                    rest.split_whitespace().filter_map(|word| word.strip_prefix(PREFIX));
                labels.extend(later_labels.map(str::to_owned));
                let words = rest.split_whitespace().filter(|word| !word.starts_with(PREFIX));
                text = words.collect::<Vec<_>>().join(" ");
            }
            let content = Content::Text(text);
            let place = self.lines.place();
            if labels.is_empty() && self.needs_labels {
                return Err(Problem::NoFastTextLabel.at(&place));
            }
            return Ok(Some(Document {
                id: String::new(),
                content,
                labels,
                weight: 1.0,
                vector: None,
                group: None,
                place,
            }));
        }
    }
}

impl Iterator for FastText {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
