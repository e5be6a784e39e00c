"""Generates sklearn.json: the weights of scikit-learn's TfidfVectorizer with default parameters.

The documents are the first 60 documents of corpora/sample/train.jsonl and some unusual texts.

    python tests/golden/make.py > tests/golden/sklearn.json     (scikit-learn 1.9.1)
"""

import json
import pathlib
import sys

from sklearn.feature_extraction.text import TfidfVectorizer

sample = pathlib.Path(__file__).parents[2] / "corpora" / "sample" / "train.jsonl"
texts = [json.loads(line)["text"] for line in sample.open(encoding="utf-8")][:60]
texts += [
    "A lone_word, x y2 U.S.A. don't 3.14 1,000",
    "Straße STRASSE ΣΊΣΥΦΟΣ Ñandú café cafe\u0301 İstanbul",
    "हिन्दी भाषा 東京都 한국어 ½ ² Ⅷ a\u0300b",
    "the the the the of of",
    "",
]
vectorizer = TfidfVectorizer()
matrix = vectorizer.fit_transform(texts)
terms = vectorizer.get_feature_names_out()
rows = [
    sorted((str(terms[column]), float(value)) for column, value in zip(row.indices, row.data))
    for row in (matrix[index] for index in range(matrix.shape[0]))
]
json.dump([{"text": text, "weights": row} for text, row in zip(texts, rows)], sys.stdout, ensure_ascii=False)
