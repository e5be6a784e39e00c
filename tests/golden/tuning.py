"""Generates tuning.json: thresholds, chi-square and mutual information, computed with reference
implementations.

    python tests/golden/tuning.py > tests/golden/tuning.json     (scikit-learn 1.9.1, scipy 1.17.1)

Thresholds are found by brute force: every threshold halfway between two scores (or between the
lowest score and 0, or above the highest score) is evaluated with scikit-learn's f1_score. If
several thresholds are equally good, the highest is chosen. `micromacro` follows LibMultiLabel's
`train_thresholding` on given scores. It processes labels by decreasing frequency. For each label,
it chooses the threshold that maximizes its F1 / (labels so far) + the micro F1 of the labels so
far.
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
    """Return the highest threshold with the highest value."""
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
        # Scores have few digits, so ties are frequent. Some documents have no score.
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

# Rank rules on the same scores: the labels of each document by decreasing score, then by number.
matrix = np.array([l["scores"] for l in labels]).T
ranked = [
    [int(i) for i in np.argsort(-row, kind="stable") if row[i] > 0] for row in matrix
]
rank_of = [{label: rank for rank, label in enumerate(order)} for order in ranked]


def mcut(row, order):
    """Largeron et al. 2012: the labels before the largest gap between scores."""
    if not order:
        return []
    descending = [row[i] for i in order] + [0.0]
    gaps = [a - b for a, b in zip(descending, descending[1:])]
    return order[: int(np.argmax(gaps)) + 1]


def pcut(factor):
    """Yang 2001: for each label, the documents with the highest scores, as often as in training."""
    given = [[] for _ in matrix]
    for i, l in enumerate(labels):
        documents = [d for d in np.argsort(-matrix[:, i], kind="stable") if matrix[d, i] > 0]
        for d in documents[: int(np.floor(sum(l["due"]) * factor + 0.5))]:
            given[d].append(i)
    return [sorted(g, key=lambda i, d=d: rank_of[d][i]) for d, g in enumerate(given)]


def rtcut():
    """Yang 2001: SCut on score / 2 - rank."""
    out = []
    for i, l in enumerate(labels):
        values = [
            matrix[d, i] / 2 - rank_of[d][i] if i in rank_of[d] else -1e9 for d in range(len(matrix))
        ]
        found = (None, -1.0)
        present = sorted({v for v in values if v > -1e9}, reverse=True)
        for a, b in zip(present, present[1:] + [present[-1] - 0.5]):
            v = f1(l["due"], [int(value >= (a + b) / 2) for value in values])
            if v > found[1] + 1e-12 and v > 0:
                found = ((a + b) / 2, v)
        out.append(found[0])
    return out


def scut_smoothed(labels, weight):
    """Return the grid threshold with the best n * F1 + weight * mean F1 of 21 similar labels."""
    grid = [2.0 ** (octave - 9) * (1 + step / 16) for octave in range(9) for step in range(16)] + [1.0]
    curves = np.array([[f1(l["due"], given(l["scores"], t)) for t in grid] for l in labels])
    due = [sum(l["due"]) for l in labels]
    usable = sorted((i for i in range(len(labels)) if due[i] > 1), key=lambda i: (due[i], i))
    out = []
    for i in range(len(labels)):
        at = sum((due[j], j) < (due[i], i) for j in usable)
        first = min(max(at - 10, 0), max(len(usable) - 21, 0))
        around = curves[usable[first : first + 21]].mean(axis=0)
        value = due[i] * curves[i] + weight * around
        out.append(grid[int(np.argmax(value))] if value.max() > 0 else None)
    return out


def micromacro_smoothed(labels, weight):
    """Return the thresholds of the grid with the highest macro F1 + micro F1. Both are computed from
    labels that are mixed with 21 labels of similar frequency."""
    steps = [2.0 ** (octave - 9) * (1 + step / 16) for octave in range(9) for step in range(16)] + [1.0]
    # The first column means that the label is never predicted.
    predicted = [[given(l["scores"], t) for t in [None] + steps] for l in labels]
    curves = np.array([[f1(l["due"], p) for p in rows] for l, rows in zip(labels, predicted)])
    due = [sum(l["due"]) for l in labels]
    right = np.array([[np.dot(p, l["due"]) for p in rows] for l, rows in zip(labels, predicted)])
    wrong = np.array([[sum(p) for p in rows] for rows in predicted]) - right
    order = sorted(range(len(labels)), key=lambda i: (due[i], i))
    usable = [i for i in order if due[i] > 1]
    value, tp, fp = {}, {}, {}
    for i in order:
        at = sum((due[j], j) < (due[i], i) for j in usable)
        first = min(max(at - 10, 0), max(len(usable) - 21, 0))
        around = usable[first : first + 21]

        def mixed(own, others, i=i):
            return (due[i] * own[i] + weight * np.mean([others(j) for j in around], axis=0)) / (due[i] + weight)

        value[i] = mixed(curves, lambda j: curves[j])
        tp[i] = mixed(right, lambda j, i=i: right[j] * due[i] / due[j])
        fp[i] = mixed(wrong, lambda j, i=i: wrong[j] * due[i] / due[j])
    chosen = {i: int(np.argmax(value[i])) for i in order}

    def both():
        rights, wrongs = (sum(x[i][chosen[i]] for i in order) for x in (tp, fp))
        macro = sum(value[i][chosen[i]] for i in order) / len(labels)
        return macro + 2 * rights / (rights + wrongs + sum(due))

    for _ in range(4):
        for i in reversed(order):
            values = []
            for chosen[i] in range(len(steps) + 1):
                values.append(both())
            chosen[i] = int(np.argmax(np.array(values) > max(values) - 1e-12))
    return [steps[chosen[i] - 1] if chosen[i] else None for i in range(len(labels))], both()


# Many rare labels with noisy scores, for which the contribution of macro F1 matters.
rare = []
for size in [60, 25] + [random.randint(1, 6) for _ in range(30)]:
    due = [1] * size + [0] * (200 - size)
    random.shuffle(due)
    scores = [round(min(1.0, max(0.0, random.gauss(0.3 if d else 0.1, 0.15))), 3) for d in due]
    rare.append({"due": due, "scores": scores})


def micromacro_undivided(labels):
    order = sorted(range(len(labels)), key=lambda i: (-sum(labels[i]["due"]), i))
    out = [None] * len(labels)
    due, predicted = [], []
    for i in order:
        l = labels[i]
        out[i] = best(
            l["scores"], lambda p, l=l: f1(l["due"], p) + f1(due + l["due"], predicted + p)
        )[0]
        due, predicted = due + l["due"], predicted + given(l["scores"], out[i])
    return out


assert micromacro(rare) != micromacro_undivided(rare), "the example does not distinguish the methods"

json.dump(
    {
        "labels": labels,
        "scut": scut(labels),
        "scut_fbr": scut_fbr(labels, 0.5),
        "micromacro": micromacro(labels),
        "rtcut": rtcut(),
        "scut_smoothed": scut_smoothed(labels, 10.0),
        "rcut": [order[:2] for order in ranked],
        "mcut": [mcut(row, order) for row, order in zip(matrix, ranked)],
        "pcut": pcut(1.0),
        "rare": rare,
        "rare_micromacro": micromacro(rare),
        "rare_scut_smoothed": scut_smoothed(rare, 10.0),
        "micromacro_smoothed": micromacro_smoothed(labels, 10.0)[0],
        "rare_micromacro_smoothed": micromacro_smoothed(rare, 10.0)[0],
        "tables": tables,
    },
    sys.stdout,
)
