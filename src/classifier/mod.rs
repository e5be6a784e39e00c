//! The whole pipeline: [`train`] and [`Classifier::classify`], each readable on one screen.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use crate::decide::calibrate::{ConfidenceLimit, NoveltyLimit};
use crate::decide::decision::Decision;
use crate::decide::vote::{LabelScore, Vote, Voters};
use crate::model::{InputSpec, Model, TrainSettings};
use crate::search::{
    Engines, NEVER, Neighbor, NeighborLists, Report, Request, Search, SearchError, Stop,
};
use crate::text::analyze::{Analyzer, TermCounter};
use crate::text::corpus::{Content, CorpusError, Document, Place};
use crate::text::counts::{Counts, Fields, Input, TermLimits};
use crate::threads::Threads;

pub mod answer;
pub mod explain;
mod predictor;
pub mod stream;
mod updates;
mod vectorize;
pub mod vectors;

pub(crate) use predictor::{Predicted, Predictor};
pub use updates::{Additions, UpdatableEngines};
pub use vectorize::{DocumentVectors, TermUse};

/// Reads a corpus and trains a model on it; see the example in the [crate documentation](crate).
///
/// # Errors
/// The corpus's first error.
pub fn train(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    settings: TrainSettings,
    limits: TermLimits,
    threads: &Threads,
) -> Result<Model, CorpusError> {
    let input = Input::new(&settings.input, &settings.fields);
    let counts = Counts::read(documents, &input, limits, false, threads, &|_| ())?;
    Ok(Model::of_counts(counts, settings, threads))
}

/// Trains like [`train`], with the term selection in the settings and the learned factors of a
/// model's terms. Texts are kept.
pub(crate) fn train_counts(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    settings: TrainSettings,
    limits: TermLimits,
    factors_of: &Model,
    threads: &Threads,
) -> Result<Model, CorpusError> {
    let input = Input::new(&settings.input, &settings.fields);
    let mut counts = Counts::read(documents, &input, limits, true, threads, &|_| ())?;
    if let Some(selection) = settings.selection {
        counts = counts.select(selection, threads);
    }
    let factors = factors_of.term_factors_of(&counts.vocabulary);
    Ok(Model::with_term_factors(counts, settings, factors, threads))
}

impl Input {
    /// Creates the counting input for a model.
    pub fn new(input: &InputSpec, fields: &Fields) -> Self {
        match input {
            InputSpec::Text(spec) => {
                Self::Text { analyzer: Analyzer::new(spec.clone()), fields: fields.clone() }
            }
            InputSpec::Features(spec) => Self::Features { counts: spec.counts },
            InputSpec::Vectors(_) => Self::Nothing,
        }
    }
}

/// Why a document gets no labels, or unreliable ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No term of the document is in the vocabulary.
    NoKnownTerm,
    /// No training document has a similarity above 0.
    NoNeighbor,
    /// No neighbor has a label.
    NoLabel,
    /// The confidence is too low, so the model abstains.
    Unsure,
    /// The document seems to have none of the model's labels, so the model abstains.
    OutOfDistribution,
}

impl Reason {
    /// The reason's name in predictions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoKnownTerm => "no-known-term",
            Self::NoNeighbor => "no-neighbor",
            Self::NoLabel => "no-label",
            Self::Unsure => "unsure",
            Self::OutOfDistribution => "foreign",
        }
    }
}

/// The prediction for a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prediction {
    /// The labels, best first.
    pub labels: Vec<u32>,
    /// Every label with a vote, by decreasing score.
    pub scores: Vec<LabelScore>,
    /// The probabilities of these labels, or of the first ones as
    /// [requested](ClassifyOptions::probabilities). Empty if the model is not calibrated.
    pub probabilities: Vec<f64>,
    /// The expected share of right labels among those given, or withheld by abstaining. 0 without
    /// labels; `None` if the model is not calibrated.
    pub confidence: Option<f64>,
    /// The training documents that voted, best first: those found by terms if the model searches
    /// terms, otherwise those found by dense vectors.
    pub neighbors: Vec<Neighbor>,
    /// The training documents found by dense vectors that voted, best first, if the model searches
    /// both.
    pub by_vectors: Vec<Neighbor>,
    /// Why there are no votes or no labels.
    pub reason: Option<Reason>,
    /// The number of the document's terms (with repetitions) that are not in the vocabulary.
    pub unknown_terms: usize,
}

