"""Tests of TfidfVectorizer against scikit-learn's."""

import pickle

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer as SklearnVectorizer

from classify_knn import KNNTextClassifier, SparseNeighbors, TfidfVectorizer


@pytest.mark.parametrize("parameters", [{}, {"ngram_range": (1, 2)}, {"min_df": 3}, {"max_df": 0.5}, {"min_df": 2, "max_features": 10}])
def test_the_rows_of_scikit_learn(parameters, train, test):
    own = TfidfVectorizer(weighting="sklearn", **parameters).fit(train[0])
    sklearn = SklearnVectorizer(**parameters).fit(train[0])
    terms, expected = own.get_feature_names_out(), sklearn.get_feature_names_out()
    if "max_features" not in parameters:  # ties are resolved differently
        assert sorted(terms) == sorted(expected)
        columns = [own.vocabulary_[term] for term in expected]
        difference = own.transform(test[0])[:, columns].toarray() - sklearn.transform(test[0]).toarray()
        assert np.abs(difference).max() < 1e-6
    assert len(terms) == len(expected)


def test_alone_and_in_the_classifier(train, test):
    vectorizer = TfidfVectorizer(stemmer="english", stop_words=["the", "of"])
    rows = vectorizer.fit_transform(train[0])
    assert rows.dtype == np.float32
    assert "the" not in vectorizer.vocabulary_
    assert (rows != vectorizer.transform(train[0])).nnz == 0
    alone = KNNTextClassifier().fit(rows, train[1]).predict(vectorizer.transform(test[0]))
    whole = KNNTextClassifier(stemmer="english", stop_words=["the", "of"]).fit(*train).predict(test[0])
    assert (alone == whole).all()
    copy = pickle.loads(pickle.dumps(vectorizer))
    assert (copy.transform(test[0]) != vectorizer.transform(test[0])).nnz == 0


def test_selection_needs_labels(train):
    assert TfidfVectorizer(select="chi2:10").fit_transform(train[0], train[1]).shape[1] == 10
    with pytest.raises(ValueError, match="y"):
        TfidfVectorizer(select="chi2:10").fit(train[0])


def test_wrong_arguments(train):
    with pytest.raises(ValueError, match="no texts"):
        TfidfVectorizer().fit(np.eye(3))
    with pytest.raises(ValueError, match="words='x'"):
        TfidfVectorizer(words="x").fit(train[0])


def test_fitting_again(train):
    vectorizer = TfidfVectorizer().fit(["a b", "b c"])
    assert len(vectorizer.vocabulary_) == 3
    vectorizer.fit(["x y z w q", "r s"])
    assert len(vectorizer.vocabulary_) == vectorizer.transform(["x y"]).shape[1] == 7


def test_documents_and_queries(train, test):
    vectorizer = TfidfVectorizer(weighting="bm25").fit(train[0])
    rows, queries = vectorizer.transform(train[0]), vectorizer.transform_queries(test[0])
    by_rows = SparseNeighbors(5, metric="dot").fit(rows).kneighbors(queries)
    by_texts = KNNTextClassifier(weighting="bm25").fit(*train).kneighbors(test[0], 5)
    assert (by_rows[0] == by_texts[0]).all() and (by_rows[1] == by_texts[1]).all()
