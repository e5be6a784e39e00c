"""A first classifier in five lines, with its confusion matrix."""

import matplotlib.pyplot as plt
from sample import sample, save
from sklearn.metrics import ConfusionMatrixDisplay

from classify_knn import KNNTextClassifier

# The first label of each text.
(texts, labels), (new, expected) = [(t, [y[0] for y in ys]) for t, ys in (sample("train"), sample("test"))]

model = KNNTextClassifier().fit(texts, labels)
predicted = model.predict(new)
accuracy = model.score(new, expected)
print(f"{accuracy:.3f} of {len(new)} texts are right")

figure, axes = plt.subplots(figsize=(7, 6), layout="constrained")
ConfusionMatrixDisplay.from_predictions(expected, predicted, ax=axes, xticks_rotation=45, colorbar=False, cmap="Blues")
axes.set_title(f"{accuracy:.0%} of {len(new)} texts are right")
save(figure, __file__)
