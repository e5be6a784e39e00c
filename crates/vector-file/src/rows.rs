//! Vectors in memory.

/// Vectors that have the same dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The values of all vectors, in row-major order.
    pub values: Vec<f32>,
    /// The number of values per vector, at least 1.
    pub dimension: usize,
}

impl Rows {
    /// Returns the number of vectors.
    pub fn len(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// Returns whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the vector with the given number, counted from 0.
    ///
    /// # Panics
    /// Panics if there is no such vector.
    pub fn row(&self, number: usize) -> &[f32] {
        &self.values[number * self.dimension..][..self.dimension]
    }

    pub(crate) fn new(values: Vec<f32>, dimension: usize) -> Result<Self, String> {
        if dimension == 0 {
            return Err("it contains no vector".to_owned());
        }
        Ok(Self { values, dimension })
    }
}
