"""Test whether removing the five strongest terms of an explanation lowers the score.

    pip install ./python zstandard
    python benches/explanations.py CORPORA/debian/sections- CORPORA/mr/

For 1,000 test documents and their first labels, the script removes the five terms with the most
evidence from the text. For comparison, it removes five other random terms that the text shares with
its neighbors.
"""

import json
import re
import sys

import numpy as np
import zstandard

from classify_knn import KNNTextClassifier

WORD = re.compile(r"\w+(?:['’.]\w+)*")


def lines(path):
    with open(path, "rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    return [json.loads(line) for line in text.split("\n") if line]


def without(text, terms):
    """Return the text without these words, ignoring case."""
    return WORD.sub(lambda word: "" if word.group().casefold() in terms else word.group(), text)


def score(explained, label):
    return next((one["score"] for one in explained["scores"] if one["label"] == label), 0.0)


def main():
    for prefix in sys.argv[1:]:
        train, test = lines(f"{prefix}train.jsonl.zst"), lines(f"{prefix}test.jsonl.zst")
        random = np.random.default_rng(0)
        chosen = [test[row]["text"] for row in random.choice(len(test), 1_000, replace=False)]
        model = KNNTextClassifier(device="cpu").fit([row["text"] for row in train], [row["labels"] for row in train])
        before, texts, others = [], [], []
        for text, explained in zip(chosen, model.explain(chosen, terms=10_000), strict=True):
            best = explained["scores"][0] if explained["scores"] else None
            if best is None:
                continue
            strongest = [part["term"] for part in best["for"][:5]]
            rest = sorted({part["term"] for near in explained["neighbors"] for part in near["terms"]} - set(strongest))
            drawn = random.choice(rest, min(len(strongest), len(rest)), replace=False).tolist() if rest else []
            before.append((best["label"], best["score"]))
            texts.append(without(text, set(strongest)))
            others.append(without(text, set(drawn)))
        after = [score(one, label) for one, (label, _) in zip(model.explain(texts), before, strict=True)]
        random_after = [score(one, label) for one, (label, _) in zip(model.explain(others), before, strict=True)]
        first = np.asarray([value for _, value in before])
        for name, values in (("the five strongest", np.asarray(after)), ("five others", np.asarray(random_after))):
            print(f"{prefix} {len(first)} documents, without {name}: score {first.mean():.3f} -> {values.mean():.3f}, lower in {np.mean(values < first):.1%}")


main()
