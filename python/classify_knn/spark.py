"""Classification of PySpark data frames on the executors of a cluster.

Each executor uses the search engine of :class:`~classify_knn.KNNTextClassifier`. Spark distributes
documents and sums counts. Results are bit-identical for any partitioning, and if Spark repeats a
task.

======================  ==========================================================
:func:`predict`         predicts the labels of documents
:func:`evaluate`        computes metrics on documents with known labels
:func:`fit`             writes training rows as shards, one for each partition, to
                        storage that all executors share
:func:`kneighbors`      finds the nearest training documents in all shards
======================  ==========================================================
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from sklearn.utils.validation import check_is_fitted

from . import _native
from ._classifier import _NATIVE_PARAMETERS, KNNTextClassifier

#: Name of the file that describes the shards.
MANIFEST = "manifest.json"

#: Model of this process (a Python worker of an executor), keyed by the digest of its file, its
#: device and its number of threads.
_opened: dict[tuple[str, str, int], KNNTextClassifier] = {}


def _model_of(model: KNNTextClassifier | str | os.PathLike) -> KNNTextClassifier:
    if not isinstance(model, KNNTextClassifier):
        model = KNNTextClassifier.load(model, device="cpu")
    check_is_fitted(model)
    if model._model.input != "text":
        raise ValueError(
            f"the model was trained on {model._model.input}: expected a model trained on texts"
        )
    if model._model.needs_batch:
        raise ValueError(
            "the rule pcut decides on whole batches, which Spark splits: "
            "use a model with another rule"
        )
    return model


def _ship_model(df: DataFrame, model: KNNTextClassifier) -> tuple[Broadcast, str]:
    """Broadcast the serialized model to the executors. Return the broadcast and the digest."""
    data = model._model.to_bytes()
    return df.sparkSession.sparkContext.broadcast(data), hashlib.sha256(data).hexdigest()


def _receive_model(shipped: Broadcast, digest: str, device: str, n_jobs: int) -> KNNTextClassifier:
    """Return the model in a Python worker, and deserialize it on the first call."""
    key = (digest, device, n_jobs)
    if key not in _opened:
        _opened.clear()
        made = KNNTextClassifier(n_jobs=n_jobs, device=device)
        made._model = _native.Model.from_bytes(shipped.value, n_jobs=n_jobs, device=device)
        made._load_labels()
        _opened[key] = made
    return _opened[key]


def _check_column(df: DataFrame, column: str, *, lists: bool = False) -> None:
    if column not in df.columns:
        raise ValueError(f"the data frame has no column {column!r}: it has {', '.join(df.columns)}")
    kind = df.schema[column].dataType
    of_what = kind.elementType if lists and isinstance(kind, T.ArrayType) else kind
    if not isinstance(of_what, T.StringType):
        expected = "strings, or arrays of strings" if lists else "strings"
        raise ValueError(f"the column {column!r} is of {kind.simpleString()}: expected {expected}")


def _texts(batch: pa.RecordBatch, column: str) -> list[str]:
    texts = batch.column(column).to_pylist()
    # Null becomes an empty text, which has no known term.
    return [text or "" for text in texts]


def predict(
    df: DataFrame,
    model: KNNTextClassifier | str | os.PathLike,
    *,
    text: str = "text",
    device: str = "cpu",
    n_jobs: int = 1,
) -> DataFrame:
    """Predict the labels of documents.

    Parameters
    ----------
    df : DataFrame
        Documents.
    model : KNNTextClassifier or path
        The model, or its file on the driver. It is sent once to each executor.
    text : str, default='text'
        The column of the texts. Null is an empty text.
    device : str, default='cpu'
        Where the executors search.
    n_jobs : int, default=1
        The number of threads of a task; set ``spark.task.cpus`` to the same.

    Returns
    -------
    DataFrame
        `df` with the columns ``labels`` (array of strings, best first), ``scores`` (array of
        doubles: shares of the votes), ``confidence`` (double; null if the model is not calibrated)
        and ``reason`` (string; the reason why there is no reliable label, or null).
    """
    _check_column(df, text)
    shipped, digest = _ship_model(df, _model_of(model))
    added = [
        T.StructField("labels", T.ArrayType(T.StringType(), False), False),
        T.StructField("scores", T.ArrayType(T.DoubleType(), False), False),
        T.StructField("confidence", T.DoubleType()),
        T.StructField("reason", T.StringType()),
    ]
    taken = [field.name for field in added if field.name in df.columns]
    if taken:
        raise ValueError(f"the data frame has a column {taken[0]!r} already: rename it")

    def classify(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitted = _receive_model(shipped, digest, device, n_jobs)
        for batch in batches:
            answers = fitted._model.classify(_texts(batch, text))
            names = np.asarray(fitted._model.labels, dtype=object)
            indptr, labels = answers["labels"]
            score_ptr, scored, scores = answers["scores"]
            best = []
            for row in range(batch.num_rows):
                own = slice(score_ptr[row], score_ptr[row + 1])
                score = dict(zip(scored[own].tolist(), scores[own].tolist(), strict=True))
                best.append([score.get(label, 0.0) for label in labels[indptr[row] : indptr[row + 1]].tolist()])
            offsets = pa.array(indptr.astype(np.int32))
            confidence = answers.get("confidence")
            columns = [
                pa.ListArray.from_arrays(offsets, pa.array(names[labels].tolist(), pa.string())),
                pa.array(best, pa.list_(pa.float64())),
                pa.nulls(batch.num_rows, pa.float64()) if confidence is None else pa.array(confidence),
                pa.array([reason or None for reason in answers["reasons"]], pa.string()),
            ]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], [*batch.schema.names, *(f.name for f in added)])

    return df.mapInArrow(classify, T.StructType([*df.schema.fields, *added]))


def evaluate(
    df: DataFrame,
    model: KNNTextClassifier | str | os.PathLike,
    *,
    text: str = "text",
    labels: str = "labels",
    device: str = "cpu",
    n_jobs: int = 1,
) -> dict[str, Any]:
    """Compare predictions with known labels.

    Parameters
    ----------
    df : DataFrame
        Documents with known labels.
    model : KNNTextClassifier or path
        As for :func:`predict`.
    text : str, default='text'
        The column of the texts.
    labels : str, default='labels'
        The column of the labels: a string, or an array of strings.
    device : str, default='cpu'
        Where the executors search.
    n_jobs : int, default=1
        The number of threads of a task; set ``spark.task.cpus`` to the same.

    Returns
    -------
    dict
        ``documents``, ``exact`` (the share of documents with exactly the correct labels),
        ``micro_f1``, ``macro_f1`` (over all known and predicted labels) and ``labels``: for each
        label the numbers of ``documents``, ``predicted`` and ``right`` (correctly predicted).
    """
    _check_column(df, labels, lists=True)
    known = df.schema[labels].dataType
    several = isinstance(known, T.ArrayType)
    given = F.col(labels) if several else F.array(F.col(labels))
    known_labels = F.coalesce(F.array_distinct(F.array_compact(given)), F.array().cast("array<string>"))
    asked = df.select(F.coalesce(F.col(text), F.lit("")).alias("text"), known_labels.alias("known"))
    predicted = predict(asked, model, text="text", device=device, n_jobs=n_jobs).cache()
    try:
        same = F.size(F.array_except("known", "labels")) + F.size(F.array_except("labels", "known")) == 0
        whole = predicted.agg(F.count(F.lit(1)), F.sum(same.cast("long"))).collect()[0]
        sides = [
            predicted.select(F.explode(column).alias("label"), F.lit(side).alias("side"))
            for side, column in (
                ("documents", F.col("known")),
                ("predicted", F.col("labels")),
                ("right", F.array_intersect("known", "labels")),
            )
        ]
        rows = sides[0].unionByName(sides[1]).unionByName(sides[2]).groupBy("label", "side").count().collect()
    finally:
        predicted.unpersist()
    by_label: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = by_label.setdefault(row["label"], {"documents": 0, "predicted": 0, "right": 0})
        counts[row["side"]] = row["count"]

    def f1(counts: dict[str, int]) -> float:
        return 2 * counts["right"] / max(1, counts["documents"] + counts["predicted"])

    total = {side: sum(counts[side] for counts in by_label.values()) for side in ("documents", "predicted", "right")}
    ordered = dict(sorted(by_label.items()))
    return {
        "documents": whole[0],
        "exact": (whole[1] or 0) / max(1, whole[0]),
        "micro_f1": f1(total),
        "macro_f1": sum(map(f1, ordered.values())) / max(1, len(ordered)),
        "labels": ordered,
    }


def fit(
    df: DataFrame,
    path: str | os.PathLike,
    *,
    text: str = "text",
    labels: str = "labels",
    id: str | None = None,
    min_df: int = 1,
    max_df: int | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Write training documents as shards: one model file for each partition, with the same term
    weights in all files.

    Spark counts the document frequencies over all documents. Then each partition weights its own
    rows. Each row is bit-identical to the row in a model of all documents.

    Parameters
    ----------
    df : DataFrame
        Documents, in the order of the partitions and of their rows. If the order matters, sort the
        data frame.
    path : path
        A new folder that the driver and all executors share. It must not contain other shards.
    text, labels : str
        The columns of the texts and of the labels (a string, or an array of strings; null means no
        label).
    id : str, default=None
        The column of the identifiers. None: numbers from 1.
    min_df, max_df : int
        The minimum and the maximum number of documents with a term.
    **parameters
        Parameters of :class:`~classify_knn.KNNTextClassifier`, except tuning, term selection and
        dense vectors.

    Returns
    -------
    dict
        The manifest: ``documents``, ``terms``, ``mean_length``, and ``shards`` with ``file``,
        ``documents`` and ``first`` (the number of the first document).
    """
    _check_column(df, text)
    _check_column(df, labels, lists=True)
    if id is not None and id not in df.columns:
        raise ValueError(f"the data frame has no column {id!r}: it has {', '.join(df.columns)}")
    for name, limit in (("min_df", min_df), ("max_df", max_df)):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ValueError(f"{name}={limit!r}: expected a number of documents from 1")
    unknown = set(parameters) - set(_NATIVE_PARAMETERS)
    if unknown:
        raise TypeError(f"fit() has no parameter {sorted(unknown)[0]!r}")
    for name in ("tune", "select", "max_features", "chi2_power", "features", "target_error", "foreign"):
        if parameters.get(name) not in (None, False, 0, "tfidf"):
            raise ValueError(
                f"{name}={parameters[name]!r}: shards have neither tuning, "
                "term selection nor dense vectors, which need all documents"
            )
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        raise FileExistsError(
            f"{folder / MANIFEST}: the folder already contains shards; "
            "choose another folder, or remove it"
        )
    several = isinstance(df.schema[labels].dataType, T.ArrayType)
    wanted = {**dict.fromkeys(_NATIVE_PARAMETERS), **parameters, "several": several}

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            terms, documents, occurrences = _native.count_terms(_texts(batch, text), wanted, n_jobs=1)
            columns = [pa.array(terms, pa.string()), pa.array(documents), pa.array(occurrences)]
            yield pa.RecordBatch.from_arrays(columns, ["term", "documents", "occurrences"])

    counted = df.select(text).mapInArrow(count, "term string, documents long, occurrences double")
    frequent = counted.groupBy("term").agg(F.sum("documents").alias("documents"), F.sum("occurrences").alias("occurrences"))
    frequent = frequent.filter(F.col("documents") >= min_df)
    if max_df is not None:
        frequent = frequent.filter(F.col("documents") <= max_df)
    # Number of documents before each partition. Both passes must see the same partitions.
    partition = F.spark_partition_id().alias("partition")
    sizes = {row["partition"]: row["count"] for row in df.groupBy(partition).count().collect()}
    total = sum(sizes.values())
    if total == 0:
        raise ValueError("the data frame has no documents")
    found = frequent.toArrow()
    # Terms are sorted in byte order, which differs from Spark's order of strings.
    order = sorted(zip(*(found.column(name).to_pylist() for name in found.column_names), strict=True), key=lambda row: row[0].encode())
    mean_length = float(sum(row[2] for row in order)) / total
    whole = ([row[0] for row in order], [int(row[1]) for row in order], total, mean_length)
    shipped = df.sparkSession.sparkContext.broadcast(whole)
    starts = {}
    first = 0
    for number in sorted(sizes):
        starts[number] = first
        first += sizes[number]
    target = str(folder.resolve())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("only Spark tasks can write shards")
        number = context.partitionId()
        texts = [one or "" for one in table.column(text).to_pylist()]
        given = table.column(labels).to_pylist()
        # Null means no label.
        given = [one or [] if several else [one] for one in given]
        given = [list(dict.fromkeys(label for label in one if label is not None)) for one in given]
        for row, one in enumerate(given):
            if "" in one:
                raise ValueError(f"partition {number}, row {row}: a label is the empty string")
        names = sorted({label for one in given for label in one})
        place = {label: at for at, label in enumerate(names)}
        indptr = np.concatenate([[0], np.cumsum([len(one) for one in given])]).astype(np.int64)
        indices = np.asarray([place[label] for one in given for label in one], dtype=np.int64)
        start = starts[number]
        ids = [str(one) for one in table.column(id).to_pylist()] if id else [str(start + at + 1) for at in range(len(texts))]
        model, _ = _native.train(
            texts, (names, indptr, indices), wanted, ids=ids, n_jobs=1, device="cpu", part_of=shipped.value
        )
        file = f"part-{number:06}.model"
        # `save` renames a temporary file, and a repeated task writes the same bytes.
        model.save(os.path.join(target, file))
        columns = [pa.array([number]), pa.array([file]), pa.array([len(texts)]), pa.array([start])]
        yield pa.RecordBatch.from_arrays(columns, ["partition", "file", "documents", "first"])

    columns = [text, labels, *([id] if id else [])]
    schema = "partition long, file string, documents long, first long"
    written = sorted(df.select(*dict.fromkeys(columns)).mapInArrow(write, schema).collect(), key=lambda row: row["partition"])
    if [row["documents"] for row in written] != [sizes[number] for number in sorted(sizes)]:
        raise RuntimeError("the partitions changed between two passes: cache or write the data frame first")
    manifest = {
        "schema": "classify.shards/1",
        "documents": total,
        "terms": len(order),
        "mean_length": mean_length,
        "shards": [{key: row[key] for key in ("file", "documents", "first")} for row in written],
    }
    temporary = folder / f"{MANIFEST}.tmp"
    temporary.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    os.replace(temporary, folder / MANIFEST)
    return manifest


