//! Requests that arrive together are searched together: on-line batches (Barrientos 2011, section 4.3.3).
//!
//! One thread takes what has arrived while it was busy with the last batch. So a single request does not wait for others, and
//! the more requests there are, the larger the batches become, which cost less per document.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::state::{Live, State};
use classify::classifier::{ClassifyError, ClassifyOptions, FoundNeighbors, Prediction};
use classify::corpus::Document;
use classify::explain::{Explanation, explain_until};
use classify::search::{SearchError, Stop};

/// Documents that are searched together at most, unless one request has more.
const TOGETHER: usize = 256;

/// How much longer than its deadline an answer may take.
const GRACE: Duration = Duration::from_secs(1);

/// What is wanted of documents.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// Predictions, with the model's options.
    Predictions,
    /// Predictions by another number of neighbors.
    By(NonZeroUsize),
    /// Explanations.
    Explanations,
}

/// Documents that wait for an answer.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) documents: Vec<Document>,
    pub(crate) wanted: Wanted,
    pub(crate) deadline: Instant,
    reply: oneshot::Sender<Result<Done, Refusal>>,
    /// Their places in the queue.
    _places: OwnedSemaphorePermit,
}

/// Answered documents.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) live: Arc<Live>,
    pub(crate) documents: Vec<Document>,
    pub(crate) predictions: Vec<Prediction>,
    /// Instead of predictions, if these were wanted.
    pub(crate) explanations: Vec<Explanation>,
}

/// Why documents were not answered.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Too many wait already.
    Full,
    /// It took too long.
    Late,
    /// A document does not fit the model, or the search failed.
    Failed(ClassifyError),
    /// The search panicked, or the server is ending.
    Lost,
}

/// Where documents wait.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    tasks: Sender<Task>,
    places: Arc<Semaphore>,
}

impl Queue {
    /// Starts the thread that answers. It ends when the last queue is dropped.
    pub(crate) fn start(state: &Arc<State>) -> std::io::Result<Self> {
        let (tasks, waiting) = channel();
        let places = Arc::new(Semaphore::new(state.options.queue.max(1)));
        let state = Arc::clone(state);
        std::thread::Builder::new()
            .name("classify-queue".into())
            .spawn(move || answer_all(&state, &waiting))?;
        Ok(Self { tasks, places })
    }

    /// Answers documents within some time. If there is no place for them, it is refused at once, or waits as long if it
    /// `may_wait`.
    pub(crate) async fn answer(
        &self,
        documents: Vec<Document>,
        wanted: Wanted,
        (within, may_wait): (Duration, bool),
    ) -> Result<Done, Refusal> {
        let count = u32::try_from(documents.len().max(1)).map_err(|_| Refusal::Full)?;
        let places = Arc::clone(&self.places);
        let places = if may_wait {
            let acquired = tokio::time::timeout(within, places.acquire_many_owned(count)).await;
            acquired.map_err(|_| Refusal::Late)?.map_err(|_| Refusal::Lost)?
        } else {
            places.try_acquire_many_owned(count).map_err(|_| Refusal::Full)?
        };
        let (reply, answer) = oneshot::channel();
        let deadline = Instant::now() + within;
        let task = Task { documents, wanted, deadline, reply, _places: places };
        self.tasks.send(task).map_err(|_| Refusal::Lost)?;
        // A search ends at the deadline; what is around it takes a little longer.
        let answered = tokio::time::timeout(within + GRACE, answer).await;
        answered.map_err(|_| Refusal::Late)?.unwrap_or(Err(Refusal::Lost))
    }
}

fn answer_all(state: &State, waiting: &Receiver<Task>) {
    let mut found = FoundNeighbors::default();
    while let Ok(first) = waiting.recv() {
        let mut count = first.documents.len();
        let mut tasks = vec![first];
        while count < TOGETHER
            && let Ok(task) = waiting.try_recv()
        {
            count += task.documents.len();
            tasks.push(task);
        }
        let now = Instant::now();
        // Nobody waits for some of them any more.
        tasks.retain(|task| !task.reply.is_closed());
        let (tasks, late): (Vec<Task>, Vec<Task>) =
            tasks.into_iter().partition(|task| task.deadline > now);
        for task in late {
            let _ = task.reply.send(Err(Refusal::Late));
        }
        let (together, alone): (Vec<Task>, Vec<Task>) =
            tasks.into_iter().partition(|task| matches!(task.wanted, Wanted::Predictions));
        state.metrics.batches.observe(count as f64);
        // A panic loses the answers of this batch: their senders are dropped, and the next batch goes on.
        let answered = catch_unwind(AssertUnwindSafe(|| {
            answer_together(state, together, &mut found);
            for task in alone {
                answer_alone(state, task);
            }
        }));
        if answered.is_err() {
            found = FoundNeighbors::default();
            state.metrics.panics.inc();
            tracing::error!("a search panicked: its requests are answered with 500");
        }
    }
}

