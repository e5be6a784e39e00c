"""Test whether the order of the training documents affects `--tune`.

    cargo build --release && python benches/order.py [--only NAME,..] [--jobs N] CORPORA

CORPORA is the folder of corpora/README.md. The requirements are those of benches/linear.py. Each
single-label corpus is tuned in the given order, shuffled by a seed, and sorted by label (documents
of one label keep their order). The test documents are the same. The script prints test accuracies.
The last column is the largest difference between two orders in standard errors, from the documents
on which only one of the two orders is correct (McNemar).
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import subprocess
import tempfile

import linear


def answers(room, train, test, flags):
    command = [linear.root / "target/release/classify", "evaluate", "--train", train, "--test", test, *flags]
    command += ["--tune", "-q", "--json", f"{room}/r.json", "--per-document"]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return [a["labels"] == a["predicted"] for a in json.load(open(f"{room}/r.json"))["per_document"]]


def written(path, documents):
    lines = (json.dumps({"text": text, "labels": labels}) for text, labels in documents)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="mr,banking77,r8,r52,sections,rcv1-binary")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel orders; with more than one, each uses one thread")
    parser.add_argument("corpora", type=pathlib.Path)
    options = parser.parse_args()
    print(f"{'corpus':12} {'given':>8} {'shuffled':>9} {'sorted':>8} {'largest difference':>19}", flush=True)
    for name, get, arguments in linear.corpora(options.corpora):
        if name not in options.only.split(","):
            continue
        runs = []
        with tempfile.TemporaryDirectory() as folder:
            room = pathlib.Path(folder)
            if name == "rcv1-binary":
                lines = pathlib.Path(arguments[1]).read_text().splitlines(keepends=True)
                label = lambda line: line.split(None, 1)[0]
            else:
                lines, test, _ = get()
                label = lambda document: document[1]
                test = written(room / "test.jsonl", test)
            for order in ("given", "shuffled", "sorted"):
                mine = list(lines)
                if order == "shuffled":
                    random.Random(0).shuffle(mine)
                elif order == "sorted":
                    mine.sort(key=label)
                place = room / order
                place.mkdir()
                if name == "rcv1-binary":
                    train, test = place / "train.svm", arguments[3]
                    train.write_text("".join(mine))
                else:
                    train = written(place / "train.jsonl", mine)
                runs.append((place, train, test, ["-j", "1"] if options.jobs > 1 else []))
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                right = list(pool.map(lambda run: answers(*run), runs))
        worst = 0.0
        for a in right:
            for b in right:
                more = sum(x and not y for x, y in zip(a, b))
                less = sum(y and not x for x, y in zip(a, b))
                worst = max(worst, (more - less) / max(1, more + less) ** 0.5)
        shares = [sum(each) / len(each) for each in right]
        print(f"{name:12} {shares[0]:8.4f} {shares[1]:9.4f} {shares[2]:8.4f} {worst:19.1f}", flush=True)


if __name__ == "__main__":
    main()
