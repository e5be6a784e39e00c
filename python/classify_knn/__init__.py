"""Exact k-nearest-neighbor text classification, sparse neighbors and metric indexes.

>>> from classify_knn import KNNTextClassifier
>>> texts = ["bake the bread", "bread and butter", "tune the guitar", "guitar strings"]
>>> model = KNNTextClassifier().fit(texts, ["cooking", "cooking", "music", "music"])
>>> print(*model.predict(["fresh bread", "a new guitar"]))
cooking music
"""

from ._check import check
from ._classifier import KNNTextClassifier
from ._metric import MetricIndex
from ._native import ModelError, __version__
from ._notes import DataWarning
from ._sparse import SparseNeighbors, top_k
from ._tfidf import TfidfVectorizer

__all__ = [
    "DataWarning",
    "KNNTextClassifier",
    "MetricIndex",
    "ModelError",
    "SparseNeighbors",
    "TfidfVectorizer",
    "__version__",
    "check",
    "top_k",
]
