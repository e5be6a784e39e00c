//! Relevance judgments: lines `label id 1` that assign labels to document identifiers.

use std::hash::BuildHasher;
use std::path::Path;

use foldhash::fast::FixedState;
use rayon::prelude::*;

use super::blocks::BlockReader;
use super::cutter::Ends;
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

/// The labels of the documents whose identifiers have the same [`shard_of`]; shards are made
/// concurrently.
#[derive(Debug, Default)]
struct Shard {
    ids: Interner,
    /// The labels of the document with number `d` among the identifiers, in the order of the file,
    /// are `labels[starts[d]..starts[d + 1]]`.
    starts: Vec<usize>,
    labels: Vec<u32>,
}

/// The number of shards: each fits in a near cache of a processor while it is made.
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

    /// As [`read`](Self::read), on several threads.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with(path: &Path, threads: &Threads) -> Result<Self, CorpusError> {
        Self::from_source(Source::open(path, &SourceOptions::default())?, Some(threads))
    }

    /// Reads qrels from bytes; messages call them `name`.
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
            None => Judgments::read(source.lines()).map(|all| Self::of(&[all], None)),
            Some(threads) => {
                let parse = |lines| vec![Judgments::read(lines)];
                BlockReader::of_lines(source.blocks(Ends::Lines), parse, threads)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map(|blocks| Self::of(&blocks, Some(threads)))
            }
        };
        read.map_err(|error| match error.problem {
            // The encoding of the corpus is not that of this file.
            Problem::BadUtf8 { byte } => Problem::OnlyUtf8 { byte }.at(&error.place),
            problem => CorpusError { problem, ..error },
        })
    }

    /// The judgments of blocks, in their order.
    fn of(blocks: &[Judgments], threads: Option<&Threads>) -> Self {
        let mut names = Interner::default();
        // The number of each name of a block.
        let mut number =
            |name: &str| names.id(name.into()).expect("the size of a file of qrels is limited");
        let numbers: Vec<Vec<u32>> = blocks
            .iter()
            .map(|block| {
                (0..).take(block.names.len()).map(|name| number(block.names.term(name))).collect()
            })
            .collect();
        let shard = |number: usize| Shard::of(number, blocks, &numbers);
        let shards = match threads {
            Some(threads) => threads.run(|| (0..SHARDS).into_par_iter().map(shard).collect()),
            None => (0..SHARDS).map(shard).collect(),
        };
        let names = (0..).take(names.len()).map(|name| names.term(name).to_owned()).collect();
        Self { names, shards }
    }

    /// The labels of the document `id`; none if the file does not mention it.
    pub fn labels(&self, id: &str) -> Vec<String> {
        let shard = self.shards.get(usize::from(shard_of(id)));
        let labels = shard.map_or(&[][..], |shard| shard.labels(id));
        labels.iter().map(|&label| self.names[label as usize].clone()).collect()
    }

    /// All labels in the file, in order of first appearance.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Shard {
    /// The documents of a shard, with the labels' numbers among all.
    fn of(shard: usize, blocks: &[Judgments], numbers: &[Vec<u32>]) -> Self {
        let mut ids = Interner::default();
        // Numbers of documents and of their labels.
        let mut judged: Vec<(u32, u32)> = Vec::new();
        let mut own = Vec::new();
        for (block, of_names) in blocks.iter().zip(numbers) {
            let in_shard = |&at: &usize| usize::from(block.shards[at]) == shard;
            let places = || (0..block.documents.len()).filter(in_shard);
            own.clear();
            ids.ids_of(places().map(|at| block.id(at)), &mut own);
            for (&document, at) in own.iter().zip(places()) {
                let labels = block.labels(at).iter();
                judged.extend(labels.map(|&label| (document, of_names[label as usize])));
            }
        }
        let mut starts = vec![0; ids.len() + 1];
        for &(document, _) in &judged {
            starts[document as usize + 1] += 1;
        }
        for document in 1..starts.len() {
            starts[document] += starts[document - 1];
        }
        let mut next = starts.clone();
        let mut labels = vec![0; judged.len()];
        for (document, label) in judged {
            let place = &mut next[document as usize];
            labels[*place] = label;
            *place += 1;
        }
        Self { ids, starts, labels }
    }

    /// The labels of a document; none if there is no such document.
    fn labels(&self, id: &str) -> &[u32] {
        let Some(document) = self.ids.find(id) else { return &[] };
        let document = document as usize;
        &self.labels[self.starts[document]..self.starts[document + 1]]
    }
}

/// The judgments of some lines.
#[derive(Default)]
struct Judgments {
    names: Interner,
    /// The identifiers of documents, end to end. Judgments of one document are usually consecutive;
    /// otherwise its identifier is repeated.
    ids: String,
    /// Where the identifier of each document ends, and where its labels do.
    documents: Vec<(usize, usize)>,
    /// The shard of each document.
    shards: Vec<u8>,
    /// Numbers of names.
    labels: Vec<u32>,
}

impl Judgments {
    fn read(mut lines: Lines) -> Result<Self, CorpusError> {
        let mut own = Self::default();
        // Where the identifier of the last document begins.
        let mut last = 0;
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
            if own.documents.is_empty() || own.ids[last..] != *id {
                last = own.ids.len();
                own.ids.push_str(id);
                own.documents.push((own.ids.len(), own.labels.len()));
                own.shards.push(shard_of(id));
            }
            let label = own.names.id(name.into());
            own.labels.push(label.expect("the size of a file of qrels is limited"));
            if let Some((_, end)) = own.documents.last_mut() {
                *end = own.labels.len();
            }
        }
        Ok(own)
    }

    /// Where the identifier of a document begins, and where its labels do.
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
