"""Tests that invalid input causes an error with the name of the parameter, or a warning."""

import ast
import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import classify_knn
from classify_knn import (
    DataWarning,
    KNNTextClassifier,
    MetricIndex,
    SparseNeighbors,
    TfidfVectorizer,
    top_k,
)

TEXTS = ["bake the bread", "bread and butter", "tune the guitar", "guitar strings"]
LABELS = ["cooking", "cooking", "music", "music"]
LISTS = [[label] for label in LABELS]
ROWS = TfidfVectorizer().fit_transform(TEXTS)


def fit(X, y, **given):
    return KNNTextClassifier(tune=False).fit(X, y, **given)


@pytest.fixture(scope="module")
def model():
    return fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["a;b", "b;c", "a;c", "a;b;c", "b", "c"] * 2,
            r"y: .*`a;b`.*\[label.split\(';'\) for label in y\]",
        ),
        (
            [f"label number {number}" for number in range(12)],
            "y: 12 of 12 labels occur once, .*right column",
        ),
        (["x"] * 12, "y: all documents have the label `x`"),
        (
            ["Money"] + ["money"] * 6 + ["other"] * 5,
            "y: the labels `Money` and `money` differ only in spelling",
        ),
        (np.array(["x", np.nan, "y"] * 4), "y: the label 'nan' is probably a missing value"),
    ],
)
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_labels_that_are_probably_wrong(labels, message):
    with pytest.warns(DataWarning, match=message) as warned:
        fit(TEXTS * 3, labels)
    assert warned[0].filename == __file__
    if "nan" not in labels:
        with pytest.warns(DataWarning, match=message):
            TfidfVectorizer(select="chi2:3").fit(TEXTS * 3, labels)


def test_other_data_that_is_probably_wrong(model):
    with pytest.warns(
        DataWarning, match="ids: 3 documents have an identifier that occurred before, such as `a`"
    ):
        fit(TEXTS, LABELS, ids=["a"] * 4)
    with pytest.warns(DataWarning, match="groups: all documents are in one group"):
        KNNTextClassifier().fit(TEXTS, LABELS, groups=[7] * 4)
    with pytest.warns(DataWarning, match="hierarchy: .*`cookin`.*closest label is `cooking`"):
        KNNTextClassifier(tune=False, hierarchy=[("cookin", "all")]).fit(TEXTS, LISTS)
    with pytest.warns(
        DataWarning, match="y: 1 of the 2 labels .* unknown to the model, such as `Music`"
    ):
        model.score(TEXTS, ["cooking", "cooking", "Music", "Music"])
    numbers = KNNTextClassifier(tune=False).fit(TEXTS, [1, 1, 2, 2])
    with pytest.warns(DataWarning, match="y: no label is equal .* their types differ"):
        assert numbers.score(TEXTS, ["1", "1", "2", "2"]) == 0


def test_no_warning_on_clean_data(train, test):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = KNNTextClassifier().fit(
            *train, ids=[f"d{row}" for row in range(len(train[0]))], groups=range(len(train[0]))
        )
        fitted.score(*test)
        numbers = [len(label) for label in train[1]]
        assert (
            KNNTextClassifier()
            .fit(train[0], numbers)
            .score(train[0], np.asarray(numbers, dtype=float))
            > 0.9
        )
        KNNTextClassifier(hierarchy=[("cooking", "all"), ("music", "all")]).fit(
            train[0], [[label] for label in train[1]]
        )
        KNNTextClassifier().fit(train[0], pd.get_dummies(pd.Series(train[1])).astype(int))
        TfidfVectorizer(select="chi2:9").fit(*train)


