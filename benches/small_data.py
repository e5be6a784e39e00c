"""Measure small training sets: quality compared with linear classifiers, and expected metrics.

    cargo build --release && python benches/small_data.py [--only NAME,..] [--sizes 60,150,400] \\
        [--per-label 10,20,50] [--seeds N] [--jobs N] [--flags "--tune;--tune=votes"] CORPORA

For each corpus and seed, the script pools the training and test documents and draws a training set:
SIZES documents at random, or at most PER-LABEL documents of each label. At most 2,000 of the others
are the test set. The script compares `classify evaluate`, with each group of flags, with LinearSVC and
ComplementNB of scikit-learn on words and word pairs (log TF-IDF and unit length; the C or alpha is
chosen by cross-validation on the training set). It prints:

* the mean test micro F1 of each, which is the accuracy if documents have one label;
* the mean of the expected minus the test micro F1, and how often the test micro F1 is within the
  95 % interval of the expected one;
* CPU seconds.

Single-label corpora with more than 20 labels are measured per label only, multi-label corpora by
size only and without the rivals. Requires scikit-learn and zstandard.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import resource
import subprocess
import tempfile
import warnings
from collections import Counter, defaultdict

import linear  # Sets the number of threads before NumPy is imported.
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

warnings.filterwarnings("ignore")
MOST_TESTED = 2_000
MOST_LABELS = 20
GRIDS = {
    "LinearSVC": (LinearSVC(), {"C": linear.GRID}),
    "ComplementNB": (ComplementNB(), {"alpha": [0.01, 0.03, 0.1, 0.3, 1]}),
}


def corpora(folder):
    """Yield the name of each corpus and a function that loads its training and test documents."""

    def files(name, start=""):
        return [list(linear.jsonl(folder / name / f"{start}{part}.jsonl.zst")) for part in ("train", "test")]

    for name in ("lingala", "mag", "mr", "sms"):
        yield name, lambda name=name: files(name)
    yield "sections", lambda: files("debian", "sections-")
    yield "banking77", lambda: [list(linear.table(folder / "banking77" / f"{part}.csv")) for part in ("train", "test")]
    for count in (8, 52):
        yield f"r{count}", lambda count=count: linear.one_topic(*linear.reuters(folder / "reuters21578"), count)
    yield "modapte90", lambda: linear.reuters(folder / "reuters21578")
    yield "tags", lambda: files("debian", "tags-")


def split(documents, seed, size=None, per_label=None):
    """Return a training set of `size` documents, or of at most `per_label` documents of each label,
    and a test set of other documents."""
    documents = documents[:]
    random.Random(seed).shuffle(documents)
    if size:
        return documents[:size], documents[size:][:MOST_TESTED]
    seen = Counter()
    train, test = [], []
    for text, labels in documents:
        seen[labels[0]] += 1
        (train if seen[labels[0]] <= per_label else test).append((text, labels))
    return train, test[:MOST_TESTED]


def ours(program, train, test, flags):
    with tempfile.TemporaryDirectory() as room:
        for name, documents in (("train", train), ("test", test)):
            lines = (json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in documents)
            pathlib.Path(room, f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        command = [program, "evaluate", "--train", f"{room}/train.jsonl", "--test", f"{room}/test.jsonl"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command += [*flags.split(), "-q", "-j", "1", "--json", f"{room}/r.json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = json.load(open(f"{room}/r.json"))
    found = {"micro_f1": result["micro"]["f1"], "seconds": after.ru_utime - before.ru_utime}
    if "tuning" in result:
        tuning = linear.expected(result["tuning"])
        low, high = tuning["intervals"]["micro_f1"]
        found |= {"expected": tuning["figures"]["micro_f1"], "low": low, "high": high}
    return found


def rivals(train, test):
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), dtype=np.float32)
    rows = vectorizer.fit_transform([x for x, _ in train]), vectorizer.transform([x for x, _ in test])
    gold = [np.array([y[0] for _, y in part]) for part in (train, test)]
    results = {}
    for name, (model, grid) in GRIDS.items():
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        before = resource.getrusage(resource.RUSAGE_SELF)
        found = GridSearchCV(model, grid, cv=folds).fit(rows[0], gold[0]).predict(rows[1])
        seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before.ru_utime
        results[name] = {"micro_f1": accuracy_score(gold[1], found), "seconds": seconds}
    return results


def one_draw(program, train, test, flags, with_rivals):
    results = {f"classify {flag}".strip(): ours(program, train, test, flag) for flag in flags}
    return results | (rivals(train, test) if with_rivals else {})


def line_of(results):
    """Return the means of the results of one method, as a line of the table."""
    mean = lambda key: sum(result[key] for result in results) / len(results)
    line = f"{mean('micro_f1'):9.4f}"
    promises = [result for result in results if "expected" in result]
    if promises:
        difference = sum(result["expected"] - result["micro_f1"] for result in promises) / len(promises)
        within = sum(result["low"] <= result["micro_f1"] <= result["high"] for result in promises)
        line += f" {difference:16.4f} {within:4} of {len(promises):<4}"
    else:
        line += " " * 29
    return f"{line} {mean('seconds'):8.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",") if part]
    parser.add_argument("--program", default=linear.root / "target/release/classify")
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", type=numbers, default=[60, 150, 400])
    parser.add_argument("--per-label", type=numbers, default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=10, help="draws by size; half as many per label")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--flags", default=";--tune", help="groups of flags, separated by semicolons")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    flags = options.flags.split(";")
    print(f"{'corpus':10} {'documents':>13} {'':24} {'micro F1':>8} {'expected - test, within':>27} {'CPU s':>9}", flush=True)
    totals = defaultdict(list)
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        running = []
        for name, load in corpora(options.corpora):
            if only and name not in only:
                continue
            documents = sum(load(), [])
            draws = [("size", size) for size in options.sizes]
            is_single = all(len(labels) == 1 for _, labels in documents)
            if is_single and len({labels[0] for _, labels in documents}) > MOST_LABELS:
                draws = []
            if is_single:
                draws += [("per_label", number) for number in options.per_label]
            with_rivals = is_single and not options.ours_only
            for kind, number in draws:
                seeds = range(options.seeds if kind == "size" else (options.seeds + 1) // 2)
                parts = [split(documents, seed, **{kind: number}) for seed in seeds]
                jobs = [
                    pool.submit(one_draw, options.program, *part, flags, with_rivals)
                    for part in parts
                ]
                running.append((name, f"{number}{' per label' if kind == 'per_label' else ''}", jobs))
        for name, documents, jobs in running:
            results = [job.result() for job in jobs]
            for method in results[0]:
                of_method = [result[method] for result in results]
                totals[documents, method] += of_method
                print(f"{name:10} {documents:>13} {method:24} {line_of(of_method)}", flush=True)
    for (documents, method), results in totals.items():
        print(f"{'all':10} {documents:>13} {method:24} {line_of(results)}", flush=True)


if __name__ == "__main__":
    main()
