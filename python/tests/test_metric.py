"""Tests of MetricIndex against a direct computation."""

import numpy as np
import pytest

from classify_knn import MetricIndex, ModelError

KINDS = ["brute-force", "lc", "lc:16", "sss-index", "sss-tree", "egnat", "m-tree", "vp-tree", "auto"]


def direct_search(distances, k):
    order = np.lexsort((np.arange(len(distances)), distances))[:k]
    return order


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "minkowski:3", "angular", "hamming"])
@pytest.mark.parametrize("index", [*KINDS, "kd-tree"])
def test_vectors(metric, index):
    if index == "kd-tree" and metric in ("angular", "hamming"):
        pytest.skip("a KD-tree needs coordinates")
    random = np.random.default_rng(1)
    points = random.integers(0, 6, (300, 4)).astype(float) + 1
    queries = random.integers(0, 6, (20, 4)).astype(float) + 1
    built = MetricIndex(points, metric, index=index)
    brute = MetricIndex(points, metric, index="brute-force")
    distances, found = built.query_batch(queries, k=7)
    assert found.shape == (20, 7)
    expected_distances, expected = brute.query_batch(queries, k=7)
    assert (found == expected).all() and (distances == expected_distances).all()
    if metric in ("euclidean", "manhattan", "chebyshev"):
        power = {"euclidean": 2, "manhattan": 1, "chebyshev": np.inf}[metric]
        all_distances = np.linalg.norm(queries[:, None] - points[None], power, axis=2)
        assert [direct_search(row, 7).tolist() for row in all_distances] == found.tolist()
        within = built.query_batch(queries, radius=2.0)[1]
        assert [sorted(row.tolist()) for row in within] == [np.flatnonzero(row <= 2).tolist() for row in all_distances]
    assert built.query(queries[0], k=1_000)[1].shape == (300,)


def edit(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(before + (x != y), row[j] + 1, row[j - 1] + 1)
    return row[-1]


@pytest.mark.parametrize("index", KINDS)
def test_strings_and_functions(index):
    random = np.random.default_rng(2)
    words = ["".join(random.choice(list("abc"), random.integers(0, 7))) for _ in range(120)]
    built, by_function = MetricIndex(words, index=index), MetricIndex(words, edit, index=index)
    for query in ("", "abc", "cabba"):
        distances = [edit(query, word) for word in words]
        expected = direct_search(np.asarray(distances), 9).tolist()
        assert built.query(query, k=9)[1].tolist() == expected
        assert by_function.query(query, k=9)[1].tolist() == expected
        assert sorted(built.query_radius(query, 2)[1].tolist()) == [at for at, one in enumerate(distances) if one <= 2]


def test_sets():
    points = [{1, 2, 3}, {2, 3}, set(), {7}]
    distances, found = MetricIndex(points).query({2, 3}, k=4)
    assert found[:2].tolist() == [1, 0]
    assert distances[0] == 0 and np.isclose(distances[1], 1 / 3)


def test_files(tmp_path):
    path = tmp_path / "words.index"
    words = ["casa", "cosa", "pez"]
    MetricIndex(words, index="vp-tree").save(path)
    loaded = MetricIndex.load(path)
    assert (len(loaded), loaded.index, loaded.metric) == (3, "vp-tree", "edit")
    assert loaded.query("cas")[1].tolist() == [0]
    vectors = np.random.default_rng(3).random((200, 3))
    MetricIndex(vectors, "manhattan", index="kd-tree").save(path)
    assert MetricIndex.load(path).query(vectors[5])[1].tolist() == [5]
    with pytest.raises(ValueError, match="cannot store the function"):
        MetricIndex(words, edit).save(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError):
        MetricIndex.load(path)
    with pytest.raises(FileNotFoundError):
        MetricIndex.load(tmp_path / "none")


def test_a_function_that_raises():
    def broken(a, b):
        raise KeyError("no distance")

    with pytest.raises(KeyError, match="no distance"):
        MetricIndex(["a", "b"], broken, index="vp-tree").query("a")
    with pytest.raises(ValueError):
        MetricIndex(["a", "b", "c"], lambda a, b: -1.0).query("a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MetricIndex([]), "no points"),
        (lambda: MetricIndex("word"), "one string"),
        (lambda: MetricIndex(np.zeros(3)), "shape"),
        (lambda: MetricIndex(np.asarray([[1.0, np.nan]])), "point 0"),
        (lambda: MetricIndex(np.eye(3), "cosine"), "angular"),
        (lambda: MetricIndex(np.eye(3), index="ball-tree"), "index="),
        (lambda: MetricIndex(np.eye(3), "angular", index="kd-tree"), "coordinates|metric"),
        (lambda: MetricIndex(["a"], "euclidean"), "metric of strings"),
        (lambda: MetricIndex([{"x"}]), "integers"),
        (lambda: MetricIndex(np.eye(3)).query([1.0, 2.0]), "columns"),
        (lambda: MetricIndex(np.eye(3)).query([1.0, 2.0, 3.0], k=0), "k=0"),
        (lambda: MetricIndex(np.eye(3)).query_radius([1.0, 2.0, 3.0], -1), "radius"),
        (lambda: MetricIndex(np.eye(3)).query_batch(np.eye(3)), "either k or radius"),
        (lambda: MetricIndex(np.eye(3)).query("word"), "vectors of one length"),
        (lambda: MetricIndex(np.eye(3)).query_batch(["word", "two"], 1), "the queries are strings"),
        (lambda: MetricIndex(["a"]).query_batch(np.eye(3), 1), "vectors"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_threads_with_a_function():
    """An error is raised only in the call whose query caused it."""
    from concurrent.futures import ThreadPoolExecutor

    def distance(a, b):
        if "bad" in (a, b):
            raise KeyError("bad")
        return float(abs(len(a) - len(b)))

    index = MetricIndex(["a", "bb", "ccc"], distance, index="brute-force")

    def ask(query):
        try:
            return index.query(query)[1].tolist()
        except KeyError:
            return "raised"

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, ["dd", "bad"] * 50))
    assert answers == [[1], "raised"] * 50


def test_many_queries_to_a_function_can_be_interrupted():
    import os
    import signal
    import subprocess
    import sys
    import time

    code = """
import time
from classify_knn import MetricIndex
def slow(a, b):
    time.sleep(0.01)
    return abs(a - b)
index = MetricIndex(list(range(50)), slow, index="brute-force")
print("ready", flush=True)
try:
    index.query_batch(list(range(100)), 1)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "stopped\n"
    assert time.monotonic() - begin < 2
    process.wait()
