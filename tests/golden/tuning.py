"""Makes tuning.json: thresholds, chi-square and mutual information by other people's code.

    python tests/golden/tuning.py > tests/golden/tuning.json     (scikit-learn 1.9.1, scipy 1.17.1)

Thresholds by brute force: every threshold half-way between two scores (or between the lowest one
and 0, or above the highest one) is tried, and scikit-learn's f1_score says how good it is. Of
equal values the highest threshold counts. `micromacro` is the definition of LibMultiLabel's
`train_thresholding` on given scores: labels by falling frequency, for each the threshold that
maximizes its F1 / (labels so far) + the micro F1 of the labels so far.
"""

import json
import random
import sys

import numpy as np
from scipy.stats import chi2_contingency
from sklearn.metrics import f1_score, mutual_info_score

random.seed(7)


def thresholds_of(scores):
    values = sorted({score for score in scores if score > 0}, reverse=True)
    ends = values[1:] + [0.0]
    return [None] + [(a + b) / 2 for a, b in zip(values, ends)]


def given(scores, threshold):
    return [int(threshold is not None and score > 0 and score >= threshold) for score in scores]


def f1(due, predicted):
    return f1_score(due, predicted, zero_division=0)


def best(scores, value):
    """The highest threshold of the highest value."""
    found = (None, -1.0)
    for threshold in thresholds_of(scores):
        v = value(given(scores, threshold))
        if v > found[1] + 1e-12:
            found = (threshold, v)
    return found


def scut(labels):
    return [best(l["scores"], lambda p, l=l: f1(l["due"], p))[0] for l in labels]


def scut_fbr(labels, fbr):
    out = []
    for l in labels:
        threshold, value = best(l["scores"], lambda p, l=l: f1(l["due"], p))
        top = max(l["scores"])
        out.append((top if top > 0 else None) if value < fbr else threshold)
    return out


def micromacro(labels):
    order = sorted(range(len(labels)), key=lambda i: (-sum(labels[i]["due"]), i))
    out = [None] * len(labels)
    due, predicted = [], []
    for seen, i in enumerate(order, 1):
        l = labels[i]

        def value(p, l=l, seen=seen):
            return f1(l["due"], p) / seen + f1(due + l["due"], predicted + p)

        out[i] = best(l["scores"], value)[0]
        due, predicted = due + l["due"], predicted + given(l["scores"], out[i])
    return out


labels = []
for size in (30, 12, 12, 5, 2, 1, 0, 8):
    documents = 40
    due = [1] * size + [0] * (documents - size)
    scores = [
        # Few digits: equal scores are frequent. Some documents have no score.
        round(min(1.0, max(0.0, random.gauss(0.5 if d else 0.25, 0.25))), 1 if size == 12 else 3)
        for d in due
    ]
    labels.append({"due": due, "scores": scores})

tables = []
for _ in range(20):
    both, term, label, neither = (random.randint(1, 60) for _ in range(4))
    observed = np.array([[both, term], [label, neither]])
    x = [1] * (both + term) + [0] * (label + neither)
    y = [1] * both + [0] * term + [1] * label + [0] * neither
    tables.append(
        {
            "both": both,
            "term": both + term,
            "label": both + label,
            "documents": int(observed.sum()),
            "chi2": float(chi2_contingency(observed, correction=False).statistic),
            "information": float(mutual_info_score(x, y) / np.log(2)),
        }
    )

json.dump(
    {
        "labels": labels,
        "scut": scut(labels),
        "scut_fbr": scut_fbr(labels, 0.5),
        "micromacro": micromacro(labels),
        "tables": tables,
    },
    sys.stdout,
)
