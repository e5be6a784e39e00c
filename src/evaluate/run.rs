//! A classifier on a test corpus: read, vectorize, search, vote and tally side by side, then measure.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Instant;

use super::{Evaluation, Evaluator};
use crate::classifier::{
    Classifier, ClassifyError, ClassifyOptions, DocumentVectors, FoundNeighbors, Prediction,
};
use crate::corpus::{CorpusError, Document, Place, Problem};
use crate::search::Neighbor;
use crate::stages::Stage;
use crate::stream::batch_size;
use crate::threads::Threads;
use crate::vectors::{Labeled, StoredVectors};
use crate::vote::Voters;

/// Batches that wait between two stages.
const QUEUE: usize = 1;
/// The most documents of a batch, which take more memory than stored vectors: some batches are in all stages.
const MOST_DOCUMENTS: usize = 8_192;

/// Where test documents come from.
pub enum TestSet {
    /// A stream of documents.
    Documents(Box<dyn Iterator<Item = Result<Document, CorpusError>> + Send>),
    /// The first `count` documents of a file of vectors.
    Vectors {
        /// The file.
        stored: Box<StoredVectors>,
        /// How many of its documents.
        count: usize,
    },
}

impl std::fmt::Debug for TestSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Documents(_) => f.write_str("Documents"),
            Self::Vectors { count, .. } => write!(f, "Vectors({count})"),
        }
    }
}

impl From<StoredVectors> for TestSet {
    fn from(stored: StoredVectors) -> Self {
        Self::Vectors { count: stored.len(), stored: Box::new(stored) }
    }
}

impl TestSet {
    /// The first `most` documents only.
    #[must_use]
    pub fn first(self, most: NonZeroUsize) -> Self {
        match self {
            Self::Documents(documents) => Self::Documents(Box::new(documents.take(most.get()))),
            Self::Vectors { stored, count } => {
                Self::Vectors { stored, count: count.min(most.get()) }
            }
        }
    }

    /// The next batches, of at most so many documents; none at the end.
    fn batches(self, most: usize) -> Box<dyn Iterator<Item = Result<Batch, CorpusError>> + Send> {
        match self {
            Self::Documents(mut documents) => Box::new(std::iter::from_fn(move || {
                let batch: Result<Vec<Document>, CorpusError> =
                    documents.by_ref().take(most.min(MOST_DOCUMENTS)).collect();
                match batch {
                    Ok(batch) if batch.is_empty() => None,
                    batch => Some(batch.map(Batch::Documents)),
                }
            })),
            Self::Vectors { stored, count } => {
                let most = most.min(count).max(1);
                Box::new((0..count).step_by(most).map(move |start| {
                    let (documents, vectors) = stored.batch(start..(start + most).min(count));
                    Ok(Batch::Vectors(documents, vectors))
                }))
            }
        }
    }
}

/// How a classifier is evaluated.
#[derive(Debug, Clone, Default)]
pub struct EvaluateOptions {
    /// The name of the test corpus in errors.
    pub name: String,
    /// Documents that are searched together, at most.
    pub batch: usize,
    /// Whether the decision on every document is kept.
    pub per_document: bool,
    /// What draws the documents of the intervals.
    pub seed: u64,
    /// What was done before, for the evaluation's list of stages.
    pub stages: Vec<Stage>,
}

/// Why a classifier cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A document cannot be read or does not fit the model, the search failed, or there is no document.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A thread ended by a panic.
    #[error("{0} ended by an internal error")]
    Panicked(&'static str),
}

impl From<CorpusError> for EvaluateError {
    fn from(error: CorpusError) -> Self {
        Self::Classify(error.into())
    }
}

/// A batch that was read.
enum Batch {
    Documents(Vec<Document>),
    Vectors(Vec<Labeled>, DocumentVectors),
}

impl Batch {
    fn len(&self) -> usize {
        match self {
            Self::Documents(documents) => documents.len(),
            Self::Vectors(documents, _) => documents.len(),
        }
    }
}

/// A batch that was vectorized.
struct Vectorized {
    documents: Vec<Labeled>,
    vectors: DocumentVectors,
}

/// A batch whose neighbors were found.
struct Searched {
    batch: Vectorized,
    neighbors: FoundNeighbors,
}

/// A batch with predictions, and whether more neighbors are as similar as the last one that voted.
struct Voted {
    documents: Vec<Labeled>,
    predictions: Vec<Prediction>,
    tied: Vec<bool>,
}

