"""Measure the gain and the cost of learned votes and prototypes.

    cargo build --release && python benches/learned_votes.py [--only NAME,..] [--jobs N] CORPORA

For each corpus of corpora/README.md with its own split, the script runs
`evaluate --tune=votes --chi2-power 0.25` three times: with `--vote similarity^2`, with
`--vote similarity^2/learned`, and with the vote chosen by tuning, which also tries learned votes
and label prototypes. It prints the expected metric (on held-out training documents), the test
metric (accuracy for single-label corpora, micro F1 for multi-label corpora), and the CPU seconds of
the whole command. Requires zstandard.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

root = pathlib.Path(__file__).parent.parent
VOTES = {"similarity^2": ["--vote", "similarity^2"], "learned": ["--vote", "similarity^2/learned"], "all": []}


def corpora(folder):
    pairs = lambda name, first, last: ["--train", folder / name / first, "--test", folder / name / last]
    yield "mr", pairs("mr", "train.jsonl.zst", "test.jsonl.zst")
    yield "sections", pairs("debian", "sections-train.jsonl.zst", "sections-test.jsonl.zst")
    yield "tags", pairs("debian", "tags-train.jsonl.zst", "tags-test.jsonl.zst")
    yield "banking77", pairs("banking77", "train.csv", "test.csv")
    yield "enron", pairs("enron", "train.svm", "test.svm")
    sample = pairs("rcv1", "rcv1-sample1-train.svm", "rcv1-sample1-test.svm")
    yield "rcv1-sample", [*sample, "--first-column", "0"]
    yield "rcv1-binary", pairs("rcv1", "binary-train.svm", "binary-test.svm")
    for preset in ("r8", "r52", "modapte90"):
        yield preset, ["--preset", preset, folder / "reuters21578"]


def run(arguments, vote, threads):
    with tempfile.TemporaryDirectory() as room:
        result = f"{room}/r.json"
        command = [root / "target/release/classify", "evaluate", *arguments, "--tune=votes", "--chi2-power", "0.25"]
        command = [str(part) for part in [*command, *vote, *threads, "-q", "--json", result]]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
        found = json.load(open(result))
    one = found.get("accuracy") is not None
    expected = found["tuning"]["figures"]["accuracy" if one else "micro_f1"]
    test = found["accuracy"] if one else found["micro"]["f1"]
    return expected, test, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs; with more than one, each uses one thread")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    threads = ["-j", "1"] if options.jobs > 1 else []
    print(f"{'corpus':12}" + "".join(f"{f'{vote}: expected, test, s':>32}" for vote in VOTES), flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = {
            name: [pool.submit(run, arguments, vote, threads) for vote in VOTES.values()]
            for name, arguments in corpora(options.corpora)
            if not only or name in only
        }
        for name, runs in rows.items():
            cells = (run.result() for run in runs)
            print(f"{name:12}" + "".join(f"{e:16.4f} {t:7.4f} {s:7.1f}" for e, t, s in cells), flush=True)


if __name__ == "__main__":
    main()
