//! The whole pipeline: [`train`] and [`Classifier::classify`], each readable on one screen.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::analyze::{Analyzer, TermCounter};
use crate::calibrate::{Abstention, Signals};
use crate::corpus::{Content, CorpusError, Document, Place, Problem};
use crate::counts::{Counts, Fields, Input, TermLimits, tally};
use crate::decide::{Decision, decide, decide_batch, margin};
use crate::matrix::{Csr, CsrBuilder, row};
use crate::model::{InputSpec, Model, Settings, TrainSettings};
use crate::search::{Inverted, Neighbor, Queries, Search, SearchError};
use crate::tfidf::Side;
use crate::threads::Threads;
use crate::vocabulary::Vocabulary;
use crate::vote::{LabelScore, Vote, vote_with};

/// Reads a corpus and trains a model of it; [the crate's page](crate) has an example.
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
    /// What a model's documents are counted by.
    pub fn new(input: &InputSpec, fields: &Fields) -> Self {
        match input {
            InputSpec::Text(spec) => {
                Self::Text { analyzer: Analyzer::new(spec.clone()), fields: fields.clone() }
            }
            InputSpec::Features(spec) => Self::Features { counts: spec.counts },
        }
    }
}

/// Why a document gets no label, or none that means much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No term of the document is in the vocabulary.
    NoKnownTerm,
    /// No training document has a similarity above 0.
    NoNeighbor,
    /// No neighbor has a label.
    NoLabel,
    /// The answer was not sure enough: the model abstains.
    Unsure,
}

impl Reason {
    /// The name that answers carry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoKnownTerm => "no-known-term",
            Self::NoNeighbor => "no-neighbor",
            Self::NoLabel => "no-label",
            Self::Unsure => "unsure",
        }
    }
}

/// The answer for a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The labels, best first.
    pub labels: Vec<u32>,
    /// Every label that got a vote, by falling score.
    pub scores: Vec<LabelScore>,
    /// The probabilities of these labels, of a calibrated model; otherwise none.
    pub probabilities: Vec<f64>,
    /// The training documents that voted, best first.
    pub neighbors: Vec<Neighbor>,
    /// Why there is no label, if there is none for want of votes or of sureness.
    pub reason: Option<Reason>,
    /// How many of the document's terms (with repetitions) are not in the vocabulary.
    pub unknown_terms: usize,
}

/// The least documents that a thread votes on.
const PIECE: usize = 64;

/// Documents as query rows.
#[derive(Debug)]
pub struct Vectors {
    /// The weighted rows: documents × terms of the model.
    pub rows: Csr,
    /// For each document how many of its terms the vocabulary has, and how many it has not.
    pub terms: Vec<TermUse>,
}

/// The terms of a document, with repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermUse {
    /// In the vocabulary.
    pub known: usize,
    /// Not in the vocabulary.
    pub unknown: usize,
}

/// Classifies documents with a model.
#[derive(Debug)]
pub struct Classifier<'m> {
    model: &'m Model,
    engine: Box<dyn Search + 'm>,
    analyzer: Option<Analyzer>,
    /// Counters that are not in use: what they remember of words serves the next documents.
    counters: Mutex<Vec<TermCounter>>,
    threads: Threads,
    boosts: Vec<f32>,
    /// The labels above each label; empty without a hierarchy.
    above: Vec<Vec<u32>>,
    /// How many neighbors vote.
    pub k: NonZeroUsize,
    /// How much each vote counts.
    pub vote: Vote,
    /// How many labels a document gets.
    pub decision: Decision,
    /// When it gives no answer.
    pub abstention: Option<Abstention>,
}

impl<'m> Classifier<'m> {
    /// A classifier with the model's settings and the [`Inverted`] engine.
    ///
    /// # Errors
    /// If the model's rows cannot be indexed.
    pub fn new(model: &'m Model, threads: &Threads) -> Result<Self, SearchError> {
        let engine = Box::new(Inverted::new(model.rows(), threads.clone())?);
        Ok(Self::with_engine(model, engine, threads))
    }

    /// A classifier with the model's settings and an engine over the model's rows.
    pub fn with_engine(model: &'m Model, engine: Box<dyn Search + 'm>, threads: &Threads) -> Self {
        let settings = model.settings();
        Self {
            model,
            engine,
            analyzer: model.analyzer(),
            counters: Mutex::default(),
            threads: threads.clone(),
            boosts: settings.fields.boosts(),
            above: match &settings.hierarchy {
                hierarchy if hierarchy.is_empty() => Vec::new(),
                hierarchy => hierarchy.numbered(model.labels().iter()),
            },
            k: settings.k,
            vote: settings.vote,
            decision: settings.decision.clone(),
            abstention: settings.abstention,
        }
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// Classifies documents.
    ///
    /// # Errors
    /// If a document holds features where the model needs text, or the reverse.
    pub fn classify(&self, documents: &[Document]) -> Result<Vec<Prediction>, ClassifyError> {
        let vectors = self.vectorize(documents)?;
        let neighbors = self.neighbors(&vectors, self.k)?;
        Ok(self.predict(&vectors, neighbors))
    }

    /// Classifies texts.
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
        self.classify(&texts.iter().zip(1..).map(document).collect::<Vec<_>>())
    }