def kneighbors(
    df: DataFrame,
    path: str | os.PathLike,
    k: int,
    *,
    text: str = "text",
    device: str = "cpu",
    n_jobs: int = 1,
    groups: int = 1,
) -> DataFrame:
    """Find the nearest training documents of each document in all shards.

    Each task searches one shard after the other for its documents, and keeps the best neighbors: by
    decreasing similarity, then by increasing row number. With several `groups`, a task searches one
    group of shards for all documents, and the results of the groups are merged. In both cases, the
    results are bit-identical to those of one model of all documents.

    Parameters
    ----------
    df : DataFrame
        Documents.
    path : path
        The folder that :func:`fit` wrote.
    k : int
        The number of neighbors per document.
    text : str, default='text'
        The column of the texts.
    device : str, default='cpu'
        Where the executors search.
    n_jobs : int, default=1
        The number of threads of a task; set ``spark.task.cpus`` to the same.
    groups : int, default=1
        The number of groups of shards. With 1, every task reads all shards for its documents, and
        nothing is shuffled. With more groups, each shard is read only once, and Spark shuffles
        documents and neighbors; use this for few documents and many shards. Each task then holds
        all documents in memory, and the order of `df` is lost.

    Returns
    -------
    DataFrame
        `df` with the column ``neighbors``: an array of structs, best first, of ``row`` (the number
        of the training document in all shards, from 0), ``id``, ``similarity`` and ``labels``. Only
        documents with a similarity above 0 are neighbors.
    """
    _check_column(df, text)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k={k!r}: expected an integer from 1")
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ValueError(f"groups={groups!r}: expected an integer from 1")
    if "neighbors" in df.columns:
        raise ValueError("the data frame has a column 'neighbors' already: rename it")
    folder = pathlib.Path(path).resolve()
    with open(folder / MANIFEST, encoding="utf-8") as file:
        shards = json.load(file)["shards"]
    neighbor = T.StructType(
        [
            T.StructField("row", T.LongType(), False),
            T.StructField("id", T.StringType(), False),
            T.StructField("similarity", T.FloatType(), False),
            T.StructField("labels", T.ArrayType(T.StringType(), False), False),
        ]
    )
    added = T.StructField("neighbors", T.ArrayType(neighbor, False), False)
    search = _Search([dict(shard) for shard in shards], str(folder), k, device, n_jobs)
    schema = T.StructType([*df.schema.fields, added])
    groups = min(groups, len(shards))
    if groups > 1:
        return _search_groups(df, schema, text, search, groups)

    def search_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        lists = search([one for batch in held for one in _texts(batch, text)], search.shards)
        at = 0
        for batch in held:
            column = lists.slice(at, batch.num_rows)
            at += batch.num_rows
            yield pa.RecordBatch.from_arrays([*batch.columns, column], [*batch.schema.names, "neighbors"])

    return df.mapInArrow(search_all, schema)


