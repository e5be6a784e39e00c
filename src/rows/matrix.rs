//! Sparse matrices in the CSR format.

use std::ops::Range;

pub use array_file::array::Array;

use crate::threads;

mod scattered_row;
pub(crate) use scattered_row::{CommonEntries, Row, ScatteredRow, prefetch, prefetch_row};

/// A sparse matrix in CSR format, with 32-bit column indices and 64-bit row pointers, which allow
/// more than 2³¹ nonzeros. The columns of each row are strictly increasing. The arrays are owned or
/// mapped from a file.
#[derive(Debug, Clone)]
pub struct Csr {
    columns: usize,
    indptr: Array<u64>,
    indices: Array<u32>,
    data: Array<f32>,
}

/// A borrowed [`Csr`], or consecutive rows of a [`Csr`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CsrView<'a> {
    columns: usize,
    /// The row pointers of these rows within the whole matrix. The first one is above 0 if earlier
    /// rows have entries.
    indptr: &'a [u64],
    indices: &'a [u32],
    data: &'a [f32],
}

impl PartialEq for Csr {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Csr {
    /// Creates a matrix without columns.
    pub(crate) fn without_columns(rows: usize) -> Self {
        let (indices, data) = (Array::default(), Array::default());
        Self { columns: 0, indptr: vec![0; rows + 1].into(), indices, data }
    }

    /// Borrows all rows.
    pub fn view(&self) -> CsrView<'_> {
        let Self { columns, indptr, indices, data } = self;
        CsrView { columns: *columns, indptr, indices, data }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len() - 1
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.columns
    }

    /// The number of entries of all rows.
    pub fn nnz(&self) -> usize {
        self.indices.len()
    }

    /// The row pointers: 0, then the end of each row among the entries.
    pub fn indptr(&self) -> &[u64] {
        &self.indptr
    }

    /// The columns of all entries.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The values of all entries.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// The columns and values of row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        self.view().row(row)
    }

    /// The columns and values of each row, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u32], &[f32])> {
        self.view().iter()
    }
}

impl<'a> CsrView<'a> {
    /// The number of rows.
    pub fn rows(self) -> usize {
        self.indptr.len() - 1
    }

    /// The number of columns.
    pub fn cols(self) -> usize {
        self.columns
    }

    /// The number of entries of all rows.
    pub fn nnz(self) -> usize {
        self.indices.len()
    }

    /// The row pointers. A slice of a matrix keeps the row pointers of the whole matrix, so the
    /// first one need not be 0.
    pub fn indptr(self) -> &'a [u64] {
        self.indptr
    }

    /// The columns of all entries.
    pub fn indices(self) -> &'a [u32] {
        self.indices
    }

    /// The values of all entries.
    pub fn data(self) -> &'a [f32] {
        self.data
    }

    /// The columns and values of row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(self, row: usize) -> (&'a [u32], &'a [f32]) {
        let entries = self.entries(row..row + 1);
        (&self.indices[entries.clone()], &self.data[entries])
    }

    /// The columns and values of each row, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a [u32], &'a [f32])> {
        (0..self.rows()).map(move |row| self.row(row))
    }

    /// Returns consecutive rows.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    pub fn slice(self, rows: Range<usize>) -> Self {
        let entries = self.entries(rows.clone());
        Self {
            columns: self.columns,
            indptr: &self.indptr[rows.start..=rows.end],
            indices: &self.indices[entries.clone()],
            data: &self.data[entries],
        }
    }

    /// Returns the range of the entries of consecutive rows.
    pub(crate) fn entries(self, rows: Range<usize>) -> Range<usize> {
        let base = self.indptr[0];
        bounds_of(self.indptr[rows.start] - base, self.indptr[rows.end] - base)
    }
}

