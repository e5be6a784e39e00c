"""Measure how many out-of-distribution documents `--abstain foreign=10%` refuses, compared with
logistic regression.

    cargo build --release && python benches/foreign.py [--only NAME,..] [--splits N] CORPORA

CORPORA is the folder of corpora/README.md. The requirements are those of benches/linear.py. Each
split removes a third of the labels, drawn by a seed, from the training documents.
`evaluate --tune=votes --chi2-power 0.25 --abstain foreign=10%` then answers the test documents.
They are "known" (with the other labels) or "foreign" (with a removed label, so out of
distribution).

Logistic regression on words and word pairs (C = 10) refuses documents whose highest probability is
below the tenth percentile of the known test documents, an advantage that classify does not have.
The script prints means over the splits:

* the share of known documents that are refused;
* the share of foreign documents that are refused, as expected by tuning and as measured;
* the same share for a threshold on the confidence of the model, if it refuses as many known documents;
* the same share for logistic regression;
* the same share for logistic regression if it refuses as many known documents as classify.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import warnings

import linear
import numpy as np
from order import written
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

warnings.filterwarnings("ignore", category=ConvergenceWarning)


def ours(room, train, test):
    command = [linear.root / "target/release/classify", "evaluate", "-q", "--tune=votes", "--chi2-power", "0.25"]
    command += ["--train", train, "--test", test, "--abstain", "foreign=10%", "--json", f"{room}/r.json"]
    subprocess.run([str(part) for part in [*command, "--per-document"]], check=True, stdout=subprocess.DEVNULL)
    result = json.load(open(f"{room}/r.json"))
    answers = result["per_document"]
    refused = np.array([not answer["predicted"] for answer in answers])
    confidence = np.array([answer.get("confidence") or 0.0 for answer in answers])
    return refused, result["foreign"]["foreign_refused"], confidence


def rival(train, test, known):
    """Return the highest probability of each test document."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, dtype=np.float32)
    rows = vectorizer.fit_transform([text for text, _ in train])
    model = LogisticRegression(C=10, max_iter=200).fit(rows, [label for _, [label] in train])
    return model.predict_proba(vectorizer.transform([text for text, _ in test])).max(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="banking77,sections,r52")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--most", type=int, default=8_000, help="maximum number of training documents of a split")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    heads = ["known refused", "expected", "foreign refused", "by confidence", "logistic at 10 %", "at as many"]
    print(f"{'corpus':12}" + "".join(f"{head:>18}" for head in heads), flush=True)
    for name, get, _ in linear.corpora(options.corpora):
        if name not in options.only.split(","):
            continue
        whole, test, _ = get()
        labels = sorted({label for _, [label] in whole})
        rows = []
        for seed in range(options.splits):
            draw = random.Random(seed)
            out = set(draw.sample(labels, len(labels) // 3))
            train = [(x, y) for x, y in whole if y[0] not in out]
            train = draw.sample(train, min(options.most, len(train)))
            trained = {label for _, [label] in train}
            mine = [(x, y) for x, y in test if y[0] in trained or y[0] in out]
            known = np.array([y[0] in trained for _, y in mine])
            with tempfile.TemporaryDirectory() as folder:
                room = pathlib.Path(folder)
                files = written(room / "train.jsonl", train), written(room / "test.jsonl", mine)
                refused, expected, confidence = ours(room, *files)
            highest = rival(train, mine, known)
            at = lambda values, share: (values[~known] < np.quantile(values[known], share)).mean()
            mistaken = refused[known].mean()
            rows.append([mistaken, expected, refused[~known].mean(), at(confidence, mistaken), at(highest, 0.1), at(highest, mistaken)])
        print(f"{name:12}" + "".join(f"{value:18.3f}" for value in np.mean(rows, axis=0)), flush=True)


if __name__ == "__main__":
    main()
