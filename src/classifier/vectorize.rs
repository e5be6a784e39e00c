//! Converts documents to query rows and dense vectors. Terms are analyzed, counted and weighted
//! like the model's rows.

use std::sync::{MutexGuard, PoisonError};

use rayon::prelude::*;

use super::{Classifier, DocumentVectors, TermUse};
use crate::model::{InputSpec, Settings};
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::{Csr, CsrBuilder, stack_rows};
use crate::text::analyze::TermCounter;
use crate::text::corpus::{
    Content, CorpusError, Document, Problem, add_features, check_features, check_vector,
};
use crate::text::counts::tally;
use crate::text::tfidf::Side;
use crate::text::vocabulary::Vocabulary;

/// The query rows of some documents.
struct QueryRows {
    rows: Csr,
    terms: Vec<TermUse>,
    dense: Vec<f32>,
}

impl Classifier {
    /// Converts documents to query rows.
    ///
    /// # Errors
    /// Fails if a document has features but the model needs text, or vice versa. Also fails if a
    /// document lacks a dense vector of the model's dimension.
    ///
    /// # Panics
    /// Never panics: every document gets a vector.
    pub fn vectorize(&self, documents: &[Document]) -> Result<DocumentVectors, CorpusError> {
        self.vectorize_as(documents, Side::Query)
    }

    /// Converts documents to rows, weighted as queries or as training documents. The two differ for
    /// weightings such as BM25.
    ///
    /// # Errors
    /// Returns the errors of [`vectorize`](Self::vectorize).
    ///
    /// # Panics
    /// Never panics: every document gets a vector.
    pub fn vectorize_as(
        &self,
        documents: &[Document],
        side: Side,
    ) -> Result<DocumentVectors, CorpusError> {
        let per_thread = documents.len().div_ceil(self.threads.count()).max(1);
        let chunks: Vec<QueryRows> = self.threads.run(|| {
            documents
                .par_chunks(per_thread)
                .map(|chunk| self.vectorize_chunk(chunk, side))
                .collect::<Result<_, _>>()
        })?;
        let mut matrices = Vec::with_capacity(chunks.len());
        let mut terms = Vec::with_capacity(documents.len());
        let mut values = Vec::with_capacity(chunks.iter().map(|chunk| chunk.dense.len()).sum());
        for QueryRows { rows, terms: uses, dense } in chunks {
            matrices.push(rows);
            terms.extend(uses);
            values.extend(dense);
        }
        let rows = stack_rows(&matrices, self.model.vocabulary().len());
        let dense = self.model.dense().map(|dense| {
            Vectors::new(dense.vectors().dimension(), values).expect("a vector for each document")
        });
        Ok(DocumentVectors { rows, terms, dense })
    }

    fn vectorize_chunk(
        &self,
        documents: &[Document],
        side: Side,
    ) -> Result<QueryRows, CorpusError> {
        let vocabulary = self.model.vocabulary();
        let mut counter = self.spare_counters().pop().unwrap_or_default();
        let mut rows = CsrBuilder::default();
        let mut used_terms = Vec::with_capacity(documents.len());
        let mut ids = Vec::new();
        let mut fielded = Vec::new();
        let mut entries = Vec::new();
        let mut terms = Vec::new();
        let mut values = Vec::new();
        let mut buffer = Vec::new();
        let Settings { fields, weighting, .. } = self.model.settings();
        let mut dense = Vec::new();
        for document in documents {
            let at = |problem: Problem| problem.at(&document.place);
            if let Some(part) = self.model.dense()
                && part.projection().is_none()
            {
                let dimension = part.vectors().dimension();
                let first_column = self.model.first_column();
                let dense_share = self.model.settings().dense_share;
                let needs_vectors = self.model.needs_vectors(dense_share);
                match given_vector(document, dimension, first_column, &mut dense) {
                    // A vector may be missing if it is not used.
                    Err(Problem::NoVector) if !needs_vectors => {
                        dense.resize(dense.len() + dimension, 0.0);
                    }
                    given => given.map_err(at)?,
                }
            }
            let term_use = match (&self.analyzer, &document.content) {
                _ if !self.model.has_terms() => Ok(TermUse { known: 0, unknown: 0 }),
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
            used_terms.push(term_use.map_err(at)?);
            terms.clear();
            terms.extend(entries.iter().map(|&(term, _)| term));
            values.clear();
            values.extend(entries.drain(..).map(|(_, value)| value));
            let weights = self.model.term_weights();
            let kept = weighting.weigh(side, &mut terms, &mut values, weights, &mut buffer);
            if let Some(projection) = self.model.dense().and_then(DensePart::projection) {
                projection.project(&terms[..kept], &values[..kept], &mut dense);
            }
            rows.push_slices(&terms[..kept], &values[..kept]);
        }
        self.spare_counters().push(counter);
        Ok(QueryRows { rows: rows.build(vocabulary.len()), terms: used_terms, dense })
    }

    fn spare_counters(&self) -> MutexGuard<'_, Vec<TermCounter>> {
        // A counter in use during a panic was not put back, so the remaining counters are intact.
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
}

/// Appends the vector given with a document: its dense vector, or its features as a vector.
fn given_vector(
    document: &Document,
    dimension: usize,
    first_column: u32,
    values: &mut Vec<f32>,
) -> Result<(), Problem> {
    match (&document.vector, &document.content) {
        (Some(vector), _) if vector.len() == dimension => {
            check_vector(vector)?;
            values.extend_from_slice(vector);
        }
        (Some(vector), _) => {
            return Err(Problem::VectorDimension { found: vector.len(), expected: dimension });
        }
        (None, Content::Features(features)) => {
            let start = values.len();
            values.resize(start + dimension, 0.0);
            add_features(features, first_column, &mut values[start..])?;
        }
        (None, _) => return Err(Problem::NoVector),
    }
    Ok(())
}
