"""Measure the contribution of each step of tuning on Reuters-21578: leave-one-out and test metrics.

    cargo build --release && python benches/steps.py FOLDER [THREADS]

FOLDER is the folder of `--preset modapte90`. Every line adds the named step to the previous line.
k, vote and decision are tuned for micro + macro F1 in each line (`--tune=votes`). In the last
lines, `--tune` chooses everything.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).parent.parent
folder, threads = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "1"
votes = ["--tune=votes", "--objective", "micro+macro"]
words = ["--stem", "english", "--title-boost", "2"]
steps = [
    ("defaults: ltc, k = 30, one threshold of .4", []),
    ("k, vote and one threshold tuned", [*votes, "--rule", "threshold"]),
    ("a threshold per label: scut", [*votes, "--rule", "scut"]),
    ("a threshold per label: micromacro", [*votes, "--rule", "micromacro"]),
    ("a threshold per label: scut-smoothed", [*votes, "--rule", "scut-smoothed"]),
    ("+ stems, title twice", [*votes, "--rule", "scut-smoothed", *words]),
    ("+ 4,000 terms of highest chi2", [*votes, "--rule", "scut-smoothed", *words, "--select", "chi2:4000"]),
    (
        "+ (chi2 / N)^0.25 in the weights",
        [*votes, "--rule", "scut-smoothed", *words, "--select", "chi2:4000", "--chi2-power", "0.25"],
    ),
    ("--tune --objective micro+macro", ["--tune", "--objective", "micro+macro"]),
    ("--tune (micro F1)", ["--tune"]),
]

print(f"{'':42} {'leave-one-out':>17} {'test':>17} {'seconds':>8}")
print(f"{'':42} {'micro':>8} {'macro':>8} {'micro':>8} {'macro':>8}")
for name, flags in steps:
    with tempfile.TemporaryDirectory() as room:
        result, table = f"{room}/result.json", f"{room}/table.json"
        table_flags = ["--tune-table", table] if flags else []
        start = time.time()
        subprocess.run(
            [root / "target/release/classify", "evaluate", "--preset", "modapte90", folder]
            + ["--json", result, "-q", "-j", threads, *flags, *table_flags],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.time() - start
        test = json.load(open(result))
        leave_one_out = ["", ""]
        if flags:
            metrics = json.load(open(table))["figures"]
            leave_one_out = [f"{metrics[key]:.4f}" for key in ("micro_f1", "macro_f1")]
    metrics = [f"{test[key]['f1']:.4f}" for key in ("micro", "macro")]
    line = "".join(f" {value:>8}" for value in [*leave_one_out, *metrics])
    print(f"{name:42}{line} {seconds:8.1f}", flush=True)
