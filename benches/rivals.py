"""Analysis and search beside other libraries: one thread, CPU time, medians, interleaved runs.

    python3 benches/rivals.py REUTERS_FOLDER JSONL_CORPUS [--runs 5] [--json FILE]

REUTERS_FOLDER holds the Reuters-21578 SGML files: the first 17,000 of the 21,578 stories are
searched, the others are the queries, k = 30, everybody on the same `ltc` rows. JSONL_CORPUS (may
be zstd-compressed) is what analysis is measured on. The rivals are installed into `.venv`; a C
compiler is not needed. Of sp_matmul_rs the best of several `chunk_cols` counts.
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
TRAIN_ROWS, K = 17_000, 30


def in_venv():
    """Starts this script again inside `.venv`, with one thread for the numeric libraries."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix) != VENV:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        one = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        os.execve(python, [python, *sys.argv], {**os.environ, **one})


def bench(name, *arguments):
    """Runs a bench of this project; its lines of JSON."""
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
        # The second run of a process, which has its memory already, as the rival's process has.
        ours.append(bench("analysis", corpus, 2)[-1]["cpu_s"])
        theirs.append(cpu(lambda: TfidfVectorizer().fit_transform(texts)))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(f"\nanalysis + TF-IDF, {len(texts):,} documents, {size / 1e6:.1f} MB, CPU seconds")
    print(f"  classify         {ours:8.3f}  {size / 1e6 / ours:7.1f} MB/s")
    print(f"  TfidfVectorizer  {theirs:8.3f}  {size / 1e6 / theirs:7.1f} MB/s  {theirs / ours:5.1f} x")
    return {"classify_s": ours, "tfidf_vectorizer_s": theirs, "bytes": size, "ratio": theirs / ours}


def search(folder, runs):
    import numpy as np
    import scipy.sparse
    import sp_matmul_rs
    import sparse_dot_topn
    from safetensors import safe_open
    from sklearn.neighbors import NearestNeighbors

    model = ROOT / "target" / "rivals-reuters.model"
    train = ["cargo", "run", "-q", "--release", "--", "train", folder, "--format", "reuters", "-q"]
    subprocess.run([*train, "-o", model], cwd=ROOT, check=True)
    file = safe_open(model, "np")
    rows = scipy.sparse.csr_matrix(
        (
            file.get_tensor("rows.data"),
            file.get_tensor("rows.indices").astype(np.int32),
            file.get_tensor("rows.indptr").astype(np.int32),
        )
    )
    training, queries = rows[:TRAIN_ROWS], rows[TRAIN_ROWS:]
    columns = training.T.tocsr()
    nearest = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute").fit(training)
    rivals = {
        f"sp_matmul_rs, chunk_cols {chunk}": lambda chunk=chunk: sp_matmul_rs.sp_matmul_topn(
            queries, columns, K, sort=True, chunk_cols=chunk
        )
        for chunk in (2_048, 4_096, 8_192, 12_288, 17_000)
    }
    rivals["sparse_dot_topn"] = lambda: sparse_dot_topn.sp_matmul_topn(
        queries, columns, K, sort=True
    )
    rivals["scikit-learn brute"] = lambda: nearest.kneighbors(queries)
    engines = ["inverted/1", "inverted/2"]
    times = {name: [] for name in [*rivals, *engines, "inverted/2 wall"]}
    for _ in range(runs):
        for row in bench("search", model, TRAIN_ROWS, K, 1, *engines):
            times[row["engine"]].append(row["cpu_us"])
            if row["engine"] == "inverted/2":
                times["inverted/2 wall"].append(row["wall_us"])
        for name, work in rivals.items():
            times[name].append(cpu(work) / queries.shape[0] * 1e6)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians["inverted/1"]
    print(f"\nsearch, {TRAIN_ROWS:,} rows, {queries.shape[0]:,} queries, k = {K}, CPU µs a query")
    for name, value in medians.items():
        print(f"  {name:34} {value:8.1f}  {value / ours:5.2f} x")
    print(f"  two threads: {ours / medians['inverted/2 wall']:.2f} x the queries of one")
    return medians


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("reuters")
    parser.add_argument("corpus")
    parser.add_argument("--runs", type=int, default=5)
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
        "search_cpu_us": search(os.path.abspath(options.reuters), options.runs),
    }
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