def _full(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


#: Arrow type of the column ``neighbors``, without nulls as in the Spark schema.
_NEIGHBORS = pa.list_(
    _full(
        "element",
        pa.struct(
            [
                _full("row", pa.int64()),
                _full("id", pa.string()),
                _full("similarity", pa.float32()),
                _full("labels", pa.list_(_full("element", pa.string()))),
            ]
        ),
    )
)


@dataclasses.dataclass
class _Search:
    """A search of shards, which Spark sends to the executors."""

    shards: list[dict[str, Any]]
    folder: str
    k: int
    device: str
    n_jobs: int

    def __call__(self, texts: list[str], shards: list[dict[str, Any]]) -> pa.Array:
        """Find the neighbors of each text in the given shards, which must be in row order."""
        rows = np.full((len(texts), self.k), -1, dtype=np.int64)
        similarities = np.full((len(texts), self.k), -np.inf, dtype=np.float32)
        named: dict[int, tuple[str, list[str]]] = {}
        for shard in shards:
            model = _native.Model.open(os.path.join(self.folder, shard["file"]), n_jobs=self.n_jobs, device=self.device)
            own, near = model.kneighbors(texts, self.k)
            own = np.where(own >= 0, own + shard["first"], -1)
            # A stable sort keeps rows of equal similarity in increasing order.
            all_rows, all_near = np.hstack([rows, own]), np.hstack([similarities, near])
            best = np.argsort(-all_near, axis=1, kind="stable")[:, : self.k]
            rows, similarities = np.take_along_axis(all_rows, best, 1), np.take_along_axis(all_near, best, 1)
            still = set(np.unique(rows).tolist())
            named = {row: one for row, one in named.items() if row in still}
            names, first, end = model.labels, shard["first"], shard["first"] + shard["documents"]
            kept = np.unique(rows[(rows >= first) & (rows < end)])
            ids = model.ids((kept - first).tolist())
            for row, one in zip(kept.tolist(), ids, strict=True):
                named[row] = (one, [names[label] for label in model.document_labels(row - first)])
        lists = [
            [
                {"row": row, "id": named[row][0], "similarity": similarity, "labels": named[row][1]}
                for row, similarity in zip(own.tolist(), near.tolist(), strict=True)
                if row >= 0
            ]
            for own, near in zip(rows, similarities, strict=True)
        ]
        return pa.array(lists, _NEIGHBORS)


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _from_bytes(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def _merge_neighbors(parts: list[pa.Array], k: int) -> pa.Array:
    """Select the k best neighbors of each document, by descending similarity, then ascending
    row."""
    of = np.concatenate([np.repeat(np.arange(len(part)), np.diff(part.offsets.to_numpy())) for part in parts])
    flat = pa.concat_arrays([part.flatten() for part in parts])
    rows, similarities = flat.field("row").to_numpy(), flat.field("similarity").to_numpy()
    order = np.lexsort((rows, -similarities, of))
    counts = np.bincount(of, minlength=len(parts[0]))
    ranks = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, k))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), flat.take(pa.array(order[ranks < k])), type=_NEIGHBORS)


