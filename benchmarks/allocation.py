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
* `allocation-servers.csv`: workers and their servers together: `exact` beside the ways that decide one after
  the other, on generated servers, and on Pollux' placements if `pollux/` of the published data is there;
* `allocation.md`: the figures that matter, as tables.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from allocation_report import knapsack_runs, knapsack_summary, write_report
from knapsacks import NEAR_SHARE, PUBLISHED, RESOURCES, SEEDS, khan, knapsack
from knapsacks import SIZES as KNAPSACKS
from report import table
from runner import (
    AT_DEFAULT,
    FIGURES,
    RESULTS,
    Part,
    Row,
    at_default,
    data_folder,
    in_own_process,
    is_late,
    options,
    peak_gib,
    run_parts,
    solved,
    tell_absent,
    verified,
)

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
LIMIT_S = 30.0
"""Of every method but those that scale; one that misses it is not tried at larger sizes."""
SCALING = ("exact", "lagrangian", "marginal-gain", "marginal-gain-joint")
METHODS = (*SCALING, "geometric", "milp:highs", "milp:cbc", "cp-sat", "minlp")
SECONDS = ("build_s", "solve_s", "total_s")
COLUMNS = ("jobs", "resources", "method", *FIGURES, *SECONDS, "peak_gib", *AT_DEFAULT)
TIGHT_SEEDS = range(20)
KNAPSACK_LIMIT_S, REFERENCE_LIMIT_S = 60.0, 600.0
KNAPSACK_FIGURES = (
    *("value", "bound_of_value", "gap_of_value", "certified_gap_of_value"),
    *("total_s", "processor_s", "peak_gib"),
)
KNAPSACK_COLUMNS = ("jobs", "resources", "seed", "method", "limit_s", "status", *KNAPSACK_FIGURES)
KHANS = range(7, 14)
"""100 to 400 groups of ten items that take ten resources."""
KHAN_COLUMNS = ("name", "method", "limit_s", "status", "published_value", *KNAPSACK_FIGURES)


def sweep_instance(jobs: int, resources: int) -> Any:
    """Return a synthetic instance of moderate tightness."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(jobs, resources, tightness=0.8, seed=1)


def tight_instance(jobs: int, resources: int, seed: int) -> Any:
    """Return an instance in which every resource binds and at most two units of each are to spare."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(jobs, resources, seed=seed, spare=2)


def generated_servers(jobs: int, servers: int, shapes: int, seed: int) -> Any:
    """Return generated jobs on servers."""
    from clusterplan.instances.allocation.generate import generate_allocation

    return generate_allocation(jobs, servers=servers, shapes=shapes, seed=seed)


def pollux_servers(jobs: int, servers: int) -> Any:
    """Return jobs of a workload of Pollux with measured placements, on servers of 4 GPUs."""
    import clusterplan

    folder = data_folder("pollux")
    assert folder is not None
    apps = sorted(file.parent for file in folder.glob("*/placements.csv"))
    workload = sorted(folder.glob("workloads/*.csv"))[0]
    return clusterplan.import_pollux(folders=apps, workload=workload, servers=servers, jobs=jobs)


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


def measured(case: Row) -> Iterator[Row]:
    """Yield the figures of one case, solved in this process."""
    kind, method = case["kind"], case["method"]
    if kind == "knapsack":
        yield knapsack_figures(case)
        return
    made = {
        "sweep": sweep_instance,
        "tight": tight_instance,
        "paper": paper_instance,
        "generated": generated_servers,
        "pollux": pollux_servers,
    }[kind]
    instance = made(*case["arguments"])
    limit_s = case.get("limit_s", None if method in SCALING else LIMIT_S)
    result, row = solved(instance, method, limit_s, prepared=False)
    if result is None:
        yield row | {"limit": row["message"][:60]}
        return
    row["tasks"] = sum(e.ps + e.workers for e in result.plan or ())
    if kind in ("tight", "generated", "pollux"):
        row |= verified(instance, result) | {"peak_gib": peak_gib()}
    yield row


def knapsack_figures(case: Row) -> Row:
    """Solve a knapsack and return its figures; gaps are shares of the knapsack's value."""
    instance, total = khan(Path(case["file"])) if "file" in case else knapsack(*case["arguments"])
    result, row = solved(instance, case["method"], case["limit_s"], threads=1)
    if result.objective is None or result.bound is None:
        return row
    value = total - result.objective
    row |= {"value": value, "bound_of_value": total - result.bound}
    row |= {"gap_of_value": (result.objective - result.bound) / value}
    if result.certified_bound is not None:
        row["certified_gap_of_value"] = (result.objective - result.certified_bound) / value
    return row


def row_of(kind: str, method: str, *arguments: int) -> Row:
    """Run a case in a process of its own and return its row."""
    case = {"kind": kind, "arguments": arguments, "method": method}
    patience_s = 3600 if method in SCALING else 4 * LIMIT_S
    row = {"method": method, **in_own_process(case, patience_s)[-1]}
    return row | (at_default(case, patience_s) if method == "exact" else {})


