//! Documents that come and go while others are classified.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{Classifier, ClassifyError, ClassifyOptions, FoundNeighbors, Searchers, TermUse};
use crate::decide::vote::Voters;
use crate::model::{Change, Collection, NewDocument};
use crate::rows::dense::{Metric, Vectors, normalize};
use crate::rows::matrix::{Csr, row};
use crate::search::{Engines, Search, SearchError, Updatable};
use crate::text::corpus::{Content, Document};
use crate::text::tfidf::Side;
use crate::threads::Threads;

/// Changes that add documents to a model.
#[derive(Debug)]
pub struct Additions {
    /// A change for each document.
    pub changes: Vec<Change>,
    /// For each document, how many of its terms the model knows.
    pub terms: Vec<TermUse>,
}

/// Neighbors among which the best other document is.
const OTHERS: NonZeroUsize = NonZeroUsize::new(4).expect("above 0");

impl Classifier {
    /// Documents → changes that add them to the model, weighted as its documents are.
    ///
    /// If the model refuses foreign documents, their best neighbors are searched.
    ///
    /// # Errors
    /// As [`classify`](Self::classify).
    pub fn additions(&self, documents: &[Document]) -> Result<Additions, ClassifyError> {
        let vectors = self.vectorize_as(documents, Side::Document)?;
        let model = self.model();
        let nearest: Vec<f32> = if model.novelty_score().is_some() {
            let queries = self.vectorize(documents)?;
            let options = ClassifyOptions { k: OTHERS, ..self.options() };
            let mut found = FoundNeighbors::default();
            let _ = self.neighbors(&queries, &options, &mut found)?;
            let best = |(voters, document): (Voters<'_>, &Document)| {
                // Not the document itself, as it was before.
                let ids = model.ids();
                let same = voters.ranked().map(|(_, _, near)| near.row);
                let mut same = same.filter(|&row| ids.get(row as usize) == Some(&document.id));
                let same = same.next();
                voters.best_similarity_where(&|row| Some(row) != same)
            };
            found.iter().zip(documents).map(best).collect()
        } else {
            Vec::new()
        };
        let angular = model.dense().is_some_and(|dense| dense.spec().metric == Metric::Angular);
        let change = |(number, document): (usize, &Document)| {
            let (terms, weights) = row(&vectors.rows.view(), number);
            let vector = vectors.dense.as_ref().map(|dense| {
                let mut vector = dense.row(number).to_vec();
                if angular {
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

/// Engines over the documents of a [`Collection`]: after a change, only what is new gets an engine.
#[derive(Debug)]
pub struct UpdatableEngines {
    engines: Engines,
    terms: Vec<(Arc<Csr>, Arc<dyn Search>)>,
    vectors: Vec<(Arc<Vectors>, Arc<dyn Search>)>,
}

impl UpdatableEngines {
    /// No engine yet; `engines` makes them.
    pub fn new(engines: Engines) -> Self {
        Self { engines, terms: Vec::new(), vectors: Vec::new() }
    }

    /// The threads of the engines.
    pub fn threads(&self) -> &Threads {
        self.engines.threads()
    }

    /// Engines over the documents that are there now, if the neighbors by dense vectors have this share in the votes.
    ///
    /// # Errors
    /// If rows cannot be indexed.
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
                let there = known.iter().position(|(own, _)| Arc::ptr_eq(own, rows));
                let engine = match there {
                    Some(at) => known.swap_remove(at).1,
                    None => self.engines.engine(rows)?,
                };
                self.terms.push((Arc::clone(rows), Arc::clone(&engine)));
                segments.push((engine, live));
            }
            updatable(segments)
        });
        let vectors = (dense_share > 0.0 && model.dense().is_some()).then(|| {
            let mut known = std::mem::take(&mut self.vectors);
            let mut segments = Vec::new();
            for (part, live) in collection.dense_segments() {
                let there = known.iter().position(|(own, _)| Arc::ptr_eq(own, part.vectors()));
                let engine = match there {
                    Some(at) => known.swap_remove(at).1,
                    None => self.engines.dense(&part)?,
                };
                self.vectors.push((Arc::clone(part.vectors()), Arc::clone(&engine)));
                segments.push((engine, live));
            }
            updatable(segments)
        });
        Ok(Searchers { terms: terms.transpose()?, vectors: vectors.transpose()? })
    }
}

/// An engine over a segment, and its rows that count.
type Part = (Arc<dyn Search>, Option<Arc<[u32]>>);

/// The engine over some segments.
fn updatable(mut segments: Vec<Part>) -> Result<Arc<dyn Search>, SearchError> {
    if let [(_, None)] = segments.as_slice() {
        return Ok(segments.remove(0).0);
    }
    Ok(Arc::new(Updatable::new(segments)?))
}
