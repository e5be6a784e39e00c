//! Searches for the neighbors of documents in requests. Requests that arrive at the same time share
//! one search (online batches, Barrientos 2011, section 4.3.3).
//!
//! One thread answers all requests for predictions with the model's options. A batch consists of
//! the requests that arrived during the previous batch. A single request therefore does not wait
//! for others. More requests make batches larger, which lowers the cost per document.
//!
//! Explanations and requests with another k cannot share a search. They run concurrently on
//! separate threads, so that predictions do not wait for them.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use classify::classifier::explain::{Explanation, explain_until};
use classify::classifier::{ClassifyError, ClassifyOptions, FoundNeighbors, RawPrediction};
use classify::search::Stop;
use classify::text::corpus::Document;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::failure::{Failure, Resource};
use crate::live::LiveModel;
use crate::state::State;

/// Maximum number of documents in a batch, unless a single request has more.
const MAX_BATCH: usize = 256;
/// Maximum number of concurrent searches outside of batches, per thread of the classifier.
const SEARCHES_PER_THREAD: usize = 8;
/// Additional time for an answer after its deadline. A search stops at the deadline; its
/// predictions are computed afterwards.
const GRACE: Duration = Duration::from_secs(1);

/// Kind of search that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerMode {
    /// Predictions with the model's options.
    Predict,
    /// Predictions with another number of neighbors.
    PredictWith(NonZeroUsize),
    /// Explanations.
    Explain,
}

/// Source of documents. It determines what happens if the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentSource {
    /// A single request, which is refused if the queue is full.
    Request,
    /// A stream, which waits for slots in the queue until the deadline.
    Stream,
}

/// Documents of a request, with their results.
#[derive(Debug)]
pub(crate) struct AnsweredRequest {
    pub(crate) live: Arc<LiveModel>,
    pub(crate) documents: Vec<Document>,
    pub(crate) results: Results,
}

/// The results for the documents of a request, in the same order.
#[derive(Debug)]
pub(crate) enum Results {
    Predictions(Vec<RawPrediction>),
    Explanations(Vec<Explanation>),
}

/// A request that waits for a batch.
#[derive(Debug)]
struct WaitingRequest {
    documents: Vec<Document>,
    deadline: Instant,
    reply: oneshot::Sender<Result<AnsweredRequest, Failure>>,
    /// Slots of the documents in the queue.
    _slots: OwnedSemaphorePermit,
}

/// Queue of documents that wait for answers.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    state: Arc<State>,
    /// Channel to the thread that answers batches.
    batches: Sender<WaitingRequest>,
    /// One slot for each document that may wait.
    slots: Arc<Semaphore>,
    /// One slot for each document of a stream that may wait. Streams take no slots from other
    /// requests.
    stream_slots: Arc<Semaphore>,
    max_stream_batch: usize,
    /// One permit for each concurrent search outside of batches.
    searches: Arc<Semaphore>,
}

impl Queue {
    /// Starts the thread that answers batches. The thread ends when the last queue is dropped.
    pub(crate) fn start(state: &Arc<State>) -> std::io::Result<Self> {
        let (batches, waiting) = channel();
        let answering = Arc::clone(state);
        std::thread::Builder::new()
            .name("classify-queue".into())
            .spawn(move || answer_batches(&answering, &waiting))?;
        let threads = state.live().classifier.threads().count();
        let max_stream_batch = (state.options.max_waiting / 2).max(1);
        Ok(Self {
            state: Arc::clone(state),
            batches,
            slots: Arc::new(Semaphore::new(state.options.max_waiting.max(1))),
            stream_slots: Arc::new(Semaphore::new(max_stream_batch)),
            max_stream_batch,
            searches: Arc::new(Semaphore::new(threads * SEARCHES_PER_THREAD)),
        })
    }

    /// Answers documents before the deadline.
    pub(crate) async fn answer(
        &self,
        documents: Vec<Document>,
        mode: AnswerMode,
        source: DocumentSource,
    ) -> Result<AnsweredRequest, Failure> {
        let within = self.state.options.deadline;
        let count = u32::try_from(documents.len().max(1));
        let count = count.map_err(|_| Failure::Busy(Resource::Documents))?;
        let slots = match source {
            DocumentSource::Request => Arc::clone(&self.slots)
                .try_acquire_many_owned(count)
                .map_err(|_| Failure::Busy(Resource::Documents))?,
            DocumentSource::Stream => {
                let slots = Arc::clone(&self.stream_slots).acquire_many_owned(count);
                let slots = timeout(within, slots).await.map_err(|_| Failure::Deadline)?;
                slots.map_err(|_| Failure::Internal)?
            }
        };
        let deadline = Instant::now() + within;
        let outcome = async {
            match mode {
                AnswerMode::Predict => self.answer_in_batch(documents, deadline, slots).await,
                mode => self.answer_outside_batch(documents, mode, deadline, slots).await,
            }
        };
        timeout(within + GRACE, outcome).await.unwrap_or(Err(Failure::Deadline))
    }

