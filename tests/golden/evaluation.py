"""Makes evaluation.json: significance tests, isotonic regression and intervals by other people's
code.

    python tests/golden/evaluation.py > tests/golden/evaluation.json
    (scikit-learn 1.9.1, scipy 1.17.1, numpy)
"""

import json
import sys

import numpy as np
from scipy.stats import binomtest, ttest_rel, wilcoxon
from sklearn.isotonic import IsotonicRegression

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
        # Ties that rounding must not tear apart.
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

json.dump({"signs": signs, "pairs": pairs, "holm": holm, "isotonic": isotonic}, sys.stdout)