/// Classifies test documents and measures how well that went. Each stage runs on a thread of its own, so that
/// it waits for none but the slowest: a GPU searches while the next documents are parsed.
///
/// `progress` is told how many documents are done.
///
/// # Errors
/// The first error of the documents or the search; a test corpus without documents.
pub fn evaluate(
    classifier: &Classifier,
    options: &ClassifyOptions,
    test: TestSet,
    how: EvaluateOptions,
    progress: &dyn Fn(u64),
) -> Result<Evaluation, EvaluateError> {
    let EvaluateOptions { name, batch, per_document, seed, mut stages } = how;
    let start = Instant::now();
    let mut evaluator = Evaluator::new(Arc::clone(classifier.model()), options.clone());
    if per_document {
        evaluator = evaluator.with_documents();
    }
    // One neighbor more than votes shows whether the last one is tied.
    let one_more = ClassifyOptions { k: options.k.saturating_add(1), ..options.clone() };
    let (to_vectorize, read) = sync_channel(QUEUE);
    // Not of the scope: a reader that waits for input must not hold up the end after a failure.
    let reading = read_batches(test, batch_size(batch.max(1), &one_more), to_vectorize)?;
    let (made, tally) = thread::scope(|scope| {
        let (to_search, vectorized) = sync_channel(QUEUE);
        let (to_vote, found) = sync_channel(QUEUE);
        // Lists that were voted on are filled again.
        let (give_back, spare) = channel();
        let vectorizing = thread::Builder::new()
            .name("vectorize".to_owned())
            .spawn_scoped(scope, move || vectorize_batches(classifier, read, &to_search))
            .map_err(EvaluateError::Thread)?;
        let searching = thread::Builder::new()
            .name("search".to_owned())
            .spawn_scoped(scope, move || {
                search_batches(classifier, &one_more, (vectorized, spare), &to_vote)
            })
            .map_err(EvaluateError::Thread)?;
        let (to_tally, voted) = sync_channel(QUEUE);
        let voting = thread::Builder::new()
            .name("vote".to_owned())
            .spawn_scoped(scope, move || {
                vote_batches(classifier, options, (found, &give_back), &to_tally)
            })
            .map_err(EvaluateError::Thread)?;
        let mut tally = Stage::empty("test: tally");
        let outcome =
            tally_batches(&voted, &mut evaluator, &mut tally, classifier.threads(), progress);
        // Threads that wait to hand something over end.
        drop(voted);
        let ended = |thread: ScopedJoinHandle<'_, Stage>, what| {
            thread.join().map_err(|_| EvaluateError::Panicked(what))
        };
        let made = [
            ended(vectorizing, "vectorizing")?,
            ended(searching, "searching")?,
            ended(voting, "voting")?,
        ];
        outcome.map(|()| (made, tally))
    })?;
    // Nothing came any more: the reader has ended.
    let read = reading.join().map_err(|_| EvaluateError::Panicked("reading the documents"))?;
    if tally.documents == 0 {
        let place = Place { source: name.as_str().into(), line: None };
        return Err(CorpusError { place, problem: Problem::NoDocument }.into());
    }
    let all = Stage::since("test: all of it, stages side by side", tally.documents, start);
    let beside = [read].into_iter().chain(made).chain([tally]);
    stages.extend(beside.map(|stage| stage.beside(all.seconds)));
    stages.push(all);
    let by = (options.k.get(), options.vote.to_string());
    Ok(evaluator.finish(by, seed, classifier.threads(), stages))
}

fn read_batches(
    test: TestSet,
    batch: usize,
    to_vectorize: SyncSender<Result<Batch, ClassifyError>>,
) -> Result<JoinHandle<Stage>, EvaluateError> {
    let mut batches = test.batches(batch);
    let read = move || {
        let mut stage = Stage::empty("test: read");
        loop {
            let start = Instant::now();
            let batch = batches.next();
            let count = batch.as_ref().map_or(0, |batch| batch.as_ref().map_or(0, Batch::len));
            stage.add(count as u64, start);
            let Some(batch) = batch else { return stage };
            let failed = batch.is_err();
            if to_vectorize.send(batch.map_err(ClassifyError::from)).is_err() || failed {
                return stage;
            }
        }
    };
    thread::Builder::new().name("read".to_owned()).spawn(read).map_err(EvaluateError::Thread)
}

