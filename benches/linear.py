"""Compare `classify evaluate --tune` with LinearSVC and logistic regression of scikit-learn.

    cargo build --release && python benches/linear.py [--only NAME,..] [--jobs N] \\
        [--svm-only] [--rivals-only] CORPORA

CORPORA is the folder of corpora/README.md. Requires scikit-learn and zstandard. The features are
words and word pairs with log TF-IDF and unit length, or the given features unchanged. C is
chosen from .1, .3, 1, 3 and 10 by 3-fold cross-validation on the training documents. Single-label
corpora use accuracy. Multi-label corpora use one classifier per label, and each C maximizes F1 over
all decisions.

Both programs run on one thread. Seconds are CPU seconds and include reading, tuning and testing.
With --jobs, N scikit-learn models are fitted at a time. Their seconds are the sum of fitting and
scoring times, or N times the elapsed time for multi-label corpora.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

warnings.filterwarnings("ignore")
root = pathlib.Path(__file__).parent.parent
GRID = [0.1, 0.3, 1, 3, 10]


def jsonl(path):
    import io
    import zstandard

    with open(path, "rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8")
        for line in lines:
            document = json.loads(line)
            yield document["text"], document["labels"]


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        for record in csv.DictReader(file):
            yield record["text"], [record["category"]]


def reuters(folder):
    """Return the 90 labels of the ModApte split that have training and test documents."""
    splits = {"TRAIN": [], "TEST": []}
    for path in sorted(pathlib.Path(folder).glob("*.sgm")):
        for story in re.findall(r"<REUTERS.*?</REUTERS>", path.read_text("latin-1"), re.S):
            head = story[: story.index(">")]
            split = re.search(r'LEWISSPLIT="([\w-]+)"', head).group(1)
            if 'TOPICS="YES"' not in head or split not in splits:
                continue
            topics = re.findall(r"<D>(.*?)</D>", re.search(r"<TOPICS>(.*?)</TOPICS>", story, re.S).group(1))
            parts = [re.search(f"<{tag}>(.*?)</{tag}>", story, re.S) for tag in ("TITLE", "BODY")]
            text = "\n".join(part.group(1) for part in parts if part)
            splits[split].append((text, topics))
    labels = [{t for _, topics in splits[s] for t in topics} for s in splits]
    both = labels[0] & labels[1]
    keep = lambda found: [(x, [t for t in y if t in both]) for x, y in found if set(y) & both]
    return keep(splits["TRAIN"]), keep(splits["TEST"])


def one_topic(train, test, count=None):
    """Return R52 or R8: stories with exactly one topic, and the topics that occur in such training
    and test stories."""
    train, test = ([(x, y) for x, y in part if len(y) == 1] for part in (train, test))
    sizes = {}
    for _, [topic] in train:
        sizes[topic] = sizes.get(topic, 0) + 1
    there = {topic for _, [topic] in test}
    best = sorted((t for t in sizes if t in there), key=lambda t: -sizes[t])[:count]
    return [[(x, y) for x, y in part if y[0] in best] for part in (train, test)]


def fit(train, test, matrices=None, jobs=1, svm_only=False):
    """Return the metrics and CPU seconds of both classifiers: {name: (accuracy, micro F1, macro F1,
    seconds)}."""
    labels = MultiLabelBinarizer()
    start = time.process_time()
    if matrices is None:
        vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, dtype=np.float32)
        rows = vectorizer.fit_transform([x for x, _ in train]), vectorizer.transform([x for x, _ in test])
    else:
        rows = matrices
    gold = labels.fit_transform([y for _, y in train]), labels.transform([y for _, y in test])
    vectorizing = time.process_time() - start
    single = all(len(y) == 1 for _, y in train)
    results = {}
    models = [("LinearSVC", LinearSVC()), ("logistic regression", LogisticRegression(max_iter=300))]
    for name, model in models[: 1 if svm_only else 2]:
        start = time.process_time()
        if single:
            target = gold[0].argmax(1)
            grid = GridSearchCV(model, {"C": GRID}, cv=3, scoring="accuracy", n_jobs=jobs).fit(rows[0], target)
            found = np.zeros_like(gold[1])
            found[np.arange(len(found)), grid.predict(rows[1])] = 1
        else:
            begin = time.perf_counter()
            each = OneVsRestClassifier(model, n_jobs=jobs)
            grid = GridSearchCV(each, {"estimator__C": GRID}, cv=3, scoring="f1_micro")
            found = grid.fit(rows[0], gold[0]).predict(rows[1])
            passed = time.perf_counter() - begin
        metrics = [accuracy_score(gold[1], found)]
        metrics += [f1_score(gold[1], found, average=kind, zero_division=0) for kind in ("micro", "macro")]
        seconds = time.process_time() - start
        if jobs > 1 and not single:
            seconds = passed * jobs
        elif jobs > 1:
            times = grid.cv_results_["mean_fit_time"] + grid.cv_results_["mean_score_time"]
            seconds += 3 * times.sum()
        results[name] = (*metrics, vectorizing + seconds)
    return results


def expected(tuning):
    """Return the expected metrics and their intervals, from the result of tuning in a report."""
    return tuning.get("cross_validated") or tuning.get("with_near_duplicates") or tuning


def ours(arguments):
    with tempfile.TemporaryDirectory() as room:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [root / "target/release/classify", "evaluate", *map(str, arguments), "--tune", "-q", "-j", "1"]
        subprocess.run([*command, "--json", f"{room}/r.json"], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = json.load(open(f"{room}/r.json"))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result["subset_accuracy"], result["micro"]["f1"], result["macro"]["f1"], seconds


def svm(train, test, offset):
    parts = [load_svmlight_file(str(path), multilabel=True, zero_based=offset) for path in (train, test)]
    width = max(x.shape[1] for x, _ in parts)
    for x, _ in parts:
        x.resize(x.shape[0], width)
        x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)
    documents = [[("", [str(int(label)) for label in y]) for y in labels] for _, labels in parts]
    return documents, [x for x, _ in parts]


def corpora(folder):
    """Return names, loaders of the documents, and arguments of classify."""
    stories = []

    def topics(count=None):
        if not stories:
            stories.extend(reuters(folder / "reuters21578"))
        return one_topic(*stories, count) if count else stories

    def files(read, *names):
        return [list(read(folder / name)) for name in names]

    pair = lambda a, b: ["--train", folder / a, "--test", folder / b]
    for name, names in [
        ("mr", ("mr/train.jsonl.zst", "mr/test.jsonl.zst")),
        ("sections", ("debian/sections-train.jsonl.zst", "debian/sections-test.jsonl.zst")),
        ("tags", ("debian/tags-train.jsonl.zst", "debian/tags-test.jsonl.zst")),
    ]:
        yield name, lambda names=names: (*files(jsonl, *names), None), pair(*names)
    names = ("banking77/train.csv", "banking77/test.csv")
    yield "banking77", lambda: (*files(table, *names), None), pair(*names)
    yield "r8", lambda: (*topics(8), None), ["--preset", "r8", folder / "reuters21578"]
    yield "r52", lambda: (*topics(52), None), ["--preset", "r52", folder / "reuters21578"]
    yield "modapte90", lambda: (*topics(), None), ["--preset", "modapte90", folder / "reuters21578"]
    for name, a, b, offset in [
        ("enron", "enron/train.svm", "enron/test.svm", False),
        ("rcv1-sample", "rcv1/rcv1-sample1-train.svm", "rcv1/rcv1-sample1-test.svm", True),
        ("rcv1-binary", "rcv1/binary-train.svm", "rcv1/binary-test.svm", False),
    ]:
        def get(a=a, b=b, offset=offset):
            documents, matrices = svm(folder / a, folder / b, offset)
            return (*documents, matrices)

        yield name, get, pair(a, b) + (["--first-column", "0"] if offset else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--svm-only", action="store_true", help="skip logistic regression, which takes hours for many labels")
    parser.add_argument("--rivals-only", action="store_true", help="skip `classify`")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    print(f"{'corpus':12} {'':20} {'accuracy':>9} {'micro F1':>9} {'macro F1':>9} {'CPU s':>8}", flush=True)
    for name, get, arguments in corpora(options.corpora):
        if only and name not in only:
            continue
        rows = {} if options.rivals_only else {"classify --tune": ours(arguments)}
        train, test, matrices = get()
        rows |= fit(train, test, matrices, options.jobs, options.svm_only)
        for method, (accuracy, micro, macro, seconds) in rows.items():
            print(f"{name:12} {method:20} {accuracy:9.4f} {micro:9.4f} {macro:9.4f} {seconds:8.1f}", flush=True)


if __name__ == "__main__":
    main()
