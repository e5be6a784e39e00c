"""Measures how well `classify check` finds wrong labels, next to cleanlab.

Labels of a corpus are replaced: uniformly by any other label, or by the label with which it is
confused most. Both programs rank the labels by suspicion. cleanlab gets out-of-fold probabilities
of logistic regression on TF-IDF (five folds), and ranks them in both of its ways, of which the
better one counts. Labels with fewer than 20 documents are left out.

    python benches/label_errors.py --classify target/release/classify --corpora CORPORA

Needs scikit-learn and cleanlab. Prints a table: average precision, precision at the number of wrong
labels, CPU seconds, and the expected calibration error of the probabilities of `classify`.

With `--datalab`, cleanlab's Datalab gets the same probabilities and the exact neighbor graph of
`classify`. The table then also has the average precision of three scores, and the CPU seconds
without the logistic regression:

* label: the label score, computed from the probabilities (Datalab ignores the graph here)
* graph: the data valuation (k-NN Shapley), computed from the neighbor graph only
* features: the label score that Datalab computes from the k nearest TF-IDF rows

The last two use 10, 30 and 100 neighbors, and the best average precision counts. Datalab cannot
score features if a document has more than k copies; the table has nan if this holds for all k.
`--datalab` needs the Python package of this repository and `cleanlab[datalab]`, and 16 bytes of
memory per pair of documents.
"""

import argparse
import contextlib
import io
import json
import pathlib
import resource
import subprocess
import tempfile
import time
import warnings

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from linear import jsonl, one_topic, reuters, table

warnings.filterwarnings("ignore")

#: Numbers of neighbors that Datalab tries.
NEIGHBORS = (10, 30, 100)


def corpora(folder):
    """Return the training documents of each single-label corpus: {name: [(text, label)]}."""
    return {
        "banking77": lambda: [(x, y[0]) for x, y in table(folder / "banking77/train.csv")],
        "r52": lambda: [(x, y[0]) for x, y in one_topic(*reuters(folder / "reuters21578"))[0]],
        "mag": lambda: [(x, y[0]) for x, y in jsonl(folder / "mag/train.jsonl.zst")],
        "sections": lambda: [(x, y[0]) for x, y in jsonl(folder / "debian/sections-train.jsonl.zst")],
    }


def out_of_fold(rows, labels, cost):
    """Return out-of-fold probabilities of logistic regression."""
    smallest = np.bincount(labels).min()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(C=cost, max_iter=300)
    found = cross_val_predict(model, rows, labels, cv=folds, method="predict_proba")
    assert found.shape[1] == labels.max() + 1, f"a label has {smallest} documents"
    return found


def most_confused(rows, labels):
    """Return, for each label, the label for which it is mistaken most often."""
    found = out_of_fold(rows, labels, 1.0)
    mass = np.zeros((found.shape[1], found.shape[1]))
    np.add.at(mass, labels, found)
    np.fill_diagonal(mass, -1)
    return mass.argmax(1)


def with_noise(labels, rate, confused, seed):
    """Return the labels after replacing a share of them, and which were replaced."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(labels), int(rate * len(labels)), replace=False)
    noisy = labels.copy()
    if confused is None:
        noisy[chosen] = (noisy[chosen] + random.integers(1, labels.max() + 1, len(chosen))) % (labels.max() + 1)
    else:
        noisy[chosen] = confused[labels[chosen]]
    return noisy, noisy != labels


def cpu_seconds(kind):
    usage = resource.getrusage(kind)
    return usage.ru_utime + usage.ru_stime


def by_classify(program, texts, names, flags):
    """Return the suspicion of each label, its probability of being wrong, and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder) / "corpus.jsonl"
        lines = (json.dumps({"id": str(at), "text": x, "labels": [y]}) for at, (x, y) in enumerate(zip(texts, names)))
        corpus.write_text("\n".join(lines) + "\n")
        found = pathlib.Path(folder) / "found.jsonl"
        start = cpu_seconds(resource.RUSAGE_CHILDREN)
        command = [program, "check", corpus, "--min-probability", "0%", "-o", found, "-q", *flags]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = cpu_seconds(resource.RUSAGE_CHILDREN) - start
        suspicion, probability = np.zeros(len(texts)), np.zeros(len(texts))
        for rank, line in enumerate(found.open()):
            line = json.loads(line)
            suspicion[int(line["id"])] = -rank
            probability[int(line["id"])] = line["probability"]
    return suspicion, probability, seconds


def by_cleanlab(texts, labels):
    """Return the suspicion of each label in cleanlab's two ways, the out-of-fold probabilities, and
    CPU seconds."""
    from cleanlab.rank import get_label_quality_scores

    start = cpu_seconds(resource.RUSAGE_SELF)
    rows = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
    probabilities = out_of_fold(rows, labels, 10.0)
    ways = ["self_confidence", "normalized_margin"]
    found = [-get_label_quality_scores(labels, probabilities, method=way) for way in ways]
    return found, probabilities, cpu_seconds(resource.RUSAGE_SELF) - start


