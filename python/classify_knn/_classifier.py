"""The classifier for texts, sparse rows and dense vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _native
from ._inputs import (
    as_list,
    as_texts,
    check_input,
    csr_arrays,
    fill,
    integer,
    is_missing,
    n_threads,
    neighbor_count,
    pad,
    per_document,
)
from ._labels import INDICATOR, LISTS, SINGLE, Labels, is_list_of_labels
from ._notes import warn
from ._run import Progress, report
from ._tfidf import ANALYSIS, TERM_WEIGHTS

#: Parameters that are passed to the compiled part unchanged.
_NATIVE_PARAMETERS = (
    *ANALYSIS,
    *TERM_WEIGHTS,
    "n_neighbors",
    "weights",
    "chi2_power",
    "class_weight",
    "hierarchy",
    "features",
    "metric",
    "dense_share",
    "threshold",
    "rule",
    "allow_none",
    "tune",
    "objective",
    "k_max",
    "tune_sample",
    "near_duplicates",
    "time_order",
    "cross_validate",
    "target_error",
    "foreign",
    "keep_text",
)


class _Training(NamedTuple):
    """Documents and labels as the compiled part takes them."""

    arguments: tuple[Any, Any, dict[str, Any]]
    keywords: dict[str, Any]
    labels: Labels
    rows: int


class KNNTextClassifier(ClassifierMixin, BaseEstimator):
    """The exact k-nearest-neighbor classifier of ``classify``, single-label or multi-label.

    Documents are texts, rows of a sparse matrix, or dense vectors; ``fit`` detects the type. Texts
    are analyzed and weighted by TF-IDF. The nearest training documents by cosine similarity vote on
    the labels. The same documents and parameters give the same model as the command
    ``classify train``, byte for byte.

    Parameters
    ----------
    n_neighbors : int, default=None
        The number of neighbors that vote. None: chosen by `tune`; 30 without tuning.
    weights : str, default=None
        The weight of a vote: ``'similarity'``, ``'similarity^P'``, ``'uniform'``, ``'rank'`` or
        ``'exp:BETA'``, each optionally with ``'/size^G'``; with `tune` also ``'learned'``. None:
        chosen by `tune`; ``'similarity'`` without tuning.
    tune : {'quick', 'votes', 'all'} or bool, default='quick'
        Chooses the settings that you do not set, by leave-one-out on the training documents.
        ``'quick'`` compares a few values of k, the vote and one threshold on 2,000 held-out
        documents, if there are at least 100 documents. ``'votes'`` chooses k, votes and thresholds.
        ``'all'`` (True) also chooses stems, n-grams and weighting. Tuned models have calibrated
        probabilities. False chooses nothing.
    features : str, default=None
        The features by which documents are compared: ``'tfidf'`` (the default; the values of a
        sparse matrix are weights), ``'counts'`` (the values are counts to be weighted), ``'lsa:N'``
        (N dimensions of latent semantic analysis), or ``'tfidf+lsa:N'``. Dense arrays are compared
        unchanged.
    metric : {'cosine', 'euclidean', 'manhattan'}, default='cosine'
        The distance between dense vectors.
    weighting, words, case, normalization, strip_accents, stop_words, stemmer, min_length, \
