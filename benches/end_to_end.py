"""Measure whole commands on generated corpora, from disk to report, stage by stage.

    cargo build --release
    python3 benches/end_to_end.py FOLDER REUTERS_FOLDER [--runs 7] [--only NAMES] \\
        [--classify PROGRAM] [--device auto]

Missing corpora are written to FOLDER: 804,414 documents of `classify generate rcv1-like` (1 GB),
and 1,008 MB of English JSONL (`english_texts.py`, from the stories in REUTERS_FOLDER). Models and
predictions are removed at the end. All files are read once before the measurement, so that they are
in the page cache.

The commands alternate; the longest commands run only every third time. For each command, the script
prints the median, minimum and maximum of the seconds, the median of CPU seconds, and the median and
maximum of peak memory. The medians of its stages follow. NAMES are command names as printed,
separated by commas.

The script first measures the speed of reading the page cache and of copying memory, in one process
and in one process per core.
"""

import argparse
import multiprocessing
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGLISH_BYTES = 1_008_000_000
STAGE = re.compile(r"^([a-z][^:]*(?:: [a-z][^:]*)?): ([0-9.]+) s(?:, (\d+) documents/s)?(?:, (\d+) MB/s)?(?:, busy (\d+) %)?")
BUFFERS = []
NAMES = ["evaluate", "evaluate-cpu", "evaluate-2-cores", "evaluate-vectors", "predict", "predict-cpu", "predict-one", "train", "train-english"]
NAMES += ["predict-neighbors"]


def processor():
    known = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return known[1] if known else platform.machine()


def allocate():
    BUFFERS[:] = [bytearray(b"a" * (1 << 26)), bytearray(b"b" * (1 << 26))]


def read_part(part):
    path, start, size = part
    file = os.open(path, os.O_RDONLY)
    buffer = memoryview(BUFFERS[0])[: 1 << 22]
    for at in range(start, start + size, len(buffer)):
        os.preadv(file, [buffer], at)
    os.close(file)


def copy(times):
    source, target = map(memoryview, BUFFERS)
    for _ in range(times):
        target[:] = source


def machine(path):
    """Measure the GB/s of page cache reads and memory copies, with one process and with all."""
    size = os.path.getsize(path)
    rates = []
    for processes in (1, os.cpu_count()):
        with multiprocessing.Pool(processes, allocate) as pool:
            each = size // processes
            parts = [(path, number * each, each) for number in range(processes)]
            copies = [40] * processes
            best = [0, 0]
            for _ in range(3):
                start = time.perf_counter()
                pool.map(read_part, parts, 1)
                best[0] = max(best[0], size / (time.perf_counter() - start) / 1e9)
                start = time.perf_counter()
                pool.map(copy, copies, 1)
                best[1] = max(best[1], sum(copies) * (1 << 26) / (time.perf_counter() - start) / 1e9)
            rates.append(best)
    (read, copied), (all_read, all_copied) = rates
    print(f"page cache read {read:.1f} GB/s by one process, {all_read:.1f} by {os.cpu_count()}; memory copied {copied:.1f} and {all_copied:.1f}\n")


def run(command, cores, made):
    def pin():
        if cores:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])

    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=said, stderr=said, preexec_fn=pin)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        said.seek(0)
        text = said.read().decode()
    # Removed now, so that neither its removal nor its writeback is timed with the next command.
    made.unlink(missing_ok=True)
    if status != 0:
        sys.exit(f"{command} failed:\n{text}")
    stages = {found[1]: found for found in map(STAGE.match, text.splitlines()) if found}
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, stages


