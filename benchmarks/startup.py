"""Whole-process times of the command beside a bare interpreter, interleaved in one run.

Run with `make bench-startup`; writes `benchmarks/results/startup.csv`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from runner import store_cells

RUNS = 9
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "clusterplan --help": [sys.executable, "-m", "clusterplan", "--help"],
    "solve a small allocation": [sys.executable, "-m", "clusterplan", "solve", "example:optimus-testbed"],
    "solve a small consolidation": [sys.executable, "-m", "clusterplan", "solve", "example:tiresias-testbed"],
}


def main() -> None:
    """Measure every command in turn, several times over, and print and store the medians."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for run in range(RUNS + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)  # noqa: S603 - the commands above
            if run:  # the first round warms the file cache
                seconds[name].append(time.perf_counter() - start)
    bare = statistics.median(seconds["python -c pass"])
    rows = [
        (
            name,
            f"{statistics.median(t):.3f}",
            f"{min(t):.3f}",
            f"{max(t):.3f}",
            f"{statistics.median(t) / bare:.1f}",
        )
        for name, t in seconds.items()
    ]
    header = ("command", "median_s", "min_s", "max_s", "times_bare_python")
    store_cells("startup", header, rows)
    for row in (header, *rows):
        print("  ".join(cell.ljust(28) if index == 0 else cell.rjust(17) for index, cell in enumerate(row)))


if __name__ == "__main__":
    main()