/// The neighbors of a batch of documents. Memory is reused when it is filled again.
#[derive(Debug, Clone, Default)]
pub struct FoundNeighbors {
    /// The neighbors by terms; no list if only dense vectors were searched.
    pub terms: NeighborLists,
    /// The neighbors by dense vectors; no list if only terms were searched.
    pub vectors: NeighborLists,
    /// The share of the neighbors by vectors in the votes.
    dense_share: f64,
}

impl FoundNeighbors {
    /// The number of documents.
    pub fn len(&self) -> usize {
        self.terms.len().max(self.vectors.len())
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The neighbors of a document.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn get(&self, document: usize) -> Voters<'_> {
        let list = |lists: &'_ NeighborLists| !lists.is_empty() && document < lists.len();
        let terms = if list(&self.terms) { self.terms.get(document) } else { &[] };
        let vectors = if list(&self.vectors) { self.vectors.get(document) } else { &[] };
        Voters::both(terms, vectors, self.dense_share)
    }

    /// The neighbors of each document, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Voters<'_>> {
        (0..self.len()).map(|document| self.get(document))
    }
}

/// Which labels get probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Probabilities {
    /// All labels with a vote.
    #[default]
    All,
    /// The first labels up to the last one that is given, at least the first one. This is faster.
    Given,
}

/// How neighbors become labels: arguments of [`Classifier::classify`].
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifyOptions {
    /// The number of neighbors that vote.
    pub k: NonZeroUsize,
    /// How votes are weighted.
    pub vote: Vote,
    /// How labels are chosen.
    pub decision: Decision,
    /// The minimum confidence of an answer; `None`: never abstain.
    pub abstention: Option<ConfidenceLimit>,
    /// The limit of the novelty score above which a document is refused; `None`: never.
    pub novelty: Option<NoveltyLimit>,
    /// The share of the neighbors by dense vectors in the votes: 0 for a model without vectors, 1
    /// for one without terms.
    pub dense_share: f64,
    /// Which labels get probabilities, if the model is calibrated.
    pub probabilities: Probabilities,
}

impl ClassifyOptions {
    /// Whether the limits for abstaining were learned with the same k, vote, decision and dense
    /// share.
    pub fn fits_abstention_of(&self, model: &Model) -> bool {
        let settings = model.settings();
        (self.abstention.is_none() && self.novelty.is_none())
            || (self.k == settings.k
                && self.vote == settings.vote
                && self.decision == settings.decision
                && self.dense_share.to_bits() == settings.dense_share.to_bits())
    }

    /// The model's default options.
    pub fn of(model: &Model) -> Self {
        let settings = model.settings();
        Self {
            k: settings.k,
            vote: settings.vote,
            decision: settings.decision.clone(),
            abstention: settings.abstention,
            novelty: settings.novelty,
            dense_share: settings.dense_share,
            probabilities: Probabilities::All,
        }
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
    /// Creates the engines that a model needs if the neighbors by dense vectors have this share in
    /// the votes.
    ///
    /// # Errors
    /// If the model's rows cannot be indexed.
    pub fn of(model: &Model, dense_share: f64, engines: &Engines) -> Result<Self, SearchError> {
        let terms = model.searches_terms() && dense_share < 1.0;
        let terms = terms.then(|| engines.engine(model.rows())).transpose()?;
        let dense = model.dense().filter(|_| dense_share > 0.0);
        let vectors = dense.map(|dense| engines.dense(dense));
        Ok(Self { terms, vectors: vectors.transpose()? })
    }
}

/// Classifies documents with a model.
///
/// It owns its data, so it can be kept in a struct and shared between threads.
#[derive(Debug)]
pub struct Classifier {
    model: Arc<Model>,
    searchers: Searchers,
    analyzer: Option<Analyzer>,
    /// Counters that are not in use; their caches speed up the next documents.
    counters: Mutex<Vec<TermCounter>>,
    threads: Threads,
    boosts: Vec<f32>,
    /// The ancestors of each label; empty without a hierarchy.
    above: Vec<Vec<u32>>,
    /// The label with the most training documents.
    prior: Option<u32>,
}

impl Classifier {
    /// Creates a classifier with the best engines of the CPU.
    ///
    /// # Errors
    /// If the model's rows cannot be indexed.
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
        let sizes = model.label_sizes();
        let used = (0u32..).zip(sizes).filter(|(_, size)| **size > 0);
        let prior = used.max_by_key(|&(label, size)| (size, std::cmp::Reverse(label)));
        Self {
            searchers,
            analyzer: model.analyzer(),
            counters: Mutex::default(),
            threads: threads.clone(),
            boosts: settings.fields.boosts(),
            above: match &settings.hierarchy {
                hierarchy if hierarchy.is_empty() => Vec::new(),
                hierarchy => hierarchy.numbered(model.labels().iter()),
            },
            prior: prior.map(|(label, _)| label),
            model,
        }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The engines that search.
    pub fn searchers(&self) -> &Searchers {
        &self.searchers
    }

