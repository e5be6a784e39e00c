"""Exact search in metric spaces."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _native
from ._inputs import as_list, check_input, integer, is_missing, n_threads


def _is_set(item: Any) -> bool:
    return isinstance(item, (set, frozenset))


def _items(points: Any) -> list:
    if hasattr(points, "__next__"):
        return list(points)
    check_input(points, "points")
    listed = as_list(points)
    if listed is None:
        listed = list(points)
    return listed


class MetricIndex:
    """An exact index over points of a metric space.

    It finds the nearest points of a query, or all points within a distance.

    Parameters
    ----------
    points : array of shape (n, dimensions), list of str, or list of sets of int
        The points; with a function as `metric`, any objects. Vectors are stored as ``float32``.
    metric : str or callable, default=None
        For vectors: ``'euclidean'`` (the default), ``'manhattan'``, ``'chebyshev'``,
        ``'minkowski:P'``, ``'angular'`` or ``'hamming'``. For strings: ``'edit'``. For sets:
        ``'jaccard'``. A function of two points must be a metric. It holds the GIL and runs on one
        thread at a time, but not on the calling thread. Expect thousands of distances per second,
        not millions.
    index : str, default='auto'
        ``'brute-force'``, ``'lc'``, ``'sss-index'``, ``'sss-tree'``, ``'egnat'``, ``'m-tree'``,
        ``'vp-tree'`` or ``'kd-tree'``, optionally with parameters, such as ``'lc:64'``. ``'auto'``
        tries all of them on a sample and uses the fastest. Results do not depend on it.
    n_jobs : int or None, default=None
        The number of threads; None and -1 mean all processors.
    device : str, default='cpu'
        ``'cpu'``, ``'cuda'``, ``'cuda:N'``, ``'cuda:all'`` or ``'auto'``.

    Examples
    --------
    >>> from classify_knn import MetricIndex
    >>> words = MetricIndex(["casa", "cosa", "pez"])
    >>> distances, points = words.query("caso", k=2)
    >>> points.tolist(), distances.tolist()
    ([0, 1], [1.0, 2.0])
    >>> words.query_radius("pes", 1)[1].tolist()
    [2]
    """

    def __init__(
        self,
        points: Any,
        metric: str | Callable[[Any, Any], float] | None = None,
        *,
        index: str = "auto",
        n_jobs: int | None = None,
        device: str = "cpu",
    ):
        name, function = (None, metric) if callable(metric) else (metric, None)
        if name is not None and not isinstance(name, str):
            raise ValueError(f"metric={name!r}: expected the name of a metric or a function")
        if not isinstance(device, str):
            raise ValueError(
                f"device={device!r}: expected 'auto', 'cpu', 'cuda', 'cuda:N' or 'cuda:all'"
            )
        kind, native = ("objects", _items(points)) if function else _as_points(points)
        self._index = _native.MetricIndex(
            native,
            kind,
            metric=name,
            function=function,
            index=index,
            n_jobs=n_threads(n_jobs),
            device=device,
        )

    @classmethod
    def load(
        cls, path: str | os.PathLike, *, n_jobs: int | None = None, device: str = "cpu"
    ) -> MetricIndex:
        """Open a file written by :meth:`save` or by the command ``metric-index build``.

        Parameters
        ----------
        path : path
            The file.
        n_jobs : int or None, default=None
            As for the class.
        device : str, default='cpu'
            As for the class.

        Returns
        -------
        MetricIndex
            The index.
        """
        made = cls.__new__(cls)
        made._index = _native.MetricIndex.open(path, n_jobs=n_threads(n_jobs), device=device)
        return made

    def save(self, path: str | os.PathLike) -> None:
        """Write the index to a file, completely or not at all.

        Parameters
        ----------
        path : path
            The file.
        """
        self._index.save(path)

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        metric = self.metric or "a function"
        return f"<MetricIndex: {len(self)} {self._index.points}, {metric}, {self.index}>"

    @property
    def index(self) -> str:
        """The kind of index, with its parameters."""
        return self._index.kind

    @property
    def metric(self) -> str | None:
        """The name of the metric; None for a function."""
        return self._index.metric

    def query(self, point: Any, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Find the k nearest points of one query.

        Parameters
        ----------
        point : point
            The query.
        k : int, default=1
            The number of points; if there are fewer, all are returned.

        Returns
        -------
        distances : ndarray of float32
            In increasing order.
        points : ndarray of int64
            The indices of the points. Points at the same distance are ordered by index.
        """
        _, points, distances = self._index.nearest(self._queries([point]), integer("k", k, 1))
        return distances, points

    def query_radius(self, point: Any, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Find all points within a distance of one query, including points at that distance.

        Parameters
        ----------
        point : point
            The query.
        radius : float
            The distance.

        Returns
        -------
        distances : ndarray of float32
            In increasing order.
        points : ndarray of int64
            The indices of the points.
        """
        _, points, distances = self._index.within(self._queries([point]), _distance(radius))
        return distances, points

    def query_batch(
        self, points: Any, k: int | None = None, *, radius: float | None = None
    ) -> tuple[np.ndarray, np.ndarray] | tuple[list[np.ndarray], list[np.ndarray]]:
        """Answer many queries on all threads.

        Parameters
        ----------
        points : points
            The queries.
        k : int, default=None
            The number of nearest points to find.
        radius : float, default=None
            The maximum distance of the points to find. Give either `k` or `radius`.

        Returns
        -------
        distances, points : ndarray of shape (n_queries, min(k, n)), or lists of ndarray
            As in :meth:`query` or :meth:`query_radius`.
        """
        if k is not None and radius is None:
            indptr, found, distances = self._index.nearest(
                self._queries(points), integer("k", k, 1)
            )
            shape = (len(indptr) - 1, -1 if len(found) else 0)
            return distances.reshape(shape), found.reshape(shape)
        if radius is None or k is not None:
            raise ValueError("either k or radius must be given")
        indptr, found, distances = self._index.within(self._queries(points), _distance(radius))
        if len(indptr) == 1:
            return [], []
        return np.split(distances, indptr[1:-1]), np.split(found, indptr[1:-1])

    def _queries(self, points: Any) -> Any:
        if self._index.points == "objects":
            return _items(points)
        if self._index.points == "vectors" and isinstance(points, list) and len(points) == 1:
            points = _numbers(points)
        kind, native = _as_points(points)
        if kind != self._index.points:
            raise ValueError(f"the queries are {kind}, but the points are {self._index.points}")
        return native


def _distance(radius: float) -> float:
    try:
        return float(radius)
    except (TypeError, ValueError):
        raise ValueError(f"radius={radius!r}: expected a number from 0") from None


def _as_points(points: Any) -> tuple[str, Any]:
    """Return the type of the points, and the points in the form that the compiled part expects."""
    if isinstance(points, np.ndarray) and points.dtype.kind in "fiub":
        return "vectors", _as_vectors(points)
    listed = _items(points)
    if not listed:
        raise ValueError("there are no points")
    missing = next((at for at, item in enumerate(listed) if is_missing(item)), None)
    if missing is not None:
        raise ValueError(f"points[{missing}] is {listed[missing]}: a point is missing")
    if all(isinstance(item, str) for item in listed):
        return "strings", listed
    if all(_is_set(item) for item in listed):
        if any(
            not isinstance(item, (int, np.integer)) or not 0 <= item < 2**32
            for one in listed
            for item in one
        ):
            raise ValueError("the sets must be of integers from 0 to 2^32 - 1")
        return "sets", [sorted(int(item) for item in one) for one in listed]
    return "vectors", _as_vectors(
        _numbers(points.to_numpy() if hasattr(points, "to_numpy") else listed)
    )


def _numbers(points: Any) -> np.ndarray:
    try:
        return np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "points must be vectors of one length, strings, or sets of integers"
        ) from None


def _as_vectors(array: np.ndarray) -> np.ndarray:
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"points has the shape {array.shape}: expected (points, dimensions)")
    vectors = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(vectors).all():
        row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise ValueError(f"point {row} has a value that is not finite, or too large for float32")
    return vectors
