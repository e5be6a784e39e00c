"""Measures whether `classify check --test` finds test documents that are also training documents.

150 training documents are copied into the test set, and 150 others (of at least 12 words) after one
word in twenty was replaced. Documents that are reported before, from the unchanged test set, are not
counted as wrong: test sets have leaks of their own.

    python benches/leaks.py --classify target/release/classify --corpora CORPORA

Prints the planted leaks that are found, other documents that are reported in addition, and micro F1
with the planted leaks, without all leaks, and on the unchanged test set without its leaks.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile

from drift import corpora

PLANTED = 150
TEST = 3000


def find_leaks(program, train, test):
    """Return what `classify check` reports about lists of (identifier, text, label)."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, documents in (("train", train), ("test", test)):
            lines = (json.dumps({"id": id, "text": text, "labels": [label]}) for id, text, label in documents)
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        command = [program, "check", folder / "train.jsonl", "--test", folder / "test.jsonl"]
        subprocess.run([*command, "-q", "--json", folder / "found.json"], check=True, stdout=subprocess.DEVNULL)
        found = json.loads((folder / "found.json").read_text())["leaks"]
    return {leak["test"]["id"] for leak in found["leaks"]}, found


def edited(text, generator):
    """Replace one word in twenty, and at least one."""
    words = text.split()
    for _ in range(max(1, len(words) // 20)):
        words[generator.randrange(len(words))] = "zzedited"
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classify", default="target/release/classify")
    parser.add_argument("--corpora", type=pathlib.Path, required=True)
    options = parser.parse_args()
    print("corpus     copies found  edited found  others  micro F1: with  without  unchanged without")
    for name in ("banking77", "r52", "mag", "sections"):
        train, test = corpora(options.corpora)[name]()
        train = [(f"train-{at}", *pair) for at, pair in enumerate(train)]
        test = [(f"test-{at}", *pair) for at, pair in enumerate(test[:TEST])]
        before, unchanged = find_leaks(options.classify, train, test)
        generator = random.Random(1)
        copies = generator.sample(train, PLANTED)
        long = generator.sample([one for one in train if len(one[1].split()) >= 12], PLANTED)
        planted = [(f"copy-{at}", text, label) for at, (_, text, label) in enumerate(copies)]
        planted += [(f"edited-{at}", edited(text, generator), label) for at, (_, text, label) in enumerate(long)]
        after, found = find_leaks(options.classify, train, test + planted)
        count = {kind: sum(id.startswith(kind) for id in after) for kind in ("copy", "edited")}
        others = len({id for id in after if id.startswith("test")} - before)
        print(
            f"{name:10} {count['copy']:3} of {PLANTED}    {count['edited']:3} of {PLANTED}    {others:6}"
            f"          {found['micro_f1']:.4f}   {found['micro_f1_without']:.4f}   {unchanged['micro_f1_without']:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
