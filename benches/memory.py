"""Measure the peak memory of training, and of predicting a stream of a million records.

    cargo build --release && python3 benches/memory.py JSONL_CORPUS [RECORDS]

The peak of training must be below 3 x the size of the model + 100 MB. The resident size must not
grow while `predict -` processes a million records (repeated lines of the corpus).
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLASSIFY = ROOT / "target" / "release" / "classify"


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def peak_of(command):
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_maxrss * 1024


def lines_of(path):
    raw = path.read_bytes()
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        raw = subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
    return [line + b"\n" for line in raw.splitlines()]


def main():
    corpus = pathlib.Path(sys.argv[1])
    records = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    lines = lines_of(corpus)
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        for flags in ([], ["--keep-text"], ["--word-ngrams", "1-2"]):
            peak = peak_of([CLASSIFY, "train", corpus, "-o", model, "-q", *flags])
            size = os.path.getsize(model)
            limit = 3 * size + 100e6
            print(f"train {' '.join(flags):20} model {size / 1e6:6.1f} MB, peak {peak / 1e6:6.1f} MB, limit {limit / 1e6:6.1f} MB")
            assert peak < limit
        subprocess.run([CLASSIFY, "train", corpus, "-o", model, "-q"], check=True)
        process = subprocess.Popen(
            [CLASSIFY, "predict", model, "-", "--to", "fasttext", "-q"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

        def feed():
            for record in range(records):
                process.stdin.write(lines[record % len(lines)])
            process.stdin.close()

        threading.Thread(target=feed).start()
        sizes, answers = [], 0
        for _ in process.stdout:
            answers += 1
            if answers % (records // 20) == 0 and answers < records:
                sizes.append(resident(process.pid))
        assert process.wait() == 0 and answers == records
        print(f"predict {records:,} records, resident MB:", *(f"{size / 1e6:.1f}" for size in sizes))
        early, late = sizes[4:10], sizes[-6:]
        growth = sum(late) / sum(early) * len(early) / len(late)
        print(f"the last {len(late)} readings over readings 5 to 10: {growth:.3f}")
        assert growth < 1.1, "the resident size grows"


if __name__ == "__main__":
    main()