    /// Documents → query rows.
    ///
    /// # Errors
    /// If a document holds features where the model needs text, or the reverse.
    pub fn vectorize(&self, documents: &[Document]) -> Result<Vectors, CorpusError> {
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
        Ok(Vectors { rows: rows.build(self.model.vocabulary().len()), terms })
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
        // A counter that a panic left behind was never put back: the others are sound.
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

    /// Query rows → for each its at most `k` neighbors.
    ///
    /// # Errors
    /// If the rows do not fit the model.
    pub fn neighbors(
        &self,
        vectors: &Vectors,
        k: NonZeroUsize,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        self.engine.top_k(Queries::new(&vectors.rows.view()), k)
    }

    /// Neighbors → predictions. A decision that [needs the batch](Decision::needs_batch) takes
    /// these documents for the whole of it.
    pub fn predict(&self, vectors: &Vectors, neighbors: Vec<Vec<Neighbor>>) -> Vec<Prediction> {
        let among = self.model.electorate();
        let factors = among.factors(self.vote);
        let count = |found: &Vec<Neighbor>| vote_with(found, self.vote.ballot, &factors, &among);
        // The curves are those of the votes that they were learnt from.
        let settings = self.model.settings();
        let same_votes = self.vote == settings.vote && self.k == settings.k;
        let calibration = self.model.calibration().filter(|_| same_votes);
        let answer = |neighbors: Vec<Neighbor>,
                      scores: Vec<LabelScore>,
                      mut labels: Vec<u32>,
                      terms: TermUse| {
            let reason = match () {
                () if terms.known == 0 => Some(Reason::NoKnownTerm),
                () if neighbors.is_empty() => Some(Reason::NoNeighbor),
                () if scores.is_empty() => Some(Reason::NoLabel),
                () if self.abstains(&neighbors, &scores, terms) => {
                    labels.clear();
                    Some(Reason::Unsure)
                }
                () => None,
            };
            self.close(&mut labels);
            let probabilities = calibration.map_or(Vec::new(), |calibration| {
                scores.iter().map(|s| calibration.probability(s.label, s.score)).collect()
            });
            Prediction {
                labels,
                scores,
                probabilities,
                neighbors,
                reason,
                unknown_terms: terms.unknown,
            }
        };
        self.threads.run(|| {
            let documents = neighbors.into_par_iter().zip(&vectors.terms).with_min_len(PIECE);
            if !self.decision.needs_batch() {
                let one = |(neighbors, &terms): (Vec<Neighbor>, _)| {
                    let scores = count(&neighbors);
                    let labels = decide(&scores, &self.decision);
                    answer(neighbors, scores, labels, terms)
                };
                return documents.map(one).collect();
            }
            let counted =
                documents.map(|(neighbors, &terms)| (count(&neighbors), neighbors, terms));
            let counted: Vec<(Vec<LabelScore>, Vec<Neighbor>, TermUse)> = counted.collect();
            let scores: Vec<&[LabelScore]> = counted.iter().map(|(scores, ..)| &**scores).collect();
            let labels = decide_batch(&scores, &self.decision);
            let decided = counted.into_par_iter().zip(labels);
            decided
                .map(|((scores, neighbors, terms), labels)| {
                    answer(neighbors, scores, labels, terms)
                })
                .collect()
        })
    }

    /// Adds the labels above those given.
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

    fn abstains(&self, neighbors: &[Neighbor], scores: &[LabelScore], terms: TermUse) -> bool {
        self.abstention.is_some_and(|abstention| {
            let unknown = terms.unknown as f64 / (terms.known + terms.unknown).max(1) as f64;
            let similarity = neighbors.first().map_or(0.0, |neighbor| neighbor.similarity);
            let margin = margin(scores, &self.decision);
            !abstention.allows(Signals { similarity, margin, unknown })
        })
    }
}

type Piece = (Csr, Vec<TermUse>);

/// Why documents cannot be classified.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// A document does not fit the model.
    #[error(transparent)]
    Document(#[from] CorpusError),
    /// The search refused.
    #[error(transparent)]
    Search(#[from] SearchError),
}
