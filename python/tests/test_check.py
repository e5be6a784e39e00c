"""`check`: probable mistakes in labeled documents."""

import numpy as np
import pytest

from classify_knn import check

TEXTS = ["bake the bread", "bake a cake", "tune the guitar", "play the guitar"]
LABELS = ["food", "food", "music", "music"]


def corpus(count):
    texts = [f"{TEXTS[at % 4]} {at}" for at in range(count)]
    return texts, [LABELS[at % 4] for at in range(count)]


def test_a_wrong_label_is_found():
    texts, labels = corpus(200)
    labels[10] = "food"
    found = check(texts, labels, ids=[f"d{at}" for at in range(200)], min_probability=0)
    first = found["label_errors"]["suspicious"][0]
    assert first["document"]["id"] == "d10"
    assert (first["given"], first["suggested"]) == ("food", "music")
    assert found["schema"] == "classify.check/1"


def test_parameters_and_kinds_of_documents():
    texts, labels = corpus(60)
    same = check([*texts, texts[0]], [*labels, "music"], stop_words="english", n_jobs=1)
    assert same["duplicates"]["clusters"][0]["conflicting"]
    rows = np.eye(4, dtype=np.float32)[np.arange(40) % 4]
    found = check(rows, ["x", "y"] * 20)
    assert found["documents"] == 40
    several = check(texts, [[label, "all"] for label in labels])
    assert several["multi_label"]


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="min_probability=2"):
        check(TEXTS, LABELS, min_probability=2)
    with pytest.raises(ValueError, match="y=None"):
        check(TEXTS, None)
    with pytest.raises(ValueError, match="4 documents, y has 3"):
        check(TEXTS, LABELS[:3])
    with pytest.raises(TypeError, match="stopwords"):
        check(TEXTS, LABELS, stopwords="english")
