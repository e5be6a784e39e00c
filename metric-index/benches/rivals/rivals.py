"""Measure Python libraries on the data that `src/main.rs` wrote: CPU time on one thread."""

import os

for variable in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]:
    os.environ[variable] = "1"

import importlib
import statistics
import sys
import time

RUNS = 5
K = 10


def module(name):
    """Return the module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def rate(queries, run):
    run()
    seconds = []
    for _ in range(RUNS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return len(queries) / statistics.median(seconds)


def report(name, rate, note=""):
    print(f"  {name:28} {rate:10.0f} queries/s{note}", flush=True)


def measure_vectors(folder, name, numpy):
    def read(path):
        with open(path, "rb") as file:
            dimension = int.from_bytes(file.read(4), "little")
            return numpy.frombuffer(file.read(), dtype="<f4").reshape(-1, dimension).copy()

    try:
        points = read(f"{folder}/{name}-points.f32")
        queries = read(f"{folder}/{name}-queries.f32")
    except FileNotFoundError:
        return
    print(f"{name}: {points.shape[0]} x {points.shape[1]}, {len(queries)} queries, k = {K}")
    if faiss := module("faiss"):
        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatL2(points.shape[1])
        flat.add(points)
        report("faiss IndexFlatL2", rate(queries, lambda: flat.search(queries, K)))
    if pynear := module("pynear"):
        tree = pynear.VPTreeL2Index()
        tree.set(points)
        report("pynear VPTreeL2Index", rate(queries, lambda: tree.searchKNN(queries, K)))
    if neighbors := module("sklearn.neighbors"):
        brute = neighbors.NearestNeighbors(
            n_neighbors=K, algorithm="brute", metric="euclidean", n_jobs=1
        )
        brute.fit(points)
        report("scikit-learn brute", rate(queries, lambda: brute.kneighbors(queries)))
    if points.shape[1] > 100:
        return
    trees = []
    if spatial := module("scipy.spatial"):
        trees.append(("cKDTree", lambda leaf: spatial.cKDTree(points, leafsize=leaf)))
    if neighbors:
        trees.append(("scikit-learn KDTree", lambda leaf: neighbors.KDTree(points, leaf_size=leaf)))
        trees.append(
            ("scikit-learn BallTree", lambda leaf: neighbors.BallTree(points, leaf_size=leaf))
        )
    for name, build in trees:
        best = (0, 0)
        for leaf in [8, 16, 32, 64]:
            built = build(leaf)
            best = max(best, (rate(queries, lambda: built.query(queries, k=K)), leaf))
        report(name, best[0], f" (leaf size {best[1]})")


def measure_words(folder):
    try:
        words = open(f"{folder}/words-points.txt").read().split("\n")
        queries = open(f"{folder}/words-queries.txt").read().split("\n")
    except FileNotFoundError:
        return
    if process := module("rapidfuzz.process"):
        from rapidfuzz.distance import Levenshtein

        print(f"words: {len(words)}, {len(queries)} queries, edit distance")
        for radius in [1, 2, 3]:
            found = []

            def run():
                distances = process.cdist(
                    queries,
                    words,
                    scorer=Levenshtein.distance,
                    score_cutoff=radius,
                    workers=1,
                )
                found[:] = [int((distances <= radius).sum())]

            best = rate(queries, run)
            report("rapidfuzz cdist", best, f", r = {radius}, {found[0]} words")


def main(folder, names):
    versions = []
    for name in ["numpy", "scipy", "sklearn", "faiss", "pynear", "rapidfuzz"]:
        found = module(name)
        if found:
            versions.append(f"{name} {getattr(found, '__version__', '')}".strip())
    print(", ".join(versions))
    numpy = module("numpy")
    for name in ["clustered", "t10k", "letter", "final8"]:
        if numpy and (name in names or not names):
            measure_vectors(folder, name, numpy)
    if "words" in names or not names:
        measure_words(folder)


main(sys.argv[1], sys.argv[2:])
