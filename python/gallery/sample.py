"""The sample corpus of this repository, and where the pictures go."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

CORPUS = pathlib.Path(__file__).parents[2] / "corpora" / "sample"


def sample(part):
    """Texts and lists of labels of the part `train` or `test`."""
    rows = [json.loads(line) for line in open(CORPUS / f"{part}.jsonl", encoding="utf-8")]
    return [row["text"] for row in rows], [row["labels"] for row in rows]


def save(figure, program):
    """Writes the picture into the folder that the command line names, or into this one."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    path = folder / f"{pathlib.Path(program).stem}.png"
    figure.savefig(path, dpi=120)
    print(path)
