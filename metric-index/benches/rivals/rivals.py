"""scikit-learn and faiss on the vectors that `cargo bench -p metric-index --bench rivals` wrote: one thread."""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import statistics
import sys
import time

import faiss
import numpy
import sklearn
from sklearn.neighbors import BallTree, KDTree, NearestNeighbors

RUNS = 3
K = 10


def read(path):
    with open(path, "rb") as file:
        dimension = int.from_bytes(file.read(4), "little")
        return numpy.frombuffer(file.read(), dtype="<f4").reshape(-1, dimension).copy()


def rate(queries, run):
    run()
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return len(queries) / statistics.median(seconds)


def main(folder):
    faiss.omp_set_num_threads(1)
    print(f"scikit-learn {sklearn.__version__}, faiss {faiss.__version__}, numpy {numpy.__version__}")
    for name in ["clustered", "t10k", "letter", "final8"]:
        try:
            points, queries = read(f"{folder}/{name}-points.f32"), read(f"{folder}/{name}-queries.f32")
        except FileNotFoundError:
            continue
        print(f"{name}: {points.shape[0]} x {points.shape[1]}, {len(queries)} queries, k = {K}")
        flat = faiss.IndexFlatL2(points.shape[1])
        flat.add(points)
        print(f"  faiss IndexFlatL2      {rate(queries, lambda: flat.search(queries, K)):10.0f} queries/s")
        brute = NearestNeighbors(n_neighbors=K, algorithm="brute", metric="euclidean", n_jobs=1).fit(points)
        print(f"  scikit-learn brute     {rate(queries, lambda: brute.kneighbors(queries)):10.0f} queries/s")
        if points.shape[1] > 100:
            continue
        for tree in [KDTree, BallTree]:
            best = (0, 0)
            for leaf in [10, 20, 40, 80]:
                built = tree(points, leaf_size=leaf)
                best = max(best, (rate(queries, lambda: built.query(queries, k=K)), leaf))
            print(f"  scikit-learn {tree.__name__:9} {best[0]:10.0f} queries/s (leaf_size {best[1]})")


main(sys.argv[1])
