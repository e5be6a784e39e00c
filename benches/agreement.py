"""Compare predictions with a scikit-learn pipeline: TfidfVectorizer, brute-force cosine neighbors,
and votes weighted by similarity.

    python3 benches/agreement.py TRAIN TEST K [TRAIN TEST K ...]

TRAIN and TEST are CSV (`text,category`) or JSONL (`text`, `labels`, one label each), optionally
compressed with zstd. The script uses the `.venv` of benches/rivals.py. Differences are allowed if
the two best labels, or the similarities at rank k, are tied within 1e-6. Other differences are
errors (exit code 1).
"""

import collections
import csv
import io
import json
import pathlib
import subprocess
import sys

import rivals


def documents(path):
    raw = pathlib.Path(path).read_bytes()
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard

        raw = zstandard.ZstdDecompressor().stream_reader(raw).read()
    text = raw.decode("utf-8")
    if path.endswith(".csv"):
        rows = list(csv.DictReader(io.StringIO(text)))
        return [row["text"] for row in rows], [row["category"] for row in rows]
    rows = [json.loads(line) for line in text.splitlines()]
    return [row["text"] for row in rows], [row["labels"][0] for row in rows]


def compare(train, test, k):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neighbors import NearestNeighbors

    texts, labels = documents(train)
    questions, truth = documents(test)
    vectorizer = TfidfVectorizer()
    rows = vectorizer.fit_transform(texts)
    queries = vectorizer.transform(questions)
    nearest = NearestNeighbors(n_neighbors=k + 1, metric="cosine", algorithm="brute").fit(rows)
    distances, indices = nearest.kneighbors(queries)

    model = rivals.ROOT / "target" / "agreement.model"
    classify = ["cargo", "run", "-q", "--release", "--"]
    settings = ["--weighting", "sklearn", "-k", str(k), "--mode", "single", "-q"]
    run = lambda *words: subprocess.run([*classify, *words], cwd=rivals.ROOT, check=True, capture_output=True, text=True).stdout
    run("train", train, "-o", str(model), *settings)
    answers = [json.loads(line) for line in run("predict", str(model), test, "-q").splitlines()]

    same = tied_labels = tied_rank = unexplained = 0
    right = collections.Counter()
    for row, answer in enumerate(answers):
        similarities = 1 - distances[row]
        found = [(s, labels[i]) for s, i in zip(similarities, indices[row]) if s > 1e-9]
        votes = collections.Counter()
        first = {}
        for rank, (similarity, label) in enumerate(found[:k]):
            votes[label] += similarity
            first.setdefault(label, rank)
        ranking = sorted(votes, key=lambda label: (-votes[label], first[label], label))
        theirs = ranking[0] if ranking else None
        ours = answer["labels"][0] if answer["labels"] else None
        right["classify"] += ours == truth[row]
        right["scikit-learn"] += theirs == truth[row]
        if ours == theirs:
            same += 1
        elif ours in votes and votes[theirs] - votes[ours] < 1e-6:
            tied_labels += 1
        elif len(found) > k and found[k - 1][0] - found[k][0] < 1e-6:
            tied_rank += 1
        else:
            unexplained += 1
            print(f"  document {row}: classify {ours}, scikit-learn {theirs}, votes {votes.most_common(3)}")
    count = len(answers)
    print(f"{pathlib.Path(train).name}, {len(texts):,} / {count:,} documents, k = {k}")
    print(f"  accuracy: classify {right['classify'] / count:.4f}, scikit-learn {right['scikit-learn'] / count:.4f}")
    print(f"  same {same:,}, tied labels {tied_labels}, tied at rank k {tied_rank}, unexplained {unexplained}")
    return unexplained == 0


def main():
    arguments = sys.argv[1:]
    if not arguments or len(arguments) % 3:
        sys.exit(__doc__)
    rivals.in_venv()
    absolute = lambda path: str(pathlib.Path(path).resolve())
    cases = [arguments[i : i + 3] for i in range(0, len(arguments), 3)]
    agreed = [compare(absolute(train), absolute(test), int(k)) for train, test, k in cases]
    sys.exit(0 if all(agreed) else 1)


if __name__ == "__main__":
    main()
