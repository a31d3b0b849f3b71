"""What running a batch costs beside solving it: 200 small instances of all kinds, one worker and two.

Run with `make bench-batch`; writes `benchmarks/results/batch.csv` and `batch.md`. Whole processes,
interleaved in one run, start-up of the command and of its workers included.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner import RESULTS, store_cells

import clusterplan
from clusterplan.instances.allocation.generate import generate_allocation
from clusterplan.instances.consolidation.generate import generate_consolidation
from clusterplan.instances.staging.generate import generate_staging

COUNT = 200
ROUNDS = 5
HEADER = ("workers", "instances", "wall_s", "min_s", "max_s", "solving_s", "overhead_ms_per_instance")


def make_instances(folder: Path) -> list[str]:
    """Write the instances: allocation, staging and consolidation in turn, sizes that differ."""
    made = []
    for number in range(COUNT):
        kind = number % 3
        if kind == 0:
            instance: clusterplan.Instance = generate_allocation(20 + number % 50, seed=number)
        elif kind == 1:
            instance = generate_staging(8 + number % 12, 2 + number % 4, seed=number)
        else:
            instance = generate_consolidation(8 + number % 20, 12 + number % 30, seed=number)
        path = folder / f"{number:03}.yaml"
        clusterplan.save(instance, path)
        made.append(str(path))
    return made


def run(files: list[str], workers: int, folder: Path) -> tuple[float, float]:
    """Solve all files in a fresh process; return its seconds, and the sum of the solves' own."""
    command = [sys.executable, "-m", "clusterplan", "solve", *files, "--threads", "1", "--quiet"]
    command += ["--jobs", str(workers), "--output", str(folder)]
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - the command above
    wall = time.perf_counter() - start
    lines = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    results = [json.loads(line)["result"] for line in lines]
    if len(results) != COUNT or not all(result["status"] == "optimal" for result in results):
        raise SystemExit("not every instance was solved to optimality")
    return wall, sum(result["runtime_s"] for result in results)


def main() -> None:
    """Measure one and two workers in turn, and print and store the medians."""
    measured: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        files = make_instances(Path(name))
        for round_ in range(ROUNDS):
            for workers, times in measured.items():
                times.append(run(files, workers, Path(name) / f"out-{workers}-{round_}"))
    rows = []
    for workers, times in measured.items():
        walls = [wall for wall, _ in times]
        solving = statistics.median(solved for _, solved in times)
        over = statistics.median(workers * wall - solved for wall, solved in times)
        figures = (statistics.median(walls), min(walls), max(walls), solving, 1000 * over / COUNT)
        rows.append((workers, COUNT, *(f"{figure:.3f}" for figure in figures)))
    ratio = statistics.median(two / one for (one, _), (two, _) in zip(measured[1], measured[2], strict=True))
    store_cells("batch", HEADER, rows)
    text = report(rows, ratio)
    (RESULTS / "batch.md").write_text(text, encoding="utf-8")
    print(text)


def report(rows: list[tuple[object, ...]], ratio: float) -> str:
    """Return the figures as a page."""
    lines = [
        "# Batches, measured",
        "",
        f"{COUNT} small synthetic instances, allocation, staging and consolidation in turn, solved by "
        f"`exact` with one thread each; medians of {ROUNDS} whole processes, interleaved. Overhead is worker "
        "time (seconds × workers) less the solves' own seconds: start-up, reading, journal, printing.",
        "",
        "| workers | seconds | least | most | solving | overhead per instance |",
        "|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {w} | {wall} | {low} | {high} | {own} | {over} ms |"
            for w, _, wall, low, high, own, over in rows
        ),
        "",
        f"Two workers take {ratio:.2f} of the time of one.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
