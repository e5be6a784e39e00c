//! The Python class `SparseRows`: exact neighbors among the rows of a CSR matrix.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use classify::rows::matrix::{Csr, csr};
use classify::search::{DeviceChoice, Neighbor, NeighborLists, Request, Search, Stop};
use classify::threads::Threads;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::documents::{CsrArrays, CsrSlices};
use crate::errors::{of_device, of_search};
use crate::model::as_matrix;
use crate::options::device;
use crate::running::{ProcessLocal, run_for, threads};

/// The rows of a CSR matrix with an index over them.
#[pyclass(frozen, module = "classify_knn._native")]
pub(crate) struct SparseRows {
    rows: Arc<Csr>,
    /// Whether rows and queries are scaled to length 1.
    unit: bool,
    jobs: Option<usize>,
    device: DeviceChoice,
    search_state: ProcessLocal<SearchState>,
}

struct SearchState {
    engine: Arc<dyn Search>,
    batch: usize,
    threads: Threads,
}

/// Copies rows of the matrix, and scales them to length 1 if `unit` is set.
fn matrix(slices: CsrSlices<'_>, rows: Range<usize>, unit: bool) -> Result<Csr, String> {
    let bounds = &slices.indptr[rows.start..=rows.end];
    let start = bounds[0];
    let indptr: Vec<u64> = bounds.iter().map(|&bound| bound - start).collect();
    #[expect(clippy::cast_possible_truncation, reason = "positions in slices")]
    let entries = start as usize..bounds[bounds.len() - 1] as usize;
    let mut data = slices.data[entries.clone()].to_vec();
    if unit {
        for pair in indptr.windows(2) {
            #[expect(clippy::cast_possible_truncation, reason = "positions in slices")]
            let values = &mut data[pair[0] as usize..pair[1] as usize];
            scale(values);
        }
    }
    csr(slices.columns, indptr, slices.indices[entries].to_vec(), data)
}

/// Scales a row to length 1, as the command line does. Zero rows stay zero.
fn scale(values: &mut [f32]) {
    let square: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if square > 0.0 {
        let length = square.sqrt();
        for value in values {
            #[expect(clippy::cast_possible_truncation, reason = "rounded to f32")]
            let scaled = (f64::from(*value) / length) as f32;
            *value = scaled;
        }
    }
}

/// Arrays of neighbors and of their similarities, each of shape queries × k.
type Matrices<'py> = (Bound<'py, numpy::PyArray2<i64>>, Bound<'py, numpy::PyArray2<f32>>);
/// Arrays `indptr`, indices and data.
type Arrays<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>);

impl SparseRows {
    fn search_state(&self, py: Python<'_>) -> PyResult<Arc<SearchState>> {
        self.search_state.get(py, || {
            let threads = threads(self.jobs)?;
            let engines = self.device.open(None, &threads).map_err(|error| of_device(&error))?;
            let engine = engines.engine(&self.rows).map_err(|error| of_search(&error))?;
            Ok(SearchState { engine, batch: engines.batch(), threads })
        })
    }

    /// Searches in batches, and passes each list to `each` in order.
    fn search<T: Send>(
        &self,
        py: Python<'_>,
        queries: &CsrArrays<'_>,
        k: usize,
        mut answers: T,
        each: impl Fn(&[Neighbor], &mut T) + Sync,
    ) -> PyResult<T> {
        let k = NonZeroUsize::new(k)
            .ok_or_else(|| PyValueError::new_err("n_neighbors must be at least 1"))?;
        let slices = queries.view()?;
        let search_state = self.search_state(py)?;
        if slices.columns != self.rows.cols() {
            return Err(PyValueError::new_err(format!(
                "the queries have {} columns, but the fitted rows have {}",
                slices.columns,
                self.rows.cols()
            )));
        }
        let work = |stop: &Stop| {
            let mut found = NeighborLists::default();
            for start in (0..slices.rows()).step_by(search_state.batch) {
                let end = slices.rows().min(start.saturating_add(search_state.batch));
                let batch = matrix(slices, start..end, self.unit).map_err(PyValueError::new_err)?;
                let request = Request::new(&batch, k).until(stop);
                let searched = search_state.engine.search(&request, &mut found);
                let _ = searched.map_err(|error| of_search(&error))?;
                found.iter().for_each(|neighbors| each(neighbors, &mut answers));
            }
            Ok(answers)
        };
        run_for(py, slices.rows(), work)?
    }
}

