//! The whole pipeline: [`train`] and [`Classifier::classify`], each readable on one screen.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::analyze::{Analyzer, TermCounter};
use crate::calibrate::{Abstention, Signals};
use crate::corpus::{Content, CorpusError, Document, Place, Problem, check_features};
use crate::counts::{Counts, Fields, Input, TermLimits, tally};
use crate::decide::{Decision, decide, decide_batch, margin, shares};
use crate::matrix::{Csr, CsrBuilder, row};
use crate::model::{InputSpec, Model, Settings, TrainSettings};
use crate::search::{
    Inverted, Neighbor, NeighborLists, Report, Request, Search, SearchError, Stop,
};
use crate::tfidf::Side;
use crate::threads::Threads;
use crate::vocabulary::Vocabulary;
use crate::vote::{LabelScore, Vote, vote_with};

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
    Ok(Model::of_counts(counts, settings))
}

impl Input {
    /// The counting input for a model.
    pub fn new(input: &InputSpec, fields: &Fields) -> Self {
        match input {
            InputSpec::Text(spec) => {
                Self::Text { analyzer: Analyzer::new(spec.clone()), fields: fields.clone() }
            }
            InputSpec::Features(spec) => Self::Features { counts: spec.counts },
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
    /// The confidence was too low: the model abstains.
    Unsure,
}

impl Reason {
    /// The name used in predictions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoKnownTerm => "no-known-term",
            Self::NoNeighbor => "no-neighbor",
            Self::NoLabel => "no-label",
            Self::Unsure => "unsure",
        }
    }
}

/// The prediction for a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The labels, best first.
    pub labels: Vec<u32>,
    /// Every label with a vote, by decreasing score.
    pub scores: Vec<LabelScore>,
    /// The probabilities of these labels if the model is calibrated; otherwise empty.
    pub probabilities: Vec<f64>,
    /// The training documents that voted, best first.
    pub neighbors: Vec<Neighbor>,
    /// Why there are no votes or no labels: too few votes, or low confidence.
    pub reason: Option<Reason>,
    /// The number of the document's terms (with repetitions) that are not in the vocabulary.
    pub unknown_terms: usize,
}

/// Minimum documents per task.
const PIECE: usize = 64;

/// Documents as query rows.
#[derive(Debug)]
pub struct DocumentVectors {
    /// The weighted rows: documents × terms of the model.
    pub rows: Csr,
    /// For each document, how many of its terms are in the vocabulary.
    pub terms: Vec<TermUse>,
}

/// The number of terms of a document, with repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermUse {
    /// Terms in the vocabulary.
    pub known: usize,
    /// Terms not in the vocabulary.
    pub unknown: usize,
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
    /// When to abstain because of low confidence; `None`: never.
    pub abstention: Option<Abstention>,
}

impl ClassifyOptions {
    /// Whether the limits for abstaining were learned with the same k, vote and decision.
    pub fn fits_abstention_of(&self, model: &Model) -> bool {
        let settings = model.settings();
        self.abstention.is_none()
            || (self.k == settings.k
                && self.vote == settings.vote
                && self.decision == settings.decision)
    }

    /// The model's default options.
    pub fn of(model: &Model) -> Self {
        let settings = model.settings();
        Self {
            k: settings.k,
            vote: settings.vote,
            decision: settings.decision.clone(),
            abstention: settings.abstention,
        }
    }
}

/// Classifies documents with a model.
///
/// It owns its data, so it can be kept in a struct and shared between threads.
#[derive(Debug)]
pub struct Classifier {
    model: Arc<Model>,
    engine: Arc<dyn Search>,
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
    /// A classifier with the [`Inverted`] engine.
    ///
    /// # Errors
    /// If the model's rows cannot be indexed.
    pub fn new(model: Arc<Model>, threads: &Threads) -> Result<Self, SearchError> {
        let engine = Arc::new(Inverted::new(Arc::clone(model.rows()), threads.clone())?);
        Ok(Self::with_engine(model, engine, threads))
    }

