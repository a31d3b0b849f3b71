"""Allocation from 10 to 1,000,000 jobs: every method that finishes within its limit, each in its own process.

Run with `make bench-allocation`. Writes to `benchmarks/results/`:

* `allocation.csv` and `allocation.png`: the size sweep over 2, 3 and 4 resources (synthetic instances,
  tightness 0.8): objective, bound, gap, certified gap, seconds, peak memory;
* `allocation-tight.csv`: 20 instances of 200 jobs in which every resource binds, with the time of the check;
* `allocation-paper.csv`: marginal gain giving 100,000 tasks to 4,000 jobs, the case that Optimus reports;
* `allocation-knapsack.csv`: `exact` in a minute beside `milp:highs` in one, both on one thread, on knapsacks
  of 10 resources; and `milp:highs` in ten, where the bound of `exact` leaves open how far any plan is; it
  takes hours, and runs only with `--part knapsack`; rows of instances that are not asked for are kept;
* `allocation-khan.csv`: `exact` in a minute on Khan's own seven instances of this size, beside the largest
  published values; only with `--part khan`, and files I07 to I13 in `mmkp/` of the published data;
* `allocation.md`: the figures that matter, as tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from clusters import data_folder
from common import AT_DEFAULT, FIGURES, RESULTS, at_default, in_own_process, kept, peak_gib, say, store
from knapsacks import NEAR_SHARE, PUBLISHED, RESOURCES, SEEDS, khan, knapsack
from knapsacks import SIZES as KNAPSACKS

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
LIMIT_S = 30.0
"""Of every method but those that scale; one that misses it is not tried at larger sizes."""
SCALING = ("exact", "lagrangian", "marginal-gain", "marginal-gain-joint")
METHODS = (*SCALING, "geometric", "milp:highs", "milp:cbc", "cp-sat", "minlp")
COLUMNS = (
    "jobs",
    "resources",
    "method",
    "status",
    "limit",
    "objective",
    "bound",
    "gap",
    "certified_gap",
    "build_s",
    "solve_s",
    "total_s",
    "peak_gib",
    *AT_DEFAULT,
)
TIGHT_SEEDS = range(20)
KNAPSACK_LIMIT_S, REFERENCE_LIMIT_S = 60.0, 600.0
KNAPSACK_COLUMNS = (
    "jobs",
    "resources",
    "seed",
    "method",
    "limit_s",
    "status",
    "value",
    "bound_of_value",
    "gap_of_value",
    "certified_gap_of_value",
    "total_s",
    "processor_s",
    "peak_gib",
)
KHANS = range(7, 14)
"""100 to 400 groups of ten items that take ten resources."""
KHAN_COLUMNS = ("name", "method", "limit_s", "status", "published_value", *KNAPSACK_COLUMNS[6:])


def sweep_instance(jobs: int, resources: int) -> Any:
    """Return a synthetic instance of moderate tightness."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(jobs, resources, tightness=0.8, seed=1)


