"""Generate English texts as JSONL, of any size.

    python3 benches/english_texts.py REUTERS_FOLDER FILE BYTES PROCESSES

Each text has twelve random sentences from the bodies of the Reuters-21578 stories. The texts get 40
labels in turn. The processes use the seeds 0, 1, …
"""

import json
import multiprocessing
import pathlib
import random
import re
import sys

SENTENCES = 12


def sentences(folder):
    found = []
    for path in sorted(pathlib.Path(folder).glob("*.sgm")):
        for body in re.findall(r"<BODY>(.*?)</BODY>", path.read_text(encoding="latin-1"), re.DOTALL):
            body = body.replace("&lt;", "<").replace("&#3;", "")
            found += [part.strip() for part in re.split(r"(?<=\.)\s+", body) if len(part) > 20]
    return found


def write_part(job):
    folder, path, seed, size = job
    drawn = random.Random(seed)
    known = sentences(folder)
    written, number = 0, 0
    with open(path, "w") as file:
        while written < size:
            text = " ".join(drawn.choices(known, k=SENTENCES))
            record = {"id": f"{seed}-{number}", "label": f"l{number % 40}", "text": text}
            written += file.write(json.dumps(record) + "\n")
            number += 1


def main():
    folder, path, size, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    jobs = [(folder, f"{path}.{seed}", seed, size // processes) for seed in range(processes)]
    with multiprocessing.Pool(processes) as pool:
        pool.map(write_part, jobs)
    with open(path, "wb") as file:
        for _, part, _, _ in jobs:
            file.write(pathlib.Path(part).read_bytes())
            pathlib.Path(part).unlink()


main()
