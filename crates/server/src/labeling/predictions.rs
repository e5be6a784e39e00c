//! What the model says about the documents of a pool.
//!
//! A decision changes the predictions of similar documents. Those are predicted again at once; then
//! other documents, in turn, for a fixed time. All predictions are therefore updated after some
//! decisions, and the time of a decision does not depend on the size of the pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::classifier::{ClassifyError, RawPrediction};
use classify::model::Model;
use classify::propose::{Pool, Reason, uncertainty};
use classify::text::corpus::Document;

use crate::live::LiveModel;

/// The prediction of each document of a pool.
#[derive(Debug)]
pub(crate) struct Predictions {
    /// Without neighbors, and with the best labels only.
    all: Vec<RawPrediction>,
    uncertainty: Vec<f64>,
    /// Whether each document is in the model.
    is_labeled: Vec<bool>,
    /// The model in which `is_labeled` was looked up.
    seen: Arc<Model>,
    /// The next document to predict again in turn.
    turn: usize,
}

/// Maximum number of labels that are kept for each document.
const LABELS: usize = 20;
/// Number of documents that are predicted at once.
const BATCH: usize = 32;
/// The time for predicting documents again after a decision.
const TIME: Duration = Duration::from_millis(60);

impl Predictions {
    pub(crate) fn new(live: &LiveModel, documents: &[Document]) -> Result<Self, ClassifyError> {
        let mut predictions = Self {
            all: vec![RawPrediction::default(); documents.len()],
            uncertainty: vec![1.0; documents.len()],
            is_labeled: is_labeled(live, documents),
            seen: Arc::clone(live.model()),
            turn: 0,
        };
        predictions.predict_all(live, documents)?;
        Ok(predictions)
    }

    /// Finds out which documents are in the model, if the model changed. If it was replaced, all
    /// documents are predicted again.
    pub(crate) fn see(&mut self, live: &LiveModel, documents: &[Document]) {
        if Arc::ptr_eq(&self.seen, live.model()) {
            return;
        }
        let is_replaced = !std::ptr::eq(self.seen.vocabulary(), live.model().vocabulary());
        self.is_labeled = is_labeled(live, documents);
        self.seen = Arc::clone(live.model());
        if is_replaced {
            self.all.fill(RawPrediction::default());
            let predicted = self.predict_all(live, documents);
            predicted.unwrap_or_else(|error| report(&error));
        }
    }

    fn predict_all(
        &mut self,
        live: &LiveModel,
        documents: &[Document],
    ) -> Result<(), ClassifyError> {
        let rows: Vec<u32> = (0u32..).zip(documents).map(|(row, _)| row).collect();
        rows.chunks(BATCH * BATCH).try_for_each(|rows| self.predict(live, documents, rows))
    }

    /// Predicts the documents again that are similar to `changed` ones, and others in turn.
    pub(crate) fn update(
        &mut self,
        live: &LiveModel,
        documents: &[Document],
        pool: &Pool,
        changed: &[u32],
    ) {
        self.see(live, documents);
        let start = Instant::now();
        let near: Vec<u32> = changed.iter().flat_map(|&row| pool.near(row).chain([row])).collect();
        let others = (0..documents.len()).map(|step| (self.turn + step) % documents.len());
        let others: Vec<u32> = others.filter_map(|row| u32::try_from(row).ok()).collect();
        for rows in near.chunks(BATCH).chain(others.chunks(BATCH)) {
            if let Err(error) = self.predict(live, documents, rows) {
                return report(&error);
            }
            if start.elapsed() > TIME {
                break;
            }
        }
    }

    fn predict(
        &mut self,
        live: &LiveModel,
        documents: &[Document],
        rows: &[u32],
    ) -> Result<(), ClassifyError> {
        let chosen: Vec<Document> =
            rows.iter().map(|&row| documents[row as usize].clone()).collect();
        let predicted = live.classifier.predict_documents(&chosen, &live.options)?;
        let is_multi = live.model().settings().decision.is_multi();
        for (&row, mut prediction) in rows.iter().zip(predicted) {
            let at = row as usize;
            self.uncertainty[at] = uncertainty(&prediction, is_multi);
            prediction.neighbors = Vec::new();
            prediction.by_vectors = Vec::new();
            prediction.scores.truncate(LABELS);
            prediction.probabilities.truncate(LABELS);
            self.all[at] = prediction;
            if at == self.turn {
                self.turn = (at + 1) % documents.len();
            }
        }
        Ok(())
    }

    pub(crate) fn is_labeled(&self, row: u32) -> bool {
        self.is_labeled[row as usize]
    }

    /// Returns the number of documents in the model.
    pub(crate) fn labeled(&self) -> usize {
        self.is_labeled.iter().filter(|&&is_labeled| is_labeled).count()
    }

    pub(crate) fn uncertainty(&self, row: u32) -> f64 {
        self.uncertainty[row as usize]
    }

    pub(crate) fn reason<'a>(&self, model: &'a Model, row: u32) -> Reason<'a> {
        Reason::of(model, &self.all[row as usize])
    }

    /// Returns the names of the predicted labels of a document: of the best one if none was
    /// predicted although a document has one label.
    pub(crate) fn labels(&self, model: &Model, row: u32) -> Vec<String> {
        let prediction = &self.all[row as usize];
        let mut labels = prediction.labels.clone();
        if labels.is_empty() && !model.settings().decision.is_multi() {
            labels.extend(prediction.scores.first().map(|best| best.label));
        }
        labels.into_iter().map(|label| model.label_name(label).to_owned()).collect()
    }

    /// Returns the mean confidence of the documents that are not in the model, which is the share
    /// of right labels to expect. `None` if the model is not calibrated, or there are no such
    /// documents.
    pub(crate) fn expected(&self) -> Option<f64> {
        let open = self.all.iter().zip(&self.is_labeled).filter(|(_, is_labeled)| !**is_labeled);
        let confidence: Option<Vec<f64>> =
            open.map(|(prediction, _)| prediction.confidence).collect();
        let confidence = confidence.filter(|all| !all.is_empty())?;
        Some(confidence.iter().sum::<f64>() / confidence.len() as f64)
    }

    /// Returns the documents that are not in the model with the best scores of a label, and their
    /// scores.
    pub(crate) fn best_for(&self, label: u32, count: usize) -> Vec<(u32, f64)> {
        let scored = (0u32..).zip(&self.all).filter(|&(row, _)| !self.is_labeled(row));
        let scored = scored.filter_map(|(row, prediction)| {
            let found = prediction.scores.iter().find(|found| found.label == label)?;
            Some((row, found.score))
        });
        let mut scored: Vec<(u32, f64)> = scored.collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scored.truncate(count);
        scored
    }
}

/// Returns whether each document is in the model.
fn is_labeled(live: &LiveModel, documents: &[Document]) -> Vec<bool> {
    let is_there = |document: &Document| live.model().row_of(&document.id).is_some();
    documents.iter().map(is_there).collect()
}

fn report(error: &ClassifyError) {
    tracing::error!("the pool was not predicted again: {error}");
}
