//! The classifier: a model with the engines that search it.

use std::sync::{Arc, Mutex};

use super::{ClassifyOptions, DocumentVectors};
use crate::decide::calibrate::ShiftMonitor;
use crate::decide::vote::{Voters, most_frequent_label};
use crate::model::Model;
use crate::search::{Engines, NEVER, NeighborLists, Report, Request, Search, SearchError, Stop};
use crate::text::analyze::{Analyzer, TermCounter};
use crate::threads::Threads;

/// The neighbors of a batch of documents. The memory can be reused for the next batch.
#[derive(Debug, Clone, Default)]
pub struct FoundNeighbors {
    /// The neighbors found by terms. There are no lists if only dense vectors were searched.
    pub terms: NeighborLists,
    /// The neighbors found by dense vectors. There are no lists if only terms were searched.
    pub vectors: NeighborLists,
    /// The share of the votes that goes to neighbors found by dense vectors.
    pub(super) dense_share: f64,
}

impl FoundNeighbors {
    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.terms.len().max(self.vectors.len())
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the neighbors of a document.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn get(&self, document: usize) -> Voters<'_> {
        let has_list = |lists: &'_ NeighborLists| !lists.is_empty() && document < lists.len();
        let terms = if has_list(&self.terms) { self.terms.get(document) } else { &[] };
        let vectors = if has_list(&self.vectors) { self.vectors.get(document) } else { &[] };
        Voters::both(terms, vectors, self.dense_share)
    }

    /// Returns the neighbors of each document, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Voters<'_>> {
        (0..self.len()).map(|document| self.get(document))
    }
}

/// The engines of a classifier.
#[derive(Debug, Clone, Default)]
pub struct Searchers {
    /// The engine over the model's term rows.
    pub terms: Option<Arc<dyn Search>>,
    /// The engine over the model's dense vectors.
    pub vectors: Option<Arc<dyn Search>>,
}

impl Searchers {
    /// Creates the engines that a model needs, given the share of votes for neighbors found by
    /// dense vectors.
    ///
    /// # Errors
    /// Fails if the model's rows cannot be indexed.
    pub fn of(model: &Model, dense_share: f64, engines: &Engines) -> Result<Self, SearchError> {
        let terms = model.searches_terms() && dense_share < 1.0;
        let terms = terms.then(|| engines.engine(model.rows())).transpose()?;
        let dense = model.dense().filter(|_| dense_share > 0.0);
        let vectors = dense.map(|dense| engines.dense(dense));
        Ok(Self { terms, vectors: vectors.transpose()? })
    }
}

/// A classifier of documents.
///
/// A classifier owns its data, so it can be kept in a struct and shared between threads.
#[derive(Debug)]
pub struct Classifier {
    pub(super) model: Arc<Model>,
    pub(super) searchers: Searchers,
    pub(super) analyzer: Option<Analyzer>,
    /// Unused term counters, whose caches speed up the analysis of later documents.
    pub(super) counters: Mutex<Vec<TermCounter>>,
    pub(super) threads: Threads,
    pub(super) boosts: Vec<f32>,
    /// The ancestors of each label; empty without a hierarchy.
    pub(super) ancestors: Vec<Vec<u32>>,
    /// The label with the most training documents.
    pub(super) prior: Option<u32>,
}

impl Classifier {
    /// Creates a classifier with the fastest engines on the CPU.
    ///
    /// # Errors
    /// Fails if the model's rows cannot be indexed.
    pub fn new(model: Arc<Model>, threads: &Threads) -> Result<Self, SearchError> {
        let dense_share = model.settings().dense_share;
        let searchers = Searchers::of(&model, dense_share, &Engines::cpu(threads))?;
        Ok(Self::with_searchers(model, searchers, threads))
    }

    /// Creates a classifier with a given engine over the model's term rows.
    pub fn with_engine(model: Arc<Model>, engine: Arc<dyn Search>, threads: &Threads) -> Self {
        let searchers = Searchers { terms: Some(engine), vectors: None };
        Self::with_searchers(model, searchers, threads)
    }

