//! Documents from Python: a list of `str`, the arrays of a CSR matrix, or a dense array.

use std::sync::Arc;

use classify::text::corpus::{Content, Document, Place};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyTuple};

/// Arrays from Python. They must live as long as documents borrow from them.
pub(crate) enum Input<'py> {
    Texts(Vec<PyBackedStr>),
    Csr(CsrArrays<'py>),
    Dense(PyReadonlyArray2<'py, f32>),
}

/// A CSR matrix: `indptr`, `indices`, `data` and the number of columns.
pub(crate) struct CsrArrays<'py> {
    indptr: PyReadonlyArray1<'py, u64>,
    indices: PyReadonlyArray1<'py, u32>,
    data: PyReadonlyArray1<'py, f32>,
    columns: usize,
}

impl<'py> CsrArrays<'py> {
    pub(crate) fn of(arrays: &Bound<'py, PyTuple>) -> PyResult<Self> {
        let (indptr, indices, data, columns) = arrays.extract()?;
        Ok(Self { indptr, indices, data, columns })
    }

    pub(crate) fn view(&self) -> PyResult<CsrSlices<'_>> {
        let view = CsrSlices {
            indptr: self.indptr.as_slice()?,
            indices: self.indices.as_slice()?,
            data: self.data.as_slice()?,
            columns: self.columns,
        };
        view.check().map_err(PyValueError::new_err)?;
        Ok(view)
    }
}

/// A checked CSR matrix.
#[derive(Clone, Copy)]
pub(crate) struct CsrSlices<'a> {
    pub(crate) indptr: &'a [u64],
    pub(crate) indices: &'a [u32],
    pub(crate) data: &'a [f32],
    pub(crate) columns: usize,
}

impl CsrSlices<'_> {
    /// Checks the bounds of the arrays. The order of columns is checked where rows are used.
    fn check(&self) -> Result<(), String> {
        let rises = self.indptr.windows(2).all(|pair| pair[0] <= pair[1]);
        let whole = self.indptr.first() == Some(&0)
            && self.indptr.last() == Some(&(self.indices.len() as u64))
            && self.indices.len() == self.data.len();
        if !rises || !whole {
            return Err("the arrays indptr, indices and data do not form a CSR matrix".into());
        }
        if let Some(index) = self.indices.iter().find(|&&index| index as usize >= self.columns) {
            return Err(format!("column {index} is beyond the {} columns", self.columns));
        }
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.indptr.len() - 1
    }

    #[expect(clippy::cast_possible_truncation, reason = "positions in slices")]
    pub(crate) fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let bounds = self.indptr[row] as usize..self.indptr[row + 1] as usize;
        (&self.indices[bounds.clone()], &self.data[bounds])
    }
}

impl<'py> Input<'py> {
    pub(crate) fn of(input: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(texts) = input.cast::<PyList>() {
            let text = |(row, item): (usize, Bound<'py, PyAny>)| {
                item.extract::<PyBackedStr>().map_err(|error| {
                    if item.is_instance_of::<pyo3::types::PyString>() {
                        return PyValueError::new_err(format!(
                            "X[{row}]: {}",
                            error.value(item.py())
                        ));
                    }
                    let shown =
                        item.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
                    let shown: String = shown.chars().take(60).collect();
                    PyTypeError::new_err(format!("X[{row}] is {shown}, expected a str"))
                })
            };
            return Ok(Self::Texts(texts.iter().enumerate().map(text).collect::<PyResult<_>>()?));
        }
        if let Ok(arrays) = input.cast::<PyTuple>() {
            return Ok(Self::Csr(CsrArrays::of(arrays)?));
        }
        Ok(Self::Dense(input.extract()?))
    }

    pub(crate) fn view(&self) -> PyResult<View<'_>> {
        Ok(match self {
            Self::Texts(texts) => View::Texts(texts),
            Self::Csr(arrays) => View::Csr(arrays.view()?),
            Self::Dense(values) => View::Dense {
                rows: values.shape()[0],
                dimension: values.shape()[1],
                values: values.as_slice()?,
            },
        })
    }
}

/// Borrowed documents, before their conversion to [`Document`]s.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Texts(&'a [PyBackedStr]),
    Csr(CsrSlices<'a>),
    Dense { values: &'a [f32], rows: usize, dimension: usize },
}

impl View<'_> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Csr(matrix) => matrix.rows(),
            &Self::Dense { rows, .. } => rows,
        }
    }

    /// Returns document `row` without labels. As in the program, its identifier is its number,
    /// counted from 1.
    pub(crate) fn document(&self, row: usize, source: &Arc<str>) -> Document {
        let (content, vector) = match self {
            Self::Texts(texts) => (Content::Text(texts[row].to_string()), None),
            Self::Csr(matrix) => {
                let (columns, values) = matrix.row(row);
                let pairs = columns.iter().copied().zip(values.iter().copied());
                (Content::Features(pairs.collect()), None)
            }
            Self::Dense { values, dimension, .. } => {
                let vector = values[row * dimension..][..*dimension].to_vec();
                (Content::Text(String::new()), Some(vector))
            }
        };
        let number = row as u64 + 1;
        Document {
            id: number.to_string(),
            content,
            labels: Vec::new(),
            weight: 1.0,
            vector,
            group: None,
            place: Place { source: Arc::clone(source), line: Some(number) },
        }
    }
}
