"""Generate short texts with many labels from the first lines of Debian package descriptions.

    python3 benches/short_texts.py CORPORA OUT     (requires zstandard)

The script writes OUT-train.jsonl (JSONL, 15,000 texts of 150 labels) and OUT-test.jsonl. The label of a
package is its rarest tag. The labels are the 150 tags with the most packages, and the number of
texts per label is limited. The result resembles intent classification corpora in size and length.
"""

import collections
import json
import pathlib
import random
import sys

import zstandard

LABELS, TRAIN, TEST = 150, 15_000, 3_000


def packages(folder):
    for part in ["train", "test"]:
        with open(folder / f"debian/tags-{part}.jsonl.zst", "rb") as file:
            lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().splitlines()
        yield from map(json.loads, lines)


def main():
    folder, out = pathlib.Path(sys.argv[1]), sys.argv[2]
    all_packages = list(packages(folder))
    random.Random(1).shuffle(all_packages)
    sizes = collections.Counter(tag for package in all_packages for tag in package["labels"])
    by_tag = collections.defaultdict(list)
    for package in all_packages:
        if package["labels"]:
            by_tag[min(package["labels"], key=lambda tag: (sizes[tag], tag))].append(package)
    labels = sorted(by_tag, key=lambda tag: (-len(by_tag[tag]), tag))[:LABELS]
    # The largest limit on the packages of a label that leaves enough texts.
    most = 1
    while sum(min(most, len(by_tag[tag])) for tag in labels) < TRAIN + TEST:
        most += 1
    chosen = [(package, tag) for tag in labels for package in by_tag[tag][:most]]
    random.Random(2).shuffle(chosen)
    for part, part_of_chosen in [("train", chosen[:TRAIN]), ("test", chosen[TRAIN : TRAIN + TEST])]:
        with open(f"{out}-{part}.jsonl", "w") as file:
            for package, tag in part_of_chosen:
                text = package["text"].splitlines()[0].strip()
                file.write(json.dumps({"id": package["id"], "text": text, "label": tag}) + "\n")
        print(f"{part}: {len(part_of_chosen)} texts, {len({tag for _, tag in part_of_chosen})} labels")


main()
