//! Blocks of records parsed by several threads and delivered in order.
//!
//! A thread of its own cuts blocks; whichever thread of the pool is free parses the next one.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::cutter::{BLOCK, Cutter};
use super::error::{CorpusError, Problem};
use super::lines::Lines;
use super::place::Place;
use crate::threads::{Task, Threads};

/// Blocks for each thread that are parsed or wait: to be parsed, or to be consumed.
const BLOCKS_OF_THREAD: usize = 3;
pub(super) type Parsed<T> = Vec<Result<T, CorpusError>>;

/// The records of a file, in order. The thread that asks for them may be one of those that parse
/// them: it parses a block that it needs itself, unless another thread has begun it.
pub(super) struct BlockReader<T> {
    blocks: Receiver<Block<T>>,
    block: std::vec::IntoIter<Result<T, CorpusError>>,
    room: Arc<MemoryBudget>,
    /// The thread that cuts; `None` at the end.
    cutting: Option<JoinHandle<()>>,
}

/// A block that is parsed now, or soon.
struct Block<T> {
    bytes: usize,
    parsed: Task<Parsed<T>>,
}

/// A block to be parsed, and its size; none at the end.
pub(super) type Cut<B> = Result<Option<(B, usize)>, CorpusError>;

impl<T: Send + 'static> BlockReader<T> {
    /// What `parse` makes of the lines of each block.
    pub(super) fn of_lines(
        mut cutter: Cutter,
        parse: impl Fn(Lines) -> Parsed<T> + Send + Sync + 'static,
        threads: &Threads,
    ) -> Result<Self, CorpusError> {
        let place = Place { line: None, ..cutter.no_lines().place() };
        let next = move || {
            let start = cutter.offset();
            let Some(block) = cutter.next_block()? else { return Ok(None) };
            let bytes = usize::try_from(cutter.offset() - start).unwrap_or(usize::MAX);
            Ok(Some((block, bytes)))
        };
        Self::start(next, parse, threads).map_err(|error| Problem::Thread(error).at(&place))
    }

    /// What `parse` makes of each block that `next` cuts. Starts the thread that cuts.
    pub(super) fn start<B: Send + 'static>(
        next: impl FnMut() -> Cut<B> + Send + 'static,
        parse: impl Fn(B) -> Parsed<T> + Send + Sync + 'static,
        threads: &Threads,
    ) -> std::io::Result<Self> {
        let threads = threads.clone();
        let room = Arc::new(MemoryBudget::new(BLOCKS_OF_THREAD * threads.count() * BLOCK));
        let (sender, blocks) = channel();
        let own = Arc::clone(&room);
        let cutting = thread::Builder::new()
            .name("cut".to_owned())
            .spawn(move || cut_all(next, &Arc::new(parse), &threads, &own, &sender))?;
        Ok(Self { blocks, block: Vec::new().into_iter(), room, cutting: Some(cutting) })
    }
}

impl<T> Drop for BlockReader<T> {
    fn drop(&mut self) {
        self.room.close();
    }
}

/// The memory budget for the text of blocks that are parsed or wait.
struct MemoryBudget {
    most: usize,
    /// Bytes in use, and whether no more will be asked for.
    used: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl MemoryBudget {
    fn new(most: usize) -> Self {
        Self { most, used: Mutex::new((0, false)), changed: Condvar::new() }
    }

    fn used(&self) -> MutexGuard<'_, (usize, bool)> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a block, or until there is no other one. Returns whether it is
    /// still wanted.
    fn take(&self, bytes: usize) -> bool {
        let is_full = |&mut (used, closed): &mut (usize, bool)| {
            !closed && used > 0 && used.saturating_add(bytes) > self.most
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

/// Cuts blocks and has them parsed, until their end or until nobody wants any more.
fn cut_all<B: Send + 'static, T: Send + 'static>(
    mut next: impl FnMut() -> Cut<B>,
    parse: &Arc<impl Fn(B) -> Parsed<T> + Send + Sync + 'static>,
    threads: &Threads,
    room: &MemoryBudget,
    blocks: &Sender<Block<T>>,
) {
    loop {
        let (block, bytes) = match next() {
            Ok(Some(cut)) => cut,
            Ok(None) => return,
            Err(error) => {
                // A failure comes after the records before.
                let parsed = threads.start(|| vec![Err(error)]);
                let _ = blocks.send(Block { bytes: 0, parsed });
                return;
            }
        };
        if !room.take(bytes) {
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
                self.room.give_back(bytes);
                continue;
            }
            // The thread has ended: with the file, unless it panicked.
            if let Some(Err(panic)) = self.cutting.take().map(JoinHandle::join) {
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
    fn a_block_waits_for_room() {
        let room = Arc::new(MemoryBudget::new(10));
        let take = |bytes| {
            let room = Arc::clone(&room);
            let (sender, taken) = channel();
            thread::spawn(move || sender.send(room.take(bytes)));
            taken
        };
        let soon = Duration::from_millis(50);
        let late = Duration::from_mins(1);
        assert!(room.take(25), "alone, a block may be larger than all room");
        let waiting = take(5);
        assert!(waiting.recv_timeout(soon).is_err(), "no room is left");
        room.give_back(25);
        assert_eq!(waiting.recv_timeout(late), Ok(true));
        assert_eq!(take(5).recv_timeout(late), Ok(true), "both fit");
        let waiting = take(1);
        assert!(waiting.recv_timeout(soon).is_err(), "the room is full");
        room.close();
        assert_eq!(waiting.recv_timeout(late), Ok(false), "nobody wants it any more");
    }
}
