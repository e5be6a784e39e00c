"""Compares the embeddings and the speed of text-encoder with model2vec and sentence-transformers.

    pip install model2vec sentence-transformers
    cargo build --release -p text-encoder --example encode
    python benches/encoders.py ENCODE CORPUS.jsonl FOLDER...

ENCODE is the example, CORPUS.jsonl a file with a field `text`, and each FOLDER a model. The first
1,000 texts are encoded five times; the medians are printed.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def python_encoder(folder):
    """Returns the name and the function that encodes texts with the model in a folder."""
    config = folder / "config.json"
    is_bert = config.exists() and json.loads(config.read_text())["model_type"] == "bert"
    if is_bert or (folder / "modules.json").exists():
        from sentence_transformers import SentenceTransformer

        return "sentence-transformers", SentenceTransformer(str(folder), device="cpu").encode
    from model2vec import StaticModel

    return "model2vec", StaticModel.from_pretrained(str(folder)).encode


def main():
    program, corpus, *folders = map(Path, sys.argv[1:])
    with open(corpus, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line, _ in zip(lines, range(1000))]
    words = np.mean([len(text.split()) for text in texts])
    print(f"# {len(texts)} texts, {words:.1f} words on average")
    with tempfile.TemporaryDirectory() as directory:
        inputs = Path(directory, "texts.json")
        output = Path(directory, "embeddings.f32")
        inputs.write_text(json.dumps(texts), encoding="utf-8")
        for folder in folders:
            found = subprocess.run(
                [program, folder, inputs, output], check=True, capture_output=True, text=True
            )
            ours = np.fromfile(output, dtype=np.float32).reshape(len(texts), -1)
            name, encode = python_encoder(folder)
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                theirs = np.asarray(encode(texts), dtype=np.float32)
                seconds.append(time.perf_counter() - start)
            lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
            cosines = np.sum(ours * theirs, axis=1)[lengths > 0] / lengths[lengths > 0]
            speed = len(texts) / np.median(seconds)
            print(f"{folder.name}: text-encoder {found.stdout.strip()}")
            print(f"{folder.name}: {name} {speed:.0f} texts/s; lowest cosine {cosines.min():.7f}")


main()
