"""Compare predictions on dense vectors with scikit-learn's KNeighborsClassifier.

    python3 benches/dense_agreement.py t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz

The script trains `target/release/classify` on the first 6,000 images of the MNIST test set and
predicts the others. scikit-learn searches by brute force in 64 bits. It votes once uniformly, and
once with the weights of classify. Differences are allowed in two cases:

* Labels have equal votes. scikit-learn then returns the first label, and classify returns the label
  of the nearest neighbor.
* The k-th neighbor and the next one have the same distance.

Other differences are errors (exit code 1). Requires numpy and scikit-learn.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

CLASSIFY = os.environ.get("CLASSIFY", "target/release/classify")
TRAINING = 6_000


def run(*arguments):
    return subprocess.run([CLASSIFY, *arguments], check=True, capture_output=True, text=True).stdout


def main(images, labels):
    x = np.frombuffer(gzip.open(images).read()[16:], np.uint8).reshape(-1, 784).astype(np.float32)
    y = np.frombuffer(gzip.open(labels).read()[8:], np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        sides = {"train": slice(None, TRAINING), "test": slice(TRAINING, None)}
        for side, rows in sides.items():
            np.save(at(f"{side}.npy"), x[rows])
            with open(at(f"{side}.jsonl"), "w") as file:
                file.writelines(json.dumps({"label": str(label)}) + "\n" for label in y[rows])
        train, test = x[:TRAINING].astype(np.float64), x[TRAINING:].astype(np.float64)
        gold, unexplained = y[TRAINING:], 0
        for metric, theirs in [("angular", "cosine"), ("euclidean", "euclidean"), ("manhattan", "manhattan")]:
            for k in [1, 5, 10]:
                for vote in ["uniform", "similarity"]:
                    run("train", at("train.jsonl"), "--vectors", at("train.npy"), "--metric", metric,
                        "-k", str(k), "--vote", vote, "-o", at("model"), "-q")
                    settings = json.loads(run("info", at("model"), "--json"))
                    scale = settings["dense"]["scale"]
                    of_distance = (lambda d: 1 - d) if metric == "angular" else (lambda d: scale / (scale + d))
                    weights = "uniform" if vote == "uniform" else of_distance
                    answers = run("predict", at("model"), at("test.jsonl"), "--vectors", at("test.npy"), "-q")
                    ours = np.array([int(json.loads(line)["labels"][0]) for line in answers.splitlines()])
                    sklearn = KNeighborsClassifier(k, metric=theirs, algorithm="brute", weights=weights)
                    sklearn.fit(train, y[:TRAINING])
                    other = sklearn.predict(test)
                    differ = np.flatnonzero(ours != other)
                    explained = 0
                    if len(differ):
                        distances, rows = sklearn.kneighbors(test[differ], k + 1)
                        for distance, row in zip(distances, rows):
                            votes = np.bincount(y[row[:k]], minlength=10)
                            equal_votes = vote == "uniform" and (votes == votes.max()).sum() > 1
                            equal_distances = distance[k] - distance[k - 1] <= 1e-6 * distance[k]
                            explained += bool(equal_votes or equal_distances)
                    unexplained += len(differ) - explained
                    print(f"{metric:10} k = {k:<3} {vote:11} accuracy {np.mean(ours == gold):.4f}, "
                          f"scikit-learn {np.mean(other == gold):.4f}; {len(ours) - len(differ)} of {len(ours)} equal, "
                          f"{explained} of the other {len(differ)} are ties", flush=True)


    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
