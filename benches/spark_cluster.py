"""Test Spark with two executor processes: bit-identical results, a killed executor, the speedup.

    pip install "./python[spark]"
    classify generate rcv1-like --documents 143149 -o MADE
    python benches/spark_cluster.py MADE          # 100,000 rows in 5 shards, 20,000 queries

The rows are converted to texts, so that Spark counts their terms. Each column is a word, repeated
according to its weight.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from pyspark.sql import SparkSession

from classify_knn import KNNTextClassifier, spark


def texts(path, count):
    """Convert lines of an svmlight file to texts."""
    made = []
    for line in open(path):
        words = []
        for pair in line.split()[1:]:
            column, value = pair.split(":")
            words.extend([f"t{column}"] * max(1, round(float(value) * 20)))
        made.append(" ".join(words))
        if len(made) == count:
            break
    return made


def session(executors):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local-cluster[{executors},1,3072]").appName("classify-knn")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.python.worker.reuse": "true",
    }.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def neighbors(frame, folder, k, groups=1):
    """Return the neighbors of all queries, and the bits of their similarities."""
    # Sorted here, because Spark would search twice: once to sample the sort keys.
    found = spark.kneighbors(frame, folder, k, groups=groups).select("query", "neighbors.row", "neighbors.similarity").toArrow().sort_by("query")
    return found.column(1).to_pylist(), [np.asarray(near, dtype=np.float32).tobytes() for near in found.column(2).to_pylist()]


def executors():
    """Return the processes of the executors."""
    found = subprocess.run(["pgrep", "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True).stdout
    return [int(line) for line in found.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=5)
    parser.add_argument("--k", type=int, default=10)
    arguments = parser.parse_args()
    documents = [
        text
        for part in ("train", "test_pt0", "test_pt1", "test_pt2", "test_pt3")
        for text in texts(arguments.made / f"lyrl2004_vectors_{part}.dat", arguments.rows + arguments.queries)
    ]
    train, queries = documents[: arguments.rows], documents[arguments.rows : arguments.rows + arguments.queries]
    print(f"{len(train)} rows, {len(queries)} queries, {arguments.shards} shards, k = {arguments.k}", flush=True)
    labels = [str(row % 7) for row in range(len(train))]
    begin = time.perf_counter()
    model = KNNTextClassifier(device="cpu").fit(train, labels)
    indices, similarities = model._model.kneighbors(queries, arguments.k)
    print(f"one machine: {time.perf_counter() - begin:.1f} s for training and searching", flush=True)
    expected = [row[row >= 0].tolist() for row in indices]
    bits = [near[row >= 0].tobytes() for row, near in zip(indices, similarities, strict=True)]
    folder = pathlib.Path(tempfile.mkdtemp()) / "shards"
    seconds = {}
    for count in (2, 1):
        made = session(count)
        context = made.sparkContext
        if count == 2:
            training = made.createDataFrame(context.parallelize(list(zip(train, labels, strict=True)), arguments.shards), "text string, labels string")
            begin = time.perf_counter()
            spark.fit(training, folder)
            print(f"fit with {count} executors: {time.perf_counter() - begin:.1f} s, {sum(f.stat().st_size for f in folder.iterdir()) / len(train):.0f} bytes per document", flush=True)
        asked = made.createDataFrame(context.parallelize(list(enumerate(queries)), 8), "query long, text string").cache()
        asked.count()
        spark.kneighbors(asked.limit(8), folder, 1).count()
        begin = time.perf_counter()
        rows, near = neighbors(asked, folder, arguments.k)
        seconds[count] = time.perf_counter() - begin
        print(f"kneighbors with {count} executors: {seconds[count]:.1f} s; equal to one machine, to the bit: {rows == expected and near == bits}", flush=True)
        if count == 2:
            begin = time.perf_counter()
            rows, near = neighbors(asked, folder, arguments.k, groups=2)
            took = time.perf_counter() - begin
            print(f"the same, shards in 2 groups: {took:.1f} s; equal: {rows == expected and near == bits}", flush=True)
            killed = []

            def kill():
                time.sleep(seconds[2] / 3)
                killed.append(executors()[0])
                os.kill(killed[0], signal.SIGKILL)

            thread = threading.Thread(target=kill)
            thread.start()
            begin = time.perf_counter()
            rows, near = neighbors(asked, folder, arguments.k)
            took = time.perf_counter() - begin
            thread.join()
            print(f"an executor killed after {seconds[2] / 3:.1f} s: {took:.1f} s, {took - seconds[2]:+.1f} s; equal: {rows == expected and near == bits}", flush=True)
        made.stop()
    print(f"two executors against one: {seconds[1] / seconds[2]:.2f} x", flush=True)
    shutil.rmtree(folder.parent)


main()
