"""Tests that the program and the package give byte-identical models and the same predictions.

The tests use generated documents and, if CLASSIFY_CORPORA names their folder, four corpora.
CLASSIFY is the path of the program.
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from classify_knn import KNNTextClassifier, TfidfVectorizer

COMMAND = pathlib.Path(os.environ.get("CLASSIFY", pathlib.Path(__file__).parents[2] / "target" / "release" / "classify"))
CORPORA = os.environ.get("CLASSIFY_CORPORA")

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason="the command is not built: cargo build --release")


def run(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments), "-q"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(path):
    data = path.read_bytes()
    if path.suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        data = zstandard.ZstdDecompressor().stream_reader(data).read()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def same(train, test, folder, flags=(), **parameters):
    """Train and predict with the program and the package, and compare all results."""
    rows, queries = lines(train), lines(test)
    # As in the program: single-label, unless any document has more or fewer labels.
    single = all(len(row["labels"]) == 1 for row in rows)
    labels = [row["labels"][0] if single else row["labels"] for row in rows]
    run("train", train, "-o", folder / "command.model", *flags)
    ids = [row["id"] for row in rows] if "id" in rows[0] else None
    own = KNNTextClassifier(**parameters).fit([row["text"] for row in rows], labels, ids=ids)
    own.save(folder / "own.model")
    assert (folder / "own.model").read_bytes() == (folder / "command.model").read_bytes()
    said = [json.loads(line) for line in run("predict", folder / "command.model", test).splitlines()]
    expected = [[label["label"] if isinstance(label, dict) else label for label in one["labels"]] for one in said]
    texts = [query["text"] for query in queries]
    for model in (own, KNNTextClassifier.load(folder / "command.model")):
        predicted = model.predict(texts)
        assert [[label] if single else label for label in predicted] == expected
    confidence, reasons = own.predict_confidence(texts)
    assert reasons == [one.get("reason") or "" for one in said]
    if "confidence" in said[0]:
        assert confidence.tolist() == [one["confidence"] for one in said]


@pytest.fixture
def made_up(tmp_path, train, test):
    def write(name, documents):
        rows = [{"id": f"d{n}", "text": text, "labels": [label]} for n, (text, label) in enumerate(zip(*documents, strict=True))]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return write("train.jsonl", train), write("test.jsonl", test)


@pytest.mark.parametrize(
    ("flags", "parameters"),
    [
        ((), {}),
        (("-k", "7", "--vote", "exp:3"), {"n_neighbors": 7, "weights": "exp:3"}),
        (("--weighting", "sklearn", "--stop-words", "en"), {"weighting": "sklearn", "stop_words": "en"}),
        (("--stem", "english", "--word-ngrams", "1-2", "--min-df", "2"), {"stemmer": "english", "ngram_range": (1, 2), "min_df": 2}),
        (("--char-ngrams", "3-4", "--max-df", "50%"), {"char_ngram_range": (3, 4), "max_df": 0.5}),
        (("--features", "tfidf+lsa:8"), {"features": "tfidf+lsa:8"}),
        (("--select", "chi2:20", "--class-weight", "balanced"), {"select": "chi2:20", "class_weight": "balanced"}),
        (("--tune=votes", "--objective", "accuracy"), {"tune": "votes", "objective": "accuracy"}),
        (("--tune", "--abstain", "target-error=5%"), {"tune": True, "target_error": 0.05}),
    ],
)
def test_generated_documents(flags, parameters, made_up, tmp_path):
    same(*made_up, tmp_path, flags, **parameters)


def safetensors(path):
    """Return the arrays of a safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    types = {"U8": np.uint8, "U32": np.uint32, "U64": np.uint64, "F32": np.float32, "F64": np.float64}
    arrays = {name: info for name, info in header.items() if name != "__metadata__"}
    return {
        name: np.frombuffer(data[8 + size :][slice(*info["data_offsets"])], types[info["dtype"]]) for name, info in arrays.items()
    }


@pytest.mark.parametrize("weighting", ["ltc", "bm25", "sklearn", "Lsc"])
def test_rows(weighting, made_up, tmp_path):
    """The rows of the vectorizer equal the rows that the program writes."""
    train, test = made_up
    run("train", train, "-o", tmp_path / "a.model", "--weighting", weighting)
    run("vectorize", tmp_path / "a.model", test, "-o", tmp_path / "a.vectors")
    expected = safetensors(tmp_path / "a.vectors")
    vectorizer = TfidfVectorizer(weighting=weighting).fit([row["text"] for row in lines(train)])
    rows = vectorizer.transform_queries([row["text"] for row in lines(test)])
    assert (rows.indptr == expected["rows.indptr"]).all()
    assert (rows.indices == expected["rows.indices"]).all()
    assert (rows.data == expected["rows.data"]).all()


@pytest.mark.skipif(CORPORA is None, reason="CLASSIFY_CORPORA is not set")
@pytest.mark.parametrize("corpus", ["mr", "debian/sections-", "debian/tags-"])
def test_corpora(corpus, tmp_path):
    prefix = f"{CORPORA}/{corpus}" + ("" if corpus.endswith("-") else "/")
    same(pathlib.Path(f"{prefix}train.jsonl.zst"), pathlib.Path(f"{prefix}test.jsonl.zst"), tmp_path)


@pytest.mark.skipif(CORPORA is None, reason="CLASSIFY_CORPORA is not set")
def test_a_corpus_of_rows(tmp_path):
    """Compare svmlight files with the same rows as matrices, as weights and as counts."""
    from sklearn.datasets import load_svmlight_file

    train, test = (pathlib.Path(CORPORA) / "rcv1" / f"binary-{part}.svm" for part in ("train", "test"))
    rows, labels = load_svmlight_file(str(train), zero_based=True)
    queries, _ = load_svmlight_file(str(test), zero_based=True, n_features=rows.shape[1])
    run("train", train, "-o", tmp_path / "command.model")
    said = [json.loads(line)["labels"][0] for line in run("predict", tmp_path / "command.model", test).splitlines()]
    said = [label["label"] if isinstance(label, dict) else label for label in said]
    own = KNNTextClassifier().fit(rows, labels.astype(int))
    assert [str(label) for label in own.predict(queries)] == [label.removeprefix("+") for label in said]
    loaded = KNNTextClassifier.load(tmp_path / "command.model")
    # The file has no column names, so terms are column numbers.
    assert [label.removeprefix("+") for label in loaded.predict(queries)] == [str(label) for label in own.predict(queries)]