def test_the_warning_can_be_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        with pytest.raises(DataWarning):
            fit(TEXTS, ["x"] * 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"title_boost": -1}, "^title_boost=-1: expected a number from 0 to 1000$"),
        ({"title_boost": 0}, "^title_boost=0: expected a number above 0$"),
        ({"rule": "mcut:3"}, "^rule='mcut:3': mcut takes no number"),
        (
            {"hierarchy": [("b", "c"), ("a", "a")]},
            r"^hierarchy\[1\]: the label `a` is its own ancestor$",
        ),
        ({"hierarchy": [("b", "c"), ("", "a")]}, r"^hierarchy\[1\]: a label is empty"),
        ({"case": "upper"}, "^case='upper': expected one of `fold`, `lower`, `keep`$"),
        ({"min_df": 50}, "^X: no term is left .*min_df"),
        ({"n_jobs": 1025}, "^n_jobs=1025: expected None, an integer from 1 to 1024"),
        ({"n_jobs": 2**70}, "^n_jobs="),
        ({"device": 0}, "^device=0: expected"),
        ({"metric": "euclidean"}, "^metric='euclidean' has no effect on X, which contains texts"),
        ({"dense_share": 0.5}, r"^dense_share=0.5 needs features='tfidf\+lsa:N'$"),
        ({"rule": "scut"}, "tune='votes'"),
        ({"weights": "similarity/size^1", "tune": "votes"}, "^/size in weights is for one label"),
        ({"foreign": 0.1, "tune": "votes"}, "^foreign needs at least four labels, but y has 2$"),
    ],
)
def test_messages_name_parameters(parameters, message):
    with pytest.raises(ValueError, match=message) as raised:
        KNNTextClassifier(**{"tune": False, **parameters}).fit(TEXTS, LISTS)
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["stemmer", "stop_words", "ngram_range", "title_boost", "strip_accents"]
)
def test_parameters_of_texts_are_refused_for_matrices(name):
    value = {"ngram_range": (1, 2), "title_boost": 2, "strip_accents": True}.get(name, "en")
    for X in (ROWS, ROWS.toarray()):
        with pytest.raises(ValueError, match=f"^{name}=.* has no effect on X"):
            KNNTextClassifier(**{name: value}).fit(X, LABELS)


@pytest.mark.parametrize(
    "parameters",
    [{"select": "chi2:3"}, {"weighting": "bm25"}, {"min_df": 2}, {"features": "counts"}],
)
def test_parameters_of_terms_are_refused_for_vectors(parameters):
    with pytest.raises(
        ValueError,
        match=f"^{next(iter(parameters))}=.* has no effect on X, which contains dense vectors",
    ):
        KNNTextClassifier(tune=False, **parameters).fit(ROWS.toarray(), LABELS)
    if "features" not in parameters:
        KNNTextClassifier(tune=False, **parameters).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "X is None: expected a list"),
        (3, "X is 3: expected a list"),
        ([None], r"X\[0\] is None: a text is missing"),
        ([1, "a"], r"X\[0\] is 1, expected a str"),
        ([["a", "b"]], r"X\[0\] is \['a', 'b'\], expected a str"),
        ([{"a": 1}], r"X\[0\] is {'a': 1}, expected a str"),
        (b"bytes", "X is one bytes object"),
        ([b"bytes"], r"X\[0\] is b'bytes', expected a str; decode it"),
        (np.array("text"), "X is one string"),
        ((text for text in TEXTS), "X is a generator, which can be read only once"),
        ({"a", "b"}, "X is a set, which has no order"),
        ({"a": "b"}, "X is a dict"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), "X has several columns with strings"),
    ],
)
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_documents_that_are_not_a_column(X, message, model):
    with pytest.raises((TypeError, ValueError), match=message):
        model.predict(X)
    if not isinstance(X, pd.DataFrame) and not hasattr(X, "__next__"):
        with pytest.raises((TypeError, ValueError), match=message):
            TfidfVectorizer().fit(X)


def test_a_sparse_row_is_not_a_matrix():
    with pytest.raises(ValueError, match=r"X has the shape \(3,\): expected rows and columns"):
        SparseNeighbors().fit(sp.coo_array(np.ones(3)))