    /// Creates a classifier with given engines.
    pub fn with_searchers(model: Arc<Model>, searchers: Searchers, threads: &Threads) -> Self {
        let settings = model.settings();
        model.vocabulary().prepare_lookups();
        Self {
            searchers,
            analyzer: model.analyzer(),
            counters: Mutex::default(),
            threads: threads.clone(),
            boosts: settings.fields.boosts(),
            ancestors: match &settings.hierarchy {
                hierarchy if hierarchy.is_empty() => Vec::new(),
                hierarchy => hierarchy.ancestor_positions(model.labels().iter()),
            },
            prior: most_frequent_label(model.label_sizes()),
            model,
        }
    }

    /// Returns the model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Returns a monitor that compares documents with the training documents. `None` if the model
    /// does not store what these look like, or was tuned with another share of the votes for
    /// neighbors found by dense vectors.
    pub(crate) fn shift_monitor(&self, options: &ClassifyOptions) -> Option<ShiftMonitor<'_>> {
        let model = &self.model;
        let has_same_share =
            options.dense_share.to_bits() == model.settings().dense_share.to_bits();
        model.arrays.profile.as_ref().filter(|_| has_same_share).map(ShiftMonitor::new)
    }

    /// Returns the engines that search.
    pub fn searchers(&self) -> &Searchers {
        &self.searchers
    }

    /// Returns the threads that the classifier uses.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Returns the model's default options.
    pub fn options(&self) -> ClassifyOptions {
        ClassifyOptions::of(&self.model)
    }

    /// Returns the share of the training documents with each label.
    pub fn label_shares(&self) -> Vec<f64> {
        self.model.label_shares()
    }

    /// Searches for at most `options.k` neighbors of each query row by terms, by dense vectors, or
    /// by both.
    ///
    /// # Errors
    /// Fails if the rows do not match the model, or the classifier lacks an engine that the options
    /// need.
    pub fn neighbors(
        &self,
        vectors: &DocumentVectors,
        options: &ClassifyOptions,
        found: &mut FoundNeighbors,
    ) -> Result<Report, SearchError> {
        self.neighbors_until(vectors, options, &NEVER, found)
    }

    /// Like [`neighbors`](Self::neighbors), but `stop` can end it early.
    ///
    /// # Errors
    /// Returns [`SearchError::Stopped`] if the search was stopped, and otherwise the errors of
    /// [`neighbors`](Self::neighbors).
    pub fn neighbors_until(
        &self,
        vectors: &DocumentVectors,
        options: &ClassifyOptions,
        stop: &Stop,
        found: &mut FoundNeighbors,
    ) -> Result<Report, SearchError> {
        let share = options.dense_share;
        let missing_engine =
            |what| SearchError::Index(format!("this classifier has no engine for {what}"));
        found.terms.clear();
        found.vectors.clear();
        found.dense_share = share;
        if share < 1.0 {
            let engine = self.searchers.terms.as_ref().ok_or_else(|| missing_engine("terms"))?;
            let request = Request::new(&vectors.rows, options.k).until(stop);
            let _ = engine.search(&request, &mut found.terms)?;
        }
        if share > 0.0 {
            let engine =
                self.searchers.vectors.as_ref().ok_or_else(|| missing_engine("vectors"))?;
            let dense = vectors.dense.as_ref().ok_or_else(|| missing_engine("vectors"))?;
            let request = Request::new(dense.view(), options.k).until(stop);
            let searched = engine.search(&request, &mut found.vectors);
            let _ = searched.inspect_err(|_| found.terms.clear())?;
        }
        Ok(Report::of_lists(&[&found.terms, &found.vectors]))
    }

    /// Adds the ancestors of the given labels.
    pub(super) fn add_ancestors(&self, labels: &mut Vec<u32>) {
        if self.ancestors.is_empty() {
            return;
        }
        for index in 0..labels.len() {
            for &ancestor in &self.ancestors[labels[index] as usize] {
                if !labels.contains(&ancestor) {
                    labels.push(ancestor);
                }
            }
        }
    }
}
