"""Test whether the expected metrics and target errors of tuned models hold on new documents.

    cargo build --release && python benches/honesty.py [--splits N] [--targets 3,5,10] \\
        [--only NAME,..] [--jobs N] CORPORA

For each corpus of corpora/README.md, a split pools the training and test files and holds out 30 %
by a seed (at most 6,000 documents). It runs `evaluate --tune=votes --chi2-power 0.25` with an
abstention target. The script prints for each corpus:

* the mean of the expected metric minus the test metric (accuracy for single-label corpora, micro F1
  for multi-label corpora); the expected metric is estimated on held-out training documents, with
  near-duplicates as frequent as in the test documents;
* how often the difference is within both confidence intervals;
* for each target error, how often the error of the answered documents exceeds the target, and the
  mean coverage;
* AUROC: how well the confidence and the score separate correct from wrong answers.

Requires zstandard and the requirements of benches/linear.py.
"""

import argparse
import concurrent.futures
import io
import json
import pathlib
import random
import subprocess
import tempfile

import linear
import zstandard

root = pathlib.Path(__file__).parent.parent
MOST = 6_000


def auroc(pairs):
    """Return the AUROC: the share of (correct, wrong) pairs in which the correct answer has the
    higher value."""
    values = sorted(pairs)
    rank, ranks, at = 0, 0.0, 0
    right = sum(is_right for _, is_right in values)
    wrong = len(values) - right
    if not right or not wrong:
        return float("nan")
    while at < len(values):
        end = at
        while end < len(values) and values[end][0] == values[at][0]:
            end += 1
        mean = (at + 1 + end) / 2
        ranks += mean * sum(is_right for _, is_right in values[at:end])
        at = end
    return (ranks - right * (right + 1) / 2) / (right * wrong)


def lines_of(path):
    if path.suffix == ".zst":
        with open(path, "rb") as file:
            stream = zstandard.ZstdDecompressor().stream_reader(file)
            return list(io.TextIOWrapper(stream, encoding="utf-8"))
    return path.read_text(encoding="utf-8").splitlines()


def stories(folder, labels):
    """Write the training and test stories of a preset as JSONL files."""
    sides = linear.reuters(folder / "reuters21578")
    sides = linear.one_topic(*sides, labels) if labels else sides
    return [json.dumps({"text": text, "labels": topics}) for side in sides for text, topics in side]


def corpora(folder):
    yield "mr", [folder / "mr" / f"{part}.jsonl.zst" for part in ("train", "test")], []
    yield "sections", [folder / "debian" / f"sections-{part}.jsonl.zst" for part in ("train", "test")], []
    yield "tags", [folder / "debian" / f"tags-{part}.jsonl.zst" for part in ("train", "test")], []
    yield "banking77", [folder / "banking77" / f"{part}.csv" for part in ("train", "test")], []
    yield "enron", [folder / "enron" / f"{part}.svm" for part in ("train", "test")], []
    samples = [folder / "rcv1" / f"rcv1-sample1-{part}.svm" for part in ("train", "test")]
    yield "rcv1-sample", samples, ["--first-column", "0"]
    yield "rcv1-binary", [folder / "rcv1" / f"binary-{part}.svm" for part in ("train", "test")], []
    for name, labels in (("r8", 8), ("r52", 52), ("modapte90", None)):
        yield name, lambda labels=labels: stories(folder, labels), []


def source(room, seed, files):
    """Return at most MOST documents, shuffled by a seed; CSV files are returned unchanged."""
    if isinstance(files, list) and files[0].suffix == ".csv":
        return files
    lines = files() if callable(files) else [line for file in files for line in lines_of(file)]
    random.Random(seed).shuffle(lines)
    suffix = ".svm" if isinstance(files, list) and files[0].suffix == ".svm" else ".jsonl"
    whole = pathlib.Path(room) / f"all{suffix}"
    whole.write_text("".join(line.rstrip("\n") + "\n" for line in lines[:MOST]), encoding="utf-8")
    return [whole]


def split(seed, files, flags, targets, threads):
    """Return the results of a split for each target error, and without one."""
    with tempfile.TemporaryDirectory() as room:
        sources = source(room, seed, files)
        command = [root / "target/release/classify", "evaluate", "--train", *sources, *flags]
        command += ["--holdout", "30%", "--seed", seed, "--tune=votes", "--chi2-power", "0.25", "-q", *threads]
        command = [str(part) for part in command]
        runs = [metrics([*command, "--abstain", f"target-error={target}%"]) for target in targets]
        return runs, metrics(command)


def metrics(command):
    with tempfile.TemporaryDirectory() as room:
        json_file = f"{room}/r.json"
        command = [*command, "--json", json_file, "--per-document"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.load(open(json_file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--targets", default="3,5,10")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel splits; with more than one, each uses one thread")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    targets = [float(target) for target in options.targets.split(",")]
    only = [name for name in options.only.split(",") if name]
    heads = "".join(f"   {target:g} %: over, coverage" for target in targets)
    print(f"{'corpus':12} {'expected - test':>16} {'within':>7} {'AUROC: confidence, score':>25}{heads}", flush=True)
    for name, files, flags in corpora(options.corpora):
        if only and name not in only:
            continue
        differences, within, ranks = [], 0, []
        over = {target: [0, 0, 0.0] for target in targets}
        threads = ["-j", "1"] if options.jobs > 1 else []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            one_split = lambda seed: split(seed, files, flags, targets, threads)
            results = list(pool.map(one_split, range(options.splits)))
        for runs, result in results:
            for target, run in zip(targets, runs):
                over[target][0] += run["answered"]["error"] > target / 100
                over[target][1] += 1
                over[target][2] += run["answered"]["coverage"]
            one = result.get("accuracy") is not None
            key = "accuracy" if one else "micro_f1"
            test = result["accuracy"] if one else result["micro"]["f1"]
            tuning = linear.expected(result["tuning"])
            expected = tuning["figures"][key]
            differences.append(expected - test)
            halves = [(b - a) / 2 for a, b in (tuning["intervals"][key], result["intervals"][key])]
            within += abs(expected - test) <= (halves[0] ** 2 + halves[1] ** 2) ** 0.5
            if one:
                ranks.append([
                    auroc([(a[by], a["labels"] == a["predicted"]) for a in result["per_document"] if a.get(by) is not None])
                    for by in ("confidence", "score")
                ])
        mean = sum(differences) / len(differences)
        rank = "".join(f" {sum(r[at] for r in ranks) / len(ranks):12.4f}" for at in (0, 1)) if ranks else " " * 26
        tail = "".join(f"   {o:4} of {n:3} {c / n:9.3f}" for o, n, c in over.values())
        print(f"{name:12} {mean:16.4f} {within:3}/{options.splits:3} {rank}{tail}", flush=True)


if __name__ == "__main__":
    main()
