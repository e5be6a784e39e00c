//! A classifier on a test corpus: read, vectorize, search, vote and tally side by side, then measure.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle, ScopedJoinHandle};
use std::time::Instant;

use rayon::prelude::*;

use super::part::{Counter, Judged, Part};
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
/// Documents that are counted together, beside others.
const PART: usize = 512;

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

/// A batch with predictions.
struct Voted {
    documents: Vec<Labeled>,
    predictions: Vec<Prediction>,
    /// Whether more neighbors are as similar as the last one that voted.
    tied: Vec<bool>,
    /// What is counted of each [`PART`] documents, if all their labels are known.
    parts: Vec<Option<Part>>,
}

impl Voted {
    fn new(documents: Vec<Labeled>, predictions: Vec<Prediction>, tied: Vec<bool>) -> Self {
        Self { documents, predictions, tied, parts: Vec::new() }
    }

    /// Counts parts of the documents side by side.
    fn count(&mut self, counter: &Counter) {
        let starts = (0..self.documents.len()).into_par_iter().step_by(PART);
        self.parts = starts.map(|start| counter.count(self.part(start))).collect();
    }

    fn add_to(&mut self, evaluator: &mut Evaluator) {
        for (at, part) in std::mem::take(&mut self.parts).into_iter().enumerate() {
            match part {
                Some(part) => evaluator.append(part),
                None => evaluator.add_part(self.part(at * PART)),
            }
        }
    }

    /// The [`PART`] documents from `start` on.
    fn part(&self, start: usize) -> impl Iterator<Item = Judged<'_>> {
        (start..self.documents.len().min(start + PART)).map(|at| {
            let Labeled { id, labels } = &self.documents[at];
            let (prediction, tied_at_k) = (&self.predictions[at], self.tied[at]);
            Judged { id, labels, prediction, tied_at_k }
        })
    }
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
        let of_known = evaluator.counter.clone();
        let voting = thread::Builder::new()
            .name("vote".to_owned())
            .spawn_scoped(scope, move || {
                let counted = (&to_tally, &of_known);
                vote_batches(classifier, options, (found, &give_back), counted)
            })
            .map_err(EvaluateError::Thread)?;
        let mut tally = Stage::empty("test: tally");
        let threads = classifier.threads();
        let outcome = tally_batches(&voted, &mut evaluator, &mut tally, threads, progress);
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
    (to_tally, counter): (&SyncSender<Result<Voted, ClassifyError>>, &Counter),
) -> Stage {
    let mut stage = Stage::empty("test: vote");
    for searched in found {
        let start = Instant::now();
        let made = searched.map(|Searched { batch, neighbors }| {
            let tied = neighbors.iter().map(|found| tied_at(options.k, found)).collect();
            // Predictions are counted while they are in the cache.
            let voted = classifier.threads().run(|| {
                let predictions = classifier.predict(&batch.vectors, &neighbors, options);
                let mut voted = Voted::new(batch.documents, predictions, tied);
                voted.count(counter);
                voted
            });
            // After the last search nobody takes them any more.
            let _ = give_back.send(neighbors);
            stage.add(voted.documents.len() as u64, start);
            voted
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
        let mut batch = batch?;
        let start = Instant::now();
        batch.add_to(evaluator);
        stage.add(batch.documents.len() as u64, start);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::train;
    use crate::corpus::{Corpus, ReadOptions};
    use crate::counts::TermLimits;
    use crate::decide::Decision;
    use crate::model::{InputSpec, TrainSettings};
    use crate::vote::LabelScore;

    /// A document that has one of the labels a, b and c, a new one, or none, and its prediction.
    fn judged(number: u32) -> (Labeled, Prediction) {
        let label = match number % 7 {
            0 if number > 1_500 => format!("new{}", number / 1_000),
            rest => ["a", "b", "c"][rest as usize % 3].to_owned(),
        };
        let labels = (!number.is_multiple_of(11)).then_some(label).into_iter().collect();
        let first = number % 3;
        let score = |label, score| LabelScore { label, score };
        let prediction = Prediction {
            labels: vec![first],
            scores: vec![
                score(first, f64::from(number % 40) / 40.0),
                score((first + 1 + number % 2) % 3, 0.01),
            ],
            probabilities: Vec::new(),
            confidence: None,
            neighbors: vec![Neighbor { row: 0, similarity: 0.5 }],
            by_vectors: Vec::new(),
            reason: None,
            unknown_terms: 0,
        };
        (Labeled { id: number.to_string(), labels }, prediction)
    }

    /// The first of equally bad errors are kept, and new labels are numbered in their order.
    #[test]
    fn batches_are_counted_as_documents_one_after_the_other() {
        let threads = Threads::available().expect("threads start");
        let lines =
            ["a", "b", "c"].map(|label| format!("{{\"text\": \"x\", \"label\": \"{label}\"}}"));
        for decision in [Decision::Single, Decision::Multi { threshold: 0.4, allow_none: true }] {
            let bytes = lines.join("\n").into_bytes();
            let corpus = Corpus::from_bytes("in", bytes, ReadOptions::default());
            let settings = TrainSettings::new(InputSpec::default(), decision);
            let model =
                train(&mut corpus.expect("it opens"), settings, TermLimits::default(), &threads);
            let model = Arc::new(model.expect("it is a corpus"));
            let options = ClassifyOptions::of(&model);
            let evaluator = || Evaluator::new(Arc::clone(&model), options.clone()).with_documents();
            let finish = |evaluator: Evaluator| {
                let result = evaluator.finish((1, "similarity".into()), 0, &threads, Vec::new());
                Evaluation { stages: Vec::new(), peak_memory_bytes: None, ..result }
            };
            let (mut one_by_one, mut in_batches) = (evaluator(), evaluator());
            for number in 0..4_000 {
                let (Labeled { id, labels }, prediction) = judged(number);
                one_by_one.add(&id, &labels, &prediction, number.is_multiple_of(5));
            }
            for batch in [0..1, 1..1, 1..2_000, 2_000..4_000] {
                let tied = batch.clone().map(|number: u32| number.is_multiple_of(5)).collect();
                let (documents, predictions) = batch.map(judged).unzip();
                let mut voted = Voted::new(documents, predictions, tied);
                threads.run(|| voted.count(&in_batches.counter));
                voted.add_to(&mut in_batches);
            }
            let result = finish(in_batches);
            assert_eq!(result.labels.unseen, ["new1", "new2", "new3"]);
            assert_eq!(result.per_document.as_ref().map(Vec::len), Some(4_000));
            assert_eq!(result, finish(one_by_one));
        }
    }
}
