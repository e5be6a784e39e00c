"""Tests of KNNTextClassifier with all supported input types."""

import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import classify_knn
from classify_knn import KNNTextClassifier, ModelError, TfidfVectorizer


@pytest.fixture(scope="module")
def model(train):
    return KNNTextClassifier().fit(*train)


def test_classification(model, test):
    texts, labels = test
    assert model.score(texts, labels) > 0.95
    assert model.classes_.tolist() == ["cooking", "music", "sport"]
    proba = model.predict_proba(texts)
    assert np.allclose(proba.sum(axis=1), 1)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(texts)).all()
    assert (model.classes_[model.decision_function(texts).argmax(axis=1)] == model.predict(texts)).all()


class Column:
    """A data set column that is neither a list nor an array."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]


class ArrowColumn:
    """A column that supports only the Arrow stream interface."""

    def __init__(self, items):
        self.array = pa.chunked_array([items])

    def __arrow_c_stream__(self, requested_schema=None):
        return self.array.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "column",
    [
        ArrowColumn,
        list,
        tuple,
        np.asarray,
        lambda items: np.asarray(items, dtype=object),
        lambda items: np.asarray(items, dtype=object)[:, None],
        pd.Series,
        lambda items: pd.Series(items, index=range(7, 7 + len(items)), dtype="string"),
        lambda items: pd.DataFrame({"text": items}),
        pl.Series,
        lambda items: pl.DataFrame({"text": items}),
        pa.array,
        lambda items: pa.chunked_array([items[:10], items[10:]]),
        lambda items: pa.table({"text": items}),
        Column,
    ],
)
def test_columns_of_every_library(column, model, train, test):
    (texts, labels), expected = train, model.predict(test[0])
    fitted = KNNTextClassifier().fit(column(texts), labels)
    assert (fitted.predict(column(test[0])) == expected).all()


@pytest.mark.parametrize("column", [list, tuple, np.asarray, pd.Series, pd.Categorical, pl.Series, pa.array])
def test_labels_of_every_library(column, model, train, test):
    fitted = KNNTextClassifier().fit(train[0], column(train[1]))
    assert (fitted.predict(test[0]) == model.predict(test[0])).all()


def test_labels_that_are_numbers(train, test):
    names = ["cooking", "music", "sport"]
    # Sorted as strings, 10 would come before 2.
    numbers = np.asarray([2, 10, -3])
    fitted = KNNTextClassifier().fit(train[0], numbers[[names.index(label) for label in train[1]]])
    assert fitted.classes_.tolist() == [-3, 2, 10]
    expected = numbers[[names.index(label) for label in test[1]]]
    assert fitted.score(test[0], expected) > 0.95
    assert (fitted.classes_[fitted.predict_proba(test[0]).argmax(axis=1)] == fitted.predict(test[0])).all()


def test_several_labels_as_lists_and_as_a_matrix(train, test):
    texts, labels = train
    listed = [[label, "all"] if label != "sport" else [label] for label in labels]
    fitted = KNNTextClassifier().fit(texts, listed)
    predicted = fitted.predict(test[0])
    assert all(isinstance(one, list) for one in predicted)
    assert any("all" in one for one in predicted)
    classes = ["all", "cooking", "music", "sport"]
    assert fitted.classes_.tolist() == classes
    matrix = np.asarray([[label in one for label in classes] for one in listed], dtype=int)
    for given in (matrix, sp.csr_matrix(matrix), pd.DataFrame(matrix, columns=classes), matrix.tolist()):
        by_matrix = KNNTextClassifier().fit(texts, given)
        indicator = by_matrix.predict(test[0])
        assert indicator.shape == (len(test[0]), 4)
        assert [[label in one for label in classes] for one in predicted] == (indicator == 1).tolist()
        assert by_matrix.predict_proba(test[0]).shape == (len(test[0]), 4)


def test_documents_without_labels(train, test):
    texts, labels = train
    listed = [[] if at % 5 == 0 else [label] for at, label in enumerate(labels)]
    predicted = KNNTextClassifier(threshold=0.3, allow_none=True).fit(texts, listed).predict(test[0])
    assert np.mean([label in one for one, label in zip(predicted, test[1], strict=True)]) > 0.9


def test_the_same_as_scikit_learns_brute_force(train, test):
    vectorizer = TfidfVectorizer().fit(train[0])
    rows, queries = vectorizer.transform(train[0]), vectorizer.transform(test[0])
    distances, indices = KNNTextClassifier().fit(rows, train[1]).kneighbors(queries, 5)
    brute = KNeighborsClassifier(metric="cosine", algorithm="brute").fit(rows.astype(float), train[1])
    expected, _ = brute.kneighbors(queries.astype(float), 5)
    assert np.allclose(distances, expected, atol=1e-6)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert indices.dtype == np.int64


def test_matrices_and_arrays(train, test):
    vectorizer = TfidfVectorizer().fit(train[0])
    rows, queries = vectorizer.transform(train[0]), vectorizer.transform(test[0])
    sparse = KNNTextClassifier().fit(rows, train[1])
    by_text = KNNTextClassifier().fit(train[0], train[1])
    assert (sparse.predict(queries) == by_text.predict(test[0])).all()
    assert sparse.n_features_in_ == rows.shape[1]
    for metric in ("cosine", "euclidean", "manhattan"):
        dense = KNNTextClassifier(metric=metric).fit(rows.toarray(), train[1])
        assert dense.score(queries.toarray(), test[1]) > 0.9
        assert (dense.predict(queries) == dense.predict(queries.toarray())).all()
    frame = pd.DataFrame(rows.toarray()[:, :5], columns=list("abcde"))
    assert KNNTextClassifier().fit(frame, train[1]).feature_names_in_.tolist() == list("abcde")


def test_latent_semantic_analysis(train, test):
    for features in ("lsa:10", "tfidf+lsa:10"):
        assert KNNTextClassifier(features=features).fit(*train).score(*test) > 0.9


def test_tools_of_scikit_learn(train, test):
    texts, labels = np.asarray(train[0], dtype=object), np.asarray(train[1])
    assert cross_val_score(KNNTextClassifier(), texts, labels, cv=3).min() > 0.9
    search = GridSearchCV(KNNTextClassifier(), {"n_neighbors": [1, 5, 20], "stemmer": [None, "english"]}, cv=2)
    assert search.fit(train[0], train[1]).score(*test) > 0.9
    pipeline = make_pipeline(TfidfVectorizer(stop_words="en"), KNNTextClassifier(n_neighbors=10))
    assert pipeline.fit(*train).score(*test) > 0.9
    frame = pd.DataFrame({"text": train[0], "length": [len(text) for text in train[0]]})
    columns = ColumnTransformer([("text", TfidfVectorizer(), "text"), ("length", "drop", ["length"])])
    assert make_pipeline(columns, KNNTextClassifier()).fit(frame, train[1]).score(frame, train[1]) > 0.9


def test_metadata_routing(train):
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = KNNTextClassifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weights = np.ones(len(train[0]))
        scores = cross_val_score(estimator, np.asarray(train[0], dtype=object), train[1], params={"sample_weight": weights})
        assert scores.mean() > 0.9


def test_weights(train, test):
    texts, labels = train
    weights = np.asarray([0.0 if label == "sport" else 1.0 for label in labels])
    fitted = KNNTextClassifier().fit(texts, labels, sample_weight=weights)
    assert fitted.classes_.tolist() == ["cooking", "music"]
    heavy = np.asarray([50.0 if label == "music" else 1.0 for label in labels])
    # With k and vote chosen, these documents are separated without it.
    more = (KNNTextClassifier(tune=False).fit(texts, labels, sample_weight=heavy).predict(test[0]) == "music").sum()
    assert more > (KNNTextClassifier(tune=False).fit(texts, labels).predict(test[0]) == "music").sum()
    with pytest.raises(ValueError, match="at least one non-zero"):
        KNNTextClassifier().fit(texts, labels, sample_weight=np.zeros(len(texts)))


def test_tuning_abstaining_and_progress(train, test, caplog):
    caplog.set_level(logging.INFO, "classify_knn")
    stages = []
    fitted = KNNTextClassifier(tune="votes", target_error=0.05).fit(
        *train, progress=lambda stage, done: stages.append((stage, done))
    )
    assert fitted.tuning_["schema"] == "classify.tuning/1"
    assert stages and all(stage.startswith("fit") for stage, _ in stages)
    assert "target" in caplog.text
    confidence, reasons = fitted.predict_confidence([*test[0], "zzz"])
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert reasons[-1] == "no-known-term"
    predicted = fitted.predict([*test[0], "zzz"])
    assert predicted[-1] is None
    answered = np.asarray([label is not None for label in predicted[:-1]])
    assert answered.mean() > 0.5
    assert accuracy_score(np.asarray(test[1])[answered], predicted[:-1][answered].astype(str)) > 0.9


def test_a_progress_that_raises_ends_training(train):
    def progress(stage, done):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        KNNTextClassifier(tune="votes").fit(*train, progress=progress)


def test_files_and_pickles(tmp_path, model, train, test):
    path = tmp_path / "a.model"
    model.save(path)
    expected = model.predict(test[0])
    loaded = KNNTextClassifier.load(path)
    assert (loaded.predict(test[0]) == expected).all()
    loaded.save(str(tmp_path / "b.model"))
    assert (tmp_path / "b.model").read_bytes() == path.read_bytes()
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.predict(test[0]) == expected).all()
    assert (sklearn.clone(model).fit(*train).predict(test[0]) == expected).all()
    with pytest.raises(FileNotFoundError):
        KNNTextClassifier.load(tmp_path / "none.model")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.model").write_bytes(damaged)
    with pytest.raises(ModelError, match="damaged.model"):
        KNNTextClassifier.load(tmp_path / "damaged.model")
    with pytest.raises(OSError):
        model.save(tmp_path / "no" / "folder")


def test_results_do_not_depend_on_threads(train, test):
    expected = KNNTextClassifier(n_jobs=1).fit(*train).predict_proba(test[0])
    for jobs in (None, -1, 2, 3, -2):
        assert (KNNTextClassifier(n_jobs=jobs).fit(*train).predict_proba(test[0]) == expected).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors=0: expected an integer from 1"),
        ({"n_neighbors": True}, "n_neighbors=True"),
        ({"weights": "distance"}, "weights='distance'"),
        ({"weighting": "xyz"}, "weighting='xyz'"),
        ({"metric": "minkowski"}, "metric='minkowski'"),
        ({"stop_words": "xx"}, "stop_words='xx'"),
        ({"stemmer": "klingon"}, "stemmer='klingon'"),
        ({"ngram_range": (2, 1)}, r"ngram_range=\(2, 1\)"),
        ({"min_df": -1}, "min_df=-1"),
        ({"max_df": 1.5}, "max_df=1.5"),
        ({"words": "letters"}, "words='letters'"),
        ({"tune": "some"}, "tune='some'"),
        ({"objective": "best", "tune": True}, "objective='best'"),
        ({"target_error": 0.1}, "tune=True"),
        ({"weights": "learned"}, "tune=True"),
        ({"class_weight": {"cooking": -1}}, "class_weight="),
        ({"class_weight": {"nobody": 1}}, "class_weight: no document has the label `nobody`"),
        ({"device": "gpu"}, "device="),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"features": "bert"}, "features='bert'"),
        ({"select": "best:3"}, "select='best:3'"),
    ],
)
def test_wrong_parameters_are_named(parameters, message, train):
    with pytest.raises(ValueError, match=message):
        KNNTextClassifier(**parameters).fit(*train)


def test_wrong_documents_are_named(model, train):
    fit = KNNTextClassifier().fit
    with pytest.raises(ValueError, match="X is one string"):
        model.predict("one text")
    with pytest.raises(ValueError, match=r"X\[1\] is None: a text is missing"):
        model.predict(["text", None])
    with pytest.raises(ValueError, match=r"X\[1\] is nan"):
        model.predict(pd.Series(["text", float("nan")], dtype=object))
    with pytest.raises(TypeError, match=r"X\[1\] is 3, expected a str"):
        model.predict(["text", 3])
    with pytest.raises(ValueError, match=r"X\[0\]"):
        model.predict(["\ud800"])
    with pytest.raises(ValueError, match="no documents"):
        fit([], [])
    with pytest.raises(ValueError, match="X has 2 documents, y has 1"):
        fit(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="the classifier was fitted on text"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="the classifier was fitted on vectors"):
        KNNTextClassifier().fit(np.eye(3), [0, 1, 2]).predict(["text"])
    with pytest.raises(ValueError, match="no text contains a word"):
        fit(["", " "], ["a", "b"])
    with pytest.raises(ValueError, match="missing label"):
        fit(["a", "b"], ["x", None])
    with pytest.raises(ValueError, match="empty string"):
        fit(["a", "b"], ["x", ""])
    with pytest.raises(ValueError, match="no documents"):
        model.predict([])


def test_a_text_of_ten_megabytes(model):
    assert len(model.predict(["bread and butter " * 600_000])) == 1


def test_threads_of_python(model, test):
    expected = model.predict(test[0])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: model.predict(test[0]), range(64)))
    assert all((answer == expected).all() for answer in answers)


def _predict(model, texts, queue):
    queue.put(model.predict(texts).tolist())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method, model, test):
    expected = model.predict(test[0]).tolist()
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    processes = [context.Process(target=_predict, args=(model, test[0], queue)) for _ in range(3)]
    for process in processes:
        process.start()
    answers = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(timeout=60)
    assert answers == [expected] * 3
    assert model.predict(test[0]).tolist() == expected


def test_interrupting_a_search():
    """Ctrl-C stops a long search quickly, and the classifier still works."""
    code = """
