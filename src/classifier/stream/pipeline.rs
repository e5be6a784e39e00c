//! A pipeline that runs each stage from documents to predictions on its own thread. A GPU can
//! search while the next documents are parsed, and the slowest stage determines the speed.

use std::io;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Instant;

use super::backlog::{Backlog, Limits};
use super::source::{Source, batch_size};
use crate::classifier::vectors::{LabeledDocument, StoredVectors};
use crate::classifier::{
    Classifier, ClassifyError, ClassifyOptions, DocumentVectors, FoundNeighbors,
};
use crate::stages::{PipelineProgress, Stage};
use crate::text::corpus::{CorpusError, Document};
use crate::threads;

/// Maximum number of batches waiting between two stages.
const QUEUE_LENGTH: usize = 1;
/// Maximum number of documents in a batch. Documents take more memory than stored vectors, and up
/// to eight batches are processed concurrently.
const MAX_DOCUMENTS: usize = 8_192;
/// Number of bytes of text or features at which a batch is full.
const MAX_BYTES: usize = 32 << 20;

/// The names of all stages except the last.
const STAGE_NAMES: [&str; 4] = ["read", "analyze, weigh", "search", "vote"];
const READ: usize = 0;
const ANALYZE: usize = 1;
const SEARCH: usize = 2;
const VOTE: usize = 3;
const LAST: usize = STAGE_NAMES.len();

/// A pipeline of the stages that batches of documents pass through.
#[derive(Debug)]
pub(crate) struct Pipeline<'a> {
    pub(crate) classifier: &'a Classifier,
    /// The options of search and prediction.
    pub(crate) options: &'a ClassifyOptions,
    /// Maximum number of documents searched together.
    pub(crate) batch: usize,
    /// Whether documents wait for others even if no stage is busy.
    pub(crate) waits_for_full_batches: bool,
    /// The prefix of the names of stages.
    pub(crate) prefix: &'static str,
    /// The name of the last stage.
    pub(crate) last: &'static str,
}

/// The result that a stage passes to the next one.
type StageResult<T> = Result<T, ClassifyError>;

/// A vectorized batch.
pub(crate) struct VectorizedBatch {
    pub(crate) documents: Vec<LabeledDocument>,
    pub(crate) vectors: DocumentVectors,
}

/// A batch with its neighbors.
struct SearchedBatch {
    batch: VectorizedBatch,
    neighbors: FoundNeighbors,
}

/// A function that passes on the results for a number of documents. It returns whether more results
/// are wanted.
pub(crate) type HandOver<'a, V> = &'a mut dyn FnMut(usize, V) -> bool;

/// The input of the last stage.
enum VoteMessage<V> {
    /// Results for a number of documents.
    Part(usize, V),
    /// The end of a batch.
    Batch,
}

/// The time that each stage has been busy so far, in seconds, as bits of `f64`.
#[derive(Debug, Default)]
struct BusyTimes([AtomicU64; STAGE_NAMES.len() + 1]);

impl BusyTimes {
    fn record(&self, number: usize, stage: &Stage) {
        self.0[number].store(stage.seconds.to_bits(), Ordering::Relaxed);
    }

    /// Returns the number of the stage that has been busy longest, and its time in seconds.
    fn longest(&self) -> (usize, f64) {
        let seconds = self.0.iter().map(|bits| f64::from_bits(bits.load(Ordering::Relaxed)));
        seconds.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or_default()
    }
}

