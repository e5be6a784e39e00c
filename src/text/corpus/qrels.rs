//! Relevance judgments (qrels): lines `label id 1` that assign labels to document identifiers.

use std::hash::BuildHasher;
use std::path::Path;

use foldhash::fast::FixedState;
use rayon::prelude::*;

use super::blocks::BlockReader;
use super::cutter::RecordEnds;
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::source::{Source, SourceOptions};
use crate::text::term_store::{Dictionary, Interner};
use crate::threads::Threads;

/// Labels by document identifier, as in `rcv1-v2.topics.qrels`.
#[derive(Debug, Default)]
pub struct Qrels {
    names: Vec<String>,
    shards: Vec<Shard>,
}

/// The labels of the documents with the same value of [`shard_of`]. Shards are built concurrently.
#[derive(Debug, Default)]
struct Shard {
    ids: Interner,
    /// The labels of the document with index `d` in `ids`, in file order, are
    /// `labels[starts[d]..starts[d + 1]]`.
    starts: Vec<usize>,
    labels: Vec<u32>,
}

/// The number of shards. It is large enough for a shard to fit in the L2 cache while it is built.
const SHARDS: usize = 32;

#[expect(clippy::cast_possible_truncation, reason = "fewer than 256")]
fn shard_of(id: &str) -> u8 {
    ((FixedState::default().hash_one(id.as_bytes()) >> 32) % SHARDS as u64) as u8
}

impl Qrels {
    /// Reads a qrels file, which may be compressed.
    ///
    /// # Errors
    /// If the file cannot be read, is too long, or a line is not `label id judgment`.
    pub fn read(path: &Path) -> Result<Self, CorpusError> {
        Self::from_source(Source::open(path, &SourceOptions::default())?, None)
    }

    /// Like [`read`](Self::read), but reads on several threads.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_with(path: &Path, threads: &Threads) -> Result<Self, CorpusError> {
        Self::from_source(Source::open(path, &SourceOptions::default())?, Some(threads))
    }

    /// Reads qrels from bytes. Error messages refer to them as `name`.
    ///
    /// # Errors
    /// If a line is not `label id judgment`.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, CorpusError> {
        let bytes = Box::new(std::io::Cursor::new(bytes));
        Self::from_source(Source::from_reader(name, bytes, &SourceOptions::default())?, None)
    }

    fn from_source(source: Source, threads: Option<&Threads>) -> Result<Self, CorpusError> {
        let source = source.limited();
        let read = match threads.filter(|threads| threads.count() > 1 && source.is_file()) {
            None => Judgments::read(source.lines()).map(|all| Self::merge(&[all], None)),
            Some(threads) => {
                let parse = |lines| vec![Judgments::read(lines)];
                BlockReader::from_lines(source.blocks(RecordEnds::Lines), parse, threads)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map(|blocks| Self::merge(&blocks, Some(threads)))
            }
        };
        read.map_err(|error| match error.problem {
            // The encoding options of the corpus do not apply to this file.
            Problem::BadUtf8 { byte } => Problem::OnlyUtf8 { byte }.at(&error.place),
            problem => CorpusError { problem, ..error },
        })
    }

    /// Merges the judgments of blocks, in order.
    fn merge(blocks: &[Judgments], threads: Option<&Threads>) -> Self {
        let mut names = Interner::default();
        // Maps the label names of each block to indices in `names`.
        let mut number =
            |name: &str| names.id(name.into()).expect("the size of a file of qrels is limited");
        let numbers: Vec<Vec<u32>> = blocks
            .iter()
            .map(|block| {
                (0..).take(block.names.len()).map(|name| number(block.names.term(name))).collect()
            })
            .collect();
        let shard = |number: usize| Shard::build(number, blocks, &numbers);
        let shards = match threads {
            Some(threads) => threads.run(|| (0..SHARDS).into_par_iter().map(shard).collect()),
            None => (0..SHARDS).map(shard).collect(),
        };
        let names = (0..).take(names.len()).map(|name| names.term(name).to_owned()).collect();
        Self { names, shards }
    }

    /// Returns the labels of the document `id`. They are empty if the file does not contain it.
    pub fn labels(&self, id: &str) -> Vec<String> {
        let shard = self.shards.get(usize::from(shard_of(id)));
        let labels = shard.map_or(&[][..], |shard| shard.labels(id));
        labels.iter().map(|&label| self.names[label as usize].clone()).collect()
    }

    /// All labels in the file, in order of first occurrence.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Shard {
    /// Builds a shard. `numbers` maps the labels of each block to indices of all labels.
    fn build(shard: usize, blocks: &[Judgments], numbers: &[Vec<u32>]) -> Self {
        let mut ids = Interner::default();
        // Pairs of a document index and a label index.
        let mut judgments: Vec<(u32, u32)> = Vec::new();
        let mut document_indices = Vec::new();
        for (block, label_numbers) in blocks.iter().zip(numbers) {
            let in_shard = |&position: &usize| usize::from(block.shards[position]) == shard;
            let positions = || (0..block.documents.len()).filter(in_shard);
            document_indices.clear();
            ids.ids_of(positions().map(|position| block.id(position)), &mut document_indices);
            for (&document, position) in document_indices.iter().zip(positions()) {
                let labels = block.labels(position).iter();
                judgments.extend(labels.map(|&label| (document, label_numbers[label as usize])));
            }
        }
        let mut starts = vec![0; ids.len() + 1];
        for &(document, _) in &judgments {
            starts[document as usize + 1] += 1;
        }
        for document in 1..starts.len() {
            starts[document] += starts[document - 1];
        }
        let mut next = starts.clone();
        let mut labels = vec![0; judgments.len()];
        for (document, label) in judgments {
            let slot = &mut next[document as usize];
            labels[*slot] = label;
            *slot += 1;
        }
        Self { ids, starts, labels }
    }

    /// Returns the labels of a document. They are empty if there is no such document.
    fn labels(&self, id: &str) -> &[u32] {
        let Some(document) = self.ids.find(id) else { return &[] };
        let document = document as usize;
        &self.labels[self.starts[document]..self.starts[document + 1]]
    }
}

