"""Conversion of lists, Series, columns and matrices to the inputs of the compiled part."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Column numbers are 32-bit integers.
_MAX_COLUMNS = 2**32 - 1
#: Maximum number of threads, as in the command.
_MAX_THREADS = 1024
#: Maximum number of neighbors that can be requested from fewer documents.
_MAX_PADDED_NEIGHBORS = 10_000


def is_missing(item: Any) -> bool:
    """Return whether an item is a missing value: None, NaN or the NA of pandas."""
    return (
        item is None
        or type(item).__name__ in ("NAType", "NaTType")
        or (isinstance(item, float) and item != item)
    )


def shown(item: Any) -> str:
    """Return the beginning of an item's representation, for messages."""
    text = repr(item)
    return text if len(text) <= 60 else text[:60] + "…"


def integer(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """Return the value of the integer parameter `name`, at most 2^32.

    Raises
    ------
    ValueError
        If the value is not an integer from `minimum` to `maximum`.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if minimum <= value and (maximum is None or value <= maximum):
            return min(int(value), 2**32)
    end = "" if maximum is None else f" to {maximum}"
    raise ValueError(f"{name}={shown(value)}: expected an integer from {minimum}{end}")


def neighbor_count(value: Any, documents: int) -> int:
    """Return the parameter `n_neighbors` for a search among `documents` documents or rows.

    The number is limited, because results are padded to this length.
    """
    return integer("n_neighbors", value, 1, max(documents, _MAX_PADDED_NEIGHBORS))


def check_input(values: Any, name: str) -> None:
    """Refuse values of the parameter `name` that are not a column, a valid matrix or an array.

    Raises
    ------
    ValueError
        If the values are one string, or a sparse matrix with inconsistent arrays.
    TypeError
        If the values have no order, can be read only once, or are a single item.
    """
    if sp.issparse(values):
        return _check_sparse(values, name)
    kind = type(values).__name__
    if isinstance(values, str) or (
        isinstance(values, np.ndarray) and values.ndim == 0 and values.dtype.kind in "UT"
    ):
        raise ValueError(f"{name} is one string: pass a list of strings, such as [text]")
    if isinstance(values, (bytes, bytearray)):
        raise TypeError(
            f"{name} is one {kind} object: decode it, and pass a list of strings, such as [text]"
        )
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"{name} is a {kind}, which has no order: pass a list")
    if isinstance(values, Mapping):
        raise TypeError(f"{name} is a {kind}: pass a list, such as list(values)")
    if hasattr(values, "__next__"):
        raise TypeError(f"{name} is a {kind}, which can be read only once: pass a list")
    if not any(
        hasattr(values, method) for method in ("__len__", "__array__", "__arrow_c_stream__")
    ):
        raise TypeError(f"{name} is {shown(values)}: expected a list, a Series or an array")


def _check_sparse(X: Any, name: str) -> None:
    """Refuse a sparse matrix with inconsistent arrays, on which scipy can crash.

    Raises
    ------
    ValueError
        If an array is invalid; the message names the array.
    """
    if len(X.shape) != 2:
        raise ValueError(f"{name} has the shape {X.shape}: expected rows and columns")
    if X.format in ("csr", "csc", "bsr"):
        height, width = X.shape
        if X.format == "bsr":
            height, width = height // X.blocksize[0], width // X.blocksize[1]
        count, bound = (width, height) if X.format == "csc" else (height, width)
        indptr, indices = X.indptr, X.indices
        if indptr.shape != (count + 1,) or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
            raise ValueError(
                f"{name}.indptr is corrupt: expected {count + 1} numbers "
                "that begin with 0 and never decrease"
            )
        if indices.ndim != 1 or indptr[-1] > min(len(indices), len(X.data)):
            raise ValueError(
                f"{name}.indices or {name}.data is corrupt: "
                f"{name}.indptr ends with {indptr[-1]}, beyond its length"
            )
        _check_indices(indices[: indptr[-1]], bound, f"{name}.indices")
    elif X.format == "coo":
        for indices, bound in zip((X.row, X.col), X.shape, strict=True):
            if len(indices) != len(X.data):
                raise ValueError(f"{name} is corrupt: its rows, columns and data differ in length")
            _check_indices(indices, bound, name)
    elif X.format == "dia" and len(X.offsets) != len(X.data):
        raise ValueError(
            f"{name} is corrupt: it has {len(X.offsets)} offsets and {len(X.data)} rows of data"
        )


def _check_indices(indices: np.ndarray, bound: int, name: str) -> None:
    if len(indices) and not 0 <= indices.min() <= indices.max() < bound:
        wrong = indices.max() if indices.max() >= bound else indices.min()
        raise ValueError(f"{name} is corrupt: it has the index {wrong}, expected 0 to {bound - 1}")


def as_list(column: Any) -> list | None:
    """Return a column of any library as a list, or None if it is not a column.

    Columns of Arrow, pandas, polars and Hugging Face are converted by their own methods. Other
    sequences are copied.
    """
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
    if hasattr(column, "__len__") and (
        hasattr(column, "__getitem__") or hasattr(column, "__iter__")
    ):
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
    TypeError
        If X is not a column, a matrix or an array, or has items that are not strings.
    """
    check_input(X, "X")
    if isinstance(X, np.ndarray) and (X.dtype.kind not in "OUT" or X.ndim > 2):
        return None
    column = as_list(X)
    if column is None:
        return None
    if not column:
        return [] if getattr(getattr(X, "dtype", None), "kind", "O") in "UT" else None
    first = next((item for item in column if not is_missing(item)), None)
    if first is not None and not isinstance(first, str) and not any(map(_holds_text, column)):
        return None
    row = next((row for row, item in enumerate(column) if not isinstance(item, str)), None)
    if row is not None:
        item = column[row]
        if is_missing(item):
            raise ValueError(
                f"X[{row}] is {item}: a text is missing; put '' for a document without text"
            )
        decode = "; decode it" if isinstance(item, (bytes, bytearray)) else ""
        raise TypeError(f"X[{row}] is {shown(item)}, expected a str{decode}")
    return column


def _holds_text(item: Any) -> bool:
    """Return whether an item is certainly not a row of numbers."""
    if isinstance(item, (list, tuple)):
        return len(item) > 0 and isinstance(item[0], (str, bytes))
    return isinstance(item, (str, bytes, bytearray, dict, set, frozenset))


def per_document(name: str, values: Any, documents: int) -> list[str]:
    """Return the values of the parameter `name`, one per document, as strings.

    Raises
    ------
    ValueError
        If the number of values differs from the number of documents, or a value is missing.
    """
    check_input(values, name)
    listed = as_list(values)
    if listed is None:
        raise ValueError(
            f"{name} has the shape {np.shape(values)}: expected one value per document"
        )
    if len(listed) != documents:
        raise ValueError(f"{name} has {len(listed)} entries, X has {documents} documents")
    row = next((row for row, item in enumerate(listed) if is_missing(item)), None)
    if row is not None:
        raise ValueError(f"{name}[{row}] is {listed[row]}: expected a value for each document")
    return [str(item) for item in listed]


def csr_arrays(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return (indptr, indices, data, columns) of a sparse matrix, with the types of the compiled
    part."""
    _check_sparse(X, "X")
    X = X.tocsr()
    if X.shape[1] > _MAX_COLUMNS:
        raise ValueError(f"{X.shape[1]} columns are more than {_MAX_COLUMNS}")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"a sparse matrix of type {X.dtype}: expected numbers")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # The arrays may be longer than needed.
    count = X.indptr[-1]
    return (
        np.ascontiguousarray(X.indptr, dtype=np.uint64),
        np.ascontiguousarray(X.indices[:count], dtype=np.uint32),
        np.ascontiguousarray(X.data[:count], dtype=np.float32),
        int(X.shape[1]),
    )


def as_csr(X: Any, name: str) -> sp.csr_matrix:
    """Return a matrix of numbers as CSR.

    Raises
    ------
    ValueError
        If X is not a matrix of finite numbers.
    """
    from sklearn.utils import check_array

    check_input(X, name)
    X = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float32, np.float64],
        input_name=name,
        accept_large_sparse=True,
    )
    return X if sp.issparse(X) else sp.csr_matrix(X)


def n_threads(n_jobs: int | None) -> int | None:
    """Return the number of threads for `n_jobs`, or None for all processors.

    As in joblib, -1 means all processors and -2 all except one.
    """
    if n_jobs is None:
        return None
    is_integer = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if not is_integer or n_jobs == 0 or n_jobs > _MAX_THREADS:
        expected = (
            f"expected None, an integer from 1 to {_MAX_THREADS}, or a negative one as in joblib"
        )
        raise ValueError(f"n_jobs={shown(n_jobs)}: {expected}")
    if n_jobs == -1:
        return None
    if n_jobs < 0:
        available = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else (os.cpu_count() or 1)
        )
        return max(1, available + 1 + int(n_jobs))
    return int(n_jobs)


def pad(indices: np.ndarray, similarities: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad lists of neighbors to length k with -1 and -inf."""
    missing = k - indices.shape[1]
    if missing <= 0:
        return indices, similarities
    more = ((0, 0), (0, missing))
    return np.pad(indices, more, constant_values=-1), np.pad(
        similarities, more, constant_values=-np.inf
    )


def fill(
    indptr: np.ndarray, labels: np.ndarray, values: np.ndarray, columns: np.ndarray, width: int
) -> np.ndarray:
    """Convert (label, value) pairs to a dense array with `width` columns.

    The pairs of row i are at ``indptr[i]:indptr[i + 1]``. `columns` maps labels to columns.
    """
    rows = len(indptr) - 1
    dense = np.zeros((rows, width))
    dense[np.repeat(np.arange(rows), np.diff(indptr)), columns[labels]] = values
    return dense
