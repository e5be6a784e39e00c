"""Generate large files of dense vectors with labels for `classify evaluate`.

    python3 benches/dense_large.py 1000000 100000 300 FOLDER
    classify evaluate --train FOLDER/train.jsonl --train-vectors FOLDER/train.npy \\
        --test FOLDER/test.jsonl --vectors FOLDER/test.npy --features dense -k 10 --device cuda
"""
import sys

import numpy as np


def main():
    training, test, dimension, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    random = np.random.default_rng(1)
    centers = random.standard_normal((50, dimension), dtype=np.float32)
    for name, count in (("train", training), ("test", test)):
        labels = random.integers(0, 50, count)
        shape = (count, dimension)
        rows = np.lib.format.open_memmap(f"{folder}/{name}.npy", mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, count, 100_000):
            part = labels[start : start + 100_000]
            noise = random.standard_normal((len(part), dimension), dtype=np.float32)
            rows[start : start + len(part)] = centers[part] + 2 * noise
        with open(f"{folder}/{name}.jsonl", "w") as lines:
            lines.writelines(f'{{"label":"c{label}"}}\n' for label in labels)


main()
