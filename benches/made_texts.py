"""Generate texts of 260 made-up, Zipf-distributed words as JSONL.

    python3 benches/made_texts.py FILE TEXTS PROCESSES     (requires numpy)

The processes use the seeds 1, 2, ...; TEXTS must be a multiple of PROCESSES.
"""

import multiprocessing
import os
import sys

import numpy as np

WORDS = 200_000


def vocabulary():
    random = np.random.default_rng(0)
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
    lengths = random.choice([1, 2, 3, 4], WORDS, p=[0.1, 0.35, 0.35, 0.2])
    # Frequent words are short.
    lengths[:400] = random.choice([1, 2], 400)
    return [
        "".join(syllables[i] for i in random.integers(0, len(syllables), length)) + ("" if rank % 3 else "n")
        for rank, length in enumerate(lengths)
    ]


def write_part(job):
    path, seed, texts = job
    random = np.random.default_rng(seed)
    words = vocabulary()
    shares = 1 / np.arange(1.0, WORDS + 1) ** 1.05
    cumulated = np.cumsum(shares) / shares.sum()
    with open(path, "w") as file:
        for first in range(0, texts, 1000):
            drawn = np.searchsorted(cumulated, random.random((min(1000, texts - first), 260)))
            for number, row in enumerate(drawn.tolist(), first):
                text = " ".join([words[rank] for rank in row])
                file.write('{"id": "%d-%d", "label": "l%d", "text": "%s"}\n' % (seed, number, row[0] % 40, text))


if __name__ == "__main__":
    out, texts, processes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jobs = [(f"{out}.{part}", part + 1, texts // processes) for part in range(processes)]
    with multiprocessing.Pool(processes) as pool:
        pool.map(write_part, jobs)
    with open(out, "wb") as file:
        for path, _, _ in jobs:
            with open(path, "rb") as part:
                file.write(part.read())
            os.remove(path)