import numpy as np, scipy.sparse as sp
from classify_knn import SparseNeighbors
rows = sp.random(60_000, 3_000, density=0.02, format="csr", random_state=0)
model = SparseNeighbors(n_neighbors=100).fit(rows)
print("ready", flush=True)
try:
    model.kneighbors(rows)
    print("done", flush=True)
except KeyboardInterrupt:
    print("stopped", flush=True)
print(model.kneighbors(rows[:2])[1][:, 0].tolist(), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "stopped\n"
    assert time.monotonic() - begin < 5
    assert process.stdout.readline() == "[0, 1]\n"
    assert process.wait() == 0


def test_python_runs_during_a_search(model, test):
    texts = test[0] * 200
    counted, stop = [], threading.Event()

    def count():
        while not stop.is_set():
            counted.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    model.predict(texts)
    before = len(counted)
    stop.set()
    thread.join()
    assert before > 3


def test_version():
    assert classify_knn.__version__.count(".") == 2


@pytest.mark.parametrize("empty", [0, 1, 3])
def test_columns_of_the_indicator_that_no_document_has(empty, train, test):
    labels = np.zeros((len(train[0]), 4), dtype=int)
    used = [column for column in range(4) if column != empty]
    names = ["cooking", "music", "sport"]
    labels[np.arange(len(labels)), [used[names.index(label)] for label in train[1]]] = 1
    fitted = KNNTextClassifier().fit(train[0], labels)
    assert fitted.predict_proba(test[0]).shape == (len(test[0]), 4)
    assert (fitted.predict_proba(test[0])[:, empty] == 0).all()
    assert fitted.decision_function(test[0]).shape == fitted.predict(test[0]).shape == (len(test[0]), 4)
    weights = np.asarray([label != "sport" for label in train[1]], dtype=float)
    assert KNNTextClassifier().fit(train[0], labels, sample_weight=weights).predict_proba(test[0]).shape[1] == 4


def test_more_neighbors_than_documents(model, test):
    distances, indices = model.kneighbors(test[0][:2], 1_000)
    assert indices.shape == (2, 1_000) and (indices[:, -1] == -1).all() and np.isinf(distances[:, -1]).all()
    with pytest.raises(ValueError, match="n_neighbors="):
        model.kneighbors(test[0][:2], 2**62)


def test_distances_of_other_metrics(train, test):
    distances, indices = KNNTextClassifier(weighting="bm25").fit(*train).kneighbors(test[0], 5)
    assert (distances[indices >= 0] < 0).all() and (np.diff(distances, axis=1) >= 0).all()


def test_terms_and_vectors_have_two_lists(train, test):
    fitted = KNNTextClassifier(features="tfidf+lsa:10").fit(*train)
    by_terms, by_vectors = fitted.kneighbors(test[0], 5), fitted.kneighbors(test[0], 5, by="vectors")
    assert (by_terms[1] != by_vectors[1]).any()


def test_a_hierarchy_of_numbers(train, test):
    numbers = {"cooking": 1, "music": 2, "sport": 3}
    labels = [[numbers[label]] for label in train[1]]
    fitted = KNNTextClassifier(hierarchy=[("1", "9"), ("2", "9")]).fit(train[0], labels)
    assert fitted.classes_.tolist() == [1, 2, 3, "9"]
    assert all("9" in one for one in fitted.predict(test[0]) if 1 in one or 2 in one)
    with pytest.raises(ValueError, match="hierarchy needs multi-label"):
        KNNTextClassifier(hierarchy=[("cooking", "all")]).fit(*train)


def test_score_counts_refused_documents_as_wrong(train, test):
    fitted = KNNTextClassifier(tune="votes", target_error=0.05).fit(*train)
    refused = [*test[0], "zzz"], [*test[1], "cooking"]
    assert fitted.score(*refused) == pytest.approx(fitted.score(*test) * len(test[0]) / (len(test[0]) + 1))
    listed = KNNTextClassifier().fit(train[0], [[label] for label in train[1]])
    assert listed.score(test[0], [[label] for label in test[1]]) > 0.9


def test_a_failed_fit_leaves_nothing(train):
    fitted = KNNTextClassifier().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError):
        fitted.fit(np.eye(3), [0, 1])
    with pytest.raises(sklearn.exceptions.NotFittedError):
        fitted.predict(np.eye(4))