/// Answers with the model's options, in one search.
fn answer_together(state: &State, mut tasks: Vec<Task>, found: &mut FoundNeighbors) {
    if tasks.is_empty() {
        return;
    }
    let live = state.live();
    let mut documents = Vec::new();
    let mut counts = Vec::new();
    for task in &mut tasks {
        counts.push(task.documents.len());
        documents.append(&mut task.documents);
    }
    // Each request is to end in time; the batch has the time of the one that has most.
    let deadline = tasks.iter().map(|task| task.deadline).max();
    let stop = deadline.map_or_else(Stop::new, Stop::at);
    let predictions = predict(&live, &documents, &live.options, &stop, found);
    match predictions {
        Ok(predictions) => {
            let (mut documents, mut predictions) = (documents.into_iter(), predictions.into_iter());
            for (task, count) in tasks.into_iter().zip(counts) {
                let done = Done {
                    live: Arc::clone(&live),
                    documents: documents.by_ref().take(count).collect(),
                    predictions: predictions.by_ref().take(count).collect(),
                    explanations: Vec::new(),
                };
                let _ = task.reply.send(Ok(done));
            }
        }
        // One document is wrong: find out whose.
        Err(ClassifyError::Document(_)) if tasks.len() > 1 => {
            let mut documents = documents.into_iter();
            for (mut task, count) in tasks.into_iter().zip(counts) {
                task.documents = documents.by_ref().take(count).collect();
                answer_together(state, vec![task], found);
            }
        }
        Err(ClassifyError::Search(error)) => {
            for task in tasks {
                let _ = task.reply.send(Err(refusal(ClassifyError::Search(error.clone()))));
            }
        }
        Err(error) => {
            if let Some(task) = tasks.pop() {
                let _ = task.reply.send(Err(refusal(error)));
            }
        }
    }
}

fn refusal(error: ClassifyError) -> Refusal {
    match error {
        ClassifyError::Search(SearchError::Stopped) => Refusal::Late,
        error => Refusal::Failed(error),
    }
}

fn predict(
    live: &Live,
    documents: &[Document],
    options: &ClassifyOptions,
    stop: &Stop,
    found: &mut FoundNeighbors,
) -> Result<Vec<Prediction>, ClassifyError> {
    let vectors = live.classifier.vectorize(documents)?;
    let _ = live.classifier.neighbors_until(&vectors, options, stop, found)?;
    Ok(live.classifier.predict(&vectors, found, options))
}

/// Answers one request.
fn answer_alone(state: &State, task: Task) {
    let live = state.live();
    let Task { documents, wanted, deadline, reply, _places } = task;
    let stop = Stop::at(deadline);
    let mut found = FoundNeighbors::default();
    let answered = match &wanted {
        Wanted::Explanations => explain_until(&live.classifier, &documents, &live.options, &stop)
            .map(|explanations| (Vec::new(), explanations)),
        Wanted::Predictions => predict(&live, &documents, &live.options, &stop, &mut found)
            .map(|predictions| (predictions, Vec::new())),
        Wanted::By(k) => {
            let mut options = live.options.clone();
            // What was learned for the model's number does not fit another one.
            if *k != options.k {
                options.abstention = None;
                options.foreign = None;
            }
            options.k = *k;
            predict(&live, &documents, &options, &stop, &mut found)
                .map(|predictions| (predictions, Vec::new()))
        }
    };
    let answered = match answered {
        Ok((predictions, explanations)) => Ok(Done { live, documents, predictions, explanations }),
        Err(error) => Err(refusal(error)),
    };
    let _ = reply.send(answered);
}
