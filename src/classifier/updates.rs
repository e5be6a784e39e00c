//! Updates a model while it classifies: changes that add documents, and engines over a collection.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{Classifier, ClassifyError, ClassifyOptions, FoundNeighbors, Searchers, TermUse};
use crate::decide::vote::Voters;
use crate::model::{Change, Collection, NewDocument};
use crate::rows::dense::{Metric, Vectors, normalize};
use crate::rows::matrix::{Csr, row};
use crate::search::{Composite, Engines, Search, SearchError, Segment};
use crate::text::corpus::{Content, Document};
use crate::text::tfidf::Side;
use crate::threads::Threads;

/// The changes that add documents to a model.
#[derive(Debug)]
pub struct Additions {
    /// One change per document.
    pub changes: Vec<Change>,
    /// The numbers of known and unknown terms of each document.
    pub terms: Vec<TermUse>,
}

/// Number of neighbors searched for each document, to find the best one that is not an earlier
/// version of the document.
const BEST_NEIGHBOR_CANDIDATES: NonZeroUsize = NonZeroUsize::new(4).expect("above 0");

impl Classifier {
    /// Creates changes that add documents to the model, weighted like its documents.
    ///
    /// If the model has a novelty score, this also finds the best neighbor of each document.
    ///
    /// # Errors
    /// Returns the errors of [`predict_documents`](Self::predict_documents).
    pub fn additions(&self, documents: &[Document]) -> Result<Additions, ClassifyError> {
        let vectors = self.vectorize_as(documents, Side::Document)?;
        let model = self.model();
        let nearest: Vec<f32> = if model.novelty_score().is_some() {
            let queries = self.vectorize(documents)?;
            let options = ClassifyOptions { k: BEST_NEIGHBOR_CANDIDATES, ..self.options() };
            let mut found = FoundNeighbors::default();
            let _ = self.neighbors(&queries, &options, &mut found)?;
            let best = |(voters, document): (Voters<'_>, &Document)| {
                // Skip an earlier version of the document.
                let ids = model.ids();
                let mut rows = voters.ranked().map(|(_, _, near)| near.row);
                let earlier = rows.find(|&row| ids.get(row as usize) == Some(&document.id));
                voters.best_similarity_where(&|row| Some(row) != earlier)
            };
            found.iter().zip(documents).map(best).collect()
        } else {
            Vec::new()
        };
        let is_angular = model.dense().is_some_and(|dense| dense.spec().metric == Metric::Angular);
        let change = |(number, document): (usize, &Document)| {
            let (terms, weights) = row(&vectors.rows.view(), number);
            let vector = vectors.dense.as_ref().map(|dense| {
                let mut vector = dense.row(number).to_vec();
                if is_angular {
                    normalize(&mut vector);
                }
                vector
            });
            let text = model.keeps_texts().then(|| match &document.content {
                Content::Text(text) => text.clone(),
                Content::Fields(fields) => fields.join("\n"),
                Content::Features(_) => String::new(),
            });
            Change::Put(Box::new(NewDocument {
                id: document.id.clone(),
                labels: document.labels.clone(),
                weight: document.weight,
                terms: terms.to_vec(),
                weights: weights.to_vec(),
                vector,
                text,
                nearest: nearest.get(number).copied(),
            }))
        };
        let changes = documents.iter().enumerate().map(change).collect();
        Ok(Additions { changes, terms: vectors.terms })
    }
}

/// Engines over the documents of a [`Collection`]. After a change, only new segments get an engine.
#[derive(Debug)]
pub struct UpdatableEngines {
    engines: Engines,
    terms: Vec<(Arc<Csr>, Arc<dyn Search>)>,
    vectors: Vec<(Arc<Vectors>, Arc<dyn Search>)>,
}

impl UpdatableEngines {
    /// Creates an empty set of engines. `engines` builds them when they are needed.
    pub fn new(engines: Engines) -> Self {
        Self { engines, terms: Vec::new(), vectors: Vec::new() }
    }

    /// Returns the threads of the engines.
    pub fn threads(&self) -> &Threads {
        self.engines.threads()
    }

    /// Returns engines over the current documents, given the share of votes for neighbors found by
    /// dense vectors.
    ///
    /// # Errors
    /// Fails if rows cannot be indexed.
    pub fn searchers(
        &mut self,
        collection: &Collection,
        dense_share: f64,
    ) -> Result<Searchers, SearchError> {
        let model = collection.model();
        let terms = (model.searches_terms() && dense_share < 1.0).then(|| {
            let mut known = std::mem::take(&mut self.terms);
            let mut segments = Vec::new();
            for (rows, live) in collection.term_segments() {
                let position = known.iter().position(|(other, _)| Arc::ptr_eq(other, rows));
                let engine = match position {
                    Some(position) => known.swap_remove(position).1,
                    None => self.engines.engine(rows)?,
                };
                self.terms.push((Arc::clone(rows), Arc::clone(&engine)));
                segments.push(Segment { engine, kept: live });
            }
            combine(segments, self.engines.threads())
        });
        let vectors = (dense_share > 0.0 && model.dense().is_some()).then(|| {
            let mut known = std::mem::take(&mut self.vectors);
            let mut segments = Vec::new();
            for (part, live) in collection.dense_segments() {
                let position =
                    known.iter().position(|(other, _)| Arc::ptr_eq(other, part.vectors()));
                let engine = match position {
                    Some(position) => known.swap_remove(position).1,
                    None => self.engines.dense(&part)?,
                };
                self.vectors.push((Arc::clone(part.vectors()), Arc::clone(&engine)));
                segments.push(Segment { engine, kept: live });
            }
            combine(segments, self.engines.threads())
        });
        Ok(Searchers { terms: terms.transpose()?, vectors: vectors.transpose()? })
    }
}

/// Combines the engines of segments.
fn combine(mut segments: Vec<Segment>, threads: &Threads) -> Result<Arc<dyn Search>, SearchError> {
    if let [Segment { kept: None, .. }] = segments.as_slice() {
        return Ok(segments.remove(0).engine);
    }
    Ok(Arc::new(Composite::of_segments(segments, threads.clone())?))
}