def tight_instance(jobs: int, resources: int, seed: int) -> Any:
    """Return an instance in which every resource binds and at most two units of each are to spare."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(jobs, resources, seed=seed, spare=2)


def paper_instance() -> Any:
    """Return 4,000 jobs that can use, and get, about 100,000 tasks."""
    import dataclasses

    from clusterplan.instances.allocation.generate import generate_allocation

    instance = generate_allocation(4_000, 3, seed=1)
    table = instance.table()
    # Communication is made cheap, so that every job can use 25 tasks and more.
    wide = dataclasses.replace(
        table,
        max_workers=0 * table.max_workers + 24,
        max_ps=0 * table.max_ps + 24,
        theta=table.theta * np.array([1, 1, 1, 0.1, 0.1]),
    )
    share = (table.worker_demand.sum(axis=0) + table.ps_demand.sum(axis=0)) * 12.8
    return instance.model_copy(
        update={"jobs": wide, "resources": dict(zip(table.resources, share.tolist(), strict=True))}
    )


def run_one(case: dict[str, Any]) -> dict[str, Any]:
    """Solve one case in this process and return its figures."""
    import clusterplan

    made = {"sweep": sweep_instance, "tight": tight_instance, "paper": paper_instance}[case["kind"]]
    instance = made(*case["arguments"])
    limit = case.get("limit_s", None if case["method"] in SCALING else LIMIT_S)
    started = time.perf_counter()
    try:
        result = clusterplan.solve(instance, case["method"], clusterplan.SolveOptions(time_limit_s=limit))
    except clusterplan.ClusterplanError as error:
        return {"method": case["method"], "status": "refused", "limit": str(error)[:60]}
    total = time.perf_counter() - started
    figures = {key: getattr(result, key) for key in FIGURES}
    figures |= {"method": case["method"], "build_s": result.build_s, "solve_s": total - result.build_s}
    figures |= {"total_s": total, "tasks": sum(e.ps + e.workers for e in result.plan or ())}
    if case["kind"] == "tight":
        checked = time.perf_counter()
        verification = clusterplan.verify(instance, result)
        figures |= {"verify_s": time.perf_counter() - checked, "verified": verification.ok}
        figures["claimed"] = "; ".join(verification.claimed)
    figures["peak_gib"] = peak_gib()
    return figures


def run_knapsack(case: dict[str, Any]) -> dict[str, Any]:
    """Solve a knapsack in this process and return its figures; gaps are shares of the knapsack's value.

    On a machine that others use, the processor time says how much of the limit was to be had.
    """
    import clusterplan

    instance, total = khan(Path(case["file"])) if "file" in case else knapsack(*case["arguments"])
    options = clusterplan.SolveOptions(time_limit_s=case["limit_s"], threads=1)
    started, worked = time.perf_counter(), time.process_time()
    result = clusterplan.solve(instance, case["method"], options)
    figures = {"status": result.status, "total_s": time.perf_counter() - started, "peak_gib": peak_gib()}
    figures["processor_s"] = time.process_time() - worked
    if result.objective is None or result.bound is None:
        return figures
    value = total - result.objective
    figures |= {"value": value, "bound_of_value": total - result.bound}
    figures |= {"gap_of_value": (result.objective - result.bound) / value}
    if result.certified_bound is not None:
        figures["certified_gap_of_value"] = (result.objective - result.certified_bound) / value
    return figures


def figures_of(case: dict[str, Any]) -> dict[str, Any]:
    """Run a case in a process of its own and return its row."""
    patience = 3600 if case["method"] in SCALING else 4 * LIMIT_S
    row = {"method": case["method"], **in_own_process(__file__, case, patience)[-1]}
    return row | (at_default(__file__, case, patience) if case["method"] == "exact" else {})


def sweep(sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Yield a row for every method at every size, while it keeps its limit."""
    given_up: set[tuple[str, int]] = set()
    for jobs in sizes:
        for resources in (2, 3, 4):
            for method in METHODS:
                if (method, resources) in given_up:
                    continue
                case = {"kind": "sweep", "arguments": [jobs, resources], "method": method}
                row = {"jobs": jobs, "resources": resources, **figures_of(case)}
                late = row["status"] in ("refused", "killed", "died") or row["total_s"] > 0.9 * LIMIT_S
                if late and method not in SCALING:
                    given_up.add((method, resources))
                yield row


def tight() -> Iterator[dict[str, Any]]:
    """Yield a row for each tight instance."""
    for resources in (3, 4):
        for seed in TIGHT_SEEDS:
            case = {"kind": "tight", "arguments": [200, resources, seed], "method": "exact"}
            yield {"jobs": 200, "resources": resources, "seed": seed, **figures_of(case)}


