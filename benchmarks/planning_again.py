"""Large allocations as whole commands: solved, verified, and planned again after 1 % of the jobs changed.

Run with `make bench-again`; writes `benchmarks/results/planning-again.csv` and `.md`. Of the jobs a quarter
of a percent each ends, arrives, has fewer steps left, and asks for more. `cold` knows nothing of the earlier
result; `warm` has its prices and its plan. Processor seconds and the most memory are those of each process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from runner import RESULTS, machine_load, options, store_cells

HEADER = (
    "jobs",
    "resources",
    "command",
    "processor_s",
    "peak_gib",
    "gap",
    "certified_gap",
    "changed",
    "load",
)
COMMAND = [sys.executable, "-m", "clusterplan"]


def changed(document: Path, seed: int) -> Path:
    """Write the instance with 1 % of its jobs changed, and return its path."""
    data = yaml.safe_load(document.read_text(encoding="utf-8"))
    jobs = pd.read_parquet(document.parent / data["jobs"])
    order, part = np.random.default_rng(seed).permutation(len(jobs)), len(jobs) // 400
    larger, shorter, like, ended = (jobs.index[order[k * part : (k + 1) * part]] for k in range(4))
    jobs.loc[larger, "variants.0.worker_demand.cpu"] += 1
    jobs.loc[shorter, "remaining_steps"] = np.maximum(1, (0.8 * jobs.loc[shorter, "remaining_steps"]).round())
    new = jobs.loc[like].assign(name="new " + jobs.loc[like, "name"])
    after = document.with_name(f"{document.stem}-next.yaml")
    data |= {"jobs": f"{after.stem}-jobs.parquet", "name": f"{data['name']}-next"}
    pd.concat([jobs.drop(ended), new]).to_parquet(document.parent / data["jobs"], index=False)
    after.write_text(yaml.safe_dump(data), encoding="utf-8")
    return after


def measured(*arguments: object) -> tuple[float, float]:
    """Run the command, and return its processor seconds and the most memory that it held, in GiB."""
    command = [*COMMAND, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - the command above
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 5):  # 5: the time limit ended the search
        raise SystemExit(f"{' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def configurations(result: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the configuration of each job in a plan."""
    return {entry["job"]: (entry["variant"], entry["ps"], entry["workers"]) for entry in result["plan"]}


def rows_of(jobs: int, resources: int, folder: Path) -> list[tuple[object, ...]]:
    """Measure one size; return a row for each command."""
    document = folder / f"{jobs}.yaml"
    old, cold, warm = (folder / f"{name}.json" for name in ("old", "cold", "warm"))
    measured("generate", "allocation", "--jobs", jobs, "--resources", resources, "--output", document)
    after = changed(document, seed=5)
    commands: list[tuple[str, Path, tuple[object, ...]]] = [
        ("solve", old, (document, "--keep-cuts", "--output", old)),
        ("verify", old, (document, old)),
        ("solve again, cold", cold, (after, "--output", cold)),
        ("solve again, warm", warm, (after, "--warm-start", old, "--output", warm)),
    ]
    rows: list[tuple[object, ...]] = []
    before: dict[str, tuple[Any, ...]] = {}
    for name, stored, arguments in commands:
        seconds, gib = measured(name.partition(" ")[0], *arguments)
        result = json.loads(stored.read_text(encoding="utf-8"))
        now = configurations(result)
        before = before or now
        both = [job for job in before if job in now]
        share = sum(before[job] != now[job] for job in both) / len(both)
        gaps = (f"{result['gap']:.3g}", f"{result['certified_gap']:.3g}")
        rows.append(
            (jobs, resources, name, f"{seconds:.2f}", f"{gib:.2f}", *gaps, f"{share:.4f}", machine_load())
        )
    return rows


def report(rows: list[tuple[object, ...]]) -> str:
    """Return the figures as a page."""
    lines = [
        f"| {jobs:,} × {resources} | {name} | {seconds} | {gib} | {gap} | {certified} | {share} |"
        for jobs, resources, name, seconds, gib, gap, certified, share, _ in rows
    ]
    return f"""# Large allocations, and planning again: measured

Synthetic jobs from a Parquet table; whole commands with their reading, check and output. Of 1 % of the jobs
a quarter each ends, arrives, has fewer steps left, or asks for more; *changed* is the share of the jobs that
stay whose configuration differs from the first plan.

| jobs | command | processor s | peak GiB | gap | certified gap | changed |
|--:|---|--:|--:|--:|--:|--:|
{chr(10).join(lines)}
"""


def main() -> None:
    """Measure every size, and print and store the figures."""
    given = options(__doc__)
    given.add_argument("--jobs", type=int, nargs="*", default=[100_000, 1_000_000])
    rows: list[tuple[object, ...]] = []
    for jobs in given.parse_args().jobs:
        with tempfile.TemporaryDirectory() as name:
            rows += rows_of(jobs, 4, Path(name))
    store_cells("planning-again", HEADER, rows)
    text = report(rows)
    (RESULTS / "planning-again.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
