//! Relevance judgments: lines `label id 1` that assign labels to document identifiers.

use std::path::Path;

use super::blocks::InBlocks;
use super::source::{Ends, Lines, Source};
use super::{CorpusError, Problem, ReadOptions};
use crate::analyze::Dictionary;
use crate::threads::Threads;
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
        Self::from_source(Source::open(path, &ReadOptions::default())?, None)
    }

    /// As [`read`](Self::read), on several threads. None of these may call it: it would wait for itself.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with(path: &Path, threads: &Threads) -> Result<Self, CorpusError> {
        Self::from_source(Source::open(path, &ReadOptions::default())?, Some(threads))
    }

    /// Reads qrels from bytes; messages call them `name`.
    ///
    /// # Errors
    /// If a line is not `label id judgment`.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, CorpusError> {
        let bytes = Box::new(std::io::Cursor::new(bytes));
        Self::from_source(Source::from_reader(name, bytes, &ReadOptions::default())?, None)
    }

    fn from_source(source: Source, threads: Option<&Threads>) -> Result<Self, CorpusError> {
        let source = source.limited();
        let read = match threads.filter(|threads| threads.count() > 1 && source.is_file()) {
            None => Judgments::read(source.lines()).and_then(|all| Self::of([Ok(all)])),
            Some(threads) => {
                let parse = |lines| vec![Judgments::read(lines)];
                InBlocks::of_lines(source.blocks(Ends::Lines), parse, threads).and_then(Self::of)
            }
        };
        read.map_err(|error| match error.problem {
            // `--encoding` is for the corpus only.
            Problem::BadUtf8 { byte } => Problem::OnlyUtf8 { byte }.at(&error.place),
            problem => CorpusError { problem, ..error },
        })
    }

    /// The judgments of blocks, in their order.
    fn of(
        blocks: impl IntoIterator<Item = Result<Judgments, CorpusError>>,
    ) -> Result<Self, CorpusError> {
        let number = |strings: &mut Interner, string: &str| {
            strings.id(string.into()).expect("the size of a file of qrels is limited")
        };
        let (mut names, mut ids) = (Interner::default(), Interner::default());
        // Numbers of documents and of their labels.
        let mut judged: Vec<(u32, u32)> = Vec::new();
        let mut numbers: Vec<u32> = Vec::new();
        for block in blocks {
            let block = block?;
            let of_names: Vec<u32> = (0..)
                .take(block.names.len())
                .map(|name| number(&mut names, block.names.term(name)))
                .collect();
            let mut text = 0;
            let of_block = block.documents.iter().map(|&(end, _)| {
                let start = std::mem::replace(&mut text, end);
                &block.ids[start..end]
            });
            numbers.clear();
            ids.ids_of(of_block, &mut numbers);
            let mut first = 0;
            for (&document, &(_, end)) in numbers.iter().zip(&block.documents) {
                let labels = &block.labels[first..end];
                judged.extend(labels.iter().map(|&label| (document, of_names[label as usize])));
                first = end;
            }
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

/// The judgments of some lines.
#[derive(Default)]
struct Judgments {
    names: Interner,
    /// The identifiers of documents, one after another. A document's judgments are usually neighbors; if not, it is there again.
    ids: String,
    /// Where the identifier of each document ends, and where its labels do.
    documents: Vec<(usize, usize)>,
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
            let (Some(id), Some(judgment), None) = (items.next(), items.next(), items.next())
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
            }
            let label = own.names.id(name.into());
            own.labels.push(label.expect("the size of a file of qrels is limited"));
            if let Some((_, end)) = own.documents.last_mut() {
                *end = own.labels.len();
            }
        }
        Ok(own)
    }
}