    /// Returns the maximum number of documents per batch of a stream.
    pub(crate) fn max_stream_batch(&self) -> usize {
        self.max_stream_batch
    }

    async fn answer_in_batch(
        &self,
        documents: Vec<Document>,
        deadline: Instant,
        slots: OwnedSemaphorePermit,
    ) -> Result<AnsweredRequest, Failure> {
        let (reply, answer) = oneshot::channel();
        let waiting = WaitingRequest { documents, deadline, reply, _slots: slots };
        self.batches.send(waiting).map_err(|_| Failure::Internal)?;
        answer.await.unwrap_or(Err(Failure::Internal))
    }

    async fn answer_outside_batch(
        &self,
        documents: Vec<Document>,
        mode: AnswerMode,
        deadline: Instant,
        slots: OwnedSemaphorePermit,
    ) -> Result<AnsweredRequest, Failure> {
        let search = Arc::clone(&self.searches).acquire_owned().await;
        let search = search.map_err(|_| Failure::Internal)?;
        let state = Arc::clone(&self.state);
        let outcome = tokio::task::spawn_blocking(move || {
            // The search holds both permits until it ends, even if its client is gone.
            let _slots = slots;
            let _search = search;
            state.metrics.batches.observe(documents.len() as f64);
            answer_alone(state.live(), documents, mode, deadline)
        });
        outcome.await.unwrap_or_else(|_| {
            report_panic(&self.state);
            Err(Failure::Internal)
        })
    }
}

fn report_panic(state: &State) {
    state.metrics.panics.inc();
    tracing::error!("a search panicked: its requests are answered with 500");
}

fn answer_batches(state: &State, waiting: &Receiver<WaitingRequest>) {
    let mut neighbors = FoundNeighbors::default();
    while let Ok(first) = waiting.recv() {
        let mut count = first.documents.len();
        let mut requests = vec![first];
        while count < MAX_BATCH
            && let Ok(request) = waiting.try_recv()
        {
            count += request.documents.len();
            requests.push(request);
        }
        // Clients may have closed their connections.
        requests.retain(|request| !request.reply.is_closed());
        let now = Instant::now();
        let late = requests.extract_if(.., |request| request.deadline <= now);
        for request in late {
            let _ = request.reply.send(Err(Failure::Deadline));
        }
        state.metrics.batches.observe(count as f64);
        // A panic loses the answers of this batch, because their senders are dropped. The next
        // batch continues.
        let outcome =
            catch_unwind(AssertUnwindSafe(|| answer_batch(state, requests, &mut neighbors)));
        if outcome.is_err() {
            neighbors = FoundNeighbors::default();
            report_panic(state);
        }
    }
}

/// Answers several requests with one search.
fn answer_batch(state: &State, mut requests: Vec<WaitingRequest>, neighbors: &mut FoundNeighbors) {
    // The latest deadline of the requests applies to the batch.
    let Some(deadline) = requests.iter().map(|request| request.deadline).max() else { return };
    let live = state.live();
    let mut documents = Vec::new();
    let mut counts = Vec::new();
    for request in &mut requests {
        counts.push(request.documents.len());
        documents.append(&mut request.documents);
    }
    let stop = Stop::at(deadline);
    match predict(&live, &documents, &live.options, &stop, neighbors) {
        Ok(predictions) => {
            let mut documents = documents.into_iter();
            let mut predictions = predictions.into_iter();
            for (request, count) in requests.into_iter().zip(counts) {
                let results = predictions.by_ref().take(count).collect();
                let outcome = AnsweredRequest {
                    live: Arc::clone(&live),
                    documents: documents.by_ref().take(count).collect(),
                    results: Results::Predictions(results),
                };
                let _ = request.reply.send(Ok(outcome));
            }
        }
        // One document is invalid. The other requests are answered separately.
        Err(ClassifyError::Document(_)) if requests.len() > 1 => {
            let mut documents = documents.into_iter();
            for (mut request, count) in requests.into_iter().zip(counts) {
                request.documents = documents.by_ref().take(count).collect();
                answer_batch(state, vec![request], neighbors);
            }
        }
        Err(ClassifyError::Search(error)) => {
            for request in requests {
                let _ = request.reply.send(Err(error.clone().into()));
            }
        }
        Err(error) => {
            if let Some(request) = requests.pop() {
                let _ = request.reply.send(Err(error.into()));
            }
        }
    }
}

