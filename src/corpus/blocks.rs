//! Files with a record a line, parsed by several threads: blocks of whole lines, delivered in order.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;

use super::source::{BLOCK, Cutter, Lines};
use super::{CorpusError, Document, ReadOptions, Record};
use crate::threads::Threads;

/// Blocks that each thread gets at a time.
const BLOCKS_OF_THREAD: usize = 2;

/// Makes a reader of lines.
pub(super) type Open<R> = fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError>;

/// The records of a file.
pub(super) struct InBlocks<R> {
    cutter: Cutter,
    open: Open<R>,
    options: Arc<ReadOptions>,
    threads: Threads,
    parsed: VecDeque<Result<Record, CorpusError>>,
    /// Why the file cannot be read further; delivered after the records before.
    failed: Option<CorpusError>,
    ended: bool,
}

impl<R: Iterator<Item = Result<Document, CorpusError>>> InBlocks<R> {
    pub(super) fn new(
        cutter: Cutter,
        open: Open<R>,
        options: &Arc<ReadOptions>,
        threads: &Threads,
    ) -> Result<Self, CorpusError> {
        // What is wrong with the options shows without a line.
        let _ = open(cutter.no_lines(), options)?;
        let (options, threads) = (Arc::clone(options), threads.clone());
        let parsed = VecDeque::new();
        Ok(Self { cutter, open, options, threads, parsed, failed: None, ended: false })
    }

    /// Reads some blocks and parses them at the same time.
    fn parse_more(&mut self) {
        let mut blocks = Vec::new();
        // Blocks of long lines are larger, so there are fewer of them.
        let most = (BLOCKS_OF_THREAD * self.threads.count() * BLOCK) as u64;
        let start = self.cutter.offset();
        while self.cutter.offset() - start < most {
            match self.cutter.next_block() {
                Ok(Some(block)) => blocks.push(block),
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(error) => {
                    (self.failed, self.ended) = (Some(error), true);
                    break;
                }
            }
        }
        let (open, options) = (self.open, &self.options);
        let parse = |lines: Lines| -> Vec<Result<Record, CorpusError>> {
            let mut records = Vec::new();
            let reader = match open(lines, options) {
                Ok(reader) => reader,
                Err(error) => return vec![Err(error)],
            };
            for document in reader {
                let is_last = document.is_err();
                records.push(document.and_then(|document| Record::new(document, options)));
                if is_last {
                    break;
                }
            }
            records
        };
        let parsed: Vec<_> = self.threads.run(|| blocks.into_par_iter().map(parse).collect());
        self.parsed.extend(parsed.into_iter().flatten());
        self.parsed.extend(self.failed.take().map(Err));
    }
}

impl<R: Iterator<Item = Result<Document, CorpusError>>> Iterator for InBlocks<R> {
    type Item = Result<Record, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.parsed.is_empty() && !self.ended {
            self.parse_more();
        }
        self.parsed.pop_front()
    }
}
