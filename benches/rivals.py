"""Compare analysis and search with other libraries: CPU time on one thread in interleaved runs.

    python3 benches/rivals.py REUTERS_FOLDER JSONL_CORPUS [--runs 5] [--large] [--json FILE]

REUTERS_FOLDER contains the Reuters-21578 SGML files. The first 17,000 of the 21,578 stories are
indexed; the others are the queries. Analysis is measured on JSONL_CORPUS (optionally compressed
with zstd); its last 2,048 documents are queries on the others. The script also generates rows that
resemble RCV1: 23,149 rows and 2,048 queries and, with --large, 804,158 rows and 256 queries.

All programs search the same `ltc` rows, with k = 10, 30 and 100, five times in each run. The gain
of two threads is the median ratio of paired wall-clock times. sp_matmul_rs uses the best of several
`chunk_cols` counts. The other libraries are installed into `.venv`; no C compiler is needed.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PACKAGES = [
    "numpy==2.4.6",
    "scipy==1.17.1",
    "scikit-learn==1.9.1",
    "sparse_dot_topn==1.2.0",
    "sp_matmul_rs==0.2.1",
    "safetensors==0.8.0",
    "zstandard",
]
NEIGHBORS = (10, 30, 100)
# Number of searches per run.
PASSES = 5


def in_venv():
    """Restart this script in `.venv`, with one thread for the numeric libraries."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix) != VENV:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        os.execve(python, [python, *sys.argv], {**os.environ, **one})