ngram_range, char_ngram_range, \
char_scope, title_boost, idf_power, min_df, max_df, max_features, select
        As for :class:`TfidfVectorizer`.
    chi2_power : float, default=None
        The exponent of the factor chi2 / N in a term's weight, which favors terms that indicate
        labels. None: 0, or chosen by ``tune='all'``.
    class_weight : 'balanced' or dict, default=None
        The weight of each label's documents in the vote: equal total weights for all labels, or a
        weight per label.
    threshold : float, default=None
        Multi-label: the share of the votes that a label needs. None: chosen by `tune`; 0.4 without
        tuning.
    rule : str, default=None
        Multi-label: the rule that selects labels: ``'threshold'``, ``'rcut:N'`` (the best N),
        ``'mcut'`` (the labels before the largest gap), ``'pcut'`` (each label as often as in the
        training documents); with `tune` also ``'scut'``, ``'scut-fbr'``, ``'scut-smoothed'``,
        ``'rtcut'``, ``'micromacro'``.
    allow_none : bool, default=False
        Multi-label: whether a document may get no label.
    hierarchy : path or list of (child, parent), default=None
        Multi-label: the label hierarchy. The ancestors of labels are added to documents and
        predictions.
    objective : str, default=None
        The metric that `tune` maximizes: ``'micro-f1'`` (the default), ``'macro-f1'``,
        ``'accuracy'``, ``'micro+macro'``, ``'p@5'`` or ``'top-3-accuracy'``.
    k_max : int, default=None
        The largest k that `tune` tries. None: 200.
    tune_sample : int, default=None
        The number of held-out documents for comparing features. None: 4,000.
    near_duplicates : float or False, default=None
        The cosine above which documents are not neighbors of each other during tuning. None:
        estimated from the data.
    time_order : bool, default=None
        Whether the training documents are in chronological order. None: estimated from the data.
    cross_validate : bool, default=None
        Whether the training is repeated without each fold of up to 1,000 documents, to estimate
        the metrics of new documents. None: True. False is faster, for example in a grid search.
    target_error : float, default=None
        With `tune`: abstain if the confidence is low, so that at most this share of labels is
        wrong. Such documents get the label None (single-label) or no labels (multi-label).
    foreign : float, default=None
        With `tune`: refuse out-of-distribution (novel) documents, which have none of the labels.
        This share of the other documents may be refused by mistake.
    dense_share : float, default=None
        With ``'tfidf+lsa:N'``: the share of the vector neighbors in the votes. None: 0.5, or chosen
        by `tune`.
    keep_text : bool, default=False
        Whether the model stores the training texts, which `explain` then shows.
    n_jobs : int or None, default=None
        The number of threads; None and -1 mean all processors. Predictions do not depend on it.
    device : str, default='auto'
        Where to search: ``'cpu'``, ``'cuda'``, ``'cuda:N'``, ``'cuda:all'``, or ``'auto'`` (a GPU
        if one works). Predictions do not depend on it.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    n_features_in_ : int
        The number of columns of matrices and arrays.
    feature_names_in_ : ndarray
        The names of the columns, if X is a data frame with column names.
    tuning_ : dict
        The trials and the choice of `tune` (schema ``classify.tuning/1``); None if nothing was
        chosen.

    Examples
    --------
    >>> from classify_knn import KNNTextClassifier
    >>> texts = ["bake the bread", "bread and butter", "tune the guitar", "guitar strings"]
    >>> model = KNNTextClassifier().fit(texts, ["cooking", "cooking", "music", "music"])
    >>> model.predict(["the bread of today"]).tolist()
    ['cooking']
    """

    def __init__(
        self,
        n_neighbors: int | None = None,
        *,
        weights: str | None = None,
        tune: bool | str = "quick",
        features: str | None = None,
        metric: str = "cosine",
        weighting: str | None = None,
        words: str | None = None,
        case: str | None = None,
        normalization: str | None = None,
        strip_accents: bool = False,
        stop_words: str | Sequence[str] | None = None,
        stemmer: str | None = None,
        min_length: int | None = None,
        ngram_range: tuple[int, int] | None = None,
        char_ngram_range: tuple[int, int] | None = None,
        char_scope: str | None = None,
        title_boost: float | None = None,
        idf_power: float | None = None,
        chi2_power: float | None = None,
        min_df: int | float | None = None,
        max_df: int | float | None = None,
        max_features: int | None = None,
        select: str | None = None,
        class_weight: str | dict | None = None,
        threshold: float | None = None,
        rule: str | None = None,
        allow_none: bool = False,
        hierarchy: Any = None,
        objective: str | None = None,
        k_max: int | None = None,
        tune_sample: int | None = None,
        near_duplicates: float | bool | None = None,
        time_order: bool | None = None,
        cross_validate: bool | None = None,
        target_error: float | None = None,
        foreign: float | None = None,
        dense_share: float | None = None,
        keep_text: bool = False,
        n_jobs: int | None = None,
        device: str = "auto",
    ):
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.tune = tune
        self.features = features
        self.metric = metric
        self.weighting = weighting
        self.words = words
        self.case = case
        self.normalization = normalization
        self.strip_accents = strip_accents
        self.stop_words = stop_words
        self.stemmer = stemmer
        self.min_length = min_length
        self.ngram_range = ngram_range
        self.char_ngram_range = char_ngram_range
        self.char_scope = char_scope
        self.title_boost = title_boost
        self.idf_power = idf_power
        self.chi2_power = chi2_power
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.select = select
        self.class_weight = class_weight
        self.threshold = threshold
        self.rule = rule
        self.allow_none = allow_none
        self.hierarchy = hierarchy
        self.objective = objective
        self.k_max = k_max
        self.tune_sample = tune_sample
        self.near_duplicates = near_duplicates
        self.time_order = time_order
        self.cross_validate = cross_validate
        self.target_error = target_error
        self.foreign = foreign
        self.dense_share = dense_share
        self.keep_text = keep_text
        self.n_jobs = n_jobs
        self.device = device

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    # Training

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        ids: Sequence[str] | None = None,
        groups: Any = None,
        progress: Progress | None = None,
    ) -> KNNTextClassifier:
        """Train on documents and their labels.

        Parameters
        ----------
        X : list, Series or array of str, sparse matrix, or array of shape (n_samples, n_features)
            The documents.
        y : array-like
            One label per document, a list of labels per document, or an indicator matrix.
        sample_weight : array-like of shape (n_samples,), default=None
            The weight of each document's vote. Documents of weight 0 are ignored.
        ids : list of str, default=None
            The identifiers of the documents. None: numbers from 1.
        groups : array-like of shape (n_samples,), default=None
            Documents of one group are never neighbors of each other during tuning. Every document
            must have a group.
        progress : callable, default=None
            Called as ``progress(stage, documents)`` while documents are read and held out.

        Returns
        -------
        KNNTextClassifier
            The fitted classifier.

        Warns
        -----
        DataWarning
            If the labels, the hierarchy, the identifiers or the groups are probably not what you
            meant.
        """
        if y is None:
            raise ValueError(
                "This KNNTextClassifier estimator requires y to be passed, "
                "but the target y is None."
            )
        # If this fit fails, no earlier model may remain.
        self.__dict__.pop("_model", None)
        training = self._training(X, y, sample_weight, ids=ids, groups=groups, progress=progress)
        self._model, tuning = _native.train(*training.arguments, **training.keywords)
        labels = training.labels
        self.classes_ = labels.classes
        self._kind = labels.kind
        self._index_labels()
        if tuning is not None:
            self.tuning_ = json.loads(tuning)
        elif hasattr(self, "tuning_"):
            del self.tuning_
        notes = [*self._model.notes(), *labels.notes()]
        if (
            self.tune is not False
            and training.rows > 1
            and len(set(training.keywords["groups"] or ())) == 1
        ):
            notes.append(
                "groups: all documents are in one group, so that none has a neighbor during tuning"
            )
        warn(notes)
        return self

    def _training(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        ids: Sequence[str] | None,
        groups: Any,
        progress: Progress | None,
    ) -> _Training:
        """Check documents and labels, and convert them for the compiled part."""
        kind, X = self._documents(X, reset=True)
        rows = X.shape[0] if kind != "text" else len(X)
        labels = Labels(y)
        if len(labels) != rows:
            raise ValueError(
                f"X has {rows} documents, y has {len(labels)}: inconsistent numbers of samples"
            )
        self._check_parameters(kind)
        given = {
            name: None if values is None else per_document(name, values, rows)
            for name, values in (("ids", ids), ("groups", groups))
        }
        weights = None
        if sample_weight is not None:
            like = X if kind != "text" else np.empty((rows, 1))
            weights = _check_sample_weight(
                sample_weight, like, dtype=np.float32, ensure_non_negative=True
            )
            keep = weights > 0
            if not keep.any():  # older versions of scikit-learn do not check this
                raise ValueError("sample_weight must contain at least one non-zero number")
            if not keep.all():
                X = (
                    [text for text, kept in zip(X, keep, strict=True) if kept]
                    if kind == "text"
                    else X[keep]
                )
                labels.keep(keep)
                given = {
                    name: values and [item for item, kept in zip(values, keep, strict=True) if kept]
                    for name, values in given.items()
                }
                weights = weights[keep]
        if labels.kind == SINGLE and len(labels.classes) == 0:
            raise ValueError("y has no labels")
        parameters = {name: getattr(self, name) for name in _NATIVE_PARAMETERS}
        parameters["several"] = labels.kind != SINGLE
        arguments = (
            self._native(kind, X),
            (labels.names(), labels.indptr, labels.indices),
            parameters,
        )
        keywords = {
            "weights": weights,
            "n_jobs": n_threads(self.n_jobs),
            "device": self.device,
            "report": report(progress),
            **given,
        }
        return _Training(arguments, keywords, labels, rows)

    def _check_parameters(self, kind: str) -> None:
        """Refuse parameters that have no effect on documents of this kind."""
        if self.metric not in ("cosine", "euclidean", "manhattan"):
            raise ValueError(
                f"metric={self.metric!r}: expected 'cosine', 'euclidean' or 'manhattan'"
            )
        if not isinstance(self.device, str):
            raise ValueError(
                f"device={self.device!r}: expected 'auto', 'cpu', 'cuda', 'cuda:N' or 'cuda:all'"
            )
        documents = {
            "text": "texts",
            "features": "rows of a sparse matrix",
            "vectors": "dense vectors",
        }[kind]
        refused = {
            "text": (),
            "features": ANALYSIS,
            "vectors": (*ANALYSIS, *TERM_WEIGHTS, "chi2_power", "features", "dense_share"),
        }[kind]
        for name in refused:
            value = getattr(self, name)
            if value is not None and value is not False:
                raise ValueError(
                    f"{name}={value!r} has no effect on X, which contains {documents}: omit it"
                )
        features = self.features if isinstance(self.features, str) else ""
        if self.metric != "cosine" and kind != "vectors" and "lsa" not in features:
            raise ValueError(
                f"metric={self.metric!r} has no effect on X, "
                f"which contains {documents}: pass dense vectors"
            )
        if self.dense_share is not None and "+lsa" not in features:
            raise ValueError(f"dense_share={self.dense_share!r} needs features='tfidf+lsa:N'")

    def _documents(self, X: Any, reset: bool) -> tuple[str, Any]:
        """Check the documents; return their type (text, features or vectors) and the documents."""
        texts = as_texts(X)
        if texts is not None:
            if not reset and self._model.input != "text":
                raise ValueError(
                    f"X contains texts, but the classifier was fitted on {self._model.input}"
                )
            if reset:
                for name in ("n_features_in_", "feature_names_in_"):
                    if hasattr(self, name):
                        delattr(self, name)
            return "text", texts
        if isinstance(X, list) and not X:
            raise ValueError(
                "X contains no documents: Found array with 0 sample(s) "
                "while a minimum of 1 is required."
            )
        try:
            X = validate_data(
                self,
                X,
                accept_sparse="csr",
                dtype=np.float32,
                reset=reset,
                accept_large_sparse=True,
            )
        except ValueError as error:
            if "could not convert string to float" not in str(error):
                raise
            raise ValueError(
                "X has several columns with strings: pass one column, such as X['text'], or numbers"
            ) from error
        kind = "features" if sp.issparse(X) else "vectors"
        if not reset and self._model.input == "text":
            raise ValueError("X contains numbers, but the classifier was fitted on text")
        if not reset and self._model.input != kind:
            X = sp.csr_matrix(X) if kind == "vectors" else np.ascontiguousarray(X.toarray())
            kind = self._model.input
        return kind, X

    @staticmethod
    def _native(kind: str, X: Any) -> Any:
        if kind == "text":
            return X
        return csr_arrays(X) if kind == "features" else np.ascontiguousarray(X, dtype=np.float32)

    def _input(self, X: Any) -> Any:
        if "_model" not in self.__dict__:
            check_is_fitted(self, "_model")
        return self._native(*self._documents(X, reset=False))

    # Prediction

    def _index_labels(self) -> None:
        """Compute the index in `classes_` of each label of the model."""
        place = {str(label): at for at, label in enumerate(self.classes_.tolist())}
        # An ancestor in a hierarchy may have no documents.
        missing = [name for name in self._model.labels if name not in place]
        if missing:
            names = [*self.classes_.tolist(), *missing]
            if self._kind != INDICATOR:  # columns of an indicator matrix keep their positions
                names.sort(key=str)
            self.classes_ = np.asarray(names, dtype=object)
            place = {str(label): at for at, label in enumerate(self.classes_.tolist())}
        self._places = np.asarray([place[name] for name in self._model.labels], dtype=np.int64)

    def predict(self, X: Any) -> Any:
        """Predict the labels of documents.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.

        Returns
        -------
        ndarray of shape (n_samples,), list of lists, or ndarray of shape (n_samples, n_labels)
            One label per document, lists of labels (best first), or an indicator matrix, as in `y`.
            Refused documents (`target_error`, `foreign`) get None, no labels, or zeros.
        """
        answers = self._classify(X)
        indptr, labels = answers["labels"]
        places = self._places[labels]
        if self._kind == INDICATOR:
            found = np.zeros((len(indptr) - 1, len(self.classes_)), dtype=np.int64)
            found[np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), places] = 1
            return found
        if self._kind == LISTS:
            named = self.classes_[places].tolist()
            return [
                named[start:end]
                for start, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)
            ]
        # If all documents have a label, keep the type of the labels; otherwise use None for missing
        # labels.
        if len(labels) == len(indptr) - 1:
            return self.classes_[places]
        counts = np.diff(indptr)
        answers_or_none = np.full(len(counts), None, dtype=object)
        answers_or_none[counts > 0] = self.classes_[places[indptr[:-1][counts > 0]]]
        return answers_or_none

    def _classify(self, X: Any, **options: Any) -> dict:
        native = self._input(X)
        return self._model.classify(native, **options)

    def _values(self, X: Any, key: str) -> tuple[np.ndarray, dict]:
        answers = self._classify(X)
        indptr, labels, scores = answers["scores"]
        values = answers.get(key, scores) if key == "probabilities" else scores
        return fill(indptr, labels, values, self._places, len(self.classes_)), answers

    def decision_function(self, X: Any) -> np.ndarray:
        """Return each label's share of the votes.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,)
            From 0 to 1. With two classes, one value per document: the share of the second class
            minus the share of the first.
        """
        values, _ = self._values(X, "scores")
        if self._kind == SINGLE and len(self.classes_) == 2:
            return values[:, 1] - values[:, 0]
        return values

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the labels.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Calibrated if the model was tuned, otherwise the labels' shares of the votes. The
            probabilities of single-label models are scaled to sum to 1. If no neighbor votes, they
            are the labels' shares of the training documents.
        """
        values, _ = self._values(X, "probabilities")
        if self._kind == SINGLE:
            sums = values.sum(axis=1)
            without_votes = sums <= 0
            if without_votes.any():
                prior = np.zeros(len(self.classes_))
                prior[self._places] = self._model.label_sizes
                values[without_votes] = prior
                sums = values.sum(axis=1)
            values /= sums[:, None]
        return values

    def predict_confidence(self, X: Any) -> tuple[np.ndarray, list[str]]:
        """Return the confidence of predictions, and the reasons for low confidence.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.

        Returns
        -------
        confidence : ndarray of shape (n_samples,)
            The expected share of correct labels, for tuned models; otherwise NaN.
        reasons : list of str
            ``''``, or the reason why a document has no reliable label: ``no-known-term``,
            ``no-neighbor``, ``no-label``, ``unsure`` or ``foreign`` (out of distribution).
        """
        answers = self._classify(X)
        count = len(answers["reasons"])
        return answers.get("confidence", np.full(count, np.nan)), answers["reasons"]

    def kneighbors(
        self,
        X: Any,
        n_neighbors: int | None = None,
        return_distance: bool = True,
        *,
        by: str = "terms",
    ):
        """Find the nearest training documents.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.
        n_neighbors : int, default=None
            The number of neighbors, at most 10,000 or the number of training documents. None: the
            number of neighbors that vote.
        return_distance : bool, default=True
            Whether to return the distances as well.
        by : {'terms', 'vectors'}, default='terms'
            With ``features='tfidf+lsa:N'``: the list of neighbors to return. Other models have only
            one list.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_neighbors)
            In increasing order: 1 minus the similarity, or the negated similarity for weightings
            other than cosines (such as BM25). For dense vectors with ``'euclidean'`` and
            ``'manhattan'``, the similarity is 1 / (1 + distance / scale), with a scale that the
            model learns; :class:`MetricIndex` returns the distances themselves. Only if
            `return_distance`.
        indices : ndarray of int64 of shape (n_samples, n_neighbors)
            The training documents. Only documents with a similarity above 0 are neighbors; missing
            neighbors are -1 (distance ``inf``).
        """
        native = self._input(X)
        k = self._model.k if n_neighbors is None else n_neighbors
        k = neighbor_count(k, self._model.documents)
        if by not in ("terms", "vectors"):
            raise ValueError(f"by={by!r}: expected 'terms' or 'vectors'")
        indices, similarities = pad(
            *self._model.kneighbors(native, k, by_vectors=by == "vectors"), k
        )
        if not return_distance:
            return indices
        distances = -similarities.astype(np.float64)
        if by == "vectors" or self._model.similarity != "dot":
            # Rounding can make a cosine slightly greater than 1.
            distances = np.where(indices >= 0, np.maximum(1.0 + distances, 0.0), np.inf)
        return distances, indices

    def explain(self, X: Any, *, terms: int = 20) -> list[dict]:
        """Explain why documents get their labels.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.
        terms : int, default=20
            The maximum number of terms to list for each label, and against it.

        Returns
        -------
        list of dict
            For each document (schema ``classify.explanation/1``): ``labels``, ``confidence``,
            ``reason``, ``decided`` (the decision in words), ``unknown`` (terms unknown to the
            model), ``scores`` and ``neighbors``. ``scores`` has for each label ``score``,
            ``probability``, ``threshold``, ``given``, and the terms ``for`` and ``against`` it with
            their contributions. ``neighbors`` has for each neighbor ``id``, ``row``,
            ``similarity``, ``vote``, ``labels``, ``text`` (with `keep_text`), and the shared
            ``terms`` with their contributions, which sum to the similarity. Labels are strings.

        Examples
        --------
        >>> from classify_knn import KNNTextClassifier
        >>> texts = ["bake the bread", "tune the guitar"]
        >>> model = KNNTextClassifier().fit(texts, ["cooking", "music"])
        >>> explained = model.explain(["the fresh bread"])[0]
        >>> explained["labels"], explained["unknown"]
        (['cooking'], ['fresh'])
        >>> [shared["term"] for shared in explained["neighbors"][0]["terms"]]
        ['bread']
        """
        native = self._input(X)
        return [
            json.loads(one) for one in self._model.explain(native, terms=integer("terms", terms, 0))
        ]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of documents whose predicted labels are exactly correct.

        Parameters
        ----------
        X : as for :meth:`fit`
            The documents.
        y : as for :meth:`fit`
            The known labels.
        sample_weight : array-like of shape (n_samples,), default=None
            The weight of each document.

        Returns
        -------
        float
            From 0 to 1. A refused document (`target_error`, `foreign`) counts as wrong.

        Warns
        -----
        DataWarning
            If many of the known labels are not labels of the classifier.
        """
        predicted = self.predict(X)
        check_input(y, "y")
        if sp.issparse(y):
            y = y.toarray()
        if self._kind == INDICATOR:
            y = np.asarray(y)
            if y.shape != predicted.shape:
                raise ValueError(
                    f"y has the shape {y.shape}, expected {predicted.shape}: documents and labels"
                )
            right = (predicted == y).all(axis=1)
        else:
            known = as_list(y)
            known = np.asarray(y).ravel().tolist() if known is None else known
            if len(known) != len(predicted):
                raise ValueError(
                    f"X has {len(predicted)} documents, y has {len(known)}: "
                    "inconsistent numbers of samples"
                )
            if self._kind == LISTS:
                lists = [one if is_list_of_labels(one) else [one] for one in known]
                right = [set(own) == set(one) for own, one in zip(predicted, lists, strict=True)]
                known = [label for one in lists for label in one]
            else:
                if any(map(is_list_of_labels, known)):
                    raise ValueError(
                        "y has lists of labels, but the classifier "
                        "was fitted on one label per document"
                    )
                right = [own == one for own, one in zip(predicted.tolist(), known, strict=True)]
            warn(self._unknown_labels(known))
        if sample_weight is not None and np.shape(sample_weight) != (len(predicted),):
            raise ValueError(
                f"sample_weight has the shape {np.shape(sample_weight)}, "
                f"X has {len(predicted)} documents"
            )
        return float(np.average(right, weights=sample_weight))

    def _unknown_labels(self, known: list) -> list[str]:
        """Return a note if many known labels are not labels of the classifier."""
        classes = {label: str(label) for label in self.classes_.tolist()}
        labels = {label for label in known if not is_missing(label)}
        if (
            labels
            and labels.isdisjoint(classes)
            and {str(label) for label in labels} <= set(classes.values())
        ):
            return [
                "y: no label is equal to a label of the classifier, "
                "because their types differ, such as 1 and '1'"
            ]
        note = self._model.unknown_labels(
            [classes.get(label, str(label)) for label in sorted(labels, key=str)]
        )
        return [] if note is None else [note]

    # Persistence

    def save(self, path: str | os.PathLike) -> None:
        """Write the model file of the command ``classify``, completely or not at all.

        Parameters
        ----------
        path : path
            The file.
        """
        check_is_fitted(self, "_model")
        self._model.save(path)

    @classmethod
    def load(
        cls, path: str | os.PathLike, *, n_jobs: int | None = None, device: str = "auto"
    ) -> KNNTextClassifier:
        """Open a model file written by :meth:`save` or by the command ``classify train``.

        Parameters
        ----------
        path : path
            The file.
        n_jobs : int or None, default=None
            As for the class.
        device : str, default='auto'
            As for the class.

        Returns
        -------
        KNNTextClassifier
            A fitted classifier. Its labels are strings, and multi-label predictions are lists. Its
            parameters are the defaults, not the training parameters, so use it only for prediction.
            A model of sparse rows accepts matrices of any width and ignores unknown
            columns.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelError
            If the file is not a model, or is damaged.
        """
        made = cls(n_jobs=n_jobs, device=device)
        made._model = _native.Model.open(path, n_jobs=n_threads(n_jobs), device=device)
        made._load_labels()
        return made

    def _load_labels(self) -> None:
        labels = self._model.labels
        self.classes_ = np.asarray(labels) if labels else np.asarray([], dtype=str)
        self._kind = LISTS if self._model.multilabel else SINGLE
        self._index_labels()
        if self._model.input == "vectors":
            self.n_features_in_ = self._model.dimension

    def __getstate__(self):
        state = {**super().__getstate__()}
        if "_model" in state:
            state["_model"] = state["_model"].to_bytes()
        return state

    def __setstate__(self, state):
        if isinstance(state.get("_model"), bytes):
            threads = n_threads(state.get("n_jobs"))
            state = {
                **state,
                "_model": _native.Model.from_bytes(
                    state["_model"], n_jobs=threads, device=state.get("device", "auto")
                ),
            }
        super().__setstate__(state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")
