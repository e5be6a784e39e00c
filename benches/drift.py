"""Measures `classify check --against`: false alarms, power, and the accuracy that it expects.

No drift: each corpus is split at random, 20 times; the share of splits in which a difference is
reported should be at most 5 %. Drift: the later news of Reuters-21578, test sets that were collected
apart, the longest documents against the others, and documents without the most frequent label.

    python benches/drift.py --classify target/release/classify --corpora CORPORA

Needs scikit-learn. Prints tables: the AUROC and the p-value, next to the cross-validated AUROC of
logistic regression on TF-IDF; and the share of right labels before (expected for the corpus),
expected and found.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from linear import jsonl, one_topic, reuters, table

SPLITS = 20
SIZE = 2000


def corpora(folder):
    """Return the training and test documents of each corpus: {name: ([(text, label)], …)}."""

    def single(documents):
        return [(text, labels[0]) for text, labels in documents]

    def both(read, name, ending):
        return [single(read(folder / f"{name}-{part}.{ending}")) for part in ("train", "test")]

    return {
        "banking77": lambda: [single(table(folder / f"banking77/{part}.csv")) for part in ("train", "test")],
        "r52": lambda: [single(part) for part in one_topic(*reuters(folder / "reuters21578"))],
        "mag": lambda: [single(jsonl(folder / f"mag/{part}.jsonl.zst")) for part in ("train", "test")],
        "mr": lambda: [single(jsonl(folder / f"mr/{part}.jsonl.zst")) for part in ("train", "test")],
        "sections": lambda: both(jsonl, "debian/sections", "jsonl.zst"),
    }


def compare(program, first, second):
    """Return what `classify check` finds about two lists of documents."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, documents in (("first", first), ("second", second)):
            lines = (json.dumps({"text": text, "labels": [label]}) for text, label in documents)
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        command = [program, "check", folder / "first.jsonl", "--against", folder / "second.jsonl"]
        subprocess.run([*command, "-q", "--json", folder / "found.json"], check=True, stdout=subprocess.DEVNULL)
        return json.loads((folder / "found.json").read_text())["drift"]


def linear_auroc(first, second):
    rows = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform([text for text, _ in first + second])
    origin = np.repeat([0, 1], [len(first), len(second)])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_predict(LogisticRegression(max_iter=300), rows, origin, cv=folds, method="decision_function")
    return roc_auc_score(origin, scores)


def shuffled(documents, seed):
    order = np.random.default_rng(seed).permutation(len(documents))
    return [documents[at] for at in order]


def drifts(train, test):
    """Return pairs of document lists with a difference: {name: (first, second)}."""
    train = shuffled(train, 0)
    half = len(train) // 2
    first, second = train[:half], train[half:]
    median = np.median([len(text) for text, _ in second])
    labels = [label for _, label in train]
    frequent = max(set(labels), key=labels.count)
    return {
        "test set": (train, test),
        "long documents": (first, [pair for pair in second if len(pair[0]) > median]),
        "a label is gone": (first, [pair for pair in second if pair[1] != frequent]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classify", default="target/release/classify")
    parser.add_argument("--corpora", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="banking77,r52,mag,mr,sections")
    options = parser.parse_args()
    read = {name: corpora(options.corpora)[name]() for name in options.only.split(",")}
    print(f"no drift: {SPLITS} random splits, {SIZE} documents in each half")
    alarms = 0
    for name, (train, _) in read.items():
        found = []
        for seed in range(SPLITS):
            documents = shuffled(train, seed)
            half = min(SIZE, len(documents) // 2)
            found.append(compare(options.classify, documents[:half], documents[half : 2 * half])["test"])
        reported = sum(test["p_value"] <= 0.05 for test in found)
        alarms += reported
        aurocs = [test["auroc"] for test in found]
        print(f"{name:10} {reported:2} of {SPLITS} reported; AUROC {min(aurocs):.3f} to {max(aurocs):.3f}", flush=True)
    print(f"all        {alarms} of {SPLITS * len(read)} reported\n")
    print("corpus     drift            documents      AUROC  p      linear AUROC  right labels: before  expected  found")
    for name, (train, test) in read.items():
        for kind, (first, second) in drifts(train, test).items():
            found = compare(options.classify, first, second)
            right = {key: "–" if value is None else f"{value:.3f}" for key, value in found["right_labels"].items()}
            sizes = f"{len(first)} / {len(second)}"
            print(
                f"{name:10} {kind:16} {sizes:14} {found['test']['auroc']:.3f}  {found['test']['p_value']:.3f}"
                f"  {linear_auroc(first, second):.3f}         "
                f"              {right['before']}   {right['expected']}     {right['found']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