def sweep(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for every method at every size, while it keeps its limit."""
    given_up: set[tuple[str, int]] = set()
    for jobs in SIZES:
        for resources in (2, 3, 4) if jobs <= given.largest else ():
            for method in METHODS:
                if (method, resources) in given_up:
                    continue
                row = row_of("sweep", method, jobs, resources)
                if method not in SCALING and is_late(row, LIMIT_S):
                    given_up.add((method, resources))
                yield {"jobs": jobs, "resources": resources, **row}


def tight(_: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each tight instance."""
    for resources in (3, 4):
        for seed in TIGHT_SEEDS:
            said = {"jobs": 200, "resources": resources, "seed": seed}
            yield said | row_of("tight", "exact", *said.values())


def knapsacks(given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each run on each knapsack."""
    unsettled = []
    for seed in given.seeds:
        for jobs in given.sizes:
            exact = run_of_knapsack(jobs, seed, "exact", KNAPSACK_LIMIT_S)
            yield exact
            yield run_of_knapsack(jobs, seed, "milp:highs", KNAPSACK_LIMIT_S)
            # A smaller certified gap says that no plan, however long it takes, is further above.
            if not exact.get("certified_gap_of_value", math.inf) <= NEAR_SHARE:
                unsettled.append((jobs, seed))
    for jobs, seed in unsettled:
        yield run_of_knapsack(jobs, seed, "milp:highs", REFERENCE_LIMIT_S)


def run_of_knapsack(jobs: int, seed: int, method: str, limit_s: float) -> Row:
    """Solve a knapsack in a process of its own and return its row."""
    row = {"jobs": jobs, "resources": RESOURCES, "seed": seed, "method": method, "limit_s": limit_s}
    case = {"kind": "knapsack", "arguments": [jobs, seed], "method": method, "limit_s": limit_s}
    return row | in_own_process(case, 4 * limit_s)[-1]


def khan_files() -> list[Path]:
    """Return those of Khan's larger instances that are there."""
    folder = data_folder("mmkp")
    files = [folder / f"I{number:02}" for number in KHANS] if folder else []
    return [file for file in files if file.exists()]


def khans(_: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each of Khan's larger instances; say how many are left out."""
    files = khan_files()
    if len(files) < len(KHANS):
        where = "mmkp/ of ../shared/data or $CLUSTERPLAN_DATA"
        print(f"left out: {len(KHANS) - len(files)} of Khan's instances; not in {where}", file=sys.stderr)
    for file in files:
        row = {"name": file.name, "method": "exact", "limit_s": KNAPSACK_LIMIT_S}
        case = {"kind": "knapsack", "file": str(file), **row}
        row["published_value"] = PUBLISHED.get(file.name, math.nan)
        yield row | in_own_process(case, 4 * KNAPSACK_LIMIT_S)[-1]


def paper(_: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each heuristic on the paper's case, and for what is best."""
    for method in ("marginal-gain", "marginal-gain-joint", "exact"):
        yield {"jobs": 4_000, "resources": 3, **row_of("paper", method)}


def servers(_: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each method on each instance with servers."""
    tell_absent("pollux")
    cases = [("generated", (*size, shapes, seed)) for size, shapes, seed in GENERATED_SERVERS]
    cases += [("pollux", size) for size in POLLUX_SERVERS if data_folder("pollux")]
    for kind, arguments in cases:
        jobs, count, *rest = arguments
        said = {"source": kind, "jobs": jobs, "servers": count}
        said |= dict(zip(("shapes", "seed"), rest, strict=False))
        limit_s = 60.0 if count <= MANY_SERVERS else 120.0
        for method in SERVER_METHODS:
            case = {"kind": kind, "arguments": arguments, "method": method, "limit_s": limit_s}
            yield {**said, "method": method, "limit_s": limit_s, **in_own_process(case, 4 * limit_s)[-1]}


GENERATED_SERVERS = [
    *(((60, 40), shapes, seed) for shapes in (1, 3) for seed in range(3)),
    *(((120, 80), 3, seed) for seed in range(2)),
    *(((1_000, 700), shapes, 0) for shapes in (1, 3)),
]
POLLUX_SERVERS = [(20, 16), (100, 50), (400, 200), (1_000, 500)]
"""Jobs and servers."""
MANY_SERVERS = 200
"""Instances with more servers have two minutes."""
SERVER_METHODS = ("exact", "optimus", "pool-then-pack")
SERVER_COLUMNS = ("source", "jobs", "servers", "shapes", "seed", "method", "limit_s", *FIGURES, *SECONDS)
TIGHT_COLUMNS = ("jobs", "resources", "seed", *COLUMNS[2:], "verify_s", "verified", "claimed")
PARTS = {
    "tight": Part("allocation-tight", tight, TIGHT_COLUMNS),
    "paper": Part("allocation-paper", paper, (*COLUMNS, "tasks")),
    "knapsack": Part(
        "allocation-knapsack",
        knapsacks,
        KNAPSACK_COLUMNS,
        lambda given, row: int(row["jobs"]) in given.sizes and int(row["seed"]) in given.seeds,
        always=False,
    ),
    "khan": Part(
        "allocation-khan",
        khans,
        KHAN_COLUMNS,
        lambda _, row: row["name"] in [file.name for file in khan_files()],
        always=False,
    ),
    "servers": Part("allocation-servers", servers, (*SERVER_COLUMNS, "verify_s", "verified", "message")),
    "sweep": Part("allocation", sweep, COLUMNS),
}


def main() -> None:
    """Run all parts, or some; show how `exact` stands beside `milp:highs` on knapsacks."""
    parser = options(__doc__, largest=(SIZES[-1], "most jobs of the sweep"))
    parser.add_argument("--sizes", type=int, nargs="+", default=KNAPSACKS, help="jobs of the knapsacks")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the knapsacks")
    if PARTS["knapsack"].table in run_parts(parser, PARTS, measured, write_report):
        print(table(knapsack_summary(knapsack_runs(RESULTS))))


if __name__ == "__main__":
    main()
