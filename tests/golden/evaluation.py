"""Generates evaluation.json: significance tests, isotonic regression and intervals, computed with
reference implementations.

    python tests/golden/evaluation.py > tests/golden/evaluation.json
    (scikit-learn 1.9.1, scipy 1.17.1, numpy)
"""

import json
import sys

import numpy as np
from scipy.stats import binomtest, ttest_rel, wilcoxon
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import f1_score

random = np.random.default_rng(11)

signs = [
    {"a": a, "b": b, "p": float(binomtest(a, a + b, 0.5).pvalue)}
    for a, b in [(1, 0), (3, 9), (9, 3), (50, 50), (120, 81), (1000, 1100), (0, 30)]
]

pairs = []
for size in (5, 12, 40, 90):
    a = np.round(random.uniform(0, 1, size), 2 if size == 40 else 6)
    b = np.clip(np.round(a + random.normal(0.03, 0.1, size), 2 if size == 40 else 6), 0, 1)
    b[:2] = a[:2]
    differences = b - a
    if size == 40:
        # Tied values, which rounding must not separate.
        differences = np.round(differences, 2)
    pairs.append(
        {
            "differences": differences.tolist(),
            "t": float(ttest_rel(differences, np.zeros(size)).pvalue),
            "wilcoxon": float(
                wilcoxon(differences, method="asymptotic", correction=False).pvalue
            ),
        }
    )

holm = []
for size in (1, 2, 6):
    p = random.uniform(0, 0.2, size)
    order = np.argsort(p)
    adjusted = np.empty(size)
    # statsmodels' multipletests(p, method="holm"): running maximum of (m - rank) p.
    adjusted[order] = np.minimum(1, np.maximum.accumulate((size - np.arange(size)) * p[order]))
    holm.append({"p": p.tolist(), "adjusted": adjusted.tolist()})

isotonic = []
for size, digits in ((1, 3), (30, 1), (200, 3), (500, 2)):
    x = np.round(random.uniform(0, 1, size), digits)
    y = (random.uniform(0, 1, size) < x**2).astype(float)
    weights = random.integers(1, 4, size).astype(float)
    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(x, y, weights)
    at = np.concatenate([[0, 1], np.round(random.uniform(0, 1, 20), 4)])
    isotonic.append(
        {
            "x": x.tolist(),
            "y": y.tolist(),
            "weights": weights.tolist(),
            "at": at.tolist(),
            "expected": model.predict(at).tolist(),
        }
    )

# Intervals of macro F1, and of its difference between two runs on the same documents. The documents
# are resampled as in the program (SplitMix64). Everything else uses numpy and scikit-learn.
MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draws(count, seed, replicate):
    state = mix(seed ^ mix((replicate + STEP) & MASK))
    drawn = []
    for _ in range(count):
        state = (state + STEP) & MASK
        drawn.append((mix(state) * count) >> 64)
    return drawn


def macro_f1(gold, predicted):
    return f1_score(gold, predicted, average="macro", zero_division=0)


def corrected(estimate, values):
    """Return percentiles, corrected for the bias of the replicates."""
    low, high = np.quantile(values, [0.025, 0.975])
    bias = np.mean(values) - estimate
    return [float(low - bias), float(high - bias)]


def counts(gold, predicted):
    return np.stack([gold & predicted, ~gold & predicted, gold & ~predicted]).astype(float)


def macro_f1_of_draws(parts, weights):
    tp, fp, missed = (weights @ part for part in parts)
    whole = 2 * tp + fp + missed
    return np.mean(np.divide(2 * tp, whole, out=np.zeros_like(whole), where=whole > 0), axis=1)


documents, labels, seed = 60, 25, 9
gold = random.random((documents, labels)) < 1.2 / (2 + np.arange(labels))
runs = [
    np.where(random.random(gold.shape) < 0.75, gold, random.random(gold.shape) < 0.03)
    for _ in range(2)
]
weights = np.zeros((1000, documents))
for replicate, row in enumerate(weights):
    np.add.at(row, draws(documents, seed, replicate), 1)
estimates = [macro_f1(gold, run) for run in runs]
values = [macro_f1_of_draws(counts(gold, run), weights) for run in runs]
# The fast formula gives the same values as scikit-learn.
for replicate in (0, 17):
    drawn = draws(documents, seed, replicate)
    slow = [macro_f1(gold[drawn], run[drawn]) for run in runs]
    assert np.allclose(slow, [value[replicate] for value in values])
difference = estimates[1] - estimates[0]
numbers = [[np.flatnonzero(row).tolist() for row in matrix] for matrix in (gold, *runs)]
bootstrap = {
    "labels": labels,
    "seed": seed,
    "gold": numbers[0],
    "runs": numbers[1:],
    "macro_f1": estimates,
    "intervals": [corrected(*pair) for pair in zip(estimates, values)],
    "difference": corrected(difference, values[1] - values[0]),
}

json.dump({"bootstrap": bootstrap, "signs": signs, "pairs": pairs, "holm": holm, "isotonic": isotonic}, sys.stdout)
