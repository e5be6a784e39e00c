//! The model's predictions for the documents of a pool.
//!
//! A decision changes the predictions for similar documents. These documents are predicted again
//! immediately, followed by other documents in rotation, until a time limit is reached. All
//! predictions are therefore updated after enough decisions, and the time per decision does not
//! depend on the size of the pool.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::classifier::{ClassifyError, RawPrediction};
use classify::decide::vote::LabelScore;
use classify::model::Model;
use classify::propose::{Pool, Reason, expected_right, uncertainty};
use classify::text::corpus::Document;

use crate::live::LiveModel;

/// The prediction of each document of a pool.
#[derive(Debug)]
pub(crate) struct Predictions {
    /// The predictions, without neighbors and with the best labels only.
    all: Vec<RawPrediction>,
    uncertainty: Vec<f64>,
    /// Whether each document is in the model.
    is_labeled: Vec<bool>,
    /// The model in which `is_labeled` was looked up.
    seen: Arc<Model>,
    /// The identifiers that several documents of the model share. Decisions never add any.
    repeated: HashSet<String>,
    /// The next document to predict again in rotation.
    next_row: usize,
}

/// Maximum number of labels that are kept for each document.
const MAX_LABELS: usize = 20;
/// Number of documents that are predicted together.
const BATCH_SIZE: usize = 32;
/// Time limit for updating predictions after a decision.
const TIME_LIMIT: Duration = Duration::from_millis(60);

impl Predictions {
    pub(crate) fn new(live: &LiveModel, documents: &[Document]) -> Result<Self, ClassifyError> {
        let mut predictions = Self {
            all: vec![RawPrediction::default(); documents.len()],
            uncertainty: vec![1.0; documents.len()],
            is_labeled: is_labeled(live, documents),
            seen: Arc::clone(live.model()),
            repeated: repeated_ids(live.model()),
            next_row: 0,
        };
        predictions.predict_all(live, documents)?;
        Ok(predictions)
    }

    /// Updates `is_labeled` if the model has changed. If the model was replaced, predicts all
    /// documents again. Returns whether it was replaced.
    pub(crate) fn sync(&mut self, live: &LiveModel, documents: &[Document]) -> bool {
        if Arc::ptr_eq(&self.seen, live.model()) {
            return false;
        }
        let old = std::mem::replace(&mut self.seen, Arc::clone(live.model()));
        let is_replaced = !std::ptr::eq(old.vocabulary(), live.model().vocabulary());
        self.is_labeled = is_labeled(live, documents);
        if is_replaced {
            self.repeated = repeated_ids(live.model());
            self.all.fill(RawPrediction::default());
            let predicted = self.predict_all(live, documents);
            predicted.unwrap_or_else(|error| report(&error));
        } else {
            self.renumber(&old);
        }
        is_replaced
    }

    /// Renumbers the labels of the predictions, because a new label changes the numbers of later
    /// labels.
    fn renumber(&mut self, old: &Model) {
        if old.labels().iter().eq(self.seen.labels().iter()) {
            return;
        }
        let new: HashMap<&str, u32> = self.seen.labels().iter().zip(0..).collect();
        let number = |label: u32| new.get(old.label_name(label)).copied();
        for prediction in &mut self.all {
            let labels: Option<Vec<u32>> =
                prediction.labels.iter().map(|&label| number(label)).collect();
            let scores = prediction.scores.iter();
            let scores: Option<Vec<LabelScore>> = scores
                .map(|&found| Some(LabelScore { label: number(found.label)?, ..found }))
                .collect();
            match labels.zip(scores) {
                Some((labels, scores)) => {
                    prediction.labels = labels;
                    prediction.scores = scores;
                }
                None => *prediction = RawPrediction::default(),
            }
        }
    }

    /// Whether several documents of the model share the identifier.
    pub(crate) fn is_repeated(&self, id: &str) -> bool {
        self.repeated.contains(id)
    }

    fn predict_all(
        &mut self,
        live: &LiveModel,
        documents: &[Document],
    ) -> Result<(), ClassifyError> {
        let rows: Vec<u32> = (0u32..).zip(documents).map(|(row, _)| row).collect();
        rows.chunks(BATCH_SIZE * BATCH_SIZE)
            .try_for_each(|rows| self.predict(live, documents, rows))
    }