/// The judgments in a range of lines.
#[derive(Default)]
struct Judgments {
    names: Interner,
    /// The concatenated identifiers of documents. The judgments of a document are usually
    /// consecutive; if they are not, its identifier is repeated.
    ids: String,
    /// The ends of each document's identifier in `ids` and of its labels in `labels`.
    documents: Vec<(usize, usize)>,
    /// The shard of each document.
    shards: Vec<u8>,
    /// The labels of the documents, as indices in `names`.
    labels: Vec<u32>,
}

impl Judgments {
    fn read(mut lines: Lines) -> Result<Self, CorpusError> {
        let mut judgments = Self::default();
        // The start of the last document's identifier.
        let mut last_start = 0;
        while let Some(line) = lines.next()? {
            let mut items = line.split_ascii_whitespace();
            let Some(name) = items.next() else { continue };
            let [Some(id), Some(judgment), None] = [items.next(), items.next(), items.next()]
            else {
                let found = format!("`{}`", line.chars().take(40).collect::<String>());
                let expected = "`label id 1`";
                return Err(Problem::Unexpected { found, expected }.at(&lines.place()));
            };
            if judgment == "0" {
                continue;
            }
            if judgments.documents.is_empty() || judgments.ids[last_start..] != *id {
                last_start = judgments.ids.len();
                judgments.ids.push_str(id);
                judgments.documents.push((judgments.ids.len(), judgments.labels.len()));
                judgments.shards.push(shard_of(id));
            }
            let label = judgments.names.id(name.into());
            judgments.labels.push(label.expect("the size of a file of qrels is limited"));
            if let Some((_, end)) = judgments.documents.last_mut() {
                *end = judgments.labels.len();
            }
        }
        Ok(judgments)
    }

    /// Returns the starts of a document's identifier in `ids` and of its labels in `labels`.
    fn start(&self, document: usize) -> (usize, usize) {
        document.checked_sub(1).map_or((0, 0), |before| self.documents[before])
    }

    fn id(&self, document: usize) -> &str {
        &self.ids[self.start(document).0..self.documents[document].0]
    }

    fn labels(&self, document: usize) -> &[u32] {
        &self.labels[self.start(document).1..self.documents[document].1]
    }
}
