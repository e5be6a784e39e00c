//! A stream of documents → their predictions, in order and with bounded memory.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use rayon::prelude::*;

use crate::classifier::{Classifier, ClassifyError, ClassifyOptions, FoundNeighbors, Prediction};
use crate::corpus::{CorpusError, Document};
use crate::search::SearchError;
use crate::stages::Stage;
use crate::vectors::StoredVectors;

/// The maximum number of documents classified together.
const BATCH: usize = 1_024;
/// The maximum number of stored vectors classified together.
const STORED_BATCH: usize = 16_384;
/// The maximum number of neighbors in the lists of a batch, unless k is very large.
const NEIGHBORS: usize = 1_000_000;

/// The number of documents classified together: at most `most`, fewer if many neighbors are kept
/// for each.
pub fn batch_size(most: usize, options: &ClassifyOptions) -> usize {
    if options.decision.needs_batch() {
        return usize::MAX;
    }
    (NEIGHBORS / options.k).clamp(16, most)
}

/// Receives predictions as they are made.
pub trait Answers {
    /// The error of a prediction that cannot be accepted.
    type Error;
    /// What is made of a prediction, on any thread, before it is received: a line of text, say.
    type Made: Send;

    /// Receives what was made of the prediction for the next document.
    ///
    /// # Errors
    /// If it cannot be accepted, which ends the stream.
    fn answer(&mut self, made: Self::Made) -> Result<(), Self::Error>;

    /// Called when no further prediction follows immediately.
    ///
    /// # Errors
    /// If earlier predictions cannot be passed on.
    fn flush(&mut self) -> Result<(), Self::Error>;
}

/// Why a stream ended before its last document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError<E> {
    /// A document cannot be read, or does not match the model.
    #[error(transparent)]
    Corpus(CorpusError),
    /// The search failed.
    #[error(transparent)]
    Search(SearchError),
    /// A prediction could not be accepted.
    #[error("a prediction could not be delivered: {0}")]
    Answer(E),
    /// The reader thread could not be started.
    #[error("cannot start the reader thread: {0}")]
    Thread(io::Error),
    /// The reader thread panicked.
    #[error("an internal error ended the reading of documents")]
    Reader,
}

impl<E> From<ClassifyError> for StreamError<E> {
    fn from(error: ClassifyError) -> Self {
        match error {
            ClassifyError::Document(error) => Self::Corpus(error),
            ClassifyError::Search(error) => Self::Search(error),
        }
    }
}

type Read = Result<Document, CorpusError>;

/// Reads documents on a separate thread, classifies them and delivers the predictions in order;
/// returns the time of each stage. `make` is called with the identifier and the prediction of each document, on the classifier's
/// threads, and `answers` receive what it makes.
///
/// Documents that are already available are classified together: a slow source gets each prediction
/// immediately, a fast one full batches. Predictions before an error are delivered.
///
/// # Errors
/// The first error of the documents, the search or the receiver of predictions.
pub fn classify_stream<A: Answers>(
    classifier: &Classifier,
    options: &ClassifyOptions,
    documents: impl Iterator<Item = Read> + Send + 'static,
    make: impl Fn(&str, &Prediction) -> A::Made + Send + Sync,
    answers: &mut A,
) -> Result<Vec<Stage>, StreamError<A::Error>> {
    let begin = Instant::now();
    let (sender, receiver) = sync_channel::<Read>(BATCH / 4);
    let mut documents = documents;
    let reading = thread::Builder::new().name("read".to_owned()).spawn(move || {
        let mut stage = Stage::empty("read");
        loop {
            let start = Instant::now();
            let Some(document) = documents.next() else { return stage };
            stage.add(1, start);
            if sender.send(document).is_err() {
                return stage;
            }
        }
    });
    let reading = reading.map_err(StreamError::Thread)?;
    let mut stages = ["analyze, weigh", "search", "vote", "write"].map(Stage::empty);
    // After a failure the reader is abandoned: it may wait for input that never comes.
    answer_all(classifier, options, &receiver, (&make, answers), &mut stages)?;
    // The reader disconnected: at the end of its documents, or by a panic, which is an error.
    let read = reading.join().map_err(|_| StreamError::Reader)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok([read].into_iter().chain(stages).map(|stage| stage.beside(seconds)).collect())
}

/// Classifies documents; `stages` are told the time of its parts.
fn classify_batch(
    classifier: &Classifier,
    options: &ClassifyOptions,
    documents: &[Document],
    [analyze, search, vote, _]: &mut [Stage; 4],
) -> Result<Vec<Prediction>, ClassifyError> {
    let count = documents.len() as u64;
    let start = Instant::now();
    let vectors = classifier.vectorize(documents)?;
    analyze.add(count, start);
    let bytes: usize = documents.iter().map(|document| document.content.text_bytes()).sum();
    if bytes > 0 {
        analyze.bytes = Some(analyze.bytes.unwrap_or(0) + bytes as u64);
    }
    let start = Instant::now();
    let mut neighbors = FoundNeighbors::default();
    let _ = classifier.neighbors(&vectors, options, &mut neighbors)?;
    search.add(count, start);
    let start = Instant::now();
    let predictions = classifier.predict(&vectors, &neighbors, options);
    vote.add(count, start);
    Ok(predictions)
}