#[pymethods]
impl SparseRows {
    /// Copies the rows of a CSR matrix: (indptr, indices, data, columns).
    #[new]
    #[pyo3(signature = (rows, *, unit, n_jobs=None, device="auto"))]
    fn new(
        py: Python<'_>,
        rows: &Bound<'_, PyTuple>,
        unit: bool,
        n_jobs: Option<usize>,
        device: &str,
    ) -> PyResult<Self> {
        let device = self::device(device)?;
        let arrays = CsrArrays::of(rows)?;
        let slices = arrays.view()?;
        let rows = py.detach(|| matrix(slices, 0..slices.rows(), unit));
        let rows = Arc::new(rows.map_err(PyValueError::new_err)?);
        let sparse =
            Self { rows, unit, jobs: n_jobs, device, search_state: ProcessLocal::default() };
        // Reject infinite weights now, not at the first search.
        let _ = sparse.search_state(py)?;
        Ok(sparse)
    }

    /// Finds the nearest rows of each query.
    ///
    /// Returns rows and similarities as arrays of shape queries × k. Missing neighbors are -1 and
    /// -inf.
    fn kneighbors<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'_, PyTuple>,
        k: usize,
    ) -> PyResult<Matrices<'py>> {
        let queries = CsrArrays::of(queries)?;
        // The caller fills in missing neighbors.
        let k = k.min(self.rows.rows().max(1));
        let cells = queries.view()?.rows().saturating_mul(k);
        let none = (Vec::with_capacity(cells.min(1 << 28)), Vec::with_capacity(cells.min(1 << 28)));
        let found = self.search(py, &queries, k, none, |neighbors, (rows, similarities)| {
            rows.extend(neighbors.iter().map(|near| i64::from(near.row)));
            similarities.extend(neighbors.iter().map(|near| near.similarity));
            let missing = k - neighbors.len();
            rows.extend(std::iter::repeat_n(-1, missing));
            similarities.extend(std::iter::repeat_n(f32::NEG_INFINITY, missing));
        })?;
        Ok((as_matrix(py, found.0, k)?, as_matrix(py, found.1, k)?))
    }

    /// Finds the nearest rows of each query, as a CSR matrix.
    ///
    /// The columns are row numbers: best first if `sort` is true, otherwise in increasing order.
    #[pyo3(signature = (queries, k, *, above=0.0, sort=true))]
    fn top_k<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'_, PyTuple>,
        k: usize,
        above: f32,
        sort: bool,
    ) -> PyResult<Arrays<'py>> {
        let queries = CsrArrays::of(queries)?;
        let k = k.min(self.rows.rows().max(1));
        let found = self.search(
            py,
            &queries,
            k,
            (vec![0i64], Vec::new(), Vec::new()),
            |neighbors, (indptr, columns, similarities)| {
                let end = neighbors.partition_point(|near| near.similarity > above);
                let start = columns.len();
                let kept = &neighbors[..end];
                if sort {
                    columns.extend(kept.iter().map(|near| near.row));
                    similarities.extend(kept.iter().map(|near| near.similarity));
                } else {
                    let mut by_row: Vec<Neighbor> = kept.to_vec();
                    by_row.sort_unstable_by_key(|near| near.row);
                    columns.extend(by_row.iter().map(|near| near.row));
                    similarities.extend(by_row.iter().map(|near| near.similarity));
                }
                indptr.push(
                    indptr[indptr.len() - 1] + i64::try_from(columns.len() - start).unwrap_or(0),
                );
            },
        )?;
        let (indptr, columns, similarities) = found;
        Ok((indptr.into_pyarray(py), columns.into_pyarray(py), similarities.into_pyarray(py)))
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.rows.rows()
    }

    /// The number of columns.
    #[getter]
    fn columns(&self) -> usize {
        self.rows.cols()
    }

    /// Returns the number of threads.
    fn threads(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.search_state(py)?.threads.count())
    }
}
