"""Compares the ways of `classify bench active` with the query strategies of small-text.

Labeling is simulated on corpora whose labels are known: 50 random documents at first, then 100 per
round. `classify bench active` chooses them at random, by margin, and as `classify next` does. The
strategies of small-text get the same classifier (the Python package, with the default settings),
the same documents at first, and the probabilities of the classifier. Strategies that need vectors
get LSA rows of 100 dimensions.

    python benches/active_rivals.py --classify target/release/classify --corpora CORPORA

Needs the Python package of this repository, small-text, scikit-learn and zstandard. Prints three
metrics for each way: the area under the learning curve (the mean micro F1 over all rounds), its
difference from the area of `next`, and the last micro F1. They are means over the seeds with 95 %
intervals (Student's t). Seconds are wall-clock time per simulation. With `--jobs`, `classify` uses
N threads, and N simulations of small-text run concurrently on one thread each.
"""

import argparse
import json
import pathlib
import subprocess
import time
import warnings

from linear import jsonl, table  # first: it limits BLAS to one thread

import numpy as np
import small_text
from joblib import Parallel, delayed
from scipy import stats
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from classify_knn import KNNTextClassifier

START, BATCH = 50, 100
FILES = {
    "banking77": ("banking77/train.csv", "banking77/test.csv"),
    "mr": ("mr/train.jsonl.zst", "mr/test.jsonl.zst"),
    "mag": ("mag/train.jsonl.zst", "mag/test.jsonl.zst"),
    "sections": ("debian/sections-train.jsonl.zst", "debian/sections-test.jsonl.zst"),
}
STRATEGIES = {
    "RandomSampling": small_text.RandomSampling,
    "BreakingTies": small_text.BreakingTies,
    "LeastConfidence": small_text.LeastConfidence,
    "PredictionEntropy": small_text.PredictionEntropy,
    "EmbeddingKMeans": small_text.EmbeddingKMeans,
    "ContrastiveActiveLearning": lambda: small_text.ContrastiveActiveLearning(pbar=None),
}
MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


class Corpus:
    """Training and test documents, with LSA rows of the training documents."""

    def __init__(self, folder, files):
        train, test = (
            [(text, labels[0]) for text, labels in read(folder / file)] for file in files
        )
        self.texts, labels = map(np.array, zip(*train), (object, str))
        self.names, self.labels = np.unique(labels, return_inverse=True)
        self.test_texts, self.test_labels = map(list, zip(*test))
        rows = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(self.texts)
        self.vectors = TruncatedSVD(100, random_state=0).fit_transform(rows)


class Classifier(small_text.Classifier):
    """The classifier of this repository for small-text. Documents are row numbers of a corpus."""

    def __init__(self, corpus):
        self.corpus = corpus

    def new(self):
        return Classifier(self.corpus)

    def fit(self, train_set, weights=None):
        names = self.corpus.names[train_set.y]
        self.model = KNNTextClassifier(n_jobs=1, device="cpu").fit(self._texts(train_set), names)
        return self

    def predict(self, data_set, return_proba=False):
        probabilities = self.predict_proba(data_set)
        labels = probabilities.argmax(1)
        return (labels, probabilities) if return_proba else labels

    def predict_proba(self, data_set):
        probabilities = np.zeros((len(data_set), len(self.corpus.names)))
        columns = np.searchsorted(self.corpus.names, self.model.classes_)
        probabilities[:, columns] = self.model.predict_proba(self._texts(data_set))
        return probabilities

    def embed(self, data_set, return_proba=False, pbar=None):
        vectors = self.corpus.vectors[data_set.x]
        return (vectors, self.predict_proba(data_set)) if return_proba else vectors

    def micro_f1(self):
        found = self.model.predict(self.corpus.test_texts)
        right = sum(map(str.__eq__, self.corpus.test_labels, map(str, found)))
        return 2 * right / (len(found) + sum(label is not None for label in found))

    def _texts(self, data_set):
        return self.corpus.texts[data_set.x].tolist()


def read(path):
    return table(path) if path.suffix == ".csv" else jsonl(path)


