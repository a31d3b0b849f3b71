"""Processor time and memory of 30 solves, as ratios to a yardstick in the same run, beside those recorded.

Run with `make bench-recorded`; ``--record`` writes `benchmarks/results/recorded.csv`. Each solve is a process
of the command line, with loops that are compiled already; before each the yardstick is measured, since a
machine's speed changes by the minute. The exit code is 1 if a solve takes over 1.15 times what is recorded.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from runner import RESULTS, store_cells

ROUNDS = 5
MOST = 1.15
"""A ratio may be so many times the recorded one."""
YARDSTICK = """
import numpy as np
from scipy.optimize import linprog
rng = np.random.default_rng(1)
total = 0
for number in range(2_000_000):
    total += number % 7
matrix = rng.random((700, 700))
for _ in range(6):
    matrix = matrix @ matrix / 350
    np.sort(rng.random(400_000))
linprog(-rng.random(300), A_ub=rng.random((150, 300)), b_ub=np.ones(150), method="highs")
"""
"""Plain Python, NumPy and HiGHS, which are what solves consist of."""
CASES: dict[str, tuple[str, str]] = {
    **{
        f"{solver} {words}": (words, solver)
        for words, solvers in (
            ("allocation --jobs 20000 --seed 1", ("exact", "lagrangian", "marginal-gain")),
            ("allocation --jobs 20000 --spare 2 --seed 2", ("exact", "lagrangian")),
            ("allocation --jobs 500 --seed 3", ("milp:highs",)),
            ("staging --layers 300 --types 32 --limits none --seed 1", ("exact",)),
            ("staging --layers 200 --types 16 --limits none --seed 1", ("greedy",)),
            ("staging --layers 100 --types 8 --limits loose --seed 2", ("exact", "greedy")),
            ("staging --layers 40 --types 6 --limits tight --seed 3", ("exact",)),
            ("ctr --layers 16 --seed 1", ("exact", "genetic")),
            ("consolidation --servers 10000 --jobs 15000 --seed 1", ("exact", "best-fit", "bin-centric")),
            (
                "consolidation --servers 3000 --jobs 4500 --resources 3 --seed 2",
                ("exact", "first-fit-decreasing"),
            ),
            ("consolidation --servers 2000 --jobs 3000 --shapes 4 --seed 3", ("exact",)),
            ("consolidation --servers 10 --jobs 15 --resources 3 --devices --seed 1", ("exact",)),
            ("scheduling --jobs 10000 --gpus 128 --seed 1", ("fifo", "srsf", "las", "gittins", "drf")),
            ("scheduling --jobs 300 --gpus 64 --seed 2", ("exact", "price", "gandiva-timeslice")),
            ("scheduling --jobs 300 --gpus 64 --malleable --seed 3", ("optimus", "max-min")),
        )
        for solver in solvers
    }
}
"""Name → words of `generate`, and the solver."""


def main() -> int:
    """Measure all cases in turn, several times over; print, and store or compare the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="store what is measured")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    asked = parser.parse_args()
    chosen = {name: case for name, case in CASES.items() if asked.only in name}
    with tempfile.TemporaryDirectory() as folder:
        rows = [_row(name, *chosen[name], Path(folder), asked.rounds) for name in chosen]
    if asked.record:
        store_cells("recorded", HEADER, rows)
        return 0
    with (RESULTS / "recorded.csv").open(newline="", encoding="utf-8") as file:
        before = {row[0]: row for row in csv.reader(file)}
    worse = [
        f"{row[0]}: {what} {now} times the yardstick, recorded {then}"
        for row in rows
        for what, now, then in zip(HEADER[1:3], row[1:3], before.get(row[0], NEVER)[1:3], strict=True)
        if float(now) > MOST * float(then)
    ]
    print("\n".join(worse) or f"all within {MOST} times what is recorded")
    return 1 if worse else 0


NEVER = ("", "0", "0")
"""Stands for a solve of which nothing is recorded, so that it is named."""
HEADER = ("solve", "cpu_ratio", "memory_ratio", "cpu_s", "memory_mib")


def _row(name: str, words: str, solver: str, folder: Path, rounds: int) -> tuple[str, ...]:
    """Return the medians of a case: its ratios to the yardstick, its seconds and its memory."""
    command = [sys.executable, "-m", "clusterplan"]
    file, result = str(folder / "instance.json"), str(folder / "result.json")
    _measured([*command, "generate", *words.split(), "--output", file])
    options = ["--solver", solver, "--time-limit", "0", "--threads", "1", "--seed", "1", "--quiet"]
    solve = [*command, "solve", file, *options, "--format", "json", "--output", result]
    _measured(solve)  # compiles what has to be compiled
    pairs = [(_measured([sys.executable, "-c", YARDSTICK]), _measured(solve)) for _ in range(rounds)]
    cpu = statistics.median(case[0] / yardstick[0] for yardstick, case in pairs)
    memory = statistics.median(case[1] / yardstick[1] for yardstick, case in pairs)
    seconds, mib = (statistics.median(case[k] for _, case in pairs) for k in (0, 1))
    row = (name, f"{cpu:.3f}", f"{memory:.3f}", f"{seconds:.2f}", f"{mib:.0f}")
    print(name.ljust(76), *(cell.rjust(8) for cell in row[1:]), flush=True)
    return row


def _measured(command: list[str]) -> tuple[float, float]:
    """Return the processor's seconds and the peak memory in MiB of a process."""
    # Whether Python keeps what it compiles would count more than the solve.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(  # noqa: S603 - one of the commands above
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