    /// The threads that the classifier uses.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The model's default options.
    pub fn options(&self) -> ClassifyOptions {
        ClassifyOptions::of(&self.model)
    }

    /// The share of the training documents with each label.
    pub fn label_shares(&self) -> Vec<f64> {
        self.model.label_shares()
    }

    /// Classifies documents.
    ///
    /// # Errors
    /// If a document has features but the model needs text, or vice versa; or the search fails.
    pub fn classify(
        &self,
        documents: &[Document],
        options: &ClassifyOptions,
    ) -> Result<Vec<Prediction>, ClassifyError> {
        let vectors = self.vectorize(documents)?;
        let mut neighbors = FoundNeighbors::default();
        let _ = self.neighbors(&vectors, options, &mut neighbors)?;
        Ok(self.predict(&vectors, &neighbors, options))
    }

    /// Classifies texts with the model's default options.
    ///
    /// # Errors
    /// If the model was trained on features.
    pub fn classify_texts(&self, texts: &[&str]) -> Result<Vec<Prediction>, ClassifyError> {
        let place = Place { source: "<text>".into(), line: None };
        let document = |(text, number): (&&str, u64)| Document {
            id: number.to_string(),
            content: Content::Text((*text).to_owned()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { line: Some(number), ..place.clone() },
        };
        let documents: Vec<Document> = texts.iter().zip(1..).map(document).collect();
        self.classify(&documents, &self.options())
    }

    /// Searches at most `options.k` neighbors of each query row: by terms, by dense vectors, or
    /// both.
    ///
    /// # Errors
    /// If the rows do not match the model, or the classifier lacks an engine that the options need.
    pub fn neighbors(
        &self,
        vectors: &DocumentVectors,
        options: &ClassifyOptions,
        found: &mut FoundNeighbors,
    ) -> Result<Report, SearchError> {
        self.neighbors_until(vectors, options, &NEVER, found)
    }

    /// Like [`neighbors`](Self::neighbors), but can be ended early by `stop`.
    ///
    /// # Errors
    /// [`SearchError::Stopped`] if it was stopped, or as [`neighbors`](Self::neighbors).
    pub fn neighbors_until(
        &self,
        vectors: &DocumentVectors,
        options: &ClassifyOptions,
        stop: &Stop,
        found: &mut FoundNeighbors,
    ) -> Result<Report, SearchError> {
        let share = options.dense_share;
        let lacking =
            |what| SearchError::Index(format!("this classifier has no engine for {what}"));
        found.terms.clear();
        found.vectors.clear();
        found.dense_share = share;
        let mut report = Report::default();
        if share < 1.0 {
            let engine = self.searchers.terms.as_ref().ok_or_else(|| lacking("terms"))?;
            let request = Request::new(&vectors.rows, options.k).until(stop);
            report += engine.search(&request, &mut found.terms)?;
        }
        if share > 0.0 {
            let engine = self.searchers.vectors.as_ref().ok_or_else(|| lacking("vectors"))?;
            let dense = vectors.dense.as_ref().ok_or_else(|| lacking("vectors"))?;
            let request = Request::new(dense.view(), options.k).until(stop);
            let searched = engine.search(&request, &mut found.vectors);
            report += searched.inspect_err(|_| found.terms.clear())?;
        }
        Ok(report)
    }

    /// Predicts labels from neighbors, of which the first `k` of each list vote. A decision that
    /// [needs the batch](Decision::needs_batch) treats these documents as the whole batch.
    pub fn predict(
        &self,
        vectors: &DocumentVectors,
        neighbors: &FoundNeighbors,
        options: &ClassifyOptions,
    ) -> Vec<Prediction> {
        self.threads.run(|| Predictor::new(self, vectors, neighbors, options).predict_all())
    }

    /// Adds the ancestors of the given labels.
    fn close(&self, labels: &mut Vec<u32>) {
        if self.above.is_empty() {
            return;
        }
        for at in 0..labels.len() {
            for &ancestor in &self.above[labels[at] as usize] {
                if !labels.contains(&ancestor) {
                    labels.push(ancestor);
                }
            }
        }
    }
}

/// Why documents cannot be classified.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// A document does not match the model.
    #[error(transparent)]
    Document(#[from] CorpusError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
}