    /// A classifier with a given engine over the model's rows.
    pub fn with_engine(model: Arc<Model>, engine: Arc<dyn Search>, threads: &Threads) -> Self {
        let settings = model.settings();
        let sizes = model.label_sizes();
        let prior =
            (0u32..).zip(sizes).max_by_key(|&(label, size)| (size, std::cmp::Reverse(label)));
        Self {
            engine,
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

    /// The engine that searches.
    pub fn engine(&self) -> &Arc<dyn Search> {
        &self.engine
    }

    /// The threads that it uses.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The model's default options.
    pub fn options(&self) -> ClassifyOptions {
        ClassifyOptions::of(&self.model)
    }

    /// The share of the training documents with each label.
    pub fn label_shares(&self) -> Vec<f64> {
        shares(self.model.label_sizes(), self.model.ids().len())
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
        let mut neighbors = NeighborLists::default();
        let _ = self.neighbors(&vectors, options.k, &mut neighbors)?;
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
            group: None,
            place: Place { line: Some(number), ..place.clone() },
        };
        let documents: Vec<Document> = texts.iter().zip(1..).map(document).collect();
        self.classify(&documents, &self.options())
    }

    /// Documents → query rows.
    ///
    /// # Errors
    /// If a document has features but the model needs text, or vice versa.
    pub fn vectorize(&self, documents: &[Document]) -> Result<DocumentVectors, CorpusError> {
        let piece = documents.len().div_ceil(self.threads.count()).max(1);
        let pieces: Vec<Piece> = self.threads.run(|| {
            documents
                .par_chunks(piece)
                .map(|piece| self.vectorize_piece(piece))
                .collect::<Result<_, _>>()
        })?;
        let nonzeros = pieces.iter().map(|(rows, _)| rows.nnz()).sum();
        let mut rows = CsrBuilder::with_capacity(documents.len(), nonzeros);
        let mut terms = Vec::with_capacity(documents.len());
        for (piece, uses) in pieces {
            for index in 0..piece.rows() {
                let (indices, data) = row(&piece.view(), index);
                rows.push_row(indices.iter().copied().zip(data.iter().copied()));
            }
            terms.extend(uses);
        }
        Ok(DocumentVectors { rows: rows.build(self.model.vocabulary().len()), terms })
    }

    fn vectorize_piece(&self, documents: &[Document]) -> Result<Piece, CorpusError> {
        let vocabulary = self.model.vocabulary();
        let mut counter = self.spare_counters().pop().unwrap_or_default();
        let mut rows = CsrBuilder::default();
        let mut uses = Vec::with_capacity(documents.len());
        let (mut ids, mut fielded, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut room = Vec::new();
        let Settings { fields, weighting, .. } = self.model.settings();
        for document in documents {
            let terms = match (&self.analyzer, &document.content) {
                (Some(analyzer), Content::Text(_) | Content::Fields(_)) => {
                    fielded.clear();
                    entries.clear();
                    let mut unknown = 0;
                    for (field, text) in fields.split(&document.content) {
                        ids.clear();
                        unknown += counter.ids(analyzer, text, &mut &*vocabulary, &mut ids);
                        fielded.extend(ids.iter().map(|&id| (id, field)));
                    }
                    let known = fielded.len();
                    tally(&mut fielded, &self.boosts, |term, count| entries.push((term, count)));
                    Ok(TermUse { known, unknown })
                }
                (None, Content::Features(features)) => {
                    self.known_columns(vocabulary, features, &mut entries)
                }
                (Some(_), Content::Features(_)) => Err(Problem::WrongContent {
                    found: "features",
                    expected: "the model was trained on text",
                }),
                (None, Content::Text(_) | Content::Fields(_)) => Err(Problem::WrongContent {
                    found: "text",
                    expected: "the model was trained on features",
                }),
            };
            uses.push(terms.map_err(|problem| problem.at(&document.place))?);
            let (mut terms, mut values): (Vec<u32>, Vec<f32>) = entries.drain(..).unzip();
            let row = (&mut terms[..], &mut values[..]);
            let kept = weighting.weigh(Side::Query, row, self.model.term_weights(), &mut room);
            rows.push_row(terms.into_iter().zip(values).take(kept));
        }
        self.spare_counters().push(counter);
        Ok((rows.build(vocabulary.len()), uses))
    }

    fn spare_counters(&self) -> MutexGuard<'_, Vec<TermCounter>> {
        // A counter lost to a panic was never put back, so the remaining ones are intact.
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_columns(
        &self,
        vocabulary: &Vocabulary,
        features: &[(u32, f32)],
        entries: &mut Vec<(u32, f32)>,
    ) -> Result<TermUse, Problem> {
        let counts =
            matches!(&self.model.settings().input, InputSpec::Features(spec) if spec.counts);
        entries.clear();
        check_features(features)?;
        let mut unknown = 0;
        for &(column, value) in features.iter().filter(|(_, value)| *value != 0.0) {
            if counts && value < 0.0 {
                return Err(Problem::NegativeCount { column, value });
            }
            match vocabulary.column_id(column) {
                Some(term) => entries.push((term, value)),
                None => unknown += 1,
            }
        }
        Ok(TermUse { known: entries.len(), unknown })
    }

    /// Query rows → at most `k` neighbors for each.
    ///
    /// # Errors
    /// If the rows do not match the model.
    pub fn neighbors(
        &self,
        vectors: &DocumentVectors,
        k: NonZeroUsize,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        self.engine.search(&Request::new(&vectors.rows, k), found)
    }

    /// Like [`neighbors`](Self::neighbors), but can be ended early by `stop`.
    ///
    /// # Errors
    /// [`SearchError::Stopped`] if it was stopped, or an error if the rows do not match the model.
    pub fn neighbors_until(
        &self,
        vectors: &DocumentVectors,
        k: NonZeroUsize,
        stop: &Stop,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        self.engine.search(&Request::new(&vectors.rows, k).until(stop), found)
    }

    /// Neighbors → predictions; the first `k` of each list vote. A decision that [needs the
    /// batch](Decision::needs_batch) treats these documents as the whole batch.
    pub fn predict(
        &self,
        vectors: &DocumentVectors,
        neighbors: &NeighborLists,
        options: &ClassifyOptions,
    ) -> Vec<Prediction> {
        let among = self.model.training_labels();
        let factors = among.factors(options.vote);
        let voters = |query: usize| {
            let found = neighbors.get(query);
            &found[..found.len().min(options.k.get())]
        };
        let count = |query| vote_with(voters(query), options.vote.weight, &factors, &among);
        // The curves are valid only for the vote that they were learned with.
        let settings = self.model.settings();
        let same_votes = options.vote == settings.vote && options.k == settings.k;
        let calibration = self.model.calibration().filter(|_| same_votes);
        let answer = |query: usize, scores: Vec<LabelScore>, mut labels: Vec<u32>| {
            let (neighbors, terms) = (voters(query), vectors.terms[query]);
            let reason = match () {
                () if terms.known == 0 => Some(Reason::NoKnownTerm),
                () if neighbors.is_empty() => Some(Reason::NoNeighbor),
                () if scores.is_empty() => Some(Reason::NoLabel),
                () if abstains(neighbors, &scores, terms, options) => {
                    labels.clear();
                    Some(Reason::Unsure)
                }
                () => None,
            };
            if scores.is_empty()
                && options.decision == Decision::Single
                && options.abstention.is_none()
            {
                // There is no vote, but a label is required.
                labels.extend(self.prior);
            }
            self.close(&mut labels);
            let probabilities = calibration.map_or(Vec::new(), |calibration| {
                scores.iter().map(|s| calibration.probability(s.label, s.score)).collect()
            });
            Prediction {
                labels,
                scores,
                probabilities,
                neighbors: neighbors.to_vec(),
                reason,
                unknown_terms: terms.unknown,
            }
        };
        self.threads.run(|| {
            let documents = (0..neighbors.len()).into_par_iter().with_min_len(PIECE);
            if !options.decision.needs_batch() {
                let one = |query| {
                    let scores = count(query);
                    let labels = decide(&scores, &options.decision);
                    answer(query, scores, labels)
                };
                return documents.map(one).collect();
            }
            let scores: Vec<Vec<LabelScore>> = documents.map(count).collect();
            let labels = decide_batch(&scores, &options.decision);
            let decided = scores.into_par_iter().zip(labels).enumerate();
            decided.map(|(query, (scores, labels))| answer(query, scores, labels)).collect()
        })
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

fn abstains(
    neighbors: &[Neighbor],
    scores: &[LabelScore],
    terms: TermUse,
    options: &ClassifyOptions,
) -> bool {
    options.abstention.is_some_and(|abstention| {
        let unknown = terms.unknown as f64 / (terms.known + terms.unknown).max(1) as f64;
        let similarity = neighbors.first().map_or(0.0, |neighbor| neighbor.similarity);
        let margin = margin(scores, &options.decision);
        !abstention.allows(Signals { similarity, margin, unknown })
    })
}

type Piece = (Csr, Vec<TermUse>);

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
