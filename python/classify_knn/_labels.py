"""Labels in the forms that users pass: one per document, lists, or an indicator matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from ._inputs import as_list, check_input, is_missing, shown

#: Forms in which labels are passed and predictions are returned.
SINGLE, LISTS, INDICATOR = "single", "lists", "indicator"


def is_list_of_labels(item: Any) -> bool:
    """Return whether an item is a list of labels of one document."""
    return isinstance(item, (list, tuple, set, frozenset)) or (
        isinstance(item, np.ndarray) and item.ndim == 1
    )


def _check_labels(labels: list, place: Callable[[int], str]) -> None:
    """Check labels, which may come from several lists.

    `place` returns the location of a label in `y`, for messages.

    Raises
    ------
    ValueError
        If a label is missing, or labels have different types.
    TypeError
        If a label is not a string, a number or another single value.
    """
    types = set(map(type, labels))
    if not types <= {str, int, bool, np.str_, np.int64}:
        for at, label in enumerate(labels):
            if is_missing(label):
                raise ValueError(
                    f"{place(at)} is {label}: a missing label; leave it out "
                    "(in lists of labels, [] means none)"
                )
            if is_list_of_labels(label) or isinstance(label, (dict, bytes, bytearray)):
                decode = "; decode it" if isinstance(label, (bytes, bytearray)) else ""
                raise TypeError(f"{place(at)} is {shown(label)}, expected a label{decode}")
    bools = {one for one in types if issubclass(one, (bool, np.bool_))}
    strings = {one for one in types if issubclass(one, str)}
    if sum(map(bool, (bools, strings, types - bools - strings))) > 1:
        raise ValueError("y has labels of different types, such as 1 and '1': use one type")


class Labels:
    """Labels of training documents.

    Attributes
    ----------
    kind : str
        ``single``, ``lists`` or ``indicator``.
    classes : ndarray
        The labels, sorted.
    indptr, indices : ndarray of int64
        The positions in `classes` of the labels of document i are
        ``indices[indptr[i]:indptr[i + 1]]``. `indptr` is None if each document has one label.
    converted : bool
        Whether numpy may have converted the labels to strings.
    """

    kind: str
    classes: np.ndarray
    indptr: np.ndarray | None
    indices: np.ndarray
    converted: bool

    def __init__(self, y: Any):
        self.converted = isinstance(y, np.ndarray) and y.dtype.kind == "U"
        if y is None:
            raise ValueError("KNNTextClassifier requires y to be passed, but the target y is None")
        check_input(y, "y")
        if sp.issparse(y):
            self._of_indicator(y.tocsr(), np.arange(y.shape[1]))
            return
        if getattr(y, "ndim", 1) == 2:
            names = getattr(y, "columns", None)
            array = np.asarray(y)
            if array.shape[1] == 1:
                self._of_one(column_or_1d(array, warn=True))
                return
            check_classification_targets(array)
            if type_of_target(array) != "multilabel-indicator":
                raise ValueError(
                    "y has several columns, and not only 0 and 1: "
                    "expected an indicator matrix of labels"
                )
            self._of_indicator(
                sp.csr_matrix(array),
                np.arange(array.shape[1]) if names is None else np.asarray(names),
            )
            return
        if not isinstance(y, np.ndarray) or y.dtype == object:
            listed = as_list(y) or []
            lists = [is_list_of_labels(item) for item in listed]
            if listed and all(lists):
                self._of_lists(listed)
                return
            if any(lists):
                at = lists.index(not lists[0])
                raise ValueError(
                    f"y[{at}] is {shown(listed[at])}, but y[0] is {shown(listed[0])}: "
                    "use lists for all documents"
                )
            # numpy would convert labels of different types to one type.
            _check_labels(listed, "y[{}]".format)
        y = np.asarray(y)
        if y.ndim > 1:
            raise ValueError(
                f"y has the shape {y.shape}: expected one label per document, "
                "lists of labels, or an indicator matrix"
            )
        self._of_one(column_or_1d(y))

    def _of_one(self, y: np.ndarray) -> None:
        if y.dtype == object or (y.dtype.kind == "f" and np.isnan(y).any()):
            _check_labels(y.tolist(), "y[{}]".format)
        check_classification_targets(y)
        self.kind = SINGLE
        self.classes, indices = np.unique(y, return_inverse=True)
        self.indptr, self.indices = None, indices.astype(np.int64).ravel()

    def _of_lists(self, y: list) -> None:
        same = len({len(item) for item in y}) == 1
        numeric = all(
            isinstance(label, (bool, int, float, np.number)) for item in y for label in item
        )
        if (
            same
            and numeric
            and len(y[0]) > 0
            and all(label in (0, 1) for item in y for label in item)
        ):
            # As in scikit-learn, rows of 0 and 1 are an indicator matrix.
            array = np.asarray([list(item) for item in y])
            self._of_indicator(sp.csr_matrix(array), np.arange(array.shape[1]))
            return
        self.kind = LISTS
        self.indptr = np.concatenate([[0], np.cumsum([len(item) for item in y])]).astype(np.int64)
        listed = [label for item in y for label in item]
        _check_labels(listed, self._place)
        flat = np.asarray(listed)
        if flat.dtype.kind == "f" and flat.size:
            check_classification_targets(flat)
        self.classes, indices = np.unique(flat, return_inverse=True)
        self.indices = indices.astype(np.int64).ravel()

    def _place(self, at: int) -> str:
        """Return the location of a label in the lists, for messages."""
        row = int(np.searchsorted(self.indptr, at, side="right")) - 1
        return f"y[{row}][{at - int(self.indptr[row])}]"

    def _of_indicator(self, y: sp.csr_matrix, classes: np.ndarray) -> None:
        y = y.copy()
        y.eliminate_zeros()
        if y.nnz and not np.all(y.data == 1):
            raise ValueError("y is an indicator matrix with other values than 0 and 1")
        y.sort_indices()
        self.kind, self.classes = INDICATOR, classes
        self.indptr, self.indices = y.indptr.astype(np.int64), y.indices.astype(np.int64)

    def __len__(self) -> int:
        return len(self.indices) if self.indptr is None else len(self.indptr) - 1

    def notes(self) -> list[str]:
        """Return a note if numpy probably converted missing values to a label."""
        if self.converted and "nan" in self.classes:
            return [
                "y: the label 'nan' is probably a missing value that "
                "numpy turned into a string; pass a list"
            ]
        return []

    def keep(self, rows: np.ndarray) -> None:
        """Keep the documents selected by the boolean array `rows`, and drop unused labels."""
        if self.indptr is None:
            self.indices = self.indices[rows]
        else:
            counts = np.diff(self.indptr)
            self.indices = self.indices[np.repeat(rows, counts)]
            self.indptr = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int64)
        if self.kind != INDICATOR:
            used, self.indices = np.unique(self.indices, return_inverse=True)
            self.classes, self.indices = self.classes[used], self.indices.astype(np.int64).ravel()

    def names(self) -> list[str]:
        """Return the labels as strings, as in the model file.

        Raises
        ------
        ValueError
            If two labels are equal as strings, or a label is empty.
        """
        names = [str(label) for label in self.classes.tolist()]
        if len(set(names)) != len(names):
            raise ValueError("two labels in y are the same as strings, such as 1 and '1'")
        if "" in names:
            raise ValueError("y has a label that is the empty string")
        return names
