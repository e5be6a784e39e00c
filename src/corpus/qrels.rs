//! Relevance judgments: lines `label id 1` that assign labels to document identifiers.

use std::collections::HashMap as Map;
use std::path::Path;

use foldhash::fast::RandomState;

use super::source::Source;
use super::{CorpusError, Problem, ReadOptions};

/// Labels by document identifier, as in `rcv1-v2.topics.qrels`.
#[derive(Debug, Default)]
pub struct Qrels {
    names: Vec<String>,
    labels: HashMap<String, Vec<u32>>,
}

type HashMap<K, V> = Map<K, V, RandomState>;

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
        let mut ids: HashMap<String, u32> = HashMap::default();
        let mut qrels = Self::default();
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
            let label = if let Some(&label) = ids.get(name) {
                label
            } else {
                let label = u32::try_from(qrels.names.len())
                    .expect("the size of a file of qrels is limited");
                ids.insert(name.to_owned(), label);
                qrels.names.push(name.to_owned());
                label
            };
            match qrels.labels.get_mut(id) {
                Some(labels) => labels.push(label),
                None => drop(qrels.labels.insert(id.to_owned(), vec![label])),
            }
        }
        Ok(qrels)
    }

    /// The labels of the document `id`; none if the file does not mention it.
    pub fn labels(&self, id: &str) -> Vec<String> {
        let labels = self.labels.get(id).map_or(&[][..], Vec::as_slice);
        labels.iter().map(|&label| self.names[label as usize].clone()).collect()
    }

    /// All labels in the file, in order of first appearance.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
