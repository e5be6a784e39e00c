//! Files and folders parsed by several threads: blocks of whole records, or of files, delivered in order.
//!
//! A thread of its own reads the next blocks while the others parse these, and those parsed before
//! are consumed.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rayon::prelude::*;

use super::source::{BLOCK, Cutter, Lines};
use super::{CorpusError, Document, ReadOptions, Record};
use crate::threads::Threads;

/// Blocks that each thread gets at a time.
const BLOCKS_OF_THREAD: usize = 2;
/// The most files of a block.
const FILES_OF_BLOCK: usize = 16;
/// Rounds of blocks that may wait: of the file that is consumed, or of one of those after it.
const ROUNDS_WAITING: usize = 1;

type Parsed = Vec<Result<Record, CorpusError>>;

/// The records of a file. They must not be asked for by one of the threads that parse them, which
/// would wait for itself.
pub(super) struct InBlocks {
    /// Rounds of parsed blocks.
    rounds: Receiver<Vec<Parsed>>,
    round: std::vec::IntoIter<Parsed>,
    block: std::vec::IntoIter<Result<Record, CorpusError>>,
    /// The thread that reads; `None` at the end.
    reading: Option<JoinHandle<()>>,
}

impl InBlocks {
    /// The records of blocks; `open` makes a reader of each.
    pub(super) fn new<R: Iterator<Item = Result<Document, CorpusError>>>(
        mut cutter: Cutter,
        open: impl Fn(Lines, &Arc<ReadOptions>) -> Result<R, CorpusError> + Send + Sync + 'static,
        options: &Arc<ReadOptions>,
        threads: &Threads,
    ) -> Result<Self, CorpusError> {
        // What is wrong with the options shows without a line.
        let _ = open(cutter.no_lines(), options)?;
        let options = Arc::clone(options);
        let nothing = cutter.no_lines();
        let count = threads.count();
        let next = move || next_blocks(&mut cutter, count);
        let parse = move |lines: Lines| parse(open(lines, &options), &options);
        Self::start(next, parse, threads).map_err(|error| nothing.error(error))
    }

    /// The records of files, which `read` reads.
    pub(super) fn of_files(
        files: Vec<PathBuf>,
        read: impl Fn(&Path) -> Result<Document, CorpusError> + Send + Sync + 'static,
        options: &Arc<ReadOptions>,
        threads: &Threads,
    ) -> std::io::Result<Self> {
        let options = Arc::clone(options);
        let count = BLOCKS_OF_THREAD * threads.count();
        let mut files = files.into_iter().peekable();
        let next = move || {
            let mut blocks = Vec::new();
            let mut bytes = 0;
            while blocks.len() < count && bytes < count * BLOCK && files.peek().is_some() {
                let (block, size) = next_files(&mut files);
                blocks.push(block);
                bytes = bytes.saturating_add(size);
            }
            (blocks, files.peek().is_none().then_some(Ok(())))
        };
        let parse =
            move |files: Vec<PathBuf>| parse(Ok(files.iter().map(|path| read(path))), &options);
        Self::start(next, parse, threads)
    }

    /// Starts the thread that reads.
    fn start<B: Send + 'static>(
        next: impl FnMut() -> Blocks<B> + Send + 'static,
        parse: impl Fn(B) -> Parsed + Send + Sync + 'static,
        threads: &Threads,
    ) -> std::io::Result<Self> {
        let threads = threads.clone();
        // Few rounds wait beside the one that is consumed and the one that is parsed.
        let (sender, rounds) = sync_channel(ROUNDS_WAITING);
        let reading = thread::Builder::new()
            .name("parse".to_owned())
            .spawn(move || parse_all(next, parse, &threads, &sender))?;
        let (round, block) = (Vec::new().into_iter(), Vec::new().into_iter());
        Ok(Self { rounds, round, block, reading: Some(reading) })
    }
}

/// Some blocks, and why there are no more, if there are none: the end, or an error.
type Blocks<B> = (Vec<B>, Option<Result<(), CorpusError>>);

fn next_blocks(cutter: &mut Cutter, threads: usize) -> Blocks<Lines> {
    let mut blocks = Vec::new();
    // Blocks of long lines are larger, so there are fewer of them.
    let most = (BLOCKS_OF_THREAD * threads * BLOCK) as u64;
    let start = cutter.offset();
    while cutter.offset() - start < most {
        match cutter.next_block() {
            Ok(Some(block)) => blocks.push(block),
            Ok(None) => return (blocks, Some(Ok(()))),
            Err(error) => return (blocks, Some(Err(error))),
        }
    }
    (blocks, None)
}

/// A block of files, and how long they are: a file at least, and no more than are needed for [`BLOCK`] bytes.
fn next_files(files: &mut impl Iterator<Item = PathBuf>) -> (Vec<PathBuf>, usize) {
    let (mut block, mut bytes) = (Vec::new(), 0);
    while block.len() < FILES_OF_BLOCK
        && bytes < BLOCK
        && let Some(path) = files.next()
    {
        // What cannot be read says so when it is opened.
        let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        bytes = bytes.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        block.push(path);
    }
    (block, bytes)
}

fn parse<R: Iterator<Item = Result<Document, CorpusError>>>(
    reader: Result<R, CorpusError>,
    options: &ReadOptions,
) -> Parsed {
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

/// Reads and parses blocks, until their end or until nobody receives any more.
fn parse_all<B: Send>(
    mut next_blocks: impl FnMut() -> Blocks<B> + Send,
    parse: impl Fn(B) -> Parsed + Sync,
    threads: &Threads,
    sender: &SyncSender<Vec<Parsed>>,
) {
    let (mut blocks, mut end) = next_blocks();
    loop {
        let now = std::mem::take(&mut blocks);
        let parse_now = || now.into_par_iter().map(&parse).collect();
        let is_last = end.is_some();
        let next = || if is_last { (Vec::new(), None) } else { next_blocks() };
        let (mut parsed, next): (Vec<Parsed>, Blocks<B>) =
            threads.run(|| rayon::join(parse_now, next));
        // A failure comes after the records before.
        parsed.extend(end.and_then(Result::err).map(|error| vec![Err(error)]));
        if sender.send(parsed).is_err() || is_last {
            return;
        }
        (blocks, end) = next;
    }
}

impl Iterator for InBlocks {
    type Item = Result<Record, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.block.next() {
                return Some(record);
            }
            if let Some(block) = self.round.next() {
                self.block = block.into_iter();
                continue;
            }
            if let Ok(round) = self.rounds.recv() {
                self.round = round.into_iter();
                continue;
            }
            // The thread has ended: with the file, unless it panicked.
            if let Some(Err(panic)) = self.reading.take().map(JoinHandle::join) {
                resume_unwind(panic);
            }
            return None;
        }
    }
}
