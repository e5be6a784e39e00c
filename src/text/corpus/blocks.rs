//! Blocks of records parsed by several threads and delivered in order.
//!
//! A dedicated thread splits the source into blocks, and idle threads of the pool parse them.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::cutter::{BLOCK, Cutter};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::place::Place;
use crate::threads::{Task, Threads};

/// The maximum number of blocks per thread that are waiting, being parsed, or parsed but not yet
/// consumed.
const BLOCKS_PER_THREAD: usize = 3;
pub(super) type ParsedBlock<T> = Vec<Result<T, CorpusError>>;

/// The records of a file, in order. The consuming thread may also be a worker of the pool. It
/// parses the next block itself unless another thread has already started it.
pub(super) struct BlockReader<T> {
    blocks: Receiver<Block<T>>,
    block: std::vec::IntoIter<Result<T, CorpusError>>,
    budget: Arc<MemoryBudget>,
    /// The thread that cuts blocks; `None` after the last block.
    cutter_thread: Option<JoinHandle<()>>,
}

/// A block that is queued, being parsed or parsed.
struct Block<T> {
    bytes: usize,
    parsed: Task<ParsedBlock<T>>,
}

/// An unparsed block and its size in bytes, or `None` after the last block.
pub(super) type NextBlock<B> = Result<Option<(B, usize)>, CorpusError>;

impl<T: Send + 'static> BlockReader<T> {
    /// Returns the records that `parse` reads from the lines of each block.
    pub(super) fn from_lines(
        mut cutter: Cutter,
        parse: impl Fn(Lines) -> ParsedBlock<T> + Send + Sync + 'static,
        threads: &Threads,
    ) -> Result<Self, CorpusError> {
        let place = Place { line: None, ..cutter.empty_block().place() };
        let next = move || {
            let start = cutter.offset();
            let Some(block) = cutter.next_block()? else { return Ok(None) };
            let bytes = usize::try_from(cutter.offset() - start).unwrap_or(usize::MAX);
            Ok(Some((block, bytes)))
        };
        Self::start(next, parse, threads).map_err(|error| Problem::Thread(error).at(&place))
    }

    /// Starts the thread that cuts blocks with `next`. Returns the records that `parse` reads from
    /// them.
    pub(super) fn start<B: Send + 'static>(
        next: impl FnMut() -> NextBlock<B> + Send + 'static,
        parse: impl Fn(B) -> ParsedBlock<T> + Send + Sync + 'static,
        threads: &Threads,
    ) -> std::io::Result<Self> {
        let threads = threads.clone();
        let budget = Arc::new(MemoryBudget::new(BLOCKS_PER_THREAD * threads.count() * BLOCK));
        let (sender, blocks) = channel();
        let cutter_budget = Arc::clone(&budget);
        let cutter_thread = thread::Builder::new()
            .name("cut".to_owned())
            .spawn(move || cut_all(next, &Arc::new(parse), &threads, &cutter_budget, &sender))?;
        Ok(Self {
            blocks,
            block: Vec::new().into_iter(),
            budget,
            cutter_thread: Some(cutter_thread),
        })
    }
}

impl<T> Drop for BlockReader<T> {
    fn drop(&mut self) {
        self.budget.close();
    }
}

/// The memory budget for the text of all unconsumed blocks.
struct MemoryBudget {
    max_bytes: usize,
    /// The number of bytes in use, and whether the consumer is gone.
    used: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl MemoryBudget {
    fn new(max_bytes: usize) -> Self {
        Self { max_bytes, used: Mutex::new((0, false)), changed: Condvar::new() }
    }

    fn used(&self) -> MutexGuard<'_, (usize, bool)> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a block fits in the budget, no other block is in use, or the consumer is gone.
    /// Returns false if the consumer is gone.
    fn take(&self, bytes: usize) -> bool {
        let is_full = |&mut (used, closed): &mut (usize, bool)| {
            !closed && used > 0 && used.saturating_add(bytes) > self.max_bytes
        };
        let used = self.changed.wait_while(self.used(), is_full);
        let mut used = used.unwrap_or_else(PoisonError::into_inner);
        used.0 = used.0.saturating_add(bytes);
        !used.1
    }

    fn give_back(&self, bytes: usize) {
        let mut used = self.used();
        used.0 = used.0.saturating_sub(bytes);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.used().1 = true;
        self.changed.notify_one();
    }
}

/// Cuts blocks and starts parsing them, until the end of the source or until the consumer is gone.
fn cut_all<B: Send + 'static, T: Send + 'static>(
    mut next: impl FnMut() -> NextBlock<B>,
    parse: &Arc<impl Fn(B) -> ParsedBlock<T> + Send + Sync + 'static>,
    threads: &Threads,
    budget: &MemoryBudget,
    blocks: &Sender<Block<T>>,
) {
    loop {
        let (block, bytes) = match next() {
            Ok(Some(cut)) => cut,
            Ok(None) => return,
            Err(error) => {
                // The error is delivered after the records that precede it.
                let parsed = threads.start(|| vec![Err(error)]);
                let _ = blocks.send(Block { bytes: 0, parsed });
                return;
            }
        };
        if !budget.take(bytes) {
            return;
        }
        let parse = Arc::clone(parse);
        let parsed = threads.start(move || parse(block));
        if blocks.send(Block { bytes, parsed }).is_err() {
            return;
        }
    }
}

impl<T> Iterator for BlockReader<T> {
    type Item = Result<T, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.block.next() {
                return Some(record);
            }
            if let Ok(Block { bytes, parsed }) = self.blocks.recv() {
                self.block = parsed.wait().into_iter();
                self.budget.give_back(bytes);
                continue;
            }
            // The cutter thread has reached the end of the file or has panicked.
            if let Some(Err(panic)) = self.cutter_thread.take().map(JoinHandle::join) {
                resume_unwind(panic);
            }
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_block_waits_for_the_budget() {
        let budget = Arc::new(MemoryBudget::new(10));
        let take = |bytes| {
            let budget = Arc::clone(&budget);
            let (sender, taken) = channel();
            thread::spawn(move || sender.send(budget.take(bytes)));
            taken
        };
        let soon = Duration::from_millis(50);
        let late = Duration::from_mins(1);
        assert!(budget.take(25), "a single block may exceed the budget");
        let waiting = take(5);
        assert!(waiting.recv_timeout(soon).is_err(), "the budget is exhausted");
        budget.give_back(25);
        assert_eq!(waiting.recv_timeout(late), Ok(true));
        assert_eq!(take(5).recv_timeout(late), Ok(true), "both fit");
        let waiting = take(1);
        assert!(waiting.recv_timeout(soon).is_err(), "the budget is full");
        budget.close();
        assert_eq!(waiting.recv_timeout(late), Ok(false), "the consumer is gone");
    }
}
