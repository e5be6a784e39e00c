"""Label descriptions with no documents and with few documents per label.

Run `python3 benches/descriptions.py CLASSIFY CORPORA`, where CLASSIFY is the program and CORPORA a
folder with banking77 and debian. It prints the micro F1 on the test documents, without documents for
descriptions and for mere label names, and with 1 to 100 documents per label without and with
descriptions: means of SEEDS draws, and the mean weights that were chosen.
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

SEEDS = 5
COUNTS = [1, 3, 10, 30, 100]


def read(path):
    """Return the texts and labels of a corpus."""
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return [(row["text"], [row["category"]]) for row in csv.DictReader(file)]
    with open(path, "rb") as file:
        lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8")
        return [(one["text"], one["labels"]) for one in map(json.loads, lines)]


def write(path, documents):
    with open(path, "w") as file:
        for number, (text, labels) in enumerate(documents):
            file.write(json.dumps({"id": f"d{number}", "text": text, "labels": labels}) + "\n")


def drawn(documents, count, seed):
    """Return `count` random documents of each label."""
    shuffled = documents[:]
    random.Random(seed).shuffle(shuffled)
    taken = {}
    for document in shuffled:
        of_label = taken.setdefault(document[1][0], [])
        if len(of_label) < count:
            of_label.append(document)
    return [document for label in sorted(taken) for document in taken[label]]


def main(program, corpora):
    here = pathlib.Path(__file__).parent / "descriptions"
    sources = {
        "banking77": [corpora / "banking77" / f"{part}.csv" for part in ["train", "test"]],
        "sections": [corpora / "debian" / f"sections-{part}.jsonl.zst" for part in ["train", "test"]],
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def micro_f1(*training):
            """Return the micro F1 on the test documents, and the weight of the descriptions."""
            train = [program, "train", *training, "-o", folder / "a.model"]
            said = subprocess.run(train, check=True, capture_output=True, text=True).stderr
            weight = re.search(r"descriptions with weight ([\d.]+)", said)
            evaluate = [program, "evaluate", folder / "a.model", folder / "test.jsonl", "--json", "-", "-q"]
            report = json.loads(subprocess.run(evaluate, check=True, capture_output=True, text=True).stdout)
            return report["micro"]["f1"], float(weight[1]) if weight else 0.0

        for name, (train, test) in sources.items():
            documents, described = read(train), here / f"{name}.csv"
            write(folder / "test.jsonl", read(test))
            with open(described, newline="") as file:
                labels = [row["label"] for row in csv.DictReader(file)]
            names = folder / "names.csv"
            with open(names, "w", newline="") as file:
                csv.writer(file).writerows([["label", "text"], *([label, re.sub(r"[_-]", " ", label)] for label in labels)])
            only = [micro_f1("--label-descriptions", path)[0] for path in [names, described]]
            print(f"{name}: {len(labels)} labels, without documents: names {only[0]:.3f}, descriptions {only[1]:.3f}")
            print("documents per label   without   with names   with descriptions   weight")
            for count in COUNTS:
                found = []
                for seed in range(SEEDS):
                    write(folder / "few.jsonl", drawn(documents, count, seed))
                    few = folder / "few.jsonl"
                    without, _ = micro_f1(few)
                    named, _ = micro_f1(few, "--label-descriptions", names)
                    found.append((without, named, *micro_f1(few, "--label-descriptions", described)))
                without, named, described_f1, weight = (statistics.mean(column) for column in zip(*found))
                gains = [one[2] - one[0] for one in found]
                print(f"{count:19}   {without:7.3f}   {named:10.3f}   {described_f1:17.3f}   {weight:6.1f}   "
                      f"gain {statistics.mean(gains):+.3f} ± {2.776 * statistics.stdev(gains) / SEEDS ** 0.5:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
