"""Tests that results on Spark are bit-identical to those of one machine, for any partitioning."""

import json
import os
import shutil
import sys

import numpy as np
import pytest

pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs a Java runtime", allow_module_level=True)

import pyarrow as pa  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402

from classify_knn import KNNTextClassifier, spark  # noqa: E402


@pytest.fixture(scope="module")
def session():
    # The workers must use this Python environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("classify-knn").config("spark.ui.enabled", False)
    builder = builder.config("spark.sql.shuffle.partitions", 3).config("spark.sql.execution.arrow.maxRecordsPerBatch", 37)
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def frame(session, documents, partitions, several=False):
    rows = [(f"d{n}", text, [label] if several else label) for n, (text, label) in enumerate(zip(*documents, strict=True))]
    kind = "array<string>" if several else "string"
    context = session.sparkContext
    return session.createDataFrame(context.parallelize(rows, partitions), f"id string, text string, labels {kind}")


@pytest.mark.parametrize("partitions", [1, 5])
def test_predict_and_evaluate(session, train, test, partitions, tmp_path):
    model = KNNTextClassifier(tune="votes").fit(*train)
    model.save(tmp_path / "a.model")
    documents = frame(session, test, partitions)
    for given in (model, str(tmp_path / "a.model")):
        rows = spark.predict(documents.drop("labels"), given).collect()
        assert [row["id"] for row in rows] == [f"d{n}" for n in range(len(test[0]))]
        assert [row["labels"] for row in rows] == [[label] for label in model.predict(test[0])]
        confidence, reasons = model.predict_confidence(test[0])
        assert [row["confidence"] for row in rows] == confidence.tolist()
        assert [row["reason"] or "" for row in rows] == reasons
    metrics = spark.evaluate(documents, model)
    assert metrics["documents"] == len(test[0])
    assert metrics["exact"] == model.score(*test)
    assert sum(counts["documents"] for counts in metrics["labels"].values()) == len(test[0])


def test_missing_texts_and_several_labels(session, train, test):
    model = KNNTextClassifier().fit(train[0], [[label, "all"] for label in train[1]])
    documents = session.createDataFrame([("a", "bread"), ("b", None), ("c", "")], "id string, text string")
    rows = spark.predict(documents, model).collect()
    assert rows[0]["labels"][0] == "all" and len(rows[0]["labels"]) == len(rows[0]["scores"])
    assert [row["reason"] for row in rows[1:]] == ["no-known-term"] * 2
    metrics = spark.evaluate(frame(session, test, 2, several=True), model)
    assert 0 < metrics["micro_f1"] < 1


@pytest.mark.parametrize("partitions", [1, 4, 7])
@pytest.mark.parametrize("parameters", [{}, {"weighting": "bm25", "stemmer": "english", "min_df": 2}])
def test_shards(session, train, test, partitions, parameters, tmp_path):
    model = KNNTextClassifier(**parameters).fit(train[0], train[1], ids=[f"d{n}" for n in range(len(train[0]))])
    manifest = spark.fit(frame(session, train, partitions), tmp_path / "shards", id="id", **parameters)
    assert manifest["documents"] == len(train[0])
    assert manifest["terms"] == len(model._model.terms)
    assert json.loads((tmp_path / "shards" / "manifest.json").read_text()) == manifest
    for k in (1, 10, 1_000):
        rows = spark.kneighbors(frame(session, test, 3), tmp_path / "shards", k).collect()
        indices, similarities = model._model.kneighbors(test[0], k)
        found = [[(near["row"], np.float32(near["similarity"])) for near in row["neighbors"]] for row in rows]
        expected = [
            [(row, near) for row, near in zip(own.tolist(), nearness, strict=True) if row >= 0]
            for own, nearness in zip(indices, similarities, strict=True)
        ]
        assert found == expected
        # With groups of shards, the results are the same, but their order may differ.
        for groups in (2, 3, 100):
            grouped = spark.kneighbors(frame(session, test, 3), tmp_path / "shards", k, groups=groups).collect()
            assert sorted(grouped, key=lambda row: int(row["id"][1:])) == rows
        first = rows[0]["neighbors"][0]
        assert first["id"] == f"d{first['row']}" and first["labels"] == [train[1][first["row"]]]