def test_values_of_a_dict_are_a_column(model):
    assert model.predict(dict(enumerate(TEXTS)).values()).tolist() == LABELS


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ("abcd", "y is one string"),
        (3, "y is 3"),
        (set(LABELS), "y is a set, which has no order"),
        (dict(enumerate(LABELS)), "y is a dict"),
        (iter(LABELS), "y is a list_iterator, which can be read only once"),
        (["a", float("nan")] * 2, r"y\[1\] is nan: a missing label"),
        (np.array(["a", np.nan] * 2, dtype=object), r"y\[1\] is nan: a missing label"),
        ([1.0, float("nan")] * 2, r"y\[1\] is nan: a missing label"),
        (np.array([1.0, np.nan] * 2), r"y\[1\] is nan: a missing label"),
        ([["a"], ["a", None]] * 2, r"y\[1\]\[1\] is None: a missing label"),
        (["1", 1] * 2, "different types"),
        (np.array(["1", 1] * 2, dtype=object), "different types"),
        ([True, 1] * 2, "different types"),
        ([b"a", b"b"] * 2, r"y\[0\] is b'a', expected a label; decode it"),
        ([{"a": 1}] * 4, r"y\[0\] is {'a': 1}, expected a label"),
        ([[["a"]]] * 4, r"y\[0\]\[0\] is \['a'\], expected a label"),
        (["a", ["b"]] * 2, r"y\[1\] is \['b'\], but y\[0\] is 'a'"),
    ],
)
def test_labels_that_are_not_labels(y, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError), match=message):
            fit(TEXTS, y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ids": "abcd"}, "ids is one string"),
        ({"ids": [None] * 4}, r"ids\[0\] is None"),
        ({"ids": ["a"]}, "ids has 1 entries, X has 4 documents"),
        ({"groups": [float("nan")] * 4}, r"groups\[0\] is nan"),
        ({"groups": np.zeros((4, 2))}, "groups has the shape"),
        ({"progress": 3}, "progress=3: expected a function"),
    ],
)
def test_other_arguments_of_fit(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fit(TEXTS, LABELS, **given)


def test_arguments_of_other_methods(model):
    for y, message in (
        (LABELS[:3], "X has 4 documents, y has 3"),
        (LISTS, "y has lists of labels"),
        (None, "y is None"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model.score(TEXTS, y)
    with pytest.raises(ValueError, match="sample_weight has the shape"):
        model.score(TEXTS, LABELS, sample_weight=[1.0])
    with pytest.raises(ValueError, match="y has the shape"):
        fit(TEXTS, np.eye(4, 2)).score(TEXTS, np.eye(3, 2))
    for terms in (-1, 1.5, "x"):
        with pytest.raises(ValueError, match="terms=.*expected an integer from 0"):
            model.explain(TEXTS, terms=terms)
    assert len(model.explain(TEXTS, terms=2**80)) == 4
    with pytest.raises(
        ValueError, match="n_neighbors=100000000: expected an integer from 1 to 10000"
    ):
        model.kneighbors(TEXTS, 10**8)
    with pytest.raises(
        ValueError, match="n_neighbors=100000000: expected an integer from 1 to 10000"
    ):
        SparseNeighbors().fit(ROWS).kneighbors(ROWS, 10**8)
    assert top_k(ROWS, ROWS, 2**80).shape == (4, 4)
    assert (model.kneighbors(TEXTS, 2, by="vectors")[1] == model.kneighbors(TEXTS, 2)[1]).all()
    with pytest.raises(ValueError, match="input_features should have length equal to 1"):
        TfidfVectorizer().fit(TEXTS).get_feature_names_out(["a", "b"])


def test_arguments_of_metric_indexes():
    index = MetricIndex(np.eye(3))
    for call, message in (
        (lambda: MetricIndex(None), "points is None"),
        (lambda: MetricIndex([None]), r"points\[0\] is None"),
        (lambda: MetricIndex({"a": 1}), "points is a dict"),
        (lambda: MetricIndex({"a", "b"}), "points is a set"),
        (lambda: MetricIndex(np.eye(3), 3), "metric=3"),
        (lambda: MetricIndex(np.eye(3), device=0), "device=0"),
        (lambda: index.query_radius([1, 2, 3], "x"), "radius='x'"),
        (lambda: index.query([1, 2, 3], k=1.5), "k=1.5"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    assert len(MetricIndex(word for word in ("a", "b"))) == 2


def test_corrupt_sparse_matrices():
    """scipy crashes on some of these matrices, so they are created in another process."""
    code = f"""
import sys; sys.path[:] = {sys.path!r}
import numpy as np, scipy.sparse as sp
from classify_knn import KNNTextClassifier, SparseNeighbors, top_k

def corrupt(kind, **arrays):
    matrix = getattr(sp, kind)(np.eye(4))
    for name, array in arrays.items():
        setattr(matrix, name, np.asarray(array))
    if kind != "coo_matrix":
        # scipy then does not check the indices before it uses them.
        vars(matrix).pop("_has_canonical_format", None)
    return matrix

big = 10**9
good = sp.csr_matrix(np.eye(4))
labels = ["a", "b", "a", "b"]
for kind in ("csr_matrix", "csc_matrix", "csr_array"):
    for arrays in (
        dict(indptr=[0, 3, 1, 4, 4]), dict(indptr=[0, big, 2, 3, 4]), dict(indptr=[1, 1, 2, 3, 4]),
        dict(indptr=[0, 1, 2, 3, big]), dict(indptr=[0, 1, 2]), dict(indptr=[0, -big, 2, 3, 4]),
        dict(indices=[0, 1, big, 3]), dict(indices=[0, -big, 2, 3]), dict(indices=[0, 1]),
        dict(data=[1.0, 1.0]),
    ):
        for call in (
            lambda x: KNNTextClassifier(tune=False).fit(x, labels),
            lambda x: KNNTextClassifier(tune=False).fit(good, x),
            lambda x: KNNTextClassifier(tune=False).fit(good, labels).predict(x),
            lambda x: SparseNeighbors().fit(x),
            lambda x: SparseNeighbors().fit(good).kneighbors(x),
            lambda x: top_k(x, good, 1),
            lambda x: top_k(good, x, 1),
        ):
            try:
                call(corrupt(kind, **arrays))
                print("accepted", kind, arrays, flush=True)
            except ValueError as error:
                assert "corrupt" in str(error), error
for arrays in (dict(row=[0, 1, 2, big]), dict(col=[0, 1, 2, -big]), dict(data=[1.0])):
    try:
        top_k(corrupt("coo_matrix", **arrays), good, 1)
        print("accepted", arrays, flush=True)
    except ValueError as error:
        assert "corrupt" in str(error), error
# Arrays may be longer than necessary.
long = corrupt("csr_matrix", indices=[0, 1, 2, 3, 7], data=[1.0, 1, 1, 1, 1])
assert (top_k(long, good, 1).toarray() == np.eye(4)).all()
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_thread_pools_do_not_accumulate():
    code = f"""
import sys; sys.path[:] = {sys.path!r}
import os, time
from classify_knn import TfidfVectorizer
before = len(os.listdir("/proc/self/task"))
for jobs in range(1, 25):
    TfidfVectorizer(n_jobs=jobs).fit(["bread and butter"] * 3)
last = time.monotonic() + 20
# At most four pools are kept, with at most 24 threads each.
while len(os.listdir("/proc/self/task")) - before > 96 and time.monotonic() < last:
    time.sleep(0.1)
print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 96


def test_one_thread_reads_many_documents():
    """Reading a corpus of several parts does not wait for a second thread."""
    code = f"""
import sys; sys.path[:] = {sys.path!r}
from classify_knn import TfidfVectorizer
print(TfidfVectorizer(n_jobs=1).fit_transform(["bread and butter"] * 30_000).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "(30000, 3)\n", done.stderr


def test_modules_import_names_that_exist():
    """Checks the source of the Spark module too, which cannot be imported without Spark."""
    folder = pathlib.Path(classify_knn.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and node.level == 1
                and node.module
                and node.module != "_native"
            ):
                imported = folder / f"{node.module}.py"
                assert {name.name for name in node.names} <= _defined(imported), path


def _defined(path):
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        for target in getattr(node, "targets", []):
            names.update(one.id for one in ast.walk(target) if isinstance(one, ast.Name))
    return names
