"""Conversion of texts to TF-IDF rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from . import _native
from ._inputs import as_texts, n_threads
from ._labels import Labels
from ._notes import warn

#: Analysis parameters that both classes share.
ANALYSIS = (
    "words",
    "case",
    "normalization",
    "strip_accents",
    "stop_words",
    "stemmer",
    "min_length",
    "ngram_range",
    "char_ngram_range",
    "char_scope",
    "title_boost",
)
#: Weighting parameters that both classes share.
TERM_WEIGHTS = (
    "weighting",
    "idf_power",
    "min_df",
    "max_df",
    "max_features",
    "select",
)


class TfidfVectorizer(TransformerMixin, BaseEstimator):
    """Convert texts to TF-IDF rows on all processors.

    The rows are bit-identical to the rows of ``classify``.

    :meth:`transform` weights texts as training documents. :meth:`transform_queries` weights them as
    queries, which differs for weightings such as BM25.

    Parameters
    ----------
    weighting : str, default='ltc'
        A SMART code (tf ``n l a b L k``, idf ``n t p s k``, norm ``n c``; ``document.query`` for
        different codes), ``'bm25'``, or ``'sklearn'``: the formula and the words of scikit-learn's
        ``TfidfVectorizer``.
    words : {'unicode', 'word-characters', 'whitespace'}, default=None
        The definition of a word: a Unicode word (UAX #29), a run of letters, digits and ``_``, or
        text between white space. None: ``unicode``, or the definition that `weighting` implies.
    case : {'fold', 'lower', 'keep'}, default=None
        The treatment of upper case. None: ``fold``.
    normalization : {'nfkc', 'nfc', 'none'}, default=None
        The Unicode normalization form. None: ``nfkc``.
    strip_accents : bool, default=False
        Whether to remove accents from Latin and Greek letters.
    stop_words : str or list of str, default=None
        A language (ISO 639-1 code such as ``'en'``), or the words to drop.
    stemmer : str, default=None
        The language of a Snowball stemmer, such as ``'english'``.
    min_length : int, default=None
        The minimum length of words; shorter words are dropped.
    ngram_range : (int, int), default=None
        The lengths of word n-grams. None: (1, 1), or no word n-grams if `char_ngram_range` is set.
    char_ngram_range : (int, int), default=None
        The lengths of character n-grams.
    char_scope : {'word', 'text'}, default='word'
        The scope of character n-grams: within words, or the whole text.
    title_boost : float, default=None
        The number of times to count the first line of each text.
    idf_power : float, default=None
        The exponent of the idf. None: 1.
    min_df, max_df : int or float, default=None
        The minimum and maximum document frequency of terms: a number of documents (int), or a share
        of them (float).
    max_features : int, default=None
        The maximum number of terms; terms with the highest document frequency are kept.
    select : str, default=None
        The selection of the terms that are most informative about the labels: ``'chi2:N'`` or
        ``'information-gain:N'``. Requires `y`.
    n_jobs : int or None, default=None
        The number of threads; None and -1 mean all processors.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each term.

    Examples
    --------
    >>> from classify_knn import TfidfVectorizer
    >>> texts = ["bread and butter", "bread and wine"]
    >>> rows = TfidfVectorizer(weighting="sklearn").fit_transform(texts)
    >>> rows.shape
    (2, 4)
    """

    def __init__(
        self,
        *,
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
        min_df: int | float | None = None,
        max_df: int | float | None = None,
        max_features: int | None = None,
        select: str | None = None,
        n_jobs: int | None = None,
    ):
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
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.select = select
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = True
        return tags

    def fit(self, X: Any, y: Any = None) -> TfidfVectorizer:
        """Learn the vocabulary and the document frequencies.

        Parameters
        ----------
        X : list, Series or array of str
            The texts.
        y : array-like, default=None
            The labels. Only `select` uses them.

        Returns
        -------
        TfidfVectorizer
            The fitted vectorizer.
        """
        texts = _texts(X)
        self.__dict__.pop("_vocabulary", None)
        parameters = {name: getattr(self, name) for name in (*ANALYSIS, *TERM_WEIGHTS)}
        if self.select is not None:
            if y is None:
                raise ValueError(f"select={self.select!r} needs the labels y")
            labels = Labels(y)
            if len(labels) != len(texts):
                raise ValueError(f"X has {len(texts)} documents, y has {len(labels)}")
            given: "_native._Labels" = (labels.names(), labels.indptr, labels.indices)
        else:
            given = ([], np.zeros(len(texts) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
        # Weighting needs no search device.
        self._model, _ = _native.train(
            texts, given, parameters, n_jobs=n_threads(self.n_jobs), device="cpu"
        )
        warn(self._model.notes())
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """Convert texts to rows, weighted as training documents.

        Parameters
        ----------
        X : list, Series or array of str
            The texts.

        Returns
        -------
        csr_matrix of float32 of shape (n_samples, n_terms)
            The weights. Terms that were not in the fitted texts are dropped.
        """
        return self._rows(X, as_queries=False)

    def transform_queries(self, X: Any) -> sp.csr_matrix:
        """Convert texts to rows, weighted as queries.

        The rows differ from the rows of :meth:`transform` for weightings such as BM25 and
        ``ltc.lnc``, which weight documents and queries differently. The similarity is the dot
        product of a document row and a query row.

        Parameters
        ----------
        X : list, Series or array of str
            The texts.

        Returns
        -------
        csr_matrix of float32 of shape (n_samples, n_terms)
            The weights.
        """
        return self._rows(X, as_queries=True)

    def _rows(self, X: Any, as_queries: bool) -> sp.csr_matrix:
        check_is_fitted(self, "_model")
        indptr, indices, data = self._model.vectorize(_texts(X), as_queries=as_queries)
        shape = (len(indptr) - 1, self._model.term_count)
        return sp.csr_matrix((data, indices.astype(np.int32), indptr), shape=shape)

    @property
    def vocabulary_(self) -> dict[str, int]:
        check_is_fitted(self, "_model")
        if "_vocabulary" not in self.__dict__:
            self._vocabulary = {term: column for column, term in enumerate(self._model.terms)}
        return self._vocabulary

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the terms in the order of the columns.

        Parameters
        ----------
        input_features : list of one str, default=None
            Ignored, but must have length 1.

        Returns
        -------
        ndarray of object
            The terms.
        """
        check_is_fitted(self, "_model")
        if input_features is not None and np.size(input_features) != 1:
            raise ValueError(
                "input_features should have length equal to 1, "
                f"the column of texts, got {np.size(input_features)}"
            )
        return np.asarray(self._model.terms, dtype=object)

    def __getstate__(self):
        state = {**super().__getstate__()}
        state.pop("_vocabulary", None)
        if "_model" in state:
            state["_model"] = state["_model"].to_bytes()
        return state

    def __setstate__(self, state):
        if isinstance(state.get("_model"), bytes):
            state["_model"] = _native.Model.from_bytes(
                state["_model"], n_jobs=n_threads(state["n_jobs"]), device="cpu"
            )
        super().__setstate__(state)


def _texts(X: Any) -> list[str]:
    texts = as_texts(X)
    if not texts:
        raise ValueError("X has no texts: expected a list, Series or array of str")
    return texts