def of_stages(runs):
    for name in runs[0][3]:
        found = [stages[name] for *_, stages in runs if name in stages]
        numbers = [statistics.median(float(one[group]) for one in found) if found[0][group] else None for group in (2, 3, 4, 5)]
        seconds, documents, megabytes, busy = numbers
        line = f"    {name:42} {seconds:7.3f} s"
        line += f" {documents:12,.0f} documents/s" if documents else ""
        line += f" {megabytes:6,.0f} MB/s" if megabytes else ""
        line += f", busy {busy:.0f} %" if busy is not None else ""
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("reuters", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only")
    parser.add_argument("--classify", type=pathlib.Path, default=ROOT / "target" / "release" / "classify")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    program, folder, cores = options.classify.resolve(), options.folder, os.cpu_count()
    if not program.is_file():
        sys.exit(f"{program} is missing: build it with cargo build --release, or name another program with --classify")
    chosen = options.only.split(",") if options.only else NAMES
    if unknown := set(chosen) - set(NAMES):
        sys.exit(f"no command {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")
    folder.mkdir(parents=True, exist_ok=True)
    rows, english = folder / "rcv1-like", folder / "english.jsonl"
    if not rows.exists():
        subprocess.run([program, "generate", "rcv1-like", "--seed", "0", "-q", "-o", rows], check=True)
    if not english.exists():
        made = pathlib.Path(__file__).with_name("english_texts.py")
        subprocess.run([sys.executable, made, options.reuters, english, str(ENGLISH_BYTES), str(cores)], check=True)
    test = sorted(rows.glob("lyrl2004_vectors_test_pt?.dat"))
    for path in [*rows.iterdir(), english]:
        path.read_bytes()
    print(time.strftime("%Y-%m-%d"), f"{processor()}, {cores} cores, medians of {options.runs} runs")
    machine(test[0])

    made = tempfile.TemporaryDirectory(dir=folder)
    model, one = folder / made.name / "model", folder / made.name / "one.dat"
    judgments = ["--qrels", rows / "rcv1-v2.topics.qrels"]
    subprocess.run([program, "train", rows / "lyrl2004_vectors_train.dat", *judgments, "-q", "-o", model], check=True)
    with open(test[0]) as lines:
        one.write_text(next(lines))
    vectors = folder / made.name / "test.vectors"
    subprocess.run([program, "vectorize", model, *test, *judgments, "-q", "-o", vectors], check=True)
    output = folder / made.name / "output"
    to = ["-o", output]
    device, cpu = ["--device", options.device], ["--device", "cpu"]
    evaluate = [program, "evaluate", "--preset", "lyrl2004", rows, "-v"]
    predict = [program, "predict", model, "-v"]
    everything = ["--with", "neighbors,scores"]
    # Name, command, number of cores (0: all), and whether it runs every time or every third time.
    commands = [
        ("evaluate", [*evaluate, *device], 0, 1),
        ("evaluate-cpu", [*evaluate, *cpu], 0, 3),
        ("evaluate-2-cores", [*evaluate, *cpu], 2, 3),
        ("evaluate-vectors", [program, "evaluate", model, vectors, "-v", *device], 0, 1),
        ("predict", [*predict, *test, *to, *device], 0, 1),
        ("predict-cpu", [*predict, *test, *to, *cpu], 0, 3),
        ("predict-one", [*predict, one, "--format", "lyrl2004-vectors", *to, *device], 0, 1),
        ("train", [program, "train", *test, *judgments, *to, "-v", *cpu], 0, 1),
        ("train-english", [program, "train", english, *to, "--no-tune", "-v", *cpu], 0, 1),
        ("predict-neighbors", [*predict, *test, *to, *device, *everything], 0, 3),
    ]
    results = {name: [] for name in chosen}
    for number in range(options.runs):
        for name, command, pinned, every in commands:
            if name in results and number % every == 0:
                results[name].append(run(command, pinned, output))
    made.cleanup()
    for name, runs in results.items():
        seconds = [one[0] for one in runs]
        busy = statistics.median(one[1] for one in runs)
        print(f"{name}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}, {len(runs)} runs),", end=" ")
        memory = [one[2] for one in runs]
        print(f"{busy:.1f} s of CPU, {statistics.median(memory):.0f} MiB (up to {max(memory):.0f})")
        of_stages(runs)


if __name__ == "__main__":
    main()
