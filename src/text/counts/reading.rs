//! Reads documents in chunks, which idle threads count in shards.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::headers::Headers;
use super::options::{CountOptions, Input};
use super::shard::Shard;
use crate::stages::Stage;
use crate::text::corpus::{Content, CorpusError, Document};
use crate::threads::{self, Threads};

/// The target size of a chunk, in bytes of text.
const CHUNK_BYTES: usize = 1 << 18;
/// The maximum number of documents per chunk.
const CHUNK_DOCUMENTS: usize = 1_024;
/// The maximum number of chunks per thread that are waiting or being counted.
const CHUNKS_PER_THREAD: usize = 3;

/// The result of counting a corpus.
pub(super) struct Chunks<'a> {
    pub(super) shards: Vec<Shard<'a>>,
    pub(super) headers: Headers,
    /// The time that reading and counting took.
    pub(super) stages: Vec<Stage>,
}

/// Reads and counts a corpus. `progress` is called with the number of documents read so far.
pub(super) fn count_chunks<'a>(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    options: &CountOptions<'a>,
    threads: &Threads,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Chunks<'a>, CorpusError> {
    let queue = ChunkQueue::new(options.input);
    let mut headers = Headers::new(options.keep_text);
    let mut reading = Stage::empty("train: read");
    let begin = Instant::now();
    let max_chunks = CHUNKS_PER_THREAD * threads.count();
    let read = threads.scope(|scope| {
        for number in 0.. {
            queue.wait_for_fewer_than(max_chunks);
            if queue.state().first_error.is_some() {
                break;
            }
            let start = Instant::now();
            let (chunk, end) = read_chunk(documents);
            reading.add(chunk.len() as u64, start);
            for document in &chunk {
                headers.push(document);
            }
            progress(headers.len() as u64);
            queue.state().waiting.push_back(Chunk { number, documents: chunk });
            scope.spawn(|_| {
                let _ = queue.count_next();
            });
            if let Some(end) = end {
                return end;
            }
        }
        Ok(())
    });
    let QueueState { shards, busy_time, first_error, .. } =
        queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    // An error in a chunk precedes a read error, because the chunk was read earlier.
    match first_error {
        Some((_, error)) => return Err(error),
        None => read?,
    }
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = shards.iter().map(|shard| shard.bytes).sum();
    let analyzing = Stage {
        seconds: busy_time.as_secs_f64(),
        documents: reading.documents,
        bytes: Some(bytes).filter(|&bytes| bytes > 0),
        ..Stage::empty("train: count")
    };
    let stages = vec![reading.with_total_time(seconds), analyzing.with_total_time(seconds)];
    Ok(Chunks { shards, headers, stages })
}

/// Consecutive documents that one thread counts.
struct Chunk {
    /// The index of the chunk in the corpus.
    number: usize,
    documents: Vec<Document>,
}

/// The queue of chunks to be counted, and the shards that hold the counts.
struct ChunkQueue<'a> {
    input: &'a Input,
    state: Mutex<QueueState<'a>>,
    /// Notified when a thread has finished a chunk.
    finished: Condvar,
}

struct QueueState<'a> {
    waiting: VecDeque<Chunk>,
    /// The shards that are currently unused.
    shards: Vec<Shard<'a>>,
    /// The number of chunks that are being counted.
    in_use: usize,
    /// The time when `in_use` last became positive.
    busy_since: Instant,
    /// The total time that `in_use` was positive, up to the last time that it became 0.
    busy_time: Duration,
    /// The index and the error of the first chunk that failed.
    first_error: Option<(usize, CorpusError)>,
}

impl<'a> ChunkQueue<'a> {
    fn new(input: &'a Input) -> Self {
        let state = QueueState {
            waiting: VecDeque::new(),
            shards: Vec::new(),
            in_use: 0,
            busy_since: Instant::now(),
            busy_time: Duration::ZERO,
            first_error: None,
        };
        Self { input, state: Mutex::new(state), finished: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `max_chunks` chunks are waiting or being counted. A caller that is a
    /// worker of a thread pool counts chunks while it waits, because all other workers might be
    /// waiting too.
    fn wait_for_fewer_than(&self, max_chunks: usize) {
        let is_full = |state: &mut QueueState<'a>| state.waiting.len() + state.in_use >= max_chunks;
        let count_if_full = || {
            let is_full = is_full(&mut self.state());
            is_full && self.count_next()
        };
        if threads::is_worker() {
            while count_if_full() {}
        }
        drop(self.finished.wait_while(self.state(), is_full));
    }

    /// Counts the next waiting chunk. Returns false if there is none.
    fn count_next(&self) -> bool {
        let mut state = self.state();
        let Some(Chunk { number, documents }) = state.waiting.pop_front() else { return false };
        let shard = state.shards.pop();
        if state.in_use == 0 {
            state.busy_since = Instant::now();
        }
        state.in_use += 1;
        drop(state);
        // The guard is dropped even after a panic.
        let _guard = InUseGuard(self);
        let mut shard = shard.unwrap_or_else(|| Shard::new(self.input));
        let counted = shard.count(number, &documents);
        let mut state = self.state();
        state.shards.push(shard);
        if let Err(error) = counted
            && state.first_error.as_ref().is_none_or(|&(first, _)| number < first)
        {
            state.first_error = Some((number, error));
        }
        true
    }
}

/// A guard that marks a chunk as finished when it is dropped.
struct InUseGuard<'a, 'b>(&'a ChunkQueue<'b>);

impl Drop for InUseGuard<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_use -= 1;
        if state.in_use == 0 {
            let busy_time = state.busy_since.elapsed();
            state.busy_time += busy_time;
        }
        self.0.finished.notify_one();
    }
}

/// Reads the next chunk. The second value is `None` unless the stream has ended or failed.
fn read_chunk(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
) -> (Vec<Document>, Option<Result<(), CorpusError>>) {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    while bytes < CHUNK_BYTES && chunk.len() < CHUNK_DOCUMENTS {
        let document = match documents.next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => return (chunk, Some(Err(error))),
            None => return (chunk, Some(Ok(()))),
        };
        bytes += match &document.content {
            Content::Features(features) => features.len() * 8,
            text => text.text_bytes(),
        };
        chunk.push(document);
    }
    (chunk, None)
}
