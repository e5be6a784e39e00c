"""Measure the peak memory of `train --tune`, compared with the size of the corpus.

    cargo build --release && python3 benches/tuning_memory.py [--program PROGRAM] [CORPUS ...]

Besides the named corpora, two are generated: 15,000 documents with 150 labels, and 12,000 with
1,000 labels. A document has 40 words, a quarter of which indicate its label. The goal is at most
250 MB + 12 x the size of the uncompressed corpus. Needs zstandard for compressed corpora.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def generate(path, documents, labels):
    draw = random.Random(labels)
    with open(path, "w") as file:
        for number in range(documents):
            label = number % labels
            words = [f"common{int(draw.paretovariate(0.6)) % 30_000}" for _ in range(30)]
            words += [f"topic{label * 7 + draw.randrange(40)}" for _ in range(10)]
            file.write(json.dumps({"text": " ".join(words), "labels": [f"label{label}"]}) + "\n")


def size_of(path):
    if path.suffix == ".zst":
        import zstandard

        with open(path, "rb") as file:
            return sum(map(len, zstandard.ZstdDecompressor().read_to_iter(file)))
    return path.stat().st_size


def peak_of(command):
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_maxrss * 1024, usage.ru_utime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "target/release/classify")
    parser.add_argument("corpora", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    print(f"{'corpus':32} {'MB':>6} {'peak MB':>8} {'goal MB':>8} {'CPU s':>7}")
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for documents, labels in ((15_000, 150), (12_000, 1_000)):
            path = pathlib.Path(folder, f"{documents} x {labels} labels.jsonl")
            generate(path, documents, labels)
            made.append(path)
        for corpus in [*made, *options.corpora]:
            size = size_of(corpus) / 1e6
            peak, seconds = peak_of([options.program, "train", corpus, "-o", f"{folder}/model", "-q", "--tune"])
            print(f"{corpus.name:32} {size:6.1f} {peak / 1e6:8.0f} {250 + 12 * size:8.0f} {seconds:7.0f}", flush=True)


if __name__ == "__main__":
    main()