def test_missing_values_of_pandas(model):
    with pytest.raises(ValueError, match=r"X\[0\] is <NA>"):
        model.predict(pd.Series([pd.NA, "bread"], dtype="string"))
    with pytest.raises(ValueError, match="missing label"):
        KNNTextClassifier().fit(["a", "b"], pd.Series([pd.NA, "x"], dtype="string"))
    with pytest.raises(ValueError, match="different types"):
        KNNTextClassifier().fit(["a", "b"], [[1, "x"], ["y"]])


def test_a_list_of_vectors(train):
    vectors = [np.eye(3)[["cooking", "music", "sport"].index(label)] for label in train[1]]
    assert KNNTextClassifier().fit(vectors, train[1]).score(vectors, train[1]) == 1


def test_interrupting_tuning():
    """Ctrl-C stops tuning quickly."""
    code = """
import numpy as np
from classify_knn import KNNTextClassifier
random = np.random.default_rng(0)
words = [f"w{number}" for number in range(3000)]
texts = [" ".join(random.choice(words, 40)) for _ in range(20000)]
print("ready", flush=True)
try:
    KNNTextClassifier(tune=True).fit(texts, random.integers(0, 50, len(texts)))
    print("done", flush=True)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(2)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "stopped\n"
    assert time.monotonic() - begin < 10
    process.wait()
