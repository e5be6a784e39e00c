//! Collections of dense vectors, owned and borrowed.

use crate::rows::matrix::{Array, Csr, CsrBuilder, CsrView};

/// The error for values that cannot be divided into complete rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{values} values cannot be divided into rows of {dimension}")]
pub struct ShapeError {
    /// The number of values.
    pub values: usize,
    /// The number of values per row.
    pub dimension: usize,
}

/// Borrowed vectors of the same dimension, in row-major order.
///
/// ```
/// use classify::rows::dense::VectorsView;
///
/// let vectors = VectorsView::new(2, &[1.0, 0.0, 0.5, 0.5])?;
/// assert_eq!((vectors.rows(), vectors.dimension()), (2, 2));
/// assert!(VectorsView::new(3, &[1.0]).is_err());
/// # Ok::<(), classify::rows::dense::ShapeError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct VectorsView<'a> {
    dimension: usize,
    values: &'a [f32],
}

impl<'a> VectorsView<'a> {
    /// Divides `values` into rows of `dimension` values each.
    ///
    /// # Errors
    /// If the values cannot be divided into complete rows.
    pub fn new(dimension: usize, values: &'a [f32]) -> Result<Self, ShapeError> {
        if dimension == 0 || !values.len().is_multiple_of(dimension) {
            return Err(ShapeError { values: values.len(), dimension });
        }
        Ok(Self { dimension, values })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// The number of values per row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// All values, row by row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.dimension)
    }

    /// Converts the rows to a sparse matrix, without zeros.
    pub(crate) fn sparse(&self) -> Csr {
        let mut rows = CsrBuilder::default();
        for row in self.iter() {
            // NaN is kept here and rejected later.
            rows.push_row((0..).zip(row.iter().copied()).filter(|&(_, value)| value != 0.0));
        }
        rows.build(self.dimension)
    }

    /// Appends vectors, multiplied by `scale`, to the rows of `rows` with the same numbers, as
    /// additional columns. Zeros are left out. `has_vector` returns whether a row gets its vector.
    pub(crate) fn append_to(
        &self,
        rows: &CsrView<'_>,
        scale: f32,
        has_vector: &dyn Fn(u32) -> bool,
    ) -> Csr {
        let first = u32::try_from(rows.cols()).expect("fewer than 2^32 columns");
        let mut joined = CsrBuilder::with_capacity(rows.rows(), rows.nnz());
        for (row, ((columns, values), vector)) in (0u32..).zip(rows.iter().zip(self.iter())) {
            let terms = columns.iter().copied().zip(values.iter().copied());
            let vector = if has_vector(row) { vector } else { &[] };
            joined.push_row(terms.chain(scaled_entries(vector, first, scale)));
        }
        joined.build(rows.cols() + self.dimension)
    }
}

/// Returns the nonzero values of a vector, multiplied by `scale`, with their columns. The first
/// value is in column `first`.
pub(crate) fn scaled_entries(
    vector: &[f32],
    first: u32,
    scale: f32,
) -> impl Iterator<Item = (u32, f32)> {
    let scaled = (first..).zip(vector.iter().map(move |value| value * scale));
    scaled.filter(|&(_, value)| value != 0.0)
}

/// Vectors of the same dimension, in row-major order, in memory or mapped from a model file.
///
/// ```
/// use classify::rows::dense::Vectors;
///
/// let vectors = Vectors::new(2, vec![1.0, 0.0, 0.5, 0.5])?;
/// assert_eq!((vectors.rows(), vectors.row(1)), (2, &[0.5, 0.5][..]));
/// # Ok::<(), classify::rows::dense::ShapeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Vectors {
    dimension: usize,
    values: Array<f32>,
}

impl Vectors {
    /// Divides `values` into rows of `dimension` values each.
    ///
    /// # Errors
    /// If the values cannot be divided into complete rows.
    pub fn new(dimension: usize, values: impl Into<Array<f32>>) -> Result<Self, ShapeError> {
        let values = values.into();
        VectorsView::new(dimension, &values)?;
        Ok(Self { dimension, values })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// The number of values per row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.dimension..][..self.dimension]
    }

    /// Borrows the rows.
    ///
    /// # Panics
    /// Never: the rows are complete.
    pub fn view(&self) -> VectorsView<'_> {
        VectorsView::new(self.dimension, &self.values).expect("whole rows")
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_appended_as_columns() {
        let mut terms = CsrBuilder::default();
        terms.push_slices(&[0, 2], &[0.5, 0.25]);
        terms.push_slices(&[], &[]);
        let vectors = Vectors::new(2, vec![1.0, 0.0, -2.0, 4.0]).expect("two rows");
        let joined = vectors.view().append_to(&terms.build(3).view(), 0.5, &|_| true);
        assert_eq!(joined.cols(), 5);
        assert_eq!(joined.row(0), (&[0, 2, 3][..], &[0.5, 0.25, 0.5][..]));
        assert_eq!(joined.row(1), (&[3, 4][..], &[-1.0, 2.0][..]));
    }
}
