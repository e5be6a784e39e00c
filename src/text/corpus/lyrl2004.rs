//! Reads the files of the RCV1-v2 / LYRL2004 benchmark (Lewis, Yang, Rose and Li 2004, appendices).
//!
//! For each document, token files contain `.I id`, `.W`, lines of stemmed tokens and an empty line.
//! Vector files contain one line `id  column:value …` per document. Labels come from a qrels file
//! ([`super::Qrels`]).

use super::cutter::RecordEnd;
use super::document::{Content, Document};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::options::{LabelUse, ReadOptions};
use super::place::Place;
use super::svmlight::parse_features;

fn check_labels(lines: &Lines, options: &ReadOptions) -> Result<(), CorpusError> {
    if options.labels == LabelUse::Required && options.qrels.is_none() {
        let place = Place { line: None, ..lines.place() };
        return Err(Problem::NoLabels { format: "a LYRL2004 file", from_qrels: true }.at(&place));
    }
    Ok(())
}

fn document(id: String, content: Content, place: Place) -> Document {
    Document { id, content, labels: Vec::new(), weight: 1.0, vector: None, group: None, place }
}

pub(super) struct Vectors {
    lines: Lines,
}

impl Vectors {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Result<Self, CorpusError> {
        check_labels(&lines, options)?;
        Ok(Self { lines })
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            let line = line.trim_ascii();
            let (id, items) =
                line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""));
            if id.is_empty() {
                continue;
            }
            let id = id.to_owned();
            let features = if id.contains(':') {
                Err(Problem::Unexpected { found: quoted(&id), expected: "a document id" })
            } else {
                parse_features(items, 0, false)
            };
            let place = self.lines.place();
            let features = features.map_err(|problem| problem.at(&place))?;
            return Ok(Some(document(id, Content::Features(features), place)));
        }
    }
}

impl Iterator for Vectors {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

pub(super) struct Tokens {
    lines: Lines,
    /// The id and the place of the next document, if its `.I` line has been read.
    next: Option<(String, Place)>,
}

impl Tokens {
    pub(super) fn new(lines: Lines, options: &ReadOptions) -> Result<Self, CorpusError> {
        check_labels(&lines, options)?;
        Ok(Self { lines, next: None })
    }

    fn read(&mut self) -> Result<Option<Document>, CorpusError> {
        while self.next.is_none() {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.trim().is_empty() {
                continue;
            }
            let id = id_line(&line).map(str::to_owned);
            let found = quoted(&line);
            let place = self.lines.place();
            match id {
                Some(id) => self.next = Some((id, place)),
                None => return Err(Problem::Unexpected { found, expected: "`.I id`" }.at(&place)),
            }
        }
        let Some((id, place)) = self.next.take() else { return Ok(None) };
        self.lines.begin_record();
        let Some(line) = self.lines.next_of_record()? else {
            return Err(Problem::CutShort { missing: "`.W` line" }.at(&place));
        };
        if line.trim() != ".W" {
            let found = quoted(&line);
            let line_place = self.lines.place();
            return Err(Problem::Unexpected { found, expected: "`.W`" }.at(&line_place));
        }
        let mut text = String::new();
        while let Some(line) = self.lines.next_of_record()? {
            if let Some(id) = id_line(&line) {
                let id = id.to_owned();
                self.next = Some((id, self.lines.place()));
                break;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line.trim_end());
        }
        text.truncate(text.trim_end().len());
        Ok(Some(document(id, Content::Text(text), place)))
    }
}

impl Iterator for Tokens {
    type Item = Result<Document, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Returns the end of a record before a line with an id. Two consecutive lines with ids are an
/// error. No record ends between them, because a cut there would change the error message.
pub(super) fn find_token_record_end(before: &[u8], line: &[u8]) -> Option<RecordEnd> {
    let is_id =
        |line: &[u8]| line.starts_with(b".I ") && id_line(&String::from_utf8_lossy(line)).is_some();
    (is_id(line) && !is_id(before)).then_some(RecordEnd::BeforeSecond)
}

fn id_line(line: &str) -> Option<&str> {
    let id = line.strip_prefix(".I ")?.trim();
    (!id.is_empty()).then_some(id)
}

fn quoted(text: &str) -> String {
    format!("`{}`", text.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_files_are_cut_before_ids() {
        let cut =
            |before: &str, line: &str| find_token_record_end(before.as_bytes(), line.as_bytes());
        assert_eq!(cut("text\n", ".I 7\n"), Some(RecordEnd::BeforeSecond));
        assert_eq!(cut("\n", ".I 7\r\n"), Some(RecordEnd::BeforeSecond));
        // A missing id, an indented line, and two ids in a row.
        for (before, line) in [("text\n", ".I \n"), ("text\n", " .I 7\n"), (".I 6\n", ".I 7\n")] {
            assert_eq!(cut(before, line), None, "{before}{line}");
        }
    }
}