def test_nulls_and_several_labels_in_shards(session, tmp_path):
    rows = [("bread bread butter", ["cooking", None]), ("bread", None), (None, ["none"]), ("tune guitar", ["music", "cooking"])]
    documents = session.createDataFrame(rows, "text string, labels array<string>").coalesce(1)
    spark.fit(documents, tmp_path / "shards", features="tfidf")
    asked = session.createDataFrame([("bread", 1), (None, 2)], "text string, number int").coalesce(1)
    found = spark.kneighbors(asked, tmp_path / "shards", 5).collect()
    assert [(near["id"], near["labels"]) for near in found[0]["neighbors"]] == [("2", []), ("1", ["cooking"])]
    assert found[1]["neighbors"] == []
    spark.fit(documents.repartition(2), tmp_path / "two", features="tfidf")
    grouped = {row["number"]: row for row in spark.kneighbors(asked, tmp_path / "two", 5, groups=2).collect()}
    assert [near["similarity"] for near in grouped[1]["neighbors"]] == [near["similarity"] for near in found[0]["neighbors"]]
    assert grouped[2]["neighbors"] == [] and grouped[2]["text"] is None
    assert spark.kneighbors(asked.limit(0), tmp_path / "two", 5, groups=2).collect() == []
    assert (tmp_path / "shards" / "manifest.json").stat().st_mode & 0o044


def test_wrong_arguments(session, train, tmp_path):
    documents = frame(session, train, 2)
    model = KNNTextClassifier().fit(*train)
    with pytest.raises(ValueError, match="no column 'body'"):
        spark.predict(documents, model, text="body")
    with pytest.raises(ValueError, match="'labels' already"):
        spark.predict(documents, model)
    with pytest.raises(TypeError, match="no parameter 'neighbours'"):
        spark.fit(documents, tmp_path, neighbours=3)
    spark.fit(documents, tmp_path / "shards")
    with pytest.raises(FileExistsError, match="already contains shards"):
        spark.fit(documents, tmp_path / "shards")
    with pytest.raises(ValueError, match="tune=True: shards"):
        spark.fit(documents, tmp_path / "tuned", tune=True)
    with pytest.raises(ValueError, match="max_features=5: shards"):
        spark.fit(documents, tmp_path / "few", max_features=5)
    with pytest.raises(ValueError, match="min_df=0.5"):
        spark.fit(documents, tmp_path / "few", min_df=0.5)
    with pytest.raises(ValueError, match="'labels' is of bigint"):
        spark.fit(session.createDataFrame([("a", 1)], "text string, labels long"), tmp_path / "few")
    with pytest.raises(ValueError, match="pcut"):
        several = [[label] for label in train[1]]
        spark.predict(documents.drop("labels"), KNNTextClassifier(rule="pcut").fit(train[0], several))
    with pytest.raises(NotFittedError):
        spark.predict(documents.drop("labels"), KNNTextClassifier())
    with pytest.raises(ValueError, match="k=0"):
        spark.kneighbors(documents, tmp_path / "shards", 0)
    with pytest.raises(ValueError, match="groups=0"):
        spark.kneighbors(documents, tmp_path / "shards", 1, groups=0)


def test_changed_documents_are_not_merged():
    documents = pa.RecordBatch.from_pydict({"text": ["bread"]})
    near = [[{"row": row, "id": str(row), "similarity": 0.5, "labels": []}] for row in (7, 3)]
    lists = [spark._to_bytes(pa.RecordBatch.from_arrays([pa.array([one], spark._NEIGHBORS)], ["neighbors"])) for one in near]
    table = {"key": ["a", "a"], "group": [4, 9], "documents": [None, spark._to_bytes(documents)], "neighbors": lists}
    found = spark._join_neighbors(pa.table(table), [9, 4], 5).to_pylist()
    assert [one["row"] for one in found[0]["neighbors"]] == [3, 7] and found[0]["text"] == "bread"
    with pytest.raises(RuntimeError, match="documents changed"):
        spark._join_neighbors(pa.table(table).slice(1), [9, 4], 5)
