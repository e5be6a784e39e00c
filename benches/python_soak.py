"""Check that memory stays flat while a loop fits models and predicts.

    pip install ./python
    python benches/python_soak.py --rounds 100000
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp

from classify_knn import KNNTextClassifier, MetricIndex, top_k


def resident():
    """Return the resident memory in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100_000)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(500)]
    texts = [" ".join(random.choice(words, 12)) for _ in range(40)]
    labels = [f"label{row % 5}" for row in range(len(texts))]
    rows = sp.random(50, 30, density=0.2, format="csr", random_state=0)
    points = random.random((60, 4))
    begin, seen = time.monotonic(), []
    for number in range(arguments.rounds + 1):
        model = KNNTextClassifier(device="cpu", n_jobs=1 + number % 2).fit(texts, labels)
        model.predict(texts[:5])
        if number % 10 == 0:
            top_k(rows, rows, 3)
            MetricIndex(points).query_batch(points, 3)
            model.explain(texts[:1])
            try:
                model.predict([3])
            except ValueError:
                pass
        if number % (arguments.rounds // 10) == 0:
            seen.append(resident())
            print(f"{number:8} rounds, {time.monotonic() - begin:7.1f} s, {seen[-1]:8.1f} MiB", flush=True)
    print(f"from the first tenth to the end: {seen[-1] - seen[1]:+.1f} MiB")


main()