def _join_neighbors(table: pa.Table, numbers: list[int], k: int) -> pa.Table:
    """Combine a batch of documents with their neighbors in all groups. The row of the first group
    contains the documents."""
    parts = {row["group"]: row for row in table.to_pylist()}
    if sorted(parts) != sorted(numbers):
        raise RuntimeError(
            "the documents changed between two passes: cache or write the data frame first"
        )
    documents = _from_bytes(parts[numbers[0]]["documents"])
    lists = [_from_bytes(parts[number]["neighbors"]).column(0) for number in numbers]
    return pa.Table.from_arrays([*documents.columns, _merge_neighbors(lists, k)], schema=documents.schema.append(_full("neighbors", _NEIGHBORS)))


def _search_groups(df: DataFrame, schema: T.StructType, text: str, search: _Search, groups: int) -> DataFrame:
    """Find neighbors in groups of shards. Each task searches one group for all documents; then the
    results are merged.

    Batches of documents are sent as bytes. A batch is identified by its position and a hash of its
    bytes, so results for different contents of a batch are never merged.
    """
    session = df.sparkSession
    # For each partition, a number that Spark's hash assigns to it.
    placed = F.pmod(F.hash("id"), F.lit(groups)).alias("partition")
    found = session.range(64 * groups).select("id", placed).groupBy("partition").agg(F.min("id").alias("id")).collect()
    numbers = [row["id"] for row in found]
    ends = np.linspace(0, len(search.shards), len(numbers) + 1).round().astype(int).tolist()
    shards = {number: search.shards[ends[at] : ends[at + 1]] for at, number in enumerate(numbers)}

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        for at, batch in enumerate(batches):
            if batch.num_rows:
                data = _to_bytes(batch)
                key = f"{partition}-{at}-{hashlib.sha256(data).hexdigest()}"
                yield pa.RecordBatch.from_arrays([pa.array([key]), pa.array([data], pa.binary())], ["key", "documents"])

    def search_group(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: dict[int, list[tuple[str, bytes]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                held.setdefault(row["group"], []).append((row["key"], row["documents"]))
        for number, packs in held.items():
            documents = [_from_bytes(data) for _, data in packs]
            lists = search([one for batch in documents for one in _texts(batch, text)], shards[number])
            at = 0
            for (key, data), batch in zip(packs, documents, strict=True):
                own = pa.RecordBatch.from_arrays([lists.slice(at, batch.num_rows)], ["neighbors"])
                at += batch.num_rows
                # Only the first group returns the documents.
                data = data if number == numbers[0] else None
                columns = [pa.array([key]), pa.array([number]), pa.array([data], pa.binary()), pa.array([_to_bytes(own)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["key", "group", "documents", "neighbors"])

    packs = df.mapInArrow(pack, "key string, documents binary")
    grouped = packs.withColumn("group", F.explode(F.array(*[F.lit(number).cast("long") for number in numbers])))
    partial = grouped.repartition(len(numbers), "group")
    partial = partial.mapInArrow(search_group, "key string, group long, documents binary, neighbors binary")
    return partial.groupBy("key").applyInArrow(lambda table: _join_neighbors(table, numbers, search.k), schema)
