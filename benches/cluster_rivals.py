"""Compare `classify cluster` with scikit-learn's KMeans on the same rows.

    python benches/cluster_rivals.py FOLDER [CORPUS …]

FOLDER contains the corpora of docs/quality.md. The corpora are `r8` and `sections` (default: both).
The number of clusters is the number of labels. KMeans clusters the rows of the model that
`classify train --min-df 2` writes for the same documents. These rows have length 1, so distances
order pairs as cosines do. Both programs use ten starts, ten seeds (classify: five on the larger
corpus) and all cores. Requires scikit-learn, numpy, scipy and zstandard. The environment variable
CLASSIFY names the program.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

sys.path.insert(0, str(pathlib.Path(__file__).parent))

CLASSIFY = os.environ.get("CLASSIFY", "target/release/classify")


def arrays(path):
    """Return the arrays of a model file (safetensors)."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    types = {"U8": np.uint8, "U32": np.uint32, "U64": np.uint64, "F32": np.float32, "F64": np.float64}
    body = memoryview(data)[8 + length :]
    return {
        name: np.frombuffer(body[slice(*about["data_offsets"])], types[about["dtype"]])
        for name, about in head.items()
        if name != "__metadata__"
    }


def documents(folder, name):
    if name == "sections":
        import zstandard

        with open(folder / "debian/sections-train.jsonl.zst", "rb") as file:
            lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().splitlines()
        return [(line["text"], line.get("label") or line["labels"][0]) for line in map(json.loads, lines)]
    from linear import one_topic, reuters

    train, test = one_topic(*reuters(folder / "reuters21578"), 8)
    return [(text, label) for text, [label] in train + test]


def measured(name, found, labels, seconds):
    metrics = [(normalized_mutual_info_score(labels, one), adjusted_rand_score(labels, one)) for one in found]
    nmi, ari = zip(*metrics, strict=True)
    deviation = statistics.stdev(nmi) if len(nmi) > 1 else 0
    print(
        f"  {name:<24} NMI {statistics.mean(nmi):.4f} (deviation {deviation:.4f})  ARI {statistics.mean(ari):.4f}  "
        f"{statistics.median(seconds):.1f} s"
    )


def compare(folder, name):
    texts = documents(folder, name)
    labels = [label for _, label in texts]
    count = len(set(labels))
    seeds = range(5 if len(texts) > 20_000 else 10)
    with tempfile.TemporaryDirectory() as temporary:
        corpus, model = pathlib.Path(temporary) / "corpus.jsonl", pathlib.Path(temporary) / "a.model"
        lines = (json.dumps({"id": str(at), "text": text, "label": label}) for at, (text, label) in enumerate(texts))
        corpus.write_text("\n".join(lines))
        subprocess.run([CLASSIFY, "train", corpus, "--min-df", "2", "-o", model, "-q"], check=True)
        own = arrays(model)
        shape = (len(texts), len(own["vocabulary.idf"]))
        rows = sp.csr_matrix((own["rows.data"], own["rows.indices"].astype(np.int32), own["rows.indptr"].astype(np.int64)), shape)
        print(f"{name}: {shape[0]} documents, {shape[1]} terms, {count} clusters; seeds {seeds}")
        found, seconds = [], []
        for seed in seeds:
            out = pathlib.Path(temporary) / "out.jsonl"
            start = time.perf_counter()
            command = [CLASSIFY, "cluster", corpus, "--k", str(count), "--seed", str(seed), "-o", out]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
            seconds.append(float(re.search(r"([0-9.]+) s", said)[1]))
            own = [json.loads(line)["cluster"] for line in out.read_text().splitlines()]
            found.append([-1 if cluster is None else cluster for cluster in own])
        measured("classify cluster", found, labels, seconds)
        found, seconds = [], []
        for seed in seeds:
            start = time.perf_counter()
            found.append(KMeans(count, n_init=10, random_state=seed).fit_predict(rows))
            seconds.append(time.perf_counter() - start)
        measured("scikit-learn KMeans", found, labels, seconds)


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1])
    for corpus in sys.argv[2:] or ["r8", "sections"]:
        compare(where, corpus)