def knapsacks(sizes: tuple[int, ...], seeds: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Yield a row for each run on each knapsack."""
    unsettled = []
    for seed in seeds:
        for jobs in sizes:
            exact = run_of_knapsack(jobs, seed, "exact", KNAPSACK_LIMIT_S)
            yield exact
            yield run_of_knapsack(jobs, seed, "milp:highs", KNAPSACK_LIMIT_S)
            # A smaller certified gap says that no plan, however long it takes, is further above.
            if not exact.get("certified_gap_of_value", math.inf) <= NEAR_SHARE:
                unsettled.append((jobs, seed))
    for jobs, seed in unsettled:
        yield run_of_knapsack(jobs, seed, "milp:highs", REFERENCE_LIMIT_S)


def run_of_knapsack(jobs: int, seed: int, method: str, limit_s: float) -> dict[str, Any]:
    """Solve a knapsack in a process of its own and return its row."""
    case = {"kind": "knapsack", "arguments": [jobs, seed], "method": method, "limit_s": limit_s}
    row = {"jobs": jobs, "resources": RESOURCES, "seed": seed, "method": method, "limit_s": limit_s}
    return row | in_own_process(__file__, case, 4 * limit_s)[-1]


def khan_files() -> list[Path]:
    """Return those of Khan's larger instances that are there; say how many are not."""
    folder = data_folder("mmkp")
    files = [folder / f"I{number:02}" for number in KHANS] if folder else []
    found = [file for file in files if file.exists()]
    if len(found) < len(KHANS):
        where = "mmkp/ of ../shared/data or $CLUSTERPLAN_DATA"
        print(f"left out: {len(KHANS) - len(found)} of Khan's instances; not in {where}", file=sys.stderr)
    return found


def khans(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield a row for each of Khan's larger instances."""
    for file in files:
        case = {"kind": "knapsack", "file": str(file), "method": "exact", "limit_s": KNAPSACK_LIMIT_S}
        row = {"name": file.name, "method": "exact", "limit_s": KNAPSACK_LIMIT_S}
        row["published_value"] = PUBLISHED.get(file.name, math.nan)
        yield row | in_own_process(__file__, case, 4 * KNAPSACK_LIMIT_S)[-1]


def paper() -> Iterator[dict[str, Any]]:
    """Yield a row for each heuristic on the paper's case, and for what is best."""
    for method in ("marginal-gain", "marginal-gain-joint", "exact"):
        case = {"kind": "paper", "arguments": [], "method": method}
        yield {"jobs": 4_000, "resources": 3, **figures_of(case)}


def summarise_knapsacks() -> None:
    """Show how `exact` stands beside `milp:highs`."""
    import pandas as pd
    from allocation_report import knapsack_runs, knapsack_summary, table

    print(table(knapsack_summary(knapsack_runs(pd.read_csv(RESULTS / "allocation-knapsack.csv")))))


def main() -> None:
    """Run all parts, or one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument(
        "--part", choices=("sweep", "tight", "paper", "knapsack", "khan", "report"), action="append"
    )
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="most jobs of the sweep")
    parser.add_argument("--sizes", type=int, nargs="+", default=KNAPSACKS, help="jobs of the knapsacks")
    parser.add_argument("--seeds", type=int, nargs="+", default=tuple(SEEDS), help="of the knapsacks")
    given = parser.parse_args()
    if given.case:
        case = json.loads(given.case)
        say(run_knapsack(case) if case["kind"] == "knapsack" else run_one(case))
        return
    parts = given.part or ["tight", "paper", "sweep", "report"]
    if "tight" in parts:
        extra = ("seed", "verify_s", "verified", "claimed")
        store("allocation-tight", tight(), ("jobs", "resources", "seed", *COLUMNS[2:], *extra[1:]))
    if "paper" in parts:
        store("allocation-paper", paper(), (*COLUMNS, "tasks"))
    if "knapsack" in parts:
        asked = {(str(jobs), str(seed)) for jobs in given.sizes for seed in given.seeds}
        others = kept("allocation-knapsack", lambda row: (row["jobs"], row["seed"]) in asked)
        measured = knapsacks(tuple(given.sizes), tuple(given.seeds))
        store("allocation-knapsack", itertools.chain(others, measured), KNAPSACK_COLUMNS)
        summarise_knapsacks()
    if "khan" in parts and (files := khan_files()):
        store("allocation-khan", khans(files), KHAN_COLUMNS)
    if "sweep" in parts:
        store("allocation", sweep(tuple(size for size in SIZES if size <= given.largest)), COLUMNS)
    if "report" in parts:
        from allocation_report import write_report

        write_report(RESULTS)


if __name__ == "__main__":
    main()
