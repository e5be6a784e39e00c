//! Reads documents in pieces, which idle threads count in shards.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::headers::Headers;
use super::options::{CountOptions, Input};
use super::shard::Shard;
use crate::stages::Stage;
use crate::text::corpus::{Content, CorpusError, Document};
use crate::threads::{self, Threads};

/// The target size of a piece in bytes of text, and its maximum number of documents.
const PIECE_BYTES: usize = 1 << 18;
const PIECE_DOCUMENTS: usize = 1_024;
/// The maximum number of pieces per thread that are waiting or being counted.
const PIECES_PER_THREAD: usize = 3;

/// The result of counting a corpus.
pub(super) struct Pieces<'a> {
    pub(super) shards: Vec<Shard<'a>>,
    pub(super) headers: Headers,
    /// The time that reading and counting took.
    pub(super) stages: Vec<Stage>,
}

/// Reads and counts a corpus. `progress` is called with the number of documents read so far.
pub(super) fn count_pieces<'a>(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    options: &CountOptions<'a>,
    threads: &Threads,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Pieces<'a>, CorpusError> {
    let queue = PieceQueue::new(options.input);
    let mut headers = Headers::new(options.keep_text);
    let mut reading = Stage::empty("train: read");
    let begin = Instant::now();
    let max_pieces = PIECES_PER_THREAD * threads.count();
    let read = threads.scope(|scope| {
        for number in 0.. {
            queue.wait_for_fewer_than(max_pieces);
            if queue.state().failed.is_some() {
                break;
            }
            let start = Instant::now();
            let (piece, ended) = read_piece(documents);
            reading.add(piece.len() as u64, start);
            for document in &piece {
                headers.push(document);
            }
            progress(headers.len() as u64);
            queue.state().waiting.push_back(Piece { number, documents: piece });
            scope.spawn(|_| {
                let _ = queue.count_next();
            });
            if let Some(ended) = ended {
                return ended;
            }
        }
        Ok(())
    });
    let QueueState { shards, busy, failed, .. } =
        queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    // An error in a piece precedes a read error, because the piece was read earlier.
    match failed {
        Some((_, error)) => return Err(error),
        None => read?,
    }
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = shards.iter().map(|shard| shard.bytes).sum();
    let analyzing = Stage {
        seconds: busy.as_secs_f64(),
        documents: reading.documents,
        bytes: Some(bytes).filter(|&bytes| bytes > 0),
        ..Stage::empty("train: count")
    };
    let stages = vec![reading.with_total_time(seconds), analyzing.with_total_time(seconds)];
    Ok(Pieces { shards, headers, stages })
}

/// Consecutive documents that one thread counts.
struct Piece {
    /// The index of the piece in the corpus.
    number: usize,
    documents: Vec<Document>,
}

/// The queue of pieces to be counted, and the shards that hold the counts.
struct PieceQueue<'a> {
    input: &'a Input,
    state: Mutex<QueueState<'a>>,
    /// Notified when a thread has finished a piece.
    done: Condvar,
}

struct QueueState<'a> {
    waiting: VecDeque<Piece>,
    /// The shards that are currently unused.
    shards: Vec<Shard<'a>>,
    /// The number of pieces that are being counted.
    in_use: usize,
    /// The time when `in_use` last became positive.
    since: Instant,
    /// The total time that `in_use` was positive, up to the last time that it became 0.
    busy: Duration,
    /// The index and the error of the first piece that failed.
    failed: Option<(usize, CorpusError)>,
}

impl<'a> PieceQueue<'a> {
    fn new(input: &'a Input) -> Self {
        let state = QueueState {
            waiting: VecDeque::new(),
            shards: Vec::new(),
            in_use: 0,
            since: Instant::now(),
            busy: Duration::ZERO,
            failed: None,
        };
        Self { input, state: Mutex::new(state), done: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `max_pieces` pieces are waiting or being counted. A caller that is a
    /// worker of a thread pool counts pieces while it waits, because all other workers might be
    /// waiting too.
    fn wait_for_fewer_than(&self, max_pieces: usize) {
        let is_full = |state: &mut QueueState<'a>| state.waiting.len() + state.in_use >= max_pieces;
        let counts_itself = || {
            let full = is_full(&mut self.state());
            full && self.count_next()
        };
        if threads::is_worker() {
            while counts_itself() {}
        }
        drop(self.done.wait_while(self.state(), is_full));
    }

    /// Counts the next waiting piece. Returns false if there is none.
    fn count_next(&self) -> bool {
        let mut state = self.state();
        let Some(Piece { number, documents }) = state.waiting.pop_front() else { return false };
        let shard = state.shards.pop();
        if state.in_use == 0 {
            state.since = Instant::now();
        }
        state.in_use += 1;
        drop(state);
        // The guard is dropped even after a panic.
        let _done = InUse(self);
        let mut shard = shard.unwrap_or_else(|| Shard::new(self.input));
        let counted = shard.count(number, &documents);
        let mut state = self.state();
        state.shards.push(shard);
        if let Err(error) = counted
            && state.failed.as_ref().is_none_or(|&(first, _)| number < first)
        {
            state.failed = Some((number, error));
        }
        true
    }
}

/// A guard that marks a piece as finished when it is dropped.
struct InUse<'a, 'b>(&'a PieceQueue<'b>);

impl Drop for InUse<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_use -= 1;
        if state.in_use == 0 {
            let busy = state.since.elapsed();
            state.busy += busy;
        }
        self.0.done.notify_one();
    }
}

/// Reads the next documents. The second value is the error or `Ok` if the stream has ended.
fn read_piece(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
) -> (Vec<Document>, Option<Result<(), CorpusError>>) {
    let mut piece = Vec::new();
    let mut bytes = 0;
    while bytes < PIECE_BYTES && piece.len() < PIECE_DOCUMENTS {
        let document = match documents.next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => return (piece, Some(Err(error))),
            None => return (piece, Some(Ok(()))),
        };
        bytes += match &document.content {
            Content::Features(features) => features.len() * 8,
            text => text.text_bytes(),
        };
        piece.push(document);
    }
    (piece, None)
}
