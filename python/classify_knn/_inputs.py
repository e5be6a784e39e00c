"""Convert lists, Series, columns and matrices to the inputs of the compiled part."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Column numbers are 32-bit integers.
_MAX_COLUMNS = 2**32 - 1


def is_missing(item: Any) -> bool:
    """Return whether an item is a missing value: None, NaN or the NA of pandas."""
    return item is None or type(item).__name__ in ("NAType", "NaTType") or (isinstance(item, float) and item != item)


def as_list(column: Any) -> list | None:
    """Return a column of any library as a list, or None if it is not a column.

    Columns of Arrow, pandas, polars and Hugging Face are converted by their own methods; other
    sequences are copied. """
    if isinstance(column, list):
        return column
    if isinstance(column, (str, bytes, dict)) or sp.issparse(column):
        return None
    if isinstance(column, np.ndarray):
        if column.ndim == 2 and column.shape[1] == 1 and column.dtype.kind in "OUT":
            column = column[:, 0]
        return column.tolist() if column.ndim == 1 else None
    shape = getattr(column, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:  # a frame or table
        if shape[1] != 1:
            return None
        if hasattr(column, "iloc"):
            column = column.iloc[:, 0]
        else:
            names = getattr(column, "column_names", None) or column.columns
            column = column[names[0]]
    for name in ("to_pylist", "to_list", "tolist"):
        convert = getattr(column, name, None)
        if convert is not None:
            return convert()
    if hasattr(column, "__len__") and hasattr(column, "__getitem__"):
        return list(column)
    if hasattr(column, "__arrow_c_stream__"):
        import pyarrow

        return pyarrow.chunked_array(column).to_pylist()
    return None


def as_texts(X: Any) -> list[str] | None:
    """Return X as a list of strings, or None if it contains no strings.

    Raises
    ------
    ValueError
        If X is one string, or a string is missing.
    """
    if isinstance(X, (str, bytes)):
        raise ValueError("X is one string: pass a list of strings, such as [text]")
    if isinstance(X, np.ndarray) and (X.dtype.kind not in "OUT" or X.ndim > 2):
        return None
    column = as_list(X)
    if column is None:
        return None
    if not column and getattr(X, "dtype", None) is not None and getattr(X.dtype, "kind", "") in "UT":
        return []
    first = next((item for item in column if not is_missing(item)), None)
    if not isinstance(first, str):
        return None
    row = next((row for row, item in enumerate(column) if not isinstance(item, str)), None)
    if row is not None:
        item = column[row]
        if is_missing(item):
            raise ValueError(f"X[{row}] is {item}: a text is missing; put '' for a document without text")
        raise TypeError(f"X[{row}] is {str(item)[:60]}, expected a str")
    return column


def csr_arrays(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return (indptr, indices, data, columns) of a sparse matrix, with the types of the compiled
    part."""
    X = X.tocsr()
    if X.shape[1] > _MAX_COLUMNS:
        raise ValueError(f"{X.shape[1]} columns are more than {_MAX_COLUMNS}")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"a sparse matrix of type {X.dtype}: expected numbers")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    data = np.ascontiguousarray(X.data, dtype=np.float32)
    return (
        np.ascontiguousarray(X.indptr, dtype=np.uint64),
        np.ascontiguousarray(X.indices, dtype=np.uint32),
        data,
        int(X.shape[1]),
    )


def as_csr(X: Any, name: str) -> sp.csr_matrix:
    """Return a matrix of numbers as CSR.

    Raises
    ------
    ValueError
        If it is not a matrix of finite numbers.
    """
    from sklearn.utils import check_array

    X = check_array(X, accept_sparse="csr", dtype=[np.float32, np.float64], input_name=name, accept_large_sparse=True)
    return X if sp.issparse(X) else sp.csr_matrix(X)


def n_threads(n_jobs: int | None) -> int | None:
    """Return the number of threads for n_jobs, as in joblib: None and -1 mean all processors, -2
    all except one."""
    if n_jobs is None or n_jobs == -1:
        return None
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r}: expected None, an integer from 1, or a negative one as in joblib")
    if n_jobs < 0:
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        return max(1, available + 1 + int(n_jobs))
    return int(n_jobs)


def pad(indices: np.ndarray, similarities: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad lists of neighbors to length k with -1 and -inf."""
    missing = k - indices.shape[1]
    if missing <= 0:
        return indices, similarities
    try:
        more = ((0, 0), (0, missing))
        return np.pad(indices, more, constant_values=-1), np.pad(similarities, more, constant_values=-np.inf)
    except ValueError as error:  # larger than the largest possible array
        raise MemoryError(f"{len(indices)} lists of {k} neighbors do not fit in memory") from error


def fill(indptr: np.ndarray, labels: np.ndarray, values: np.ndarray, columns: np.ndarray, width: int) -> np.ndarray:
    """Convert ragged (label, value) pairs to a dense array with `width` columns; `columns` maps
    labels to columns."""
    rows = len(indptr) - 1
    dense = np.zeros((rows, width))
    dense[np.repeat(np.arange(rows), np.diff(indptr)), columns[labels]] = values
    return dense
