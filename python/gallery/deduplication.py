"""Near-duplicates: find all pairs of texts above a cosine by one exact sparse product."""

import matplotlib.pyplot as plt
import numpy as np
from sample import sample, save

from classify_knn import TfidfVectorizer, top_k

texts, _ = sample("train")
random = np.random.default_rng(0)
# Copies of every fifth text, with one word in ten replaced.
copies = []
for text in texts[::5]:
    words = text.split()
    for place in random.choice(len(words), max(1, len(words) // 10), replace=False):
        words[place] = "changed"
    copies.append(" ".join(words))

rows = TfidfVectorizer().fit_transform(texts + copies)
pairs = top_k(rows, rows, 5, threshold=0.5, metric="cosine").tocoo()
found = {(a, b) for a, b in zip(pairs.row.tolist(), pairs.col.tolist(), strict=True) if a < b}
known = {(place * 5, len(texts) + place) for place in range(len(copies))}
print(f"{len(found & known)} of {len(known)} copies are found, and {len(found - known)} other pairs")

nearest = top_k(rows, rows, 2, metric="cosine").toarray()
np.fill_diagonal(nearest, 0)
best = nearest.max(axis=1)
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
copied = np.zeros(len(best), dtype=bool)
copied[[place for pair in known for place in pair]] = True
axes.hist([best[~copied], best[copied]], bins=np.linspace(0, 1, 41), stacked=True, label=["other texts", "copies and originals"])
axes.axvline(0.5, color="gray", linestyle="--", label="threshold")
axes.set(xlabel="cosine of the most similar other text", ylabel="texts")
axes.legend()
save(figure, __file__)
