"""Dense vectors: a classifier of embeddings, and a metric index over them."""

import matplotlib.pyplot as plt
import numpy as np
from sample import sample, save
from sklearn.decomposition import TruncatedSVD

from classify_knn import KNNTextClassifier, MetricIndex, TfidfVectorizer

(texts, labels), (new, expected) = [(t, [y[0] for y in ys]) for t, ys in (sample("train"), sample("test"))]

# Embeddings of any model work; this example uses 50 dimensions of latent semantic analysis.
vectorizer = TfidfVectorizer(stop_words="en", stemmer="english").fit(texts)
reduction = TruncatedSVD(50, random_state=0).fit(vectorizer.transform(texts))
vectors, queries = (reduction.transform(vectorizer.transform(some)) for some in (texts, new))

neighbors = [1, 3, 5, 10, 20, 30, 50]
by_vectors = [KNNTextClassifier(k).fit(vectors, labels).score(queries, expected) for k in neighbors]
by_terms = [KNNTextClassifier(k).fit(texts, labels).score(new, expected) for k in neighbors]
both = [KNNTextClassifier(k, features="tfidf+lsa:50").fit(texts, labels).score(new, expected) for k in neighbors]

index = MetricIndex(vectors, "angular")
distances, points = index.query(queries[0], k=3)
print(f"{index}: the nearest texts of {new[0][:40]!r} are")
for distance, point in zip(distances, points, strict=True):
    print(f"  {distance:.3f}  {texts[point][:60]!r}")

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, values in (("vectors", by_vectors), ("terms", by_terms), ("terms and vectors", both)):
    axes.plot(np.arange(len(neighbors)), values, marker="o", label=name)
axes.set_xticks(np.arange(len(neighbors)), neighbors)
axes.set(xlabel="neighbors that vote", ylabel="accuracy on new texts")
axes.legend()
save(figure, __file__)
