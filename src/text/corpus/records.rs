//! Completes and checks the documents of a reader, on the calling thread or in blocks on several
//! threads.

use std::sync::Arc;

use super::blocks::{BlockReader, ParsedBlock};
use super::cutter::{Cutter, RecordEnds};
use super::document::{Document, finish};
use super::error::CorpusError;
use super::lines::Lines;
use super::options::ReadOptions;
use super::source::Source;
use crate::threads::Threads;

/// The records of a file or of label folders.
pub(super) type Records = Box<dyn Iterator<Item = Result<Record, CorpusError>> + Send>;

/// A document returned by a reader.
pub(super) struct Record {
    pub(super) document: Document,
    /// Whether the document is complete. Otherwise, its identifier or vector depends on the number
    /// of preceding documents.
    pub(super) is_finished: bool,
}

impl Record {
    /// Completes a document unless it depends on the number of preceding documents.
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

/// Returns the records of one block. An error is the last item.
pub(super) fn parse<R: Iterator<Item = Result<Document, CorpusError>>>(
    reader: Result<R, CorpusError>,
    options: &ReadOptions,
) -> ParsedBlock<Record> {
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

/// Returns the records of a source, which are parsed in blocks if several threads are available.
pub(super) fn read_in_blocks<R>(
    source: Source,
    options: &Arc<ReadOptions>,
    ends: RecordEnds,
    open: impl Fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError> + Send + Sync + 'static,
) -> Result<Records, CorpusError>
where
    R: Iterator<Item = Result<Document, CorpusError>> + Send + 'static,
{
    match threads_for(&source, options) {
        Some(threads) => Ok(Box::new(parse_blocks(source.blocks(ends), open, options, threads)?)),
        None => Ok(read_one_by_one(open(source.lines(), options)?, options)),
    }
}

/// Returns the records of blocks. `open` creates a reader for each block.
pub(super) fn parse_blocks<R: Iterator<Item = Result<Document, CorpusError>>>(
    cutter: Cutter,
    open: impl Fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError> + Send + Sync + 'static,
    options: &Arc<ReadOptions>,
    threads: &Threads,
) -> Result<BlockReader<Record>, CorpusError> {
    // Opening an empty block reports problems with the options.
    let _ = open(cutter.empty_block(), options)?;
    let options = Arc::clone(options);
    BlockReader::from_lines(cutter, move |lines| parse(open(lines, &options), &options), threads)
}

/// Returns the threads that parse blocks of a source, or `None` if there is only one thread or the
/// source is not a file.
pub(super) fn threads_for<'a>(source: &Source, options: &'a ReadOptions) -> Option<&'a Threads> {
    options.threads.as_ref().filter(|threads| threads.count() > 1 && source.is_file())
}

/// Returns the records of a reader, which are parsed on the calling thread.
pub(super) fn read_one_by_one(
    documents: impl Iterator<Item = Result<Document, CorpusError>> + Send + 'static,
    options: &Arc<ReadOptions>,
) -> Records {
    let options = Arc::clone(options);
    Box::new(documents.map(move |document| Record::new(document?, &options)))
}
