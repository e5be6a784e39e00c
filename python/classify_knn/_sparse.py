"""Exact nearest neighbors among the rows of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _native
from ._inputs import as_csr, check_input, csr_arrays, integer, n_threads, neighbor_count, pad

_METRICS = ("cosine", "dot")


def _check_metric(metric: str) -> bool:
    if metric not in _METRICS:
        raise ValueError(
            f"metric={metric!r}: expected 'cosine' or 'dot'; "
            "MetricIndex has other metrics, for dense vectors"
        )
    return metric == "cosine"


class SparseNeighbors(BaseEstimator):
    """Exact search for the most similar rows of a sparse matrix, by cosine or dot product.

    It has the interface of :class:`sklearn.neighbors.NearestNeighbors`. A similarity is the sum of
    the products of ``float32`` weights, added as ``float64`` and rounded once to ``float32``.
    Neighbors are ordered by similarity, and ties by row number. The results are bit-identical with
    any number of threads and on a GPU.

    Parameters
    ----------
    n_neighbors : int, default=5
        The number of neighbors per query.
    metric : {'cosine', 'dot'}, default='cosine'
        ``cosine`` scales rows and queries to length 1; ``dot`` leaves them unchanged.
    n_jobs : int or None, default=None
        The number of threads; None and -1 mean all processors.
    device : str, default='auto'
        ``'cpu'``, ``'cuda'``, ``'cuda:N'``, ``'cuda:all'``, or ``'auto'``: a GPU if one works.

    Attributes
    ----------
    n_features_in_ : int
        The number of columns.
    n_samples_fit_ : int
        The number of rows.

    Notes
    -----
    Only rows with a similarity above 0 are neighbors. A query with fewer than `n_neighbors` such
    rows gets index -1 and distance ``inf`` in the remaining columns.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from classify_knn import SparseNeighbors
    >>> rows = sp.csr_matrix([[3.0, 4.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    >>> distances, indices = SparseNeighbors(n_neighbors=2).fit(rows).kneighbors(rows[:1])
    >>> indices.tolist()
    [[0, 1]]
    >>> distances.round(6).tolist()
    [[0.0, 0.2]]
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        metric: str = "cosine",
        n_jobs: int | None = None,
        device: str = "auto",
    ):
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.n_jobs = n_jobs
        self.device = device

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = False
        return tags

    def fit(self, X: Any, y: Any = None) -> SparseNeighbors:
        """Index the rows of a matrix.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features)
            The rows. A dense array is converted to a sparse matrix.
        y : None
            Ignored.

        Returns
        -------
        SparseNeighbors
            The fitted object.
        """
        unit = _check_metric(self.metric)
        check_input(X, "X")
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float32, np.float64], accept_large_sparse=True
        )
        X = X if sp.issparse(X) else sp.csr_matrix(X)
        self.n_samples_fit_ = X.shape[0]
        self._unit = unit
        self._fit_X = X
        self._rows = _native.SparseRows(
            csr_arrays(X), unit=unit, n_jobs=n_threads(self.n_jobs), device=self.device
        )
        return self

    def __getstate__(self):
        state = {**super().__getstate__()}
        state.pop("_rows", None)
        return state

    def _searched(self) -> _native.SparseRows:
        rows = self.__dict__.get("_rows")
        if rows is not None:
            return rows
        check_is_fitted(self, "n_samples_fit_")
        if not hasattr(self, "_rows"):  # unpickled
            self._rows = _native.SparseRows(
                csr_arrays(self._fit_X),
                unit=self._unit,
                n_jobs=n_threads(self.n_jobs),
                device=self.device,
            )
        return self._rows

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ):
        """Find the nearest rows of each query.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_queries, n_features), default=None
            The queries. None: the fitted rows, without each row as its own neighbor.
        n_neighbors : int, default=None
            The number of neighbors, at most 10,000 or the number of rows. None: the number set in
            the constructor.
        return_distance : bool, default=True
            Whether to return the distances as well.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            1 minus the cosine, or the negated dot product, in increasing order. Only if
            `return_distance`.
        indices : ndarray of int64 of shape (n_queries, n_neighbors)
            The rows; missing neighbors are -1.
        """
        rows = self._searched()
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        k = neighbor_count(k, self.n_samples_fit_)
        own = X is None
        if own:
            X = self._fit_X
        elif not (sp.issparse(X) and X.format == "csr" and X.shape[1] == self.n_features_in_):
            check_input(X, "X")
            X = validate_data(
                self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False
            )
            X = X if sp.issparse(X) else sp.csr_matrix(X)
        indices, similarities = pad(*rows.kneighbors(csr_arrays(X), k + own), k + own)
        if own:
            indices, similarities = _without_self(indices, similarities)
        if not return_distance:
            return indices
        distances = -similarities.astype(np.float64)
        if self._unit:
            # Rounding can make a cosine slightly greater than 1.
            distances = np.where(indices >= 0, np.maximum(1.0 + distances, 0.0), np.inf)
        return distances, indices

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> sp.csr_matrix:
        """Return the graph of neighbors as a sparse matrix.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_queries, n_features), default=None
            As for :meth:`kneighbors`.
        n_neighbors : int, default=None
            As for :meth:`kneighbors`.
        mode : {'connectivity', 'distance'}, default='connectivity'
            Whether the entries are 1 or distances.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
            One row per query. A query with fewer neighbors has fewer entries.
        """
        if mode not in ("connectivity", "distance"):
            raise ValueError(f"mode={mode!r}: expected 'connectivity' or 'distance'")
        distances, indices = self.kneighbors(X, n_neighbors)
        found = indices >= 0
        data = distances[found] if mode == "distance" else np.ones(int(found.sum()))
        indptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
        return sp.csr_matrix(
            (data, indices[found], indptr), shape=(len(indices), self.n_samples_fit_)
        )