/// An error that ended the pipeline early.
#[derive(Debug)]
pub(crate) enum PipelineError<E> {
    /// A document cannot be read or does not match the model, or the search failed.
    Classify(ClassifyError),
    /// A result could not be received.
    Receive(E),
    /// A thread could not be started.
    Thread(io::Error),
    /// The reader panicked.
    Reader,
    /// A thread panicked during the named work.
    Panicked(&'static str),
}

impl Pipeline<'_> {
    /// Classifies all documents and returns the time of each stage. `vote` runs on its own thread.
    /// It converts each batch and its neighbors to results, and hands them over in parts, each with
    /// its number of documents. It may stop when no more results are wanted. `receive` gets the
    /// parts in the order of the documents, with the progress of all stages.
    ///
    /// Results before an error are received. After an error, the reading thread is abandoned,
    /// because it may wait for input that never comes.
    pub(crate) fn run<V: Send, E>(
        &self,
        source: Source,
        vote: impl FnMut(VectorizedBatch, &FoundNeighbors, HandOver<'_, V>) + Send,
        mut receive: impl FnMut(V, &PipelineProgress<'_>) -> Result<(), E>,
    ) -> Result<Vec<Stage>, PipelineError<E>> {
        let pipeline_start = Instant::now();
        let busy = Arc::new(BusyTimes::default());
        let (backlog, input, reading) = self.open(source, &busy).map_err(PipelineError::Thread)?;
        let busy = &*busy;
        let close_guard = CloseGuard(&backlog);
        let (timings, last) = thread::scope(|scope| {
            let (to_search, vectorized) = sync_channel(QUEUE_LENGTH);
            let (to_vote, found) = sync_channel(QUEUE_LENGTH);
            let (to_receive, voted) = sync_channel(QUEUE_LENGTH);
            // After the vote, neighbor lists are returned for reuse.
            let (give_back, spare) = channel();
            let start = |name: &str| thread::Builder::new().name(name.to_owned());
            let vectorizing = start("vectorize")
                .spawn_scoped(scope, move || self.vectorize(input, busy, &to_search))
                .map_err(PipelineError::Thread)?;
            let searching = start("search")
                .spawn_scoped(scope, move || self.search(vectorized, &spare, busy, &to_vote))
                .map_err(PipelineError::Thread)?;
            let voting = start("vote")
                .spawn_scoped(scope, move || self.vote(found, &give_back, busy, vote, &to_receive))
                .map_err(PipelineError::Thread)?;
            let mut stage = self.stage(LAST);
            let mut take = |voted: StageResult<VoteMessage<V>>| {
                let start = Instant::now();
                let (count, results) = match voted.map_err(PipelineError::Classify)? {
                    VoteMessage::Part(count, results) => (count, results),
                    VoteMessage::Batch => {
                        backlog.done();
                        return Ok(());
                    }
                };
                let (longest, seconds) = busy.longest();
                let so_far = PipelineProgress {
                    documents: stage.documents + count as u64,
                    busiest: self.name(longest),
                    busy: (seconds / pipeline_start.elapsed().as_secs_f64()).min(1.0),
                };
                receive(results, &so_far).map_err(PipelineError::Receive)?;
                stage.add(count as u64, start);
                busy.record(LAST, &stage);
                Ok(())
            };
            let outcome = iter::from_fn(|| threads::receive(&voted)).try_for_each(&mut take);
            // Closing the channels ends the threads that wait for them.
            drop(voted);
            drop(close_guard);
            let join = |thread: ScopedJoinHandle<'_, Stage>, what| {
                threads::join(thread).map_err(|_| PipelineError::Panicked(what))
            };
            let stages = [
                join(vectorizing, "vectorizing")?,
                join(searching, "searching")?,
                join(voting, "voting")?,
            ];
            outcome.map(|()| (stages, stage))
        })?;
        let mut stages = Vec::new();
        if let Some(reading) = reading {
            // The channel is closed, so the reader has ended.
            stages.push(reading.join().map_err(|_| PipelineError::Reader)?);
        }
        stages.extend(timings);
        stages.push(last);
        let seconds = pipeline_start.elapsed().as_secs_f64();
        Ok(stages.into_iter().map(|stage| stage.with_total_time(seconds)).collect())
    }

    fn name(&self, number: usize) -> &'static str {
        STAGE_NAMES.get(number).unwrap_or(&self.last)
    }

    fn stage(&self, number: usize) -> Stage {
        Stage::empty(&format!("{}{}", self.prefix, self.name(number)))
    }