fn answer_all<A: Answers>(
    classifier: &Classifier,
    options: &ClassifyOptions,
    receiver: &Receiver<Read>,
    (make, answers): (&(impl Fn(&str, &Prediction) -> A::Made + Send + Sync), &mut A),
    stages: &mut [Stage; 4],
) -> Result<(), StreamError<A::Error>> {
    let batch = batch_size(BATCH, options);
    let whole = options.decision.needs_batch();
    while let Ok(first) = receiver.recv() {
        let mut documents = Vec::new();
        let mut failed = None;
        // Some rules decide on all documents together, so all are read first.
        let more: &mut dyn Iterator<Item = Read> =
            if whole { &mut receiver.iter() } else { &mut receiver.try_iter().take(batch - 1) };
        for read in std::iter::once(first).chain(more) {
            match read {
                Ok(document) => documents.push(document),
                Err(error) => failed = Some(StreamError::Corpus(error)),
            }
        }
        let predictions = match classify_batch(classifier, options, &documents, stages) {
            Ok(predictions) => predictions,
            Err(error) => {
                // Predictions before the document that does not match are delivered.
                documents.truncate(fitting(classifier, &documents));
                failed = failed.or_else(|| Some(error.into()));
                classifier.classify(&documents, options)?
            }
        };
        let start = Instant::now();
        deliver(classifier, &documents, |document| &document.id, &predictions, (make, answers))?;
        answers.flush().map_err(StreamError::Answer)?;
        stages[3].add(predictions.len() as u64, start);
        if let Some(failure) = failed {
            return Err(failure);
        }
    }
    Ok(())
}

/// Calls `make` for all predictions, on all threads, and delivers what it makes in the order of the documents.
fn deliver<A: Answers, D: Sync>(
    classifier: &Classifier,
    documents: &[D],
    id: impl Fn(&D) -> &str + Send + Sync,
    predictions: &[Prediction],
    (make, answers): (&(impl Fn(&str, &Prediction) -> A::Made + Send + Sync), &mut A),
) -> Result<(), StreamError<A::Error>> {
    let make_one = |(document, prediction): (&D, &Prediction)| make(id(document), prediction);
    for (documents, predictions) in documents.chunks(BATCH).zip(predictions.chunks(BATCH)) {
        if let ([document], [prediction]) = (documents, predictions) {
            // Switching threads would take longer.
            answers.answer(make_one((document, prediction))).map_err(StreamError::Answer)?;
            continue;
        }
        let ready: Vec<A::Made> = classifier
            .threads()
            .run(|| documents.par_iter().zip(predictions).map(make_one).collect());
        for one in ready {
            answers.answer(one).map_err(StreamError::Answer)?;
        }
    }
    Ok(())
}

/// How many of the first documents match the model.
fn fitting(classifier: &Classifier, documents: &[Document]) -> usize {
    let fits = |document: &&Document| classifier.vectorize(std::slice::from_ref(document)).is_ok();
    documents.iter().take_while(fits).count()
}

/// Classifies stored vectors and delivers the predictions in order, as [`classify_stream`] does those of documents.
///
/// # Errors
/// The first error of the search or the receiver of predictions.
pub fn classify_vectors<A: Answers>(
    classifier: &Classifier,
    options: &ClassifyOptions,
    stored: &StoredVectors,
    make: impl Fn(&str, &Prediction) -> A::Made + Send + Sync,
    answers: &mut A,
) -> Result<Vec<Stage>, StreamError<A::Error>> {
    let begin = Instant::now();
    let mut stages = ["search", "vote", "write"].map(Stage::empty);
    let count = stored.len();
    let batch = batch_size(STORED_BATCH, options).min(count.max(1));
    let mut neighbors = FoundNeighbors::default();
    for start in (0..count).step_by(batch) {
        let (documents, vectors) = stored.batch(start..(start + batch).min(count));
        let [search, vote, write] = &mut stages;
        let (count, start) = (documents.len() as u64, Instant::now());
        let searched = classifier.neighbors(&vectors, options, &mut neighbors);
        let _ = searched.map_err(StreamError::Search)?;
        search.add(count, start);
        let start = Instant::now();
        let predictions = classifier.predict(&vectors, &neighbors, options);
        vote.add(count, start);
        let start = Instant::now();
        deliver(classifier, &documents, |document| &document.id, &predictions, (&make, answers))?;
        write.add(count, start);
    }
    answers.flush().map_err(StreamError::Answer)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(stages.map(|stage| stage.beside(seconds)).into())
}
