//! Evaluates a classifier on a test corpus. The stages (read, vectorize, search, vote and tally)
//! run concurrently. Then the metrics are computed.

use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;

use super::evaluation::Evaluation;
use super::evaluator::Evaluator;
use super::part::{Counter, PredictedDocument, Tally};
use crate::classifier::stream::{HandOver, Pipeline, PipelineError, Source, VectorizedBatch};
use crate::classifier::vectors::LabeledDocument;
use crate::classifier::{
    Classifier, ClassifyError, ClassifyOptions, FoundNeighbors, PredictionBuffer, Predictor,
    Probabilities, RawPrediction,
};
use crate::decide::calibrate::Shift;
use crate::decide::vote::Voters;
use crate::search::Neighbor;
use crate::stages::{PipelineProgress, Stage};
use crate::text::corpus::{CorpusError, Place, Problem};
use crate::threads::Threads;

/// Number of documents that are tallied per task.
const DOCUMENTS_PER_PART: usize = 512;

/// The options of an evaluation.
#[derive(Debug, Clone, Default)]
pub struct EvaluateOptions {
    /// The name of the test corpus in error messages.
    pub name: String,
    /// Maximum number of documents that are searched together. Ignored if the decision rule needs
    /// the whole batch.
    pub batch: usize,
    /// Whether the result contains the prediction for every document.
    pub per_document: bool,
    /// The seed for resampling documents to estimate intervals.
    pub seed: u64,
    /// The stages before the evaluation, which come first in the list of stages.
    pub stages: Vec<Stage>,
}

/// An error that stopped an evaluation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A document could not be read or does not match the model, the search failed, or there are no
    /// documents.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A thread panicked.
    #[error("{0} ended with an internal error")]
    Panicked(&'static str),
}

impl From<PipelineError<Infallible>> for EvaluateError {
    fn from(error: PipelineError<Infallible>) -> Self {
        match error {
            PipelineError::Classify(error) => Self::Classify(error),
            PipelineError::Receive(never) => match never {},
            PipelineError::Thread(error) => Self::Thread(error),
            PipelineError::Reader => Self::Panicked("reading the documents"),
            PipelineError::Panicked(what) => Self::Panicked(what),
        }
    }
}

impl From<CorpusError> for EvaluateError {
    fn from(error: CorpusError) -> Self {
        Self::Classify(error.into())
    }
}

/// A batch of documents with their predictions.
struct PredictedBatch {
    documents: Vec<LabeledDocument>,
    /// One part per [`DOCUMENTS_PER_PART`] documents.
    parts: Vec<BatchPart>,
}

/// Predictions for a part of a batch.
enum BatchPart {
    /// The tally, if all labels of the documents are known.
    Tallied(Box<Tally>),
    /// The predictions, and whether each is tied at k. Unknown labels get their numbers in the
    /// order of the documents, so these predictions are tallied later.
    Predictions(Vec<(RawPrediction, bool)>),
}

impl PredictedBatch {
    /// Predicts labels, and tallies the parts of the batch in parallel. `predict` predicts the
    /// labels of the document at an index. It returns whether a further row is as similar as the
    /// last neighbor that voted.
    fn new(
        documents: Vec<LabeledDocument>,
        predict: impl Fn(usize, &mut PredictionBuffer) -> bool + Sync,
        counter: &Counter,
    ) -> Self {
        let count = |predicted: &mut PredictionBuffer, start: usize| {
            let indices = start..documents.len().min(start + DOCUMENTS_PER_PART);
            let known =
                indices.clone().map(|index| counter.known_label_numbers(&documents[index].labels));
            let Some(numbers) = known.collect::<Option<Vec<_>>>() else {
                let predictions = indices.map(|index| {
                    let tied_at_k = predict(index, predicted);
                    (predicted.prediction.clone(), tied_at_k)
                });
                return BatchPart::Predictions(predictions.collect());
            };
            let mut tally = counter.tally();
            for (index, numbers) in indices.zip(numbers) {
                let tied_at_k = predict(index, predicted);
                let document =
                    predicted_document(&documents[index], &predicted.prediction, tied_at_k);
                tally.add(counter, &document, numbers);
            }
            BatchPart::Tallied(Box::new(tally))
        };
        // The predictions of a part are tallied while they are in the cache.
        let starts = (0..documents.len()).into_par_iter().step_by(DOCUMENTS_PER_PART);
        let parts = starts.map_init(PredictionBuffer::default, count).collect();
        Self { documents, parts }
    }

    fn add_to(&mut self, evaluator: &mut Evaluator) {
        let documents = self.documents.chunks(DOCUMENTS_PER_PART);
        for (documents, part) in documents.zip(std::mem::take(&mut self.parts)) {
            match part {
                BatchPart::Tallied(tally) => evaluator.append(*tally),
                BatchPart::Predictions(predictions) => {
                    let each = documents.iter().zip(&predictions);
                    evaluator.add_all(each.map(|(document, (prediction, tied_at_k))| {
                        predicted_document(document, prediction, *tied_at_k)
                    }));
                }
            }
        }
    }
}

