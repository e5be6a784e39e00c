"""Tests of explanations."""

import numpy as np
import pytest

from classify_knn import KNNTextClassifier, TfidfVectorizer


def test_parts_sum_to_the_similarity(train, test):
    model = KNNTextClassifier(keep_text=True).fit(*train)
    explained = model.explain(test[0])
    assert [one["labels"] for one in explained] == [[label] for label in model.predict(test[0])]
    distances, indices = model.kneighbors(test[0])
    for one, near, rows in zip(explained, distances, indices, strict=True):
        neighbors = one["neighbors"]
        assert [neighbor["row"] for neighbor in neighbors] == rows[rows >= 0].tolist()
        assert np.allclose([1 - neighbor["similarity"] for neighbor in neighbors], near[rows >= 0], atol=1e-6)
        assert np.isclose(sum(neighbor["vote"] for neighbor in neighbors), 1)
        for neighbor in neighbors:
            assert np.isclose(sum(term["part"] for term in neighbor["terms"]), neighbor["similarity"], atol=1e-6)
            assert neighbor["text"] == train[0][neighbor["row"]]
            words = set(neighbor["text"].split())
            assert {term["term"] for term in neighbor["terms"]} <= words


def test_matrices_and_limits(train, test):
    vectorizer = TfidfVectorizer().fit(train[0])
    model = KNNTextClassifier().fit(vectorizer.transform(train[0]), train[1])
    explained = model.explain(vectorizer.transform(test[0][:3]), terms=2)
    assert all(len(score["for"]) <= 2 for one in explained for score in one["scores"])
    assert explained[0]["neighbors"][0]["terms"][0]["term"].isdigit()
    pcut = KNNTextClassifier(rule="pcut").fit(train[0], [[label] for label in train[1]])
    with pytest.raises(ValueError, match="pcut"):
        pcut.explain(test[0])
