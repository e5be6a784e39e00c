"""Compare models of terms, of embeddings, and of both, next to LinearSVC on the same features.

    cargo build --release && python benches/embeddings.py (--model FOLDER | --vectors FOLDER) \\
        [--only NAME,..] [--per-label N] [--seeds N] [--ours-only] CORPORA

CORPORA is the folder of corpora/README.md. Of Debian sections, the first documents in the order of
package names are used (MOST). With --model, the texts are encoded: by
sentence-transformers if FOLDER contains modules.json, and otherwise by model2vec. With --vectors,
FOLDER contains NAME-train.npy and NAME-test.npy. With --per-label, each run trains on N random
documents of each label, and the figures are means over the seeds. The script prints test
accuracies:

* `classify evaluate --tune` with terms, with `--features dense` and with `--features tfidf+dense`;
* LinearSVC on words and word pairs (log TF-IDF), on the vectors, and on both, side by side with
  equal lengths. C is .1, 1 or 10, chosen by 3-fold cross-validation. Not with --ours-only.

The last column is the CPU seconds of the three runs of `classify`. The requirements are those of
benches/linear.py, and the library that encodes.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import tempfile

import linear
import numpy as np
import scipy.sparse
from order import written
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

KINDS = [[], ["--features", "dense"], ["--features", "tfidf+dense"]]
MOST = {"sections": (12_000, 6_000)}  # The first training and test documents that are used.


def corpora(folder):
    for name in ("lingala", "sms", "mr", "mag"):
        parts = [list(linear.jsonl(folder / name / f"{part}.jsonl.zst")) for part in ("train", "test")]
        yield name, [[(text, [labels] if isinstance(labels, str) else labels) for text, labels in part] for part in parts]
    for name, get, _ in linear.corpora(folder):
        if name in ("r52", "banking77", "sections"):
            yield name, [part[:most] for part, most in zip(get()[:2], MOST.get(name, (None, None)))]


def encoder(folder):
    """Return a function from texts to an array of vectors."""
    if (folder / "modules.json").exists():
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder)).encode
    from model2vec import StaticModel

    return StaticModel.from_pretrained(str(folder)).encode


def unit(vectors):
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def ours(room, parts, vectors):
    """Return the accuracy with each kind of features."""
    files = [written(room / f"{name}.jsonl", part) for name, part in zip(("train", "test"), parts)]
    for name, part in zip(("train", "test"), vectors):
        np.save(room / f"{name}.npy", part)
    found = []
    for kind in KINDS:
        command = [linear.root / "target/release/classify", "evaluate", "-q", "--tune", *kind, "--json", room / "r.json"]
        command += ["--train", files[0], "--test", files[1]]
        command += ["--train-vectors", room / "train.npy", "--vectors", room / "test.npy"] if kind else []
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        found.append(json.load(open(room / "r.json"))["accuracy"])
    return found


def rival(parts, vectors):
    """Return the accuracy of LinearSVC with each kind of features."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), dtype=np.float32)
    texts = [[text for text, _ in part] for part in parts]
    terms = [vectorizer.fit_transform(texts[0]), vectorizer.transform(texts[1])]
    labels = [[label for _, [label] in part] for part in parts]
    dense = [scipy.sparse.csr_matrix(part) for part in vectors]
    both = [scipy.sparse.hstack(pair).tocsr() for pair in zip(terms, dense)]
    found = []
    for rows in (terms, dense, both):
        grid = GridSearchCV(LinearSVC(max_iter=300), {"C": [0.1, 1, 10]}, cv=3, n_jobs=-1)
        found.append(grid.fit(rows[0], labels[0]).score(rows[1], labels[1]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--vectors", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--per-label", type=int)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ours-only", action="store_true", help="without LinearSVC")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    if (options.model is None) == (options.vectors is None):
        parser.error("give either --model or --vectors")
    encode = encoder(options.model) if options.model else None
    programs = ["classify"] if options.ours_only else ["classify", "SVC"]
    heads = [f"{program}: {kind}" for program in programs for kind in ("terms", "vectors", "both")]
    print(f"{'corpus':10}" + "".join(f"{head:>19}" for head in heads) + f"{'CPU s':>9}", flush=True)
    for name, parts in corpora(options.corpora):
        if options.only and name not in options.only.split(","):
            continue
        sides = ("train", "test")
        if encode:
            vectors = [unit(encode([text for text, _ in part])) for part in parts]
        else:
            vectors = [unit(np.load(options.vectors / f"{name}-{side}.npy")[:len(part)]) for side, part in zip(sides, parts)]
        rows, seconds = [], 0.0
        for seed in range(options.seeds if options.per_label else 1):
            taken = list(range(len(parts[0])))
            if options.per_label:
                random.Random(seed).shuffle(taken)
                by_label = {}
                for index in taken:
                    by_label.setdefault(parts[0][index][1][0], []).append(index)
                taken = sorted(index for indices in by_label.values() for index in indices[: options.per_label])
            mine = [[parts[0][index] for index in taken], parts[1]]
            its_vectors = [vectors[0][taken], vectors[1]]
            with tempfile.TemporaryDirectory() as room:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                found = ours(pathlib.Path(room), mine, its_vectors)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            rows.append(found if options.ours_only else found + rival(mine, its_vectors))
        print(f"{name:10}" + "".join(f"{value:19.4f}" for value in np.mean(rows, axis=0)) + f"{seconds:9.1f}", flush=True)


if __name__ == "__main__":
    main()