def neighbor_graph(texts, k):
    """Return the TF-IDF rows of `classify`, and the graph of the k nearest rows of each row."""
    from classify_knn import SparseNeighbors
    from classify_knn import TfidfVectorizer as Vectorizer

    rows = Vectorizer().fit_transform(texts)
    distances, neighbors = SparseNeighbors(k, device="cpu").fit(rows).kneighbors()
    # Datalab needs k neighbors. If fewer share a term, the next documents of the corpus follow.
    count = len(texts)
    following = (np.arange(count)[:, None] + np.arange(1, k + 1)) % count
    neighbors = np.where(neighbors < 0, following, neighbors)
    distances = np.minimum(distances, 1.0)
    starts = np.arange(0, count * k + 1, k)
    return rows, csr_matrix((distances.ravel(), neighbors.ravel(), starts), shape=(count, count))


def by_datalab(texts, labels, probabilities):
    """Return the suspicions of each score of Datalab, one for each k, and CPU seconds."""
    from cleanlab import Datalab

    start = cpu_seconds(resource.RUSAGE_SELF)
    rows, graph = neighbor_graph(texts, max(NEIGHBORS))

    def suspicions(issue, neighbors, **inputs):
        found = []
        for k in neighbors:
            lab = Datalab({"label": labels}, label_name="label", verbosity=0)
            # Datalab prints its errors, and continues without the score.
            with contextlib.redirect_stdout(io.StringIO()):
                lab.find_issues(**inputs, issue_types={issue: {"k": k}})
            if f"{issue}_score" in lab.issues:
                found.append(-lab.issues[f"{issue}_score"].to_numpy())
        return found

    found = [
        # The label score of given probabilities does not depend on k.
        suspicions("label", NEIGHBORS[:1], pred_probs=probabilities, knn_graph=graph),
        suspicions("data_valuation", NEIGHBORS, knn_graph=graph),
        suspicions("label", NEIGHBORS, features=rows),
    ]
    return found, cpu_seconds(resource.RUSAGE_SELF) - start


def quality(wrong, suspicion):
    """Return average precision, and precision at the number of wrong labels."""
    first = np.argsort(-suspicion, kind="stable")[: wrong.sum()]
    return average_precision_score(wrong, suspicion), wrong[first].mean()


def calibration_error(wrong, probability, bins=10):
    """Return the expected calibration error over bins of equal width."""
    which = np.minimum((probability * bins).astype(int), bins - 1)
    gaps = [abs(probability[which == b].sum() - wrong[which == b].sum()) for b in range(bins)]
    return sum(gaps) / len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classify", default="target/release/classify")
    parser.add_argument("--corpora", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="banking77,r52,mag,sections")
    parser.add_argument("--rates", default="0.1,0.2")
    parser.add_argument("--kinds", default="uniform,confused")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--no-cleanlab", action="store_true", help="measure `classify` alone")
    parser.add_argument("--datalab", action="store_true", help="measure Datalab as well")
    parser.add_argument("flags", nargs="*", help="further flags of `classify check`, after --")
    options = parser.parse_args()
    if options.no_cleanlab and options.datalab:
        parser.error("--datalab needs the probabilities of cleanlab: omit --no-cleanlab")
    print("corpus     noise          seed  classify: AP  P@n    seconds  ECE    cleanlab: AP  P@n    seconds"
          + "    Datalab: label  graph  features  seconds" * options.datalab)
    for name in options.only.split(","):
        pairs = corpora(options.corpora)[name]()
        sizes = {}
        for _, label in pairs:
            sizes[label] = sizes.get(label, 0) + 1
        # Every fold of the rival must contain every label, also after the noise.
        pairs = [(x, y) for x, y in pairs if sizes[y] >= 20]
        texts = [x for x, _ in pairs]
        names, labels = np.unique([y for _, y in pairs], return_inverse=True)
        rows = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
        for kind in options.kinds.split(","):
            confused = most_confused(rows, labels) if kind == "confused" else None
            for rate in map(float, options.rates.split(",")):
                for seed in map(int, options.seeds.split(",")):
                    noisy, wrong = with_noise(labels, rate, confused, seed)
                    suspicion, probability, seconds = by_classify(options.classify, texts, names[noisy], options.flags)
                    ours = quality(wrong, suspicion)
                    line = f"{name:10} {rate:.0%} {kind:9} {seed:4}        {ours[0]:.4f} {ours[1]:.4f} {seconds:7.1f}  {calibration_error(wrong, probability):.4f}"
                    if not options.no_cleanlab:
                        found, probabilities, theirs = by_cleanlab(texts, noisy)
                        best = max(quality(wrong, way) for way in found)
                        line += f"        {best[0]:.4f} {best[1]:.4f} {theirs:7.1f}"
                    if options.datalab:
                        found, theirs = by_datalab(texts, noisy, probabilities)
                        best = [max((quality(wrong, each)[0] for each in ways), default=np.nan)
                                for ways in found]
                        label, graph, features = best
                        line += f"           {label:.4f} {graph:.4f}    {features:.4f} {theirs:8.1f}"
                    print(line, flush=True)


if __name__ == "__main__":
    main()