/// Answers one request with its own search.
fn answer_alone(
    live: Arc<LiveModel>,
    documents: Vec<Document>,
    mode: AnswerMode,
    deadline: Instant,
) -> Result<AnsweredRequest, Failure> {
    let stop = Stop::at(deadline);
    let mut options = live.options.clone();
    let results = if mode == AnswerMode::Explain {
        Results::Explanations(explain_until(&live.classifier, &documents, &options, &stop)?)
    } else {
        if let AnswerMode::PredictWith(k) = mode
            && k != options.k
        {
            // The limits were learned for the model's number of neighbors.
            options.abstention = None;
            options.novelty = None;
            options.k = k;
        }
        let mut neighbors = FoundNeighbors::default();
        Results::Predictions(predict(&live, &documents, &options, &stop, &mut neighbors)?)
    };
    Ok(AnsweredRequest { live, documents, results })
}

fn predict(
    live: &LiveModel,
    documents: &[Document],
    options: &ClassifyOptions,
    stop: &Stop,
    neighbors: &mut FoundNeighbors,
) -> Result<Vec<RawPrediction>, ClassifyError> {
    let vectors = live.classifier.vectorize(documents)?;
    let _ = live.classifier.neighbors_until(&vectors, options, stop, neighbors)?;
    Ok(live.classifier.predict_from_neighbors(&vectors, neighbors, options))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use axum::http::StatusCode;
    use classify::classifier::Classifier;
    use classify::search::{NeighborLists, Report, Request, Search, SearchError};

    use super::*;
    use crate::test_server::{TestServer, request, threads};

    const TEXT: &str = r#"{"text": "apple"}"#;
    /// Searches for this many neighbors wait at the gate.
    const HELD_K: usize = 7;

    /// An engine that blocks searches for `HELD_K` neighbors until the barrier is full.
    #[derive(Debug)]
    struct Gate {
        engine: Arc<dyn Search>,
        barrier: Arc<Barrier>,
    }

    impl Search for Gate {
        fn rows(&self) -> u32 {
            self.engine.rows()
        }

        fn search(
            &self,
            request: &Request<'_>,
            neighbors: &mut NeighborLists,
        ) -> Result<Report, SearchError> {
            if request.k.get() == HELD_K {
                self.barrier.wait();
            }
            self.engine.search(request, neighbors)
        }
    }

    fn gated_server(barrier: &Arc<Barrier>) -> TestServer {
        let server = TestServer::with(|options| {
            options.deadline = Duration::from_secs(5);
            options.max_waiting = 8;
        });
        let live = server.shared.state.live();
        let engine = Arc::clone(live.classifier.searchers().terms.as_ref().unwrap());
        let gate = Gate { engine, barrier: Arc::clone(barrier) };
        let model = Arc::clone(live.model());
        let classifier = Classifier::with_engine(model, Arc::new(gate), &threads());
        server.shared.state.set_live(LiveModel::new(classifier, None));
        server
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn searches_with_their_own_k_run_concurrently() {
        let server = gated_server(&Arc::new(Barrier::new(2)));
        let path = format!("/v1/predict?k={HELD_K}");
        let (first, second) =
            tokio::join!(server.send("POST", &path, TEXT), server.send("POST", &path, TEXT));
        assert_eq!([first.status, second.status], [StatusCode::OK; 2]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn streams_leave_slots_for_other_requests() {
        let barrier = Arc::new(Barrier::new(2));
        let server = gated_server(&barrier);
        let path = format!("/v1/predict?k={HELD_K}");
        let head = request("POST", &path).header("content-type", "application/x-ndjson");
        let stream = server.request(head, format!("{TEXT}\n").repeat(8));
        let other = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let reply = server.send("POST", "/v1/predict", TEXT).await;
            // The stream is answered in two batches.
            let release = move || {
                barrier.wait();
                barrier.wait();
            };
            tokio::task::spawn_blocking(release).await.unwrap();
            reply.status
        };
        let (stream, other) = tokio::join!(stream, other);
        assert_eq!(other, StatusCode::OK);
        assert_eq!(stream.body.lines().count(), 8);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn predictions_do_not_wait_for_searches_with_their_own_k() {
        let barrier = Arc::new(Barrier::new(2));
        let server = gated_server(&barrier);
        let path = format!("/v1/predict?k={HELD_K}");
        let held = server.send("POST", &path, TEXT);
        let quick = async {
            // The other request must arrive first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let reply = server.send("POST", "/v1/predict", TEXT).await;
            let explained = server.send("POST", "/v1/explain", TEXT).await;
            tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
            [reply.status, explained.status]
        };
        let (held, quick) = tokio::join!(held, quick);
        assert_eq!(quick, [StatusCode::OK; 2]);
        assert_eq!(held.status, StatusCode::OK);
    }
}
