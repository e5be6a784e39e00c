//! Dense vectors given with the documents.

use crate::rows::dense::MAX_DIMENSIONS;
use crate::text::corpus::{Content, CorpusError, Document, Problem, add_features, check_vector};

/// Collects the vectors given with the documents.
#[derive(Debug, Default)]
pub(super) struct GivenVectors {
    dimension: Option<usize>,
    values: Vec<f32>,
    /// The vectors that were given as features. Their dimension is known once all documents are
    /// read.
    features: Vec<Vec<(u32, f32)>>,
    /// The dimension of the longest vector in `features`.
    longest: usize,
    first_column: u32,
}

impl GivenVectors {
    /// Creates an empty collection. Column `first_column` of the features is the first value of a
    /// vector.
    pub(super) fn new(first_column: u32) -> Self {
        Self { first_column, ..Self::default() }
    }

    /// Adds the vector of the next document.
    pub(super) fn take(&mut self, document: &mut Document) -> Result<(), CorpusError> {
        let place = document.place.clone();
        self.take_from(document).map_err(|problem| problem.at(&place))
    }

    fn take_from(&mut self, document: &mut Document) -> Result<(), Problem> {
        match (document.vector.take(), &document.content) {
            (Some(vector), _) if self.features.is_empty() => {
                let found = vector.len();
                if found == 0 || found > MAX_DIMENSIONS {
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
                // The vector is at least as long as its last column.
                let last = features.last().map_or(self.first_column, |&(column, _)| column);
                let found =
                    last.checked_sub(self.first_column).ok_or(Problem::ColumnZero)? as usize;
                let found = found + 1;
                if found > MAX_DIMENSIONS {
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

    /// Returns the largest dimension of a vector so far.
    pub(super) fn dimension(&self) -> usize {
        self.dimension.unwrap_or(self.longest)
    }

    /// Returns the values of all vectors, one after the other, and their dimension.
    pub(super) fn finish(self) -> (Vec<f32>, usize) {
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