    /// Updates the predictions for documents similar to the `changed` documents, then for other
    /// documents in rotation.
    pub(crate) fn update(
        &mut self,
        live: &LiveModel,
        documents: &[Document],
        pool: &Pool,
        changed: &[u32],
    ) {
        let start = Instant::now();
        let near: Vec<u32> = changed.iter().flat_map(|&row| pool.near(row).chain([row])).collect();
        let others = (0..documents.len()).map(|step| (self.next_row + step) % documents.len());
        let others: Vec<u32> = others.filter_map(|row| u32::try_from(row).ok()).collect();
        let in_time = |_: &&[u32]| start.elapsed() < TIME_LIMIT;
        // Always predict one batch of other documents, so that every document is updated
        // eventually.
        let (first, rest) = others.split_at(BATCH_SIZE.min(others.len()));
        let near = near.chunks(BATCH_SIZE).take_while(in_time);
        let rest = rest.chunks(BATCH_SIZE).take_while(in_time);
        for rows in near.chain([first]).chain(rest) {
            if let Err(error) = self.predict(live, documents, rows) {
                return report(&error);
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
            let index = row as usize;
            self.uncertainty[index] = uncertainty(&prediction, is_multi);
            prediction.neighbors = Vec::new();
            prediction.by_vectors = Vec::new();
            prediction.scores.truncate(MAX_LABELS);
            prediction.probabilities.truncate(MAX_LABELS);
            self.all[index] = prediction;
            if index == self.next_row {
                self.next_row = (index + 1) % documents.len();
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

    /// Returns the reason why a document is proposed.
    pub(crate) fn reason(&self, row: u32) -> Reason<'_> {
        Reason::of(&self.seen, &self.all[row as usize])
    }

    /// Returns the names of the predicted labels of a document. In single-label mode, returns the
    /// best label if none was predicted.
    pub(crate) fn labels(&self, row: u32) -> Vec<String> {
        let prediction = &self.all[row as usize];
        let mut labels = prediction.labels.clone();
        let model = &self.seen;
        if labels.is_empty() && !model.settings().decision.is_multi() {
            labels.extend(prediction.scores.first().map(|best| best.label));
        }
        labels.into_iter().map(|label| model.label_name(label).to_owned()).collect()
    }

    /// Returns the [expected share](expected_right) of right labels of the documents that are not
    /// in the model. `None` if the model is not calibrated, or there are no such documents.
    pub(crate) fn expected(&self) -> Option<f64> {
        let open = self.all.iter().zip(&self.is_labeled).filter(|(_, is_labeled)| !**is_labeled);
        expected_right(&self.seen, open.map(|(prediction, _)| prediction))
    }

    /// Returns the unlabeled documents with the highest scores for a label, and these scores.
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

/// Returns the identifiers that several documents of a model share.
fn repeated_ids(model: &Model) -> HashSet<String> {
    let mut seen = HashSet::new();
    model.ids().iter().filter(|id| !seen.insert(*id)).map(str::to_owned).collect()
}

/// Returns whether each document is in the model.
fn is_labeled(live: &LiveModel, documents: &[Document]) -> Vec<bool> {
    let is_in_model = |document: &Document| live.model().row_of(&document.id).is_some();
    documents.iter().map(is_in_model).collect()
}

fn report(error: &ClassifyError) {
    tracing::error!("the predictions for the pool could not be updated: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NewLabelPolicy;
    use crate::test_server::TestServer;

    /// Labels are numbered in byte order, so a new label changes the numbers of later labels.
    #[test]
    fn predictions_follow_the_numbers_of_labels() {
        let server = TestServer::open();
        let state = &server.shared.state;
        let documents = [Document::text("p", "apple plum"), Document::text("q", "fork")];
        let mut predictions = Predictions::new(&state.live(), &documents).unwrap();
        let names = |predictions: &Predictions| [0, 1].map(|row| predictions.labels(row));
        let before = names(&predictions);
        assert_eq!(before, [["fruit"], ["cutlery"]]);
        let early = Document::text("new", "spoon").labels(["an early label"]);
        let _ = state.edit(&[early], Vec::new(), NewLabelPolicy::Allow).unwrap();
        assert!(!predictions.sync(&state.live(), &documents));
        assert_eq!(names(&predictions), before);
        assert_eq!(predictions.reason(0), Reason::Perhaps("fruit"));
    }
}
