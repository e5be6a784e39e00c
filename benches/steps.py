"""What each step of tuning gives on Reuters-21578, on left-out training documents and on the test.

    cargo build --release && python benches/steps.py FOLDER [THREADS]

FOLDER is that of `--preset modapte90`. Every line adds to the one before what its name says; k, vote
and decision are tuned anew for micro + macro F1 in each (`--tune=votes`). The last lines leave
everything to `--tune`.
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
    ("a threshold a label: scut", [*votes, "--rule", "scut"]),
    ("a threshold a label: micromacro", [*votes, "--rule", "micromacro"]),
    ("a threshold a label: scut-smoothed", [*votes, "--rule", "scut-smoothed"]),
    ("+ stems, title twice", [*votes, "--rule", "scut-smoothed", *words]),
    ("+ 4,000 terms of highest chi2", [*votes, "--rule", "scut-smoothed", *words, "--select", "chi2:4000"]),
    (
        "+ (chi2 / N)^0.25 in the weights",
        [*votes, "--rule", "scut-smoothed", *words, "--select", "chi2:4000", "--chi2-power", "0.25"],
    ),
    ("--tune --objective micro+macro", ["--tune", "--objective", "micro+macro"]),
    ("--tune (micro F1)", ["--tune"]),
]

print(f"{'':42} {'left out':>17} {'test':>17} {'seconds':>8}")
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
        left_out = ["", ""]
        if flags:
            figures = json.load(open(table))["figures"]
            left_out = [f"{figures[key]:.4f}" for key in ("micro_f1", "macro_f1")]
    figures = [f"{test[key]['f1']:.4f}" for key in ("micro", "macro")]
    line = "".join(f" {value:>8}" for value in [*left_out, *figures])
    print(f"{name:42}{line} {seconds:8.1f}", flush=True)