/// Creates a CSR matrix with `columns` columns. Checks that row pointers start at 0 and do not
/// decrease, and that the columns of each row are strictly increasing and below `columns`. The rows
/// are checked on the caller's thread pool, if it runs in one (see
/// [`Threads`](crate::threads::Threads)).
///
/// # Errors
/// If a check fails. The error describes the problem.
pub fn csr(
    columns: usize,
    indptr: impl Into<Array<u64>>,
    indices: impl Into<Array<u32>>,
    data: impl Into<Array<f32>>,
) -> Result<Csr, String> {
    let matrix = Csr { columns, indptr: indptr.into(), indices: indices.into(), data: data.into() };
    let CsrView { indptr, indices, data, .. } = matrix.view();
    let entries = indices.len();
    if entries != data.len() {
        return Err(format!("{entries} columns, but {} values", data.len()));
    }
    if indptr.first() != Some(&0) || !indptr.is_sorted() {
        return Err("the row pointers do not increase from 0".into());
    }
    if let Some(&last) = indptr.last()
        && last != entries as u64
    {
        return Err(format!("the row pointers end at {last}, but there are {entries} entries"));
    }
    let is_in_order = |bounds: &[u64]| {
        let row = &indices[bounds_of(bounds[0], bounds[1])];
        row.is_sorted_by(|one, other| one < other)
            && row.last().is_none_or(|&last| (last as usize) < columns)
    };
    // A chunk of the row pointers, including the last row pointer of the previous chunk.
    let chunk = |index: usize| {
        &indptr[(index * ROWS_PER_TASK).saturating_sub(1)
            ..indptr.len().min((index + 1) * ROWS_PER_TASK)]
    };
    if !threads::all(indptr.len().div_ceil(ROWS_PER_TASK), |index| {
        chunk(index).windows(2).all(is_in_order)
    }) {
        let row = indptr.windows(2).position(|bounds| !is_in_order(bounds)).unwrap_or_default();
        return Err(format!("the columns of row {row} do not strictly increase below {columns}"));
    }
    Ok(matrix)
}

/// The number of rows checked per task.
const ROWS_PER_TASK: usize = 1 << 12;

#[expect(clippy::cast_possible_truncation, reason = "bounds of an array")]
fn bounds_of(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

/// Concatenates the rows of matrices that have `columns` columns each.
///
/// # Panics
/// If a matrix has a different number of columns.
pub(crate) fn stack_rows(matrices: &[Csr], columns: usize) -> Csr {
    let rows = matrices.iter().map(Csr::rows).sum::<usize>();
    let nonzeros = matrices.iter().map(Csr::nnz).sum::<usize>();
    let mut all = CsrBuilder::with_capacity(rows, nonzeros);
    for matrix in matrices {
        assert_eq!(matrix.cols(), columns, "all matrices have the same number of columns");
        let start = all.indices.len() as u64;
        all.indices.extend_from_slice(matrix.indices());
        all.data.extend_from_slice(matrix.data());
        all.indptr.extend(matrix.indptr()[1..].iter().map(|end| start + end));
    }
    // All rows were checked when their matrices were created.
    let CsrBuilder { indptr, indices, data } = all;
    Csr { columns, indptr: indptr.into(), indices: indices.into(), data: data.into() }
}

/// Builds a CSR matrix row by row.
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
    /// Creates a builder with space for `rows` rows and `nonzeros` entries.
    pub fn with_capacity(rows: usize, nonzeros: usize) -> Self {
        let mut indptr = Vec::with_capacity(rows + 1);
        indptr.push(0);
        Self { indptr, indices: Vec::with_capacity(nonzeros), data: Vec::with_capacity(nonzeros) }
    }

    /// Adds a row of `(column, value)` pairs with strictly increasing columns.
    pub fn push_row(&mut self, row: impl IntoIterator<Item = (u32, f32)>) {
        for (column, value) in row {
            self.indices.push(column);
            self.data.push(value);
        }
        self.indptr.push(self.indices.len() as u64);
    }

    /// Adds a row, given its strictly increasing columns and their values.
    ///
    /// # Panics
    /// If the numbers of columns and values differ.
    pub fn push_slices(&mut self, columns: &[u32], values: &[f32]) {
        assert_eq!(columns.len(), values.len(), "one value per column");
        self.indices.extend_from_slice(columns);
        self.data.extend_from_slice(values);
        self.indptr.push(self.indices.len() as u64);
    }

    /// Builds the matrix of the rows added so far.
    ///
    /// # Panics
    /// If a row's columns are not strictly increasing and below `columns`.
    pub fn build(self, columns: usize) -> Csr {
        csr(columns, self.indptr, self.indices, self.data).expect("rows in column order")
    }
}

