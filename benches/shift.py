"""Measures the note that documents differ from the training documents (`evaluate`, `predict`).

No shift: each corpus is split at random, 20 times; the note should appear in at most 5 % of the
splits. Shift: by time (Reuters-21578 by date), by source (Debian sections, split by source
package), and by length (the longest half of the documents, or only the shortest half for training).

    python benches/shift.py --classify target/release/classify --corpora CORPORA

Prints how often the note appears and, for each shift, the property that differs most.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

from drift import SPLITS, corpora, shuffled
from order import written


def shift_of(program, train, test, flags=()):
    """Return what `classify evaluate` says about a shift, or None."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        paths = [written(folder / f"{name}.jsonl", [(text, [label]) for text, label in documents])
                 for name, documents in (("train", train), ("test", test))]
        command = [program, "evaluate", "--train", paths[0], "--test", paths[1], *flags]
        subprocess.run([*command, "-q", "--json", folder / "found.json"], check=True, stdout=subprocess.DEVNULL)
        return json.loads((folder / "found.json").read_text()).get("shift")


def shifts(name, train, test):
    """Return pairs of document lists that differ: {name: (training, test)}."""
    train = shuffled(train, 0)
    half = len(train) // 2
    first, second = train[:half], train[half:]
    median = np.median([len(text) for text, _ in train])
    longer = [pair for pair in second if len(pair[0]) > median]
    shorter = [pair for pair in first if len(pair[0]) <= median]
    named = {"r52": {"later news": (train, test)}, "sections": {"other packages": (train, test)}}
    return {**named.get(name, {}), "longer texts": (first, longer), "trained on shorter texts": (shorter, second)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classify", default="target/release/classify")
    parser.add_argument("--corpora", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="banking77,r52,mag,mr,sections")
    options = parser.parse_args()
    read = {name: corpora(options.corpora)[name]() for name in options.only.split(",")}
    all_alarms = 0
    print(f"no shift: {SPLITS} random splits, nine tenths for training, flags in turn: none, --tune=votes")
    for name, (train, _) in read.items():
        alarms = []
        for seed in range(SPLITS):
            documents = shuffled(train, seed)[:8000]
            cut = len(documents) * 9 // 10
            flags = [["--tune=votes"], []][seed % 2]
            found = shift_of(options.classify, documents[:cut], documents[cut:], flags)
            alarms += [found["property"]] if found else []
        all_alarms += len(alarms)
        print(f"{name:10} {len(alarms):2} of {SPLITS} {' '.join(alarms)}", flush=True)
    print(f"all        {all_alarms} of {SPLITS * len(read)}\n")
    print("corpus     shift                     documents      largest difference: property, at most, share of training, of test")
    for name, (train, test) in read.items():
        for kind, (first, second) in shifts(name, train, test).items():
            found = shift_of(options.classify, first, second)
            sizes = f"{len(first)} / {len(second)}"
            said = "no note"
            if found:
                said = f"{found['property']:13} {found['value']:7.2f} {found['training_share']:.2f} {found['share']:.2f}"
            print(f"{name:10} {kind:25} {sizes:14} {said}", flush=True)


if __name__ == "__main__":
    main()
