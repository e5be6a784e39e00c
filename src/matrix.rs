//! Sparse matrices: CSR by [`sprs`], over memory that is owned or mapped from a model file.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;

/// An array that is owned or lies in a memory-mapped file. It reads as a slice.
#[derive(Clone)]
pub struct Array<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    Owned(Vec<T>),
    Mapped { map: Arc<Mmap>, bytes: Range<usize> },
}

impl<T: Pod> Array<T> {
    /// The array in `map[bytes]`, or `None` if it does not lie there whole and aligned.
    pub(crate) fn mapped(map: &Arc<Mmap>, bytes: Range<usize>) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(bytes.clone())?).ok()?;
        Some(Self(Storage::Mapped { map: Arc::clone(map), bytes }))
    }

    /// Some of the values; what lies in a file is not copied.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn slice(&self, values: Range<usize>) -> Self {
        match &self.0 {
            Storage::Owned(own) => Self(Storage::Owned(own[values].to_vec())),
            Storage::Mapped { map, bytes } => {
                assert!(values.start <= values.end && values.end <= self.len(), "out of range");
                let at = |value: usize| bytes.start + value * size_of::<T>();
                let bytes = at(values.start)..at(values.end);
                Self(Storage::Mapped { map: Arc::clone(map), bytes })
            }
        }
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Owned(values) => values,
            Storage::Mapped { map, bytes } => bytemuck::cast_slice(&map[bytes.clone()]),
        }
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Self(Storage::Owned(values))
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} values]", self.len())
    }
}

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
