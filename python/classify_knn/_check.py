"""Finds probable mistakes in labeled documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import _native
from ._classifier import KNNTextClassifier
from ._run import Progress


def check(
    X: Any,
    y: Any,
    *,
    ids: Sequence[str] | None = None,
    groups: Any = None,
    min_probability: float = 0.5,
    progress: Progress | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Find wrong labels, duplicates, outliers and labels that are hard to tell apart.

    Each document is compared with a model that was learned without it.

    Parameters
    ----------
    X : list, Series or array of str, sparse matrix, or array of shape (n_samples, n_features)
        The documents.
    y : array-like
        One label per document, a list of labels per document, or an indicator matrix.
    ids : list of str, default=None
        The identifiers of the documents. None: numbers from 1.
    groups : array-like of shape (n_samples,), default=None
        Documents of one group are not compared with each other.
    min_probability : float, default=0.5
        Labels that are wrong with at least this probability, from 0 to 1, are listed.
    progress : callable, default=None
        Called as ``progress(stage, documents)`` while documents are read and held out.
    **parameters
        Parameters of :class:`KNNTextClassifier`, which determine the terms and their weights.

    Returns
    -------
    dict
        The findings. The keys are those of the JSON that ``classify check --json`` writes:
        ``label_errors``, ``duplicates``, ``outliers`` and ``label_set``, among others.

    Examples
    --------
    >>> from classify_knn import check
    >>> texts = ["bake bread", "bake bread", "tune the guitar", "play the guitar"]
    >>> found = check(texts, ["food", "music", "music", "music"], ids=["a", "b", "c", "d"])
    >>> copies = found["duplicates"]["clusters"][0]
    >>> copies["conflicting"], [document["id"] for document in copies["documents"]]
    (True, ['a', 'b'])
    """
    if not 0 <= min_probability <= 1:
        raise ValueError(f"min_probability={min_probability!r}: expected a number from 0 to 1")
    if y is None:
        raise ValueError("y=None: expected the labels of the documents")
    classifier = KNNTextClassifier(**parameters)
    training = classifier._training(X, y, ids=ids, groups=groups, progress=progress)
    found: dict[str, Any] = json.loads(
        _native.check(
            *training.arguments, **training.keywords, min_probability=float(min_probability)
        )
    )
    return found
