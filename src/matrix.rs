//! Sparse matrices: CSR by [`sprs`], over memory that is owned or mapped from a model file.

pub use metric_index::array::Array;

/// Rows of term weights: 32-bit columns, 64-bit row pointers (more than 2³¹ non-zeros are legal).
pub type Csr = sprs::CsMatBase<f32, u32, Array<u64>, Array<u32>, Array<f32>, u64>;

/// A borrowed [`Csr`].
pub type CsrView<'a> = sprs::CsMatViewI<'a, f32, u32, u64>;

/// A CSR matrix of `columns` columns, checked: pointers that rise from 0, columns strictly
/// increasing in each row and below `columns`.
///
/// # Errors
/// The sentence that says what is wrong.
pub fn csr(
    columns: usize,
    indptr: impl Into<Array<u64>>,
    indices: impl Into<Array<u32>>,
    data: impl Into<Array<f32>>,
) -> Result<Csr, String> {
    let (indptr, indices, data) = (indptr.into(), indices.into(), data.into());
    let rows = indptr.len().saturating_sub(1);
    Csr::try_new((rows, columns), indptr, indices, data).map_err(|(.., error)| error.to_string())
}

/// Builds a CSR matrix a row at a time.
#[derive(Debug, Clone)]
pub struct CsrBuilder {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    data: Vec<f32>,
}

impl Default for CsrBuilder {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl CsrBuilder {
    /// Room for `rows` rows of `nonzeros` entries together.
    pub fn with_capacity(rows: usize, nonzeros: usize) -> Self {
        let mut indptr = Vec::with_capacity(rows + 1);
        indptr.push(0);
        Self { indptr, indices: Vec::with_capacity(nonzeros), data: Vec::with_capacity(nonzeros) }
    }

    /// Adds a row: `(column, value)` by strictly increasing column.
    pub fn push_row(&mut self, row: impl IntoIterator<Item = (u32, f32)>) {
        for (column, value) in row {
            self.indices.push(column);
            self.data.push(value);
        }
        self.indptr.push(self.indices.len() as u64);
    }

    /// The matrix of the rows so far.
    ///
    /// # Panics
    /// If a row's columns are not strictly increasing and below `columns`.
    pub fn build(self, columns: usize) -> Csr {
        csr(columns, self.indptr, self.indices, self.data).expect("rows in column order")
    }
}

/// The columns and values of row `row`.
///
/// # Panics
/// If there is no such row.
pub(crate) fn row<'a>(matrix: &CsrView<'a>, row: usize) -> (&'a [u32], &'a [f32]) {
    let bounds = matrix.indptr().outer_inds_sz(row);
    // Through the parts, so that the slices live as long as the matrix, not as the view.
    let (_, indices, data) = (*matrix).into_raw_storage();
    (&indices[bounds.clone()], &data[bounds])
}