def mix(x):
    """Return the finalizer of SplitMix64."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def first_documents(seed, count, size):
    """Return the documents that `classify bench active` labels first (crates/seeded-random)."""
    state = mix(seed ^ mix(STEP))
    numbers = list(range(count))
    for at in range(size):
        state = state + STEP & MASK
        other = at + (mix(state) * (count - at) >> 64)
        numbers[at], numbers[other] = numbers[other], numbers[at]
    return np.sort(numbers[:size])


def simulate(corpus, strategy, labeled, seed):
    """Return the micro F1 for each number of labeled documents, and seconds."""
    warnings.filterwarnings("ignore")
    np.random.seed(seed)
    begin = time.perf_counter()
    labels = corpus.labels
    documents = small_text.SklearnDataset(
        np.arange(len(labels)), labels, target_labels=np.arange(len(corpus.names))
    )
    learner = small_text.PoolBasedActiveLearner(
        Classifier(corpus), STRATEGIES[strategy](), documents
    )
    first = first_documents(seed, len(labels), labeled[0])
    learner.initialize_data(first, labels[first])
    curve = [learner.classifier.micro_f1()]
    for before, after in zip(labeled, labeled[1:]):
        learner.update(labels[learner.query(num_samples=after - before)])
        curve.append(learner.classifier.micro_f1())
    return curve, time.perf_counter() - begin


def bench_active(program, folder, files, options):
    """Return the report of `classify bench active`, and seconds per simulation."""
    train, test = (folder / file for file in files)
    sizes = {"start": START, "batch": BATCH, "rounds": options.rounds, "seeds": options.seeds}
    flags = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    command = [program, "bench", "active", train, "--test", test, *flags, "--json", "-"]
    begin = time.perf_counter()
    command += ["--device", "cpu", "-j", str(options.jobs), "-q"]
    report = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - begin
    found = json.loads(report.stdout)
    return found, seconds / options.seeds / len(found["ways"])


def interval(values, sign=""):
    """Format a mean and its 95 % interval (Student's t)."""
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:{sign}.4f}"
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{mean:{sign}.4f} [{mean - half:{sign}.4f}, {mean + half:{sign}.4f}]"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--classify", default="target/release/classify")
    parser.add_argument("--corpora", type=pathlib.Path, required=True)
    parser.add_argument("--only", default=",".join(FILES))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="simulations that run concurrently")
    options = parser.parse_args()
    strategies = options.strategies.split(",")
    for name in options.only.split(","):
        report, seconds = bench_active(options.classify, options.corpora, FILES[name], options)
        labeled = report["labeled"]
        curves = {way["way"]: (way["micro_f1"], seconds) for way in report["ways"]}
        corpus = Corpus(options.corpora, FILES[name])
        tasks = [(strategy, seed) for strategy in strategies for seed in range(options.seeds)]
        found = Parallel(options.jobs)(
            delayed(simulate)(corpus, strategy, labeled, seed) for strategy, seed in tasks
        )
        for at, strategy in enumerate(strategies):
            own = found[at * options.seeds : (at + 1) * options.seeds]
            curves[strategy] = [curve for curve, _ in own], np.mean([spent for _, spent in own])
        full = f"micro F1 with all labels {report['full']:.4f}"
        print(f"{name}: {full}, {labeled[0]} to {labeled[-1]} labels")
        print(f"{'way':26}{'area':25}{'minus next':28}{'last':25}seconds")
        ours = np.array(curves["next"][0])
        for way, (micro_f1, spent) in curves.items():
            micro_f1 = np.array(micro_f1)
            if not np.allclose(micro_f1[:, 0], ours[:, 0]):
                print(f"{way}: the first models are not those of `classify bench active`")
            areas = micro_f1.mean(axis=1)
            ahead = interval(areas - ours.mean(axis=1), "+")
            last = interval(micro_f1[:, -1])
            print(f"{way:26}{interval(areas):25}{ahead:28}{last:25}{spent:7.1f}")
        print(flush=True)


if __name__ == "__main__":
    main()
