//! Documents → shards: read in pieces, and counted by whichever thread is free.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::headers::Headers;
use super::options::{CountOptions, Input};
use super::shard::Shard;
use crate::stages::Stage;
use crate::text::corpus::{Content, CorpusError, Document};
use crate::threads::{self, Threads};

/// Bytes of text (and number of documents) in a piece.
const PIECE_BYTES: usize = 1 << 18;
const PIECE_DOCUMENTS: usize = 1_024;
/// Pieces for each thread that are counted or wait for it.
const PIECES_OF_THREAD: usize = 3;

/// The pieces of a corpus, counted in shards.
pub(super) struct Pieces<'a> {
    pub(super) shards: Vec<Shard<'a>>,
    pub(super) headers: Headers,
    /// How long reading and counting took.
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
    let most = PIECES_OF_THREAD * threads.count();
    let read = threads.scope(|scope| {
        for number in 0.. {
            queue.wait_for_fewer_than(most);
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
    // What failed in a piece comes before what failed in reading.
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
    /// Its position among all pieces.
    number: usize,
    documents: Vec<Document>,
}

/// Pieces that wait to be counted, and what was counted of the others.
struct PieceQueue<'a> {
    input: &'a Input,
    state: Mutex<QueueState<'a>>,
    /// Notified whenever a thread is done with a piece.
    done: Condvar,
}

struct QueueState<'a> {
    waiting: VecDeque<Piece>,
    /// The shards that no thread uses at the moment.
    shards: Vec<Shard<'a>>,
    /// The number of pieces that are being counted.
    in_use: usize,
    /// Since when `in_use` is above 0.
    since: Instant,
    /// How long it was above 0 before.
    busy: Duration,
    /// The first piece with an error.
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

    /// Waits until fewer than `most` pieces wait or are being counted. A caller that is a worker of
    /// a thread pool counts pieces meanwhile: every worker might be waiting in the same way.
    fn wait_for_fewer_than(&self, most: usize) {
        let is_full = |state: &mut QueueState<'a>| state.waiting.len() + state.in_use >= most;
        let counts_itself = || {
            let full = is_full(&mut self.state());
            full && self.count_next()
        };
        if threads::is_worker() {
            while counts_itself() {}
        }
        drop(self.done.wait_while(self.state(), is_full));
    }

    /// Counts the next piece that waits; `false`: there is none.
    fn count_next(&self) -> bool {
        let mut state = self.state();
        let Some(Piece { number, documents }) = state.waiting.pop_front() else { return false };
        let shard = state.shards.pop();
        if state.in_use == 0 {
            state.since = Instant::now();
        }
        state.in_use += 1;
        drop(state);
        // Also after a panic.
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

/// Says that a piece was counted when it is dropped.
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

/// The next documents, and why there are no more, if there are none: the end, or an error.
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