fn predicted_document<'a>(
    document: &'a LabeledDocument,
    prediction: &'a RawPrediction,
    tied_at_k: bool,
) -> PredictedDocument<'a> {
    let LabeledDocument { id, labels } = document;
    PredictedDocument { id, labels, prediction, tied_at_k }
}

/// Classifies test documents and computes the metrics. Each stage runs on its own thread.
///
/// After each batch, `progress` is called with the number of documents so far and the busiest
/// stage.
///
/// # Errors
/// Returns the first error of the documents or the search. Fails if the test corpus has no
/// documents.
pub fn evaluate(
    classifier: &Classifier,
    options: &ClassifyOptions,
    test: Source,
    evaluate: EvaluateOptions,
    progress: &dyn Fn(&PipelineProgress<'_>),
) -> Result<Evaluation, EvaluateError> {
    let tally = tally(classifier, options, test, evaluate, progress)?;
    Ok(tally.measure(classifier.threads()))
}

/// The tallied predictions for a test corpus.
#[derive(Debug)]
pub struct EvaluationTally {
    evaluator: Evaluator,
    seed: u64,
    stages: Vec<Stage>,
    shift: Option<Shift>,
}

impl EvaluationTally {
    /// Computes the metrics and their intervals.
    pub fn measure(self, threads: &Threads) -> Evaluation {
        let evaluation = self.evaluator.finish(self.seed, threads, self.stages);
        Evaluation { shift: self.shift, ..evaluation }
    }
}

/// Classifies test documents and tallies the predictions: the first part of [`evaluate`]. The
/// classifier is not needed afterwards.
///
/// # Errors
/// Returns the same errors as [`evaluate`].
pub fn tally(
    classifier: &Classifier,
    options: &ClassifyOptions,
    test: Source,
    evaluate: EvaluateOptions,
    progress: &dyn Fn(&PipelineProgress<'_>),
) -> Result<EvaluationTally, EvaluateError> {
    let EvaluateOptions { name, batch, per_document, seed, mut stages } = evaluate;
    let start = Instant::now();
    let mut evaluator = Evaluator::new(Arc::clone(classifier.model()), options.clone());
    if per_document {
        evaluator = evaluator.with_documents();
    }
    let options = ClassifyOptions { probabilities: Probabilities::Predicted, ..options.clone() };
    // Search for one more neighbor than the k that vote, to detect a tie with the last of them.
    let one_more = ClassifyOptions { k: options.k.saturating_add(1), ..options.clone() };
    let pipeline = Pipeline {
        classifier,
        options: &one_more,
        batch,
        waits_for_full_batches: true,
        prefix: "test: ",
        last: "tally",
    };
    let threads = classifier.threads();
    let monitor = classifier.shift_monitor(&options);
    let counter = evaluator.counter.clone();
    let vote = |batch: VectorizedBatch,
                neighbors: &FoundNeighbors,
                hand_over: HandOver<'_, PredictedBatch>| {
        let VectorizedBatch { documents, vectors } = batch;
        let predicted = threads.run(|| {
            let predictor = Predictor::new(classifier, &vectors, neighbors, &options);
            let predict = |at: usize, predicted: &mut PredictionBuffer| {
                predictor.predict(at, predicted);
                if let Some(monitor) = &monitor {
                    monitor.add(predictor.properties(at));
                }
                is_tied_at(options.k, neighbors.get(at))
            };
            PredictedBatch::new(documents, predict, &counter)
        });
        hand_over(predicted.documents.len(), predicted);
    };
    let mut done = 0;
    let pipeline_stages = pipeline.run(test, vote, |mut batch, so_far| {
        batch.add_to(&mut evaluator);
        done = so_far.documents;
        progress(so_far);
        // Freeing many small allocations takes time, so another thread does it.
        threads.spawn(move || drop(batch));
        Ok::<(), Infallible>(())
    })?;
    if done == 0 {
        let place = Place { source: name.as_str().into(), line: None };
        return Err(CorpusError { place, problem: Problem::NoDocument }.into());
    }
    stages.extend(pipeline_stages);
    stages.push(Stage::since("test: total, with concurrent stages", done, start));
    let shift = monitor.and_then(|monitor| monitor.shift());
    Ok(EvaluationTally { evaluator, seed, stages, shift })
}

/// Whether the neighbor after the `k`-th is as similar as the `k`-th in one of the lists.
fn is_tied_at(k: NonZeroUsize, voters: Voters<'_>) -> bool {
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
    use crate::decide::decision::DecisionOptions;
    use crate::decide::vote::LabelScore;
    use crate::learn::{TrainOptions, Trainer};
    use crate::model::Model;
    use crate::text::corpus::{Corpus, ReadOptions};
    use crate::threads::Threads;

    fn trained(lines: &[u8], decision: DecisionOptions) -> Arc<Model> {
        let corpus = Corpus::from_bytes("in", lines.to_vec(), ReadOptions::default());
        let options = TrainOptions { decision, tuning: None, ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).build();
        Arc::new(trainer.train(corpus.expect("it opens")).expect("it is a corpus").model)
    }

    /// Returns a document and its prediction. The document has the label a, b or c, a new label, or
    /// none.
    fn generated(number: u32) -> (LabeledDocument, RawPrediction) {
        let label = match number % 7 {
            0 if number > 1_500 => format!("new{}", number / 1_000),
            rest => ["a", "b", "c"][rest as usize % 3].to_owned(),
        };
        let labels = (!number.is_multiple_of(11)).then_some(label).into_iter().collect();
        let first = number % 3;
        let score = |label, score| LabelScore { label, score };
        let prediction = RawPrediction {
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
        (LabeledDocument { id: number.to_string(), labels }, prediction)
    }

    /// A rule that decides on all documents together works with any number of documents.
    #[test]
    fn shares_apply_to_all_documents() {
        let threads = Threads::available().expect("threads start");
        let lines = b"{\"text\": \"bread\", \"label\": \"a\"}\n\
                      {\"text\": \"bread guitar\", \"label\": \"b\"}";
        let rule = Some("pcut".parse().expect("a rule"));
        let model = trained(
            lines,
            DecisionOptions { multi_label: Some(true), rule, ..DecisionOptions::default() },
        );
        let classifier = Classifier::new(Arc::clone(&model), &threads).expect("it is a model");
        // All documents of label b come last. The rule may give it to half of all documents, which
        // is more than the last batch contains.
        let document = |number: u32| {
            let text = if number < 15_000 { "bread" } else { "guitar" };
            let line = format!("{{\"text\": \"{text}\", \"label\": \"a\"}}").into_bytes();
            let mut corpus = Corpus::from_bytes("in", line, ReadOptions::default())?;
            corpus.next().expect("one line")
        };
        let documents: Result<Vec<_>, _> = (0..20_000).map(document).collect();
        let documents = documents.expect("they are documents");
        let options = ClassifyOptions::of(&model);
        let predictions = classifier.predict_documents(&documents, &options).expect("they match");
        let names = |one: &RawPrediction| {
            one.labels
                .iter()
                .map(|&label| model.label_name(label))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let expected: Vec<_> = predictions.iter().map(names).collect();
        let test = Source::Documents(Box::new(documents.into_iter().map(Ok)));
        let setup = EvaluateOptions { batch: 1_000, per_document: true, ..Default::default() };
        let evaluation = evaluate(&classifier, &options, test, setup, &|_| ()).expect("they match");
        let given = evaluation.per_document.expect("they were requested");
        assert!(given.into_iter().map(|one| one.predicted).eq(expected));
    }

    /// Among equally bad errors, the first ones are kept. New labels are numbered in the order of
    /// their first documents.
    #[test]
    fn batches_count_like_single_documents() {
        let threads = Threads::available().expect("threads start");
        let lines =
            ["a", "b", "c"].map(|label| format!("{{\"text\": \"x\", \"label\": \"{label}\"}}"));
        for allow_none in [false, true] {
            let multi_label = allow_none.then_some(true);
            let decision =
                DecisionOptions { multi_label, allow_none, ..DecisionOptions::default() };
            let model = trained(lines.join("\n").as_bytes(), decision);
            let options = ClassifyOptions::of(&model);
            let evaluator = || Evaluator::new(Arc::clone(&model), options.clone()).with_documents();
            let finish = |evaluator: Evaluator| {
                let result = evaluator.finish(0, &threads, Vec::new());
                Evaluation { stages: Vec::new(), peak_memory_bytes: None, ..result }
            };
            let mut one_by_one = evaluator();
            let mut in_batches = evaluator();
            for number in 0..4_000 {
                let (LabeledDocument { id, labels }, prediction) = generated(number);
                one_by_one.add(&id, &labels, &prediction, number.is_multiple_of(5));
            }
            for batch in [0..1, 1..1, 1..2_000, 2_000..4_000] {
                let first = batch.start;
                let (documents, predictions): (Vec<_>, Vec<_>) = batch.map(generated).unzip();
                let predict = |at: usize, predicted: &mut PredictionBuffer| {
                    predicted.prediction.clone_from(&predictions[at]);
                    (first + u32::try_from(at).expect("few")).is_multiple_of(5)
                };
                let mut batch =
                    threads.run(|| PredictedBatch::new(documents, predict, &in_batches.counter));
                batch.add_to(&mut in_batches);
            }
            let result = finish(in_batches);
            assert_eq!(result.labels.unseen, ["new1", "new2", "new3"]);
            assert_eq!(result.per_document.as_ref().map(Vec::len), Some(4_000));
            assert_eq!(result, finish(one_by_one));
        }
    }
}
