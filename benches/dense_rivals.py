"""Compare the speed of exact dense search on the CPU: classify, faiss and scikit-learn.

    python3 benches/dense_rivals.py K THREADS [TRAIN.npy QUERIES.npy ...]

The script prints the median time per query of five interleaved runs with the Euclidean distance.
Without files, it generates data (seed 0) and 1,000 additional vectors as queries: normal
100,000 x 300, uniform 50,000 x 8, and 120,000 x 20 around 300 centers. faiss uses IndexFlatL2;
scikit-learn uses the fastest of brute, kd_tree and ball_tree. Requires numpy, faiss-cpu,
scikit-learn and threadpoolctl.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

RUNS = 5


def made():
    random = np.random.default_rng(0)
    yield "normal 100,000 x 300", *[random.standard_normal((n, 300), np.float32) for n in (100_000, 1_000)]
    yield "uniform 50,000 x 8", *[random.random((n, 8), np.float32) for n in (50_000, 1_000)]
    centers = random.random((300, 20), np.float32)
    around = lambda n: centers[random.integers(300, size=n)] + 0.05 * random.standard_normal((n, 20), np.float32)
    yield "clustered 120,000 x 20", *[around(n).astype(np.float32) for n in (120_000, 1_000)]


def main(k, threads, *files):
    k, threads = int(k), int(threads)
    faiss.omp_set_num_threads(threads)
    pairs = zip(files[::2], files[1::2])
    given = ((train, np.load(train).astype(np.float32), np.load(queries).astype(np.float32)) for train, queries in pairs)
    print(f"k = {k}, {threads} thread(s), wall-clock microseconds per query, median of {RUNS}")
    for name, train, queries in given if files else made():
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, part) for part in ("train.npy", "queries.npy")]
            np.save(paths[0], train), np.save(paths[1], queries)
            command = ["cargo", "bench", "-q", "--bench", "dense", "--", *paths, "euclidean", str(k), "1"]
            engines = [f"auto/{threads}", f"brute-force/{threads}"]
            flat = faiss.IndexFlatL2(train.shape[1])
            flat.add(train)
            others = {a: NearestNeighbors(n_neighbors=k, algorithm=a, n_jobs=threads).fit(train)
                      for a in ("brute", "kd_tree", "ball_tree") if a == "brute" or train.shape[1] <= 32}
            times = {}
            for _ in range(RUNS):
                run = subprocess.run([*command, *engines], check=True, capture_output=True, text=True)
                for line in run.stdout.splitlines():
                    timing = json.loads(line)
                    times.setdefault("classify " + timing["engine"], []).append(timing["wall_us"])
                start = time.perf_counter()
                flat.search(queries, k)
                times.setdefault("faiss IndexFlatL2", []).append((time.perf_counter() - start) / len(queries) * 1e6)
                with threadpool_limits(threads):
                    for algorithm, index in others.items():
                        start = time.perf_counter()
                        index.kneighbors(queries)
                        spent = (time.perf_counter() - start) / len(queries) * 1e6
                        times.setdefault(f"scikit-learn {algorithm}", []).append(spent)
            medians = {engine: float(np.median(all)) for engine, all in times.items()}
            best = min(time for engine, time in medians.items() if not engine.startswith("classify"))
            print(f"\n{name}, {len(queries)} queries")
            for engine, median in medians.items():
                ratio = f"{best / median:6.2f} x the best rival" if engine.startswith("classify") else ""
                print(f"  {engine:34} {median:10.1f}  {ratio}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