def _without_self(indices: np.ndarray, similarities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the k + 1 neighbors of each row to k: drop the row itself, or the last neighbor."""
    count, width = indices.shape
    drop = indices == np.arange(count)[:, None]
    drop[~drop.any(axis=1), -1] = True
    keep = ~drop
    return indices[keep].reshape(count, width - 1), similarities[keep].reshape(count, width - 1)


def top_k(
    queries: Any,
    rows: Any,
    k: int,
    *,
    threshold: float = 0.0,
    metric: str = "dot",
    sort: bool = True,
    n_jobs: int | None = None,
    device: str = "auto",
) -> sp.csr_matrix:
    """Return the k greatest entries above a threshold of each row of ``queries @ rows.T``.

    The search is exact.

    Parameters
    ----------
    queries : sparse matrix or array of shape (n_queries, n_features)
        The queries.
    rows : sparse matrix or array of shape (n_rows, n_features)
        The rows to search, not transposed (unlike the second argument of ``sp_matmul_topn``).
    k : int
        The maximum number of entries per row of the result.
    threshold : float, default=0.0
        Only similarities above this value are kept. It must be at least 0.
    metric : {'dot', 'cosine'}, default='dot'
        The dot product, or the cosine.
    sort : bool, default=True
        Whether to order the entries of a row by decreasing similarity (ties by row number) or by
        column.
    n_jobs : int or None, default=None
        The number of threads; None and -1 mean all processors.
    device : str, default='auto'
        As for :class:`SparseNeighbors`.

    Returns
    -------
    csr_matrix of float32 of shape (n_queries, n_rows)
        The similarities.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from classify_knn import top_k
    >>> rows = sp.csr_matrix([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
    >>> top_k(rows, rows, 2).toarray().tolist()
    [[1.0, 2.0, 0.0], [0.0, 5.0, 3.0], [0.0, 3.0, 9.0]]
    """
    unit = _check_metric(metric)
    k = integer("k", k, 1)
    if not threshold >= 0:
        raise ValueError(
            f"threshold={threshold!r}: expected a number from 0: "
            "only similarities above 0 are found"
        )
    same = queries is rows
    rows = as_csr(rows, "rows")
    queries = rows if same else as_csr(queries, "queries")
    searched = _native.SparseRows(
        csr_arrays(rows), unit=unit, n_jobs=n_threads(n_jobs), device=device
    )
    indptr, columns, similarities = searched.top_k(
        csr_arrays(queries), k, above=float(threshold), sort=sort
    )
    shape = (queries.shape[0], rows.shape[0])
    small = indptr[-1] < 2**31 and max(shape) < 2**31
    index = np.int32 if small else np.int64
    found = sp.csr_matrix(shape, dtype=np.float32)
    # Assigned directly, because the constructor would check the arrays and might sort them.
    found.indptr, found.indices, found.data = (
        indptr.astype(index),
        columns.astype(index),
        similarities,
    )
    found.has_sorted_indices = not sort
    return found
