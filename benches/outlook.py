"""What `classify next` expects of more labels, and what they add.

Run `python3 benches/outlook.py CLASSIFY CORPORA [NAME…]`, where CLASSIFY is the program, CORPORA a
folder with banking77, mr, mag and debian, and NAME limits the corpora. A model is tuned on random documents; the rest of the corpus is the
pool. The expected share of right labels and the expected gain of 100 documents are compared with the
share of right labels in the pool, and with that of a model of 100 more random documents: means of SEEDS
draws.
"""

import csv
import io
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

import zstandard

SEEDS = 4
COUNTS = [200, 400, 800]


def read(path):
    """Return the texts and the first label of each document of a corpus."""
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return [(row["text"], row["category"]) for row in csv.DictReader(file)]
    with open(path, "rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8")
        return [(one["text"], one["labels"][0]) for one in map(json.loads, lines)]


def write(path, documents):
    with open(path, "w") as file:
        for number, (text, label) in documents:
            file.write(json.dumps({"id": f"d{number}", "text": text, "labels": [label]}) + "\n")


def main(program, corpora, *only):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def run(*arguments):
            return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout

        def right(documents, pool):
            """Return the share of right labels in a pool."""
            write(folder / "train.jsonl", documents)
            write(folder / "pool.jsonl", pool)
            run("train", folder / "train.jsonl", "--tune", "-q", "-o", folder / "a.model")
            report = run("evaluate", folder / "a.model", folder / "pool.jsonl", "--json", "-", "-q")
            return json.loads(report)["accuracy"]

        print("corpus       documents   right: expected   found   gain of 100: expected   found")
        for name, path in {
            "banking77": corpora / "banking77" / "train.csv",
            "mr": corpora / "mr" / "train.jsonl.zst",
            "mag": corpora / "mag" / "train.jsonl.zst",
            "sections": corpora / "debian" / "sections-train.jsonl.zst",
        }.items():
            if only and name not in only:
                continue
            documents = list(enumerate(read(path)))
            for count in COUNTS:
                rows = []
                for seed in range(SEEDS):
                    random.Random(seed).shuffle(documents)
                    pool = documents[count + 100:count + 3100]
                    more = right(documents[:count + 100], pool)
                    found = right(documents[:count], pool)
                    said = run("next", folder / "a.model", folder / "pool.jsonl", "-n", "1", "-q")
                    share = float(re.search(r"probably labels ([\d.]+) %", said)[1]) / 100
                    gain = float(re.search(r"add about ([\d.]+) points", said)[1]) / 100
                    rows.append((share, found, gain, more - found))
                share, found, gain, gained = (statistics.mean(column) for column in zip(*rows))
                print(f"{name:12} {count:9}   {share:15.3f}   {found:5.3f}   {gain:21.3f}   {gained:5.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), *sys.argv[3:])
