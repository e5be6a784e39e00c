"""Compare the Python package with scikit-learn and sparse_dot_topn in one run.

    pip install ./python sparse-dot-topn zstandard
    python benches/python_rivals.py neighbors MADE            # rows like RCV1 (classify generate), one thread each
    python benches/python_rivals.py neighbors MADE --large --queries 500 --runs 3
    python benches/python_rivals.py neighbors CORPORA/debian  # the sections of Debian packages
    python benches/python_rivals.py classifiers CORPORA/debian
    python benches/python_rivals.py overhead

Times are medians of alternating runs. CPU times are measured for the whole process.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import time

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_files

from classify_knn import KNNTextClassifier, MetricIndex, SparseNeighbors, TfidfVectorizer, top_k


def lines(path):
    import zstandard

    with open(path, "rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    return [json.loads(line) for line in text.split("\n") if line]


def timed(calls, runs):
    """Return the median seconds of each call; the calls alternate."""
    seconds = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(of) for name, of in seconds.items()}


def sections(folder):
    train, test = (lines(folder / f"sections-{part}.jsonl.zst") for part in ("train", "test"))
    return [([row["text"] for row in rows], [row["labels"][0] for row in rows]) for rows in (train, test)]


def rows_of(arguments):
    """Return the rows and queries of a text corpus or of a generated corpus."""
    folder = arguments.path
    if (folder / "sections-train.jsonl.zst").exists():
        (train, _), (test, _) = sections(folder)
        vectorizer = TfidfVectorizer().fit(train)
        return vectorizer.transform(train), vectorizer.transform(test)
    names = ["train", "test_pt0", *(["test_pt1", "test_pt2", "test_pt3"] if arguments.large else [])]
    files = [str(folder / f"lyrl2004_vectors_{name}.dat") for name in names]
    train, first, *others = load_svmlight_files(files, zero_based=True, dtype=np.float32)[::2]
    if not arguments.large:
        return train, first
    return sp.vstack([train, first[arguments.queries :], *others], format="csr"), first


def neighbors(arguments):
    rows, queries = rows_of(arguments)
    queries = queries[: arguments.queries]
    print(f"{rows.shape[0]} rows, {queries.shape[0]} queries, {rows.shape[1]} columns, {rows.nnz / rows.shape[0]:.0f} a row, k = {arguments.k}, {arguments.jobs} threads")
    k, jobs = arguments.k, arguments.jobs
    own = SparseNeighbors(n_neighbors=k, n_jobs=jobs, device="cpu").fit(rows)
    calls = {
        "SparseNeighbors.kneighbors": lambda: own.kneighbors(queries),
        "top_k (with its index)": lambda: top_k(queries, rows, k, n_jobs=jobs, device="cpu"),
    }
    try:
        from sparse_dot_topn import sp_matmul_topn

        transposed = rows.T.tocsr()
        calls["sparse_dot_topn.sp_matmul_topn"] = lambda: sp_matmul_topn(queries, transposed, top_n=k, sort=True, n_threads=jobs)
    except ImportError:
        print("sparse_dot_topn is not installed")
    found = timed(calls, arguments.runs)
    from sklearn.neighbors import NearestNeighbors

    # scikit-learn is so slow that only some of the queries are measured.
    some = queries[: max(1, queries.shape[0] // 10)]
    brute = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute", n_jobs=jobs).fit(rows)
    part = timed({"brute": lambda: brute.kneighbors(some)}, 1)["brute"]
    found["sklearn NearestNeighbors(metric='cosine')"] = part * queries.shape[0] / some.shape[0]
    best = found["SparseNeighbors.kneighbors"]
    for name, seconds in found.items():
        print(f"{name:45} {seconds:8.3f} s {seconds / queries.shape[0] * 1e6:9.1f} us per query {seconds / best:6.2f} x")


def classifiers(arguments):
    from sklearn.feature_extraction.text import TfidfVectorizer as SklearnVectorizer
    from sklearn.naive_bayes import ComplementNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    (train, labels), (test, expected) = sections(arguments.path)
    models = {
        "KNNTextClassifier()": KNNTextClassifier(device="cpu"),
        "TfidfVectorizer + KNeighborsClassifier(30, cosine, distance)": make_pipeline(
            SklearnVectorizer(sublinear_tf=True), KNeighborsClassifier(30, metric="cosine", weights="distance", n_jobs=-1)
        ),
        "TfidfVectorizer + LinearSVC()": make_pipeline(SklearnVectorizer(sublinear_tf=True), LinearSVC()),
        "TfidfVectorizer + ComplementNB()": make_pipeline(SklearnVectorizer(sublinear_tf=True), ComplementNB()),
    }
    if arguments.tune:
        models["KNNTextClassifier(tune=True)"] = KNNTextClassifier(tune=True, device="cpu")
    print(f"{len(train)} documents, {len(test)} to predict, {len(set(labels))} labels")
    for name, model in models.items():
        begin = time.perf_counter()
        model.fit(train, labels)
        fitted = time.perf_counter()
        predicted = model.predict(test)
        ended = time.perf_counter()
        right = np.mean(np.asarray(predicted, dtype=str) == np.asarray(expected))
        print(f"{name:62} fit {fitted - begin:7.2f} s, predict {ended - fitted:7.2f} s, accuracy {right:.4f}")


def overhead(arguments):
    """Measure the overhead of Python in calls with little work and in batches."""
    rows = sp.random(100, 50, density=0.1, format="csr", random_state=0, dtype=np.float32)
    one = rows[:1]
    native = SparseNeighbors(device="cpu").fit(rows)
    from classify_knn._inputs import csr_arrays

    arrays = csr_arrays(one)
    texts = KNNTextClassifier(device="cpu").fit(["bread", "guitar"], ["a", "b"])
    points = MetricIndex(np.eye(4))
    query = np.zeros((1, 4), dtype=np.float32)
    pairs = {
        "SparseNeighbors.kneighbors of one row": (lambda: native._rows.kneighbors(arrays, 5), lambda: native.kneighbors(one)),
        "KNNTextClassifier.predict of one text": (lambda: texts._model.classify(["bread"]), lambda: texts.predict(["bread"])),
        "MetricIndex.query_batch of one vector": (lambda: points._index.nearest(query, 1), lambda: points.query_batch(query, 1)),
    }
    for name, (compiled, whole) in pairs.items():
        times = timed({"compiled": compiled, "whole": whole}, 5_000)
        inner, outer = times["compiled"] * 1e6, times["whole"] * 1e6
        print(f"{name:40} {outer:7.1f} us, of which {inner:6.1f} in the compiled part and {outer - inner:5.1f} in Python")
    # Batches: 4,000 queries on 20,000 rows of about 50 entries, and 4,000 texts of 50 words on 10,000.
    draw = np.random.default_rng(0)
    rows = sp.random(20_000, 20_000, density=0.0025, format="csr", random_state=0, dtype=np.float32)
    native = SparseNeighbors(device="cpu", n_jobs=1).fit(rows)
    batch = rows[:4_000]
    arrays = csr_arrays(batch)
    made = [" ".join(f"w{word}" for word in draw.zipf(1.3, 50) % 20_000) for _ in range(10_000)]
    texts = KNNTextClassifier(device="cpu", n_jobs=1, tune=False).fit(made, [str(number % 20) for number in range(10_000)])
    asked = made[:4_000]
    pairs = {
        "SparseNeighbors.kneighbors of 4,000 rows": (lambda: native._rows.kneighbors(arrays, 10), lambda: native.kneighbors(batch, 10)),
        "KNNTextClassifier.predict of 4,000 texts": (lambda: texts._model.classify(asked), lambda: texts.predict(asked)),
    }
    for name, (compiled, whole) in pairs.items():
        times = timed({"compiled": compiled, "whole": whole}, 31)
        inner, outer = times["compiled"] * 1e3, times["whole"] * 1e3
        print(f"{name:40} {outer:7.1f} ms, of which {inner:6.1f} in the compiled part: {100 * (outer / inner - 1):.1f} % in Python")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("neighbors", neighbors), ("classifiers", classifiers), ("overhead", overhead)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        if name != "overhead":
            command.add_argument("path", type=pathlib.Path)
        command.add_argument("--k", type=int, default=10)
        command.add_argument("--jobs", type=int, default=1)
        command.add_argument("--runs", type=int, default=5)
        command.add_argument("--queries", type=int, default=5_000)
        command.add_argument("--tune", action="store_true")
        command.add_argument("--large", action="store_true", help="search all parts of the generated corpus")
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}")
    arguments.run(arguments)


main()
