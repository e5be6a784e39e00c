"""Measures how well `classify check` finds wrong labels of documents with several labels, next to
cleanlab.

For a share of the documents, one label is replaced by one that the document does not have: by any
(uniform), or by the one that is most probable for it (confused). Both programs rank the documents by
suspicion. cleanlab gets out-of-fold probabilities of one logistic regression per label on TF-IDF (five
folds), and ranks them in all of its ways for several labels, of which the best one counts. Labels with
fewer than 100 documents are left out.

    python benches/label_errors_multi.py --classify target/release/classify --corpus tags-train.jsonl.zst

Needs scikit-learn and cleanlab. Prints average precision, precision at the number of changed documents,
and CPU seconds.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile

import numpy as np
from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from label_errors import cpu_seconds, quality
from linear import jsonl

MIN_DOCUMENTS = 100


def out_of_fold(rows, given, cost):
    """Return out-of-fold probabilities of each label: documents × labels."""
    model = OneVsRestClassifier(LogisticRegression(C=cost, solver="liblinear"), n_jobs=os.cpu_count())
    folds = KFold(5, shuffle=True, random_state=0)
    # liblinear cannot read arrays that processes share.
    with parallel_config(backend="loky", max_nbytes=None):
        found = cross_val_predict(model, rows, given, cv=folds, method="predict_proba")
    # The time of the processes counts when they have ended.
    get_reusable_executor().shutdown(wait=True)
    return found


def with_noise(given, rate, probable, seed):
    """Return the labels after replacing one label of some documents, and which were changed."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(given), int(rate * len(given)), replace=False)
    noisy = given.copy()
    for at in chosen:
        absent = np.flatnonzero(given[at] == 0)
        new = random.choice(absent) if probable is None else absent[probable[at][absent].argmax()]
        noisy[at, random.choice(np.flatnonzero(given[at]))] = 0
        noisy[at, new] = 1
    return noisy, (noisy != given).any(1)


def by_classify(program, texts, given, names):
    """Return the suspicion of each document, and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder) / "corpus.jsonl"
        lines = [json.dumps({"id": str(at), "text": text, "labels": [names[one] for one in np.flatnonzero(own)]})
                 for at, (text, own) in enumerate(zip(texts, given))]
        corpus.write_text("\n".join(lines) + "\n")
        found = pathlib.Path(folder) / "found.jsonl"
        start = cpu_seconds(resource.RUSAGE_CHILDREN)
        command = [program, "check", corpus, "--min-probability", "0%", "-o", found, "-q"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = cpu_seconds(resource.RUSAGE_CHILDREN) - start
        suspicion = np.full(len(texts), -np.inf)
        for rank, line in enumerate(found.open()):
            at = int(json.loads(line)["id"])
            suspicion[at] = max(suspicion[at], -rank)
    listed = np.isfinite(suspicion)
    suspicion[~listed] = suspicion[listed].min() - 1
    return suspicion, seconds


def by_cleanlab(texts, given):
    """Return the suspicion of each document in cleanlab's ways, and CPU seconds."""
    from cleanlab.multilabel_classification import get_label_quality_scores

    before = cpu_seconds(resource.RUSAGE_SELF) + cpu_seconds(resource.RUSAGE_CHILDREN)
    rows = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
    probabilities = out_of_fold(rows, given, 10.0)
    labels = [list(np.flatnonzero(own)) for own in given]
    ways = [(method, aggregated) for method in ["self_confidence", "normalized_margin"]
            for aggregated in ["exponential_moving_average", "softmin"]]
    found = [-get_label_quality_scores(labels, probabilities, method=method,
                                       aggregator_kwargs={"method": aggregated}) for method, aggregated in ways]
    return found, cpu_seconds(resource.RUSAGE_SELF) + cpu_seconds(resource.RUSAGE_CHILDREN) - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classify", default="target/release/classify")
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--kinds", default="uniform,confused")
    parser.add_argument("--rates", default="0.1,0.2")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    options = parser.parse_args()
    pairs = list(jsonl(options.corpus))
    sizes = {}
    for _, labels in pairs:
        for label in labels:
            sizes[label] = sizes.get(label, 0) + 1
    names = sorted(label for label, size in sizes.items() if size >= MIN_DOCUMENTS)
    number = {name: at for at, name in enumerate(names)}
    pairs = [(text, own) for text, labels in pairs if (own := [number[one] for one in labels if one in number])]
    texts = [text for text, _ in pairs]
    given = np.zeros((len(pairs), len(names)), int)
    for at, (_, own) in enumerate(pairs):
        given[at, own] = 1
    print(f"{len(texts)} documents, {len(names)} labels, {given.sum() / len(texts):.2f} per document", flush=True)
    print("noise          seed  classify: AP  P@n    seconds    cleanlab: AP  P@n    seconds")
    for kind in options.kinds.split(","):
        rows = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
        probable = out_of_fold(rows, given, 1.0) if kind == "confused" else None
        for rate in map(float, options.rates.split(",")):
            for seed in map(int, options.seeds.split(",")):
                noisy, wrong = with_noise(given, rate, probable, seed)
                suspicion, seconds = by_classify(options.classify, texts, noisy, names)
                ours = quality(wrong, suspicion)
                found, theirs = by_cleanlab(texts, noisy)
                best = max(quality(wrong, way) for way in found)
                print(f"{rate:.0%} {kind:9} {seed:4}        {ours[0]:.4f} {ours[1]:.4f} {seconds:7.1f}"
                      f"        {best[0]:.4f} {best[1]:.4f} {theirs:7.1f}", flush=True)


if __name__ == "__main__":
    main()
