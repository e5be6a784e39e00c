//! Reads plain text: one document per line, without labels. An empty line is an empty document, so
//! each line has a prediction.

use super::document::{Content, Document};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::options::{LabelUse, ReadOptions};
use super::place::Place;

pub(super) struct Plain {
    lines: Lines,
}

impl Plain {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Result<Self, CorpusError> {
        if options.labels == LabelUse::Required && options.qrels.is_none() {
            let place = Place { line: None, ..lines.place() };
            return Err(Problem::NoLabels { format: "plain text", from_qrels: false }.at(&place));
        }
        Ok(Self { lines })
    }
}

impl Iterator for Plain {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.lines.next() {
            Ok(line) => line?.into_owned(),
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(Document {
            id: String::new(),
            content: Content::Text(line),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: self.lines.place(),
        }))
    }
}
