//! The dense part of a model: vectors that documents bring along, or a projection of their terms.

use std::path::PathBuf;

use super::{Event, OnEvent, TrainError, Trainer};
use crate::model::InputSpec;
use crate::rows::dense::{
    DenseFeatures, DensePart, DenseSpec, MOST_DIMENSIONS, Metric, Projection, lsa,
};
use crate::rows::matrix::CsrView;
use crate::search::{SearchError, learn_scale};
use crate::text::analyze::Analyzer;
use crate::text::corpus::{
    Content, CorpusError, Document, Place, Problem, add_features, check_vector,
};
use crate::text::vocabulary::Vocabulary;
use crate::text::word_vectors::WordVectors;

/// Dense vectors for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseOptions {
    /// Where the vectors come from.
    pub source: DenseSource,
    /// The distance between them.
    pub metric: Metric,
    /// Whether terms are searched, too, and their neighbors vote.
    pub with_terms: bool,
}

/// Where dense vectors come from.
#[derive(Debug, Clone, PartialEq)]
pub enum DenseSource {
    /// Documents bring them along: [`Document::vector`], or features as vectors.
    Given {
        /// The field that a corpus of JSONL, CSV or TSV has them in, for the model to remember.
        field: Option<String>,
    },
    /// Latent semantic analysis of the weighted terms.
    Lsa {
        /// The number of dimensions.
        dimensions: usize,
        /// The seed of the random start.
        seed: u64,
    },
    /// A file of word vectors.
    WordVectors(PathBuf),
}

impl DenseOptions {
    /// Whether the model has no terms at all.
    pub fn is_alone(&self) -> bool {
        !self.with_terms && matches!(self.source, DenseSource::Given { .. })
    }
}

/// Collects the vectors that documents bring along.
#[derive(Debug, Default)]
pub(super) struct GivenVectors {
    dimension: Option<usize>,
    values: Vec<f32>,
    /// Features as vectors: the dimension is known when all were read.
    features: Vec<Vec<(u32, f32)>>,
    /// The dimension of the longest of them.
    longest: usize,
    first_column: u32,
}

impl GivenVectors {
    /// The first value of a vector made of features is that of column `first_column`.
    pub(super) fn new(first_column: u32) -> Self {
        Self { first_column, ..Self::default() }
    }

    /// Takes the vector of the next document.
    pub(super) fn take(&mut self, document: &mut Document) -> Result<(), CorpusError> {
        let place = document.place.clone();
        self.take_from(document).map_err(|problem| problem.at(&place))
    }

    fn take_from(&mut self, document: &mut Document) -> Result<(), Problem> {
        match (document.vector.take(), &document.content) {
            (Some(vector), _) if self.features.is_empty() => {
                let found = vector.len();
                if found == 0 || found > MOST_DIMENSIONS {
                    return Err(Problem::VectorSize { found });
                }
                let expected = *self.dimension.get_or_insert(found);
                if found != expected {
                    return Err(Problem::VectorDimension { found, expected });
                }
                check_vector(&vector)?;
                self.values.extend_from_slice(&vector);
            }
            (None, Content::Features(features)) if self.dimension.is_none() => {
                // The last column tells how long the vector is at least.
                let last = features.last().map_or(self.first_column, |&(column, _)| column);
                let found =
                    last.checked_sub(self.first_column).ok_or(Problem::ColumnZero)? as usize;
                let found = found + 1;
                if found > MOST_DIMENSIONS {
                    return Err(Problem::VectorSize { found });
                }
                let mut vector = vec![0.0; found];
                add_features(features, self.first_column, &mut vector)?;
                self.longest = self.longest.max(found);
                self.features.push(features.clone());
            }
            _ => return Err(Problem::NoVector),
        }
        Ok(())
    }

    /// The dimension of the vectors, as far as it is known.
    pub(super) fn dimension(&self) -> usize {
        self.dimension.unwrap_or(self.longest)
    }

    /// All values and the dimension.
    fn finish(self) -> (Vec<f32>, usize) {
        if let Some(dimension) = self.dimension {
            return (self.values, dimension);
        }
        let dimension = self.longest.max(1);
        let mut values = vec![0.0; dimension * self.features.len()];
        for (row, features) in values.chunks_exact_mut(dimension).zip(&self.features) {
            for &(column, value) in features {
                row[(column - self.first_column) as usize] = value;
            }
        }
        (values, dimension)
    }
}

/// What projections are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    /// The weighted training rows.
    pub(super) rows: CsrView<'a>,
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) input: &'a InputSpec,
}

impl Trainer {
    /// Makes the dense part of a model.
    pub(super) fn dense_part(
        &self,
        options: &DenseOptions,
        given: GivenVectors,
        terms: Terms<'_>,
        name: &str,
        on_event: OnEvent<'_>,
    ) -> Result<DensePart, TrainError> {
        let threads = self.engines.threads();
        let no_term = || CorpusError {
            place: Place { source: name.into(), line: None },
            problem: Problem::NoTerm,
        };
        let mut known = None;
        let (features, projection): (_, Option<Projection>) = match &options.source {
            DenseSource::Given { field } => (DenseFeatures::Given { field: field.clone() }, None),
            &DenseSource::Lsa { dimensions, seed } => {
                let projection = lsa(&terms.rows, dimensions, seed, threads).ok_or_else(no_term)?;
                (DenseFeatures::Lsa { seed }, Some(projection))
            }
            DenseSource::WordVectors(path) => {
                let InputSpec::Text(spec) = terms.input else {
                    return Err(TrainError::WordVectorsWithoutText);
                };
                let analyzer = Analyzer::new(spec.clone());
                let found = WordVectors::read(path, terms.vocabulary, &analyzer)?;
                known = Some(found.known);
                (DenseFeatures::WordVectors, Some(found.projection))
            }
        };
        let (values, dimension) = match &projection {
            None => given.finish(),
            Some(projection) => {
                (projection.project_all(&terms.rows, threads), projection.dimension())
            }
        };
        let spec = DenseSpec {
            features,
            dimension: u32::try_from(dimension).unwrap_or(u32::MAX),
            metric: options.metric,
            scale: 1.0,
            alone: !options.with_terms,
        };
        let part = DensePart::new(spec, values, projection).map_err(SearchError::from)?;
        let scale = learn_scale(part.vectors(), options.metric, threads)?;
        let part = part.with_scale(scale);
        let terms = terms.vocabulary.len();
        on_event(Event::Dense { part: &part, known: known.map(|known| (known, terms)) });
        Ok(part)
    }
}