    /// Starts the reading thread.
    fn open(
        &self,
        source: Source,
        busy: &Arc<BusyTimes>,
    ) -> io::Result<(Arc<Backlog>, Input, Option<JoinHandle<Stage>>)> {
        let needs_batch = self.options.decision.needs_batch();
        let max = batch_size(self.batch.max(1), self.options);
        let limits = Limits {
            documents: if needs_batch { usize::MAX } else { max.min(MAX_DOCUMENTS) },
            bytes: if needs_batch { usize::MAX } else { MAX_BYTES },
            waits_for_full_batches: self.waits_for_full_batches || needs_batch,
        };
        let backlog = Arc::new(Backlog::new(limits));
        let documents = match source {
            Source::Documents(documents) => documents,
            Source::Vectors { stored, count } => {
                return Ok((backlog, Input::Vectors { stored, count, max }, None));
            }
        };
        let input = Input::Documents(Arc::clone(&backlog));
        let stage = self.stage(READ);
        let reader_backlog = Arc::clone(&backlog);
        let busy = Arc::clone(busy);
        // The thread is not scoped: a reader that waits for input must not delay the end after a
        // failure.
        let reading = thread::Builder::new().name("read".to_owned());
        let reading = reading.spawn(move || read(documents, &reader_backlog, &busy, stage))?;
        Ok((backlog, input, Some(reading)))
    }

    fn vectorize(
        &self,
        input: Input,
        busy: &BusyTimes,
        to_search: &SyncSender<StageResult<VectorizedBatch>>,
    ) -> Stage {
        match input {
            Input::Documents(backlog) => self.vectorize_documents(&backlog, busy, to_search),
            Input::Vectors { stored, count, max } => {
                let mut stage = self.stage(READ);
                for first in (0..count).step_by(max.min(count).max(1)) {
                    let start = Instant::now();
                    let batch = first..first.saturating_add(max).min(count);
                    let (documents, vectors) = stored.batch(batch);
                    stage.add(documents.len() as u64, start);
                    busy.record(READ, &stage);
                    if to_search.send(Ok(VectorizedBatch { documents, vectors })).is_err() {
                        break;
                    }
                }
                stage
            }
        }
    }

    fn vectorize_documents(
        &self,
        backlog: &Backlog,
        busy: &BusyTimes,
        to_search: &SyncSender<StageResult<VectorizedBatch>>,
    ) -> Stage {
        let mut stage = self.stage(ANALYZE);
        while let Some((mut documents, mut error)) = backlog.take() {
            let start = Instant::now();
            if self.waits_for_full_batches
                && let Some(error) = error
            {
                // The channel may already be closed after another error.
                let _ = to_search.send(Err(error.into()));
                break;
            }
            let vectors = self.classifier.vectorize(&documents).or_else(|mismatch| {
                // The error may belong to a later document than the first mismatch. Documents
                // before the first mismatch are classified.
                let (index, first) = self.first_mismatch(&documents).unwrap_or((0, mismatch));
                documents.truncate(index);
                error = Some(first);
                self.classifier.vectorize(&documents)
            });
            let vectorized = vectors.map(|vectors| {
                let bytes: usize = documents.iter().map(|d| d.content.text_bytes()).sum();
                if bytes > 0 {
                    stage.bytes = Some(stage.bytes.unwrap_or(0) + bytes as u64);
                }
                let split = |Document { id, labels, content, .. }| {
                    (content, LabeledDocument { id, labels })
                };
                let (contents, documents): (Vec<_>, Vec<_>) =
                    documents.into_iter().map(split).unzip();
                self.free(contents);
                stage.add(documents.len() as u64, start);
                busy.record(ANALYZE, &stage);
                VectorizedBatch { documents, vectors }
            });
            let failed = vectorized.is_err();
            if to_search.send(vectorized.map_err(ClassifyError::from)).is_err() || failed {
                break;
            }
            if let Some(error) = error {
                // A closed channel means that there was an earlier error.
                let _ = to_search.send(Err(error.into()));
                break;
            }
        }
        stage
    }

    /// Returns the position of the first document that does not match the model, and its error.
    fn first_mismatch(&self, documents: &[Document]) -> Option<(usize, CorpusError)> {
        let error = |document| self.classifier.vectorize(std::slice::from_ref(document)).err();
        let mut documents = documents.iter().enumerate();
        documents.find_map(|(index, document)| Some((index, error(document)?)))
    }

