"""Multi-label: the trade-off of one threshold, and the thresholds that tuning chooses."""

import matplotlib.pyplot as plt
import numpy as np
from sample import sample, save
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.preprocessing import MultiLabelBinarizer

from classify_knn import KNNTextClassifier

(texts, labels), (new, expected) = sample("train"), sample("test")
binarizer = MultiLabelBinarizer().fit(labels)
truth = binarizer.transform(expected)

model = KNNTextClassifier().fit(texts, labels)
votes = model.decision_function(new)
thresholds = np.linspace(0.05, 0.9, 35)
given = [votes >= threshold for threshold in thresholds]
curves = {
    name: [score(truth, one, average="micro", zero_division=0) for one in given]
    for name, score in (("precision", precision_score), ("recall", recall_score), ("F1", f1_score))
}

# Tuning uses leave-one-out on the training texts only.
tuned = KNNTextClassifier(tune="votes").fit(texts, labels)
reached = f1_score(truth, binarizer.transform(tuned.predict(new)), average="micro")
expected = (tuned.tuning_.get("cross_validated") or tuned.tuning_)["figures"]["micro_f1"]
print(f"micro F1 {reached:.3f} with the tuned votes and thresholds; expected {expected:.3f}")

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, values in curves.items():
    axes.plot(thresholds, values, label=name)
axes.axhline(reached, color="gray", linestyle="--", label="F1 of the tuned model")
axes.set(xlabel="share of the votes that a label needs", ylabel="on new texts", ylim=(0, 1.02))
axes.legend()
save(figure, __file__)
