"""Explanation: the words that support or oppose a label, and the texts that voted."""

import textwrap

import matplotlib.pyplot as plt
from sample import sample, save

from classify_knn import KNNTextClassifier

(texts, labels), (new, _) = sample("train"), sample("test")
model = KNNTextClassifier(stop_words="en", keep_text=True).fit(texts, labels)
text = new[0]
explained = model.explain([text])[0]
print(explained["decided"])
for neighbor in explained["neighbors"][:3]:
    shared = ", ".join(f"{term['term']} {term['part']:.3f}" for term in neighbor["terms"])
    print(f"  {neighbor['similarity']:.3f} {neighbor['labels']} {shared}")

best = explained["scores"][0]
evidence = [*best["for"][:10], *best["against"][-5:]]
figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
values = [part["part"] for part in evidence]
axes.barh([part["term"] for part in evidence], values, color=["#2a7f4f" if value > 0 else "#b03a2e" for value in values])
axes.invert_yaxis()
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel(f"evidence for “{best['label']}” (its share of the votes is {best['score']:.2f})")
axes.set_title("\n".join(textwrap.wrap(text, 80)[:2]), fontsize=9)
save(figure, __file__)
