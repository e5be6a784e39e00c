//! Delivers the predictions for a stream of documents to a receiver.

use std::io;

use rayon::prelude::*;

use super::pipeline::{HandOver, Pipeline, PipelineError, VectorizedBatch};
use super::source::Source;
use crate::classifier::{
    Classifier, ClassifyError, ClassifyOptions, FoundNeighbors, PredictionBuffer, Predictor,
    RawPrediction,
};
use crate::decide::calibrate::Shift;
use crate::search::SearchError;
use crate::stages::{PipelineProgress, Stage};
use crate::text::corpus::CorpusError;

/// Maximum number of stored vectors classified together. Batches of documents are smaller.
const MAX_BATCH_DOCUMENTS: usize = 16_384;
/// Maximum number of predictions formatted at a time, to limit memory.
const MAX_FORMATTED_PREDICTIONS: usize = 2_048;

/// A receiver of predictions.
pub trait Answers {
    /// The error of a prediction that cannot be accepted.
    type Error;
    /// A formatted prediction, such as a line of text. It may be created on any thread.
    type Formatted: Send;

    /// Receives the formatted prediction for the next document.
    ///
    /// # Errors
    /// Fails if the prediction cannot be accepted. The error ends the stream.
    fn answer(&mut self, formatted: Self::Formatted) -> Result<(), Self::Error>;

    /// Flushes earlier predictions. This is called after some predictions, at the end, and whenever
    /// no further prediction is ready.
    ///
    /// # Errors
    /// Fails if earlier predictions cannot be flushed.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Receives the progress of the stages after some predictions. The default implementation does
    /// nothing.
    fn progress(&mut self, _so_far: &PipelineProgress<'_>) {}
}

/// An error that ended a stream before its last document.
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
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The reader thread panicked.
    #[error("an internal error ended the reading of documents")]
    Reader,
    /// Another thread panicked.
    #[error("{0} ended with an internal error")]
    Panicked(&'static str),
}

impl<E> From<PipelineError<E>> for StreamError<E> {
    fn from(error: PipelineError<E>) -> Self {
        match error {
            PipelineError::Classify(ClassifyError::Document(error)) => Self::Corpus(error),
            PipelineError::Classify(ClassifyError::Search(error)) => Self::Search(error),
            PipelineError::Receive(error) => Self::Answer(error),
            PipelineError::Thread(error) => Self::Thread(error),
            PipelineError::Reader => Self::Reader,
            PipelineError::Panicked(what) => Self::Panicked(what),
        }
    }
}

/// A summary of a stream that was classified.
#[derive(Debug, Clone)]
pub struct StreamSummary {
    /// The time of each stage.
    pub stages: Vec<Stage>,
    /// How the documents differ from the training documents. `None` if they do not, if there are
    /// too few documents to say, or if the model was trained without held-out documents.
    pub shift: Option<Shift>,
}

/// Reads documents, classifies them and delivers the predictions in order. Each stage runs on its
/// own thread. Returns a summary. `format` formats the identifier and prediction of
/// each document on the classifier's threads, and `answers` receives the result.
///
/// If the source is slow, each prediction is delivered immediately. If it is fast, documents that
/// arrive while others are being classified are classified together. Predictions before an error
/// are delivered.
///
/// # Errors
/// Returns the first error of the documents, the search or the receiver of predictions.
pub fn classify_stream<A: Answers>(
    classifier: &Classifier,
    options: &ClassifyOptions,
    source: Source,
    format: impl Fn(&str, &RawPrediction) -> A::Formatted + Send + Sync,
    answers: &mut A,
) -> Result<StreamSummary, StreamError<A::Error>> {
    let pipeline = Pipeline {
        classifier,
        options,
        batch: MAX_BATCH_DOCUMENTS,
        waits_for_full_batches: false,
        prefix: "",
        last: "write",
    };
    let threads = classifier.threads();
    let monitor = classifier.shift_monitor(options);
    let vote = |batch: VectorizedBatch, neighbors: &FoundNeighbors, hand_over: HandOver<'_, _>| {
        let VectorizedBatch { documents, vectors } = batch;
        let format_one =
            |predictor: &Predictor<'_>, predicted: &mut PredictionBuffer, index: usize| {
                predictor.predict(index, predicted);
                if let Some(monitor) = &monitor {
                    monitor.add(predictor.properties(index));
                }
                format(&documents[index].id, &predicted.prediction)
            };
        let prepare = || Predictor::new(classifier, &vectors, neighbors, options);
        if documents.len() == 1 && !options.decision.needs_batch() {
            // Predict on this thread: switching threads would take longer than predicting one
            // document.
            hand_over(1, vec![format_one(&prepare(), &mut PredictionBuffer::default(), 0)]);
            return;
        }
        let predictor = threads.run(prepare);
        let mut from = 0;
        while from < documents.len() {
            let to = documents.len().min(from + MAX_FORMATTED_PREDICTIONS);
            let format_each =
                |predicted: &mut PredictionBuffer, index| format_one(&predictor, predicted, index);
            let each = (from..to).into_par_iter().map_init(PredictionBuffer::default, format_each);
            let ready: Vec<A::Formatted> = threads.run(|| each.collect());
            if !hand_over(to - from, ready) {
                break;
            }
            from = to;
        }
    };
    let stages = pipeline.run(source, vote, |ready, so_far| {
        ready.into_iter().try_for_each(|formatted| answers.answer(formatted))?;
        answers.progress(so_far);
        answers.flush()
    })?;
    // Flush even if there were no documents.
    answers.flush().map_err(StreamError::Answer)?;
    Ok(StreamSummary { stages, shift: monitor.and_then(|monitor| monitor.shift()) })
}