/// Returns the columns and values of row `row`.
///
/// # Panics
/// If there is no such row.
pub(crate) fn row<'a>(matrix: &CsrView<'a>, row: usize) -> Row<'a> {
    matrix.row(row)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;
    use crate::threads::Threads;

    /// Generates rows of columns, sorted or not.
    fn rows() -> impl Strategy<Value = Vec<Vec<u32>>> {
        let row = prop::collection::vec(0u32..6, 0..4);
        let sorted = row.clone().prop_map(|mut row: Vec<u32>| {
            row.sort_unstable();
            row.dedup();
            row
        });
        // Several tasks check the rows. All rows except at most one are sorted.
        (prop::collection::vec(sorted, 0..6), row, 0..4 * ROWS_PER_TASK, any::<bool>()).prop_map(
            |(rows, other, index, wrong)| {
                let mut all: Vec<Vec<u32>> =
                    rows.iter().cycle().take(ROWS_PER_TASK * rows.len().min(3)).cloned().collect();
                if wrong && !all.is_empty() {
                    let index = index % all.len();
                    all[index] = other;
                }
                all
            },
        )
    }

    fn parts(rows: &[Vec<u32>]) -> (Vec<u64>, Vec<u32>, Vec<f32>) {
        let mut indptr = vec![0];
        for row in rows {
            indptr.push(indptr[indptr.len() - 1] + row.len() as u64);
        }
        let indices: Vec<u32> = rows.concat();
        let data = (0..indices.len()).map(|index| index as f32 + 1.0).collect();
        (indptr, indices, data)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn only_sorted_rows_form_a_matrix(rows in rows(), columns in 4usize..7) {
            let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
            let (indptr, indices, data) = parts(&rows);
            let is_legal = |row: &Vec<u32>| {
                row.is_sorted_by(|one, other| one < other)
                    && row.iter().all(|&column| (column as usize) < columns)
            };
            let wrong = rows.iter().position(|row| !is_legal(row));
            for found in [
                csr(columns, indptr.clone(), indices.clone(), data.clone()),
                threads.run(|| csr(columns, indptr, indices, data)),
            ] {
                match (found, wrong) {
                    (Ok(found), None) => {
                        let columns = found.iter().map(|row| row.0);
                        prop_assert!(columns.eq(rows.iter().map(Vec::as_slice)));
                    }
                    (Err(error), Some(row)) => {
                        prop_assert!(error.contains(&format!("row {row} ")), "{error}");
                    }
                    (found, wrong) => prop_assert!(false, "{found:?}, {wrong:?}"),
                }
            }
        }

        #[test]
        fn stacked_matrices_have_all_rows(blocks in prop::collection::vec(rows(), 0..4)) {
            let is_in_order =
                |rows: &Vec<Vec<u32>>| rows.iter().all(|row| row.is_sorted_by(|a, b| a < b));
            let blocks: Vec<Vec<Vec<u32>>> = blocks.into_iter().filter(is_in_order).collect();
            let build = |rows: &[Vec<u32>]| {
                let (indptr, indices, data) = parts(rows);
                csr(6, indptr, indices, data).unwrap()
            };
            let matrices: Vec<Csr> = blocks.iter().map(|rows| build(rows)).collect();
            let found = stack_rows(&matrices, 6);
            let indptr = found.indptr().to_vec();
            let checked = csr(6, indptr, found.indices().to_vec(), found.data().to_vec());
            prop_assert!(checked.is_ok());
            let all = blocks.concat();
            prop_assert_eq!(found.rows(), all.len());
            for (index, expected) in all.iter().enumerate() {
                prop_assert_eq!(row(&found.view(), index).0, &expected[..]);
            }
            let values = matrices.iter().flat_map(|matrix| matrix.data().to_vec());
            let values: Vec<f32> = values.collect();
            prop_assert_eq!(found.data(), &values[..]);
        }
    }

    #[test]
    fn no_row_is_skipped() {
        let threads = Threads::new(NonZeroUsize::MIN).unwrap();
        for index in [
            0,
            ROWS_PER_TASK - 2,
            ROWS_PER_TASK - 1,
            ROWS_PER_TASK,
            2 * ROWS_PER_TASK - 1,
            2 * ROWS_PER_TASK,
        ] {
            let mut rows = vec![vec![0]; 2 * ROWS_PER_TASK + 1];
            rows[index] = vec![1, 0];
            let (indptr, indices, data) = parts(&rows);
            assert!(csr(2, indptr.clone(), indices.clone(), data.clone()).is_err(), "row {index}");
            assert!(threads.run(|| csr(2, indptr, indices, data)).is_err(), "row {index}");
        }
    }

    #[test]
    fn invalid_row_pointers_are_rejected() {
        for indptr in [
            vec![],
            vec![0],
            vec![0, 2],
            vec![1, 2],
            vec![0, 3],
            vec![0, 2, 1, 2],
            vec![0, u64::MAX, 2],
        ] {
            let indices = vec![0u32, 1];
            let data = vec![1f32, 1.0];
            let found = csr(2, indptr.clone(), indices, data);
            assert_eq!(found.is_ok(), indptr == [0, 2], "{indptr:?}");
        }
        let indices = vec![0u32, 1];
        let data = vec![1f32];
        assert!(csr(2, vec![0u64, 2], indices, data).is_err());
    }
}
