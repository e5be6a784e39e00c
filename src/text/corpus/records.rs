//! Documents as a reader makes them, completed and checked: on the calling thread, or in blocks on
//! several threads.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::blocks::{BlockReader, Parsed};
use super::cutter::{Cutter, Ends};
use super::document::{Document, check_vector};
use super::error::{CorpusError, Problem};
use super::label_cell::normalized_label;
use super::lines::Lines;
use super::options::ReadOptions;
use super::source::Source;
use crate::threads::Threads;

/// The records of a file or of a label tree.
pub(super) type Records = Box<dyn Iterator<Item = Result<Record, CorpusError>> + Send>;

/// A document that was read.
pub(super) struct Record {
    pub(super) document: Document,
    /// Whether it is complete; otherwise it depends on the number of documents before it.
    pub(super) is_finished: bool,
}

impl Record {
    /// Completes a document, if that is possible.
    pub(super) fn new(mut document: Document, options: &ReadOptions) -> Result<Self, CorpusError> {
        if document.id.is_empty() || options.vectors_beside.is_some() {
            return Ok(Self { document, is_finished: false });
        }
        if let Some(qrels) = &options.qrels {
            document.labels = qrels.labels(&document.id);
        }
        Ok(Self { document: finish(document)?, is_finished: true })
    }
}

/// Up to this many labels are compared with each other faster than they are hashed.
const FEW_LABELS: usize = 16;

/// Checks what must hold for the documents of every reader, and drops repeated labels.
pub(super) fn finish(mut document: Document) -> Result<Document, CorpusError> {
    for label in &mut document.labels {
        if let Cow::Owned(normalized) = normalized_label(label) {
            *label = normalized;
        } else if label.trim().len() < label.len() {
            *label = label.trim().to_owned();
        }
    }
    if document.labels.iter().any(String::is_empty) {
        return Err(Problem::EmptyLabel.at(&document.place));
    }
    if !(document.weight.is_finite() && document.weight > 0.0) {
        return Err(Problem::BadWeight { found: document.weight.to_string() }.at(&document.place));
    }
    if let Some(Err(problem)) = document.vector.as_deref().map(check_vector) {
        return Err(problem.at(&document.place));
    }
    if let labels @ [_, _, ..] = &*document.labels
        && labels.len() <= FEW_LABELS
        && labels.iter().enumerate().all(|(at, label)| !labels[..at].contains(label))
    {
        return Ok(document);
    }
    if document.labels.len() > 1 {
        let mut seen = HashSet::with_capacity(document.labels.len());
        let first: Vec<bool> = document.labels.iter().map(|label| seen.insert(&**label)).collect();
        let mut first = first.into_iter();
        document.labels.retain(|_| first.next().unwrap_or(true));
    }
    Ok(document)
}

/// The records of one block: those before an error, and the error.
pub(super) fn parse<R: Iterator<Item = Result<Document, CorpusError>>>(
    reader: Result<R, CorpusError>,
    options: &ReadOptions,
) -> Parsed<Record> {
    let reader = match reader {
        Ok(reader) => reader,
        Err(error) => return vec![Err(error)],
    };
    let mut records = Vec::new();
    for document in reader {
        let is_last = document.is_err();
        records.push(document.and_then(|document| Record::new(document, options)));
        if is_last {
            break;
        }
    }
    records
}

/// The records of a format that can be cut into blocks.
pub(super) fn in_blocks<R>(
    source: Source,
    options: &Arc<ReadOptions>,
    ends: Ends,
    open: impl Fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError> + Send + Sync + 'static,
) -> Result<Records, CorpusError>
where
    R: Iterator<Item = Result<Document, CorpusError>> + Send + 'static,
{
    match threads_for(&source, options) {
        Some(threads) => {
            Ok(Box::new(parsed_in_blocks(source.blocks(ends), open, options, threads)?))
        }
        None => Ok(one_by_one(open(source.lines(), options)?, options)),
    }
}

/// The records of blocks; `open` makes a reader of each.
pub(super) fn parsed_in_blocks<R: Iterator<Item = Result<Document, CorpusError>>>(
    cutter: Cutter,
    open: impl Fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError> + Send + Sync + 'static,
    options: &Arc<ReadOptions>,
    threads: &Threads,
) -> Result<BlockReader<Record>, CorpusError> {
    // What is wrong with the options shows without a line.
    let _ = open(cutter.no_lines(), options)?;
    let options = Arc::clone(options);
    BlockReader::of_lines(cutter, move |lines| parse(open(lines, &options), &options), threads)
}

/// The threads that read a source in blocks, if there are several and the source is all there.
pub(super) fn threads_for<'a>(source: &Source, options: &'a ReadOptions) -> Option<&'a Threads> {
    options.threads.as_ref().filter(|threads| threads.count() > 1 && source.is_file())
}

/// The records of a reader, on the calling thread.
pub(super) fn one_by_one(
    documents: impl Iterator<Item = Result<Document, CorpusError>> + Send + 'static,
    options: &Arc<ReadOptions>,
) -> Records {
    let options = Arc::clone(options);
    Box::new(documents.map(move |document| Record::new(document?, &options)))
}