    /// Frees many small allocations in the background, because this takes time.
    fn free<T: Send + 'static>(&self, many: Vec<T>) {
        if many.len() > 1 {
            self.classifier.threads().spawn(move || drop(many));
        }
    }

    fn search(
        &self,
        vectorized: Receiver<StageResult<VectorizedBatch>>,
        spare: &Receiver<FoundNeighbors>,
        busy: &BusyTimes,
        to_vote: &SyncSender<StageResult<SearchedBatch>>,
    ) -> Stage {
        let mut stage = self.stage(SEARCH);
        for batch in vectorized {
            let start = Instant::now();
            let searched = batch.and_then(|batch| {
                let mut neighbors = spare.try_recv().unwrap_or_default();
                let _ = self.classifier.neighbors(&batch.vectors, self.options, &mut neighbors)?;
                stage.add(batch.documents.len() as u64, start);
                busy.record(SEARCH, &stage);
                Ok(SearchedBatch { batch, neighbors })
            });
            let failed = searched.is_err();
            if to_vote.send(searched).is_err() || failed {
                break;
            }
        }
        stage
    }

    fn vote<V>(
        &self,
        found: Receiver<StageResult<SearchedBatch>>,
        give_back: &Sender<FoundNeighbors>,
        busy: &BusyTimes,
        mut vote: impl FnMut(VectorizedBatch, &FoundNeighbors, HandOver<'_, V>),
        to_receive: &SyncSender<StageResult<VoteMessage<V>>>,
    ) -> Stage {
        let mut stage = self.stage(VOTE);
        for searched in found {
            let mut start = Instant::now();
            let SearchedBatch { batch, neighbors } = match searched {
                Ok(searched) => searched,
                Err(error) => {
                    // A closed channel means that there was an earlier error.
                    let _ = to_receive.send(Err(error));
                    break;
                }
            };
            vote(batch, &neighbors, &mut |count, results| {
                stage.add(count as u64, start);
                busy.record(VOTE, &stage);
                let sent = to_receive.send(Ok(VoteMessage::Part(count, results)));
                start = Instant::now();
                sent.is_ok()
            });
            // If the search stage has ended, the channel is closed, and the lists are dropped.
            let _ = give_back.send(neighbors);
            if to_receive.send(Ok(VoteMessage::Batch)).is_err() {
                break;
            }
        }
        stage
    }
}

/// The input of the first stage.
enum Input {
    Documents(Arc<Backlog>),
    Vectors { stored: Box<StoredVectors>, count: usize, max: usize },
}

/// Reads documents until the end or the first error, or until no more are wanted.
fn read(
    mut documents: impl Iterator<Item = Result<Document, CorpusError>>,
    backlog: &Backlog,
    busy: &BusyTimes,
    mut stage: Stage,
) -> Stage {
    // If reading panics, the documents before the panic are classified.
    let _end_guard = EndGuard(backlog);
    loop {
        let start = Instant::now();
        let Some(document) = documents.next() else { return stage };
        match document {
            Ok(document) => {
                stage.add(1, start);
                busy.record(READ, &stage);
                if !backlog.push(document) {
                    return stage;
                }
            }
            Err(error) => {
                backlog.end(Some(error));
                return stage;
            }
        }
    }
}

/// A guard that ends a backlog when it is dropped.
struct EndGuard<'a>(&'a Backlog);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.end(None);
    }
}

/// A guard that closes a backlog when it is dropped.
struct CloseGuard<'a>(&'a Backlog);

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_returns_the_busiest_stage() {
        let busy = BusyTimes::default();
        for (number, seconds) in [(READ, 0.5), (SEARCH, 2.0), (VOTE, 1.5), (LAST, 0.1), (READ, 0.7)]
        {
            busy.record(number, &Stage { seconds, ..Stage::empty("") });
        }
        assert_eq!(busy.longest(), (SEARCH, 2.0));
        busy.record(ANALYZE, &Stage { seconds: 2.5, ..Stage::empty("") });
        assert_eq!(busy.longest(), (ANALYZE, 2.5));
    }
}