fn vectorize_batches(
    classifier: &Classifier,
    read: Receiver<Result<Batch, ClassifyError>>,
    to_search: &SyncSender<Result<Vectorized, ClassifyError>>,
) -> Stage {
    let mut stage = Stage::empty("test: analyze, weigh");
    for batch in read {
        let start = Instant::now();
        let made = batch.and_then(|batch| {
            let (documents, vectors) = match batch {
                Batch::Documents(documents) => {
                    let bytes: usize = documents.iter().map(|d| d.content.text_bytes()).sum();
                    if bytes > 0 {
                        stage.bytes = Some(stage.bytes.unwrap_or(0) + bytes as u64);
                    }
                    let vectors = classifier.vectorize(&documents)?;
                    let apart =
                        |Document { id, labels, content, .. }| (content, Labeled { id, labels });
                    let (contents, documents): (Vec<_>, Vec<_>) =
                        documents.into_iter().map(apart).unzip();
                    // Freeing all these takes a while, for which this stage need not wait.
                    classifier.threads().spawn(move || drop(contents));
                    (documents, vectors)
                }
                Batch::Vectors(documents, vectors) => (documents, vectors),
            };
            stage.add(documents.len() as u64, start);
            Ok(Vectorized { documents, vectors })
        });
        let failed = made.is_err();
        if to_search.send(made).is_err() || failed {
            break;
        }
    }
    stage
}

fn search_batches(
    classifier: &Classifier,
    options: &ClassifyOptions,
    (vectorized, spare): (Receiver<Result<Vectorized, ClassifyError>>, Receiver<FoundNeighbors>),
    to_vote: &SyncSender<Result<Searched, ClassifyError>>,
) -> Stage {
    let mut stage = Stage::empty("test: search");
    for batch in vectorized {
        let start = Instant::now();
        let made = batch.and_then(|batch| {
            let mut neighbors = spare.try_recv().unwrap_or_default();
            let _ = classifier.neighbors(&batch.vectors, options, &mut neighbors)?;
            stage.add(batch.documents.len() as u64, start);
            Ok(Searched { batch, neighbors })
        });
        let failed = made.is_err();
        if to_vote.send(made).is_err() || failed {
            break;
        }
    }
    stage
}

fn vote_batches(
    classifier: &Classifier,
    options: &ClassifyOptions,
    (found, give_back): (Receiver<Result<Searched, ClassifyError>>, &Sender<FoundNeighbors>),
    to_tally: &SyncSender<Result<Voted, ClassifyError>>,
) -> Stage {
    let mut stage = Stage::empty("test: vote");
    for searched in found {
        let start = Instant::now();
        let made = searched.map(|Searched { batch, neighbors }| {
            let predictions = classifier.predict(&batch.vectors, &neighbors, options);
            let tied = neighbors.iter().map(|found| tied_at(options.k, found)).collect();
            // After the last search nobody takes them any more.
            let _ = give_back.send(neighbors);
            stage.add(batch.documents.len() as u64, start);
            Voted { documents: batch.documents, predictions, tied }
        });
        let failed = made.is_err();
        if to_tally.send(made).is_err() || failed {
            break;
        }
    }
    stage
}

fn tally_batches(
    voted: &Receiver<Result<Voted, ClassifyError>>,
    evaluator: &mut Evaluator,
    stage: &mut Stage,
    threads: &Threads,
    progress: &dyn Fn(u64),
) -> Result<(), EvaluateError> {
    for batch in voted {
        let batch = batch?;
        let start = Instant::now();
        let Voted { documents, predictions, tied } = &batch;
        for ((document, prediction), &tied) in documents.iter().zip(predictions).zip(tied) {
            evaluator.add(&document.id, &document.labels, prediction, tied);
        }
        stage.add(documents.len() as u64, start);
        progress(stage.documents);
        // Freeing many small allocations takes a while.
        threads.spawn(move || drop(batch));
    }
    Ok(())
}

/// Whether, in one of the lists, the neighbor after the `k`-th is as similar as the `k`-th.
fn tied_at(k: NonZeroUsize, voters: Voters<'_>) -> bool {
    let k = k.get();
    let tied = |list: &[Neighbor]| {
        list.get(k)
            .is_some_and(|next| next.similarity.to_bits() == list[k - 1].similarity.to_bits())
    };
    voters.lists().iter().any(|(list, _)| tied(list))
}