def bench(name, *arguments):
    """Run a benchmark of this project and return its JSON lines."""
    command = ["cargo", "bench", "-q", "--bench", name, "--", *map(str, arguments)]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def cpu(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def texts_of(path):
    raw = pathlib.Path(path).read_bytes()
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        import zstandard

        raw = zstandard.ZstdDecompressor().stream_reader(raw).read()
    return [json.loads(line)["text"] for line in raw.decode("utf-8").splitlines()]


def analysis(corpus, runs):
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = texts_of(corpus)
    size = sum(len(text.encode()) for text in texts)
    ours, theirs = [], []
    for _ in range(runs):
        # The second run reuses the memory of the first, as in the process of scikit-learn.
        ours.append(bench("analysis", corpus, 2)[-1]["cpu_s"])
        theirs.append(cpu(lambda: TfidfVectorizer().fit_transform(texts)))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(f"\nanalysis + TF-IDF, {len(texts):,} documents, {size / 1e6:.1f} MB, CPU seconds")
    print(f"  classify         {ours:8.3f}  {size / 1e6 / ours:7.1f} MB/s")
    print(f"  TfidfVectorizer  {theirs:8.3f}  {size / 1e6 / theirs:7.1f} MB/s  {theirs / ours:5.1f} x")
    return {"classify_s": ours, "tfidf_vectorizer_s": theirs, "bytes": size, "ratio": theirs / ours}


def train(model, *arguments):
    """Train a model of documents once."""
    if not model.exists():
        command = ["cargo", "run", "-q", "--release", "--", "train", *map(str, arguments), "-q", "-o", model]
        subprocess.run(command, cwd=ROOT, check=True)
    return model


def rcv1_like():
    folder = ROOT / "target" / "rivals-rcv1"
    if not folder.exists():
        command = ["cargo", "run", "-q", "--release", "--", "generate", "rcv1-like", "-q", "-o", folder]
        subprocess.run(command, cwd=ROOT, check=True)
    files = [folder / "lyrl2004_vectors_train.dat"]
    files += [folder / f"lyrl2004_vectors_test_pt{part}.dat" for part in range(4)]
    return train(ROOT / "target" / "rivals-rcv1.model", *files, "--qrels", folder / "rcv1-v2.topics.qrels")


def rows_of(model):
    import numpy as np
    import scipy.sparse
    from safetensors import safe_open

    file = safe_open(model, "np")
    return scipy.sparse.csr_matrix(
        (
            file.get_tensor("rows.data"),
            file.get_tensor("rows.indices").astype(np.int32),
            file.get_tensor("rows.indptr").astype(np.int32),
        )
    )


def user_cpu(work):
    """Return user CPU time. System time is excluded, because it is spent on clearing the memory of
    the dense product."""
    start = os.times().user
    work()
    return os.times().user - start


def search(name, model, train_rows, count, k, runs):
    import sp_matmul_rs
    import sparse_dot_topn
    from sklearn.neighbors import NearestNeighbors

    rows = rows_of(model)
    training, queries = rows[:train_rows], rows[train_rows : train_rows + count]
    columns = training.T.tocsr()
    nearest = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(training)

    def sp_matmul(chunk):
        return lambda: sp_matmul_rs.sp_matmul_topn(queries, columns, k, sort=True, chunk_cols=chunk)

    chunks = [size for size in (2_048, 4_096, 8_192, 16_384, 65_536, 262_144) if size < train_rows]
    best = min([*chunks, train_rows], key=lambda chunk: cpu(sp_matmul(chunk)))
    rivals = {
        f"sp_matmul_rs, chunk_cols {best}": (cpu, sp_matmul(best)),
        "sparse_dot_topn": (
            cpu,
            lambda: sparse_dot_topn.sp_matmul_topn(queries, columns, k, sort=True, n_threads=1),
        ),
        "scikit-learn brute, user time": (user_cpu, lambda: nearest.kneighbors(queries)),
    }
    times, walls = {}, {"inverted/1": [], "inverted/2": []}
    for _ in range(runs):
        size = f"{train_rows}+{count}"
        in_turns = bench("search", model, size, k, PASSES, "inverted/1", "inverted/2")
        for row in [*in_turns, *bench("search", model, size, k, PASSES, "alone/1")]:
            times.setdefault(row["engine"], []).append(row["cpu_us"])
            walls.get(row["engine"], []).append(row["wall_us"])
            assert row["fell_back"] == 0, row
        for rival, (clock, work) in rivals.items():
            passes = [clock(work) / count * 1e6 for _ in range(PASSES)]
            times.setdefault(rival, []).extend(passes)
    times["inverted/2 wall"] = walls["inverted/2"]
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians["inverted/1"]
    print(f"\nsearch, {name}, {train_rows:,} rows, {count:,} queries, k = {k}, CPU µs a query")
    for rival, value in medians.items():
        print(f"  {rival:34} {value:9.1f}  {value / ours:6.2f} x")
    # The runs alternate, because the speed of a shared machine varies.
    pairs = [one / two for one, two in zip(walls["inverted/1"], walls["inverted/2"])]
    two = statistics.median(pairs)
    print(f"  two threads: {two:.2f} x the throughput of one", flush=True)
    return {"rows": name, "train_rows": train_rows, "queries": count, "k": k, "cpu_us": medians, "two_threads": two}


def searches(reuters, corpus, large, runs):
    target = ROOT / "target"
    stories = train(target / "rivals-reuters.model", reuters, "--format", "reuters")
    texts = train(target / "rivals-corpus.model", corpus)
    all_texts = rows_of(texts).shape[0]
    cases = [
        ("RCV1-like", rcv1_like(), 23_149, 2_048),
        ("Reuters-21578", stories, 17_000, 4_578),
        (pathlib.Path(corpus).name, texts, all_texts - 2_048, 2_048),
    ]
    if large:
        cases.append(("RCV1-like", rcv1_like(), 804_158, 256))
    return [search(*case, k, runs) for case in cases for k in NEIGHBORS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("reuters")
    parser.add_argument("corpus")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="also search 804,158 rows")
    parser.add_argument("--json")
    options = parser.parse_args()
    in_venv()
    cpus = pathlib.Path("/proc/cpuinfo").read_text().split("model name")[1].split("\n")[0].strip("\t: ")
    machine = f"{cpus}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    print(f"{time.strftime('%Y-%m-%d')}  {machine}  medians of {options.runs} runs")
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine,
        "runs": options.runs,
        "packages": PACKAGES,
        "analysis": analysis(os.path.abspath(options.corpus), options.runs),
        "search": searches(
            os.path.abspath(options.reuters),
            os.path.abspath(options.corpus),
            options.large,
            options.runs,
        ),
    }
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
