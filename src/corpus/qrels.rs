//! Relevance judgments: lines `label id 1` that assign labels to document identifiers.

use std::path::Path;

use super::source::Source;
use super::{CorpusError, Problem, ReadOptions};
use crate::analyze::Dictionary;
use crate::vocabulary::Interner;

/// Labels by document identifier, as in `rcv1-v2.topics.qrels`.
#[derive(Debug, Default)]
pub struct Qrels {
    names: Vec<String>,
    ids: Interner,
    /// The labels of the document with number `d` among the identifiers, in the order of the file, are
    /// `labels[starts[d]..starts[d + 1]]`.
    starts: Vec<usize>,
    labels: Vec<u32>,
}

impl Qrels {
    /// Reads a qrels file, which may be compressed.
    ///
    /// # Errors
    /// If the file cannot be read, is too long, or a line is not `label id judgment`.
    pub fn read(path: &Path) -> Result<Self, CorpusError> {
        Self::from_source(Source::open(path, &ReadOptions::default())?)
    }

    /// Reads qrels from bytes; messages call them `name`.
    ///
    /// # Errors
    /// If a line is not `label id judgment`.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, CorpusError> {
        let bytes = Box::new(std::io::Cursor::new(bytes));
        Self::from_source(Source::from_reader(name, bytes, &ReadOptions::default())?)
    }

    fn from_source(source: Source) -> Result<Self, CorpusError> {
        Self::parse(source).map_err(|error| match error.problem {
            // `--encoding` is for the corpus only.
            Problem::BadUtf8 { byte } => Problem::OnlyUtf8 { byte }.at(&error.place),
            problem => CorpusError { problem, ..error },
        })
    }

    fn parse(source: Source) -> Result<Self, CorpusError> {
        let mut lines = source.limited().lines();
        let (mut names, mut ids) = (Interner::default(), Interner::default());
        // Numbers of a document and of its label. A document's judgments are usually neighbors.
        let mut judged: Vec<(u32, u32)> = Vec::new();
        let number = |strings: &mut Interner, string: &str| {
            strings.id(string.into()).expect("the size of a file of qrels is limited")
        };
        while let Some(line) = lines.next()? {
            let mut items = line.split_ascii_whitespace();
            let Some(name) = items.next() else { continue };
            let (Some(id), Some(judgment), None) = (items.next(), items.next(), items.next())
            else {
                let found = format!("`{}`", line.chars().take(40).collect::<String>());
                let expected = "`label id 1`";
                return Err(Problem::Unexpected { found, expected }.at(&lines.place()));
            };
            if judgment == "0" {
                continue;
            }
            let document = match judged.last() {
                Some(&(last, _)) if ids.term(last) == id => last,
                _ => number(&mut ids, id),
            };
            judged.push((document, number(&mut names, name)));
        }
        let mut starts = vec![0; ids.len() + 1];
        for &(document, _) in &judged {
            starts[document as usize + 1] += 1;
        }
        for document in 1..starts.len() {
            starts[document] += starts[document - 1];
        }
        let (mut next, mut labels) = (starts.clone(), vec![0; judged.len()]);
        for (document, label) in judged {
            let place = &mut next[document as usize];
            labels[*place] = label;
            *place += 1;
        }
        let names = (0..).take(names.len()).map(|name| names.term(name).to_owned()).collect();
        Ok(Self { names, ids, starts, labels })
    }

    /// The labels of the document `id`; none if the file does not mention it.
    pub fn labels(&self, id: &str) -> Vec<String> {
        let Some(document) = self.ids.find(id) else { return Vec::new() };
        let document = document as usize;
        let labels = &self.labels[self.starts[document]..self.starts[document + 1]];
        labels.iter().map(|&label| self.names[label as usize].clone()).collect()
    }

    /// All labels in the file, in order of first appearance.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
