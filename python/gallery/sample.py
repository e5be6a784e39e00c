"""The sample corpus of this repository, and the folder for the charts."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

CORPUS = pathlib.Path(__file__).parents[2] / "corpora" / "sample"


def sample(part):
    """Return the texts and lists of labels of `train` or `test`."""
    rows = [json.loads(line) for line in open(CORPUS / f"{part}.jsonl", encoding="utf-8")]
    return [row["text"] for row in rows], [row["labels"] for row in rows]


def save(figure, program):
    """Write the chart into the folder named on the command line, or into this folder."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    path = folder / f"{pathlib.Path(program).stem}.png"
    figure.savefig(path, dpi=120)
    print(path)
